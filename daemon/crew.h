/* SPDX-License-Identifier: MIT */
/* Threads that are started together and joined together, the joining bounded by a deadline. */
#ifndef KD_CREW_H
#define KD_CREW_H

#include "core/base.h"

#include <pthread.h>

struct kd_crew {
    pthread_t *threads; /* [max] */
    size_t max, n;      /* n run, or have ended and are not joined yet */
    size_t n_ended;     /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t ended;
};

/* Room for `max` threads. Return: 0, -ENOMEM. */
int kd_crew_init(struct kd_crew *crew, size_t max) kr_must_check;
/* All are joined by then. Accepts what kd_crew_init() never saw, zeroed. */
void kd_crew_free(struct kd_crew *crew);

/* One more; its last act is kd_crew_leave(). Return: 0, or a negative errno. */
int kd_crew_start(struct kd_crew *crew, void *(*work)(void *argument),
                  void *argument) kr_must_check;
void kd_crew_leave(struct kd_crew *crew);

/* Wait until all have left, at most until end_ns (monotonic), and join them. Return: true, or false if one
 * has not (none is joined then). */
bool kd_crew_join(struct kd_crew *crew, int64_t end_ns);

#endif
