/* SPDX-License-Identifier: MIT */
#include "core/product.h"

#include "core/kernels.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A shape for which OpenBLAS takes its buffers, which the serial build shares between threads. */
#define N_OUT  32
#define N_IN   12
#define ROUNDS 400000

static float weight[N_OUT * N_IN], bias[N_OUT];
static const struct kr_linear linear = {N_OUT, N_IN, weight, bias, NULL, NULL};

static float noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 24) - 0.5f;
}

struct caller {
    pthread_t thread;
    uint32_t seed;
    size_t n_wrong;
    _Alignas(KR_ALIGNMENT) float x[KR_BLOCK_ROWS * N_IN];
    _Alignas(KR_ALIGNMENT) float expected[KR_BLOCK_ROWS * N_OUT];
    _Alignas(KR_ALIGNMENT) float y[KR_BLOCK_ROWS * N_OUT];
};

static void *call(void *argument)
{
    struct caller *caller = argument;

    for (size_t i = 0; i < ROUNDS; i++) {
        kr_product(&linear, caller->x, N_IN, caller->y, N_OUT, KR_BLOCK_ROWS);
        caller->n_wrong += memcmp(caller->y, caller->expected, sizeof(caller->y)) != 0;
    }
    return NULL;
}

/* The same products at once from several threads, as the workers make them. */
static void several_callers(void)
{
    struct caller *callers = kr_alloc(4, sizeof(*callers));
    uint32_t seed = 1;

    CU_ASSERT_PTR_NOT_NULL_FATAL(callers);
    kr_product_init();
    for (size_t i = 0; i < N_OUT * N_IN; i++)
        weight[i] = noise(&seed);
    for (size_t i = 0; i < N_OUT; i++)
        bias[i] = noise(&seed);
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < KR_BLOCK_ROWS * N_IN; k++)
            callers[i].x[k] = noise(&seed);
        kr_product(&linear, callers[i].x, N_IN, callers[i].expected, N_OUT, KR_BLOCK_ROWS);
    }
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    for (size_t i = 0; i < 4; i++) {
        pthread_join(callers[i].thread, NULL);
        KT_CHECK(callers[i].n_wrong == 0, "caller %zu: %zu of %d products differ", i,
                 callers[i].n_wrong, ROUNDS);
    }
    free(callers);
}

/* Rows past n_rows are taken as zero, and a row's product is that of the row alone. */
static void part_of_a_block(void)
{
    _Alignas(KR_ALIGNMENT) static float x[KR_BLOCK_ROWS * N_IN], y[KR_BLOCK_ROWS * N_OUT],
        one[KR_BLOCK_ROWS * N_OUT];
    uint32_t seed = 2;

    for (size_t k = 0; k < KR_BLOCK_ROWS * N_IN; k++)
        x[k] = noise(&seed);
    kr_product(&linear, x, N_IN, y, N_OUT, KR_BLOCK_ROWS);
    for (size_t row = 1; row < KR_BLOCK_ROWS; row++)
        memcpy(x + row * N_IN, x, N_IN * sizeof(float));
    kr_product(&linear, x, N_IN, one, N_OUT, 1);
    CU_ASSERT_EQUAL(memcmp(one, y, N_OUT * sizeof(float)), 0);
    CU_ASSERT_EQUAL(x[N_IN], 0);
}

/* ---- every implementation ---- */

/* mini, small, base, their tokenizer, the built-in model, odd, and the edges of every tail. */
static const size_t shapes[][2] = {
    {256, 256}, {512, 256},  {256, 512},  {1024, 256}, {512, 512},  {1024, 512}, {512, 1024},
    {832, 832}, {2048, 832}, {832, 2048}, {832, 1664}, {1024, 832}, {256, 6},    {20, 256},
    {256, 20},  {6, 256},    {128, 128},  {256, 128},  {128, 256},  {64, 6},     {16, 64},
    {64, 16},   {192, 64},   {64, 192},   {6, 64},     {36, 36},    {50, 36},    {36, 50},
    {10, 36},   {36, 10},    {104, 208},  {104, 104},  {140, 104},  {104, 140},  {32, 104},
    {65, 33},   {47, 31},    {49, 1},     {2, 7},      {17, 4500},  {2, 40000},  {1, 1},
};
/* The rows of one test; others repeat them. */
#define DISTINCT 7
#define MOST     80

static const char *const names[] = {"openblas", "avx2", "avx512", "avx512_bf16", "amx_bf16"};
enum { NATIVE = 1, BF16 = 3 }; /* where they begin */

/* One matrix, its rows, and what a row's product is. */
struct work {
    size_t n_out, n_in;
    float *weight, *bias, *rows; /* rows [DISTINCT][n_in] */
    float *x, *y, *scratch;      /* [MOST][stride] */
    size_t x_stride, y_stride;
    struct kr_linear linear;
    void *packed;
};

static bool prepare(struct work *work, size_t shape, const char *name, bool biased)
{
    const struct kr_products *products = kr_products_named(name);
    uint32_t seed = (uint32_t)shape + 1;
    size_t n_out = shapes[shape][0], n_in = shapes[shape][1];

    if (!products)
        return false;
    *work = (struct work){.n_out = n_out, .n_in = n_in, .x_stride = n_in + 3};
    work->y_stride = n_out + 5;
    work->weight = kr_alloc(n_out * n_in, sizeof(float));
    work->bias = kr_alloc(n_out, sizeof(float));
    work->rows = kr_alloc(DISTINCT * n_in, sizeof(float));
    work->x = kr_alloc(MOST * work->x_stride, sizeof(float));
    work->y = kr_alloc(MOST * work->y_stride, sizeof(float));
    work->scratch = kr_alloc(MOST * work->y_stride, sizeof(float));
    for (size_t i = 0; i < n_out * n_in; i++)
        work->weight[i] = noise(&seed);
    for (size_t i = 0; i < n_out; i++)
        work->bias[i] = noise(&seed);
    for (size_t i = 0; i < DISTINCT * n_in; i++)
        work->rows[i] = noise(&seed);
    work->linear =
        (struct kr_linear){n_out, n_in, work->weight, biased ? work->bias : NULL, NULL, NULL};
    if (products->panel > 0) {
        work->packed = kr_alloc(1, kr_linear_packed_bytes(&work->linear, products));
        kr_linear_pack(&work->linear, products, work->weight, work->packed);
    }
    return true;
}

static void release(struct work *work)
{
    free(work->weight);
    free(work->bias);
    free(work->rows);
    free(work->x);
    free(work->y);
    free(work->scratch);
    free(work->packed);
}

/* Row r of the next product is distinct row (r + turn) % DISTINCT; NaN between and behind the rows, which
 * nobody may read or write. */
static void fill(struct work *work, size_t n, size_t turn)
{
    memset(work->x, 0xff, MOST * work->x_stride * sizeof(float));
    memset(work->y, 0xff, MOST * work->y_stride * sizeof(float));
    for (size_t r = 0; r < n; r++)
        memcpy(work->x + r * work->x_stride, work->rows + (r + turn) % DISTINCT * work->n_in,
               work->n_in * sizeof(float));
}

/* Rows of the last product that are not the expected ones [DISTINCT][n_out]; what lies between them, and,
 * but for OpenBLAS, behind them, must be untouched. */
static size_t wrong_rows(const struct work *work, const float *expected, size_t n, size_t turn)
{
    size_t wrong = 0, behind = work->packed ? MOST : n;

    for (size_t r = 0; r < n; r++)
        wrong +=
            memcmp(work->y + r * work->y_stride, expected + (r + turn) % DISTINCT * work->n_out,
                   work->n_out * sizeof(float)) != 0;
    for (size_t r = 0; r < behind; r++)
        for (size_t c = r < n ? work->n_out : 0; c < work->y_stride; c++) {
            uint32_t bits;

            memcpy(&bits, &work->y[r * work->y_stride + c], sizeof(bits));
            wrong += bits != UINT32_MAX;
        }
    return wrong;
}

static void product(struct work *work, size_t n)
{
    kr_product(&work->linear, work->x, work->x_stride, work->y, work->y_stride, n);
}

/* A row's product is the same bytes alone, at every position, and among any number of rows. */
static void pure(void)
{
    for (size_t i = 0; i < KR_ARRAY_LENGTH(names); i++) {
        size_t wrong = 0, n_products = 0;

        for (size_t s = 0; s < KR_ARRAY_LENGTH(shapes); s++) {
            bool large = shapes[s][0] * shapes[s][1] > 600000;
            struct work work;
            float *alone;

            if (!prepare(&work, s, names[i], s % 3 != 2))
                break;
            alone = kr_alloc(DISTINCT * work.n_out, sizeof(float));
            for (size_t r = 0; r < DISTINCT; r++) {
                fill(&work, 1, r);
                product(&work, 1);
                memcpy(alone + r * work.n_out, work.y, work.n_out * sizeof(float));
            }
            for (size_t n = 1; n <= MOST; n += large && n >= 20 ? 13 : 1) {
                size_t before = wrong;

                fill(&work, n, n);
                product(&work, n);
                wrong += wrong_rows(&work, alone, n, n);
                n_products++;
                KT_CHECK(wrong == before, "%s: %zu x %zu: %zu rows: a row differs", names[i],
                         work.n_out, work.n_in, n);
            }
            free(alone);
            release(&work);
        }
        if (n_products)
            kt_note("%s: %zu products of up to %d rows, %zu rows differ", names[i], n_products,
                    MOST, wrong);
        else
            kt_note("%s: not on this processor", names[i]);
    }
}

/* Native products are the chain that product.h promises, to the bit: every instruction set gives the same. */
static void chain(void)
{
    for (size_t i = NATIVE; i < BF16; i++)
        for (size_t s = 0; s < KR_ARRAY_LENGTH(shapes); s++) {
            struct work work;
            float *expected;

            if (!prepare(&work, s, names[i], s % 2 == 0))
                break;
            expected = kr_alloc(DISTINCT * work.n_out, sizeof(float));
            for (size_t r = 0; r < DISTINCT; r++)
                for (size_t out = 0; out < work.n_out; out++) {
                    float sum = work.linear.bias ? work.bias[out] : 0;

                    for (size_t in = 0; in < work.n_in; in++)
                        sum = fmaf(work.rows[r * work.n_in + in], work.weight[out * work.n_in + in],
                                   sum);
                    expected[r * work.n_out + out] = sum;
                }
            fill(&work, DISTINCT, 0);
            product(&work, DISTINCT);
            KT_CHECK(wrong_rows(&work, expected, DISTINCT, 0) == 0, "%s: %zu x %zu differs",
                     names[i], work.n_out, work.n_in);
            free(expected);
            release(&work);
        }
}

/* Against OpenBLAS, in units of the last place of sum |x w|, of which rounding may move sqrt(n_in). */
static void oracle(void)
{
    double most = 0;

    for (size_t i = NATIVE; i < BF16; i++)
        for (size_t s = 0; s < KR_ARRAY_LENGTH(shapes); s++) {
            struct work ours, theirs;

            if (!prepare(&ours, s, names[i], true))
                break;
            CU_ASSERT_FATAL(prepare(&theirs, s, "openblas", true));
            fill(&ours, DISTINCT, 0);
            fill(&theirs, DISTINCT, 0);
            product(&ours, DISTINCT);
            product(&theirs, DISTINCT);
            for (size_t r = 0; r < DISTINCT; r++)
                for (size_t out = 0; out < ours.n_out; out++) {
                    double size = fabs(ours.bias[out]);

                    for (size_t in = 0; in < ours.n_in; in++)
                        size += fabs((double)ours.rows[r * ours.n_in + in] *
                                     ours.weight[out * ours.n_in + in]);
                    most = fmax(most, fabs((double)ours.y[r * ours.y_stride + out] -
                                           theirs.y[r * theirs.y_stride + out]) /
                                          (size * 0x1p-24 * sqrt((double)ours.n_in + 1)));
                }
            release(&ours);
            release(&theirs);
        }
    kt_note("native against OpenBLAS: largest difference %.3f of sqrt(n_in) units", most);
    CU_ASSERT_TRUE(most < 2);
}

/* y += product is the product rounded, then the sum rounded; several at once are each alone. */
static void added_and_several(void)
{
    for (size_t i = 0; i < KR_ARRAY_LENGTH(names); i++)
        for (size_t s = 0; s < KR_ARRAY_LENGTH(shapes); s++) {
            static const size_t counts[] = {1, 5, 6, 13};
            struct work work;

            if (!prepare(&work, s, names[i], s % 2 == 0))
                break;
            for (size_t c = 0; c < KR_ARRAY_LENGTH(counts); c++) {
                size_t n = counts[c], n_floats = MOST * work.y_stride, wrong = 0;
                float *sum = kr_alloc(n_floats, sizeof(float));
                float *second = kr_alloc(n_floats, sizeof(float));
                uint32_t seed = (uint32_t)n;

                fill(&work, n, 0);
                for (size_t k = 0; k < n_floats; k++)
                    sum[k] = noise(&seed);
                memcpy(second, sum, n_floats * sizeof(float));
                product(&work, n);
                kr_product_add(&work.linear, work.x, work.x_stride, sum, work.y_stride,
                               work.scratch, n);
                for (size_t r = 0; r < n; r++)
                    for (size_t out = 0; out < work.y_stride; out++) {
                        size_t k = r * work.y_stride + out;
                        float expected = out < work.n_out ? second[k] + work.y[k] : second[k];

                        wrong += sum[k] != expected;
                    }
                kr_product_several((const struct kr_linear *const[]){&work.linear, &work.linear},
                                   (float *const[]){sum, second}, 2, work.x, work.x_stride,
                                   work.y_stride, n);
                for (size_t r = 0; r < n; r++) {
                    const float *y = work.y + r * work.y_stride;
                    size_t at = r * work.y_stride, bytes = work.n_out * sizeof(float);

                    wrong += memcmp(sum + at, y, bytes) != 0 || memcmp(second + at, y, bytes) != 0;
                }
                KT_CHECK(wrong == 0, "%s: %zu x %zu, %zu rows: %zu differ", names[i], work.n_out,
                         work.n_in, n, wrong);
                free(sum);
                free(second);
            }
            release(&work);
        }
}

/* Bits of the nearest bfloat16 by arithmetic in double, ties to even. */
static uint16_t nearest(float x)
{
    int exponent;
    double step;
    float rounded;
    uint32_t bits;

    if (x == 0)
        return 0;
    frexp(x, &exponent);
    step = ldexp(1, exponent - 8); /* 8 bits of it are kept */
    rounded = (float)(nearbyint(x / step) * step);
    memcpy(&bits, &rounded, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static double value_of(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* bf16 against exact products and sums of the rounded inputs: only the sums round. */
static void narrow(void)
{
    for (size_t i = BF16; i < KR_ARRAY_LENGTH(names); i++) {
        double most = 0, most_of_f32 = 0;

        for (size_t s = 0; s < KR_ARRAY_LENGTH(shapes); s++) {
            struct work work;

            if (!prepare(&work, s, names[i], s % 2 == 0)) {
                kt_note("%s: not on this processor", names[i]);
                break;
            }
            fill(&work, DISTINCT, 0);
            product(&work, DISTINCT);
            for (size_t r = 0; r < DISTINCT; r++)
                for (size_t out = 0; out < work.n_out; out++) {
                    double sum = work.linear.bias ? work.bias[out] : 0, size = fabs(sum);
                    double whole = sum, y = work.y[r * work.y_stride + out];

                    for (size_t in = 0; in < work.n_in; in++) {
                        float x = work.rows[r * work.n_in + in];
                        float w = work.weight[out * work.n_in + in];
                        double term = value_of(nearest(x)) * value_of(nearest(w));

                        sum += term;
                        size += fabs(term);
                        whole += (double)x * w;
                    }
                    size *= sqrt((double)work.n_in + 1);
                    most = fmax(most, fabs(y - sum) / (size * 0x1p-24));
                    most_of_f32 = fmax(most_of_f32, fabs(y - whole) / (size * 0x1p-24));
                }
            release(&work);
        }
        kt_note(
            "%s: largest difference %.3f of sqrt(n_in) units; %.0f to inputs that are not rounded",
            names[i], most, most_of_f32);
        CU_ASSERT_TRUE(most < 2);
        CU_ASSERT_TRUE(most == 0 || most_of_f32 > 100); /* they were rounded */
    }
}

static void rounding(void)
{
    static const float edges[] = {
        0,           1,          0x1.01p0f, 0x1.03p0f, 0x1.0100p1f, 0x1.010002p0f, 0x1.02fffep0f,
        0x1.fep127f, -0x1.01p0f, 0x1.ffp0f};
    uint32_t seed = 3;
    size_t wrong = 0;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(edges); i++)
        wrong += kr_bf16(edges[i]) != nearest(edges[i]);
    for (size_t i = 0; i < 100000; i++) {
        float x = noise(&seed) * ldexpf(1, (int)(i % 60) - 30);

        wrong += kr_bf16(x) != nearest(x);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

/* What was packed comes back, and padding is zero. */
static void packing(void)
{
    for (size_t i = NATIVE; i < KR_ARRAY_LENGTH(names); i++)
        for (size_t s = 0; s < KR_ARRAY_LENGTH(shapes); s++) {
            size_t bytes, item = i < BF16 ? sizeof(float) : sizeof(uint16_t), n_zeros = 0, n_items;
            struct work work;
            float *back;

            if (!prepare(&work, s, names[i], true))
                break;
            bytes = kr_linear_packed_bytes(&work.linear, work.linear.products);
            n_items = work.n_out * work.n_in;
            back = kr_alloc(n_items, sizeof(float));
            kr_linear_weights(&work.linear, back);
            for (size_t k = 0; i >= BF16 && k < n_items; k++)
                work.weight[k] = (float)value_of(nearest(work.weight[k]));
            CU_ASSERT_EQUAL(memcmp(back, work.weight, n_items * sizeof(float)), 0);
            for (size_t k = 0; k < bytes / item; k++)
                n_zeros += item == sizeof(float) ? ((const float *)work.packed)[k] == 0
                                                 : ((const uint16_t *)work.packed)[k] == 0;
            for (size_t k = 0; k < n_items; k++)
                n_zeros -= work.weight[k] == 0;
            CU_ASSERT_EQUAL(n_zeros, bytes / item - n_items);
            CU_ASSERT_PTR_NULL(work.linear.weight);
            free(back);
            release(&work);
        }
}

static void choices(void)
{
    const struct kr_products *products = NULL;
    struct kr_error error = {""};
    bool native = kr_products_named("avx2") || kr_products_named("avx512");

    CU_ASSERT_EQUAL(kr_products_choose(KR_MATMUL_OPENBLAS, KR_F32_PRODUCTS, &products, &error), 0);
    CU_ASSERT_STRING_EQUAL(products->name, "openblas");
    CU_ASSERT_EQUAL(kr_products_choose(KR_MATMUL_AUTO, KR_F32_PRODUCTS, &products, &error), 0);
    CU_ASSERT_EQUAL(products->panel > 0, native);
    CU_ASSERT_STRING_EQUAL(products->name, native ? kr_kernels()->name : "openblas");
    CU_ASSERT_EQUAL(kr_products_choose(KR_MATMUL_NATIVE, KR_F32_PRODUCTS, &products, &error),
                    native ? 0 : -ENOTSUP);
    CU_ASSERT_PTR_NULL(kr_products_named("mmx"));
    if (kr_products_named("avx512_bf16")) {
        CU_ASSERT_EQUAL(kr_products_choose(KR_MATMUL_AUTO, KR_BF16_PRODUCTS, &products, &error), 0);
        CU_ASSERT_EQUAL(products->precision, KR_BF16_PRODUCTS);
    } else {
        CU_ASSERT_EQUAL(kr_products_choose(KR_MATMUL_AUTO, KR_BF16_PRODUCTS, &products, &error),
                        -ENOTSUP);
        CU_ASSERT_STRING_EQUAL(error.text,
                               "precision: bf16, expected f32 on a processor without AVX512_BF16");
    }
    CU_ASSERT_EQUAL(kr_products_choose(KR_MATMUL_OPENBLAS, KR_BF16_PRODUCTS, &products, &error),
                    -ENOTSUP);
    CU_ASSERT_STRING_EQUAL(error.text, "precision: bf16, expected f32 with matmul = openblas");
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"several threads at once", several_callers},
        {"part of a block", part_of_a_block},
        {"row purity of every implementation", pure},
        {"native: one chain", chain},
        {"native against OpenBLAS", oracle},
        {"added, several", added_and_several},
        {"bf16 against the rounded inputs", narrow},
        {"rounding to bf16", rounding},
        {"packing", packing},
        {"choices", choices},
    };

    return kt_main("product", tests, KR_ARRAY_LENGTH(tests));
}
