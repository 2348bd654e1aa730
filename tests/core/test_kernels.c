/* SPDX-License-Identifier: MIT */
/* Every instruction set gives the same bytes, the right numbers, and rows that depend on themselves. */
#include "core/draw.h"
#include "core/kernels.h"
#include "tests/tap.h"

#include <math.h>
#include <string.h>

#define N_MAX    200
#define DIM_MAX  104
#define GUARD    32  /* floats behind a buffer that must stay as they are */
#define ROWS_MAX 208 /* N_MAX rounded up to KR_LANES */

static const char *const names[] = {"avx512", "avx2", "generic"};
static const size_t dims[] = {2, 12, 16, 52, 64, 104};

static float keys[ROWS_MAX * DIM_MAX], values[ROWS_MAX * DIM_MAX];
static float query[DIM_MAX], a[ROWS_MAX + GUARD], b[ROWS_MAX + GUARD], y[ROWS_MAX + GUARD];
static float sum[2], out[DIM_MAX + GUARD];

/* The same uniforms in [-scale, scale) for the same stream. */
static void fill(float *x, size_t n, uint32_t stream, double scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(scale * (2 * kr_draw(11, 0, stream, (uint32_t)i, 0) - 1));
}

static void fill_nan(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = NAN;
}

static bool same(const float *x, const float *expected, size_t n)
{
    return memcmp(x, expected, n * sizeof(float)) == 0;
}

static bool all_nan(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            return false;
    return true;
}

static bool near(float found, double expected, double tolerance)
{
    return fabs((double)found - expected) <= tolerance;
}

/* Run `check` with every set that this processor has. */
static void each(void (*check)(const struct kr_kernels *kernels))
{
    for (size_t i = 0; i < KR_ARRAY_LENGTH(names); i++) {
        const struct kr_kernels *kernels = kr_kernels_named(names[i]);

        if (kernels)
            check(kernels);
    }
}

static void choice(void)
{
    const struct kr_kernels *best = NULL;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(names); i++) {
        const struct kr_kernels *kernels = kr_kernels_named(names[i]);

        kt_note("%s: %s", names[i], kernels ? "here" : "not here");
        if (!kernels)
            continue;
        CU_ASSERT_STRING_EQUAL(kernels->name, names[i]);
        best = best ? best : kernels;
    }
    CU_ASSERT_PTR_EQUAL(kr_kernels(), best);
    CU_ASSERT_PTR_NOT_NULL(kr_kernels_named("generic"));
    CU_ASSERT_PTR_NULL(kr_kernels_named("neon"));
    CU_ASSERT_PTR_NULL(kr_kernels_named(""));
}

/* All kernels of one set on random input of one size, results one after the other. Return: how many. */
static size_t run_all(const struct kr_kernels *kernels, size_t n, size_t dim, float *ret)
{
    size_t used = 0;

    fill(a, n, 1, 8);
    fill(b, n, 2, 1);
    kernels->rmsnorm(ret + used, a, b, n);
    used += n;
    kernels->silu_product(ret + used, a, b, n);
    used += n;
    memcpy(ret + used, a, n * sizeof(float));
    kernels->exp_shifted(ret + used, 7.5f, n);
    used += n;
    memcpy(ret + used, a, n * sizeof(float));
    kernels->add(ret + used, b, n);
    used += n;

    fill(query, dim, 3, 2);
    fill(a, dim / 2, 4, 1);
    fill(b, dim / 2, 5, 1);
    memcpy(ret + used, query, dim * sizeof(float));
    kernels->rotate(ret + used, a, b, dim);
    used += dim;
    kernels->scores(ret + used, query, keys, n, dim, 0.125f);
    used += n; /* what lies behind is overwritten below */
    fill(ret + used, dim, 6, 1);
    fill(a, n, 7, 1);
    ret[used + dim] = 0.5f;
    kernels->accumulate(ret + used, ret + used + dim, a, values, n, dim);
    used += dim + 1;
    fill(a, n, 10, 40);
    ret[used++] = kernels->maximum(a, n);
    kernels->weights(ret + used, a, ret[used - 1], n % 2 ? 1 : 0.7f, 0x1p-125f, n);
    ret[used + n] = (float)kernels->total(ret + used, n);
    ret[used + n + 1] = (float)kernels->pick(ret + used, n, kernels->total(ret + used, n), 0.8);
    used += n + 2;
    memcpy(ret + used, a, n * sizeof(float));
    kernels->divide(ret + used, 3.7f, n);
    return used + n;
}

static void same_bytes(void)
{
    static float expected[9 * ROWS_MAX + 2 * DIM_MAX], found[9 * ROWS_MAX + 2 * DIM_MAX];

    fill(keys, ROWS_MAX * DIM_MAX, 8, 1);
    fill(values, ROWS_MAX * DIM_MAX, 9, 1);
    for (size_t d = 0; d < KR_ARRAY_LENGTH(dims); d++)
        for (size_t n = 1; n <= N_MAX; n++) {
            size_t count = run_all(kr_kernels_named("generic"), n, dims[d], expected);

            for (size_t i = 0; i < KR_ARRAY_LENGTH(names); i++) {
                const struct kr_kernels *kernels = kr_kernels_named(names[i]);

                KT_CHECK(!kernels || (run_all(kernels, n, dims[d], found) == count &&
                                      same(found, expected, count)),
                         "%s differs from generic: n %zu, dim %zu", names[i], n, dims[d]);
            }
        }
}

/* exp */

static float exp_of(const struct kr_kernels *kernels, float x, float shift)
{
    kernels->exp_shifted(&x, shift, 1);
    return x;
}

static void check_exp(const struct kr_kernels *kernels)
{
    static float x[4096], e[4096];
    double worst = 0;
    float at = 0;
    uint32_t bits = 0;

    CU_ASSERT_EQUAL(exp_of(kernels, 0, 0), 1);
    CU_ASSERT_EQUAL(exp_of(kernels, -0.0f, 0), 1);
    CU_ASSERT_EQUAL(exp_of(kernels, 3.7f, 3.7f), 1);
    CU_ASSERT_EQUAL(exp_of(kernels, 1, 88.5f), exp_of(kernels, -87, 0));
    CU_ASSERT_EQUAL(exp_of(kernels, -INFINITY, 0), exp_of(kernels, -87, 0));
    CU_ASSERT_EQUAL(exp_of(kernels, 1000, 0), exp_of(kernels, 88, 0));
    CU_ASSERT_TRUE(exp_of(kernels, -87, 0) < 0x1p-125f); /* core/filter.c relies on it */

    /* Every 1021st float from 2^-40 to 88, with both signs: about a million. */
    for (bits = 0x2b800000; bits <= 0x42b00000;) {
        for (size_t i = 0; i < 4096; i += 2, bits += 1021) {
            uint32_t clamped = KR_MIN(bits, 0x42b00000u);

            memcpy(&x[i], &clamped, sizeof(float));
            x[i + 1] = x[i] <= 87 ? -x[i] : -87;
        }
        memcpy(e, x, sizeof(e));
        kernels->exp_shifted(e, 0, 4096);
        for (size_t i = 0; i < 4096; i++) {
            double exact = exp((double)x[i]), off;
            int exponent;

            frexp(exact, &exponent);
            off = fabs((double)e[i] - exact) / ldexp(1, exponent - 24);
            if (off > worst) {
                worst = off;
                at = x[i];
            }
        }
    }
    kt_note("%s: exp within %.3f ulp, worst at %.9g", kernels->name, worst, (double)at);
    CU_ASSERT_TRUE(worst > 0.5 && worst <= 0.89);
}

static void exponential(void)
{
    each(check_exp);
}

/* Numbers, against plain double */

static void check_rows(const struct kr_kernels *kernels)
{
    for (size_t n = 1; n <= N_MAX; n++) {
        double squares = 0;

        fill(a, n, (uint32_t)n, 5);
        fill(b, n, (uint32_t)n + 1000, 2);
        for (size_t i = 0; i < n; i++)
            squares += (double)a[i] * (double)a[i];
        fill_nan(y, ROWS_MAX + GUARD);
        kernels->rmsnorm(y, a, b, n);
        for (size_t i = 0; i < n; i++) {
            double expected = (double)a[i] / sqrt(squares / (double)n + 1e-5) * (double)b[i];

            KT_CHECK(near(y[i], expected, 2e-6 * fabs(expected)), "%s: rmsnorm, n %zu",
                     kernels->name, n);
        }
        CU_ASSERT_TRUE(all_nan(y + n, GUARD));

        kernels->silu_product(y, a, b, n);
        for (size_t i = 0; i < n; i++) {
            double expected = (double)a[i] / (1 + exp(-(double)a[i])) * (double)b[i];

            KT_CHECK(near(y[i], expected, 5e-7 * fabs(expected)), "%s: silu, n %zu", kernels->name,
                     n);
        }
        CU_ASSERT_TRUE(all_nan(y + n, GUARD));

        memcpy(y, a, n * sizeof(float));
        kernels->add(y, b, n);
        for (size_t i = 0; i < n; i++)
            CU_ASSERT_EQUAL(y[i], a[i] + b[i]);
        CU_ASSERT_TRUE(all_nan(y + n, GUARD));
    }
}

static void check_rotate(const struct kr_kernels *kernels)
{
    for (size_t d = 0; d < KR_ARRAY_LENGTH(dims); d++) {
        size_t dim = dims[d], half = dim / 2;
        float x[DIM_MAX + 1], cosine[DIM_MAX / 2], sine[DIM_MAX / 2];

        fill(x, dim, (uint32_t)dim, 3);
        x[dim] = NAN;
        memcpy(query, x, dim * sizeof(float));
        for (size_t j = 0; j < half; j++) {
            cosine[j] = (float)cos(0.37 * (double)(j + 1));
            sine[j] = (float)sin(0.37 * (double)(j + 1));
        }
        kernels->rotate(x, cosine, sine, dim);
        for (size_t j = 0; j < half; j++) {
            double low = (double)query[j], high = (double)query[j + half];
            double c = (double)cosine[j], s = (double)sine[j];

            KT_CHECK(near(x[j], low * c - high * s, 6e-7) &&
                         near(x[j + half], high * c + low * s, 6e-7),
                     "%s: rotate, dim %zu, pair %zu", kernels->name, dim, j);
        }
        CU_ASSERT_TRUE(isnan(x[dim]));
    }
}

/* q . k of one row, and the sum of magnitudes that bounds the rounding. */
static double dot(size_t row, size_t dim, double *ret_size)
{
    double product = 0;

    *ret_size = 0;
    for (size_t d = 0; d < dim; d++) {
        double term =
            (double)query[d] * (double)keys[(row / KR_LANES * dim + d) * KR_LANES + row % KR_LANES];

        product += term;
        *ret_size += fabs(term);
    }
    return product;
}

static void check_attention(const struct kr_kernels *kernels)
{
    fill(keys, ROWS_MAX * DIM_MAX, 21, 1);
    fill(values, ROWS_MAX * DIM_MAX, 22, 1);
    fill(query, DIM_MAX, 23, 1);
    for (size_t i = 0; i < N_MAX; i++)
        a[i] = (float)kr_draw(24, 0, 0, (uint32_t)i, 0);
    for (size_t d = 0; d < KR_ARRAY_LENGTH(dims); d++)
        for (size_t n = 1; n <= N_MAX; n += n < 40 ? 1 : 23) {
            size_t dim = dims[d];
            double total = 0.25;

            fill_nan(y, ROWS_MAX + GUARD);
            kernels->scores(y, query, keys, n, dim, 0.25f);
            for (size_t row = 0; row < n; row++) {
                double size, product = dot(row, dim, &size);

                total += (double)a[row];
                KT_CHECK(near(y[row], product / 4, size * (double)dim * 0x1p-25),
                         "%s: scores, dim %zu, row %zu of %zu", kernels->name, dim, row, n);
            }
            CU_ASSERT_TRUE(all_nan(y + kr_round_up(n, KR_LANES), GUARD));

            fill(out, dim, 25, 1);
            memcpy(b, out, dim * sizeof(float));
            fill_nan(out + dim, GUARD);
            sum[0] = 0.25f;
            kernels->accumulate(out, &sum[0], a, values, n, dim);
            KT_CHECK(near(sum[0], total, (double)n * total * 0x1p-24), "%s: sum, n %zu",
                     kernels->name, n);
            for (size_t i = 0; i < dim; i++) {
                double expected = (double)b[i], size = fabs(expected);

                for (size_t row = 0; row < n; row++) {
                    expected += (double)a[row] * (double)values[row * dim + i];
                    size += fabs((double)a[row] * (double)values[row * dim + i]);
                }
                KT_CHECK(near(out[i], expected, size * (double)(n + 1) * 0x1p-24),
                         "%s: accumulate, dim %zu, n %zu", kernels->name, dim, n);
            }
            CU_ASSERT_TRUE(all_nan(out + dim, GUARD));
        }
}

/* What sampling needs, against plain loops. */
static void check_sampling(const struct kr_kernels *kernels)
{
    for (size_t n = 1; n <= N_MAX; n++) {
        float most, e = 0;
        double whole = 0, lanes[8] = {0}, cumulative = 0;
        size_t at = 0;

        fill(a, n, (uint32_t)n + 2000, 60);
        most = a[0];
        for (size_t i = 0; i < n; i++)
            most = fmaxf(most, a[i]);
        CU_ASSERT_EQUAL(kernels->maximum(a, n), most);
        fill_nan(y, ROWS_MAX + GUARD);
        kernels->weights(y, a, most, 1.25f, 1e-20f, n);
        for (size_t i = 0; i < n; i++) {
            e = (a[i] - most) / 1.25f;
            kernels->exp_shifted(&e, 0, 1);
            CU_ASSERT_EQUAL(y[i], e < 1e-20f ? 0 : e);
            lanes[i % 8] += (double)y[i];
        }
        CU_ASSERT_TRUE(all_nan(y + n, GUARD));
        whole = ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
                ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
        CU_ASSERT_EQUAL(kernels->total(y, n), whole);
        for (int u = 0; u <= 20; u++, cumulative = 0) {
            for (at = 0; at < n; at++) {
                cumulative += (double)(float)((double)y[at] / whole);
                if (cumulative > u / 20.0)
                    break;
            }
            KT_CHECK(kernels->pick(y, n, whole, u / 20.0) == at, "%s: n %zu, u %g", kernels->name,
                     n, u / 20.0);
        }
        memcpy(b, a, n * sizeof(float));
        fill_nan(b + n, GUARD);
        kernels->divide(b, most, n);
        for (size_t i = 0; i < n; i++)
            CU_ASSERT_EQUAL(b[i], a[i] / most);
        CU_ASSERT_TRUE(all_nan(b + n, GUARD));
    }
}

static void numbers(void)
{
    each(check_rows);
    each(check_sampling);
    each(check_rotate);
    each(check_attention);
}

/* In place: y may be an input. */
static void check_aliases(const struct kr_kernels *kernels)
{
    for (size_t n = 1; n <= N_MAX; n += 3) {
        fill(a, n, 31, 4);
        fill(b, n, 32, 1);
        kernels->rmsnorm(y, a, b, n);
        kernels->rmsnorm(a, a, b, n);
        CU_ASSERT_TRUE(same(a, y, n));
        fill(a, n, 31, 4);
        kernels->silu_product(y, a, b, n);
        kernels->silu_product(a, a, b, n);
        CU_ASSERT_TRUE(same(a, y, n));
        fill(a, n, 31, 4);
        kernels->silu_product(b, a, b, n);
        CU_ASSERT_TRUE(same(b, y, n));
    }
}

static void aliases(void)
{
    each(check_aliases);
}

/* Purity */

/* Elementwise kernels give an element the same bits wherever it stands. */
static void check_elements(const struct kr_kernels *kernels)
{
    fill(a, N_MAX, 41, 30);
    fill(b, N_MAX, 42, 1);
    for (size_t n = 1; n <= N_MAX; n++) {
        size_t last = n - 1;
        float alone = a[last], product;

        memcpy(y, a, n * sizeof(float));
        for (size_t i = 0; i < last; i += 2)
            y[i] = NAN;
        kernels->exp_shifted(y, 1.5f, n);
        kernels->exp_shifted(&alone, 1.5f, 1);
        CU_ASSERT_EQUAL(y[last], alone);
        kernels->silu_product(y, a, b, n);
        kernels->silu_product(&product, a + last, b + last, 1);
        CU_ASSERT_EQUAL(y[last], product);
    }
}

/* One row's key at `row`, everything else NaN: other rows, and lanes beyond the last. */
static float score_alone(const struct kr_kernels *kernels, const float *key, size_t dim, size_t row,
                         size_t n)
{
    fill_nan(keys, ROWS_MAX * DIM_MAX);
    for (size_t d = 0; d < dim; d++)
        keys[(row / KR_LANES * dim + d) * KR_LANES + row % KR_LANES] = key[d];
    kernels->scores(y, query, keys, n, dim, 0.3f);
    return y[row];
}

static void check_scores_purity(const struct kr_kernels *kernels)
{
    static const size_t rows[] = {0, 1, 7, 8, 15, 16, 31, 77, 199};

    fill(query, DIM_MAX, 51, 1);
    fill(values, DIM_MAX, 52, 1); /* the key */
    for (size_t d = 0; d < KR_ARRAY_LENGTH(dims); d++) {
        float expected = score_alone(kernels, values, dims[d], 0, 1);

        CU_ASSERT_TRUE(isfinite(expected));
        for (size_t r = 0; r < KR_ARRAY_LENGTH(rows); r++)
            for (size_t n = rows[r] + 1; n <= KR_MIN(rows[r] + 20, (size_t)N_MAX); n++)
                KT_CHECK(score_alone(kernels, values, dims[d], rows[r], n) == expected,
                         "%s: dim %zu, row %zu of %zu", kernels->name, dims[d], rows[r], n);
    }
}

/* A sum carried from one call into the next is the sum of one call, and rows beyond are not read. */
static void check_accumulate_purity(const struct kr_kernels *kernels)
{
    static float expected[DIM_MAX];

    for (size_t d = 0; d < KR_ARRAY_LENGTH(dims); d++) {
        size_t dim = dims[d];

        fill(values, N_MAX * dim, 61, 1);
        fill_nan(values + N_MAX * dim, (ROWS_MAX - N_MAX) * dim);
        fill(a, N_MAX, 62, 1);
        fill_nan(a + N_MAX, ROWS_MAX - N_MAX);
        memset(expected, 0, sizeof(expected));
        sum[0] = 0;
        kernels->accumulate(expected, &sum[0], a, values, N_MAX, dim);
        CU_ASSERT_TRUE(isfinite(expected[dim - 1]) && isfinite(sum[0]));
        for (size_t split = 0; split <= N_MAX; split += 9) {
            memset(out, 0, sizeof(out));
            sum[1] = 0;
            kernels->accumulate(out, &sum[1], a, values, split, dim);
            kernels->accumulate(out, &sum[1], a + split, values + split * dim, N_MAX - split, dim);
            KT_CHECK(same(out, expected, dim) && sum[0] == sum[1], "%s: dim %zu, split at %zu",
                     kernels->name, dim, split);
        }
    }
}

static void purity(void)
{
    each(check_elements);
    each(check_scores_purity);
    each(check_accumulate_purity);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"the best set is chosen", choice},
        {"the same bytes with every set", same_bytes},
        {"exp", exponential},
        {"numbers against plain double", numbers},
        {"in place", aliases},
        {"purity", purity},
    };

    return kt_main("kernels", tests, KR_ARRAY_LENGTH(tests));
}
