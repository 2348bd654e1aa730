/* SPDX-License-Identifier: MIT */
#include "daemon/crew.h"

#include <errno.h>
#include <time.h>

int kd_crew_init(struct kd_crew *crew, size_t max)
{
    pthread_condattr_t attributes;

    *crew = (struct kd_crew){.max = max, .threads = kr_alloc(max, sizeof(*crew->threads))};
    if (!crew->threads)
        return -ENOMEM;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&crew->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    return 0;
}

void kd_crew_free(struct kd_crew *crew)
{
    if (!crew->threads)
        return;
    pthread_cond_destroy(&crew->ended);
    pthread_mutex_destroy(&crew->lock);
    kr_freep(&crew->threads);
}

int kd_crew_start(struct kd_crew *crew, void *(*work)(void *argument), void *argument)
{
    int status = crew->n < crew->max ? pthread_create(&crew->threads[crew->n], NULL, work, argument)
                                     : ENOSPC;

    crew->n += !status;
    return -status;
}

void kd_crew_leave(struct kd_crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    crew->n_ended++;
    pthread_cond_signal(&crew->ended);
    pthread_mutex_unlock(&crew->lock);
}

bool kd_crew_join(struct kd_crew *crew, int64_t end_ns)
{
    const struct timespec until = {.tv_sec = end_ns / INT64_C(1000000000),
                                   .tv_nsec = end_ns % INT64_C(1000000000)};
    bool all;
    int status = 0;

    if (!crew->n)
        return true;
    pthread_mutex_lock(&crew->lock);
    while (crew->n_ended < crew->n && !status)
        status = pthread_cond_timedwait(&crew->ended, &crew->lock, &until);
    all = crew->n_ended == crew->n;
    pthread_mutex_unlock(&crew->lock);
    if (!all)
        return false;
    while (crew->n)
        pthread_join(crew->threads[--crew->n], NULL);
    crew->n_ended = 0;
    return true;
}
