/* SPDX-License-Identifier: MIT */
/* The loops that are not matrix products: norms, activations, attention.
 *
 * Compiled once per instruction set from one source, chosen at run time. Every loop fixes the order of
 * its sums by its own column or key index, writes its FMA out, and runs tails through the same
 * arithmetic, so a row's result depends on that row alone (row purity). */
#ifndef KR_KERNELS_H
#define KR_KERNELS_H

#include "core/base.h"

/* Keys are stored in groups of this many rows, one row a lane: k[group][dim][lane]. */
#define KR_LANES 16

/* Forks that lie side by side keep their keys in groups of this many rows: k[group][dim][row][fork]. */
#define KR_FORK_GROUP 8

/* Which of the keys from number `key` on each lane sees: those of numbers [first, end). */
struct kr_seen {
    const int32_t *first, *end; /* [lanes] */
    int32_t key;
};

struct kr_kernels {
    const char *name; /* "avx512", "avx2", "generic" */

    /* y = x / sqrt(mean(x^2) + 1e-5) * w, [n] each; y may be x. */
    void (*rmsnorm)(float *y, const float *x, const float *w, size_t n);
    /* y = a / (1 + exp(-a)) * b, [n] each; y may be a or b. */
    void (*silu_product)(float *y, const float *a, const float *b, size_t n);
    /* x = exp(x - shift), [n]; arguments below -87 give exp(-87). */
    void (*exp_shifted)(float *x, float shift, size_t n);
    /* y += x, [n]. */
    void (*add)(float *y, const float *x, size_t n);
    /* Rotate pairs (j, j + dim/2) of one head by the angle whose cos, sin [dim/2] are given. */
    void (*rotate)(float *x, const float *cosine, const float *sine, size_t dim);
    /* s[j] = scale * sum_d q[d] k[d][j], d ascending, for rows 0 .. n_rows - 1 of one head's keys,
     * k [group][dim][KR_LANES]. s holds n_rows rounded up to KR_LANES; the excess is undefined. */
    void (*scores)(float *s, const float *q, const float *k, size_t n_rows, size_t dim,
                   float scale);
    /* sum += p[j]; out[d] = fma(p[j], v[j][d], out[d]), j ascending. v [row][dim]. */
    void (*accumulate)(float *out, float *sum, const float *p, const float *v, size_t n_rows,
                       size_t dim);

    /* Largest of x [n], n >= 1. */
    float (*maximum)(const float *x, size_t n);
    /* x /= by, [n]. */
    void (*divide)(float *x, float by, size_t n);
    /* w = exp((x - most) / temperature), 0 where that is less than `least`, [n]; w may be x. */
    void (*weights)(float *w, const float *x, float most, float temperature, float least, size_t n);
    /* Sum of w [n] in one order of its own: eight running sums in double by column, then a tree. */
    double (*total)(const float *w, size_t n);
    /* The first index whose cumulative probability exceeds u, n if none does: a double sum in order of index
     * of the shares w / total, each rounded to f32. */
    size_t (*pick)(const float *w, size_t n, double total, double u);

    /* Attention of many rows over keys that they share (attend.h). A lane is a row; `lanes` is their number
     * rounded up to KR_LANES; matrices are [..][lanes]. Each lane's arithmetic is that of scores(),
     * exp_shifted() and accumulate() for its row alone, bit for bit. */

    /* columns[d * stride + l] = rows[l * row_stride + d], l < n, d < dim; and back. */
    void (*to_columns)(float *columns, size_t stride, const float *rows, size_t row_stride,
                       size_t n, size_t dim);
    void (*to_rows)(float *rows, size_t row_stride, const float *columns, size_t stride, size_t n,
                    size_t dim);
    /* s[j][l] = scale * sum_d q[d][l] k[d][first + j], d ascending, for j < n; k as in scores(). */
    void (*shared_scores)(float *s, const float *q, const float *k, size_t first, size_t n,
                          size_t dim, size_t lanes, float scale);
    /* most[l] = the largest of most[l] and of s[j][l] over the keys j < n that l sees (NULL: all). */
    void (*shared_maximum)(float *most, const float *s, const struct kr_seen *seen, size_t n,
                           size_t lanes);
    /* s[j][l] = exp(s[j][l] - most[l]), added to sum[l], j ascending; 0 for keys that l does not see. */
    void (*shared_weights)(float *s, float *sum, const float *most, const struct kr_seen *seen,
                           size_t n, size_t lanes);
    /* out[d][l] = fma(p[j][l], v[j][d], out[d][l]), j ascending; with `some`, where p is not 0: no
     * exponential is. */
    void (*shared_accumulate)(float *out, const float *p, const float *v, size_t n, size_t dim,
                              size_t lanes, bool some);
    /* The same where each lane has keys and values of its own: k [group][dim][KR_FORK_GROUP][fork_lanes],
     * of which rows `first` .. first + n - 1 count, v [j][dim][fork_lanes]. */
    void (*fork_scores)(float *s, const float *q, const float *k, size_t first, size_t n,
                        size_t dim, size_t lanes, size_t fork_lanes, float scale);
    void (*fork_accumulate)(float *out, const float *p, const float *v, size_t n, size_t dim,
                            size_t lanes, size_t fork_lanes);
};

/* The best set this processor runs. Constant after the first call; any thread. */
const struct kr_kernels *kr_kernels(void);
/* By name, for tests; NULL if this build or processor has none of that name. */
const struct kr_kernels *kr_kernels_named(const char *name);

#endif
