/* SPDX-License-Identifier: MIT */
/* The daemon as a whole: what its parts share. The main thread owns everything here but what stream.h and
 * worker.h give to the workers, and requests.h to its own thread. */
#ifndef KD_DAEMON_H
#define KD_DAEMON_H

#include "daemon/control.h"
#include "daemon/feed.h"
#include "daemon/plan.h"
#include "daemon/publish.h"
#include "daemon/requests.h"
#include "daemon/streams.h"

/* received = accepted + sum of rejected + duplicates + forming, whenever the main thread can be asked. */
struct kd_counts {
    uint64_t received, accepted, rejected[KW_REASONS], duplicates, forming;
    uint64_t filled, loaded;
    uint64_t forecasts, skipped, epoch_waited, window_slid;
    int64_t lag_us; /* slowest forecast since the last status message */
};

enum kd_phase {
    KD_RUNNING,
    KD_DRAINING, /* no more bars; what is queued is computed */
    KD_ENDING,   /* running turns end, nothing more is begun */
};

/* What is known of the store's doings; see keeper.h. */
struct kd_keeping {
    uint64_t failures, commits; /* when last looked at */
    bool failing;
    int64_t retry_ns;
    uint64_t restored, stale, damaged; /* streams, since the start */
    uint64_t unread;                   /* records */
};

struct kd_daemon {
    struct kd_config *config;
    struct kr_model *model; /* immutable, any thread */
    struct kd_plan plan;
    uint64_t ep; /* of this run */
    int64_t started_ns;
    enum kd_phase phase;
    int64_t drain_ns, end_ns; /* monotonic: when draining, and everything, has to be over */
    bool stuck;               /* a thread did not end in time */

    struct kd_loop *loop;
    int signal_fd;
    int status_timer, second_timer, watchdog_timer, feed_timer, end_timer;
    int64_t watchdog_ns; /* between pings; 0: nobody watches */
    size_t told_streams; /* in the manager's line */
    int64_t told_ns;     /* when it was last told anything, the end of a start or reload included */

    void *zmq;
    struct kd_feed feed;
    struct kd_publish publish;
    struct kd_control control;

    struct kd_streams streams;
    struct kd_notes notes;
    struct kd_counts counts;
    struct kd_topic *status_topic;

    struct kd_store *store; /* NULL: nothing is kept */
    struct kd_keeping keeping;

    struct kr_pool *spares;
    struct kd_rig *rigs; /* [plan.n_workers] */
    struct kd_pool pool;
    struct kd_outbox outbox;
    struct kd_requests requests;
};

/* Build everything up to bound sockets and running threads. Return: 0, or a negative errno with a line;
 * kd_daemon_free() takes down what is there. config and model are moved in. */
int kd_daemon_start(struct kd_daemon *daemon, struct kd_config **config, struct kr_model **model,
                    const struct kd_plan *plan, struct kr_error *error) kr_must_check;
/* Until it is drained. Return: 0, or a negative errno with a line. */
int kd_daemon_run(struct kd_daemon *daemon, struct kr_error *error) kr_must_check;
/* End the threads and publish what they left. Then only kd_daemon_free(). */
void kd_daemon_finish(struct kd_daemon *daemon);
/* Close the sockets, giving peers half a second to take what waits, and free everything; if a thread is stuck,
 * only the sockets: the process must end then. */
void kd_daemon_free(struct kd_daemon *daemon);

/* Begin to stop; `why` for the log. Again: nothing. */
void kd_daemon_drain(struct kd_daemon *daemon, const char *why);

/* Load the configuration file again and apply what can be. Return: 0, or a negative errno with a line and
 * nothing changed. */
int kd_daemon_reload(struct kd_daemon *daemon, struct kr_error *error) kr_must_check;

/* The log as the configuration wants it. */
void kd_daemon_log(const struct kd_config *config);

#endif
