/* SPDX-License-Identifier: MIT */
#include "clients/backtest.h"

#include "core/draw.h"
#include "core/summary.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const double kc_backtest_levels[KC_BACKTEST_LEVELS] = {0.05, 0.1,  0.15, 0.2,  0.25, 0.3,  0.35,
                                                       0.4,  0.45, 0.5,  0.55, 0.6,  0.65, 0.7,
                                                       0.75, 0.8,  0.85, 0.9,  0.95};

/* Everything that is freed in the end, and what it works on. */
struct run {
    struct kc_backtest *result;
    const struct kr_model *model;
    const struct kc_backtest_config *config;
    const struct kc_source *source;
    struct kr_live live;
    struct kr_engine engine;
    struct kr_generator generator;
    struct kr_paths paths;
    struct kr_trust trust;
    struct kr_stamp *stamps; /* [horizon] */
    int64_t *t_ns;           /* [horizon] */
    double *members;         /* [paths] */
    uint64_t key;
    double join_sum;
};

static void free_run(struct run *run)
{
    kr_trust_free(&run->trust);
    kr_paths_free(&run->paths);
    kr_generator_free(&run->generator);
    kr_engine_free(&run->engine);
    kr_live_free(&run->live);
    free(run->stamps);
    free(run->t_ns);
    free(run->members);
}

/* Memory */

static size_t count_origins(const struct kc_backtest_config *config, size_t n)
{
    size_t room = n - config->lookback - config->horizon;

    return room / config->every + 1;
}

static int reserve_result(struct run *run)
{
    struct kc_backtest *result = run->result;
    size_t n_steps = run->config->horizon;
    size_t n_origins = count_origins(run->config, run->source->input.n);

    result->n_steps = n_steps;
    result->horizons = calloc(n_steps, sizeof(*result->horizons));
    result->last.t_ns = calloc(n_steps, sizeof(*result->last.t_ns));
    result->last.raw = calloc(n_steps, KC_BACKTEST_LEVELS * sizeof(double));
    result->last.cal = calloc(n_steps, KC_BACKTEST_LEVELS * sizeof(double));
    result->drift = calloc(n_origins, sizeof(*result->drift));
    if (!result->drift || !result->horizons || !result->last.t_ns || !result->last.raw ||
        !result->last.cal)
        return -ENOMEM;
    for (size_t step = 0; step < n_steps; step++) {
        result->horizons[step].lead = calloc(n_origins, sizeof(double));
        result->horizons[step].lead_cal = calloc(n_origins, sizeof(double));
        result->horizons[step].median = calloc(n_origins, sizeof(double));
        result->horizons[step].width = calloc(n_origins, sizeof(double));
        if (!result->horizons[step].lead || !result->horizons[step].lead_cal ||
            !result->horizons[step].median || !result->horizons[step].width)
            return -ENOMEM;
    }
    return 0;
}

static int open_trust(struct run *run, struct kr_error *error)
{
    const struct kc_backtest_config *config = run->config;
    const struct kr_calibration_key key = {.model_sha256 = run->model->sha256,
                                           .mode = kr_mode_names[run->result->mode],
                                           .temperature = config->sampling.temperature,
                                           .top_p = config->sampling.top_p,
                                           .top_k = config->sampling.top_k,
                                           .n_paths = config->paths,
                                           .scale = !config->raw,
                                           .join = !config->raw,
                                           .repair = !config->raw};
    const struct kr_trust_config trust = {.size = {.max_steps = config->horizon,
                                                   .max_paths = config->paths,
                                                   .n_levels = KC_BACKTEST_LEVELS},
                                          .levels = kc_backtest_levels,
                                          .prior = &run->model->prior,
                                          .id = kr_calibration_id(&key)};

    return kr_trust_init(&run->trust, &trust, error);
}

/* Memory for everything at once. */
static int reserve(struct run *run, struct kr_error *error)
{
    const struct kc_backtest_config *config = run->config;
    struct kr_live_config live = {.mode = config->mode,
                                  .lookback = config->lookback,
                                  .min_bars = KR_MIN(KC_BACKTEST_MIN_BARS, config->lookback),
                                  .horizon = config->horizon,
                                  .max_context = config->max_context,
                                  .drift_limit = config->drift_limit,
                                  .scale = !config->raw,
                                  .join = !config->raw,
                                  .repair = !config->raw};
    struct kr_generator_size size;
    int r = kr_live_resolve(&live, run->model, config->interval, config->symbol, error);

    if (r < 0)
        return r;
    run->result->mode = live.mode;
    r = kr_live_init(&run->live, run->model, &live, error);
    if (r < 0)
        return r;
    size = kr_live_generator_size(&live, config->paths);
    r = kr_generator_init(&run->generator, run->model, &size, error);
    if (r == 0)
        r = open_trust(run, error);
    if (r < 0)
        return r;
    r = kr_engine_init(&run->engine, run->model, KR_MAX(config->lookback, config->max_context) + 1);
    if (r == 0)
        r = kr_paths_init(&run->paths, config->paths, config->horizon);
    if (r == 0)
        r = reserve_result(run);
    run->stamps = calloc(config->horizon, sizeof(*run->stamps));
    run->t_ns = calloc(config->horizon, sizeof(*run->t_ns));
    run->members = calloc(config->paths, sizeof(*run->members));
    if (r < 0 || !run->stamps || !run->t_ns || !run->members)
        return kr_error_set(error, -ENOMEM,
                            "backtest: expected memory for %zu paths of %zu steps, found none",
                            config->paths, config->horizon);
    return 0;
}

/* Outcomes */

/* Is y in the central band of rising quantiles? Bounds belong to it: a market at rest keeps to them. */
static bool within(const double q[KC_BACKTEST_LEVELS], size_t band, double y)
{
    size_t middle = KC_BACKTEST_LEVELS / 2;

    return y >= q[middle - 1 - band] && y <= q[middle + 1 + band];
}

static void raw_quantiles(const struct run *run, const struct kr_pending_entry *entry, size_t step,
                          double ret[KC_BACKTEST_LEVELS])
{
    kr_pending_members(entry, step, run->members);
    for (size_t l = 0; l < KC_BACKTEST_LEVELS; l++)
        ret[l] = kr_quantile(run->members, entry->n_paths, kc_backtest_levels[l], NULL);
}

/* One scored step of a forecast that counts. */
static void record(struct run *run, const struct kr_score *score,
                   const struct kr_pending_entry *entry)
{
    struct kc_backtest_horizon *horizon = &run->result->horizons[score->step];
    const double *cal = &entry->q[score->step * KC_BACKTEST_LEVELS];
    bool calibrated = score->status == KR_CALIBRATED;
    double raw[KC_BACKTEST_LEVELS];

    raw_quantiles(run, entry, score->step, raw);
    horizon->lead[horizon->tally.n] = score->crps - score->crps_rw;
    horizon->lead_cal[horizon->tally.n] = score->crps_cal - score->crps_rw;
    kr_tally_count(&horizon->tally, score);
    horizon->n_cal += calibrated;
    for (size_t band = 0; band < KC_BACKTEST_BANDS; band++) {
        horizon->inside[band] += within(raw, band, score->y);
        horizon->inside_cal[band] += calibrated && within(cal, band, score->y);
    }
    if (calibrated)
        kr_pit_count(horizon->pit_cal, score->pit_cal);
}

/* Forecasts */

static int set_future(struct run *run, int64_t last_ns, struct kr_error *error)
{
    const struct kc_source *source = run->source;
    const struct kr_interval *interval = &source->input.interval;
    size_t n = run->config->horizon;
    int r = kr_calendar_next(source->calendar, interval, last_ns, n, run->t_ns);

    for (size_t i = 0; i < n && r == 0; i++)
        r = kr_stamp_of_open(source->zone, interval, source->input_config.stamp, run->t_ns[i],
                             &run->stamps[i]);
    if (r < 0)
        return kr_error_set(error, -EBADMSG,
                            "%s: calendar: expected %zu open slots, 400 days apart at most, found "
                            "fewer",
                            source->input_config.path, n);
    return 0;
}

static double mean_first_open(const struct kr_paths *paths)
{
    double sum = 0;

    for (size_t p = 0; p < paths->n_paths; p++)
        sum += (double)paths->bars[p * paths->n_steps * KR_COLUMNS + KR_OPEN];
    return sum / (double)paths->n_paths;
}

static void keep_last(struct run *run, size_t index, const struct kr_pending_entry *entry)
{
    struct kc_backtest_last *last = &run->result->last;

    last->index = index;
    last->status = entry->status;
    memcpy(last->t_ns, entry->due_ns, entry->n_steps * sizeof(*last->t_ns));
    memcpy(last->cal, entry->q, entry->n_steps * KC_BACKTEST_LEVELS * sizeof(double));
    for (size_t step = 0; step < entry->n_steps; step++)
        raw_quantiles(run, entry, step, &last->raw[step * KC_BACKTEST_LEVELS]);
}

/* Forecast behind a bar, and remember it: its outcomes teach the calibration whatever else they do. */
static int forecast(struct run *run, size_t index, struct kr_pending_entry **ret,
                    struct kr_error *error)
{
    const struct kc_backtest_config *config = run->config;
    const struct kr_bar *bar = &run->source->input.bars[index];
    struct kr_request request = {.horizon = config->horizon,
                                 .paths = config->paths,
                                 .sampling = config->sampling,
                                 .key = run->key,
                                 .as_of_ns = bar->t_ns,
                                 .future = run->stamps};
    struct kr_published published = {.as_of_ns = bar->t_ns,
                                     .as_of_row = (int64_t)index,
                                     .key = run->key,
                                     .last_close = bar->v[KR_CLOSE],
                                     .n_steps = config->horizon,
                                     .n_paths = config->paths,
                                     .due_ns = run->t_ns};
    struct kr_live_report report;
    int r = set_future(run, bar->t_ns, error);

    if (r == 0)
        r = kr_live_forecast(&run->live, &run->engine, &run->generator, &request, NULL, &run->paths,
                             &report, error);
    if (r < 0)
        return r;
    published.paths = run->paths.bars;
    r = kr_trust_forecast(&run->trust, &published, ret);
    return r < 0 ? kr_error_set(error, r, "%s: bar %zu: the forecast cannot be remembered",
                                run->source->input_config.path, index + 1)
                 : 0;
}

static int forecast_origin(struct run *run, size_t index, struct kr_error *error)
{
    struct kr_pending_entry *entry;
    int r = forecast(run, index, &entry, error);

    if (r < 0)
        return r;
    for (size_t step = 0; step < entry->n_steps; step++) {
        struct kc_backtest_horizon *horizon = &run->result->horizons[step];
        double q[KC_BACKTEST_LEVELS];

        raw_quantiles(run, entry, step, q);
        horizon->median[run->result->n_origins] = q[KC_BACKTEST_LEVELS / 2];
        horizon->width[run->result->n_origins] = q[KC_BACKTEST_LEVELS - 1] - q[0];
    }
    run->result->drift[run->result->n_origins] = kr_live_drift(&run->live);
    run->result->n_origins++;
    run->result->n_calibrated += entry->status == KR_CALIBRATED;
    run->join_sum += fabs(log(mean_first_open(&run->paths) / entry->last_close));
    keep_last(run, index, entry);
    return 0;
}

/* The walk */

static int take_bar(struct run *run, size_t index, struct kr_error *error)
{
    const struct kr_bar *bar = &run->source->input.bars[index];
    size_t n_due = kr_trust_bar(&run->trust, bar->t_ns, (int64_t)index, bar->v[KR_CLOSE]);
    int r;

    /* what was due is still in its place: the ring takes nothing new before the next forecast */
    for (size_t i = 0; i < n_due; i++)
        if (run->trust.due[i].entry->as_of_row + 1 >= (int64_t)run->config->lookback)
            record(run, &run->trust.scores[i], run->trust.due[i].entry);
    r = kr_live_apply(&run->live, &run->engine, KR_NEXT, bar);
    return r < 0 ? kr_error_set(error, r, "%s: bar %zu: the model cannot take it",
                                run->source->input_config.path, index + 1)
                 : 0;
}

static bool is_origin(const struct kc_backtest_config *config, size_t index, size_t n)
{
    return index + 1 >= config->lookback && (index + 1 - config->lookback) % config->every == 0 &&
           n - 1 - index >= config->horizon;
}

/* A forecast in the history, so that the first origin does not begin uncalibrated. */
static bool is_lesson(const struct kc_backtest_config *config, size_t index)
{
    return config->learn_every && index + 1 >= KC_BACKTEST_MIN_BARS &&
           index + 1 < config->lookback &&
           (config->lookback - 1 - index) % config->learn_every == 0;
}

static int walk(struct run *run, struct kr_error *error)
{
    size_t n = run->source->input.n;
    struct kr_pending_entry *lesson;
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++) {
        r = take_bar(run, i, error);
        if (r == 0 && is_origin(run->config, i, n))
            r = forecast_origin(run, i, error);
        else if (r == 0 && is_lesson(run->config, i))
            r = forecast(run, i, &lesson, error);
        if (run->config->progress)
            run->config->progress(run->config->context, i + 1);
    }
    return r;
}

static void conclude(struct run *run)
{
    struct kc_backtest *result = run->result;
    uint64_t n_scored = 0;

    for (size_t step = 0; step < result->n_steps; step++) {
        n_scored += result->horizons[step].tally.n;
    }
    result->n_epochs = run->live.epoch;
    result->n_drifted = run->live.n_drifted;
    result->n_unscored = result->n_origins * result->n_steps - n_scored;
    result->join_error = run->join_sum / (double)result->n_origins;
}

int kc_backtest_run(struct kc_backtest *backtest, const struct kr_model *model,
                    const struct kc_backtest_config *config, const struct kc_source *source,
                    struct kr_error *error)
{
    struct run run = {.result = backtest,
                      .model = model,
                      .config = config,
                      .source = source,
                      .key = kr_draw_key(config->seed, config->interval, config->symbol)};
    int r;

    *backtest = (struct kc_backtest){0};
    if (source->input.n < config->lookback + config->horizon)
        return kr_error_set(error, -EBADMSG,
                            "%s: bars: expected at least %zu (lookback %zu and horizon %zu), found "
                            "%zu",
                            source->input_config.path, config->lookback + config->horizon,
                            config->lookback, config->horizon, source->input.n);
    r = reserve(&run, error);
    if (r == 0)
        r = walk(&run, error);
    if (r == 0)
        conclude(&run);
    free_run(&run);
    return r;
}

void kc_backtest_free(struct kc_backtest *backtest)
{
    for (size_t step = 0; backtest->horizons && step < backtest->n_steps; step++) {
        free(backtest->horizons[step].lead);
        free(backtest->horizons[step].lead_cal);
        free(backtest->horizons[step].median);
        free(backtest->horizons[step].width);
    }
    free(backtest->horizons);
    free(backtest->drift);
    free(backtest->last.t_ns);
    free(backtest->last.raw);
    free(backtest->last.cal);
    *backtest = (struct kc_backtest){0};
}

double kc_backtest_cover(const struct kc_backtest_horizon *horizon, size_t band, bool calibrated)
{
    uint64_t n = calibrated ? horizon->n_cal : horizon->tally.n;
    uint64_t inside = calibrated ? horizon->inside_cal[band] : horizon->inside[band];

    return n > 0 ? (double)inside / (double)n : NAN;
}
