/* SPDX-License-Identifier: MIT */
/* What can be asked on the control socket (kronosd-wire(7), "Control"). */
#include "daemon/control.h"

#include "daemon/args.h"
#include "daemon/clock.h"
#include "daemon/daemon.h"
#include "daemon/intake.h"
#include "daemon/log.h"
#include "daemon/status.h"

#include <config.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Packed bytes of one entry of `symbols` at most, of one bar of a history, and what a reply has besides. */
#define SYMBOL_BYTES 1024
#define BAR_BYTES    (8 + 8 * KR_COLUMNS)
#define REPLY_BYTES  1024

/* Arguments */

static int bad(struct kd_call *call, const char *key, const char *expected)
{
    return kd_call_refuse(call, "bad_request", "%s: expected %s", key, expected);
}

/* `sym` and `iv`, well-formed. Return: 0, -1 (refused). */
static int stream_key(struct kd_call *call, char symbol[KR_SYMBOL_MAX + 1],
                      struct kr_interval *interval)
{
    char text[sizeof(interval->text)];

    if (kd_args_string(call->request, "sym", symbol, KR_SYMBOL_MAX + 1) <= 0 ||
        !kr_symbol_valid(symbol, strlen(symbol)))
        return bad(call, "sym", "a symbol");
    if (kd_args_string(call->request, "iv", text, sizeof(text)) <= 0 ||
        kr_interval_parse(text, interval))
        return bad(call, "iv", "an interval such as 5m");
    return 0;
}

static struct kd_stream *known_stream(struct kd_call *call)
{
    char symbol[KR_SYMBOL_MAX + 1];
    struct kr_interval interval;
    struct kd_stream *stream;

    if (stream_key(call, symbol, &interval))
        return NULL;
    stream = kd_streams_find(&call->daemon->streams, symbol, interval.text);
    if (!stream)
        kd_call_refuse(call, "not_found", "no stream %s %s", interval.text, symbol);
    return stream;
}

/* An optional count in [least, most]. Return: 0, -1 (refused). */
static int count(struct kd_call *call, const char *key, size_t least, size_t most, size_t *ret)
{
    uint64_t value;
    int found = kd_args_uint(call->request, key, &value);

    if (!found)
        return 0;
    if (found < 0 || value < least)
        return kd_call_refuse(call, "bad_request", "%s: expected an integer from %zu to %zu", key,
                              least, most);
    if (value > most)
        return kd_call_refuse(call, "too_large", "%s: expected at most %zu, found %llu", key, most,
                              (unsigned long long)value);
    *ret = value;
    return 0;
}

/* Questions */

static int op_ping(struct kd_call *call)
{
    kd_call_begin(call, 2);
    kw_put_uint(&call->encoder, "ep", call->daemon->ep);
    kw_put_int(&call->encoder, "pub", kd_wall_ns());
    return 0;
}

static int op_version(struct kd_call *call)
{
    const struct kr_model *model = call->daemon->model;

    kd_call_begin(call, 5);
    kw_put_text(&call->encoder, "version", PACKAGE_VERSION);
    kw_put_uint(&call->encoder, "v", KW_VERSION);
    kw_put_map(&call->encoder, "model", 2);
    kw_put_text(&call->encoder, "name", model->name);
    kw_put_text(&call->encoder, "sha256", model->sha256);
    kw_put_text(&call->encoder, "isa", model->isa);
    kw_put_text(&call->encoder, "precision", kr_precision_names[model->products->precision]);
    return 0;
}

static int op_status(struct kd_call *call)
{
    msgpack_sbuffer status;

    msgpack_sbuffer_init(&status);
    if (kd_status_encode(call->daemon, call->daemon->status_topic->seq, &status)) {
        msgpack_sbuffer_destroy(&status);
        return kd_call_refuse(call, "failed", "no memory for the status");
    }
    kd_call_begin(call, 1);
    kw_put_packed(&call->encoder, "status", status.data, status.size);
    msgpack_sbuffer_destroy(&status);
    return 0;
}

static void put_standing(struct kw_encoder *encoder, const struct kr_standing *standing)
{
    bool scored = standing->n_tally > 0;

    kw_put_map(encoder, "trust", 7);
    kw_put_uint(encoder, "n", standing->n);
    kw_put_uint(encoder, "scored", standing->n_scored);
    kw_put_uint(encoder, "unscored", standing->n_unscored);
    kw_put_uint(encoder, "waiting", standing->n_waiting);
    kw_put_real(encoder, "skill", scored ? standing->skill : NAN);
    kw_put_real(encoder, "skill_cal", scored ? standing->skill_cal : NAN);
    kw_put_real(encoder, "cover_cal", scored ? standing->cover_cal : NAN);
}

static void put_symbol(struct kw_encoder *encoder, const struct kd_stream *stream)
{
    const struct kr_bar *last = kr_series_last(&stream->ledger.series);
    enum kr_mode mode = stream->has_forecast ? stream->mode : stream->live.mode;

    kw_map(encoder, 18 + (last ? 1 : 0) + (stream->has_standing ? 1 : 0));
    kw_put_text(encoder, "sym", stream->symbol);
    kw_put_text(encoder, "iv", stream->interval.text);
    kw_put_text(encoder, "state", kd_state_names[stream->state]);
    if (last) {
        kw_put_map(encoder, "last", 3);
        kw_put_int(encoder, "t", last->t_ns);
        kw_put_int(encoder, "rev", last->rev);
        kw_put_real(encoder, "c", last->v[KR_CLOSE]);
    }
    kw_put_int(encoder, "row", stream->ledger.series.next_row - 1);
    kw_put_text(encoder, "mode", kr_mode_names[mode]);
    kw_put_uint(encoder, "epoch", stream->has_forecast ? stream->epoch : 0);
    kw_put_text(encoder, "cal", kr_trust_names[stream->standing.status]);
    kw_put_uint(encoder, "bars", stream->ledger.series.len);
    kw_put_uint(encoder, "accepted", stream->n_accepted);
    kw_put_uint(encoder, "rejected", stream->n_rejected);
    kw_put_uint(encoder, "duplicates", stream->n_duplicates);
    kw_put_uint(encoder, "forming", stream->n_forming);
    kw_put_uint(encoder, "missing", stream->n_missing);
    kw_put_uint(encoder, "filled", stream->n_filled);
    kw_put_uint(encoder, "loaded", stream->n_loaded);
    kw_put_uint(encoder, "forecasts", stream->n_forecasts);
    kw_put_uint(encoder, "skipped", stream->n_skipped);
    kw_put_text(encoder, "fault", stream->fault);
    if (stream->has_standing)
        put_standing(encoder, &stream->standing);
}

/* In order of admission, from the index `from`; `more` where the reply would become too large. */
static int op_symbols(struct kd_call *call)
{
    const struct kd_streams *streams = &call->daemon->streams;
    size_t from = 0, n;

    if (count(call, "from", 0, SIZE_MAX, &from))
        return -1;
    from = KR_MIN(from, streams->n);
    n = KR_MIN(streams->n - from,
               (call->daemon->config->limits.reply_bytes - REPLY_BYTES) / SYMBOL_BYTES);
    kd_call_begin(call, 2);
    kw_put_bool(&call->encoder, "more", from + n < streams->n);
    kw_put_array(&call->encoder, "symbols", n);
    for (size_t i = from; i < from + n; i++)
        put_symbol(&call->encoder, streams->all[i]);
    return 0;
}

static int op_snapshot(struct kd_call *call)
{
    struct kd_stream *stream = known_stream(call);
    const struct kd_topic *topic;

    if (!stream)
        return -1;
    topic = stream->forecast_topic;
    if (!topic->last_bytes)
        return kd_call_refuse(call, "no_forecast", "%s %s: no forecast yet (%s, %zu of %zu bars)",
                              stream->interval.text, stream->symbol, kd_state_names[stream->state],
                              stream->ledger.series.len, stream->settings.min_bars);
    if (topic->last_bytes + REPLY_BYTES > call->daemon->config->limits.reply_bytes)
        return kd_call_refuse(call, "too_large", "[limits] reply_bytes: the forecast has %zu bytes",
                              topic->last_bytes);
    kd_call_begin(call, 1);
    kw_put_packed(&call->encoder, "forecast", topic->last, topic->last_bytes);
    return 0;
}

/* Little-endian words into the reply, which grows as any other value of it. */
static void put_words(struct kw_encoder *encoder, uint64_t word)
{
    char bytes[8];

    for (int i = 0; i < 8; i++)
        bytes[i] = (char)(word >> 8 * i);
    msgpack_pack_bin_body(&encoder->packer, bytes, sizeof(bytes));
}

/* The last n bars, or n bars from a time on. */
static int op_history(struct kd_call *call)
{
    struct kd_stream *stream = known_stream(call);
    const struct kr_series *series;
    size_t n, limit = (call->daemon->config->limits.reply_bytes - REPLY_BYTES) / BAR_BYTES, first;
    int64_t from;
    int has_from;

    if (!stream)
        return -1;
    series = &stream->ledger.series;
    n = series->len;
    has_from = kd_args_int(call->request, "from", &from);
    if (has_from < 0)
        return bad(call, "from", "a time in ns");
    if (count(call, "n", 0, SIZE_MAX, &n))
        return -1;
    first = has_from ? kr_series_lower_bound(series, from) : series->len - KR_MIN(n, series->len);
    n = KR_MIN(KR_MIN(n, series->len - first), limit);
    kd_call_begin(call, 3);
    kw_put_bool(&call->encoder, "more", first + n < series->len);
    kw_text(&call->encoder, "t");
    msgpack_pack_bin(&call->encoder.packer, n * 8);
    for (size_t i = first; i < first + n; i++)
        put_words(&call->encoder, (uint64_t)series->bars[i].t_ns);
    kw_text(&call->encoder, "bars");
    msgpack_pack_bin(&call->encoder.packer, n * 8 * KR_COLUMNS);
    for (size_t i = first; i < first + n; i++)
        for (int c = 0; c < KR_COLUMNS; c++) {
            uint64_t word;

            memcpy(&word, &series->bars[i].v[c], sizeof(word));
            put_words(&call->encoder, word);
        }
    return 0;
}

/* Changes */

static void copy_words(void *to, const char *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t word = 0;

        for (int b = 0; b < 8; b++)
            word |= (uint64_t)(unsigned char)from[8 * i + (size_t)b] << 8 * b;
        memcpy((char *)to + 8 * i, &word, sizeof(word));
    }
}

static int op_load(struct kd_call *call)
{
    char symbol[KR_SYMBOL_MAX + 1];
    struct kr_interval interval;
    const char *t, *bars;
    size_t n_t, n_bars, n;
    struct kd_loaded loaded;
    enum kw_reason reason = KW_ACCEPTED;
    bool more = false;
    int64_t *t_ns;
    double(*v)[KR_COLUMNS];

    if (stream_key(call, symbol, &interval))
        return -1;
    if (kd_args_bytes(call->request, "t", &t, &n_t) <= 0 || n_t % 8)
        return bad(call, "t", "[n] little-endian int64 as bin");
    if (kd_args_bytes(call->request, "bars", &bars, &n_bars) <= 0 || n_bars != n_t * KR_COLUMNS)
        return bad(call, "bars", "[n,6] little-endian f64 as bin");
    if (kd_args_bool(call->request, "more", &more) < 0)
        return bad(call, "more", "a bool");
    n = n_t / 8;
    t_ns = kr_alloc(n, sizeof(*t_ns));
    v = kr_alloc(n, sizeof(*v));
    if (t_ns && v) {
        copy_words(t_ns, t, n);
        copy_words(v, bars, n * KR_COLUMNS);
        reason = kd_intake_load(call->daemon, symbol, &interval, t_ns,
                                (const double(*)[KR_COLUMNS])v, n, more, &loaded, &call->error);
    }
    free(t_ns);
    free(v);
    if (!t_ns || !v)
        return kd_call_refuse(call, "failed", "no memory for %zu bars", n);
    if (reason != KW_ACCEPTED) {
        call->code = kw_reason_names[reason];
        return -1;
    }
    kd_call_begin(call, 4);
    kw_put_uint(&call->encoder, "accepted", loaded.accepted);
    kw_put_uint(&call->encoder, "duplicates", loaded.duplicates);
    kw_put_uint(&call->encoder, "rejected", loaded.rejected);
    kw_put_text(&call->encoder, "reason",
                loaded.rejected ? kw_reason_names[loaded.first_reason] : "");
    return 0;
}

static int op_reset(struct kd_call *call)
{
    struct kd_stream *stream = known_stream(call);

    if (!stream)
        return -1;
    if (kd_intake_reset(call->daemon, stream))
        return kd_call_refuse(call, "failed", "no memory");
    kd_log(KD_MSG_CONTROL, stream->symbol, stream->interval.text, NULL, "reset by request");
    kd_call_begin(call, 0);
    return 0;
}

static int op_reload(struct kd_call *call)
{
    if (kd_daemon_reload(call->daemon, &call->error)) {
        call->code = "invalid";
        return -1;
    }
    kd_call_begin(call, 0);
    return 0;
}

static int op_drain(struct kd_call *call)
{
    kd_daemon_drain(call->daemon, "control request");
    kd_call_begin(call, 0);
    return 0;
}

/* Forecasts */

/* The request's own parameters over the stream's. Return: 0, -1 (refused). */
static int forecast_settings(struct kd_call *call, const struct kd_stream *stream,
                             struct kd_settings *settings)
{
    const struct kd_config *config = call->daemon->config;
    struct kr_sampling *sampling = &settings->sampling;

    if (count(call, "horizon", 1, config->limits.max_horizon, &settings->horizon) ||
        count(call, "paths", 1, config->limits.max_paths, &settings->paths) ||
        count(call, "lookback", 2, KR_MAX(config->limits.bars, settings->lookback),
              &settings->lookback) ||
        count(call, "top_k", 0, SIZE_MAX, &sampling->top_k))
        return -1;
    if (kd_args_uint(call->request, "seed", &settings->seed) < 0)
        return bad(call, "seed", "an integer from 0");
    if (kd_args_real(call->request, "T", &sampling->temperature) < 0)
        return bad(call, "T", "a number");
    if (kd_args_real(call->request, "top_p", &sampling->top_p) < 0)
        return bad(call, "top_p", "a number");
    if (kr_sampling_check(sampling, &call->error)) {
        call->code = "bad_request";
        return -1;
    }
    settings->min_bars = KR_MIN(settings->min_bars, settings->lookback);
    if (stream->ledger.series.len < settings->min_bars)
        return kd_call_refuse(call, "no_forecast", "%s %s: %zu of at least %zu bars",
                              stream->interval.text, stream->symbol, stream->ledger.series.len,
                              settings->min_bars);
    return 0;
}

/* Does it fit: its message into a reply, its memory into what the plan leaves? */
static int forecast_fits(struct kd_call *call, const struct kd_settings *settings,
                         const struct kr_live_config *live)
{
    const struct kd_daemon *daemon = call->daemon;
    struct kr_generator_size size = kr_live_generator_size(live, settings->paths);
    size_t message = kd_plan_forecast_message(settings->horizon, settings->n_levels);
    size_t bytes = kd_plan_request_bytes(daemon->model, live, &size, settings->n_levels);
    size_t limit = daemon->plan.limit_bytes ? daemon->plan.limit_bytes : SIZE_MAX; /* 0: none */
    size_t left = limit - KR_MIN(daemon->plan.total_bytes, limit);
    size_t share = (left + daemon->plan.control_bytes) / daemon->config->limits.control_jobs;

    if (!message || message + REPLY_BYTES > daemon->config->limits.reply_bytes)
        return kd_call_refuse(call, "too_large",
                              "[limits] reply_bytes: the forecast may take %zu bytes", message);
    if (!bytes || bytes > share)
        return kd_call_refuse(call, "too_large",
                              "[limits] memory: the forecast takes %zu bytes, the plan leaves %zu",
                              bytes, left);
    return 0;
}

static struct kd_request *new_request(struct kd_call *call, const struct kd_stream *stream,
                                      const struct kd_settings *settings,
                                      const struct kr_live_config *live)
{
    const struct kr_series *series = &stream->ledger.series;
    size_t n = KR_MIN(settings->lookback, series->len);
    struct kd_request *request = calloc(1, sizeof(*request));
    struct kd_asker *asker = malloc(sizeof(*asker));

    if (request)
        request->bars = kr_alloc(n, sizeof(*request->bars));
    if (!request || !request->bars || !asker) {
        kd_request_free(&request);
        free(asker);
        return NULL;
    }
    *asker = *call->asker;
    memcpy(request->symbol, stream->symbol, sizeof(request->symbol));
    request->interval = stream->interval;
    kd_settings_copy(&request->settings, settings);
    request->live = *live;
    memcpy(request->bars, series->bars + series->len - n, n * sizeof(*request->bars));
    request->n_bars = n;
    request->arrived_ns = kd_mono_ns();
    request->reply = asker;
    return request;
}

/* `exact`: the window as the reference would choose it for the last bar, from the bars alone. */
static int op_forecast(struct kd_call *call)
{
    struct kd_daemon *daemon = call->daemon;
    struct kd_stream *stream = known_stream(call);
    struct kd_settings settings;
    struct kr_live_config live;
    struct kd_request *request;

    if (!stream)
        return -1;
    if (daemon->phase != KD_RUNNING)
        return kd_call_refuse(call, "draining", "the daemon is stopping");
    settings = stream->settings; /* borrows what it points to */
    if (forecast_settings(call, stream, &settings))
        return -1;
    live = stream->live;
    live.mode = KR_MODE_EXACT;
    live.growth = 0;
    live.lookback = settings.lookback;
    live.min_bars = settings.min_bars;
    live.horizon = settings.horizon;
    live.pool = NULL;
    if (forecast_fits(call, &settings, &live))
        return -1;
    request = new_request(call, stream, &settings, &live);
    if (!request)
        return kd_call_refuse(call, "failed", "no memory");
    if (!kd_requests_put(&daemon->requests, request, daemon->config->limits.control_pending)) {
        free(request->reply);
        kd_request_free(&request);
        return kd_call_refuse(call, "busy", "[limits] control_pending: %zu forecasts wait already",
                              daemon->config->limits.control_pending);
    }
    return 1;
}

int kd_control_operate(struct kd_call *call, const char *op)
{
    static const struct {
        const char *op;
        int (*run)(struct kd_call *call);
    } table[] = {
        {"ping", op_ping},       {"version", op_version},   {"status", op_status},
        {"symbols", op_symbols}, {"snapshot", op_snapshot}, {"history", op_history},
        {"load", op_load},       {"forecast", op_forecast}, {"reset", op_reset},
        {"reload", op_reload},   {"drain", op_drain},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(table); i++)
        if (strcmp(op, table[i].op) == 0)
            return table[i].run(call);
    return kd_call_refuse(call, "unknown_op",
                          "op: expected one of ping version status symbols snapshot "
                          "history load forecast reset reload drain");
}
