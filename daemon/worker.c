/* SPDX-License-Identifier: MIT */
#include "daemon/worker.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_JOBS 256

/* Jobs are cut from chunks and never given back to the system: as many as ever waited at once. */
struct kd_chunk {
    struct kd_chunk *next;
    struct kd_job jobs[CHUNK_JOBS];
};

int kd_pool_init(struct kd_pool *pool, const struct kd_pool_config *config)
{
    *pool = (struct kd_pool){.config = *config};
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    pool->workers = kr_alloc(config->n_workers, sizeof(*pool->workers));
    pool->heap = kr_alloc(config->max_lanes + 1, sizeof(struct kd_lane *));
    if (!pool->workers || !pool->heap || kd_crew_init(&pool->crew, config->n_workers))
        return -ENOMEM;
    for (size_t i = 0; i < config->n_workers; i++)
        pool->workers[i] = (struct kd_worker){.pool = pool, .index = (unsigned)i};
    return 0;
}

static void give_back(struct kd_pool *pool, struct kd_job *jobs)
{
    while (jobs) {
        struct kd_job *next = jobs->next;

        if (pool->config.dispose)
            pool->config.dispose(jobs);
        jobs->next = pool->spare;
        pool->spare = jobs;
        jobs = next;
    }
}

void kd_pool_free(struct kd_pool *pool)
{
    if (!pool || !pool->workers)
        return;
    for (size_t i = 1; i <= pool->n_heap; i++)
        give_back(pool, pool->heap[i]->head);
    while (pool->chunks) {
        struct kd_chunk *next = pool->chunks->next;

        free(pool->chunks);
        pool->chunks = next;
    }
    kd_crew_free(&pool->crew);
    kr_freep(&pool->heap);
    kr_freep(&pool->workers);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
}

/* The heap: a lane stands where its oldest job's arrival puts it. */

static bool earlier(const struct kd_lane *a, const struct kd_lane *b)
{
    return a->head->arrived_ns < b->head->arrived_ns;
}

static void put(struct kd_pool *pool, size_t position, struct kd_lane *lane)
{
    pool->heap[position] = lane;
    lane->position = position;
}

static void heap_push(struct kd_pool *pool, struct kd_lane *lane)
{
    size_t i = ++pool->n_heap;

    for (; i > 1 && earlier(lane, pool->heap[i / 2]); i /= 2)
        put(pool, i, pool->heap[i / 2]);
    put(pool, i, lane);
}

static struct kd_lane *heap_pop(struct kd_pool *pool)
{
    struct kd_lane *top = pool->heap[1], *moved = pool->heap[pool->n_heap--];
    size_t i = 1, child;

    top->position = 0;
    if (!pool->n_heap)
        return top;
    for (; (child = 2 * i) <= pool->n_heap; i = child) {
        if (child < pool->n_heap && earlier(pool->heap[child + 1], pool->heap[child]))
            child++;
        if (!earlier(pool->heap[child], moved))
            break;
        put(pool, i, pool->heap[child]);
    }
    put(pool, i, moved);
    return top;
}

/* Main thread */

static struct kd_job *new_job(struct kd_pool *pool)
{
    struct kd_job *job = pool->spare;

    if (!job) {
        struct kd_chunk *chunk = calloc(1, sizeof(*chunk));

        if (!chunk)
            return NULL;
        chunk->next = pool->chunks;
        pool->chunks = chunk;
        for (size_t i = 0; i < CHUNK_JOBS; i++) {
            chunk->jobs[i].next = job;
            job = &chunk->jobs[i];
        }
    }
    pool->spare = job->next;
    return job;
}

int kd_pool_submit(struct kd_pool *pool, struct kd_lane *lane, const struct kd_job *job)
{
    struct kd_job *copy;
    int status = 0;

    pthread_mutex_lock(&pool->lock);
    if (job->kind == KD_JOB_FORMING && lane->tail && lane->tail->kind == KD_JOB_FORMING) {
        lane->tail->bar = job->bar;
        goto out;
    }
    copy = new_job(pool);
    if (!copy) {
        status = -ENOMEM;
        goto out;
    }
    *copy = *job;
    copy->next = NULL;
    if (lane->tail)
        lane->tail->next = copy;
    else
        lane->head = copy;
    lane->tail = copy;
    lane->n_jobs++;
    pool->n_pending++;
    if (!lane->owned && !lane->position) {
        heap_push(pool, lane);
        pthread_cond_signal(&pool->wake);
    }
out:
    pthread_mutex_unlock(&pool->lock);
    return status;
}

void kd_pool_backlog(struct kd_pool *pool, struct kd_lane *lane, bool all)
{
    pthread_mutex_lock(&pool->lock);
    lane->all = all;
    pthread_mutex_unlock(&pool->lock);
}

size_t kd_pool_pending(struct kd_pool *pool)
{
    size_t n;

    pthread_mutex_lock(&pool->lock);
    n = pool->n_pending;
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->crew.n; i++)
        n += atomic_load(&pool->workers[i].busy);
    return n;
}

bool kd_pool_moved(struct kd_pool *pool)
{
    bool moved = true;

    for (size_t i = 0; i < pool->crew.n; i++) {
        struct kd_worker *worker = &pool->workers[i];
        uint64_t steps = atomic_load(&worker->steps);

        worker->stalled = atomic_load(&worker->busy) && steps == worker->steps_seen;
        worker->steps_seen = steps;
        moved = moved && !worker->stalled;
    }
    return moved;
}

/* Workers */

bool kd_worker_step(struct kd_worker *worker)
{
    atomic_fetch_add_explicit(&worker->steps, 1, memory_order_relaxed);
    return !atomic_load_explicit(&worker->pool->cancel, memory_order_relaxed);
}

/* Detach the jobs of one turn. */
static struct kd_job *take(struct kd_pool *pool, struct kd_lane *lane)
{
    struct kd_job *first = lane->head, *last = first;
    size_t n = 1;

    while (last->next && n < KD_TURN && !(lane->all && last->forecast)) {
        last = last->next;
        n++;
    }
    lane->head = last->next;
    if (!lane->head)
        lane->tail = NULL;
    last->next = NULL;
    lane->n_jobs -= n;
    pool->n_pending -= n;
    return first;
}

static void *work(void *argument)
{
    struct kd_worker *worker = argument;
    struct kd_pool *pool = worker->pool;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct kd_lane *lane;
        struct kd_job *jobs;
        bool behind;

        while (!pool->stop && !pool->n_heap)
            pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->stop)
            break;
        lane = heap_pop(pool);
        lane->owned = true;
        jobs = take(pool, lane);
        behind = lane->head != NULL;
        atomic_store(&worker->busy, true);
        pthread_mutex_unlock(&pool->lock);
        pool->config.run(worker, lane, jobs, behind);
        atomic_fetch_add(&worker->steps, 1);
        pthread_mutex_lock(&pool->lock);
        atomic_store(&worker->busy, false);
        give_back(pool, jobs);
        lane->owned = false;
        if (lane->head)
            heap_push(pool, lane); /* this worker or another comes for it */
    }
    pthread_mutex_unlock(&pool->lock);
    kd_crew_leave(&pool->crew);
    return NULL;
}

int kd_pool_start(struct kd_pool *pool)
{
    int status = 0;

    while (pool->crew.n < pool->config.n_workers && !status)
        status = kd_crew_start(&pool->crew, work, &pool->workers[pool->crew.n]);
    return status;
}

void kd_pool_cancel(struct kd_pool *pool)
{
    atomic_store(&pool->cancel, true);
}

bool kd_pool_stop(struct kd_pool *pool, int64_t end_ns)
{
    if (!pool->workers)
        return true;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    return kd_crew_join(&pool->crew, end_ns);
}
