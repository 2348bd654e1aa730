/* SPDX-License-Identifier: MIT */
#include "core/draw.h"
#include "core/honest.h"
#include "core/summary.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_LEVELS  7
#define MAX_STEPS 8
#define MAX_PATHS 2500

static const double levels[N_LEVELS] = {0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95};
static float paths[MAX_PATHS * MAX_STEPS * KR_COLUMNS];

#define CLOSE_TO(found, expected, tolerance)                                                       \
    KT_CHECK(fabs((found) - (expected)) <= (tolerance), "line %d: expected %.17g, found %.17g",    \
             __LINE__, (double)(expected), (double)(found))

static void open_summary(struct kr_summary *summary)
{
    CU_ASSERT_EQUAL_FATAL(kr_summary_init(summary, MAX_STEPS, MAX_PATHS, levels, N_LEVELS, NULL),
                          0);
}

/* Paths whose four prices are closes [n_paths][n_steps], volume is twice and amount three times as much. */
static void compute(struct kr_summary *summary, const float *closes, size_t n_paths, size_t n_steps,
                    double last_close)
{
    for (size_t i = 0; i < n_paths * n_steps; i++)
        for (size_t c = 0; c < KR_COLUMNS; c++)
            paths[i * KR_COLUMNS + c] = closes[i] * (c == KR_VOLUME   ? 2.0f
                                                     : c == KR_AMOUNT ? 3.0f
                                                                      : 1.0f);
    kr_summary_compute(summary, paths, n_paths, n_steps, last_close);
}

static void quantile_rule(void)
{
    static const double one[1] = {7}, three[3] = {1, 2, 4};
    bool tail = false;

    CU_ASSERT_EQUAL(kr_quantile(one, 1, 0.5, &tail), 7);
    CU_ASSERT_EQUAL(kr_quantile(three, 3, 0.25, &tail), 1);
    CU_ASSERT_EQUAL(kr_quantile(three, 3, 0.375, &tail), 1.5);
    CU_ASSERT_EQUAL(kr_quantile(three, 3, 0.5, &tail), 2);
    CU_ASSERT_EQUAL(kr_quantile(three, 3, 0.6875, &tail), 3.5); /* position 2.75 */
    CU_ASSERT_EQUAL(kr_quantile(three, 3, 0.75, &tail), 4);
    CU_ASSERT_FALSE(tail);
    CU_ASSERT_EQUAL(kr_quantile(three, 3, 0.2, &tail), 1);
    CU_ASSERT_TRUE(tail);
    tail = false;
    CU_ASSERT_EQUAL(kr_quantile(three, 3, 0.8, &tail), 4);
    CU_ASSERT_TRUE(tail);
    CU_ASSERT_EQUAL(kr_quantile(three, 3, 0.5, &tail), 2);
    CU_ASSERT_TRUE(tail); /* only ever set */
    tail = false;
    CU_ASSERT_EQUAL(kr_quantile(one, 1, 0.49, &tail), 7);
    CU_ASSERT_TRUE(tail);
    CU_ASSERT_EQUAL(kr_quantile(three, 3, 0.01, NULL), 1);
}

/* k / (m + 1) is the position of an order statistic, however it was rounded: never beyond the outermost. */
static void quantile_at_the_ends(void)
{
    static double x[2000];

    for (size_t m = 1; m <= 2000; m++) {
        bool tail = false;

        for (size_t i = 0; i < m; i++)
            x[i] = (double)i;
        CLOSE_TO(kr_quantile(x, m, 1.0 / (double)(m + 1), &tail), 0, 1e-9);
        CLOSE_TO(kr_quantile(x, m, (double)m / (double)(m + 1), &tail), (double)m - 1, 1e-9);
        CLOSE_TO(kr_quantile(x, m, 1 - 1.0 / (double)(m + 1), &tail), (double)m - 1, 1e-9);
        KT_CHECK(!tail, "m %zu", m);
    }
}

static void init(void)
{
    static const double falling[2] = {0.5, 0.4}, equal[2] = {0.5, 0.5}, zero[2] = {0, 0.5},
                        one[2] = {0.5, 1}, nan_level[2] = {0.1, NAN};
    static const double *const bad[] = {falling, equal, zero, one, nan_level};
    struct kr_summary summary = {.n_levels = 99};
    struct kr_error error;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(bad); i++) {
        error.text[0] = '\0';
        CU_ASSERT_EQUAL(kr_summary_init(&summary, 1, 1, bad[i], 2, &error), -EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "levels"));
    }
    CU_ASSERT_EQUAL(kr_summary_init(&summary, 0, 1, levels, 1, NULL), -EINVAL);
    CU_ASSERT_EQUAL(kr_summary_init(&summary, 1, 0, levels, 1, NULL), -EINVAL);
    CU_ASSERT_EQUAL(kr_summary_init(&summary, 1, 1, levels, 0, NULL), -EINVAL);
    CU_ASSERT_EQUAL(kr_summary_init(&summary, SIZE_MAX / 64, 1, levels, 1, &error), -ENOMEM);
    CU_ASSERT_EQUAL(kr_summary_init(&summary, 1, SIZE_MAX / 8, levels, 1, &error), -ENOMEM);
    CU_ASSERT_EQUAL(summary.n_levels, 99);

    /* 24 (7 (2 + 7) + 1) + 3 7 + 32 doubles, rounded up to a multiple of 64 bytes */
    CU_ASSERT_EQUAL(kr_summary_size_bytes(24, 32, 7), 12736);
    CU_ASSERT_EQUAL(kr_summary_size_bytes(SIZE_MAX / 8, 1, 1), 0);
    CU_ASSERT_EQUAL(kr_summary_size_bytes(1, 1, SIZE_MAX), 0);

    open_summary(&summary);
    CU_ASSERT_EQUAL(summary.n_steps, 0);
    CU_ASSERT_EQUAL(memcmp(summary.levels, levels, sizeof(levels)), 0);
    CU_ASSERT_EQUAL(summary.scratch + MAX_PATHS,
                    summary.levels + MAX_STEPS * 64 + 3 * N_LEVELS + MAX_PATHS);
    kr_summary_free(&summary);
    kr_summary_free(&summary);
    CU_ASSERT_EQUAL(summary.n_levels, 0);
}

static void one_path(void)
{
    static const float closes[2] = {110, 99};
    struct kr_summary summary;

    open_summary(&summary);
    compute(&summary, closes, 1, 2, 100);
    for (size_t step = 0; step < 2; step++) {
        CU_ASSERT_EQUAL(summary.columns[KR_OPEN].mean[step], (double)closes[step]);
        CU_ASSERT_EQUAL(summary.columns[KR_AMOUNT].mean[step], 3 * (double)closes[step]);
        CU_ASSERT_EQUAL(summary.columns[KR_CLOSE].std[step], 0);
        for (size_t i = 0; i < N_LEVELS; i++)
            CU_ASSERT_EQUAL(summary.columns[KR_CLOSE].q[i * 2 + step], (double)closes[step]);
    }
    CLOSE_TO(summary.ret.mean[0], log(1.1), 1e-15);
    CLOSE_TO(summary.ret.q[2 * 2 + 1], log(0.99), 1e-15);
    CU_ASSERT_EQUAL(summary.p_up[0], 0.75); /* (1 + 1/2) / 2 */
    CU_ASSERT_EQUAL(summary.p_up[1], 0.25);
    CLOSE_TO(summary.vol.mean, sqrt(log(1.1) * log(1.1) + log(0.9) * log(0.9)), 1e-15);
    CLOSE_TO(summary.mdd.mean, 0.1, 1e-15);
    for (size_t i = 0; i < KR_RISK_LEVELS; i++) {
        CLOSE_TO(summary.var[i], -log(0.99), 1e-15);
        CLOSE_TO(summary.es[i], -log(0.99), 1e-15);
    }
    CU_ASSERT_TRUE(summary.tail && summary.tail_risk);
    kr_summary_free(&summary);
}

static void two_paths(void)
{
    static const float closes[2] = {110, 90};
    static const double expected[N_LEVELS] = {90, 90, 90, 100, 110, 110, 110}; /* positions 3 tau */
    struct kr_summary summary;

    open_summary(&summary);
    compute(&summary, closes, 2, 1, 100);
    CU_ASSERT_EQUAL(summary.columns[KR_CLOSE].mean[0], 100);
    CU_ASSERT_EQUAL(summary.columns[KR_CLOSE].std[0], 10);
    CU_ASSERT_EQUAL(summary.columns[KR_VOLUME].mean[0], 200);
    CU_ASSERT_EQUAL(summary.columns[KR_VOLUME].std[0], 20);
    for (size_t i = 0; i < N_LEVELS; i++)
        CU_ASSERT_EQUAL(summary.columns[KR_CLOSE].q[i], expected[i]);
    CU_ASSERT_TRUE(summary.tail);
    CLOSE_TO(summary.ret.q[3], (log(1.1) + log(0.9)) / 2, 1e-15);
    CLOSE_TO(summary.ret.std[0], (log(1.1) - log(0.9)) / 2, 1e-15);
    CU_ASSERT_EQUAL(summary.p_up[0], 0.5);
    kr_summary_free(&summary);
}

static void three_paths(void)
{
    static const float closes[3] = {4, 1, 2};
    static const double expected[N_LEVELS] = {1, 1, 1, 2,
                                              4, 4, 4}; /* positions 4 tau: .2 .4 1 2 3 3.6 */
    static const double inside[3] = {0.25, 0.5, 0.75};
    struct kr_summary summary;

    open_summary(&summary);
    compute(&summary, closes, 3, 1, 4);
    for (size_t i = 0; i < N_LEVELS; i++)
        CU_ASSERT_EQUAL(summary.columns[KR_LOW].q[i], expected[i]);
    CLOSE_TO(summary.columns[KR_LOW].mean[0], 7 / 3.0, 1e-15);
    CLOSE_TO(summary.columns[KR_LOW].std[0], sqrt(14 / 9.0), 1e-15); /* 21/3 - 49/9 */
    CU_ASSERT_EQUAL(summary.p_up[0], 0.25);                          /* one tie: (1/2 + 1/2) / 4 */
    CU_ASSERT_TRUE(summary.tail);
    kr_summary_free(&summary);

    CU_ASSERT_EQUAL_FATAL(kr_summary_init(&summary, 1, 3, inside, 3, NULL), 0);
    compute(&summary, closes, 3, 1, 4);
    CU_ASSERT_EQUAL(summary.columns[KR_LOW].q[0], 1);
    CU_ASSERT_EQUAL(summary.columns[KR_LOW].q[2], 4);
    CU_ASSERT_FALSE(summary.tail);
    CU_ASSERT_TRUE(summary.tail_risk);
    kr_summary_free(&summary);
}

/* 1 .. 32 in a scrambled order: the quantile at tau is its position, 33 tau. */
static void thirty_two_paths(void)
{
    static const double expected[N_LEVELS] = {1.65, 3.3, 8.25, 16.5, 24.75, 29.7, 31.35};
    float closes[32];
    struct kr_summary summary;

    for (size_t i = 0; i < 32; i++)
        closes[i] = (float)(i * 13 % 32 + 1);
    open_summary(&summary);
    compute(&summary, closes, 32, 1, 8);
    for (size_t i = 0; i < N_LEVELS; i++)
        CLOSE_TO(summary.columns[KR_CLOSE].q[i], expected[i], 1e-13);
    CU_ASSERT_EQUAL(summary.columns[KR_CLOSE].mean[0], 16.5);
    CLOSE_TO(summary.columns[KR_CLOSE].std[0], sqrt((32 * 32 - 1) / 12.0), 1e-14);
    CU_ASSERT_FALSE(summary.tail);
    CU_ASSERT_EQUAL(summary.p_up[0], 25 / 33.0); /* 24 above, one tie: (24.5 + 0.5) / 33 */

    /* Returns are ln(i / 8). At 0.95: position 1.65; 1.6 paths beyond. At 0.99: 0.33; 0.32. */
    CLOSE_TO(summary.var[0], log(8) - 0.65 * log(2), 1e-14);
    CLOSE_TO(summary.es[0], log(8) - 0.6 * log(2) / 1.6, 1e-14);
    CLOSE_TO(summary.var[1], log(8), 1e-15);
    CLOSE_TO(summary.es[1], log(8), 1e-15);
    CU_ASSERT_TRUE(summary.tail_risk);
    kr_summary_free(&summary);
}

static void risk_of_many(void)
{
    static float closes[200];
    struct kr_summary summary;
    double x[11], worst = 0;

    for (size_t i = 0; i < 200; i++)
        closes[i] = (float)(200 + i * 77 % 200);
    for (size_t i = 0; i < 11; i++)
        x[i] = log((200 + (double)i) / 300);
    open_summary(&summary);
    compute(&summary, closes, 200, 1, 300);
    for (size_t i = 0; i < 10; i++)
        worst += x[i] / 10;
    /* positions 10.05 and 2.01; 10 and 2 paths beyond */
    CLOSE_TO(summary.var[0], -(x[9] + 0.05 * (x[10] - x[9])), 1e-13);
    CLOSE_TO(summary.es[0], -worst, 1e-13);
    CLOSE_TO(summary.var[1], -(x[1] + 0.01 * (x[2] - x[1])), 1e-13);
    CLOSE_TO(summary.es[1], -(x[0] + x[1]) / 2, 1e-13);
    CU_ASSERT_FALSE(summary.tail_risk);
    kr_summary_free(&summary);
}

/* The flag of var turns at 19 and 99 paths, for each level on its own. */
static void risk_beyond_the_extremes(void)
{
    static float closes[99];
    struct kr_summary summary;

    for (size_t i = 0; i < 99; i++)
        closes[i] = (float)(99 - i);
    open_summary(&summary);
    compute(&summary, closes, 98, 1, 1);
    CU_ASSERT_TRUE(summary.tail_risk);
    compute(&summary, closes, 99, 1, 1);
    CU_ASSERT_FALSE(summary.tail_risk);
    CLOSE_TO(summary.var[1], 0, 1e-12); /* the worst path, which closes at the last close */
    compute(&summary, closes, 18, 1, 1);
    CU_ASSERT_TRUE(summary.tail);
    compute(&summary, closes, 19, 1, 1);
    CU_ASSERT_FALSE(summary.tail);
    kr_summary_free(&summary);
}

static void constant_paths(void)
{
    float closes[32 * 3];
    struct kr_summary summary;

    for (size_t i = 0; i < 32 * 3; i++)
        closes[i] = 0.1f;
    open_summary(&summary);
    compute(&summary, closes, 32, 3, 0.1); /* 0.1 is no f32: a tie all the same */
    for (size_t step = 0; step < 3; step++) {
        CU_ASSERT_EQUAL(summary.columns[KR_CLOSE].mean[step], (double)0.1f);
        CU_ASSERT_EQUAL(summary.columns[KR_CLOSE].std[step], 0);
        CU_ASSERT_EQUAL(summary.p_up[step], 0.5);
        CLOSE_TO(summary.ret.mean[step], 1.49e-8, 1e-10);
    }
    CLOSE_TO(summary.vol.mean, 1.49e-8, 1e-10);
    CU_ASSERT_EQUAL(summary.mdd.mean, 0);

    for (size_t i = 0; i < 32 * 3; i++)
        closes[i] = 0.7f;
    compute(&summary, closes, 32, 3, 0.7); /* f32 lies below, where 0.1 lies above */
    CU_ASSERT_EQUAL(summary.p_up[2], 0.5);

    for (size_t i = 0; i < 32 * 3; i++)
        closes[i] = 0.25f;
    compute(&summary, closes, 32, 3, 0.25);
    CU_ASSERT_EQUAL(summary.vol.mean, 0);
    for (size_t i = 0; i < N_LEVELS; i++)
        CU_ASSERT_EQUAL(summary.mdd.q[i], 0);
    for (size_t i = 0; i < KR_RISK_LEVELS; i++) {
        CU_ASSERT_TRUE(summary.var[i] == 0 && !signbit(summary.var[i]));
        CU_ASSERT_TRUE(summary.es[i] == 0 && !signbit(summary.es[i]));
    }
    kr_summary_free(&summary);
}

static void ties_count_half(void)
{
    static const float closes[4] = {101, 100, 103, 99};
    static const float all_up[4] = {101, 101, 101, 101}, all_down[4] = {99, 99, 99, 99};
    struct kr_summary summary;

    open_summary(&summary);
    compute(&summary, closes, 4, 1, 100);
    CU_ASSERT_EQUAL(summary.p_up[0], 3 / 5.0); /* 2 above, one tie: (2.5 + 0.5) / 5 */
    compute(&summary, all_up, 4, 1, 100);
    CU_ASSERT_EQUAL(summary.p_up[0], 4.5 / 5); /* never certain */
    compute(&summary, all_down, 4, 1, 100);
    CU_ASSERT_EQUAL(summary.p_up[0], 0.5 / 5);
    kr_summary_free(&summary);
}

static void drawdown(void)
{
    static const float closes[4 * 4] = {
        120, 90,  130, 104, /* 1 - 90/120 = 0.25 beats 1 - 104/130 = 0.2 */
        80,  90,  100, 95,  /* from the last close on: 0.2 */
        101, 102, 102, 103, /* only up: 0 */
        90,  80,  200, 100, /* 0.5 */
    };
    /* sorted 0 .2 .25 .5; positions 5 tau: .25 .5 1.25 2.5 3.75 4.5 4.75 */
    static const double expected[N_LEVELS] = {0, 0, 0.05, 0.225, 0.4375, 0.5, 0.5};
    struct kr_summary summary;

    open_summary(&summary);
    compute(&summary, closes, 4, 4, 100);
    CLOSE_TO(summary.mdd.mean, 0.2375, 1e-15);
    for (size_t i = 0; i < N_LEVELS; i++)
        CLOSE_TO(summary.mdd.q[i], expected[i], 1e-15);
    kr_summary_free(&summary);
}

static void volatility(void)
{
    /* Log-returns 0.03, -0.04 and 0.12, 0.05: volatilities 0.05 and 0.13. */
    float closes[4] = {(float)(100 * exp(0.03)), (float)(100 * exp(-0.01)),
                       (float)(100 * exp(0.12)), (float)(100 * exp(0.17))};
    struct kr_summary summary;

    open_summary(&summary);
    compute(&summary, closes, 2, 2, 100);
    CLOSE_TO(summary.vol.mean, 0.09, 1e-7);
    CLOSE_TO(summary.vol.q[0], 0.05, 1e-7);
    CLOSE_TO(summary.vol.q[3], 0.09, 1e-7);
    CLOSE_TO(summary.vol.q[6], 0.13, 1e-7);
    kr_summary_free(&summary);
}

static void close_not_positive(void)
{
    static const float closes[2 * 2] = {-5, 100, 0, 1e-7f};
    double fall = log(KR_PRICE_FLOOR);
    struct kr_summary summary;

    open_summary(&summary);
    compute(&summary, closes, 2, 2, 100);
    CU_ASSERT_EQUAL(summary.columns[KR_CLOSE].mean[0], -2.5); /* the bars themselves as they are */
    CLOSE_TO(summary.ret.mean[0], fall, 1e-12);
    CLOSE_TO(summary.ret.std[0], 0, 1e-12);
    CLOSE_TO(summary.ret.mean[1], fall / 2, 1e-12);
    CU_ASSERT_EQUAL(summary.p_up[0], 0.5 / 3);
    CLOSE_TO(summary.vol.q[0], -fall, 1e-12);             /* down and no further */
    CLOSE_TO(summary.vol.q[6], -fall * sqrt(2.0), 1e-12); /* down and up again */
    CLOSE_TO(summary.mdd.mean, 1 - KR_PRICE_FLOOR, 1e-15);
    CLOSE_TO(summary.es[0], -fall, 1e-12);
    kr_summary_free(&summary);
}

/* Each column, step and path goes where it belongs, and a second, smaller run leaves nothing behind. */
static void layout(void)
{
    static float raw[3 * 4 * KR_COLUMNS];
    struct kr_summary summary;
    double *q;

    open_summary(&summary);
    q = summary.columns[KR_AMOUNT].q;
    for (size_t path = 0; path < 3; path++)
        for (size_t step = 0; step < 4; step++)
            for (size_t c = 0; c < KR_COLUMNS; c++)
                raw[(path * 4 + step) * KR_COLUMNS + c] =
                    (float)(1000 * (c + 1) + 10 * step + path + 1);
    kr_summary_compute(&summary, raw, 3, 4, 4000);
    CU_ASSERT_EQUAL(summary.n_paths, 3);
    CU_ASSERT_EQUAL(summary.n_steps, 4);
    for (size_t c = 0; c < KR_COLUMNS; c++)
        for (size_t step = 0; step < 4; step++) {
            double middle = (double)(1000 * (c + 1) + 10 * step + 2);

            CU_ASSERT_EQUAL(summary.columns[c].mean[step], middle);
            CU_ASSERT_EQUAL(summary.columns[c].q[3 * 4 + step], middle);
            CU_ASSERT_EQUAL(summary.columns[c].q[2 * 4 + step], middle - 1);
            CU_ASSERT_EQUAL(summary.columns[c].q[6 * 4 + step], middle + 1);
        }
    kr_summary_compute(&summary, raw, 2, 2, 4000); /* the first path's four rows as two paths */
    CU_ASSERT_EQUAL(summary.n_steps, 2);
    CU_ASSERT_EQUAL(summary.columns[KR_AMOUNT].q, q);
    CU_ASSERT_EQUAL(q[3 * 2 + 0], 6011);
    CU_ASSERT_EQUAL(q[3 * 2 + 1], 6021);
    kr_summary_free(&summary);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Against the C library's sort, for sizes on both sides of the sort's gaps. */
static void many_paths(void)
{
    static const size_t sizes[] = {4, 5, 10, 11, 57, 58, 133, 500, 1751, MAX_PATHS};
    static float closes[MAX_PATHS];
    static double sorted[MAX_PATHS];
    struct kr_summary summary;

    open_summary(&summary);
    for (size_t s = 0; s < KR_ARRAY_LENGTH(sizes); s++) {
        size_t n = sizes[s];

        for (size_t i = 0; i < n; i++) {
            double u = kr_draw(5, 0, (uint32_t)s, (uint32_t)i, 0);

            closes[i] = (float)(s & 1 ? floor(20 * u) - 3 : 100 * u); /* with and without ties */
            sorted[i] = (double)closes[i];
        }
        qsort(sorted, n, sizeof(double), compare);
        compute(&summary, closes, n, 1, 50);
        for (size_t i = 0; i < N_LEVELS; i++)
            KT_CHECK(summary.columns[KR_HIGH].q[i] == kr_quantile(sorted, n, levels[i], NULL),
                     "%zu paths, level %g", n, levels[i]);
    }
    kr_summary_free(&summary);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"quantile rule", quantile_rule},
        {"quantiles at the outermost order statistics", quantile_at_the_ends},
        {"initialisation", init},
        {"one path", one_path},
        {"two paths", two_paths},
        {"three paths", three_paths},
        {"thirty-two paths", thirty_two_paths},
        {"value at risk and shortfall of 200 paths", risk_of_many},
        {"levels beyond the extremes", risk_beyond_the_extremes},
        {"constant paths", constant_paths},
        {"ties count half", ties_count_half},
        {"maximum drawdown", drawdown},
        {"realised volatility", volatility},
        {"closes at or below zero", close_not_positive},
        {"layout", layout},
        {"sorting", many_paths},
    };

    return kt_main("summary", tests, KR_ARRAY_LENGTH(tests));
}
