/* SPDX-License-Identifier: MIT */
/* Calendars from their configuration keys: sessions, weekdays, holidays. */
#include "core/calendar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const weekday_names[7] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};

/* The next item of a comma-separated list, without spaces around it. Return: false at the end. */
static bool next_item(const char **list, const char **ret_item, size_t *ret_length)
{
    const char *item = *list;
    size_t length;

    if (!item)
        return false;
    length = strcspn(item, ",");
    *list = item[length] ? item + length + 1 : NULL;
    for (; length > 0 && item[0] == ' '; length--)
        item++;
    while (length > 0 && item[length - 1] == ' ')
        length--;
    *ret_item = item;
    *ret_length = length;
    return true;
}

/* Exactly `width` digits. Return: their number, or -1. */
static int digits(const char *text, size_t width)
{
    int number = 0;

    for (size_t i = 0; i < width; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -1;
        number = number * 10 + (text[i] - '0');
    }
    return number;
}

/* "HH:MM", up to 24:00. Return: seconds, or -1. */
static int32_t clock_time(const char *text)
{
    int hour = digits(text, 2), minute = hour < 0 || text[2] != ':' ? -1 : digits(text + 3, 2);

    if (hour < 0 || minute < 0 || minute > 59 || hour * 60 + minute > 24 * 60)
        return -1;
    return hour * 3600 + minute * 60;
}

static int by_start(const void *a, const void *b)
{
    const struct kr_window *x = a, *y = b;

    return (x->start_s > y->start_s) - (x->start_s < y->start_s);
}

static int parse_sessions(const char *sessions, struct kr_window *ret, size_t *ret_n,
                          struct kr_error *error)
{
    const char *item;
    size_t length, n = 0;

    while (next_item(&sessions, &item, &length)) {
        int32_t start_s = length == 11 && item[5] == '-' ? clock_time(item) : -1;
        int32_t end_s = start_s < 0 ? -1 : clock_time(item + 6);

        if (start_s < 0 || start_s >= KR_S_PER_DAY || end_s < 0)
            return kr_error_set(error, -EINVAL,
                                "sessions: expected HH:MM-HH:MM[,...], found \"%.*s\"",
                                (int)KR_MIN(length, (size_t)40), item);
        if (end_s <= start_s)
            end_s += KR_S_PER_DAY;
        ret[n++] = (struct kr_window){start_s, end_s};
    }
    qsort(ret, n, sizeof(*ret), by_start);
    for (size_t i = 1; i < n; i++)
        if (ret[i].start_s < ret[i - 1].end_s)
            return kr_error_set(error, -EINVAL,
                                "sessions: expected sessions that do not overlap, found one that "
                                "starts at %02d:%02d inside another",
                                ret[i].start_s / 3600, ret[i].start_s / 60 % 60);
    *ret_n = n;
    return 0;
}

static int weekday_of_name(const char *name)
{
    for (int w = 0; w < 7; w++)
        if (strncmp(name, weekday_names[w], 3) == 0)
            return w;
    return -1;
}

static int parse_weekdays(const char *weekdays, bool ret[7], struct kr_error *error)
{
    const char *item;
    size_t length;

    while (next_item(&weekdays, &item, &length)) {
        int first = length == 3 || (length == 7 && item[3] == '-') ? weekday_of_name(item) : -1;
        int last = length == 7 && first >= 0 ? weekday_of_name(item + 4) : first;

        if (first < 0 || last < 0)
            return kr_error_set(error, -EINVAL,
                                "weekdays: expected mon, ... sun or mon-fri[,...], found \"%.*s\"",
                                (int)KR_MIN(length, (size_t)40), item);
        for (int w = first; ret[w] = true, w != last; w = (w + 1) % 7)
            ;
    }
    return 0;
}

static int parse_holidays(const char *holidays, int64_t *ret, size_t *ret_n, struct kr_error *error)
{
    const char *item;
    size_t length, n = 0;

    while (next_item(&holidays, &item, &length)) {
        struct kr_civil civil = {0};
        int year = -1, month = -1, day = -1;

        if (length == 10 && item[4] == '-' && item[7] == '-') {
            year = digits(item, 4);
            month = digits(item + 5, 2);
            day = digits(item + 8, 2);
        }
        civil.year = year;
        civil.month = (uint8_t)KR_MAX(month, 0);
        civil.day = (uint8_t)KR_MAX(day, 0);
        if (year < 0 || !kr_civil_valid(&civil))
            return kr_error_set(error, -EINVAL,
                                "holidays: expected YYYY-MM-DD[,...], found \"%.*s\"",
                                (int)KR_MIN(length, (size_t)40), item);
        ret[n++] = kr_civil_day(civil.year, civil.month, civil.day);
    }
    *ret_n = n;
    return 0;
}

static size_t count_items(const char *list)
{
    size_t n = 1;

    for (; *list; list++)
        n += *list == ',';
    return n;
}

int kr_calendar_new(const struct kr_zone *zone, const char *sessions, const char *weekdays,
                    const char *holidays, struct kr_calendar **ret, struct kr_error *error)
{
    kr_cleanup(kr_freep) struct kr_window *windows = NULL;
    kr_cleanup(kr_freep) int64_t *days = NULL;
    bool open[7] = {false};
    size_t n_sessions, n_days = 0, n[7] = {0};
    int result = 0;

    sessions = sessions && sessions[0] ? sessions : "00:00-24:00";
    weekdays = weekdays && weekdays[0] ? weekdays : "mon-sun";
    n_sessions = count_items(sessions);
    windows = kr_alloc(n_sessions, 7 * sizeof(*windows));
    days = kr_alloc(holidays ? count_items(holidays) : 0, sizeof(*days));
    if (!windows || !days)
        return kr_error_set(error, -ENOMEM, "calendar: out of memory");
    result = parse_sessions(sessions, windows, &n_sessions, error);
    if (result == 0)
        result = parse_weekdays(weekdays, open, error);
    if (result == 0 && holidays && holidays[0])
        result = parse_holidays(holidays, days, &n_days, error);
    if (result < 0)
        return result;
    /* One copy for each open weekday; the first stands. */
    for (size_t w = 0, copies = 0; w < 7; w++) {
        n[w] = open[w] ? n_sessions : 0;
        if (open[w] && copies++ > 0)
            memcpy(windows + (copies - 1) * n_sessions, windows, n_sessions * sizeof(*windows));
    }
    result = kr_calendar_from_windows(zone, windows, n, days, n_days, ret);
    if (result < 0)
        return kr_error_set(error, result, "calendar: out of memory");
    return 0;
}
