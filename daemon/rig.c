/* SPDX-License-Identifier: MIT */
#include "daemon/rig.h"

#include "core/draw.h"
#include "daemon/clock.h"
#include "daemon/scoring.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int kd_rig_init(struct kd_rig *rig, const struct kr_model *model, const struct kd_rig_size *size,
                struct kr_error *error)
{
    int status;

    *rig = (struct kd_rig){.model = model,
                           .max_horizon = size->generator.max_horizon,
                           .max_paths = size->generator.max_paths};
    status = kr_engine_init(&rig->engine, model, size->max_visible);
    if (status)
        return kr_error_set(error, status, "engine: no memory for %zu rows", size->max_visible);
    status = kr_generator_init(&rig->generator, model, &size->generator, error);
    if (status)
        return status;
    rig->future_ns = kr_alloc(rig->max_horizon, sizeof(*rig->future_ns));
    rig->future = kr_alloc(rig->max_horizon, sizeof(*rig->future));
    if (!rig->future_ns || !rig->future ||
        kr_paths_init(&rig->paths, rig->max_paths, rig->max_horizon))
        return kr_error_set(error, -ENOMEM, "paths: no memory for %zu of %zu bars", rig->max_paths,
                            rig->max_horizon);
    return 0;
}

void kd_rig_free(struct kd_rig *rig)
{
    if (!rig)
        return;
    for (size_t i = 0; i < rig->n_summaries; i++)
        kr_summary_free(&rig->summaries[i]);
    kr_freep(&rig->summaries);
    kr_freep(&rig->cal);
    kr_freep(&rig->future);
    kr_freep(&rig->future_ns);
    kr_paths_free(&rig->paths);
    kr_generator_free(&rig->generator);
    kr_engine_free(&rig->engine);
}

/* The summary for these levels; streams with the same ones share it. NULL: no memory. */
static struct kr_summary *summary_for(struct kd_rig *rig, const struct kd_settings *settings,
                                      struct kr_error *error)
{
    struct kr_summary *larger;

    for (size_t i = 0; i < rig->n_summaries; i++) {
        struct kr_summary *summary = &rig->summaries[i];

        if (summary->n_levels == settings->n_levels &&
            !memcmp(summary->levels, settings->levels, settings->n_levels * sizeof(double)))
            return summary;
    }
    larger = reallocarray(rig->summaries, rig->n_summaries + 1, sizeof(*larger));
    if (!larger) {
        kr_error_set(error, -ENOMEM, "summary: no memory");
        return NULL;
    }
    rig->summaries = larger;
    if (kr_summary_init(&larger[rig->n_summaries], rig->max_horizon, rig->max_paths,
                        settings->levels, settings->n_levels, error))
        return NULL;
    return &larger[rig->n_summaries++];
}

/* Room for the calibrated quantiles, made when more levels are met than before. */
static int reserve_cal(struct kd_rig *rig, size_t n_levels)
{
    double *larger;

    if (n_levels <= rig->max_levels)
        return 0;
    larger = reallocarray(rig->cal, n_levels * rig->max_horizon, sizeof(*larger));
    if (!larger)
        return -ENOMEM;
    rig->cal = larger;
    rig->max_levels = n_levels;
    return 0;
}

static unsigned flags_of(const struct kr_live_report *report, const struct kr_summary *summary,
                         const struct kd_order *order)
{
    const struct kd_marks *marks = &order->marks;
    const struct {
        bool set;
        enum kw_flag flag;
    } flags[] = {
        {report->flat, KW_FLAT},
        {marks->gap_ns > report->win_t0_ns, KW_GAP},
        {marks->late_ns >= report->win_t0_ns, KW_LATE},
        {marks->revised_ns >= report->win_t0_ns, KW_REVISED},
        {marks->synthetic_ns >= report->win_t0_ns, KW_SYNTHETIC},
        {report->clipped, KW_CLIPPED},
        {report->window_slid, KW_WINDOW_SLID},
        {report->n_repaired > 0, KW_REPAIRED},
        {report->joined, KW_JOINED},
        {summary->tail, KW_TAIL},
        {order->overlay != NULL, KW_FORMING},
        {order->settings->sampling.stratified, KW_STRATIFIED},
    };
    unsigned all = 0;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(flags); i++)
        all |= flags[i].set ? flags[i].flag : 0u;
    return all;
}

/* What calibration makes of a forecast. */
struct reading {
    enum kr_trust_status status;
    uint64_t n;
    const double *q; /* [n_levels][horizon] of close; NULL: as sampled */
};

/* Remember the forecast, and read it in the light of those before it. */
static int calibrate(struct kd_rig *rig, const struct kr_live *live, const struct kd_order *order,
                     const struct kr_bar *last, const struct kr_request *request,
                     struct reading *ret, struct kr_error *error)
{
    const struct kd_settings *settings = order->settings;
    const struct kr_published published = {.as_of_ns = last->t_ns,
                                           .as_of_row = live->series.next_row - !order->overlay,
                                           .key = request->key,
                                           .last_close = last->v[KR_CLOSE],
                                           .stratified = settings->sampling.stratified,
                                           .n_steps = settings->horizon,
                                           .n_paths = settings->paths,
                                           .due_ns = rig->future_ns,
                                           .paths = rig->paths.bars};
    size_t n_steps = settings->horizon, n_levels = settings->n_levels;
    const struct kr_pending_entry *entry;
    int status;

    *ret = (struct reading){.status = KR_UNCALIBRATED};
    if (!order->scoring)
        return 0;
    status = kd_scoring_forecast(order->scoring, &published, !order->overlay, &entry);
    if (!status)
        status = reserve_cal(rig, n_levels);
    if (status)
        return kr_error_set(error, status, "calibration: %s", strerror(-status));
    for (size_t level = 0; level < n_levels; level++)
        for (size_t step = 0; step < n_steps; step++)
            rig->cal[level * n_steps + step] =
                published.last_close * exp(entry->q[step * n_levels + level]);
    *ret = (struct reading){.status = entry->status,
                            .n = kr_calibrator_n(&order->scoring->trust.calibrator),
                            .q = rig->cal};
    return 0;
}

static uint64_t us_between(int64_t from_ns, int64_t to_ns)
{
    return to_ns > from_ns ? (uint64_t)(to_ns - from_ns) / 1000 : 0;
}

static int encode(struct kd_rig *rig, const struct kr_live *live, const struct kd_order *order,
                  const struct kr_bar *last, const struct kr_summary *summary,
                  const struct kr_live_report *report, const struct reading *reading,
                  msgpack_sbuffer *forecast, msgpack_sbuffer *paths, struct kr_error *error)
{
    const struct kd_settings *settings = order->settings;
    int64_t now = kd_mono_ns();
    struct kw_forecast message = {
        .symbol = order->symbol,
        .interval = order->interval->text,
        .ep = order->ep,
        .seq = order->seq,
        .as_of_ns = last->t_ns,
        .rev = last->rev,
        .last_t_ns = last->t_ns,
        .last_close = last->v[KR_CLOSE],
        .pub_ns = kd_wall_ns(),
        .mode = kr_mode_names[report->mode],
        .epoch = report->epoch,
        .bars = report->bars,
        .anchor_n = report->anchor_n,
        .win_t0_ns = report->win_t0_ns,
        .model_name = rig->model->name,
        .model_sha256 = rig->model->sha256,
        .isa = rig->model->isa,
        .precision = kr_precision_names[rig->model->products->precision],
        .sampling = settings->sampling,
        .paths = settings->paths,
        .horizon = settings->horizon,
        .seed = settings->seed,
        .scale = live->config.scale,
        .join = live->config.join,
        .repair = live->config.repair,
        .t_ns = rig->future_ns,
        .summary = summary,
        .cal_status = kr_trust_names[reading->status],
        .cal_q = reading->q,
        .cal_n = reading->n,
        .flags = flags_of(report, summary, order),
        .queue_us = us_between(order->arrived_ns, order->started_ns),
        .append_us = us_between(order->started_ns, order->applied_ns),
        .decode_us = us_between(order->applied_ns, now),
        .total_us = us_between(order->arrived_ns, now),
    };

    if (kw_encode_forecast(forecast, &message) ||
        (paths && kw_encode_paths(paths, &message, rig->paths.bars)))
        return kr_error_set(error, -ENOMEM, "forecast: no memory for its message");
    return 0;
}

/* Open times of the horizon, and the calendar of the stamps they would be delivered with. */
static int set_future(struct kd_rig *rig, const struct kd_order *order, int64_t last_ns,
                      struct kr_error *error)
{
    const struct kd_settings *settings = order->settings;
    const struct kd_calendar *calendar = settings->calendar;
    int status = kr_calendar_next(calendar->calendar, order->interval, last_ns, settings->horizon,
                                  rig->future_ns);

    for (size_t i = 0; i < settings->horizon && !status; i++)
        status = kr_stamp_of_open(calendar->zone, order->interval, settings->stamp,
                                  rig->future_ns[i], &rig->future[i]);
    return status ? kr_error_set(error, status, "calendar %s: no session within 400 days of a bar",
                                 calendar->name)
                  : 0;
}

int kd_rig_forecast(struct kd_rig *rig, struct kr_live *live, const struct kd_order *order,
                    msgpack_sbuffer *forecast, msgpack_sbuffer *paths, struct kd_made *ret,
                    struct kr_error *error)
{
    const struct kd_settings *settings = order->settings;
    const struct kr_bar *last = order->overlay ? order->overlay : kr_series_last(&live->series);
    struct kr_summary *summary = summary_for(rig, settings, error);
    struct kr_live_report report;
    struct reading reading;
    struct kr_request request = {
        .horizon = settings->horizon,
        .paths = settings->paths,
        .sampling = settings->sampling,
        .key = kr_draw_key(settings->seed, order->interval->text, order->symbol),
        .future = rig->future,
        .keep_going = order->keep_going,
        .context = order->context,
    };
    int status;

    if (!summary)
        return -ENOMEM;
    if (!kr_live_ready(live) || !last)
        return -EAGAIN;
    request.as_of_ns = last->t_ns;
    status = set_future(rig, order, last->t_ns, error);
    if (status)
        return status;
    status = kr_live_forecast(live, &rig->engine, &rig->generator, &request, order->overlay,
                              &rig->paths, &report, error);
    if (status)
        return status;
    kr_summary_compute(summary, rig->paths.bars, settings->paths, settings->horizon,
                       last->v[KR_CLOSE]);
    status = calibrate(rig, live, order, last, &request, &reading, error);
    if (!status)
        status = encode(rig, live, order, last, summary, &report, &reading, forecast, paths, error);
    if (status)
        return status;
    *ret = (struct kd_made){.report = report,
                            .as_of_ns = last->t_ns,
                            .total_us = (int64_t)us_between(order->arrived_ns, kd_mono_ns())};
    return 0;
}
