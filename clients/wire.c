/* SPDX-License-Identifier: MIT */
/* What a daemon publishes. Keys go out in the protocol's own order; what it does not name comes
 * last. */
#include "clients/wire.h"
#include "clients/encoder.h"

#include <assert.h>
#include <stdio.h>

const char *const kw_flag_names[KW_FLAGS] = {
    "flat",     "gap",    "late", "revised", "synthetic", "clipped",    "window_slid",
    "repaired", "joined", "tail", "forming", "resumed",   "stratified",
};

/* Keys of forecast_head(). */
#define HEAD_KEYS 19

/* From `v` to `t`: what a forecast and its paths have in common. */
static void forecast_head(struct kw_encoder *encoder, const struct kw_forecast *forecast)
{
    kw_put_uint(encoder, "v", KW_VERSION);
    kw_put_text(encoder, "sym", forecast->symbol);
    kw_put_text(encoder, "iv", forecast->interval);
    kw_put_uint(encoder, "ep", forecast->ep);
    kw_put_uint(encoder, "seq", forecast->seq);
    kw_put_int(encoder, "as_of", forecast->as_of_ns);
    kw_put_int(encoder, "rev", forecast->rev);
    kw_put_map(encoder, "last", 2);
    kw_put_int(encoder, "t", forecast->last_t_ns);
    kw_put_real(encoder, "c", forecast->last_close);
    kw_put_int(encoder, "pub", forecast->pub_ns);
    kw_put_text(encoder, "mode", forecast->mode);
    kw_put_uint(encoder, "epoch", forecast->epoch);
    kw_put_uint(encoder, "bars", forecast->bars);
    kw_put_int(encoder, "win_t0", forecast->win_t0_ns);
    kw_put_uint(encoder, "anchor_n", forecast->anchor_n);
    kw_put_map(encoder, "model", 2);
    kw_put_text(encoder, "name", forecast->model_name);
    kw_put_text(encoder, "sha256", forecast->model_sha256);
    kw_put_text(encoder, "isa", forecast->isa);
    kw_put_text(encoder, "precision", forecast->precision);
    kw_put_map(encoder, "params", 9);
    kw_put_real(encoder, "T", forecast->sampling.temperature);
    kw_put_uint(encoder, "top_k", forecast->sampling.top_k);
    kw_put_real(encoder, "top_p", forecast->sampling.top_p);
    kw_put_uint(encoder, "paths", forecast->paths);
    kw_put_uint(encoder, "horizon", forecast->horizon);
    kw_put_uint(encoder, "seed", forecast->seed);
    kw_put_bool(encoder, "scale", forecast->scale);
    kw_put_bool(encoder, "join", forecast->join);
    kw_put_bool(encoder, "repair", forecast->repair);
    kw_put_ints(encoder, "t", forecast->t_ns, forecast->horizon);
}

/* The three keys of a column, which `ret` begins with too. */
static void band(struct kw_encoder *encoder, const struct kr_band *band, size_t n_levels, size_t n)
{
    kw_put_reals(encoder, "mean", band->mean, n);
    kw_put_reals(encoder, "std", band->std, n);
    kw_put_rows(encoder, "q", band->q, n_levels, n);
}

static void spread(struct kw_encoder *encoder, const char *key, const struct kr_spread *spread,
                   size_t n_levels)
{
    kw_put_map(encoder, key, 2);
    kw_put_real(encoder, "mean", spread->mean);
    kw_put_reals(encoder, "q", spread->q, n_levels);
}

/* {level: loss}; keys are strings, since many readers take no other. */
static void risk(struct kw_encoder *encoder, const char *key, const double losses[KR_RISK_LEVELS])
{
    static const char *const names[KR_RISK_LEVELS] = {"0.95", "0.99"};

    kw_put_map(encoder, key, KR_RISK_LEVELS);
    for (size_t i = 0; i < KR_RISK_LEVELS; i++)
        kw_put_real(encoder, names[i], losses[i]);
}

static void flags(struct kw_encoder *encoder, unsigned flags)
{
    kw_put_array(encoder, "flags", (size_t)__builtin_popcount(flags));
    for (unsigned i = 0; i < KW_FLAGS; i++)
        if (flags & 1u << i)
            kw_text(encoder, kw_flag_names[i]);
}

int kw_encode_forecast(msgpack_sbuffer *out, const struct kw_forecast *forecast)
{
    const struct kr_summary *summary = forecast->summary;
    size_t n = forecast->horizon, n_levels = summary->n_levels;
    struct kw_encoder encoder;

    assert(summary->n_steps == n && forecast->flags >> KW_FLAGS == 0);
    kw_begin(&encoder, out, HEAD_KEYS + 1 + KR_COLUMNS + 4);
    forecast_head(&encoder, forecast);
    kw_put_reals(&encoder, "levels", summary->levels, n_levels);
    for (int c = 0; c < KR_COLUMNS; c++) {
        kw_put_map(&encoder, kr_column_names[c], 3);
        band(&encoder, &summary->columns[c], n_levels, n);
    }
    kw_put_map(&encoder, "ret", 8);
    band(&encoder, &summary->ret, n_levels, n);
    kw_put_reals(&encoder, "p_up", summary->p_up, n);
    spread(&encoder, "vol", &summary->vol, n_levels);
    spread(&encoder, "mdd", &summary->mdd, n_levels);
    risk(&encoder, "var", summary->var);
    risk(&encoder, "es", summary->es);
    kw_put_map(&encoder, "cal", 3);
    kw_put_text(&encoder, "status", forecast->cal_status);
    kw_put_rows(&encoder, "q", forecast->cal_q ? forecast->cal_q : summary->columns[KR_CLOSE].q,
                n_levels, n);
    kw_put_uint(&encoder, "n", forecast->cal_n);
    flags(&encoder, forecast->flags);
    kw_put_map(&encoder, "lat", 4);
    kw_put_uint(&encoder, "queue_us", forecast->queue_us);
    kw_put_uint(&encoder, "append_us", forecast->append_us);
    kw_put_uint(&encoder, "decode_us", forecast->decode_us);
    kw_put_uint(&encoder, "total_us", forecast->total_us);
    return kw_end(&encoder);
}

int kw_encode_paths(msgpack_sbuffer *out, const struct kw_forecast *forecast, const float *paths)
{
    size_t shape[] = {forecast->paths, forecast->horizon, KR_COLUMNS};
    size_t n = shape[0] * shape[1] * shape[2];
    struct kw_encoder encoder;

    kw_begin(&encoder, out, HEAD_KEYS + 2);
    forecast_head(&encoder, forecast);
    kw_put_ints(&encoder, "shape",
                (const int64_t[]){(int64_t)shape[0], (int64_t)shape[1], (int64_t)shape[2]}, 3);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "kw_encode_paths() writes f32 as they lie in memory"
#endif
    kw_put_bytes(&encoder, "data", paths, n * sizeof(float));
    return kw_end(&encoder);
}

static void hits(struct kw_encoder *encoder, const char *key, const bool *hit, size_t n)
{
    kw_put_array(encoder, key, n);
    for (size_t i = 0; i < n; i++)
        kw_bool(encoder, hit[i]);
}

int kw_encode_score(msgpack_sbuffer *out, const struct kw_score *message)
{
    const struct kr_score *score = message->score;
    size_t n_levels = message->n_levels;
    struct kw_encoder encoder;

    kw_begin(&encoder, out, 24);
    kw_put_uint(&encoder, "v", KW_VERSION);
    kw_put_text(&encoder, "sym", message->symbol);
    kw_put_text(&encoder, "iv", message->interval);
    kw_put_uint(&encoder, "ep", message->ep);
    kw_put_uint(&encoder, "seq", message->seq);
    kw_put_int(&encoder, "as_of", score->as_of_ns);
    kw_put_int(&encoder, "t", score->t_ns);
    kw_put_uint(&encoder, "h", score->step + 1);
    kw_put_real(&encoder, "crps", score->crps);
    kw_put_real(&encoder, "crps_rw", score->crps_rw);
    kw_put_real(&encoder, "pit", score->pit);
    hits(&encoder, "hit", score->hit, n_levels);
    kw_put_uint(&encoder, "n", score->n);
    kw_put_real(&encoder, "skill", score->skill);
    kw_put_real(&encoder, "y", score->y);
    kw_put_text(&encoder, "status", kr_trust_names[score->status]);
    kw_put_real(&encoder, "crps_cal", score->crps_cal);
    kw_put_real(&encoder, "crps_still", score->crps_still);
    kw_put_real(&encoder, "pit_cal", score->pit_cal);
    hits(&encoder, "hit_cal", score->hit_cal, n_levels);
    kw_put_real(&encoder, "skill_cal", score->skill_cal);
    kw_put_reals(&encoder, "levels", message->levels, n_levels);
    kw_put_reals(&encoder, "pinball", score->pinball, n_levels);
    kw_put_bool(&encoder, "stratified", score->stratified);
    return kw_end(&encoder);
}

int kw_encode_event(msgpack_sbuffer *out, const struct kw_event *event)
{
    struct kw_encoder encoder;

    kw_begin(&encoder, out, 9);
    kw_put_uint(&encoder, "v", KW_VERSION);
    kw_put_text(&encoder, "sym", event->symbol);
    kw_put_text(&encoder, "iv", event->interval);
    kw_put_uint(&encoder, "ep", event->ep);
    kw_put_uint(&encoder, "seq", event->seq);
    kw_put_int(&encoder, "t", event->t_ns);
    kw_put_text(&encoder, "kind", event->kind);
    kw_put_text(&encoder, "reason", event->reason);
    kw_put_uint(&encoder, "count", event->count);
    return kw_end(&encoder);
}

static void counts(struct kw_encoder *encoder, const char *key, const struct kw_count *counts,
                   size_t n)
{
    kw_put_map(encoder, key, n);
    for (size_t i = 0; i < n; i++)
        kw_put_uint(encoder, counts[i].name, counts[i].n);
}

int kw_encode_status(msgpack_sbuffer *out, const struct kw_status *status)
{
    struct kw_encoder encoder;

    kw_begin(&encoder, out, 24);
    kw_put_uint(&encoder, "v", KW_VERSION);
    kw_put_uint(&encoder, "ep", status->ep);
    kw_put_uint(&encoder, "seq", status->seq);
    kw_put_int(&encoder, "pub", status->pub_ns);
    kw_put_real(&encoder, "uptime_s", status->uptime_s);
    kw_put_uint(&encoder, "received", status->received);
    kw_put_uint(&encoder, "accepted", status->accepted);
    counts(&encoder, "rejected", status->rejected, status->n_rejected);
    kw_put_uint(&encoder, "forecasts", status->forecasts);
    kw_put_uint(&encoder, "skipped", status->skipped);
    kw_put_uint(&encoder, "epoch_waited", status->epoch_waited);
    kw_put_int(&encoder, "lag_us", status->lag_us);
    kw_put_uint(&encoder, "backlog", status->backlog);
    counts(&encoder, "streams", status->streams, status->n_streams);
    kw_put_uint(&encoder, "rss_bytes", status->rss_bytes);
    kw_put_uint(&encoder, "duplicates", status->duplicates);
    kw_put_uint(&encoder, "forming", status->forming);
    kw_put_uint(&encoder, "window_slid", status->window_slid);
    kw_put_uint(&encoder, "events_dropped", status->events_dropped);
    kw_put_text(&encoder, "version", status->version);
    kw_put_text(&encoder, "model", status->model_name);
    kw_put_text(&encoder, "isa", status->isa);
    kw_put_map(&encoder, "trust", status->n_trust + 5);
    for (size_t i = 0; i < status->n_trust; i++)
        kw_put_uint(&encoder, status->trust[i].name, status->trust[i].n);
    kw_put_uint(&encoder, "scored", status->scored);
    kw_put_uint(&encoder, "unscored", status->unscored);
    kw_put_uint(&encoder, "recalibrated", status->recalibrated);
    kw_put_real(&encoder, "skill", status->skill);
    kw_put_real(&encoder, "skill_cal", status->skill_cal);
    counts(&encoder, "state", status->state, status->n_state);
    return kw_end(&encoder);
}
