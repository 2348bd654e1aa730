/* SPDX-License-Identifier: MIT */
/* The loops of kernels.h for one instruction set; the makefile compiles this file once for each, with
 * KR_ISA naming it. Plain loops of fixed width over local lanes, which the compiler turns into vectors even
 * at -O2 (it would not where a count or an overlap is unknown); the arithmetic, FMA included, is written
 * out, so every set gives the same numbers. */
#include "core/kernels.h"

#include "core/kernels_exp.h"
#include "core/kernels_shared.h"

#include <math.h>
#include <string.h>

#define TEXT_(a) #a
#define TEXT(a)  TEXT_(a)

#define LANES KR_LANES

/* Lane l takes part of lanes l, l + 8, then l + 4, ...: a fixed tree, one result. */
static inline float fold(float *lanes)
{
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    return lanes[0];
}

static void rmsnorm(float *y, const float *x, const float *w, size_t n)
{
    float lanes[LANES] = {0}, factor;
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lanes[l] = fma_f32(x[i + l], x[i + l], lanes[l]);
    for (size_t l = 0; i + l < n; l++)
        lanes[l] = fma_f32(x[i + l], x[i + l], lanes[l]);
    factor = 1.0f / sqrtf(fold(lanes) / (float)n + 1e-5f);
    for (i = 0; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++)
            lanes[l] = x[i + l] * factor * w[i + l];
        memcpy(y + i, lanes, sizeof(lanes));
    }
    for (; i < n; i++)
        y[i] = x[i] * factor * w[i];
}

static inline void exp_lanes(float x[LANES], float shift)
{
    for (size_t l = 0; l < LANES; l++)
        x[l] = kr_exp_one(x[l] - shift);
}

/* A tail is padded to a block of its own: one row more must not cost a dozen scalar exponentials. */
static void exp_shifted(float *x, float shift, size_t n)
{
    float tail[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        exp_lanes(x + i, shift);
    if (i == n)
        return;
    memcpy(tail, x + i, (n - i) * sizeof(float));
    exp_lanes(tail, shift);
    memcpy(x + i, tail, (n - i) * sizeof(float));
}

static inline void silu_lanes(float y[LANES], const float a[LANES], const float b[LANES])
{
    float lanes[LANES];

    for (size_t l = 0; l < LANES; l++)
        lanes[l] = a[l] / (1.0f + kr_exp_one(-a[l])) * b[l];
    memcpy(y, lanes, sizeof(lanes));
}

static void silu_product(float *y, const float *a, const float *b, size_t n)
{
    float tail_a[LANES] = {0}, tail_b[LANES] = {0};
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        silu_lanes(y + i, a + i, b + i);
    if (i == n)
        return;
    memcpy(tail_a, a + i, (n - i) * sizeof(float));
    memcpy(tail_b, b + i, (n - i) * sizeof(float));
    silu_lanes(tail_a, tail_a, tail_b);
    memcpy(y + i, tail_a, (n - i) * sizeof(float));
}

static void add(float *y, const float *x, size_t n)
{
    float lanes[LANES];
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++)
            lanes[l] = y[i + l] + x[i + l];
        memcpy(y + i, lanes, sizeof(lanes));
    }
    for (; i < n; i++)
        y[i] += x[i];
}

static inline float rotated(float a, float b, float cosine, float sine)
{
    return fma_f32(a, cosine, b * sine);
}

static void rotate(float *x, const float *cosine, const float *sine, size_t dim)
{
    size_t half = dim / 2, j = 0;
    float low[LANES], high[LANES];

    for (; j + LANES <= half; j += LANES) {
        for (size_t l = 0; l < LANES; l++) {
            low[l] = rotated(x[j + l], -x[half + j + l], cosine[j + l], sine[j + l]);
            high[l] = rotated(x[half + j + l], x[j + l], cosine[j + l], sine[j + l]);
        }
        memcpy(x + j, low, sizeof(low));
        memcpy(x + half + j, high, sizeof(high));
    }
    for (; j < half; j++) {
        float a = x[j], b = x[half + j];

        x[j] = rotated(a, -b, cosine[j], sine[j]);
        x[half + j] = rotated(b, a, cosine[j], sine[j]);
    }
}

static void scores(float *restrict s, const float *restrict q, const float *restrict k,
                   size_t n_rows, size_t dim, float scale)
{
    for (size_t row = 0; row < n_rows; row += LANES, k += LANES * dim) {
        float lanes[LANES] = {0};

        for (size_t d = 0; d < dim; d++)
            for (size_t l = 0; l < LANES; l++)
                lanes[l] = fma_f32(q[d], k[d * LANES + l], lanes[l]);
        for (size_t l = 0; l < LANES; l++)
            s[row + l] = lanes[l] * scale;
    }
}

/* One panel of columns kept in registers over all rows. */
#define ACCUMULATE_PANEL(width)                                                                    \
    do {                                                                                           \
        float lanes_[width];                                                                       \
        for (size_t l = 0; l < (width); l++)                                                       \
            lanes_[l] = out[d + l];                                                                \
        for (size_t row = 0; row < n_rows; row++)                                                  \
            for (size_t l = 0; l < (width); l++)                                                   \
                lanes_[l] = fma_f32(p[row], v[row * dim + d + l], lanes_[l]);                      \
        for (size_t l = 0; l < (width); l++)                                                       \
            out[d + l] = lanes_[l];                                                                \
        d += (width);                                                                              \
    } while (0)

static void accumulate(float *restrict out, float *restrict sum, const float *restrict p,
                       const float *restrict v, size_t n_rows, size_t dim)
{
    size_t d = 0;
    float total = *sum;

    for (size_t row = 0; row < n_rows; row++)
        total += p[row];
    *sum = total;
    while (d + 64 <= dim)
        ACCUMULATE_PANEL(64);
    while (d + 16 <= dim)
        ACCUMULATE_PANEL(16);
    while (d + 4 <= dim)
        ACCUMULATE_PANEL(4);
    while (d < dim)
        ACCUMULATE_PANEL(1);
}

static float maximum(const float *x, size_t n)
{
    float lanes[LANES];
    size_t i = 0;

    for (size_t l = 0; l < LANES; l++)
        lanes[l] = x[0];
    for (; i + LANES <= n; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    for (size_t l = 0; i + l < n; l++)
        lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
    for (size_t width = LANES / 2; width > 0; width /= 2)
        for (size_t l = 0; l < width; l++)
            lanes[l] = lanes[l + width] > lanes[l] ? lanes[l + width] : lanes[l];
    return lanes[0];
}

static void divide(float *x, float by, size_t n)
{
    float lanes[LANES];
    size_t i = 0;

    for (; i + LANES <= n; i += LANES) {
        for (size_t l = 0; l < LANES; l++)
            lanes[l] = x[i + l] / by;
        memcpy(x + i, lanes, sizeof(lanes));
    }
    for (; i < n; i++)
        x[i] /= by;
}

static inline void weight_lanes(float x[LANES], float most, float temperature, float least)
{
    for (size_t l = 0; l < LANES; l++)
        x[l] -= most;
    if (temperature != 1)
        for (size_t l = 0; l < LANES; l++)
            x[l] /= temperature;
    for (size_t l = 0; l < LANES; l++)
        x[l] = kr_exp_one(x[l]);
    for (size_t l = 0; l < LANES; l++)
        x[l] = x[l] < least ? 0 : x[l];
}

static void weights(float *w, const float *x, float most, float temperature, float least, size_t n)
{
    float lanes[LANES] = {0};

    for (size_t i = 0; i < n; i += LANES) {
        size_t count = n - i < LANES ? n - i : LANES;

        if (count == LANES) {
            memcpy(lanes, x + i, sizeof(lanes));
            weight_lanes(lanes, most, temperature, least);
            memcpy(w + i, lanes, sizeof(lanes));
        } else {
            memcpy(lanes, x + i, count * sizeof(float));
            weight_lanes(lanes, most, temperature, least);
            memcpy(w + i, lanes, count * sizeof(float));
        }
    }
}

static double total(const float *w, size_t n)
{
    double lanes[8] = {0};
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (size_t l = 0; l < 8; l++)
            lanes[l] += (double)w[i + l];
    for (size_t l = 0; i + l < n; l++)
        lanes[l] += (double)w[i + l];
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

static size_t pick(const float *w, size_t n, double whole, double u)
{
    double before = 0, cumulative = 0;
    float shares[LANES];

    for (size_t i = 0; i < n; i += LANES, before = cumulative) {
        size_t count = n - i < LANES ? n - i : LANES;

        if (count == LANES)
            for (size_t l = 0; l < LANES; l++)
                shares[l] = (float)((double)w[i + l] / whole);
        else
            for (size_t l = 0; l < count; l++)
                shares[l] = (float)((double)w[i + l] / whole);
        for (size_t l = 0; l < count; l++)
            cumulative += (double)shares[l];
        if (!(cumulative > u)) /* it never falls: no need to look at each */
            continue;
        for (size_t l = 0; l < count; l++) {
            before += (double)shares[l];
            if (before > u)
                return i + l;
        }
    }
    return n;
}

extern const struct kr_kernels JOIN(kr_kernels_, KR_ISA);
const struct kr_kernels JOIN(kr_kernels_, KR_ISA) = {
    .name = TEXT(KR_ISA),
    .rmsnorm = rmsnorm,
    .silu_product = silu_product,
    .exp_shifted = exp_shifted,
    .add = add,
    .rotate = rotate,
    .scores = scores,
    .accumulate = accumulate,
    .maximum = maximum,
    .divide = divide,
    .weights = weights,
    .total = total,
    .pick = pick,
    .to_columns = OF_ISA(to_columns),
    .to_rows = OF_ISA(to_rows),
    .shared_scores = OF_ISA(shared_scores),
    .shared_maximum = OF_ISA(shared_maximum),
    .shared_weights = OF_ISA(shared_weights),
    .shared_accumulate = OF_ISA(shared_accumulate),
    .fork_scores = OF_ISA(fork_scores),
    .fork_accumulate = OF_ISA(fork_accumulate),
};
