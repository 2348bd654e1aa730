/* SPDX-License-Identifier: MIT */
#include "core/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct kr_pool {
    pthread_mutex_t lock;
    size_t n, n_free, rows;
    struct kr_state *states; /* [n] */
    struct kr_state **free;  /* [n], the first n_free are free */
};

size_t kr_pool_size_bytes(const struct kr_model *model, size_t n, size_t max_window)
{
    return n * (kr_state_size_bytes(model, max_window, max_window) + sizeof(struct kr_state) +
                sizeof(struct kr_state *));
}

int kr_pool_new(const struct kr_model *model, size_t n, size_t max_window, struct kr_pool **ret)
{
    struct kr_pool *pool = kr_alloc(1, sizeof(*pool));
    int r = 0;

    if (!pool)
        return -ENOMEM;
    pthread_mutex_init(&pool->lock, NULL);
    pool->rows = max_window;
    pool->states = kr_alloc(n, sizeof(*pool->states));
    pool->free = kr_alloc(n, sizeof(*pool->free));
    if (!pool->states || !pool->free)
        r = -ENOMEM;
    for (; r == 0 && pool->n < n; pool->n++) {
        r = kr_state_init(&pool->states[pool->n], model, max_window, max_window);
        if (r < 0)
            break;
        pool->free[pool->n_free++] = &pool->states[pool->n];
    }
    if (r < 0) {
        kr_pool_free(&pool);
        return r;
    }
    *ret = pool;
    return 0;
}

void kr_pool_free(struct kr_pool **pool)
{
    if (!*pool)
        return;
    for (size_t i = 0; i < (*pool)->n; i++)
        kr_state_free(&(*pool)->states[i]);
    free((*pool)->states);
    free((*pool)->free);
    pthread_mutex_destroy(&(*pool)->lock);
    kr_freep(pool);
}

struct kr_state *kr_pool_take(struct kr_pool *pool, size_t rows)
{
    struct kr_state *state = NULL;

    if (rows > pool->rows)
        return NULL;
    pthread_mutex_lock(&pool->lock);
    if (pool->n_free > 0)
        state = pool->free[--pool->n_free];
    pthread_mutex_unlock(&pool->lock);
    return state;
}

void kr_pool_return(struct kr_pool *pool, struct kr_state *state)
{
    pthread_mutex_lock(&pool->lock);
    assert(pool->n_free < pool->n);
    pool->free[pool->n_free++] = state;
    pthread_mutex_unlock(&pool->lock);
}
