/* SPDX-License-Identifier: MIT */
#include "clients/gang.h"

#include "clients/ctl.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

struct member {
    struct kc_gang *gang;
    size_t index;
    pthread_t thread;
    int64_t start_ns, end_ns, cpu_ns; /* of the last run */
};

struct kc_gang {
    size_t n, n_started;
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    uint64_t run;  /* number of the current run; under the lock, as all below */
    size_t n_busy; /* members that have not ended it */
    bool stop;
    void (*work)(void *context, size_t index);
    void *context;
    struct member members[];
};

size_t kc_gang_processors(void)
{
    cpu_set_t mask;

    if (sched_getaffinity(0, sizeof(mask), &mask) != 0)
        return 1;
    return KR_MAX((size_t)CPU_COUNT(&mask), (size_t)1);
}

/* Left where it is if that fails: slower perhaps, not wrong. */
static void bind_to(size_t index, size_t n)
{
    cpu_set_t mask, one;
    size_t seen = 0;

    if (sched_getaffinity(0, sizeof(mask), &mask) != 0 || (size_t)CPU_COUNT(&mask) < n)
        return;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &mask) || seen++ < index)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
        return;
    }
}

static int64_t cpu_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void *serve(void *argument)
{
    struct member *member = argument;
    struct kc_gang *gang = member->gang;
    uint64_t run = 0;

    bind_to(member->index, gang->n);
    pthread_mutex_lock(&gang->lock);
    for (;;) {
        while (gang->run == run && !gang->stop)
            pthread_cond_wait(&gang->begin, &gang->lock);
        if (gang->stop)
            break;
        run = gang->run;
        pthread_mutex_unlock(&gang->lock);
        member->cpu_ns = -cpu_now_ns();
        member->start_ns = kc_now_ns();
        gang->work(gang->context, member->index);
        member->end_ns = kc_now_ns();
        member->cpu_ns += cpu_now_ns();
        pthread_mutex_lock(&gang->lock);
        if (--gang->n_busy == 0)
            pthread_cond_signal(&gang->end);
    }
    pthread_mutex_unlock(&gang->lock);
    return NULL;
}

int kc_gang_new(size_t n, struct kc_gang **ret)
{
    struct kc_gang *gang = calloc(1, sizeof(*gang) + n * sizeof(gang->members[0]));
    int code = 0;

    if (!gang)
        return -ENOMEM;
    gang->n = n;
    pthread_mutex_init(&gang->lock, NULL);
    pthread_cond_init(&gang->begin, NULL);
    pthread_cond_init(&gang->end, NULL);
    for (size_t i = 0; i < n && code == 0; i++) {
        struct member *member = &gang->members[i];

        *member = (struct member){.gang = gang, .index = i};
        code = pthread_create(&member->thread, NULL, serve, member);
        gang->n_started += code == 0;
    }
    if (code) {
        kc_gang_free(&gang);
        return -code;
    }
    *ret = gang;
    return 0;
}

void kc_gang_free(struct kc_gang **gang)
{
    struct kc_gang *g = *gang;

    if (!g)
        return;
    pthread_mutex_lock(&g->lock);
    g->stop = true;
    pthread_cond_broadcast(&g->begin);
    pthread_mutex_unlock(&g->lock);
    for (size_t i = 0; i < g->n_started; i++)
        pthread_join(g->members[i].thread, NULL);
    pthread_cond_destroy(&g->end);
    pthread_cond_destroy(&g->begin);
    pthread_mutex_destroy(&g->lock);
    free(g);
    *gang = NULL;
}

size_t kc_gang_size(const struct kc_gang *gang)
{
    return gang->n;
}

double kc_gang_run(struct kc_gang *gang, void (*work)(void *context, size_t index), void *context)
{
    int64_t start_ns = INT64_MAX, end_ns = INT64_MIN;

    pthread_mutex_lock(&gang->lock);
    gang->work = work;
    gang->context = context;
    gang->n_busy = gang->n;
    gang->run++;
    pthread_cond_broadcast(&gang->begin);
    while (gang->n_busy > 0)
        pthread_cond_wait(&gang->end, &gang->lock);
    pthread_mutex_unlock(&gang->lock);
    for (size_t i = 0; i < gang->n; i++) {
        start_ns = KR_MIN(start_ns, gang->members[i].start_ns);
        end_ns = KR_MAX(end_ns, gang->members[i].end_ns);
    }
    return (double)(end_ns - start_ns) * 1e-9;
}

double kc_gang_cpu(const struct kc_gang *gang)
{
    int64_t most_ns = 0;

    for (size_t i = 0; i < gang->n; i++)
        most_ns = KR_MAX(most_ns, gang->members[i].cpu_ns);
    return (double)most_ns * 1e-9;
}
