/* SPDX-License-Identifier: MIT */
#include "core/draw.h"
#include "core/score.h"
#include "tests/tap.h"

#include <math.h>

/* The known answers published with Random123. */
static void known_answers(void)
{
    static const struct {
        uint32_t counter[4], key[2], words[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        uint32_t words[4];

        kr_philox(cases[i].counter, cases[i].key, words);
        for (size_t j = 0; j < 4; j++)
            KT_CHECK(words[j] == cases[i].words[j], "case %zu word %zu: %08x", i, j, words[j]);
    }
}

/* Figures of another implementation, written from rules.md: the order of the words is part of the
 * contract. */
static void addresses(void)
{
    static const struct {
        uint64_t seed;
        const char *interval, *symbol;
        uint64_t key;
        int64_t as_of;
        uint32_t path, step, head;
        double u;
    } cases[] = {
        {0, "1m", "X", 0xdc2d0efd681404f, 1700000000000000000, 0, 0, 0, 0x1.df2ea16860c4dp-1},
        {0, "1m", "X", 0xdc2d0efd681404f, 1700000000000000000, 3, 11, 1, 0x1.e30e6fecd0f8bp-1},
        {0, "1m", "X", 0xdc2d0efd681404f, -1, 0xffffffff, 23, 2, 0x1.d027abf88f866p-1},
        {7, "5m", "BTC/USDT", 0x760340a9b1943162, 1700000300000000000, 31, 0, 1,
         0x1.2e6bdcae41bc6p-2},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        uint64_t key = kr_draw_key(cases[i].seed, cases[i].interval, cases[i].symbol);
        double u = kr_draw(key, cases[i].as_of, cases[i].path, cases[i].step, cases[i].head);

        KT_CHECK(key == cases[i].key, "case %zu: key %llx", i, (unsigned long long)key);
        KT_CHECK(u == cases[i].u, "case %zu: %a", i, u);
    }
    CU_ASSERT_EQUAL(kr_draw_pit(0xdc2d0efd681404f, -1, 23), 0x1.d027abf88f866p-1);
    CU_ASSERT_EQUAL(kr_draw_key(0, "1m", "01234567890123456789012345678901"),
                    kr_fnv1a64("1m|01234567890123456789012345678901"));
}

static void range_and_spread(void)
{
    const size_t n = 20000;
    double sum = 0, squares = 0, low = 1, high = 0;

    for (size_t i = 0; i < n; i++) {
        double u = kr_draw(1, 60000000000 * (int64_t)(i / 100), i / 10 % 10, i / 2 % 5, i % 2);

        low = fmin(low, u);
        high = fmax(high, u);
        sum += u;
        squares += u * u;
    }
    CU_ASSERT(low >= 0 && low < 1e-3);
    CU_ASSERT(high < 1 && high > 1 - 1e-3);
    /* five standard errors of a uniform */
    CU_ASSERT_DOUBLE_EQUAL(sum / (double)n, 0.5, 5 * 0.2887 / sqrt((double)n));
    CU_ASSERT_DOUBLE_EQUAL(squares / (double)n, 1 / 3.0, 5 * 0.2981 / sqrt((double)n));
}

/* One path in each stratum; and each path's own uniforms are uniform, and independent from step to step. */
static void strata(void)
{
    enum { N = 24, ROUNDS = 4000, BINS = 12 };
    static double before[N];
    uint64_t counts[N][BINS] = {{0}};
    double product = 0, worst = 0;
    struct kr_rank ranks[N];

    for (uint32_t round = 0; round < ROUNDS; round++) {
        double u[N];
        unsigned seen = 0;

        kr_draw_strata(10, 60000000000 * (int64_t)(round / 4), round % 4, round & 1, N, ranks, u);
        for (size_t path = 0; path < N; path++) {
            CU_ASSERT_FATAL(u[path] >= 0 && u[path] < 1);
            seen |= 1u << (unsigned)(u[path] * N);
            counts[path][(size_t)(u[path] * BINS)]++;
            product += (u[path] - 0.5) * (before[path] - 0.5) * (round > 0);
            before[path] = u[path];
        }
        CU_ASSERT_EQUAL(seen, (1u << N) - 1);
    }
    for (size_t path = 0; path < N; path++) {
        double statistic;

        worst = fmax(worst, -log10(kr_uniform_p(counts[path], BINS, &statistic)));
    }
    kt_note("chi-square of %d paths: least p 1e-%.1f; correlation from step to step %+.4f", N,
            worst, 12 * product / (N * (ROUNDS - 1)));
    CU_ASSERT_TRUE(worst < 4); /* the least of 24 */
    CU_ASSERT_TRUE(fabs(12 * product / (N * (ROUNDS - 1))) < 4 / sqrt((double)N * ROUNDS));
}

/* Within its stratum a path is where it is without strata; one path alone is unchanged. */
static void strata_address(void)
{
    struct kr_rank ranks[5];
    double u[5];

    kr_draw_strata(3, 77, 2, 1, 5, ranks, u);
    for (uint32_t path = 0; path < 5; path++)
        CU_ASSERT_DOUBLE_EQUAL(5 * u[path] - floor(5 * u[path]), kr_draw(3, 77, path, 2, 1), 1e-12);
    kr_draw_strata(3, 77, 2, 1, 1, ranks, u);
    CU_ASSERT_EQUAL(u[0], kr_draw(3, 77, 0, 2, 1));
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"Philox known answers", known_answers}, {"addressed draws", addresses},
        {"range and spread", range_and_spread},  {"strata", strata},
        {"addresses of strata", strata_address},
    };

    return kt_main("draw", tests, KR_ARRAY_LENGTH(tests));
}
