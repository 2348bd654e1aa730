/* SPDX-License-Identifier: MIT */
#include "clients/offline.h"

#include "core/draw.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int kc_offline_resolve(struct kc_offline_config *config, const struct kr_model *model,
                       struct kr_error *error)
{
    struct kr_live_config live = {.mode = config->mode,
                                  .lookback = config->lookback,
                                  .min_bars = 1,
                                  .horizon = config->horizon,
                                  .max_context = config->max_context};
    int r;

    if (config->anchor > config->lookback)
        return kr_error_set(error, -EINVAL, "anchor: expected at most lookback %zu, found %zu",
                            config->lookback, config->anchor);
    if (config->anchor && config->mode != KR_MODE_AUTO && config->mode != KR_MODE_ANCHORED)
        return kr_error_set(error, -EINVAL, "anchor: expected mode anchored beside it, found %s",
                            kr_mode_names[config->mode]);
    if (config->anchor)
        live.mode = KR_MODE_ANCHORED;
    if (live.mode == KR_MODE_ANCHORED && !model->attention_window) {
        /* One forecast needs no room to grow: what the daemon asks of an epoch does not apply. */
        config->mode = KR_MODE_ANCHORED;
        if (!config->anchor)
            config->anchor = config->lookback;
        return 0;
    }
    r = kr_live_resolve(&live, model, config->interval, config->symbol, error);
    if (r < 0)
        return r;
    config->mode = live.mode;
    if (live.mode == KR_MODE_ANCHORED)
        config->anchor = config->lookback;
    return 0;
}

/* Memory for everything at once, so that nothing is allocated while sampling. */
static int reserve(struct kc_offline *offline, const struct kr_model *model,
                   const struct kc_offline_config *config, struct kr_error *error)
{
    bool rolling = config->mode == KR_MODE_ROLLING;
    /* else one window, its statistics by anchor */
    struct kr_live_config live = {.mode = rolling ? KR_MODE_ROLLING : KR_MODE_EXACT,
                                  .lookback = config->lookback,
                                  .min_bars = 1,
                                  .horizon = config->horizon,
                                  .max_context = config->max_context,
                                  .anchor = config->anchor,
                                  .scale = !config->raw,
                                  .join = !config->raw,
                                  .repair = !config->raw};
    struct kr_generator_size size;
    int r = kr_live_init(&offline->live, model, &live, error);

    if (r < 0)
        return r;
    offline->live.series.next_row = config->first_row;
    size = kr_live_generator_size(&live, config->paths);
    size.min_window = size.max_window; /* the one window there will be */
    r = kr_generator_init(&offline->generator, model, &size, error);
    if (r < 0)
        return r;
    r = kr_engine_init(&offline->engine, model, KR_MAX(config->lookback, config->max_context) + 1);
    if (r == 0)
        r = kr_paths_init(&offline->paths, config->paths, config->horizon);
    offline->t_ns = calloc(config->horizon, sizeof(*offline->t_ns));
    offline->stamps = calloc(config->horizon, sizeof(*offline->stamps));
    if (r < 0 || !offline->t_ns || !offline->stamps)
        return kr_error_set(error, -ENOMEM,
                            "forecast: expected memory for %zu paths of %zu steps, found none",
                            config->paths, config->horizon);
    return 0;
}

/* Times of the horizon: open times for the output, stamps as they would be delivered for the model. */
static int set_future(struct kc_offline *offline, const struct kc_offline_config *config,
                      const struct kc_input_config *source, const struct kc_input *input,
                      const struct kr_calendar *calendar, struct kr_error *error)
{
    int64_t last_ns = input->bars[input->n - 1].t_ns;
    int r = 0;

    if (input->future_ns && input->n_future < config->horizon)
        return kr_error_set(error, -EBADMSG,
                            "%s: future_ts_ns: expected %zu times later than the last bar, found "
                            "%zu",
                            source->path, config->horizon, input->n_future);
    if (!input->future_ns)
        r = kr_calendar_next(calendar, &input->interval, last_ns, config->horizon, offline->t_ns);
    for (size_t i = 0; i < config->horizon && r == 0; i++) {
        if (!input->future_ns) {
            r = kr_stamp_of_open(source->zone, &input->interval, source->stamp, offline->t_ns[i],
                                 &offline->stamps[i]);
            continue;
        }
        kr_zone_stamp(source->zone, input->future_ns[i], &offline->stamps[i]);
        offline->t_ns[i] = input->future_ns[i];
        if (source->stamp == KR_STAMP_CLOSE)
            r = kr_interval_shift(source->zone, &input->interval, input->future_ns[i], -1,
                                  &offline->t_ns[i]);
    }
    if (r < 0)
        return kr_error_set(error, -EBADMSG,
                            "%s: calendar: expected %zu open slots, 400 days apart at most, found "
                            "fewer",
                            source->path, config->horizon);
    return 0;
}

int kc_offline_run(struct kc_offline *offline, const struct kr_model *model,
                   const struct kc_offline_config *config, const struct kc_input_config *source,
                   const struct kc_input *input, const struct kr_calendar *calendar,
                   struct kr_error *error)
{
    struct kr_request request = {.horizon = config->horizon,
                                 .paths = config->paths,
                                 .sampling = config->sampling,
                                 .key = kr_draw_key(config->seed, config->interval, config->symbol),
                                 .uniforms = config->uniforms,
                                 .keep_going = config->keep_going,
                                 .context = config->context};
    int r;

    memset(offline, 0, sizeof(*offline));
    if (input->n < config->lookback)
        return kr_error_set(error, -EBADMSG, "%s: bars: expected at least %zu, found %zu",
                            source->path, config->lookback, input->n);
    r = reserve(offline, model, config, error);
    if (r == 0)
        r = set_future(offline, config, source, input, calendar, error);
    for (size_t i = input->n - config->lookback; i < input->n && r == 0; i++)
        r = kr_live_apply(&offline->live, &offline->engine, KR_HISTORY, &input->bars[i]);
    if (r < 0)
        return r;
    request.future = offline->stamps;
    request.as_of_ns = input->bars[input->n - 1].t_ns;
    return kr_live_forecast(&offline->live, &offline->engine, &offline->generator, &request, NULL,
                            &offline->paths, &offline->report, error);
}

void kc_offline_free(struct kc_offline *offline)
{
    kr_live_free(&offline->live);
    kr_generator_free(&offline->generator);
    kr_engine_free(&offline->engine);
    kr_paths_free(&offline->paths);
    free(offline->t_ns);
    free(offline->stamps);
    memset(offline, 0, sizeof(*offline));
}
