/* SPDX-License-Identifier: MIT */
/* A stream's live window and what its worker does with jobs. Belongs to the worker that owns the stream's
 * lane; no other thread looks at it. */
#ifndef KD_WINDOW_H
#define KD_WINDOW_H

#include "daemon/job.h"
#include "daemon/keep.h"
#include "daemon/outbox.h"
#include "daemon/rig.h"
#include "daemon/scoring.h"

struct kd_window {
    struct kr_live live;
    bool made;                   /* live is there: with the first job */
    struct kd_settings settings; /* in force for the next job */
    struct kd_scoring scoring;   /* made with live */
    struct kd_marks marks;
    uint64_t seq; /* of the last forecast */
    uint64_t n_resets;
    uint64_t n_waited, n_drifted; /* of live, as last reported */
    int status;                   /* a fault: jobs are dropped until reset */
    struct kd_keep keep;          /* of the scoring's trust; initialised before the first job */
};

/* What the jobs of one turn are done with. */
struct kd_turn {
    struct kd_rig *rig;
    const struct kr_model *model;
    const struct kr_live_config *live; /* settled, constant for the stream */
    const char *symbol;
    const struct kr_interval *interval;
    uint64_t ep;
    int64_t started_ns; /* monotonic: the turn began */
    bool behind; /* more jobs wait already: under `backlog = latest` nothing is forecast now */
    bool (*keep_going)(void *context, size_t step);
    void *context;
    void *owner; /* of the results */
    struct kd_outbox *outbox;
};

void kd_window_free(struct kd_window *window);

/* Submit to the store what it has not got; also by the main thread, once the workers have ended. Return: as
 * kd_keep_save(). */
bool kd_window_save(struct kd_window *window, int64_t end_ns);

/* Do the jobs in order; each forecast, and what the main thread must know, goes to the outbox. Never fails:
 * an error puts the window at fault and is reported. */
void kd_window_run(struct kd_window *window, const struct kd_turn *turn, const struct kd_job *jobs);

#endif
