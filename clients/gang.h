/* SPDX-License-Identifier: MIT */
/* Threads that do the same work at the same moment, one a processor: for measurements.
 *
 * They are started once and wait for work between runs. Each is bound to a processor of its own of the
 * process's affinity mask while there are enough. One thread at a time gives work. */
#ifndef KC_GANG_H
#define KC_GANG_H

#include "core/base.h"

struct kc_gang;

/* Processors that this process may use, at least 1. */
size_t kc_gang_processors(void);

/* Return: 0, -ENOMEM, or what pthread_create() says, negative. */
int kc_gang_new(size_t n, struct kc_gang **ret) kr_must_check;
/* Ends and joins the threads; accepts a pointer to NULL. */
void kc_gang_free(struct kc_gang **gang);
size_t kc_gang_size(const struct kc_gang *gang);

/* Run work(context, index) in every thread, index 0 .. n - 1, and wait for all. Return: seconds from the
 * first one's start to the last one's end. */
double kc_gang_run(struct kc_gang *gang, void (*work)(void *context, size_t index), void *context);
/* Processor time of that run in seconds, of the thread that took most: less than the run where others had the
 * processor meanwhile. */
double kc_gang_cpu(const struct kc_gang *gang);

#endif
