/* SPDX-License-Identifier: MIT */
/* Attention of rows over what they see in the caches.
 *
 * One row's result is defined by kr_attend(): exact maximum over the visible keys, then exponentials, then
 * one chain of sums in ascending row number, carried from prefix into own rows (rules, "Row purity").
 * kr_attend_rows() gives the same bytes for many rows at once: one step of forks that lie side by side, or
 * the rows of one window, read the K and V that they share once for up to KR_ATTEND_ROWS rows. Other rows go
 * one by one. */
#ifndef KR_ATTEND_H
#define KR_ATTEND_H

#include "core/cache.h"
#include "core/kernels.h"

/* What one row sees, and where its own K and V go: the first n_prefix rows of `prefix` (NULL: none), then
 * the rows of `own` up to and including `index`, its own; of all these the last own->window. */
struct kr_view {
    const struct kr_cache *prefix;
    size_t n_prefix;
    struct kr_cache *own;
    size_t index;     /* in own */
    int64_t position; /* for the rotation: the absolute row number */
};

/* Rows that share one pass over K and V. */
#define KR_ATTEND_ROWS 32

/* Floats of scratch that both functions need where a row sees at most `max_visible` rows and a head has at most
 * max_head_dim columns. */
size_t kr_attend_scratch(size_t max_visible, size_t max_head_dim);

/* One head's attention of one query q [head_dim] over what `view` sees; out [head_dim]. Not of forks that lie
 * side by side. */
void kr_attend(const struct kr_kernels *kernels, const struct kr_view *view, size_t layer,
               size_t head, const float *q, float scale, float *out, float *scratch);

/* All heads of n rows: q, out [n][stride], head h at columns h * head_dim. Each row's result is
 * kr_attend()'s, whatever the other rows are. */
void kr_attend_rows(const struct kr_kernels *kernels, const struct kr_view *views, size_t n,
                    size_t layer, const float *q, float scale, float *out, size_t stride,
                    float *scratch);

/* kr_cache_write() of n rows k, v [n][stride] to views[i].own, row views[i].index. */
void kr_attend_write(const struct kr_kernels *kernels, const struct kr_view *views, size_t n,
                     size_t layer, const float *k, const float *v, size_t stride);

#endif
