/* SPDX-License-Identifier: MIT */
#include "core/draw.h"
#include "core/honest.h"
#include "tests/tap.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void exponents(void)
{
    static const struct {
        double spread;
        int exponent;
    } cases[] = {
        {1, 0},
        {2, -1},
        {0.5, 1},
        {0.25, 2},
        {1024, -10},
        {1e-5, 17},    /* log2 = -16.61 */
        {1e-3, 10},    /* -9.97 */
        {60000, -16},  /* 15.87 */
        {3, -2},       /* 1.585 */
        {1.414213, 0}, /* just below sqrt(2) */
        {1.414214, -1},
        {0.7071067, 1}, /* just below sqrt(1/2) */
        {0.7071068, 0},
        {FLT_MAX, -128},
        {FLT_TRUE_MIN, 149},
        {DBL_MAX, -1024},
        {DBL_TRUE_MIN, 1074},
        {0, 0},
        {-1, 0},
        {NAN, 0},
        {INFINITY, 0},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++)
        KT_CHECK(kr_scale_exponent(cases[i].spread) == cases[i].exponent, "%g: %d", cases[i].spread,
                 kr_scale_exponent(cases[i].spread));
}

static void unit_spread(void)
{
    for (uint32_t i = 0; i < 2000; i++) {
        double spread = exp2(120 * kr_draw(3, 0, i, 0, 0) - 60);
        double scaled = ldexp(spread, kr_scale_exponent(spread));

        KT_CHECK(scaled > M_SQRT1_2 && scaled <= M_SQRT2, "%g becomes %g", spread, scaled);
    }
}

static void groups(void)
{
    static const double std[KR_COLUMNS] = {1, 7, 5, 5, 4096, 0}; /* mean variance 25: spread 5 */
    static const double tiny[KR_COLUMNS] = {1e-5, 1e-5, 1e-5, 1e-5, NAN, 1e-30};
    static const double flat[KR_COLUMNS] = {0, 0, 0, 0, 0, INFINITY};
    int found[KR_COLUMNS];

    kr_scale_groups(std, found);
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        CU_ASSERT_EQUAL(found[c], -2);
    CU_ASSERT_EQUAL(found[KR_VOLUME], -12);
    CU_ASSERT_EQUAL(found[KR_AMOUNT], 0);
    kr_scale_groups(tiny, found);
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        CU_ASSERT_EQUAL(found[c], 17);
    CU_ASSERT_EQUAL(found[KR_VOLUME], 0);
    CU_ASSERT_EQUAL(found[KR_AMOUNT], 100);
    kr_scale_groups(flat, found);
    for (int c = 0; c < KR_COLUMNS; c++)
        CU_ASSERT_EQUAL(found[c], 0);
}

static void repairs(void)
{
    static const struct {
        float before[KR_COLUMNS], after[KR_COLUMNS];
        unsigned n;
    } cases[] = {
        /* open, high, low, close, volume, amount; last close 100 */
        {{100, 102, 99, 101, 5, 6}, {100, 102, 99, 101, 5, 6}, 0},
        {{100, 100, 100, 100, 0, 0}, {100, 100, 100, 100, 0, 0}, 0},
        {{100, 100.5f, 99, 101, 5, 6}, {100, 101, 99, 101, 5, 6}, 1},
        {{100, 102, 100.5f, 101, 5, 6}, {100, 102, 100, 101, 5, 6}, 1},
        {{100, 98, 103, 101, 5, 6}, {100, 103, 98, 101, 5, 6}, 2}, /* swapped */
        {{100, 102, 104, 101, 5, 6},
         {100, 102, 100, 101, 5, 6},
         1}, /* the high encloses: it stays */
        {{100, 102, 99, 101, -5, -0.001f}, {100, 102, 99, 101, 0, 0}, 2},
        {{1, 2, -1, 1, 0, 0}, {1, 2, 1e-4f, 1, 0, 0}, 1},
        {{-1, -1, -2, -3, 0, 0}, {1e-4f, 1e-4f, 1e-4f, 1e-4f, 0, 0}, 4},
        {{0, 5, 0, 3, 0, 0}, {1e-4f, 5, 1e-4f, 3, 0, 0}, 2},
        {{5, -1, -1, 3, 0, 0}, {5, 5, 1e-4f, 3, 0, 0}, 3}, /* floored, then made to enclose */
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        float v[KR_COLUMNS];

        memcpy(v, cases[i].before, sizeof(v));
        KT_CHECK(kr_repair(v, 1, 100) == cases[i].n, "case %zu: count", i);
        for (int c = 0; c < KR_COLUMNS; c++)
            KT_CHECK(v[c] == cases[i].after[c], "case %zu, %s: %g", i, kr_column_names[c],
                     (double)v[c]);
    }
}

static void repair_steps(void)
{
    float path[3 * KR_COLUMNS] = {1, 2, 1, 2, -1, 1, 1, 2, 1, 2, 1, 1, 3, 2, 1, 1, 1, -1};

    CU_ASSERT_EQUAL(kr_repair(path, 0, 1), 0);
    CU_ASSERT_EQUAL(kr_repair(path, 2, 1), 1);
    CU_ASSERT_EQUAL(path[KR_VOLUME], 0);
    CU_ASSERT_EQUAL(path[2 * KR_COLUMNS + KR_AMOUNT], -1);
    CU_ASSERT_EQUAL(kr_repair(path, 3, 1), 2);
    CU_ASSERT_EQUAL(path[2 * KR_COLUMNS + KR_HIGH], 3);
}

static void repair_tiny_price(void)
{
    float v[KR_COLUMNS] = {-1, -1, -1, 0, 0, 0};

    kr_repair(v, 1, 1e-44); /* the share itself is 0 in f32 */
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        CU_ASSERT_TRUE(v[c] > 0 && v[c] <= 1e-44f);
}

/* Repaired bars pass the check of real ones, and repairing twice changes nothing. */
static void repair_is_idempotent(void)
{
    float path[64 * KR_COLUMNS], once[64 * KR_COLUMNS];
    unsigned n = 0;

    for (uint32_t round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < 64 * KR_COLUMNS; i++)
            path[i] = (float)(floor(8 * kr_draw(round, 0, i, 0, 0)) - 2);
        n += kr_repair(path, 64, 3);
        memcpy(once, path, sizeof(once));
        CU_ASSERT_EQUAL(kr_repair(path, 64, 3), 0);
        CU_ASSERT_EQUAL(memcmp(once, path, sizeof(once)), 0);
        for (size_t i = 0; i < 64; i++) {
            double v[KR_COLUMNS];

            for (int c = 0; c < KR_COLUMNS; c++)
                v[c] = (double)path[i * KR_COLUMNS + (size_t)c];
            CU_ASSERT_EQUAL(kr_bar_check(v), KR_BAR_OK);
            CU_ASSERT_TRUE(v[KR_VOLUME] >= 0 && v[KR_AMOUNT] >= 0);
        }
    }
    CU_ASSERT_TRUE(n > 10000);
}

static void flat(void)
{
    struct kr_bar bars[3];

    for (size_t i = 0; i < 3; i++)
        bars[i] = (struct kr_bar){.v = {0.1, 0.1, 0.1, 0.1, (double)i, 7 - (double)i}};
    CU_ASSERT_TRUE(kr_flat(bars, 3));
    CU_ASSERT_TRUE(kr_flat(bars, 1));
    CU_ASSERT_FALSE(kr_flat(bars, 0));
    for (int c = KR_OPEN; c <= KR_CLOSE; c++) {
        bars[2].v[c] = 0.2;
        CU_ASSERT_FALSE(kr_flat(bars, 3));
        CU_ASSERT_TRUE(kr_flat(bars, 2));
        bars[2].v[c] = nextafter(0.1, 1); /* the model reads f32 */
        CU_ASSERT_TRUE(kr_flat(bars, 3));
        bars[2].v[c] = 0.1;
    }
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        bars[2].v[c] = 0.1001; /* each bar flat, at two prices */
    CU_ASSERT_FALSE(kr_flat(bars, 3));
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"power of two nearest 1/spread", exponents},
        {"unit spread", unit_spread},
        {"groups of columns", groups},
        {"repair of one bar", repairs},
        {"repair of several steps", repair_steps},
        {"prices stay positive at the smallest scale", repair_tiny_price},
        {"repair is idempotent and complete", repair_is_idempotent},
        {"flat windows", flat},
    };

    return kt_main("honest", tests, KR_ARRAY_LENGTH(tests));
}
