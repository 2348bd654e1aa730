/* SPDX-License-Identifier: MIT */
#include "core/product.h"
#include "tests/tap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A shape for which OpenBLAS takes its buffers, which the serial build shares between threads. */
#define N_OUT  32
#define N_IN   12
#define ROUNDS 400000

static float weight[N_OUT * N_IN], bias[N_OUT];
static const struct kr_linear linear = {N_OUT, N_IN, weight, bias};

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

int main(void)
{
    static const struct kt_test tests[] = {
        {"several threads at once", several_callers},
        {"part of a block", part_of_a_block},
    };

    return kt_main("product", tests, KR_ARRAY_LENGTH(tests));
}
