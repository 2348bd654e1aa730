/* SPDX-License-Identifier: MIT */
/* When a market's next bars open: 24x7, or sessions with weekdays, holidays and a time zone; or
 * inferred from the bars seen. Immutable once made; any thread. Wherever a calendar is asked for,
 * NULL means 24x7 in UTC; a zone of NULL means UTC. */
#ifndef KR_CALENDAR_H
#define KR_CALENDAR_H

#include "core/bar.h"
#include "core/zone.h"

struct kr_calendar;

/* What a bar's delivered stamp marks. */
enum kr_stamp_kind { KR_STAMP_OPEN, KR_STAMP_CLOSE };

/* A stretch of open time in local seconds of the day on which it starts; it may pass midnight. */
struct kr_window {
    int32_t start_s; /* 0 to 86,399 */
    int32_t end_s;   /* start_s + 1 to start_s + 86,400 */
};

/* `sessions`: "09:30-11:30,13:00-15:00" in local time (an end at or before its start crosses
 * midnight; empty or NULL: the whole day); `weekdays`: "mon-fri" or "mon,tue,sat" (empty or NULL:
 * all seven), the weekday on which a session starts; `holidays`: "2026-12-25,2026-01-01" (NULL:
 * none), likewise. `zone` is borrowed and outlives the calendar. Return: 0, -EINVAL with a line
 * that names the bad part, -ENOMEM. */
int kr_calendar_new(const struct kr_zone *zone, const char *sessions, const char *weekdays,
                    const char *holidays, struct kr_calendar **ret,
                    struct kr_error *error) kr_must_check;

/* The same from windows, which are copied: those of Monday first, n[0] of them, then Tuesday's, ...
 * each weekday's by start; and from holidays in days since 1970-01-01. Return: 0, -EINVAL if there
 * is no window or one is out of range or order, -ENOMEM. */
int kr_calendar_from_windows(const struct kr_zone *zone, const struct kr_window *windows,
                             const size_t n[7], const int64_t *holidays, size_t n_holidays,
                             struct kr_calendar **ret) kr_must_check;

/* From what was seen: the slots of the day and the weekdays that hold bars among `open_ns` [n],
 * strictly increasing open times in UTC. Random gaps close nothing; what the bars do not cover
 * stays open unless the neighbours say otherwise. Return: 0, -EINVAL if n < 2, -ENOMEM. */
int kr_calendar_infer(const struct kr_zone *zone, const struct kr_interval *interval,
                      const int64_t *open_ns, size_t n, struct kr_calendar **ret) kr_must_check;

void kr_calendar_free(struct kr_calendar **calendar);
const struct kr_zone *kr_calendar_zone(const struct kr_calendar *calendar);

/* True if it never closes. */
bool kr_calendar_always(const struct kr_calendar *calendar);

/* Open times of the next n bars after the bar that opened at `open_ns`, on its grid: strictly
 * increasing, each bar's open inside a session. Inside a session, and across touching ones, bars
 * follow at the interval's length; after a break they start with the session if the last bar lay on
 * its session's grid, else at the same phase of the local clock. Intervals of whole days step by
 * local days (same local time across daylight saving, or the first instant after a hole) to days
 * that hold at least half of a session. Return: 0, or -ERANGE when no open slot is found within 400
 * days or before the end of int64 nanoseconds (ret_open_ns undefined). */
int kr_calendar_next(const struct kr_calendar *calendar, const struct kr_interval *interval,
                     int64_t open_ns, size_t n, int64_t *ret_open_ns) kr_must_check;

/* Bars that the calendar expects strictly between two open times, counted up to `limit`: 0 across a
 * session break or from one bar to its successor. */
size_t kr_calendar_missing(const struct kr_calendar *calendar, const struct kr_interval *interval,
                           int64_t open_ns, int64_t next_open_ns, size_t limit);

/* Session time, in ns, that passed between two instants (for `stale`), counted up to `limit_ns`. */
int64_t kr_calendar_elapsed(const struct kr_calendar *calendar, int64_t from_ns, int64_t to_ns,
                            int64_t limit_ns);

/* True if a bar opening then lies inside a session. */
bool kr_calendar_open(const struct kr_calendar *calendar, int64_t open_ns);

/* Whole days in an interval ("1d" 1, "2w" 14, "24h" 1), 0 if it is none: such bars step by local
 * days. */
int64_t kr_interval_days(const struct kr_interval *interval);

/* `n` (may be negative) intervals later by the clock, whatever the calendar: an open time from a
 * close (n = -1) and back. Return: 0, -ERANGE. */
int kr_interval_shift(const struct kr_zone *zone, const struct kr_interval *interval, int64_t t_ns,
                      int64_t n, int64_t *ret_t_ns) kr_must_check;

/* The calendar fields that the model sees for the bar that opens at `open_ns`: of its delivered
 * stamp. Return: 0, -ERANGE. */
int kr_stamp_of_open(const struct kr_zone *zone, const struct kr_interval *interval,
                     enum kr_stamp_kind kind, int64_t open_ns, struct kr_stamp *ret) kr_must_check;

#endif
