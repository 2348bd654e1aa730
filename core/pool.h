/* SPDX-License-Identifier: MIT */
/* A fixed number of spare cache sets that streams borrow while their next epoch is encoded. A set's memory
 * never moves and its contents are undefined when taken. Thread-safe. */
#ifndef KR_POOL_H
#define KR_POOL_H

#include "core/state.h"

struct kr_pool;

size_t kr_pool_size_bytes(const struct kr_model *model, size_t n, size_t max_window);
/* `max_window`: rows of every set. Return: 0, -EINVAL, -ENOMEM. */
int kr_pool_new(const struct kr_model *model, size_t n, size_t max_window,
                struct kr_pool **ret) kr_must_check;
void kr_pool_free(struct kr_pool **pool);

/* Borrow a set of at least `rows` rows, NULL if none is free or they are too small; and give it back. */
struct kr_state *kr_pool_take(struct kr_pool *pool, size_t rows);
void kr_pool_return(struct kr_pool *pool, struct kr_state *state);

#endif
