/* SPDX-License-Identifier: MIT */
#include "core/moment.h"

#include <string.h>

static int64_t shifted(const struct kr_calendar *calendar, const struct kr_interval *interval,
                       int64_t t_ns, int sign)
{
    const struct kr_zone *zone = kr_calendar_zone(calendar);
    char unit = interval->text[strlen(interval->text) - 1];
    int64_t moved, nominal = t_ns + sign * interval->ns;

    if (unit != 'd' && unit != 'w')
        return nominal;
    if (kr_zone_utc_from(zone, kr_zone_local(zone, t_ns) + sign * (interval->ns / KR_NS_PER_S),
                         INT64_MIN, &moved))
        return nominal;
    return moved + kr_floor_mod(t_ns, KR_NS_PER_S);
}

int64_t kr_moment_open(const struct kr_calendar *calendar, const struct kr_interval *interval,
                       int64_t close_ns)
{
    return shifted(calendar, interval, close_ns, -1);
}

int64_t kr_moment_close(const struct kr_calendar *calendar, const struct kr_interval *interval,
                        int64_t open_ns)
{
    return shifted(calendar, interval, open_ns, 1);
}

void kr_moment_stamp(const struct kr_calendar *calendar, const struct kr_interval *interval,
                     enum kr_stamp_kind kind, int64_t open_ns, struct kr_stamp *ret)
{
    if (kind == KR_STAMP_CLOSE)
        open_ns = kr_moment_close(calendar, interval, open_ns);
    kr_zone_stamp(kr_calendar_zone(calendar), open_ns, ret);
}

int kr_moment_future(const struct kr_calendar *calendar, const struct kr_interval *interval,
                     enum kr_stamp_kind kind, int64_t open_ns, size_t n, int64_t *ret_open_ns,
                     struct kr_stamp *ret_stamps)
{
    int status = kr_calendar_next(calendar, interval, open_ns, n, ret_open_ns);

    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        kr_moment_stamp(calendar, interval, kind, ret_open_ns[i], &ret_stamps[i]);
    return 0;
}
