/* SPDX-License-Identifier: MIT */
/* The pool of workers: per-stream FIFOs of jobs, a queue of the streams that wait, and the threads.
 *
 * The main thread submits; a worker takes the stream whose oldest job waits longest, owns it while it runs
 * that stream's next jobs, and gives it back. So a stream's jobs are done in order, by one worker at a time,
 * and what a worker keeps beside the lane needs no lock. Nothing here knows what a job means: `run` does. */
#ifndef KD_WORKER_H
#define KD_WORKER_H

#include "daemon/crew.h"
#include "daemon/job.h"

#include <pthread.h>
#include <stdatomic.h>

/* Jobs that one turn takes at most. */
#define KD_TURN 256

/* One stream's queue. Members are the pool's, under its lock, but for what is said to be the owner's. */
struct kd_lane {
    struct kd_job *head, *tail;
    size_t n_jobs;
    bool owned;      /* a worker has it */
    bool all;        /* `backlog = all`: a turn ends behind the first job that wants a forecast */
    size_t position; /* in the heap, from 1; 0: not waiting */
    void *owner;     /* of the lane: for `run` */
};

struct kd_pool;

/* One worker thread. */
struct kd_worker {
    struct kd_pool *pool;
    unsigned index;
    atomic_uint_fast64_t steps; /* moves while it works */
    atomic_bool busy;
    uint64_t steps_seen; /* main thread: at the last kd_pool_moved() */
    bool stalled;        /* main thread: found so then */
    void *rig;           /* what `run` computes with; made by the caller, belongs to the caller */
};

struct kd_pool_config {
    size_t n_workers;
    size_t max_lanes;
    void *context; /* for `run` */
    /* Do these jobs [list, at least one] of the lane; in the worker's thread, which owns the lane. `behind`:
     * more jobs waited behind them when they were taken. The jobs return to the pool by themselves. */
    void (*run)(struct kd_worker *worker, struct kd_lane *lane, struct kd_job *jobs, bool behind);
    /* Free what a job owns when it is done or thrown away. */
    void (*dispose)(struct kd_job *job);
};

struct kd_pool {
    struct kd_pool_config config;
    struct kd_worker *workers; /* [n_workers] */
    struct kd_crew crew;
    pthread_mutex_t lock;
    pthread_cond_t wake;   /* a lane waits, or `stop` */
    struct kd_lane **heap; /* [max_lanes + 1], from 1: oldest first job on top */
    size_t n_heap;
    size_t n_pending;     /* jobs in lanes */
    struct kd_job *spare; /* free list */
    struct kd_chunk *chunks;
    bool stop;
    atomic_bool cancel; /* running turns shall end early */
};

/* No thread yet. Return: 0, -ENOMEM. After an error it may be freed. */
int kd_pool_init(struct kd_pool *pool, const struct kd_pool_config *config) kr_must_check;
/* Threads must have ended (kd_pool_stop()). Jobs that still wait are thrown away. */
void kd_pool_free(struct kd_pool *pool);

/* Start the threads; their rigs are set by then. Return: 0, or a negative errno (those that run may be
 * stopped as usual). */
int kd_pool_start(struct kd_pool *pool) kr_must_check;
/* Let running turns end, take no further ones, and join the threads until end_ns (monotonic). Return: true,
 * or false if one did not end. */
bool kd_pool_stop(struct kd_pool *pool, int64_t end_ns);
/* Ask running turns to end early; they see it through kd_worker_step(). */
void kd_pool_cancel(struct kd_pool *pool);

/* A copy of `job` to the end of the lane. A forming bar replaces one that waits at the end. Main thread.
 * Return: 0, -ENOMEM (nothing was queued). */
int kd_pool_submit(struct kd_pool *pool, struct kd_lane *lane,
                   const struct kd_job *job) kr_must_check;
/* Change the lane's backlog policy for what follows. */
void kd_pool_backlog(struct kd_pool *pool, struct kd_lane *lane, bool all);
/* Jobs in all lanes, and those of running turns as one each. */
size_t kd_pool_pending(struct kd_pool *pool);

/* True unless a worker is busy and has not moved since the last call: the watchdog's question. */
bool kd_pool_moved(struct kd_pool *pool);

/* In a worker: it moved. Return: false if the turn shall end early. */
bool kd_worker_step(struct kd_worker *worker);

#endif
