/* SPDX-License-Identifier: MIT */
/* Time zones by name, from the system's tz database, without touching TZ of the process (GLib's
 * GTimeZone). Zones are immutable after kr_zone_open() and may be used from any thread. */
#ifndef KR_ZONE_H
#define KR_ZONE_H

#include "core/bar.h"

struct kr_zone;

/* A local civil time, second resolution. */
struct kr_civil {
    int year;
    uint8_t month, day, hour, minute, second;
};

/* `name`: "UTC", "Europe/Berlin", ... Return: 0, -ENOENT (unknown name, said in error), -ENOMEM. */
int kr_zone_open(const char *name, struct kr_zone **ret, struct kr_error *error) kr_must_check;
void kr_zone_free(struct kr_zone **zone);
const char *kr_zone_name(const struct kr_zone *zone);

/* UTC -> local civil time (seconds rounded down), and the model's calendar fields. */
void kr_zone_civil(const struct kr_zone *zone, int64_t t_ns, struct kr_civil *ret);
void kr_zone_stamp(const struct kr_zone *zone, int64_t t_ns, struct kr_stamp *ret);

/* Local civil time -> UTC. In a fold (the hour that occurs twice) the earlier instant, unless it is not
 * after `after_ns` (the previous row's instant; INT64_MIN for none) while the later one is.
 * Return: 0, -ENOENT in a hole (a local time that does not exist), -EINVAL if not a date,
 * -ERANGE outside of what int64 nanoseconds hold. */
int kr_zone_utc(const struct kr_zone *zone, const struct kr_civil *civil, int64_t after_ns,
                int64_t *ret_t_ns) kr_must_check;

#endif
