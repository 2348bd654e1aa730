/* SPDX-License-Identifier: MIT */
#include "core/live.h"

#include "core/honest.h"
#include "core/rolling.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kr_mode_names[] = {"auto", "exact", "anchored", "rolling"};

/* Bars kept beyond the window, so that a late bar or an overlay pushes none out of it. */
#define SERIES_SLACK 16

/* Configuration */

static size_t auto_growth(const struct kr_live_config *config)
{
    size_t taken = config->lookback + config->horizon;

    return taken < config->max_context ? KR_MIN(config->max_context - taken, config->lookback / 2)
                                       : 0;
}

/* Normaliser and attention must fit each other, and the mode both. Return: 0, or -EINVAL with a line. */
static int check_model(const struct kr_model *model, enum kr_mode mode, struct kr_error *error)
{
    bool returns = model && model->normaliser == KR_RETURNS;
    size_t window = model ? model->attention_window : 0;

    if (returns != (window > 0))
        return kr_error_set(
            error, -EINVAL,
            "model: expected normaliser = returns with an attention_window or levels "
            "without, found normaliser = %s and attention_window = %zu",
            returns ? "returns" : "levels", window);
    if (returns && mode == KR_MODE_ANCHORED)
        return kr_error_set(
            error, -EINVAL,
            "mode: expected rolling or exact for a model with normaliser = returns and "
            "attention_window = %zu, found anchored",
            window);
    if (!returns && mode == KR_MODE_ROLLING)
        return kr_error_set(
            error, -EINVAL,
            "mode: expected exact or anchored for a model with normaliser = levels and "
            "full attention, found rolling");
    return 0;
}

int kr_live_resolve(struct kr_live_config *config, const struct kr_model *model,
                    const char *interval, const char *symbol, struct kr_error *error)
{
    size_t growth = config->growth ? config->growth : auto_growth(config);
    char key[KR_SYMBOL_MAX + sizeof(((struct kr_interval *)0)->text) + 2];
    enum kr_mode mode = config->mode;
    int r = check_model(model, mode, error);

    if (r < 0)
        return r;
    if (!config->lookback || !config->horizon || !config->min_bars || !config->max_context)
        return kr_error_set(
            error, -EINVAL,
            "lookback, min_bars, horizon, max_context: expected at least 1, found %zu, "
            "%zu, %zu, %zu",
            config->lookback, config->min_bars, config->horizon, config->max_context);
    if (config->min_bars > config->lookback)
        return kr_error_set(error, -EINVAL, "min_bars: expected at most lookback %zu, found %zu",
                            config->lookback, config->min_bars);
    if (kr_rolling_model(model)) {
        config->mode = mode == KR_MODE_AUTO ? KR_MODE_ROLLING : mode;
        config->growth = 0;
        return 0;
    }
    if (mode == KR_MODE_AUTO)
        mode = growth >= KR_MIN_GROWTH &&
                       config->lookback + growth + config->horizon <= config->max_context
                   ? KR_MODE_ANCHORED
                   : KR_MODE_EXACT;
    if (mode == KR_MODE_ANCHORED) {
        if (growth < KR_MIN_GROWTH)
            return kr_error_set(
                error, -EINVAL,
                "growth: expected at least %d for mode anchored, found %zu (lookback %zu, "
                "horizon %zu, max_context %zu)",
                KR_MIN_GROWTH, growth, config->lookback, config->horizon, config->max_context);
        if (config->lookback + growth + config->horizon > config->max_context)
            return kr_error_set(
                error, -EINVAL,
                "max_context: expected at least lookback %zu + growth %zu + horizon %zu "
                "for mode anchored, found %zu",
                config->lookback, growth, config->horizon, config->max_context);
        snprintf(key, sizeof(key), "%s|%s", interval, symbol);
        growth -= kr_fnv1a64(key) % (growth / 4);
    }
    config->growth = mode == KR_MODE_ANCHORED ? growth : 0;
    config->mode = mode;
    return 0;
}

size_t kr_live_max_window(const struct kr_live_config *config)
{
    return KR_MIN(config->lookback + config->growth, config->max_context);
}

struct kr_generator_size kr_live_generator_size(const struct kr_live_config *config, size_t paths)
{
    return (struct kr_generator_size){
        .max_paths = paths,
        .max_horizon = config->horizon,
        .max_context = config->max_context,
        .min_window = KR_MIN(config->min_bars, config->max_context),
        .max_window = kr_live_max_window(config),
    };
}

/* Memory */

static size_t series_capacity(const struct kr_model *model, const struct kr_live_config *config)
{
    size_t bars = config->lookback + config->growth;

    if (kr_rolling_model(model))
        bars = KR_MAX(bars, kr_rolling_bars(model));
    return bars + SERIES_SLACK;
}

/* Bars that the encoder sees: more than the window only where the lookback exceeds max_context. */
static size_t encoder_rows(const struct kr_live_config *config)
{
    return KR_MAX(config->lookback, kr_live_max_window(config));
}

size_t kr_live_size_bytes(const struct kr_model *model, const struct kr_live_config *config)
{
    return kr_state_size_bytes(model, kr_live_max_window(config), encoder_rows(config)) +
           kr_series_size_bytes(series_capacity(model, config));
}

int kr_live_init(struct kr_live *live, const struct kr_model *model,
                 const struct kr_live_config *config, struct kr_error *error)
{
    int r;

    memset(live, 0, sizeof(*live));
    if (config->mode == KR_MODE_AUTO || (config->mode == KR_MODE_ROLLING) > kr_rolling_model(model))
        return kr_error_set(error, -EINVAL, "mode: expected a resolved one, found %s",
                            kr_mode_names[config->mode]);
    live->config = *config;
    live->model = model;
    r = kr_series_init(&live->series, series_capacity(model, config));
    if (r == 0)
        r = kr_state_init(&live->state, model, kr_live_max_window(config), encoder_rows(config));
    if (r < 0) {
        kr_live_free(live);
        return kr_error_set(error, r, "stream: expected memory for %zu bars, found none",
                            series_capacity(model, config));
    }
    return 0;
}

static void end_pending(struct kr_live *live)
{
    live->pending_left = 0;
    if (live->spare)
        kr_pool_return(live->config.pool, live->spare);
    live->spare = NULL;
}

void kr_live_free(struct kr_live *live)
{
    end_pending(live);
    kr_series_free(&live->series);
    kr_state_free(&live->state);
    memset(live, 0, sizeof(*live));
}

/* Epochs */

static const struct kr_bar *last_bars(const struct kr_live *live, size_t n)
{
    return live->series.bars + live->series.len - n;
}

/* Encode the last n bars from scratch. Return: 1 if a value was clipped, 0, or an error. */
static int encode_window(struct kr_live *live, struct kr_engine *engine,
                         const struct kr_normaliser *normaliser, size_t n)
{
    size_t context = live->config.max_context;

    kr_state_reset(&live->state, normaliser, n > context ? n - context : 0);
    return kr_state_append(&live->state, engine, last_bars(live, n), n);
}

static void epoch_begun(struct kr_live *live, bool clipped)
{
    live->has_epoch = true;
    live->clipped = clipped;
    live->epoch++;
    live->window_t0_ns = last_bars(live, live->state.len)->t_ns;
}

/* A new epoch at once: statistics and window of the last `lookback` bars. */
static int begin_epoch(struct kr_live *live, struct kr_engine *engine)
{
    size_t n = live->config.lookback;
    struct kr_normaliser normaliser;
    int r;

    end_pending(live);
    kr_normaliser_fit(&normaliser, last_bars(live, n), n, live->config.scale);
    r = encode_window(live, engine, &normaliser, n);
    if (r < 0)
        return r;
    epoch_begun(live, r > 0);
    return 0;
}

static void freeze_next(struct kr_live *live)
{
    size_t n = live->config.lookback;

    kr_normaliser_fit(&live->pending, last_bars(live, n), n, live->config.scale);
    live->pending_left = KR_EPOCH_DELAY;
    live->spare_clipped = false;
    if (live->config.pool)
        live->spare = kr_pool_take(live->config.pool, n + KR_EPOCH_DELAY);
    if (live->spare)
        kr_state_reset(live->spare, &live->pending, 0);
}

/* Bring the spare to `target` rows of the coming window of `window` last bars. */
static int encode_spare(struct kr_live *live, struct kr_engine *engine, size_t window,
                        size_t target)
{
    int r;

    if (!live->spare || target <= live->spare->len)
        return 0;
    r = kr_state_append(live->spare, engine, last_bars(live, window) + live->spare->len,
                        target - live->spare->len);
    live->spare_clipped |= r > 0;
    return KR_MIN(r, 0);
}

/* One more bar came while the next epoch is pending: an eighth of its window is encoded, never the last
 * bar, which may still be revised; with the eighth bar it takes over. */
static int advance_pending(struct kr_live *live, struct kr_engine *engine)
{
    size_t window = live->config.lookback + KR_EPOCH_DELAY - --live->pending_left, share;
    int r;

    if (live->pending_left > 0) {
        share = (live->config.lookback + KR_EPOCH_DELAY) * (KR_EPOCH_DELAY - live->pending_left) /
                KR_EPOCH_DELAY;
        return encode_spare(live, engine, window, KR_MIN(share, window - 1));
    }
    if (live->spare) {
        r = encode_spare(live, engine, window, window);
        if (r == 0)
            r = kr_state_copy(&live->state, live->spare);
    } else {
        live->n_waited++;
        r = encode_window(live, engine, &live->pending, window);
        live->spare_clipped = r > 0;
    }
    end_pending(live);
    if (r < 0)
        return r;
    epoch_begun(live, live->spare_clipped);
    return 0;
}

double kr_live_drift(const struct kr_live *live)
{
    size_t n = live->config.lookback;
    const struct kr_normaliser *frozen = &live->state.normaliser;
    struct kr_normaliser now;
    float x[KR_COLUMNS];
    double drift = 0;

    if (live->config.mode != KR_MODE_ANCHORED || !live->has_epoch)
        return 0;
    kr_normaliser_fit(&now, last_bars(live, n), n, false);
    kr_normaliser_apply(frozen, last_bars(live, 1), x);
    for (int c = KR_OPEN; c <= KR_CLOSE; c++) {
        double mean = ldexp(frozen->mean[c], -frozen->exponent[c]);
        double floor = 1e-6 * fabs(mean); /* a flat window has no spread to compare with */
        double std = ldexp(frozen->std[c], -frozen->exponent[c]) + floor;

        drift = fmax(drift, fabs(now.mean[c] - mean) / std);
        drift = fmax(drift, fabs(log2((now.std[c] + floor) / std)));
        if (fabsf(x[c]) >= 5)
            drift = INFINITY;
    }
    return drift;
}

static bool drifted(const struct kr_live *live)
{
    double limit = live->config.drift_limit;

    return kr_live_drift(live) > (limit > 0 ? limit : KR_DRIFT_LIMIT);
}

/* The last bar joins the epoch; the next one is frozen or swapped in when due. */
static int grow_epoch(struct kr_live *live, struct kr_engine *engine)
{
    size_t left;
    int r = kr_state_append(&live->state, engine, last_bars(live, 1), 1);

    if (r < 0)
        return r;
    live->clipped |= r > 0;
    if (live->pending_left > 0)
        return advance_pending(live, engine);
    left = live->config.lookback + live->config.growth - live->state.len;
    if (left <= KR_EPOCH_DELAY) {
        freeze_next(live);
    } else if (drifted(live)) {
        live->n_drifted++;
        freeze_next(live);
    }
    return 0;
}

/* Changes */

static int apply_next(struct kr_live *live, struct kr_engine *engine, const struct kr_bar *bar)
{
    kr_series_push(&live->series, bar);
    if (live->config.mode != KR_MODE_ANCHORED || live->series.len < live->config.lookback)
        return 0;
    return live->has_epoch ? grow_epoch(live, engine) : begin_epoch(live, engine);
}

static int apply_reanchor(struct kr_live *live, struct kr_engine *engine, const struct kr_bar *bar)
{
    kr_series_push(&live->series, bar);
    if (live->config.mode != KR_MODE_ANCHORED || live->series.len < live->config.lookback)
        return 0;
    live->n_reanchored++;
    return begin_epoch(live, engine);
}

static int replace_last_row(struct kr_live *live, struct kr_engine *engine)
{
    int r = kr_state_truncate(&live->state, live->state.len - 1);

    if (r == 0)
        r = kr_state_append(&live->state, engine, last_bars(live, 1), 1);
    live->clipped |= r > 0;
    return KR_MIN(r, 0);
}

static int apply_revised(struct kr_live *live, struct kr_engine *engine, const struct kr_bar *bar)
{
    int r = kr_series_replace(&live->series, bar);

    if (r < 0)
        return r;
    if (!live->has_epoch)
        return 0;
    if (bar->t_ns == kr_series_last(&live->series)->t_ns)
        return replace_last_row(live, engine);
    if (bar->t_ns < live->window_t0_ns)
        return 0;
    live->n_reanchored++;
    return begin_epoch(live, engine);
}

static int apply_late(struct kr_live *live, const struct kr_bar *bar)
{
    int r = kr_series_insert(&live->series, bar);

    if (r == 0 && live->spare) /* its rows have moved */
        kr_state_reset(live->spare, &live->pending, 0);
    return r;
}

int kr_live_apply(struct kr_live *live, struct kr_engine *engine, enum kr_change change,
                  const struct kr_bar *bar)
{
    int r = 0;

    if (live->state.rolling)
        return kr_rolling_apply(live, engine, change, bar);
    switch (change) {
    case KR_NEXT:
        r = apply_next(live, engine, bar);
        break;
    case KR_REANCHOR:
        r = apply_reanchor(live, engine, bar);
        break;
    case KR_REVISED:
        r = apply_revised(live, engine, bar);
        break;
    case KR_LATE:
        r = apply_late(live, bar);
        break;
    case KR_HISTORY:
        kr_series_push(&live->series, bar);
        live->has_epoch = false;
        end_pending(live);
        break;
    }
    if (r < 0 && r != -ENOENT && r != -EEXIST && r != -ERANGE)
        live->has_epoch = false; /* begun anew from the bars */
    return r;
}

/* Forecast */

bool kr_live_ready(const struct kr_live *live)
{
    return live->series.len >= live->config.min_bars;
}

/* Have `state` end with the last bar, under the statistics that the mode asks for. */
static int prepare_levels(struct kr_live *live, struct kr_engine *engine,
                          struct kr_live_report *ret_report)
{
    size_t n = KR_MIN(live->config.lookback, live->series.len), anchor = live->config.anchor;
    struct kr_normaliser normaliser;
    int r;

    if (live->config.mode == KR_MODE_ANCHORED && n == live->config.lookback) {
        if (!live->has_epoch)
            r = begin_epoch(live, engine);
        else
            r = live->state.last_valid ? 0 : replace_last_row(live, engine);
        *ret_report = (struct kr_live_report){.mode = KR_MODE_ANCHORED,
                                              .epoch = live->epoch,
                                              .bars = live->state.len,
                                              .anchor_n = live->state.normaliser.n_bars,
                                              .win_t0_ns = live->window_t0_ns,
                                              .clipped = live->clipped};
        return r;
    }
    kr_normaliser_fit(&normaliser, last_bars(live, n), anchor ? KR_MIN(anchor, n) : n,
                      live->config.scale);
    r = encode_window(live, engine, &normaliser, n);
    *ret_report = (struct kr_live_report){.mode = anchor ? KR_MODE_ANCHORED : KR_MODE_EXACT,
                                          .bars = live->state.len,
                                          .anchor_n = normaliser.n_bars,
                                          .win_t0_ns = last_bars(live, n)->t_ns,
                                          .clipped = r > 0};
    return KR_MIN(r, 0);
}

/* A market that does not move is answered with the last bar again, whatever the model would draw. */
static void fill_flat(struct kr_paths *paths, const struct kr_request *request,
                      const struct kr_bar *last)
{
    paths->n_paths = request->paths;
    paths->n_steps = request->horizon;
    paths->window_slid = false;
    for (size_t i = 0; i < paths->n_paths * paths->n_steps; i++) {
        paths->s1[i] = paths->s2[i] = 0;
        for (int c = 0; c < KR_COLUMNS; c++)
            paths->bars[i * KR_COLUMNS + c] = (float)last->v[c];
    }
}

static unsigned repair_paths(struct kr_paths *paths, double last_close)
{
    unsigned n = 0;

    for (size_t path = 0; path < paths->n_paths; path++)
        n +=
            kr_repair(paths->bars + path * paths->n_steps * KR_COLUMNS, paths->n_steps, last_close);
    return n;
}

/* The last close in the window's units, not clipped: where a joined path starts. */
static float normalised_close(const struct kr_normaliser *normaliser, const struct kr_bar *bar)
{
    float close = ldexpf((float)bar->v[KR_CLOSE], normaliser->exponent[KR_CLOSE]);

    return (close - normaliser->mean[KR_CLOSE]) / (normaliser->std[KR_CLOSE] + 1e-5f);
}

/* Honest answers are wanted, and nothing moves in what a forecast looks at. */
static bool is_flat(const struct kr_live *live, size_t bars)
{
    size_t n = KR_MIN(bars, live->config.lookback);

    return (live->config.scale || live->config.join || live->config.repair) &&
           kr_flat(last_bars(live, n), n);
}

static int forecast_last(struct kr_live *live, struct kr_engine *engine,
                         struct kr_generator *generator, const struct kr_request *request,
                         struct kr_paths *ret, struct kr_live_report *ret_report,
                         struct kr_error *error)
{
    const struct kr_bar *last = kr_series_last(&live->series);
    struct kr_request filled = *request;
    struct kr_walk walk;
    int r = (live->state.rolling ? kr_rolling_prepare : prepare_levels)(live, engine, ret_report);

    if (r == 0)
        r = kr_state_check(&live->state, error);
    if (r < 0)
        return r;
    ret_report->flat = is_flat(live, ret_report->bars);
    if (ret_report->flat) {
        fill_flat(ret, request, last);
        return 0;
    }
    if (live->state.rolling) { /* a walk starts at the last close by itself */
        size_t context = KR_MIN(live->series.len, live->model->returns.config.bars);

        kr_walk_start(&walk, &live->model->returns, last_bars(live, context), context);
        filled.walk = &walk;
    } else {
        filled.max_context = live->config.max_context;
        filled.join = live->config.join;
        filled.last_close = normalised_close(&live->state.normaliser, last);
    }
    r = kr_generate(generator, engine, &live->state, &filled, ret, error);
    if (r < 0)
        return r;
    ret_report->joined = live->state.rolling || filled.join;
    ret_report->window_slid = ret->window_slid;
    if (live->config.repair)
        ret_report->n_repaired = repair_paths(ret, last->v[KR_CLOSE]);
    return 0;
}

/* Lay a forming bar over the state, forecast behind it, take it off again. */
static int forecast_overlaid(struct kr_live *live, struct kr_engine *engine,
                             struct kr_generator *generator, const struct kr_request *request,
                             const struct kr_bar *overlay, struct kr_paths *ret,
                             struct kr_live_report *ret_report, struct kr_error *error)
{
    bool in_epoch = live->has_epoch, clipped = live->clipped;
    int r = 0;

    kr_series_push(&live->series, overlay);
    if (in_epoch)
        r = live->state.rolling ? kr_rolling_append(live, engine, 1)
                                : kr_state_append(&live->state, engine, overlay, 1);
    live->clipped |= r > 0;
    if (r >= 0)
        r = forecast_last(live, engine, generator, request, ret, ret_report, error);
    if (in_epoch && kr_state_truncate(&live->state, live->state.len - 1) < 0)
        live->has_epoch = false;
    if (!in_epoch)
        live->has_epoch = false; /* an epoch that the overlay alone would have begun */
    live->clipped = clipped;
    kr_series_pop(&live->series);
    return r;
}

int kr_live_forecast(struct kr_live *live, struct kr_engine *engine, struct kr_generator *generator,
                     const struct kr_request *request, const struct kr_bar *overlay,
                     struct kr_paths *ret, struct kr_live_report *ret_report,
                     struct kr_error *error)
{
    if (!kr_live_ready(live))
        return kr_error_set(error, -EAGAIN, "forecast: expected at least %zu bars, found %zu",
                            live->config.min_bars, live->series.len);
    if (overlay)
        return forecast_overlaid(live, engine, generator, request, overlay, ret, ret_report, error);
    return forecast_last(live, engine, generator, request, ret, ret_report, error);
}
