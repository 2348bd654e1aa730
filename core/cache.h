/* SPDX-License-Identifier: MIT */
/* Fixed-length K/V cache of one transformer stack, and forks of it.
 *
 * Rows are appended at the cursor and never move. A fork is a small cache of its own that holds only what
 * its path appends; the rows below its base are read from the cache it was forked from. All sizes are
 * fixed by kr_cache_init(): nothing here allocates later. Only the functions below know how a row is
 * addressed, so that a ring can stand beside this one. One thread at a time writes; readers of rows below
 * the cursor may run beside it. */
#ifndef KR_CACHE_H
#define KR_CACHE_H

#include "core/base.h"
#include "core/kernels.h"

struct kr_cache_shape {
    size_t n_layers, n_heads, head_dim;
};

struct kr_cache {
    struct kr_cache_shape shape;
    size_t capacity; /* rows */
    size_t len;      /* cursor: rows written so far */
    float *k;        /* [layer][head][group of KR_LANES rows][head_dim][KR_LANES] */
    float *v;        /* [layer][head][row][head_dim] */
};

/* Bytes that kr_cache_init() takes. 0 if the product overflows. */
size_t kr_cache_size_bytes(const struct kr_cache_shape *shape, size_t capacity);

/* Return: 0, -EINVAL (a zero size), -EOVERFLOW, -ENOMEM. After an error the cache is empty and may be
 * freed. */
int kr_cache_init(struct kr_cache *cache, const struct kr_cache_shape *shape,
                  size_t capacity) kr_must_check;
void kr_cache_free(struct kr_cache *cache);

/* Write K and V [head][head_dim] of one layer of `row`, which lies at or past the cursor. */
void kr_cache_write(struct kr_cache *cache, size_t layer, size_t row, const float *k,
                    const float *v);

/* Read them back, for tests. */
void kr_cache_read(const struct kr_cache *cache, size_t layer, size_t row, float *ret_k,
                   float *ret_v);

/* Move the cursor over `n` rows whose every layer is written.
 * Return: 0, or -ENOSPC past the capacity (the cache is unchanged). */
int kr_cache_append(struct kr_cache *cache, size_t n) kr_must_check;

/* Drop rows [len, cursor). Constant time; the dropped rows may be written again.
 * Return: 0, or -ERANGE if len exceeds the cursor (the cache is unchanged). */
int kr_cache_truncate(struct kr_cache *cache, size_t len) kr_must_check;

/* Make `to` hold the rows of `from`; the shapes are equal. Return: 0, -ENOSPC (unchanged). */
int kr_cache_copy(struct kr_cache *to, const struct kr_cache *from) kr_must_check;

/* Keys and values of one head as the kernels read them. */
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

/* What one row sees, and where its own K and V go: the first n_prefix rows of `prefix` (NULL: none), then
 * the rows of `own` up to and including `index`, its own. */
struct kr_view {
    const struct kr_cache *prefix;
    size_t n_prefix;
    struct kr_cache *own;
    size_t index;    /* in own */
    size_t position; /* for the rotation; n_prefix + index within a window */
};

/* One head's attention of one query q [head_dim] over what `view` sees; out [head_dim]. scores: scratch
 * for n_prefix + index + 1 rows, plus 2 KR_LANES. Exact maximum, then exponentials, then one chain of
 * sums in ascending row number, carried from prefix into own rows (rules, "Row purity"). */
void kr_attend(const struct kr_kernels *kernels, const struct kr_view *view, size_t layer,
               size_t head, const float *q, float scale, float *out, float *scores);

#endif
