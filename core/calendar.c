/* SPDX-License-Identifier: MIT */
#include "core/calendar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SEARCH_DAYS 400

struct kr_calendar {
    const struct kr_zone *zone;
    bool always;
    struct kr_window *windows;
    size_t first[8];   /* weekday w has windows [first[w], first[w + 1]), by start */
    int64_t *holidays; /* days since 1970-01-01, ascending */
    size_t n_holidays;
};

/* ---- Making one ---- */

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

int kr_calendar_from_windows(const struct kr_zone *zone, const struct kr_window *windows,
                             const size_t n[7], const int64_t *holidays, size_t n_holidays,
                             struct kr_calendar **ret)
{
    struct kr_calendar *calendar = calloc(1, sizeof(*calendar));
    size_t total = 0;

    if (!calendar)
        return -ENOMEM;
    calendar->zone = zone;
    calendar->always = n_holidays == 0;
    calendar->n_holidays = n_holidays;
    for (size_t w = 0; w < 7; w++) {
        for (size_t i = total; i < total + n[w]; i++)
            if (windows[i].start_s < 0 || windows[i].start_s >= KR_S_PER_DAY ||
                windows[i].end_s <= windows[i].start_s ||
                windows[i].end_s > windows[i].start_s + KR_S_PER_DAY ||
                (i > total && windows[i].start_s < windows[i - 1].start_s))
                goto invalid;
        /* Windows of a whole day from any start, the same on each day, leave nothing closed. */
        calendar->always = calendar->always && n[w] == 1 &&
                           windows[total].end_s - windows[total].start_s == KR_S_PER_DAY &&
                           windows[total].start_s == windows[0].start_s;
        calendar->first[w] = total;
        total += n[w];
    }
    calendar->first[7] = total;
    if (total == 0)
        goto invalid;
    calendar->windows = kr_alloc(total, sizeof(*windows));
    calendar->holidays = kr_alloc(n_holidays, sizeof(*holidays));
    if (!calendar->windows || !calendar->holidays) {
        kr_calendar_free(&calendar);
        return -ENOMEM;
    }
    memcpy(calendar->windows, windows, total * sizeof(*windows));
    if (n_holidays > 0)
        memcpy(calendar->holidays, holidays, n_holidays * sizeof(*holidays));
    qsort(calendar->holidays, n_holidays, sizeof(*holidays), by_value);
    *ret = calendar;
    return 0;

invalid:
    kr_calendar_free(&calendar);
    return -EINVAL;
}

void kr_calendar_free(struct kr_calendar **calendar)
{
    if (!*calendar)
        return;
    free((*calendar)->windows);
    free((*calendar)->holidays);
    free(*calendar);
    *calendar = NULL;
}

const struct kr_zone *kr_calendar_zone(const struct kr_calendar *calendar)
{
    return calendar ? calendar->zone : NULL;
}

bool kr_calendar_always(const struct kr_calendar *calendar)
{
    return !calendar || calendar->always;
}

/* ---- Walking over open time ---- */

/* Windows that start on a day: its weekday's, none on a holiday. */
static size_t windows_of(const struct kr_calendar *calendar, int64_t day,
                         const struct kr_window **ret)
{
    unsigned w = kr_weekday(day);

    *ret = calendar->windows + calendar->first[w];
    if (calendar->n_holidays > 0 &&
        bsearch(&day, calendar->holidays, calendar->n_holidays, sizeof(day), by_value))
        return 0;
    return calendar->first[w + 1] - calendar->first[w];
}

/* Ranges of open time in UTC, one after the other. Touching windows are one range, grown no further
 * than asked for: a market that opens on Sunday evening and closes on Friday is one range. */
struct walk {
    const struct kr_calendar *calendar;
    int64_t day, last_day;    /* the day whose windows are read, and the last one to read */
    size_t next;              /* its first window not read yet */
    int64_t start_ns, end_ns; /* the current range; empty before the first */
    int64_t window_ns;        /* start of the last window in it */
};

static int64_t instant(const struct kr_calendar *calendar, int64_t local_s)
{
    int64_t t_ns;

    if (kr_zone_utc_from(calendar->zone, local_s, INT64_MIN, &t_ns) < 0)
        return local_s < 0 ? INT64_MIN : INT64_MAX;
    return t_ns;
}

/* The next window that is not empty. Return: false when the last day's are used up. */
static bool peek_window(struct walk *walk, int64_t *ret_start_ns, int64_t *ret_end_ns)
{
    for (; walk->day <= walk->last_day; walk->day++, walk->next = 0) {
        const struct kr_window *windows;
        size_t n = windows_of(walk->calendar, walk->day, &windows);

        for (; walk->next < n; walk->next++) {
            int64_t midnight_s = walk->day * KR_S_PER_DAY;

            *ret_start_ns = instant(walk->calendar, midnight_s + windows[walk->next].start_s);
            *ret_end_ns = instant(walk->calendar, midnight_s + windows[walk->next].end_s);
            if (*ret_start_ns < *ret_end_ns) /* else swallowed by a hole */
                return true;
        }
    }
    return false;
}

/* Grow the current range until it ends after t_ns or no touching window follows. */
static void walk_grow(struct walk *walk, int64_t t_ns)
{
    int64_t start_ns, end_ns;

    while (walk->end_ns <= t_ns && peek_window(walk, &start_ns, &end_ns) &&
           start_ns <= walk->end_ns) {
        walk->end_ns = KR_MAX(walk->end_ns, end_ns);
        walk->window_ns = start_ns;
        walk->next++;
    }
}

/* The next range, at least its first window. Return: false if there is none before the last day. */
static bool walk_next(struct walk *walk)
{
    if (!peek_window(walk, &walk->start_ns, &walk->end_ns))
        return false;
    walk->window_ns = walk->start_ns;
    walk->next++;
    return true;
}

/* The first range that ends after t_ns, searched for up to `days` after t_ns. */
static bool walk_start(struct walk *walk, const struct kr_calendar *calendar, int64_t t_ns,
                       int64_t days)
{
    int64_t day = kr_floor_div(kr_zone_local(calendar->zone, t_ns), KR_S_PER_DAY);

    /* A window lasts a day from its start; one more for a zone that skips a day. */
    *walk = (struct walk){.calendar = calendar, .day = day - 3, .last_day = day + days};
    do {
        if (!walk_next(walk))
            return false;
        walk_grow(walk, t_ns);
    } while (walk->end_ns <= t_ns);
    return true;
}

bool kr_calendar_open(const struct kr_calendar *calendar, int64_t open_ns)
{
    struct walk walk;

    return kr_calendar_always(calendar) ||
           (walk_start(&walk, calendar, open_ns, 1) && walk.start_ns <= open_ns);
}

int64_t kr_calendar_elapsed(const struct kr_calendar *calendar, int64_t from_ns, int64_t to_ns,
                            int64_t limit_ns)
{
    struct walk walk;
    int64_t elapsed_ns = 0, span_ns;

    if (to_ns <= from_ns || limit_ns <= 0)
        return 0;
    if (kr_calendar_always(calendar))
        return __builtin_sub_overflow(to_ns, from_ns, &span_ns) ? limit_ns
                                                                : KR_MIN(span_ns, limit_ns);
    if (!walk_start(&walk, calendar, from_ns, SEARCH_DAYS))
        return 0;
    while (walk.start_ns < to_ns) {
        int64_t open_ns = KR_MAX(walk.start_ns, from_ns), close_ns = KR_MIN(walk.end_ns, to_ns);

        /* Ranges are read window by window: where two overlap, count the second from the first's
         * end. */
        if (close_ns > open_ns) {
            elapsed_ns += KR_MIN(close_ns - open_ns, limit_ns - elapsed_ns);
            from_ns = close_ns;
        }
        walk.last_day = walk.day + SEARCH_DAYS;
        if (elapsed_ns >= limit_ns || !walk_next(&walk))
            break;
    }
    return elapsed_ns;
}

/* ---- Stepping from bar to bar ---- */

int64_t kr_interval_days(const struct kr_interval *interval)
{
    const int64_t day_ns = KR_S_PER_DAY * KR_NS_PER_S;

    return interval->ns % day_ns == 0 ? interval->ns / day_ns : 0;
}

int kr_interval_shift(const struct kr_zone *zone, const struct kr_interval *interval, int64_t t_ns,
                      int64_t n, int64_t *ret_t_ns)
{
    int64_t days = kr_interval_days(interval), shift, shifted_ns, day, second;
    int result;

    if (__builtin_mul_overflow(interval->ns, n, &shift) ||
        __builtin_add_overflow(t_ns, shift, &shifted_ns))
        return -ERANGE;
    if (days > 0) {
        second = kr_zone_time_of_day(zone, t_ns, &day);
        result = kr_zone_utc_from(zone, (day + n * days) * KR_S_PER_DAY + second,
                                  n > 0 ? t_ns : INT64_MIN, &shifted_ns);
        if (result < 0)
            return result;
        if (__builtin_add_overflow(shifted_ns, kr_floor_mod(t_ns, KR_NS_PER_S), &shifted_ns))
            return -ERANGE;
    }
    *ret_t_ns = shifted_ns;
    return 0;
}

int kr_stamp_of_open(const struct kr_zone *zone, const struct kr_interval *interval,
                     enum kr_stamp_kind kind, int64_t open_ns, struct kr_stamp *ret)
{
    if (kind == KR_STAMP_CLOSE && kr_interval_shift(zone, interval, open_ns, 1, &open_ns) < 0)
        return -ERANGE;
    kr_zone_stamp(zone, open_ns, ret);
    return 0;
}

/* A bar of whole days is expected where it holds at least half of a session: a night session
 * belongs to the day on which most of it lies, and a week that opens on Sunday evening has no
 * Sunday bar. */
static bool days_open(const struct kr_calendar *calendar, int64_t local_s, int64_t days)
{
    int64_t end_s = local_s + days * KR_S_PER_DAY;

    for (int64_t day = kr_floor_div(local_s, KR_S_PER_DAY) - 1; day * KR_S_PER_DAY < end_s; day++) {
        const struct kr_window *windows;
        size_t n = windows_of(calendar, day, &windows);

        for (size_t i = 0; i < n; i++) {
            int64_t opens_s = day * KR_S_PER_DAY + windows[i].start_s;
            int64_t closes_s = day * KR_S_PER_DAY + windows[i].end_s;
            int64_t inside_s = KR_MIN(closes_s, end_s) - KR_MAX(opens_s, local_s);

            if (inside_s * 2 >= closes_s - opens_s)
                return true;
        }
    }
    return false;
}

static int next_by_days(const struct kr_calendar *calendar, const struct kr_interval *interval,
                        int64_t open_ns, size_t n, int64_t *ret_open_ns)
{
    const struct kr_zone *zone = kr_calendar_zone(calendar);
    int64_t days = kr_interval_days(interval), day, found;
    int64_t second = kr_zone_time_of_day(zone, open_ns, &day),
            below_ns = kr_floor_mod(open_ns, KR_NS_PER_S);

    found = day;
    for (size_t i = 0; i < n; i++) {
        int64_t last = found + KR_MAX(days, (int64_t)SEARCH_DAYS);
        int result;

        do {
            day += days;
            if (day > last)
                return -ERANGE;
        } while (!kr_calendar_always(calendar) &&
                 !days_open(calendar, day * KR_S_PER_DAY + second, days));
        result = kr_zone_utc_from(zone, day * KR_S_PER_DAY + second, open_ns, &ret_open_ns[i]);
        if (result < 0 || ret_open_ns[i] > INT64_MAX - below_ns)
            return -ERANGE;
        ret_open_ns[i] += below_ns;
        open_ns = ret_open_ns[i];
        found = day;
    }
    return 0;
}

/* How far into a range that starts at start_ns the grid of a bar at t_ns is met: by the local clock
 * if the interval divides a day, else by UTC. */
static int64_t grid_phase(const struct kr_zone *zone, int64_t interval_ns, int64_t t_ns,
                          int64_t start_ns)
{
    int64_t interval_s = interval_ns / KR_NS_PER_S, local_s;

    if (KR_S_PER_DAY % interval_s != 0)
        return kr_floor_mod(kr_floor_mod(t_ns, interval_ns) - kr_floor_mod(start_ns, interval_ns),
                            interval_ns);
    local_s = kr_floor_mod(kr_zone_local(zone, t_ns) - kr_zone_local(zone, start_ns), interval_s);
    return kr_floor_mod(local_s * KR_NS_PER_S + kr_floor_mod(t_ns, KR_NS_PER_S) -
                            kr_floor_mod(start_ns, KR_NS_PER_S),
                        interval_ns);
}

/* One bar on. `walk` holds the range of t_ns, grown no further than that, or the first one after
 * it: what comes next depends on t_ns alone, not on how the walk came there. */
static int next_bar(struct walk *walk, int64_t interval_ns, int64_t t_ns, int64_t *ret_t_ns)
{
    const struct kr_zone *zone = walk->calendar->zone;
    bool inside = walk->start_ns <= t_ns, on_session_grid = false;
    int64_t next_ns;

    if (__builtin_add_overflow(t_ns, interval_ns, &next_ns))
        return -ERANGE;
    walk->last_day = kr_floor_div(kr_zone_local(zone, t_ns), KR_S_PER_DAY) + SEARCH_DAYS;
    if (inside) {
        on_session_grid = (t_ns - walk->window_ns) % interval_ns == 0;
        walk_grow(walk, next_ns);
        if (next_ns < walk->end_ns) {
            *ret_t_ns = next_ns;
            return 0;
        }
        if (!walk_next(walk))
            return -ERANGE;
    }
    for (;;) {
        int64_t phase_ns =
            on_session_grid ? 0 : grid_phase(zone, interval_ns, t_ns, walk->start_ns);

        if (__builtin_add_overflow(walk->start_ns, phase_ns, &next_ns))
            return -ERANGE;
        walk_grow(walk, next_ns);
        if (next_ns < walk->end_ns) {
            *ret_t_ns = next_ns;
            return 0;
        }
        if (!walk_next(walk))
            return -ERANGE;
    }
}

int kr_calendar_next(const struct kr_calendar *calendar, const struct kr_interval *interval,
                     int64_t open_ns, size_t n, int64_t *ret_open_ns)
{
    struct walk walk;

    if (kr_interval_days(interval) > 0)
        return next_by_days(calendar, interval, open_ns, n, ret_open_ns);
    if (kr_calendar_always(calendar)) {
        for (size_t i = 0; i < n; i++) {
            if (__builtin_add_overflow(open_ns, interval->ns, &open_ns))
                return -ERANGE;
            ret_open_ns[i] = open_ns;
        }
        return 0;
    }
    if (n > 0 && !walk_start(&walk, calendar, open_ns, SEARCH_DAYS))
        return -ERANGE;
    for (size_t i = 0; i < n; i++) {
        if (next_bar(&walk, interval->ns, open_ns, &open_ns) < 0)
            return -ERANGE;
        ret_open_ns[i] = open_ns;
    }
    return 0;
}

size_t kr_calendar_missing(const struct kr_calendar *calendar, const struct kr_interval *interval,
                           int64_t open_ns, int64_t next_open_ns, size_t limit)
{
    bool by_days = kr_interval_days(interval) > 0;
    size_t n = 0;
    struct walk walk;
    int64_t span_ns;

    if (next_open_ns <= open_ns)
        return 0;
    if (!by_days && kr_calendar_always(calendar)) {
        if (__builtin_sub_overflow(next_open_ns, open_ns, &span_ns))
            return limit;
        return KR_MIN((size_t)((span_ns - 1) / interval->ns), limit);
    }
    if (!by_days && !walk_start(&walk, calendar, open_ns, SEARCH_DAYS))
        return 0;
    for (; n < limit; n++) {
        int result = by_days ? next_by_days(calendar, interval, open_ns, 1, &open_ns)
                             : next_bar(&walk, interval->ns, open_ns, &open_ns);

        if (result < 0 || open_ns >= next_open_ns)
            break;
    }
    return n;
}
