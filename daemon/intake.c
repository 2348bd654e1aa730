/* SPDX-License-Identifier: MIT */
#include "daemon/intake.h"

#include "daemon/clock.h"
#include "daemon/log.h"

#include <stdio.h>
#include <string.h>

/* How often a paused feed looks whether it may go on. */
#define RESUME_NS INT64_C(10000000)
/* Numbers of a publisher are not to be trusted: a hole counts as this much at most. */
#define MAX_LOST UINT64_C(1000000000)

static void note(struct kd_daemon *daemon, struct kd_stream *stream, enum kd_note note,
                 int64_t t_ns, uint64_t n)
{
    kd_note(&daemon->notes, &stream->tally, stream->interval.text, stream->symbol, note, t_ns, n);
}

/* Refusals */

static void reject(struct kd_daemon *daemon, struct kd_stream *stream, enum kw_reason reason,
                   const struct kw_bar *bar)
{
    enum kd_note kind = KD_NOTE_QUARANTINED + reason;

    daemon->counts.rejected[reason]++;
    if (reason == KW_NOT_ALLOWED)
        kind = KD_NOTE_REFUSED_NOT_ALLOWED;
    if (reason == KW_TOO_MANY_SYMBOLS)
        kind = KD_NOTE_REFUSED_TOO_MANY_SYMBOLS;
    if (stream) {
        stream->n_rejected++;
        stream->n_unread++;
    }
    kd_note(&daemon->notes, stream ? &stream->tally : NULL, bar->interval.text, bar->symbol, kind,
            bar->bar.t_ns, 1);
}

static enum kw_reason find_or_admit(struct kd_daemon *daemon, const char *symbol,
                                    const struct kr_interval *interval, struct kd_stream **ret,
                                    struct kr_error *error)
{
    const struct kd_admission admission = {.config = daemon->config,
                                           .model = daemon->model,
                                           .publish = &daemon->publish,
                                           .spares = daemon->spares,
                                           .store = daemon->store};
    enum kw_reason reason;

    *ret = kd_streams_find(&daemon->streams, symbol, interval->text);
    if (*ret && !(*ret)->settings.allow) { /* no longer, since a reload */
        kr_error_set(error, 0, "not allowed by [feed] allow or [stream]");
        return KW_NOT_ALLOWED;
    }
    if (*ret)
        return KW_ACCEPTED;
    reason = kd_streams_admit(&daemon->streams, &admission, symbol, interval, ret, error);
    if (reason == KW_ACCEPTED)
        kd_log(KD_MSG_ADMITTED, symbol, interval->text, NULL,
               "stream %zu of %zu, mode %s, lookback %zu, horizon %zu, %zu paths",
               daemon->streams.n, daemon->streams.max, kr_mode_names[(*ret)->live.mode],
               (*ret)->live.lookback, (*ret)->live.horizon, (*ret)->settings.paths);
    return reason;
}

/* The publisher's own numbers: what was lost on the way to us. */
static void follow_feed(struct kd_daemon *daemon, struct kd_stream *stream,
                        const struct kw_bar *bar)
{
    uint64_t unread = stream->n_unread;

    if (!bar->has_seq || !bar->has_ep)
        return;
    if (stream->has_feed && stream->feed_ep == bar->ep) {
        if (bar->seq <= stream->feed_seq)
            return; /* again, or late */
        if (bar->seq - stream->feed_seq - 1 > unread)
            note(daemon, stream, KD_NOTE_GAP_LOST, bar->bar.t_ns,
                 KR_MIN(bar->seq - stream->feed_seq - 1 - unread, MAX_LOST));
    } else if (stream->has_feed) {
        note(daemon, stream, KD_NOTE_FEED_RESTARTED, bar->bar.t_ns, 1);
    }
    stream->has_feed = true;
    stream->feed_ep = bar->ep;
    stream->feed_seq = bar->seq;
    stream->n_unread = 0;
}

/* Jobs */

static bool wanted(const struct kd_daemon *daemon, const struct kd_stream *stream)
{
    return stream->settings.on_demand == KD_DEMAND_NO ||
           kd_publish_wanted(&daemon->publish, stream->forecast_topic) ||
           kd_publish_wanted(&daemon->publish, stream->paths_topic);
}

static void submit(struct kd_daemon *daemon, struct kd_stream *stream, const struct kd_job *job)
{
    if (kd_pool_submit(&daemon->pool, &stream->lane, job) == 0) {
        stream->n_settling += job->settles;
        return;
    }
    /* The ledger has a bar that the window will never see: say so rather than compute on. */
    kd_stream_signal(stream, KD_SIGNAL_FAULT);
    snprintf(stream->fault, sizeof(stream->fault), "no memory for a waiting bar");
    kd_log(KD_MSG_FAULTED, stream->symbol, stream->interval.text, NULL, "%s", stream->fault);
    note(daemon, stream, KD_NOTE_REFUSED_FAULTED, job->bar.t_ns, 1);
}

/* Accepted bars */

/* The stream has one more bar, or another one: states, then jobs. */
static void accept_bar(struct kd_daemon *daemon, struct kd_stream *stream,
                       const struct kd_verdict *verdict, bool history, bool forecast)
{
    static const enum kr_change changes[] = {
        [KD_NEXT] = KR_NEXT,
        [KD_REANCHOR] = KR_REANCHOR,
        [KD_REVISED_LAST] = KR_REVISED,
        [KD_REVISED_DEEP] = KR_REVISED,
        [KD_LATE] = KR_LATE,
    };
    enum kr_change change = changes[verdict->outcome];
    bool ready = stream->ledger.series.len >= stream->settings.min_bars;
    bool turns = stream->live.mode == KR_MODE_ANCHORED && ready && !history &&
                 (verdict->outcome == KD_REANCHOR || verdict->outcome == KD_REVISED_DEEP);
    int64_t now_ns = kd_mono_ns();

    stream->arrived_ns = now_ns;
    stream->n_missing += verdict->n_missing;
    if (stream->state == KD_STALE)
        note(daemon, stream, KD_NOTE_RESUMED, verdict->bar.t_ns, 1);
    kd_stream_signal(stream, turns ? KD_SIGNAL_REANCHOR : ready ? KD_SIGNAL_READY : KD_SIGNAL_BAR);
    for (size_t i = 0; i < verdict->n_filled; i++)
        submit(daemon, stream,
               &(struct kd_job){.kind = KD_JOB_BAR,
                                .change = KR_NEXT,
                                .bar = stream->ledger.fill[i],
                                .arrived_ns = now_ns});
    if (history && change == KR_NEXT)
        change = KR_HISTORY;
    submit(daemon, stream,
           &(struct kd_job){.kind = KD_JOB_BAR,
                            .change = change,
                            .forecast = forecast && kd_stream_due(stream) && wanted(daemon, stream),
                            .gap = verdict->n_missing && !verdict->n_filled,
                            .settles = turns,
                            .bar = verdict->bar,
                            .arrived_ns = now_ns});
}

static int64_t clock_of(const struct kd_daemon *daemon)
{
    return daemon->config->feed.clock == KD_CLOCK_WALL ? kd_wall_ns() : INT64_MAX;
}

static void take_final(struct kd_daemon *daemon, struct kd_stream *stream, const struct kw_bar *bar)
{
    struct kd_verdict verdict;

    kd_ledger_offer(&stream->ledger, &bar->bar, clock_of(daemon), false, &verdict);
    if (verdict.outcome == KD_REJECTED) {
        reject(daemon, stream, verdict.reason, bar);
        return;
    }
    if (verdict.note)
        note(daemon, stream, verdict.note, verdict.bar.t_ns, 1);
    if (verdict.outcome == KD_DUPLICATE) {
        daemon->counts.duplicates++;
        stream->n_duplicates++;
        return;
    }
    daemon->counts.accepted++;
    stream->n_accepted++;
    daemon->counts.filled += verdict.n_filled;
    stream->n_filled += verdict.n_filled;
    accept_bar(daemon, stream, &verdict, false, true);
}

/* A bar that is not final: counted, and overlaid where so configured and it is the next one. */
static void take_forming(struct kd_daemon *daemon, struct kd_stream *stream,
                         const struct kw_bar *bar)
{
    const struct kr_bar *last = kr_series_last(&stream->ledger.series);
    struct kd_job job = {.kind = KD_JOB_FORMING, .bar = bar->bar, .arrived_ns = kd_mono_ns()};

    daemon->counts.forming++;
    stream->n_forming++;
    if (stream->settings.forming != KD_FORMING_OVERLAY || !wanted(daemon, stream))
        return;
    if (kd_ledger_place(&stream->ledger, &job.bar, clock_of(daemon)) == KW_ACCEPTED &&
        (!last || job.bar.t_ns > last->t_ns))
        submit(daemon, stream, &job);
}

void kd_intake_take(void *context, const void *data, size_t n_bytes, bool too_large)
{
    struct kd_daemon *daemon = context;
    struct kd_stream *stream = NULL;
    struct kw_bar bar = {.symbol = ""};
    struct kr_error error;
    enum kw_reason reason;

    daemon->counts.received++;
    if (data)
        reason = kw_decode_bar(data, n_bytes, &bar);
    else
        reason = too_large ? KW_TOO_LARGE : KW_NOT_A_MAP;
    if (reason != KW_ACCEPTED) {
        bar.bar.t_ns = 0; /* undefined then */
        if (*bar.symbol && *bar.interval.text)
            stream = kd_streams_find(&daemon->streams, bar.symbol, bar.interval.text);
        reject(daemon, stream, reason, &bar);
        return;
    }
    reason = find_or_admit(daemon, bar.symbol, &bar.interval, &stream, &error);
    if (reason != KW_ACCEPTED) {
        kd_log(KD_MSG_REFUSED, bar.symbol, bar.interval.text, kw_reason_names[reason], "%s",
               error.text);
        reject(daemon, stream, reason, &bar);
        return;
    }
    follow_feed(daemon, stream, &bar);
    if (bar.final)
        take_final(daemon, stream, &bar);
    else
        take_forming(daemon, stream, &bar);
}

/* Pausing */

void kd_intake_rest(void *context)
{
    struct kd_daemon *daemon = context;

    if (daemon->feed.paused || kd_pool_pending(&daemon->pool) < daemon->config->limits.pending)
        return;
    kd_feed_pause(&daemon->feed, true);
    kd_say(KD_MSG_FEED_PAUSED, "%zu bars wait for the workers: the feed waits in its socket",
           daemon->config->limits.pending);
    kd_loop_timer_set(daemon->loop, daemon->feed_timer, kd_mono_ns() + RESUME_NS);
}

void kd_intake_resume(void *context)
{
    struct kd_daemon *daemon = context;

    if (daemon->phase != KD_RUNNING || !daemon->feed.paused)
        return;
    if (kd_pool_pending(&daemon->pool) > daemon->config->limits.pending / 2) {
        kd_loop_timer_set(daemon->loop, daemon->feed_timer, kd_mono_ns() + RESUME_NS);
        return;
    }
    kd_feed_pause(&daemon->feed, false);
    kd_say(KD_MSG_FEED_RESUMED, "half of the waiting bars are gone: the feed goes on");
}

/* Control */

enum kw_reason kd_intake_load(struct kd_daemon *daemon, const char *symbol,
                              const struct kr_interval *interval, const int64_t *t_ns,
                              const double (*v)[KR_COLUMNS], size_t n, bool more,
                              struct kd_loaded *ret, struct kr_error *error)
{
    struct kd_stream *stream;
    enum kw_reason reason = find_or_admit(daemon, symbol, interval, &stream, error);

    if (reason != KW_ACCEPTED)
        return reason;
    *ret = (struct kd_loaded){0};
    for (size_t i = 0; i < n; i++) {
        struct kr_bar bar = {.t_ns = t_ns[i]};
        struct kd_verdict verdict = {.outcome = KD_REJECTED};

        memcpy(bar.v, v[i], sizeof(bar.v));
        verdict.reason = kw_judge_columns(bar.v);
        if (verdict.reason == KW_ACCEPTED && (bar.t_ns > KW_TIME_MAX || bar.t_ns < -KW_TIME_MAX))
            verdict.reason = KW_OFF_GRID;
        if (verdict.reason == KW_ACCEPTED) {
            /* History tells open times; the ledger wants what the feed would have delivered. */
            if (stream->settings.stamp == KR_STAMP_CLOSE &&
                kr_interval_shift(stream->settings.calendar->zone, interval, bar.t_ns, 1,
                                  &bar.t_ns))
                verdict.reason = KW_OFF_GRID;
            else
                kd_ledger_offer(&stream->ledger, &bar, INT64_MAX, true, &verdict);
        }
        if (verdict.outcome == KD_REJECTED) {
            ret->first_reason = ret->rejected++ ? ret->first_reason : verdict.reason;
        } else if (verdict.outcome == KD_DUPLICATE) {
            ret->duplicates++;
        } else {
            ret->accepted++;
            accept_bar(daemon, stream, &verdict, true, false);
        }
    }
    daemon->counts.loaded += ret->accepted;
    stream->n_loaded += ret->accepted;
    if (!more)
        kd_intake_forecast(daemon, stream);
    return KW_ACCEPTED;
}

void kd_intake_forecast(struct kd_daemon *daemon, struct kd_stream *stream)
{
    if (stream->asked || stream->state == KD_FAULTED ||
        stream->ledger.series.len < stream->settings.min_bars || !wanted(daemon, stream))
        return;
    stream->asked = true;
    submit(daemon, stream,
           &(struct kd_job){.kind = KD_JOB_FORECAST, .forecast = true, .arrived_ns = kd_mono_ns()});
}

int kd_intake_reset(struct kd_daemon *daemon, struct kd_stream *stream)
{
    const struct kd_job job = {.kind = KD_JOB_RESET, .arrived_ns = kd_mono_ns()};
    int status = kd_pool_submit(&daemon->pool, &stream->lane, &job);

    if (status)
        return status;
    kr_series_clear(&stream->ledger.series);
    kd_stream_signal(stream, KD_SIGNAL_RESET);
    kd_publish_forget(&daemon->publish, stream->forecast_topic);
    stream->has_forecast = stream->has_feed = stream->has_standing = false;
    stream->standing = (struct kr_standing){.status = KR_UNCALIBRATED};
    stream->n_unread = 0;
    stream->arrived_ns = 0;
    stream->fault[0] = '\0';
    stream->n_resets++;
    return 0;
}
