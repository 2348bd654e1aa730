/* SPDX-License-Identifier: MIT */
/* What a bar's stamp marks: from its open time to its close, back, and to the model's calendar.
 *
 * Everything that stamps bars or forecasts goes through here, so that the daemon and `kronosctl predict`
 * agree to the bit. Day and week bars last local days: 23 or 25 hours across daylight saving. */
#ifndef KR_MOMENT_H
#define KR_MOMENT_H

#include "core/calendar.h"

/* Open time of the bar that closes at close_ns, and the reverse. A local time that daylight saving skips
 * becomes the instant at which it goes on. Both want |time| <= 2^62 ns. */
int64_t kr_moment_open(const struct kr_calendar *calendar, const struct kr_interval *interval,
                       int64_t close_ns);
int64_t kr_moment_close(const struct kr_calendar *calendar, const struct kr_interval *interval,
                        int64_t open_ns);

/* The model's calendar of a bar that opens at open_ns and is delivered with stamps of this kind. */
void kr_moment_stamp(const struct kr_calendar *calendar, const struct kr_interval *interval,
                     enum kr_stamp_kind kind, int64_t open_ns, struct kr_stamp *ret);

/* The n bars that follow: open times and calendars. Return: 0, -ERANGE as kr_calendar_next(). */
int kr_moment_future(const struct kr_calendar *calendar, const struct kr_interval *interval,
                     enum kr_stamp_kind kind, int64_t open_ns, size_t n, int64_t *ret_open_ns,
                     struct kr_stamp *ret_stamps) kr_must_check;

#endif
