/* SPDX-License-Identifier: MIT */
#include "daemon/status.h"

#include "daemon/clock.h"
#include "daemon/keeper.h"
#include "daemon/log.h"
#include "daemon/notify.h"

#include <config.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#define TRUST_STATES (KR_STALE + 1)
#define SECOND_NS    INT64_C(1000000000)
#define TELL_NS      (30 * SECOND_NS)

static uint64_t rss_bytes(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Streams by status of their calibration, what was scored, and skill as the mean over streams. */
static void sum_trust(const struct kd_daemon *daemon, struct kw_count counts[TRUST_STATES],
                      struct kw_status *ret)
{
    size_t n = 0;
    double skill = 0, skill_cal = 0;

    for (int status = 0; status < TRUST_STATES; status++)
        counts[status] = (struct kw_count){.name = kr_trust_names[status]};
    for (size_t i = 0; i < daemon->streams.n; i++) {
        const struct kd_stream *stream = daemon->streams.all[i];
        const struct kr_standing *standing = &stream->standing;

        counts[standing->status].n++;
        ret->scored += standing->n_scored;
        ret->unscored += standing->n_unscored;
        ret->recalibrated += stream->tally.counts[KD_NOTE_RECALIBRATED_PARAMETERS] +
                             stream->tally.counts[KD_NOTE_RECALIBRATED_DAMAGED];
        n += standing->n_tally > 0;
        skill += standing->skill;
        skill_cal += standing->skill_cal;
    }
    ret->trust = counts;
    ret->n_trust = TRUST_STATES;
    ret->skill = n ? skill / (double)n : NAN;
    ret->skill_cal = n ? skill_cal / (double)n : NAN;
}

int kd_status_encode(const struct kd_daemon *daemon, uint64_t seq, msgpack_sbuffer *out)
{
    const struct kd_counts *counts = &daemon->counts;
    struct kw_count rejected[KW_REASONS], streams[KD_STATES], trust[TRUST_STATES];
    struct kw_count kept[KD_KEEPER_COUNTS];
    size_t n_rejected = 0, n_kept = kd_keeper_counts(daemon, kept);

    for (int reason = KW_ACCEPTED + 1; reason < KW_REASONS; reason++)
        if (counts->rejected[reason])
            rejected[n_rejected++] =
                (struct kw_count){.name = kw_reason_names[reason], .n = counts->rejected[reason]};
    for (int state = 0; state < KD_STATES; state++)
        streams[state] = (struct kw_count){.name = kd_state_names[state]};
    for (size_t i = 0; i < daemon->streams.n; i++)
        streams[daemon->streams.all[i]->state].n++;
    struct kw_status status = {
        .ep = daemon->ep,
        .seq = seq,
        .pub_ns = kd_wall_ns(),
        .uptime_s = (double)(kd_mono_ns() - daemon->started_ns) / 1e9,
        .received = counts->received,
        .accepted = counts->accepted,
        .duplicates = counts->duplicates,
        .forming = counts->forming,
        .rejected = rejected,
        .n_rejected = n_rejected,
        .forecasts = counts->forecasts,
        .skipped = counts->skipped,
        .epoch_waited = counts->epoch_waited,
        .window_slid = counts->window_slid,
        .events_dropped = daemon->notes.n_dropped,
        .lag_us = counts->lag_us,
        .backlog = kd_pool_pending((struct kd_pool *)&daemon->pool),
        .streams = streams,
        .n_streams = KD_STATES,
        .rss_bytes = rss_bytes(),
        .version = PACKAGE_VERSION,
        .model_name = daemon->model->name,
        .isa = daemon->model->isa,
        .state = kept,
        .n_state = n_kept,
    };
    sum_trust(daemon, trust, &status);
    return kw_encode_status(out, &status);
}

void kd_status_publish(void *context)
{
    struct kd_daemon *daemon = context;
    struct kd_topic *topic = daemon->status_topic;
    msgpack_sbuffer buffer;

    msgpack_sbuffer_init(&buffer);
    if (kd_status_encode(daemon, topic->seq + 1, &buffer) == 0)
        kd_publish_send(&daemon->publish, topic, topic->seq + 1, buffer.data, buffer.size, true);
    msgpack_sbuffer_destroy(&buffer);
    daemon->counts.lag_us = 0;
    kd_loop_timer_set(daemon->loop, daemon->status_timer,
                      kd_mono_ns() + daemon->config->publish.status_ns);
}

static void find_silent(struct kd_daemon *daemon, int64_t now_ns)
{
    int64_t wall_ns = kd_wall_ns();

    for (size_t i = 0; i < daemon->streams.n; i++) {
        struct kd_stream *stream = daemon->streams.all[i];
        const struct kr_bar *last = kr_series_last(&stream->ledger.series);

        if (kd_stream_silent(stream, now_ns, wall_ns) &&
            kd_stream_signal(stream, KD_SIGNAL_SILENCE))
            kd_note(&daemon->notes, &stream->tally, stream->interval.text, stream->symbol,
                    KD_NOTE_STALE, last ? last->t_ns : 0, 1);
    }
}

/* At once when the number of streams changes, else now and then: each line costs the manager a message, and one
 * that does not read would make us wait. */
static void tell_manager(struct kd_daemon *daemon, int64_t now_ns)
{
    const struct kd_counts *counts = &daemon->counts;

    if (daemon->phase != KD_RUNNING ||
        (daemon->told_streams == daemon->streams.n && now_ns - daemon->told_ns < TELL_NS))
        return;
    daemon->told_streams = daemon->streams.n;
    daemon->told_ns = now_ns;
    kd_notify_status("%zu streams, %llu bars received, %llu accepted, %llu forecasts, %zu waiting",
                     daemon->streams.n, (unsigned long long)counts->received,
                     (unsigned long long)counts->accepted, (unsigned long long)counts->forecasts,
                     kd_pool_pending(&daemon->pool));
}

void kd_status_second(void *context)
{
    struct kd_daemon *daemon = context;
    int64_t now_ns = kd_mono_ns();

    find_silent(daemon, now_ns);
    kd_keeper_second(daemon, now_ns);
    tell_manager(daemon, now_ns);
    kd_log_flush(false);
    kd_loop_timer_set(daemon->loop, daemon->second_timer, now_ns + SECOND_NS);
}

void kd_status_watchdog(void *context)
{
    struct kd_daemon *daemon = context;

    kd_loop_timer_set(daemon->loop, daemon->watchdog_timer, kd_mono_ns() + daemon->watchdog_ns);
    if (kd_pool_moved(&daemon->pool)) {
        kd_notify_watchdog();
        return;
    }
    for (size_t i = 0; i < daemon->pool.crew.n; i++)
        if (daemon->pool.workers[i].stalled)
            kd_say(KD_MSG_WORKER_STALLED, "worker %zu: no step for %lld s: no ping to the watchdog",
                   i, (long long)(daemon->watchdog_ns / SECOND_NS));
}
