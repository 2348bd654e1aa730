/* SPDX-License-Identifier: MIT */
/* Fixed-length K/V cache of one transformer stack, and forks of it.
 *
 * Rows are appended at the cursor. A plain cache keeps them all and never moves one; a ring keeps the last
 * `window` + KR_RING_SLACK, each in the slot that its absolute number chooses. A fork is a small plain cache
 * that holds only what its path appends; the rows below its base are read from the cache it was forked from.
 * All sizes are fixed when a cache is made: nothing allocates later. Only the functions below know how a
 * row is addressed; callers count rows from the cache's first. One thread at a time writes; readers of rows
 * below the cursor may run beside it. */
#ifndef KR_CACHE_H
#define KR_CACHE_H

#include "core/base.h"
#include "core/kernels.h"

struct kr_cache_shape {
    size_t n_layers, n_heads, head_dim;
};

struct kr_cache {
    struct kr_cache_shape shape;
    size_t capacity; /* rows that have a place; a ring: its slots */
    size_t window;   /* rows that a row sees, itself included; 0: all before it */
    bool ring;       /* rows share slots, `capacity` apart */
    int64_t first;   /* absolute number of row 0 */
    size_t len;      /* cursor: rows written so far */
    float *k;        /* [layer][head][group of KR_LANES slots][head_dim][KR_LANES] */
    float *v;        /* [layer][head][slot][head_dim] */
    /* Forks that lie side by side, so that one step of all of them is read and written as vectors: of the
     * n forks this is number `lane`; k is [layer][head][group of KR_FORK_GROUP slots][head_dim]
     * [KR_FORK_GROUP][lanes], v [layer][head][slot][head_dim][lanes], both pointing at this lane. 0: a
     * cache by itself. */
    size_t lanes, lane;
};

/* Rows that a ring keeps beyond its window: so many may be appended at once, and one more truncated. */
#define KR_RING_SLACK 8

/* Bytes that kr_cache_init() takes. 0 if the product overflows. */
size_t kr_cache_size_bytes(const struct kr_cache_shape *shape, size_t capacity);

/* Return: 0, -EINVAL (a zero size), -EOVERFLOW, -ENOMEM. After an error the cache is empty and may be
 * freed. */
int kr_cache_init(struct kr_cache *cache, const struct kr_cache_shape *shape,
                  size_t capacity) kr_must_check;
/* A ring for rows that see `window` rows, themselves included. Same errors. */
int kr_cache_init_ring(struct kr_cache *cache, const struct kr_cache_shape *shape,
                       size_t window) kr_must_check;
size_t kr_cache_ring_slots(size_t window);
void kr_cache_free(struct kr_cache *cache);

/* Forks of one cache: n of them, of `capacity` rows each, or rings for rows that see `window` rows; `window` is
 * each one's otherwise too, 0 for none. From KR_FORKS_TOGETHER on they lie side by side. Same errors; free
 * them with the second function alone. */
#define KR_FORKS_TOGETHER 8
int kr_cache_init_forks(struct kr_cache *forks, size_t n, const struct kr_cache_shape *shape,
                        size_t capacity, size_t window, bool ring) kr_must_check;
void kr_cache_free_forks(struct kr_cache *forks, size_t n);
size_t kr_cache_forks_size_bytes(const struct kr_cache_shape *shape, size_t n, size_t capacity);

/* Empty it; the next row has the absolute number `first`. */
void kr_cache_reset(struct kr_cache *cache, int64_t first);

/* Write K and V [head][head_dim] of one layer of `row`, which lies at or past the cursor. */
void kr_cache_write(struct kr_cache *cache, size_t layer, size_t row, const float *k,
                    const float *v);

/* Read them back, for tests. */
void kr_cache_read(const struct kr_cache *cache, size_t layer, size_t row, float *ret_k,
                   float *ret_v);

/* Move the cursor over `n` rows whose every layer is written.
 * Return: 0, or -ENOSPC past the capacity, a ring's slack (the cache is unchanged). */
int kr_cache_append(struct kr_cache *cache, size_t n) kr_must_check;

/* Drop rows [len, cursor). Constant time; the dropped rows may be written again.
 * Return: 0, or -ERANGE if len exceeds the cursor, or lies so far behind it that a ring has overwritten
 * what the next row must see (the cache is unchanged). */
int kr_cache_truncate(struct kr_cache *cache, size_t len) kr_must_check;

/* Make `to` hold the rows of `from`; the shapes are equal. Return: 0, -ENOSPC (unchanged). */
int kr_cache_copy(struct kr_cache *to, const struct kr_cache *from) kr_must_check;

/* Keys and values of one head as the kernels read them; the cache is one by itself. */
static inline const float *kr_cache_keys(const struct kr_cache *cache, size_t layer, size_t head)
{
    size_t rows = kr_round_up(cache->capacity, KR_LANES);

    return cache->k + (layer * cache->shape.n_heads + head) * rows * cache->shape.head_dim;
}

static inline const float *kr_cache_values(const struct kr_cache *cache, size_t layer, size_t head)
{
    return cache->v +
           (layer * cache->shape.n_heads + head) * cache->capacity * cache->shape.head_dim;
}

/* Likewise of forks that lie side by side: floats from k, or from v, to what belongs to one slot. */
static inline size_t kr_cache_fork_keys(const struct kr_cache *cache, size_t layer, size_t head,
                                        size_t slot)
{
    size_t rows = kr_round_up(cache->capacity, KR_FORK_GROUP), dim = cache->shape.head_dim;

    return (((layer * cache->shape.n_heads + head) * rows + slot / KR_FORK_GROUP * KR_FORK_GROUP) *
                dim +
            slot % KR_FORK_GROUP) *
           cache->lanes;
}

static inline size_t kr_cache_fork_values(const struct kr_cache *cache, size_t layer, size_t head,
                                          size_t slot)
{
    return ((layer * cache->shape.n_heads + head) * cache->capacity + slot) *
           cache->shape.head_dim * cache->lanes;
}

/* Where a row, counted from the cache's first, lies. */
static inline size_t kr_cache_slot(const struct kr_cache *cache, size_t row)
{
    int64_t slots = (int64_t)cache->capacity, slot;

    if (!cache->ring)
        return row;
    slot = (cache->first + (int64_t)row) % slots;
    return (size_t)(slot < 0 ? slot + slots : slot); /* history has negative numbers */
}

#endif
