/* SPDX-License-Identifier: MIT */
#include "daemon/daemon.h"

#include "daemon/clock.h"
#include "daemon/intake.h"
#include "daemon/keeper.h"
#include "daemon/log.h"
#include "daemon/notify.h"
#include "daemon/results.h"
#include "daemon/status.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <zmq.h>

#define MS INT64_C(1000000)
/* How often a draining daemon looks whether it is done. */
#define DRAIN_STEP_NS (20 * MS)
/* What a slow disk gets to take the last changes, whatever draining took. */
#define SAVE_NS (2000 * MS)
/* What subscribers and askers get to take the last messages. */
#define LINGER_MS 500
/* Streams and prefixes beyond the admitted ones that get an event topic of their own. */
#define STRANGER_TOPICS 1024

/* Workers */

static bool keep_going(void *context, size_t step)
{
    (void)step;
    return kd_worker_step(context);
}

static void run_turn(struct kd_worker *worker, struct kd_lane *lane, struct kd_job *jobs,
                     bool behind)
{
    struct kd_daemon *daemon = worker->pool->config.context;
    struct kd_stream *stream = lane->owner;

    kd_window_run(&stream->window,
                  &(struct kd_turn){.rig = worker->rig,
                                    .model = daemon->model,
                                    .live = &stream->live,
                                    .symbol = stream->symbol,
                                    .interval = &stream->interval,
                                    .ep = daemon->ep,
                                    .started_ns = kd_mono_ns(),
                                    .behind = behind,
                                    .keep_going = keep_going,
                                    .context = worker,
                                    .owner = stream,
                                    .outbox = &daemon->outbox},
                  jobs);
}

static void dispose_job(struct kd_job *job)
{
    if (!job->settings)
        return;
    kd_settings_free(job->settings);
    kr_freep(&job->settings);
}

static int start_compute(struct kd_daemon *daemon, struct kr_error *error)
{
    const struct kd_pool_config pool = {.n_workers = daemon->plan.n_workers,
                                        .max_lanes = daemon->config->limits.symbols,
                                        .context = daemon,
                                        .run = run_turn,
                                        .dispose = dispose_job};
    struct kd_rig_size size = {0};
    size_t n_levels;
    int status = kd_outbox_init(&daemon->outbox);

    if (status)
        return kr_error_set(error, status, "outbox: %s", strerror(-status));
    if (kd_pool_init(&daemon->pool, &pool))
        return kr_error_set(error, -ENOMEM, "workers: no memory");
    daemon->rigs = kr_alloc(pool.n_workers, sizeof(*daemon->rigs));
    if (!daemon->rigs)
        return kr_error_set(error, -ENOMEM, "workers: no memory");
    kd_plan_generator(daemon->config, daemon->model, &size.generator, &n_levels, &size.max_visible);
    if (daemon->plan.n_spares &&
        kr_pool_new(daemon->model, daemon->plan.n_spares, daemon->plan.spare_rows, &daemon->spares))
        return kr_error_set(error, -ENOMEM, "spare cache sets: no memory");
    for (size_t i = 0; i < pool.n_workers; i++) {
        status = kd_rig_init(&daemon->rigs[i], daemon->model, &size, error);
        if (status)
            return status;
        daemon->pool.workers[i].rig = &daemon->rigs[i];
    }
    status = kd_pool_start(&daemon->pool);
    if (!status)
        status = kd_requests_start(&daemon->requests, daemon->model, &daemon->outbox, daemon->ep,
                                   daemon->config->limits.control_jobs);
    return status ? kr_error_set(error, status, "threads: %s", strerror(-status)) : 0;
}

/* Signals */

static void on_signal(void *context)
{
    struct kd_daemon *daemon = context;
    struct signalfd_siginfo info;
    struct kr_error error;

    if (read(daemon->signal_fd, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGHUP) {
        (void)!kd_daemon_reload(daemon, &error); /* said in the log */
        return;
    }
    if (daemon->phase == KD_RUNNING) {
        kd_daemon_drain(daemon, info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
    } else { /* asked again: now */
        daemon->drain_ns = 0;
        kd_loop_timer_set(daemon->loop, daemon->end_timer, kd_mono_ns());
    }
}

static int take_signals(struct kd_daemon *daemon, struct kr_error *error)
{
    sigset_t signals;

    /* Blocked in main() before any thread was there. */
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    daemon->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (daemon->signal_fd < 0)
        return kr_error_set(error, -errno, "signals: %s", strerror(errno));
    return KR_MIN(kd_loop_fd(daemon->loop, daemon->signal_fd, on_signal, daemon), 0);
}

/* Stopping */

void kd_daemon_drain(struct kd_daemon *daemon, const char *why)
{
    int64_t now_ns = kd_mono_ns();

    if (daemon->phase != KD_RUNNING)
        return;
    daemon->phase = KD_DRAINING;
    daemon->drain_ns = now_ns + daemon->config->limits.stop_ns / 2;
    daemon->end_ns = now_ns + daemon->config->limits.stop_ns;
    kd_say(KD_MSG_STOPPING, "stopping (%s): %zu bars wait", why, kd_pool_pending(&daemon->pool));
    kd_notify_stopping("stopping (%s)", why);
    kd_notify_extend(daemon->config->limits.stop_ns + SAVE_NS + 2 * LINGER_MS * MS);
    kd_feed_pause(&daemon->feed, true);
    kd_requests_cancel(&daemon->requests);
    kd_loop_timer_set(daemon->loop, daemon->end_timer, now_ns);
}

/* What waits is computed for half of the time that there is; then running turns are told to end. */
static void on_drain(void *context)
{
    struct kd_daemon *daemon = context;
    int64_t now_ns = kd_mono_ns();

    if (kd_pool_pending(&daemon->pool) && now_ns < daemon->drain_ns) {
        kd_loop_timer_set(daemon->loop, daemon->end_timer, now_ns + DRAIN_STEP_NS);
        return;
    }
    daemon->phase = KD_ENDING;
    kd_pool_cancel(&daemon->pool);
    kd_loop_quit(daemon->loop);
}

void kd_daemon_finish(struct kd_daemon *daemon)
{
    const struct kd_counts *counts = &daemon->counts;
    int64_t end_ns =
        daemon->end_ns ? daemon->end_ns : kd_mono_ns() + daemon->config->limits.stop_ns;
    size_t n_left;

    kd_pool_cancel(&daemon->pool);
    kd_requests_cancel(&daemon->requests);
    n_left = kd_pool_pending(&daemon->pool);
    daemon->stuck = !kd_pool_stop(&daemon->pool, end_ns);
    daemon->stuck |= !kd_requests_stop(&daemon->requests, end_ns);
    daemon->stuck |= !kd_keeper_finish(daemon, KR_MAX(end_ns, kd_mono_ns() + SAVE_NS));
    kd_results_take(daemon);
    kd_status_publish(daemon);
    kd_say(KD_MSG_STOPPED,
           "stopped: %llu bars received, %llu accepted, %llu forecasts, %zu jobs left undone%s",
           (unsigned long long)counts->received, (unsigned long long)counts->accepted,
           (unsigned long long)counts->forecasts, n_left,
           daemon->stuck ? ", a thread did not end" : "");
    kd_log_flush(true);
}

/* Reload */

static void apply_settings(struct kd_daemon *daemon, struct kd_stream *stream)
{
    struct kd_settings settings = {0};
    struct kd_job job = {.kind = KD_JOB_SETTINGS, .arrived_ns = kd_mono_ns()};
    struct kd_ledger_config ledger = stream->ledger.config;

    if (kd_config_stream(daemon->config, stream->symbol, stream->interval.text, &settings, NULL))
        goto failed;
    job.settings = calloc(1, sizeof(*job.settings));
    if (!job.settings)
        goto failed;
    kd_settings_copy(job.settings, &settings);
    ledger.calendar = settings.calendar->calendar; /* the same one, of the new configuration */
    ledger.gap = settings.gap;
    ledger.max_fill = settings.max_fill;
    if (kd_ledger_configure(&stream->ledger, &ledger) ||
        kd_pool_submit(&daemon->pool, &stream->lane, &job)) {
        dispose_job(&job);
        goto failed;
    }
    kd_pool_backlog(&daemon->pool, &stream->lane, settings.backlog == KD_BACKLOG_ALL);
    kd_settings_free(&stream->settings);
    stream->settings = settings;
    return;
failed:
    kd_settings_free(&settings);
    kd_log(KD_MSG_RELOAD_FAILED, stream->symbol, stream->interval.text, NULL,
           "no memory for the new settings: the old ones stay");
}

void kd_daemon_log(const struct kd_config *config)
{
    kd_log_init(&(struct kd_log_config){.level = config->log.level,
                                        .force_stderr = config->log.target == KD_LOG_STDERR,
                                        .force_journal = config->log.target == KD_LOG_JOURNAL,
                                        .burst = config->log.burst,
                                        .interval_ns = config->log.interval_ns});
}

int kd_daemon_reload(struct kd_daemon *daemon, struct kr_error *error)
{
    const char *path = *daemon->config->path ? daemon->config->path : NULL;
    struct kd_config *fresh = NULL;
    struct kd_changes changes;
    int status;

    if (daemon->phase != KD_RUNNING)
        return kr_error_set(error, -ESHUTDOWN, "reload: the daemon is stopping");
    kd_notify_reloading();
    status = kd_config_load(path, &fresh, error);
    if (status) {
        kd_say(KD_MSG_RELOAD_FAILED, "%s", error->text);
        kd_notify_ready("reload failed: %s", error->text);
        daemon->told_ns = kd_mono_ns();
        return status;
    }
    kd_config_reload(&daemon->config, &fresh, &changes);
    kd_daemon_log(daemon->config);
    daemon->publish.pace = daemon->config->publish.pace;
    for (size_t i = 0; i < daemon->streams.n; i++)
        apply_settings(daemon, daemon->streams.all[i]);
    kd_say(KD_MSG_RELOADED, "reloaded: %s%s%s%s", changes.n_applied ? changes.applied : "no change",
           changes.n_restart ? " (" : "", changes.n_restart ? changes.restart : "",
           changes.n_restart ? " wait for a restart)" : "");
    kd_notify_ready("reloaded");
    daemon->told_ns = kd_mono_ns();
    return 0;
}

/* Life */

/* A subscription may want a forecast that was not worth making before. */
static void on_subscribed(void *context, const char *prefix, size_t length)
{
    struct kd_daemon *daemon = context;

    for (size_t i = 0; i < daemon->streams.n; i++) {
        struct kd_stream *stream = daemon->streams.all[i];
        const struct kd_topic *topic = stream->forecast_topic;
        const struct kr_bar *last = kr_series_last(&stream->ledger.series);

        if (stream->settings.on_demand == KD_DEMAND_NO || topic->length < length ||
            memcmp(topic->name, prefix, length))
            continue;
        if (last && !(stream->has_forecast && stream->as_of_ns == last->t_ns))
            kd_intake_forecast(daemon, stream);
    }
}

static int start_sockets(struct kd_daemon *daemon, struct kr_error *error)
{
    const struct kd_config *config = daemon->config;
    size_t topics = 4 * config->limits.symbols + STRANGER_TOPICS + 2;
    int status;

    daemon->zmq = zmq_ctx_new();
    if (!daemon->zmq)
        return kr_error_set(error, -errno, "zeromq: %s", zmq_strerror(errno));
    daemon->publish.subscribed = on_subscribed;
    daemon->publish.context = daemon;
    status = kd_publish_open(&daemon->publish, daemon->zmq, daemon->loop, config, topics, error);
    if (status)
        return status;
    daemon->notes = (struct kd_notes){
        .publish = &daemon->publish, .ep = daemon->ep, .max_strangers = STRANGER_TOPICS};
    daemon->status_topic = kd_publish_topic(&daemon->publish, "status", "", "");
    if (!daemon->status_topic)
        return kr_error_set(error, -ENOMEM, "[publish] topics: no memory");
    status = kd_control_open(&daemon->control, daemon->zmq, daemon, error);
    if (status)
        return status;
    daemon->feed.take = kd_intake_take;
    daemon->feed.rest = kd_intake_rest;
    daemon->feed.context = daemon;
    return kd_feed_open(&daemon->feed, daemon->zmq, daemon->loop, config, error);
}

static int start_loop(struct kd_daemon *daemon, struct kr_error *error)
{
    int64_t now_ns = kd_mono_ns();
    int status = kd_loop_new(&daemon->loop);

    if (status)
        return kr_error_set(error, status, "loop: %s", strerror(-status));
    daemon->status_timer = kd_loop_timer(daemon->loop, kd_status_publish, daemon);
    daemon->second_timer = kd_loop_timer(daemon->loop, kd_status_second, daemon);
    daemon->watchdog_timer = kd_loop_timer(daemon->loop, kd_status_watchdog, daemon);
    daemon->feed_timer = kd_loop_timer(daemon->loop, kd_intake_resume, daemon);
    daemon->end_timer = kd_loop_timer(daemon->loop, on_drain, daemon);
    if (daemon->end_timer < 0)
        return kr_error_set(error, daemon->end_timer, "loop: too many timers");
    kd_loop_timer_set(daemon->loop, daemon->status_timer, now_ns);
    kd_loop_timer_set(daemon->loop, daemon->second_timer, now_ns);
    if (kd_notify_watchdog_interval(&daemon->watchdog_ns))
        kd_loop_timer_set(daemon->loop, daemon->watchdog_timer, now_ns);
    return take_signals(daemon, error);
}

int kd_daemon_start(struct kd_daemon *daemon, struct kd_config **config, struct kr_model **model,
                    const struct kd_plan *plan, struct kr_error *error)
{
    int status;

    *daemon = (struct kd_daemon){.config = *config,
                                 .model = *model,
                                 .plan = *plan,
                                 .started_ns = kd_mono_ns(),
                                 .told_ns = kd_mono_ns(),
                                 .signal_fd = -1,
                                 .outbox.fd = -1};
    *config = NULL;
    *model = NULL;
    while (!daemon->ep) {
        if (getrandom(&daemon->ep, sizeof(daemon->ep), 0) != sizeof(daemon->ep))
            return kr_error_set(error, -errno, "getrandom: %s", strerror(errno));
        daemon->ep >>= 11; /* 53 bits: a double, and so JavaScript, holds it exactly */
    }
    if (kd_streams_init(&daemon->streams, daemon->config->limits.symbols))
        return kr_error_set(error, -ENOMEM, "streams: no memory");
    status = kd_keeper_open(daemon, error);
    if (!status)
        status = start_loop(daemon, error);
    if (!status)
        status = start_sockets(daemon, error);
    if (!status)
        status = start_compute(daemon, error);
    if (!status)
        status = kd_keeper_start(daemon, error);
    if (status)
        return status;
    status = kd_loop_fd(daemon->loop, daemon->outbox.fd, kd_results_take, daemon);
    return KR_MIN(status, 0);
}

int kd_daemon_run(struct kd_daemon *daemon, struct kr_error *error)
{
    int status = kd_loop_run(daemon->loop);

    return status ? kr_error_set(error, status, "loop: %s", strerror(-status)) : 0;
}

void kd_daemon_free(struct kd_daemon *daemon)
{
    kd_feed_close(&daemon->feed);
    kd_control_close(&daemon->control, LINGER_MS);
    kd_publish_close(&daemon->publish, LINGER_MS);
    if (daemon->zmq)
        zmq_ctx_term(daemon->zmq);
    if (daemon->stuck)
        return; /* the rest is in use; the process ends now */
    kd_requests_stop(&daemon->requests, INT64_MAX);
    kd_requests_free(&daemon->requests);
    kd_pool_stop(&daemon->pool, INT64_MAX);
    kd_pool_free(&daemon->pool);
    kd_store_close(&daemon->store);
    kd_streams_free(&daemon->streams);
    for (size_t i = 0; daemon->rigs && i < daemon->plan.n_workers; i++)
        kd_rig_free(&daemon->rigs[i]);
    kr_freep(&daemon->rigs);
    kr_pool_free(&daemon->spares);
    kd_outbox_free(&daemon->outbox);
    if (daemon->signal_fd >= 0)
        close(daemon->signal_fd);
    kd_loop_free(&daemon->loop);
    kr_model_free(&daemon->model);
    kd_config_free(&daemon->config);
}
