/* SPDX-License-Identifier: MIT */
/* Time zones by name, from the system's tz database, without touching TZ of the process (GLib's
 * GTimeZone). Zones are immutable after kr_zone_open() and may be used from any thread. Wherever a
 * zone is asked for, NULL means UTC.
 *
 * GLib 2.74 misreads rules whose summer time is the standard time: Europe/Dublin is right only as
 * far as its transitions are listed (Debian: to 2037).
 *
 * Besides civil times there are `local seconds`: what the zone's clocks show, counted as if every
 * day had 86,400 s, from 1970-01-01T00:00 local. Days and times of day are divisions of them. */
#ifndef KR_ZONE_H
#define KR_ZONE_H

#include "core/bar.h"

#define KR_NS_PER_S  INT64_C(1000000000)
#define KR_S_PER_DAY INT64_C(86400)

struct kr_zone;

/* A local civil time, second resolution. */
struct kr_civil {
    int year;
    uint8_t month, day, hour, minute, second;
};

/* `name`: "UTC", "Europe/Berlin", ... or a fixed offset "+05:30". Never a path, and no POSIX rule:
 * "UTC+8", which POSIX means as eight hours west, is refused.
 * Return: 0, -ENOENT (unknown name, said in error), -ENOMEM. */
int kr_zone_open(const char *name, struct kr_zone **ret, struct kr_error *error) kr_must_check;
void kr_zone_free(struct kr_zone **zone);
const char *kr_zone_name(const struct kr_zone *zone);

/* UTC -> local civil time (seconds rounded down), and the model's calendar fields. */
void kr_zone_civil(const struct kr_zone *zone, int64_t t_ns, struct kr_civil *ret);
void kr_zone_stamp(const struct kr_zone *zone, int64_t t_ns, struct kr_stamp *ret);

/* UTC -> local seconds, rounded down. */
int64_t kr_zone_local(const struct kr_zone *zone, int64_t t_ns);

/* Local civil time -> UTC. In a fold (the hour that occurs twice) the earlier instant, unless it is
 * not after `after_ns` (the previous row's instant; INT64_MIN for none) while the later one is.
 * Return: 0, -ENOENT in a hole (a local time that does not exist), -EINVAL if not a date,
 * -ERANGE outside of what int64 nanoseconds hold. */
int kr_zone_utc(const struct kr_zone *zone, const struct kr_civil *civil, int64_t after_ns,
                int64_t *ret_t_ns) kr_must_check;

/* The same from local seconds. */
int kr_zone_utc_local(const struct kr_zone *zone, int64_t local_s, int64_t after_ns,
                      int64_t *ret_t_ns) kr_must_check;

/* The same, but a time in a hole is the instant at which the hole ends: where a day or a session
 * begins whose first minutes do not exist. Return: 0, -ERANGE. */
int kr_zone_utc_from(const struct kr_zone *zone, int64_t local_s, int64_t after_ns,
                     int64_t *ret_t_ns) kr_must_check;

/* Local day, in days since 1970-01-01, and time of day in seconds; but the first instant of a day
 * that lost its midnight to daylight saving is at 0: a daily bar opens at midnight there as on all
 * other days. */
int64_t kr_zone_time_of_day(const struct kr_zone *zone, int64_t t_ns, int64_t *ret_day);

/* Proleptic Gregorian date <-> days since 1970-01-01. kr_civil_day() expects a date that exists;
 * kr_civil_date() fills year, month and day. */
int64_t kr_civil_day(int year, unsigned month, unsigned day);
void kr_civil_date(int64_t day, struct kr_civil *ret);
bool kr_civil_valid(const struct kr_civil *civil);

/* 0 = Monday. */
unsigned kr_weekday(int64_t day);

/* Quotient and remainder rounded towards minus infinity, for divisors above 0. */
static inline int64_t kr_floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

static inline int64_t kr_floor_mod(int64_t a, int64_t b)
{
    return a % b + (a % b < 0 ? b : 0);
}

#endif
