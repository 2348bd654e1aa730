/* SPDX-License-Identifier: MIT */
#include "core/zone.h"

#include <errno.h>
#include <glib.h>
#include <stdlib.h>
#include <string.h>

struct kr_zone {
    GTimeZone *zone;
    char name[64];
};

/* No zone is further from UTC and no clock jumps by more than this (Pacific/Apia skipped a day). */
#define REACH_S (26 * INT64_C(3600))

/* GLib would read paths outside of the database, and POSIX rules, whose signs run the other way. */
static bool name_allowed(const char *name)
{
    static const char *const with_digits[] = {"EST5EDT", "CST6CDT", "MST7MDT", "PST8PDT",
                                              "GMT0",    "GMT+0",   "GMT-0"};
    size_t length = strlen(name);

    if (length < 1 || length >= sizeof(((struct kr_zone *)NULL)->name) || name[0] == '/')
        return false;
    if (name[0] == '+' || name[0] == '-')
        return strspn(name + 1, "0123456789:") == length - 1;
    for (size_t i = 0; i < length; i++)
        if (!g_ascii_isalnum(name[i]) && !strchr("/_+-", name[i]))
            return false;
    if (strchr(name, '/') || !strpbrk(name, "0123456789"))
        return true;
    for (size_t i = 0; i < KR_ARRAY_LENGTH(with_digits); i++)
        if (strcmp(name, with_digits[i]) == 0)
            return true;
    return false;
}

int kr_zone_open(const char *name, struct kr_zone **ret, struct kr_error *error)
{
    GTimeZone *found = name_allowed(name) ? g_time_zone_new_identifier(name) : NULL;
    struct kr_zone *zone;

    if (!found)
        return kr_error_set(error, -ENOENT,
                            "time zone: expected a name of the tz database such as Europe/Berlin, "
                            "found \"%.64s\"",
                            name);
    zone = calloc(1, sizeof(*zone));
    if (!zone) {
        g_time_zone_unref(found);
        return kr_error_set(error, -ENOMEM, "time zone: out of memory");
    }
    zone->zone = found;
    strcpy(zone->name, name);
    *ret = zone;
    return 0;
}

void kr_zone_free(struct kr_zone **zone)
{
    if (!*zone)
        return;
    g_time_zone_unref((*zone)->zone);
    free(*zone);
    *zone = NULL;
}

const char *kr_zone_name(const struct kr_zone *zone)
{
    return zone ? zone->name : "UTC";
}

/* Seconds east of UTC at an instant. */
static int64_t offset_at(const struct kr_zone *zone, int64_t t_s)
{
    if (!zone)
        return 0;
    return g_time_zone_get_offset(
        zone->zone, g_time_zone_find_interval(zone->zone, G_TIME_TYPE_UNIVERSAL, t_s));
}

int64_t kr_zone_local(const struct kr_zone *zone, int64_t t_ns)
{
    int64_t t_s = kr_floor_div(t_ns, KR_NS_PER_S);

    return t_s + offset_at(zone, t_s);
}

void kr_zone_civil(const struct kr_zone *zone, int64_t t_ns, struct kr_civil *ret)
{
    int64_t local_s = kr_zone_local(zone, t_ns);
    int64_t second = kr_floor_mod(local_s, KR_S_PER_DAY);

    kr_civil_date(kr_floor_div(local_s, KR_S_PER_DAY), ret);
    ret->hour = (uint8_t)(second / 3600);
    ret->minute = (uint8_t)(second / 60 % 60);
    ret->second = (uint8_t)(second % 60);
}

void kr_zone_stamp(const struct kr_zone *zone, int64_t t_ns, struct kr_stamp *ret)
{
    struct kr_civil civil;

    kr_zone_civil(zone, t_ns, &civil);
    ret->minute = civil.minute;
    ret->hour = civil.hour;
    ret->weekday = (uint8_t)kr_weekday(kr_civil_day(civil.year, civil.month, civil.day));
    ret->day = civil.day;
    ret->month = civil.month;
}

/* The instants at which the zone's clocks show local_s, in order: at most two are told apart, the
 * first and the last. Return: how many. */
static int instants_of(const struct kr_zone *zone, int64_t local_s, int64_t ret_s[2])
{
    gint first, last;
    int n = 0;

    if (!zone) {
        ret_s[0] = local_s;
        return 1;
    }
    first = g_time_zone_find_interval(zone->zone, G_TIME_TYPE_UNIVERSAL, local_s - REACH_S);
    last = g_time_zone_find_interval(zone->zone, G_TIME_TYPE_UNIVERSAL, local_s + REACH_S);
    for (gint i = first; i <= last; i++) {
        int64_t t_s = local_s - g_time_zone_get_offset(zone->zone, i);

        if (g_time_zone_find_interval(zone->zone, G_TIME_TYPE_UNIVERSAL, t_s) != i)
            continue;
        ret_s[n == 0 ? 0 : 1] = t_s;
        n = n == 0 ? 1 : 2;
    }
    return n;
}

static int kr_must_check to_ns(int64_t t_s, int64_t *ret_t_ns)
{
    int64_t t_ns;

    if (__builtin_mul_overflow(t_s, KR_NS_PER_S, &t_ns))
        return -ERANGE;
    *ret_t_ns = t_ns;
    return 0;
}

int kr_zone_utc_local(const struct kr_zone *zone, int64_t local_s, int64_t after_ns,
                      int64_t *ret_t_ns)
{
    const int64_t limit_s = INT64_MAX / KR_NS_PER_S + 2 * REACH_S;
    int64_t t_s[2], t_ns[2];
    int n;

    if (local_s > limit_s || local_s < -limit_s)
        return -ERANGE;
    n = instants_of(zone, local_s, t_s);
    if (n == 0)
        return -ENOENT;
    for (int i = 0; i < n; i++)
        if (to_ns(t_s[i], &t_ns[i]) < 0)
            return -ERANGE;
    *ret_t_ns = n == 2 && t_ns[0] <= after_ns && t_ns[1] > after_ns ? t_ns[1] : t_ns[0];
    return 0;
}

int kr_zone_utc_from(const struct kr_zone *zone, int64_t local_s, int64_t after_ns,
                     int64_t *ret_t_ns)
{
    int result = kr_zone_utc_local(zone, local_s, after_ns, ret_t_ns);
    int64_t before, after;

    if (result != -ENOENT)
        return result;
    /* The clocks jump over local_s once in here: bisect for the first instant that shows more. */
    before = local_s - REACH_S;
    after = local_s + REACH_S;
    while (after - before > 1) {
        int64_t middle = before + (after - before) / 2;

        if (middle + offset_at(zone, middle) > local_s)
            after = middle;
        else
            before = middle;
    }
    return to_ns(after, ret_t_ns);
}

int64_t kr_zone_time_of_day(const struct kr_zone *zone, int64_t t_ns, int64_t *ret_day)
{
    int64_t local_s = kr_zone_local(zone, t_ns);
    int64_t day = kr_floor_div(local_s, KR_S_PER_DAY), first_ns;

    *ret_day = day;
    if (kr_zone_utc_from(zone, day * KR_S_PER_DAY, INT64_MIN, &first_ns) == 0 && first_ns == t_ns)
        return 0;
    return local_s - day * KR_S_PER_DAY;
}

int kr_zone_utc(const struct kr_zone *zone, const struct kr_civil *civil, int64_t after_ns,
                int64_t *ret_t_ns)
{
    int64_t day;

    if (!kr_civil_valid(civil))
        return -EINVAL;
    day = kr_civil_day(civil->year, civil->month, civil->day);
    return kr_zone_utc_local(
        zone, day * KR_S_PER_DAY + civil->hour * 3600 + civil->minute * 60 + civil->second,
        after_ns, ret_t_ns);
}

static bool leap_year(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days from 1970-01-01 to the first of January of `year`. */
static int64_t year_day(int64_t year)
{
    int64_t past = year - 1;

    return 365 * past + kr_floor_div(past, 4) - kr_floor_div(past, 100) + kr_floor_div(past, 400) -
           719162; /* 0001-01-01 to 1970-01-01 */
}

static const uint8_t month_lengths[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

static unsigned month_length(int64_t year, unsigned month)
{
    return month_lengths[month - 1] + (month == 2 && leap_year(year));
}

int64_t kr_civil_day(int year, unsigned month, unsigned day)
{
    int64_t days = year_day(year);

    for (unsigned m = 1; m < month; m++)
        days += month_length(year, m);
    return days + day - 1;
}

void kr_civil_date(int64_t day, struct kr_civil *ret)
{
    /* 400 years have 146,097 days: the estimate is off by one year at most. */
    int64_t year = 1970 + kr_floor_div(day * 400, 146097);
    unsigned month = 1;
    int64_t rest;

    if (year_day(year) > day)
        year--;
    else if (year_day(year + 1) <= day)
        year++;
    for (rest = day - year_day(year); rest >= month_length(year, month); month++)
        rest -= month_length(year, month);
    ret->year = (int)year;
    ret->month = (uint8_t)month;
    ret->day = (uint8_t)(rest + 1);
}

bool kr_civil_valid(const struct kr_civil *civil)
{
    return civil->month >= 1 && civil->month <= 12 && civil->day >= 1 &&
           civil->day <= month_length(civil->year, civil->month) && civil->hour < 24 &&
           civil->minute < 60 && civil->second < 60;
}

unsigned kr_weekday(int64_t day)
{
    return (unsigned)kr_floor_mod(day + 3, 7); /* 1970-01-01 was a Thursday */
}
