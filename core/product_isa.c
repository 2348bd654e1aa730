/* SPDX-License-Identifier: MIT */
/* Native products for one instruction set; the makefile compiles this file once for each, with KR_ISA
 * naming it, and with KR_BF16 for products of bfloat16.
 *
 * A tile is up to 6 rows by one panel, all of it in registers while the panel streams past: each step of k
 * loads the panel's weights once and multiplies them with one element of each row. The numbers of rows and of
 * vectors are constants of each tile function, so that nothing is left to test inside the loop.
 *
 * With bfloat16 a step takes two neighbouring columns of x: vdpbf16ps multiplies pairs, 32 bits each, and adds
 * both products to the sum. A pair lies where a float would, so the same loops serve. */
#include "core/product_bf16.h"

#include <immintrin.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(a)    #a
#define TEXT(a)     TEXT_(a)

#define MAX_ROWS 6

#ifdef __AVX512F__
#define LANES       16
#define MAX_VECTORS 4 /* 24 accumulators, 4 weights, 1 activation: 29 of 32 registers */
#define LINES       4 /* cache lines of a panel's row */
typedef __m512 vector;
typedef __mmask16 mask;
#define zero()       _mm512_setzero_ps()
#define load(p)      _mm512_loadu_ps(p)
#define broadcast(p) _mm512_set1_ps(*(p))
#ifdef KR_BF16
#define fma(a, b, c) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
#else
#define fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#endif
#define plus(a, b)          _mm512_add_ps(a, b)
#define store(p, a)         _mm512_storeu_ps(p, a)
#define load_part(p, m)     _mm512_maskz_loadu_ps(m, p)
#define store_part(p, m, a) _mm512_mask_storeu_ps(p, m, a)
/* Keeps a loaded vector in its register: compilers would rather load it again in each FMA that uses it, and
 * the load ports would be the limit. */
#define keep(a) __asm__("" : "+v"(a))

static inline mask mask_of(size_t n)
{
    return (mask)((1u << n) - 1);
}
#else
#define LANES               8
#define MAX_VECTORS         2 /* 12 accumulators, 2 weights, 1 activation: 15 of 16 registers */
#define LINES               1
typedef __m256 vector;
typedef __m256i mask;
#define zero()              _mm256_setzero_ps()
#define load(p)             _mm256_loadu_ps(p)
#define broadcast(p)        _mm256_broadcast_ss(p)
#define fma(a, b, c)        _mm256_fmadd_ps(a, b, c)
#define plus(a, b)          _mm256_add_ps(a, b)
#define store(p, a)         _mm256_storeu_ps(p, a)
#define load_part(p, m)     _mm256_maskload_ps(p, m)
#define store_part(p, m, a) _mm256_maskstore_ps(p, m, a)
#define keep(a)             __asm__("" : "+x"(a))

static inline mask mask_of(size_t n)
{
    static const int32_t ones[2 * LANES] = {-1, -1, -1, -1, -1, -1, -1, -1};

    return _mm256_loadu_si256((const __m256i *)(ones + LANES - n));
}
#endif

#define PANEL (LANES * MAX_VECTORS)
/* Steps of k by which a panel that few rows share is asked for ahead of its use. */
#define NEAR_STEPS 4
/* Steps of k that are written out at a time: counting would take turns from the arithmetic. */
#define STEPS 4

#ifdef __clang__
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

struct tile {
    const float *x, *w, *bias; /* bias: NULL for none */
    float *y;
    size_t x_stride, y_stride, n_in;
    size_t n_last; /* columns of the last vector, 1 to LANES */
    /* The next panel's weights, to bring into the second-level cache meanwhile: from STEPS places at once,
     * `apart` bytes apart, so that the processor's own prefetcher follows each of them. */
    const char *ahead;
    size_t apart, advance; /* advance: bytes of each per STEPS of k, at most a cache line */
    bool add;
};

static inline __attribute__((always_inline)) vector load_at(const float *p, int v, int last,
                                                            mask part)
{
    return v == last ? load_part(p + v * LANES, part) : load(p + v * LANES);
}

static inline __attribute__((always_inline)) void
step(vector sums[MAX_ROWS][MAX_VECTORS], const float *x, size_t x_stride, const float *w,
     const char *ahead, const int rows, const int vectors, const bool near)
{
    vector weights[MAX_VECTORS];

    UNROLL
    for (int v = 0; v < vectors; v++) {
        weights[v] = load(w + v * LANES);
        keep(weights[v]);
    }
    if (near) {
        UNROLL
        for (int line = 0; line < LINES; line++)
            _mm_prefetch((const char *)w + (NEAR_STEPS * LINES + line) * KR_ALIGNMENT, _MM_HINT_T0);
    }
    _mm_prefetch(ahead, _MM_HINT_T1);
    UNROLL
    for (int r = 0; r < rows; r++) {
        vector value = broadcast(x + (size_t)r * x_stride);

        UNROLL
        for (int v = 0; v < vectors; v++)
            sums[r][v] = fma(value, weights[v], sums[r][v]);
    }
}

/* near: few rows share the panel, so that the arithmetic does not cover the way of its weights from the
 * second-level cache. */
static inline __attribute__((always_inline)) void run_tile(const struct tile *t, const int rows,
                                                           const int vectors, const bool near)
{
    const float *x = t->x, *w = t->w;
    const char *ahead = t->ahead;
    size_t x_stride = t->x_stride, apart = t->apart, n = t->n_in, k = 0;
    mask part = mask_of(t->n_last);
    vector sums[MAX_ROWS][MAX_VECTORS];

    UNROLL
    for (int v = 0; v < vectors; v++) {
        vector start = t->bias ? load_at(t->bias, v, vectors - 1, part) : zero();

        UNROLL
        for (int r = 0; r < rows; r++)
            sums[r][v] = start;
    }
    for (; k + STEPS <= n; k += STEPS) {
        UNROLL
        for (int i = 0; i < STEPS; i++) {
            step(sums, x + k + i, x_stride, w + i * vectors * LANES, ahead + (size_t)i * apart,
                 rows, vectors, near);
        }
        ahead += t->advance;
        w += STEPS * vectors * LANES;
    }
    for (; k < n; k++) {
        step(sums, x + k, x_stride, w, ahead, rows, vectors, near);
        w += vectors * LANES;
    }
    UNROLL
    for (int r = 0; r < rows; r++) {
        float *y = t->y + (size_t)r * t->y_stride;

        UNROLL
        for (int v = 0; v < vectors; v++) {
            vector sum = sums[r][v];

            if (t->add)
                sum = plus(load_at(y, v, vectors - 1, part), sum);
            if (v == vectors - 1)
                store_part(y + v * LANES, part, sum);
            else
                store(y + v * LANES, sum);
        }
    }
}

#define TILE(rows, vectors)                                                                        \
    static void tile_##rows##_##vectors(const struct tile *t)                                      \
    {                                                                                              \
        run_tile(t, rows, vectors, false);                                                         \
    }                                                                                              \
    static void near_##rows##_##vectors(const struct tile *t)                                      \
    {                                                                                              \
        run_tile(t, rows, vectors, true);                                                          \
    }
#define TILES(vectors)                                                                             \
    TILE(1, vectors)                                                                               \
    TILE(2, vectors)                                                                               \
    TILE(3, vectors)                                                                               \
    TILE(4, vectors)                                                                               \
    TILE(5, vectors)                                                                               \
    TILE(6, vectors)
#define NAMES(kind, vectors)                                                                       \
    {                                                                                              \
        kind##_1_##vectors, kind##_2_##vectors, kind##_3_##vectors, kind##_4_##vectors,            \
            kind##_5_##vectors, kind##_6_##vectors                                                 \
    }

/* clang-format off */
TILES(1)
TILES(2)
#if MAX_VECTORS == 4
TILES(3)
TILES(4)
#endif
/* clang-format on */

static void (*const tiles[2][MAX_VECTORS][MAX_ROWS])(const struct tile *t) = {
#if MAX_VECTORS == 4
    {NAMES(tile, 1), NAMES(tile, 2), NAMES(tile, 3), NAMES(tile, 4)},
    {NAMES(near, 1), NAMES(near, 2), NAMES(near, 3), NAMES(near, 4)},
#else
    {NAMES(tile, 1), NAMES(tile, 2)},
    {NAMES(near, 1), NAMES(near, 2)},
#endif
};

/* Panels outside, rows inside: a panel is read once from afar and then serves all rows from the cache, while
 * every tile asks for its part of the next one, so that memory is read while there is arithmetic to do. */
static void run_rows(const struct kr_linear *linear, size_t n_in, const float *x, size_t x_stride,
                     float *y, size_t y_stride, size_t n_rows, bool add)
{
    size_t n_tiles = (n_rows + MAX_ROWS - 1) / MAX_ROWS;
    size_t rows_each, n_larger, advance;
    const float *w = linear->packed;

    if (n_rows == 0)
        return;
    /* tiles of nearly equal height: one of one row would be slow */
    rows_each = n_rows / n_tiles;
    n_larger = n_rows % n_tiles;
    advance = KR_MIN(PANEL * sizeof(float) / n_tiles, (size_t)KR_ALIGNMENT);
    for (size_t column = 0; column < linear->n_out; column += PANEL) {
        size_t width = KR_MIN(linear->n_out - column, (size_t)PANEL);
        size_t vectors = (width + LANES - 1) / LANES;
        struct tile t = {
            .w = w,
            .bias = linear->bias ? linear->bias + column : NULL,
            .x = x,
            .y = y + column,
            .x_stride = x_stride,
            .y_stride = y_stride,
            .n_in = n_in,
            .n_last = width - (vectors - 1) * LANES,
            .ahead = (const char *)(w + n_in * vectors * LANES),
            .apart = n_in * PANEL * sizeof(float) / STEPS,
            .advance = advance,
            .add = add,
        };

        w += n_in * vectors * LANES;
        for (size_t i = 0; i < n_tiles; i++) {
            size_t rows = rows_each + (i < n_larger);

            tiles[n_tiles <= 2][vectors - 1][rows - 1](&t);
            t.x += rows * x_stride;
            t.y += rows * y_stride;
            t.ahead += n_in / STEPS * advance;
        }
    }
}

#ifdef KR_BF16
/* Rows are rounded to bfloat16 here, as many as fit at a time; one always does. */
static void run(const struct kr_linear *const *linears, float *const *ys, size_t n_linears,
                const float *x, size_t x_stride, size_t y_stride, size_t n_rows, bool add)
{
    _Alignas(KR_ALIGNMENT) float pairs[KR_BF16_ITEMS / 2];
    size_t n_in = linears[0]->n_in, depth = kr_round_up(n_in, KR_BF16_DEPTH) / 2, rows;

    for (size_t row = 0; row < n_rows; row += rows) {
        rows = KR_MIN(KR_BF16_ITEMS / 2 / depth, n_rows - row);
        kr_bf16_rows(x + row * x_stride, x_stride, n_in, rows, pairs);
        for (size_t i = 0; i < n_linears; i++)
            run_rows(linears[i], depth, pairs, depth, ys[i] + row * y_stride, y_stride, rows, add);
    }
}
#else
static void run(const struct kr_linear *const *linears, float *const *ys, size_t n_linears,
                const float *x, size_t x_stride, size_t y_stride, size_t n_rows, bool add)
{
    for (size_t i = 0; i < n_linears; i++)
        run_rows(linears[i], linears[i]->n_in, x, x_stride, ys[i], y_stride, n_rows, add);
}
#endif

extern const struct kr_products JOIN(kr_products_, KR_ISA);
const struct kr_products JOIN(kr_products_, KR_ISA) = {
    .name = TEXT(KR_ISA),
#ifdef KR_BF16
    .precision = KR_BF16_PRODUCTS,
    .depth = KR_BF16_DEPTH,
#else
    .precision = KR_F32_PRODUCTS,
    .depth = 1,
#endif
    .panel = PANEL,
    .lanes = LANES,
    .run = run,
};
