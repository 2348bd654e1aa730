/* SPDX-License-Identifier: MIT */
#include "daemon/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Intervals without a bar after which a stream is stale (rules). */
#define STALE_INTERVALS 3

const char *const kd_state_names[KD_STATES] = {"empty", "warming",     "live",
                                               "stale", "reanchoring", "faulted"};

enum kd_state kd_state_next(enum kd_state state, enum kd_signal signal)
{
    if (signal == KD_SIGNAL_RESET)
        return KD_EMPTY;
    if (signal == KD_SIGNAL_FAULT || state == KD_FAULTED)
        return KD_FAULTED;
    switch (signal) {
    case KD_SIGNAL_BAR:
        return state == KD_REANCHORING ? state : KD_WARMING;
    case KD_SIGNAL_READY:
        return state == KD_REANCHORING ? state : KD_LIVE;
    case KD_SIGNAL_REANCHOR:
        return KD_REANCHORING;
    case KD_SIGNAL_SETTLED:
        return state == KD_REANCHORING ? KD_LIVE : state;
    case KD_SIGNAL_SILENCE:
        return state == KD_WARMING || state == KD_LIVE ? KD_STALE : state;
    default:
        return state;
    }
}

int kd_stream_new(const char *symbol, const struct kr_interval *interval,
                  struct kd_settings *settings, const struct kr_live_config *live, size_t bars,
                  struct kd_stream **ret)
{
    const struct kd_ledger_config config = {
        .interval = *interval,
        .calendar = settings->calendar->calendar,
        .stamp = settings->stamp,
        .gap = settings->gap,
        .max_fill = settings->max_fill,
    };
    struct kd_stream *stream = calloc(1, sizeof(*stream));
    int status;

    if (!stream)
        return -ENOMEM;
    status = kd_ledger_init(&stream->ledger, &config, bars);
    if (status) {
        kd_stream_free(&stream);
        return status;
    }
    snprintf(stream->symbol, sizeof(stream->symbol), "%s", symbol);
    stream->interval = *interval;
    stream->live = *live;
    kd_settings_copy(&stream->window.settings, settings);
    stream->settings = *settings;
    *settings = (struct kd_settings){0};
    stream->lane.owner = stream;
    stream->lane.all = stream->settings.backlog == KD_BACKLOG_ALL;
    *ret = stream;
    return 0;
}

void kd_stream_free(struct kd_stream **stream)
{
    if (!*stream)
        return;
    kd_window_free(&(*stream)->window);
    kd_ledger_free(&(*stream)->ledger);
    kd_settings_free(&(*stream)->settings);
    kr_freep(stream);
}

bool kd_stream_signal(struct kd_stream *stream, enum kd_signal signal)
{
    enum kd_state before = stream->state;

    stream->state = kd_state_next(before, signal);
    return stream->state != before;
}

bool kd_stream_silent(const struct kd_stream *stream, int64_t now_ns, int64_t wall_ns)
{
    int64_t limit_ns, age_ns = now_ns - stream->arrived_ns;

    if (!stream->arrived_ns ||
        __builtin_mul_overflow(stream->interval.ns, STALE_INTERVALS, &limit_ns) ||
        age_ns < limit_ns)
        return false;
    /* Session time cannot exceed the time that passed, so most calls end above. */
    return kr_calendar_elapsed(stream->settings.calendar->calendar, wall_ns - age_ns, wall_ns,
                               limit_ns) >= limit_ns;
}

bool kd_stream_due(const struct kd_stream *stream)
{
    return stream->ledger.series.next_row % (int64_t)stream->settings.every == 0;
}
