/* SPDX-License-Identifier: MIT */
/* What the compute threads hand back to the main thread: a locked list and an eventfd that is readable
 * while something is in it. Results are reused with the memory of their messages, so that a steady forecast
 * allocates nothing. */
#ifndef KD_OUTBOX_H
#define KD_OUTBOX_H

#include "core/live.h"
#include "core/trust.h"
#include "daemon/keep.h"

#include <msgpack.h>
#include <pthread.h>

struct kd_result {
    struct kd_result *next;
    void *owner; /* the stream, or the control request */
    bool of_control;
    int status; /* of the work: 0 or a negative errno */
    struct kr_error error;
    bool has_forecast;
    msgpack_sbuffer forecast, paths; /* messages; empty where there is none */
    uint64_t seq;                    /* of both */
    msgpack_sbuffer scores;          /* kd_scoring_next() */
    bool forming;                    /* not to be kept as the last value */
    struct kr_live_report report;
    int64_t as_of_ns;
    uint64_t n_resets; /* of the stream's window so far: a result from before one is not kept */
    size_t n_settled;  /* jobs done on which the state REANCHORING waits */
    bool has_kept;     /* the stream was looked for in the store; kept: what was there */
    struct kd_restored kept;
    size_t n_asked; /* forecasts asked for (KD_JOB_FORECAST) that are done with */
    bool has_standing;
    struct kr_standing standing; /* of the stream's calibration */
    /* since the result before */
    uint64_t n_skipped, n_waited, n_drifted, n_gap_epochs, n_revision_epochs, n_recalibrated;
    int64_t total_us;
};

struct kd_outbox {
    pthread_mutex_t lock;
    struct kd_result *first, *last, *spare;
    int fd; /* for the loop; -1 before kd_outbox_init() */
};

/* Return: 0, or a negative errno; after an error it may be freed. */
int kd_outbox_init(struct kd_outbox *outbox) kr_must_check;
void kd_outbox_free(struct kd_outbox *outbox);

/* Any thread. An empty result, messages cleared but their memory kept. Return: NULL without memory. */
struct kd_result *kd_outbox_new(struct kd_outbox *outbox);
/* Any thread. Hand it over; order is kept. */
void kd_outbox_put(struct kd_outbox *outbox, struct kd_result *result);

/* Main thread: all that is there, oldest first, NULL if nothing is; and give them back one by one. */
struct kd_result *kd_outbox_take(struct kd_outbox *outbox);
void kd_outbox_reuse(struct kd_outbox *outbox, struct kd_result *result);

#endif
