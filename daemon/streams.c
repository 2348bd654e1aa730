/* SPDX-License-Identifier: MIT */
#include "daemon/streams.h"

#include "daemon/plan.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int kd_streams_init(struct kd_streams *streams, size_t max)
{
    *streams = (struct kd_streams){.max = max, .n_slots = 64};
    while (streams->n_slots < 2 * max)
        streams->n_slots *= 2;
    streams->all = kr_alloc(max, sizeof(struct kd_stream *));
    streams->slots = kr_alloc(streams->n_slots, sizeof(struct kd_stream *));
    return streams->all && streams->slots ? 0 : -ENOMEM;
}

void kd_streams_free(struct kd_streams *streams)
{
    for (size_t i = 0; i < streams->n; i++)
        kd_stream_free(&streams->all[i]);
    kr_freep(&streams->all);
    kr_freep(&streams->slots);
    *streams = (struct kd_streams){0};
}

static struct kd_stream **slot_of(const struct kd_streams *streams, const char *symbol,
                                  const char *interval)
{
    char key[KR_SYMBOL_MAX + 10];

    snprintf(key, sizeof(key), "%s|%s", interval, symbol);
    return &streams->slots[kr_fnv1a64(key) & (streams->n_slots - 1)];
}

struct kd_stream *kd_streams_find(const struct kd_streams *streams, const char *symbol,
                                  const char *interval)
{
    struct kd_stream *stream = *slot_of(streams, symbol, interval);

    while (stream && (strcmp(stream->symbol, symbol) || strcmp(stream->interval.text, interval)))
        stream = stream->next_in_slot;
    return stream;
}

static enum kw_reason admit(struct kd_streams *streams, const struct kd_admission *admission,
                            const char *symbol, const struct kr_interval *interval,
                            struct kd_settings *settings, struct kd_stream **ret,
                            struct kr_error *error)
{
    struct kr_live_config live;
    struct kd_stream *stream, **slot;

    if (!settings->allow) {
        kr_error_set(error, 0, "not allowed by [feed] allow or [stream]");
        return KW_NOT_ALLOWED;
    }
    if (streams->n == streams->max) {
        kr_error_set(error, 0, "[limits] symbols: %zu streams are there", streams->n);
        return KW_TOO_MANY_SYMBOLS;
    }
    /* Each section was checked at the start; several laid over one another may still clash. */
    if (kd_plan_live(admission->config, settings, admission->model, interval->text, symbol, &live,
                     error))
        return KW_NOT_ALLOWED;
    live.pool = admission->spares;
    if (kd_stream_new(symbol, interval, settings, &live, admission->config->limits.bars, &stream)) {
        kr_error_set(error, 0, "no memory for the stream");
        return KW_TOO_MANY_SYMBOLS;
    }
    kd_keep_init(&stream->window.keep, admission->store, interval->text, symbol);
    stream->forecast_topic =
        kd_publish_topic(admission->publish, "forecast", interval->text, symbol);
    stream->paths_topic = kd_publish_topic(admission->publish, "paths", interval->text, symbol);
    stream->score_topic = kd_publish_topic(admission->publish, "score", interval->text, symbol);
    if (!stream->forecast_topic || !stream->paths_topic || !stream->score_topic) {
        kd_stream_free(&stream);
        kr_error_set(error, 0, "no memory for the stream");
        return KW_TOO_MANY_SYMBOLS;
    }
    slot = slot_of(streams, symbol, interval->text);
    stream->next_in_slot = *slot;
    *slot = stream;
    stream->index = streams->n;
    streams->all[streams->n++] = stream;
    *ret = stream;
    return KW_ACCEPTED;
}

enum kw_reason kd_streams_admit(struct kd_streams *streams, const struct kd_admission *admission,
                                const char *symbol, const struct kr_interval *interval,
                                struct kd_stream **ret, struct kr_error *error)
{
    struct kd_settings settings;
    enum kw_reason reason;

    if (kd_config_stream(admission->config, symbol, interval->text, &settings, error))
        return KW_TOO_MANY_SYMBOLS;
    reason = admit(streams, admission, symbol, interval, &settings, ret, error);
    kd_settings_free(&settings); /* what the stream did not take */
    return reason;
}
