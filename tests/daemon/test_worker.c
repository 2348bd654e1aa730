/* SPDX-License-Identifier: MIT */
#include "daemon/worker.h"
#include "daemon/clock.h"
#include "tests/tap.h"

#include <semaphore.h>
#include <stdlib.h>

#define N_LANES 8
#define N_JOBS  1000

/* What `run` saw; the bar's t_ns is the job's number. */
struct seen {
    size_t lane, first, n;
    bool behind;
};

struct bench {
    struct kd_pool pool;
    struct kd_lane lanes[N_LANES];
    sem_t entered, go; /* with `gated`, each turn reports itself and waits */
    bool gated;
    struct seen seen[64];
    size_t n_seen;
    atomic_size_t n_done, n_disposed, n_misordered;
    atomic_bool running[N_LANES];
    int64_t last[N_LANES];
};

static size_t lane_index(const struct bench *bench, const struct kd_lane *lane)
{
    return (size_t)(lane - bench->lanes);
}

static void run(struct kd_worker *worker, struct kd_lane *lane, struct kd_job *jobs, bool behind)
{
    struct bench *bench = worker->pool->config.context;
    size_t i = lane_index(bench, lane), n = 0;

    if (atomic_exchange(&bench->running[i], true))
        atomic_fetch_add(&bench->n_misordered, 1); /* two workers on one lane */
    for (struct kd_job *job = jobs; job; job = job->next, n++) {
        if (job->bar.t_ns <= bench->last[i])
            atomic_fetch_add(&bench->n_misordered, 1);
        bench->last[i] = job->bar.t_ns;
    }
    if (bench->gated) {
        bench->seen[bench->n_seen++] = (struct seen){i, (size_t)jobs->bar.t_ns, n, behind};
        sem_post(&bench->entered);
        sem_wait(&bench->go);
    }
    kd_worker_step(worker);
    atomic_store(&bench->running[i], false);
    atomic_fetch_add(&bench->n_done, n);
}

static void dispose(struct kd_job *job)
{
    if (!job->settings)
        return;
    atomic_fetch_add((atomic_size_t *)job->settings, 1);
    job->settings = NULL;
}

static void open_bench(struct bench *bench, size_t n_workers, bool gated)
{
    const struct kd_pool_config config = {.n_workers = n_workers,
                                          .max_lanes = N_LANES,
                                          .context = bench,
                                          .run = run,
                                          .dispose = dispose};

    *bench = (struct bench){.gated = gated};
    sem_init(&bench->entered, 0, 0);
    sem_init(&bench->go, 0, 0);
    CU_ASSERT_EQUAL_FATAL(kd_pool_init(&bench->pool, &config), 0);
    CU_ASSERT_EQUAL_FATAL(kd_pool_start(&bench->pool), 0);
}

static void close_bench(struct bench *bench)
{
    for (int i = 0; i < 64; i++)
        sem_post(&bench->go);
    CU_ASSERT_TRUE(kd_pool_stop(&bench->pool, kd_mono_ns() + INT64_C(60000000000)));
    kd_pool_free(&bench->pool);
}

static void submit(struct bench *bench, size_t lane, int64_t number, int64_t arrived_ns,
                   enum kd_job_kind kind, bool forecast)
{
    const struct kd_job job = {.kind = kind,
                               .forecast = forecast,
                               .bar = {.t_ns = number},
                               .arrived_ns = arrived_ns,
                               .settings = (void *)&bench->n_disposed};

    CU_ASSERT_EQUAL(kd_pool_submit(&bench->pool, &bench->lanes[lane], &job), 0);
}

static void let_go(struct bench *bench)
{
    sem_post(&bench->go);
    sem_wait(&bench->entered);
}

static void oldest_first(void)
{
    struct bench bench;

    open_bench(&bench, 1, true);
    submit(&bench, 0, 1, 100, KD_JOB_BAR, true);
    sem_wait(&bench.entered); /* the worker is held */
    submit(&bench, 3, 1, 130, KD_JOB_BAR, true);
    submit(&bench, 1, 1, 120, KD_JOB_BAR, true);
    submit(&bench, 2, 1, 110, KD_JOB_BAR, true);
    submit(&bench, 1, 2, 105, KD_JOB_BAR, true); /* the lane's first job counts */
    submit(&bench, 0, 2, 125, KD_JOB_BAR, true); /* owned now, waits when given back */
    CU_ASSERT_EQUAL(kd_pool_pending(&bench.pool), 6);
    for (int i = 0; i < 4; i++)
        let_go(&bench);
    CU_ASSERT_EQUAL(bench.seen[1].lane, 2);
    CU_ASSERT_EQUAL(bench.seen[2].lane, 1);
    CU_ASSERT_EQUAL(bench.seen[2].n, 2);
    CU_ASSERT_EQUAL(bench.seen[3].lane, 0);
    CU_ASSERT_EQUAL(bench.seen[4].lane, 3);
    close_bench(&bench);
    CU_ASSERT_EQUAL(bench.n_misordered, 0);
}

static void turns(void)
{
    struct bench bench;

    open_bench(&bench, 1, true);
    submit(&bench, 0, 1, 1, KD_JOB_BAR, true);
    sem_wait(&bench.entered);
    /* all: a turn ends behind the first job that wants a forecast */
    kd_pool_backlog(&bench.pool, &bench.lanes[1], true);
    submit(&bench, 1, 1, 2, KD_JOB_BAR, false);
    submit(&bench, 1, 2, 2, KD_JOB_BAR, true);
    submit(&bench, 1, 3, 2, KD_JOB_BAR, true);
    let_go(&bench);
    CU_ASSERT_EQUAL(bench.seen[1].n, 2);
    CU_ASSERT_TRUE(bench.seen[1].behind);
    let_go(&bench);
    CU_ASSERT_EQUAL(bench.seen[2].n, 1);
    CU_ASSERT_FALSE(bench.seen[2].behind);
    /* latest: all that is there, up to the length of a turn */
    for (int i = 0; i < KD_TURN + 10; i++)
        submit(&bench, 2, i + 1, 3, KD_JOB_BAR, true);
    let_go(&bench);
    CU_ASSERT_EQUAL(bench.seen[3].n, KD_TURN);
    CU_ASSERT_TRUE(bench.seen[3].behind);
    let_go(&bench);
    CU_ASSERT_EQUAL(bench.seen[4].n, 10);
    CU_ASSERT_FALSE(bench.seen[4].behind);
    close_bench(&bench);
    CU_ASSERT_EQUAL(bench.n_misordered, 0);
    CU_ASSERT_EQUAL(bench.n_disposed, 4 + KD_TURN + 10);
}

static void forming_bars_merge(void)
{
    struct bench bench;

    open_bench(&bench, 1, true);
    submit(&bench, 0, 1, 1, KD_JOB_BAR, true);
    sem_wait(&bench.entered);
    submit(&bench, 1, 1, 2, KD_JOB_BAR, true);
    submit(&bench, 1, 2, 3, KD_JOB_FORMING, false);
    submit(&bench, 1, 3, 4, KD_JOB_FORMING, false);
    submit(&bench, 1, 4, 5, KD_JOB_FORMING, false);
    CU_ASSERT_EQUAL(kd_pool_pending(&bench.pool), 3);
    let_go(&bench);
    CU_ASSERT_EQUAL(bench.seen[1].n, 2);
    CU_ASSERT_EQUAL(bench.last[1], 4);
    close_bench(&bench);
}

static void stopped(void)
{
    struct bench bench;

    open_bench(&bench, 1, true);
    submit(&bench, 0, 1, 1, KD_JOB_BAR, true);
    sem_wait(&bench.entered);
    for (int i = 0; i < 10; i++)
        submit(&bench, 1, i + 1, 2, KD_JOB_BAR, true);
    /* held by the gate, it does not end in time */
    CU_ASSERT_FALSE(kd_pool_stop(&bench.pool, kd_mono_ns()));
    kd_pool_cancel(&bench.pool);
    CU_ASSERT_FALSE(kd_worker_step(&bench.pool.workers[0]));
    close_bench(&bench);
    CU_ASSERT_EQUAL(bench.n_done, 1);      /* the turn under way ended, no other began */
    CU_ASSERT_EQUAL(bench.n_disposed, 11); /* and the rest was thrown away */
}

static void watched(void)
{
    struct bench bench;

    open_bench(&bench, 1, true);
    CU_ASSERT_TRUE(kd_pool_moved(&bench.pool)); /* idle */
    submit(&bench, 0, 1, 1, KD_JOB_BAR, true);
    sem_wait(&bench.entered);
    CU_ASSERT_FALSE(kd_pool_moved(&bench.pool)); /* busy since, without a step */
    CU_ASSERT_TRUE(bench.pool.workers[0].stalled);
    CU_ASSERT_TRUE(kd_worker_step(&bench.pool.workers[0]));
    CU_ASSERT_TRUE(kd_pool_moved(&bench.pool));
    CU_ASSERT_FALSE(kd_pool_moved(&bench.pool));
    close_bench(&bench);
}

static void many_workers(void)
{
    static struct bench bench;

    open_bench(&bench, 4, false);
    for (int i = 0; i < N_JOBS; i++)
        for (size_t lane = 0; lane < N_LANES; lane++) {
            if (i == 0)
                kd_pool_backlog(&bench.pool, &bench.lanes[lane], lane % 2);
            submit(&bench, lane, i + 1, i, KD_JOB_BAR, true);
        }
    while (kd_pool_pending(&bench.pool))
        sched_yield();
    close_bench(&bench);
    CU_ASSERT_EQUAL(bench.n_misordered, 0);
    CU_ASSERT_EQUAL(bench.n_done, N_JOBS * N_LANES);
    CU_ASSERT_EQUAL(bench.n_disposed, N_JOBS * N_LANES);
    for (size_t lane = 0; lane < N_LANES; lane++)
        CU_ASSERT_EQUAL(bench.last[lane], N_JOBS);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"the stream that waits longest comes first", oldest_first},
        {"turns under all and latest", turns},
        {"forming bars that wait are merged", forming_bars_merge},
        {"stopping", stopped},
        {"the watchdog's question", watched},
        {"many workers, each lane in order", many_workers},
    };

    return kt_main("worker", tests, sizeof(tests) / sizeof(tests[0]));
}
