/* SPDX-License-Identifier: MIT */
/* The loops of attention over keys that many rows share (kernels.h), for one instruction set; the makefile
 * compiles this file once for each.
 *
 * Here a lane is a row: of each key one number is spread over all rows, so K and V are read once for up to
 * 32 rows, any head size fits without a tail, and each row's sums run through its keys alone and in order.
 * A tile of TILE keys (scores) or TILE columns of V (sums) times two vectors of rows stays in registers. */
#include "core/kernels_shared.h"

#include "core/kernels_exp.h"

#ifdef __clang__
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED _Pragma("GCC unroll 16")
#endif
#define INLINE static inline __attribute__((always_inline))
/* Each tile is a function of its own: of several in one body, gcc 12 keeps vectors on the stack. */
#define NOINLINE __attribute__((noinline))

#define AHEAD 512 /* floats that forks' rows are fetched ahead */

/* to[i][j] = from[j][i] of VEC x VEC numbers. */
static NOINLINE void transpose_block(float *to, size_t to_stride, const float *from,
                                     size_t from_stride)
{
    vec x[VEC];

    UNROLLED
    for (size_t i = 0; i < VEC; i++)
        x[i] = vec_load(from + i * from_stride);
    vec_transpose(x);
    UNROLLED
    for (size_t i = 0; i < VEC; i++)
        vec_store(to + i * to_stride, x[i]);
}

/* to[i][j] = from[j][i], i < n, j < m. */
static void transpose(float *to, size_t to_stride, const float *from, size_t from_stride, size_t n,
                      size_t m)
{
    size_t n_whole = n / VEC * VEC, m_whole = m / VEC * VEC;

    for (size_t j = 0; j < m_whole; j += VEC)
        for (size_t i = 0; i < n_whole; i += VEC)
            transpose_block(to + i * to_stride + j, to_stride, from + j * from_stride + i,
                            from_stride);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i < n_whole ? m_whole : 0; j < m; j++)
            to[i * to_stride + j] = from[j * from_stride + i];
}

void OF_ISA(to_columns)(float *columns, size_t stride, const float *rows, size_t row_stride,
                        size_t n, size_t dim)
{
    transpose(columns, stride, rows, row_stride, dim, n);
}

void OF_ISA(to_rows)(float *rows, size_t row_stride, const float *columns, size_t stride, size_t n,
                     size_t dim)
{
    transpose(rows, row_stride, columns, stride, n, dim);
}

/* TILE keys from `k` on against n_vec vectors of rows; of the results keys [from, to) are kept. */
INLINE void scores_tile(float *s, const float *q, const float *k, size_t dim, size_t lanes,
                        float scale, size_t from, size_t to, const int n_vec)
{
    vec acc[TILE][2];

    UNROLLED
    for (int t = 0; t < TILE; t++)
        acc[t][0] = acc[t][1] = vec_all(0);
    for (size_t d = 0; d < dim; d++) {
        vec low = vec_load(q + d * lanes), high = low;

        __builtin_prefetch(k + (dim + d) * KR_LANES); /* of the group that comes next */
        if (n_vec == 2)
            high = vec_load(q + d * lanes + VEC);
        vec_keep(low);
        vec_keep(high);
        UNROLLED
        for (int t = 0; t < TILE; t++) {
            vec key = vec_all(k[d * KR_LANES + (size_t)t]);

            vec_keep(key);
            acc[t][0] = vec_fma(low, key, acc[t][0]);
            if (n_vec == 2)
                acc[t][1] = vec_fma(high, key, acc[t][1]);
        }
    }
    UNROLLED
    for (int t = 0; t < TILE; t++)
        if ((size_t)t >= from && (size_t)t < to) {
            vec_store(s + (size_t)t * lanes, vec_mul(acc[t][0], vec_all(scale)));
            if (n_vec == 2)
                vec_store(s + (size_t)t * lanes + VEC, vec_mul(acc[t][1], vec_all(scale)));
        }
}

static NOINLINE void scores_tile_2(float *s, const float *q, const float *k, size_t dim,
                                   size_t lanes, float scale, size_t from, size_t to)
{
    scores_tile(s, q, k, dim, lanes, scale, from, to, 2);
}

static NOINLINE void scores_tile_1(float *s, const float *q, const float *k, size_t dim,
                                   size_t lanes, float scale, size_t from, size_t to)
{
    scores_tile(s, q, k, dim, lanes, scale, from, to, 1);
}

void OF_ISA(shared_scores)(float *s, const float *q, const float *k, size_t first, size_t n,
                           size_t dim, size_t lanes, float scale)
{
    for (size_t at = first / TILE * TILE; at < first + n; at += TILE) {
        const float *keys = k + at / KR_LANES * KR_LANES * dim + at % KR_LANES;
        size_t from = at < first ? first - at : 0, to = KR_MIN(first + n - at, (size_t)TILE);
        /* may point before s where the tile begins before `first`; nothing is written there */
        float *tile = s + ((ptrdiff_t)at - (ptrdiff_t)first) * (ptrdiff_t)lanes;
        size_t l = 0;

        for (; l + 2 * VEC <= lanes; l += 2 * VEC)
            scores_tile_2(tile + l, q + l, keys, dim, lanes, scale, from, to);
        for (; l < lanes; l += VEC)
            scores_tile_1(tile + l, q + l, keys, dim, lanes, scale, from, to);
    }
}

/* Lanes l .. l + KR_LANES - 1 that see key j. */
INLINE bool sees(const struct kr_seen *seen, size_t l, int32_t j)
{
    return (seen->first[l] <= j) & (j < seen->end[l]);
}

void OF_ISA(shared_maximum)(float *most, const float *s, const struct kr_seen *seen, size_t n,
                            size_t lanes)
{
    for (size_t at = 0; at < lanes; at += KR_LANES) {
        float lane[KR_LANES];

        memcpy(lane, most + at, sizeof(lane));
        for (size_t j = 0; j < n; j++) {
            const float *x = s + j * lanes + at;

            if (seen)
                for (size_t l = 0; l < KR_LANES; l++) {
                    float larger = x[l] > lane[l] ? x[l] : lane[l];

                    lane[l] = sees(seen, at + l, seen->key + (int32_t)j) ? larger : lane[l];
                }
            else
                for (size_t l = 0; l < KR_LANES; l++)
                    lane[l] = x[l] > lane[l] ? x[l] : lane[l];
        }
        memcpy(most + at, lane, sizeof(lane));
    }
}

void OF_ISA(shared_weights)(float *s, float *sum, const float *most, const struct kr_seen *seen,
                            size_t n, size_t lanes)
{
    for (size_t at = 0; at < lanes; at += KR_LANES) {
        float shift[KR_LANES], total[KR_LANES], p[KR_LANES];

        memcpy(shift, most + at, sizeof(shift));
        memcpy(total, sum + at, sizeof(total));
        for (size_t j = 0; j < n; j++) {
            float *x = s + j * lanes + at;

            for (size_t l = 0; l < KR_LANES; l++)
                p[l] = kr_exp_one(x[l] - shift[l]);
            if (seen)
                for (size_t l = 0; l < KR_LANES; l++)
                    p[l] = sees(seen, at + l, seen->key + (int32_t)j) ? p[l] : 0;
            for (size_t l = 0; l < KR_LANES; l++)
                total[l] += p[l];
            memcpy(x, p, sizeof(p));
        }
        memcpy(sum + at, total, sizeof(total));
    }
}

/* n_d columns of V from `v` on into n_vec vectors of rows. */
INLINE void accumulate_tile(float *out, const float *p, const float *v, size_t n, size_t dim,
                            size_t lanes, const int n_d, const int n_vec, const bool some)
{
    vec acc[TILE][2];

    UNROLLED
    for (int t = 0; t < n_d; t++) {
        acc[t][0] = acc[t][1] = vec_load(out + (size_t)t * lanes);
        if (n_vec == 2)
            acc[t][1] = vec_load(out + (size_t)t * lanes + VEC);
    }
    for (size_t row = 0; row < n; row++) {
        vec low = vec_load(p + row * lanes), high = low;

        __builtin_prefetch(v + (row + n) * dim); /* of the keys that come next */
        if (n_vec == 2)
            high = vec_load(p + row * lanes + VEC);
        vec_keep(low);
        vec_keep(high);
        UNROLLED
        for (int t = 0; t < n_d; t++) {
            vec value = vec_all(v[row * dim + (size_t)t]);

            vec_keep(value);
            acc[t][0] = some ? vec_fma_some(low, value, acc[t][0]) : vec_fma(low, value, acc[t][0]);
            if (n_vec == 2)
                acc[t][1] =
                    some ? vec_fma_some(high, value, acc[t][1]) : vec_fma(high, value, acc[t][1]);
        }
    }
    UNROLLED
    for (int t = 0; t < n_d; t++) {
        vec_store(out + (size_t)t * lanes, acc[t][0]);
        if (n_vec == 2)
            vec_store(out + (size_t)t * lanes + VEC, acc[t][1]);
    }
}

#define ACCUMULATE(name, n_d, n_vec, some)                                                         \
    static NOINLINE void name(float *out, const float *p, const float *v, size_t n, size_t dim,    \
                              size_t lanes)                                                        \
    {                                                                                              \
        accumulate_tile(out, p, v, n, dim, lanes, n_d, n_vec, some);                               \
    }
#define ACCUMULATES(n_d)                                                                           \
    ACCUMULATE(accumulate_##n_d##_1_all, n_d, 1, false)                                            \
    ACCUMULATE(accumulate_##n_d##_1_some, n_d, 1, true)                                            \
    ACCUMULATE(accumulate_##n_d##_2_all, n_d, 2, false)                                            \
    ACCUMULATE(accumulate_##n_d##_2_some, n_d, 2, true)
#define CHOOSE(n_d)                                                                                \
    (n_vec == 2 ? some ? accumulate_##n_d##_2_some : accumulate_##n_d##_2_all                      \
     : some     ? accumulate_##n_d##_1_some                                                        \
                : accumulate_##n_d##_1_all)

#if TILE == 8
ACCUMULATES(8)
#endif
ACCUMULATES(4)
ACCUMULATES(2)
ACCUMULATES(1)

/* All columns of V for n_vec vectors of rows. */
INLINE void accumulate_columns(float *out, const float *p, const float *v, size_t n, size_t dim,
                               size_t lanes, const int n_vec, const bool some)
{
    size_t d = 0;

#if TILE == 8
    for (; d + 8 <= dim; d += 8)
        CHOOSE(8)(out + d * lanes, p, v + d, n, dim, lanes);
#endif
    for (; d + 4 <= dim; d += 4)
        CHOOSE(4)(out + d * lanes, p, v + d, n, dim, lanes);
    for (; d + 2 <= dim; d += 2)
        CHOOSE(2)(out + d * lanes, p, v + d, n, dim, lanes);
    if (d < dim)
        CHOOSE(1)(out + d * lanes, p, v + d, n, dim, lanes);
}

INLINE void accumulate_all(float *out, const float *p, const float *v, size_t n, size_t dim,
                           size_t lanes, const bool some)
{
    size_t l = 0;

    for (; l + 2 * VEC <= lanes; l += 2 * VEC)
        accumulate_columns(out + l, p + l, v, n, dim, lanes, 2, some);
    for (; l < lanes; l += VEC)
        accumulate_columns(out + l, p + l, v, n, dim, lanes, 1, some);
}

void OF_ISA(shared_accumulate)(float *out, const float *p, const float *v, size_t n, size_t dim,
                               size_t lanes, bool some)
{
    if (some)
        accumulate_all(out, p, v, n, dim, lanes, true);
    else
        accumulate_all(out, p, v, n, dim, lanes, false);
}

/* Where each lane has keys and values of its own: every number is used once, so they are read as they lie. */

/* TILE keys from `k` on against n_vec vectors of rows; of the results keys [from, to) are kept. */
INLINE void fork_scores_tile(float *s, const float *q, const float *k, size_t dim, size_t lanes,
                             size_t fork_lanes, float scale, size_t from, size_t to,
                             const int n_vec)
{
    vec acc[TILE][2];

    UNROLLED
    for (int t = 0; t < TILE; t++)
        acc[t][0] = acc[t][1] = vec_all(0);
    for (size_t d = 0; d < dim; d++, k += KR_FORK_GROUP * fork_lanes) {
        vec low = vec_load(q + d * lanes), high = low;

        if (n_vec == 2)
            high = vec_load(q + d * lanes + VEC);
        vec_keep(low);
        vec_keep(high);
        UNROLLED
        for (int t = 0; t < TILE; t++) {
            const float *key = k + (size_t)t * fork_lanes;

            __builtin_prefetch(key + AHEAD);
            acc[t][0] = vec_fma(low, vec_load(key), acc[t][0]);
            if (n_vec == 2)
                acc[t][1] = vec_fma(high, vec_load(key + VEC), acc[t][1]);
        }
    }
    UNROLLED
    for (int t = 0; t < TILE; t++)
        if ((size_t)t >= from && (size_t)t < to) {
            vec_store(s + (size_t)t * lanes, vec_mul(acc[t][0], vec_all(scale)));
            if (n_vec == 2)
                vec_store(s + (size_t)t * lanes + VEC, vec_mul(acc[t][1], vec_all(scale)));
        }
}

static NOINLINE void fork_scores_1(float *s, const float *q, const float *k, size_t dim,
                                   size_t lanes, size_t fork_lanes, float scale, size_t from,
                                   size_t to)
{
    fork_scores_tile(s, q, k, dim, lanes, fork_lanes, scale, from, to, 1);
}

static NOINLINE void fork_scores_2(float *s, const float *q, const float *k, size_t dim,
                                   size_t lanes, size_t fork_lanes, float scale, size_t from,
                                   size_t to)
{
    fork_scores_tile(s, q, k, dim, lanes, fork_lanes, scale, from, to, 2);
}

void OF_ISA(fork_scores)(float *s, const float *q, const float *k, size_t first, size_t n,
                         size_t dim, size_t lanes, size_t fork_lanes, float scale)
{
    for (size_t at = first / TILE * TILE; at < first + n; at += TILE) {
        size_t group = at / KR_FORK_GROUP * KR_FORK_GROUP, l = 0;
        const float *keys = k + (group * dim + at % KR_FORK_GROUP) * fork_lanes;
        size_t from = at < first ? first - at : 0, to = KR_MIN(first + n - at, (size_t)TILE);
        float *tile = s + ((ptrdiff_t)at - (ptrdiff_t)first) * (ptrdiff_t)lanes;

        for (; l + 2 * VEC <= lanes; l += 2 * VEC)
            fork_scores_2(tile + l, q + l, keys + l, dim, lanes, fork_lanes, scale, from, to);
        for (; l < lanes; l += VEC)
            fork_scores_1(tile + l, q + l, keys + l, dim, lanes, fork_lanes, scale, from, to);
    }
}

/* One row's values into n_vec vectors of rows. */
INLINE void fork_accumulate_row(float *out, const float *p, const float *v, size_t dim,
                                size_t lanes, size_t fork_lanes, const int n_vec)
{
    vec low = vec_load(p), high = n_vec == 2 ? vec_load(p + VEC) : low;

    for (size_t d = 0; d < dim; d++, out += lanes, v += fork_lanes) {
        __builtin_prefetch(v + AHEAD);
        vec_store(out, vec_fma(low, vec_load(v), vec_load(out)));
        if (n_vec == 2)
            vec_store(out + VEC, vec_fma(high, vec_load(v + VEC), vec_load(out + VEC)));
    }
}

void OF_ISA(fork_accumulate)(float *out, const float *p, const float *v, size_t n, size_t dim,
                             size_t lanes, size_t fork_lanes)
{
    for (size_t row = 0; row < n; row++, p += lanes, v += dim * fork_lanes) {
        size_t l = 0;

        for (; l + 2 * VEC <= lanes; l += 2 * VEC)
            fork_accumulate_row(out + l, p + l, v + l, dim, lanes, fork_lanes, 2);
        for (; l < lanes; l += VEC)
            fork_accumulate_row(out + l, p + l, v + l, dim, lanes, fork_lanes, 1);
    }
}
