/* SPDX-License-Identifier: MIT */
/* The daemon's two clocks. */
#ifndef KD_CLOCK_H
#define KD_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of a clock that only rises: ages, deadlines, latencies. */
static inline int64_t kd_mono_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* Nanoseconds since the epoch: `pub`, `clock = wall`. */
static inline int64_t kd_wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

#endif
