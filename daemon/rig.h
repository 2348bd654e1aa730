/* SPDX-License-Identifier: MIT */
/* What one compute thread computes with, and the one way from a window to an encoded forecast, which workers
 * and control forecasts share. A rig belongs to one thread at a time. */
#ifndef KD_RIG_H
#define KD_RIG_H

#include "clients/wire.h"
#include "core/engine.h"
#include "core/live.h"
#include "core/summary.h"
#include "daemon/config.h"

/* What it is made for. */
struct kd_rig_size {
    struct kr_generator_size generator;
    size_t max_visible; /* rows that one row may see */
};

struct kd_rig {
    const struct kr_model *model;
    struct kr_engine engine;
    struct kr_generator generator;
    struct kr_paths paths;
    size_t max_horizon, max_paths;
    int64_t *future_ns;           /* [max_horizon] */
    struct kr_stamp *future;      /* [max_horizon] */
    struct kr_summary *summaries; /* [n_summaries]: one for each set of levels met */
    size_t n_summaries;
    size_t max_levels; /* met so far */
    double *cal;       /* [max_levels][max_horizon]: calibrated quantiles of close */
};

/* Return: 0, or a negative errno with a line; after an error it may be freed. */
int kd_rig_init(struct kd_rig *rig, const struct kr_model *model, const struct kd_rig_size *size,
                struct kr_error *error) kr_must_check;
void kd_rig_free(struct kd_rig *rig);

/* Open times of the newest bars that came in some way; a window that begins no later holds one, hence the
 * flag of that name. INT64_MIN: none. */
struct kd_marks {
    int64_t gap_ns; /* the bar behind the gap */
    int64_t late_ns, revised_ns, synthetic_ns;
};

/* One forecast to be made. */
struct kd_order {
    const char *symbol;
    const struct kr_interval *interval;
    const struct kd_settings *settings;
    struct kd_scoring *scoring;   /* of the stream; NULL: nobody will score it (uncalibrated) */
    const struct kr_bar *overlay; /* a forming bar, or NULL */
    uint64_t ep, seq;
    struct kd_marks marks;
    int64_t arrived_ns; /* monotonic; `lat` counts from here */
    int64_t started_ns, applied_ns;
    bool (*keep_going)(void *context, size_t step);
    void *context;
};

struct kd_made {
    struct kr_live_report report;
    int64_t as_of_ns;
    int64_t total_us;
};

/* Forecast behind the window's last bar and encode the message into `forecast`; and the paths into `paths`
 * unless that is NULL. Return: 0; -EAGAIN (fewer bars than min_bars), -ERANGE (the calendar opens no
 * more), -ECANCELED, others from kr_live_forecast() or -ENOMEM, with a line; the buffers are empty then. */
int kd_rig_forecast(struct kd_rig *rig, struct kr_live *live, const struct kd_order *order,
                    msgpack_sbuffer *forecast, msgpack_sbuffer *paths, struct kd_made *ret,
                    struct kr_error *error) kr_must_check;

#endif
