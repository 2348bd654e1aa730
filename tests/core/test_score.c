/* SPDX-License-Identifier: MIT */
#include "core/score.h"
#include "core/summary.h"
#include "tests/core/market.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>

#define CLOSE_TO(found, expected, tolerance)                                                       \
    KT_CHECK(fabs((found) - (expected)) <= (tolerance), "line %d: expected %.17g, found %.17g",    \
             __LINE__, (double)(expected), (double)(found))

/* The two expectations of the definition, over all pairs. */
static double crps_by_definition(const double *x, size_t m, double y, bool fair)
{
    double distance = 0, pairs = 0;

    for (size_t i = 0; i < m; i++) {
        distance += fabs(x[i] - y);
        for (size_t j = 0; j < m; j++)
            pairs += fabs(x[i] - x[j]);
    }
    return distance / (double)m - pairs / (2.0 * (double)m * (double)(fair ? m - 1 : m));
}

static void crps_of_ensembles(void)
{
    static const double x[6] = {-2, -0.5, 0.25, 0.25, 1, 4};
    static const double outcomes[5] = {-3, 0.25, 0.3, 1, 9};

    for (size_t m = 2; m <= 6; m++)
        for (size_t i = 0; i < KR_ARRAY_LENGTH(outcomes); i++) {
            double y = outcomes[i];

            CLOSE_TO(kr_crps(x, m, y, kr_crps_share(m, false)), crps_by_definition(x, m, y, true),
                     1e-15);
            CLOSE_TO(kr_crps(x, m, y, kr_crps_share(m, true)), crps_by_definition(x, m, y, false),
                     1e-15);
        }
    /* field-reports' form: (1/M) sum|x - y| + mean - (2 / (M (M - 1))) sum (i - 1) x_(i), by hand
     * */
    CLOSE_TO(kr_crps(x + 1, 3, 0, 1), 1.0 / 3 + 0 - (0.25 + 2 * 0.25) / 3, 1e-15);
    CU_ASSERT_EQUAL(kr_crps(x, 1, 3, 1), 5);
    CU_ASSERT_EQUAL(kr_crps(x, 1, 3, kr_crps_share(1, true)), 5);
}

/* Constant ensembles and ties give exact numbers, far from 0 too. */
static void crps_of_points(void)
{
    static const double x[5] = {7.3e5, 7.3e5, 7.3e5, 7.3e5, 7.3e5};

    CU_ASSERT_EQUAL(kr_crps(x, 5, 7.3e5, 1), 0);
    CU_ASSERT_EQUAL(kr_crps(x, 5, 7.3e5 + 2, 1), 2);
}

static void crps_of_normals(void)
{
    CLOSE_TO(kr_crps_normal(0, 1, 0.7), 0.42156917007346398, 1e-15);
    CLOSE_TO(kr_crps_normal(0, 1, 0), 0.23369497725510907, 1e-15);
    CLOSE_TO(kr_crps_normal(0.5, 2, -3), 2.4363160101638139, 1e-14);
    CLOSE_TO(kr_crps_normal(0, 0.01, 0.5), 0.49435810416452244, 1e-15);
    CU_ASSERT_EQUAL(kr_crps_normal(0, 0, -0.25), 0.25);
    CU_ASSERT_EQUAL(kr_crps_normal(0, 1e-320, 0.25), 0.25);
    CU_ASSERT_EQUAL(kr_crps_normal(0, 5e-324, 1e300), 1e300);
}

/* Many ensembles of four say what one of infinitely many would; the plain score does not. */
static void fair_is_unbiased(void)
{
    const size_t n = 100000;
    const double y = 0.7, expected = kr_crps_normal(0, 1, y);
    struct kt_random random = {.seed = 11};
    double fair = 0, squares = 0, plain = 0, error;

    for (size_t i = 0; i < n; i++) {
        double x[4], score;

        for (size_t j = 0; j < 4; j++)
            x[j] = kt_normal(&random);
        kr_sort(x, 4);
        score = kr_crps(x, 4, y, 1);
        fair += score;
        squares += score * score;
        plain += kr_crps(x, 4, y, kr_crps_share(4, true));
    }
    fair /= (double)n;
    plain /= (double)n;
    error = sqrt((squares / (double)n - fair * fair) / (double)n);
    kt_note("fair %.5f +- %.5f, plain %.5f, of the distribution %.5f", fair, error, plain,
            expected);
    CU_ASSERT(error < 0.002);
    CLOSE_TO(fair, expected, 3 * error);
    /* too large by E|X - X'| / (2 m) = 1 / (4 sqrt(pi)) */
    CLOSE_TO(plain - fair, 0.25 * M_2_SQRTPI / 2, 0.002);
}

static void pit(void)
{
    static const double x[4] = {1, 2, 2, 5};

    CU_ASSERT_EQUAL(kr_pit(x, 4, 0, 0), 0);
    CLOSE_TO(kr_pit(x, 4, 0, 0.5), 0.1, 1e-15);
    CLOSE_TO(kr_pit(x, 4, 1.5, 0.25), 0.25, 1e-15);
    CLOSE_TO(kr_pit(x, 4, 2, 0), 0.2, 1e-15); /* one below, two ties: 0.2 .. 0.8 */
    CLOSE_TO(kr_pit(x, 4, 2, 0.5), 0.5, 1e-15);
    CLOSE_TO(kr_pit(x, 4, 9, 0.5), 0.9, 1e-15);
}

/* Members and outcome from one distribution with many ties (a tick market): still uniform. */
static void pit_of_ties(void)
{
    struct kt_random random = {.seed = 5};
    uint64_t counts[KR_PIT_BINS] = {0};
    double p;

    for (size_t i = 0; i < 20000; i++) {
        double x[7], y = floor(3 * kt_uniform(&random));

        for (size_t j = 0; j < 7; j++)
            x[j] = floor(3 * kt_uniform(&random));
        kr_sort(x, 7);
        kr_pit_count(counts, kr_pit(x, 7, y, kt_uniform(&random)));
    }
    p = kr_uniform_p(counts, KR_PIT_BINS, NULL);
    KT_CHECK(p > 0.01, "p %g", p);
}

static void uniform_test(void)
{
    static const uint64_t even[10] = {50, 50, 50, 50, 50, 50, 50, 50, 50, 50};
    static const uint64_t uneven[10] = {60, 40, 50, 50, 55, 45, 50, 50, 50, 50};
    static const uint64_t none[10] = {0};
    uint64_t counts[KR_PIT_BINS] = {0};
    double statistic;

    CU_ASSERT_EQUAL(kr_uniform_p(even, 10, &statistic), 1);
    CU_ASSERT_EQUAL(statistic, 0);
    CLOSE_TO(kr_uniform_p(uneven, 10, &statistic), 0.83430826019340755, 1e-12);
    CLOSE_TO(statistic, 5, 1e-12);
    CU_ASSERT_EQUAL(kr_uniform_p(none, 10, NULL), 1);
    kr_pit_count(counts, 0);
    kr_pit_count(counts, 0.0999);
    kr_pit_count(counts, 0.1);
    kr_pit_count(counts, 0.95);
    kr_pit_count(counts, 1);
    CU_ASSERT_EQUAL(counts[0], 2);
    CU_ASSERT_EQUAL(counts[1], 1);
    CU_ASSERT_EQUAL(counts[9], 2);
}

static void quantile_scores(void)
{
    CLOSE_TO(kr_pinball(0.9, 1, 3), 1.8, 1e-15);
    CLOSE_TO(kr_pinball(0.9, 3, 1), 0.2, 1e-15);
    CU_ASSERT_EQUAL(kr_pinball(0.9, 3, 3), 0);
    CU_ASSERT_EQUAL(kr_interval_score(-1, 2, 0.1, 0), 3);
    CU_ASSERT_EQUAL(kr_interval_score(-1, 2, 0.1, 2), 3);
    CLOSE_TO(kr_interval_score(-1, 2, 0.1, 2.5), 13, 1e-12);
    CLOSE_TO(kr_interval_score(-1, 2, 0.1, -1.5), 13, 1e-12);
    /* the interval score is a sum of two pinball losses, over alpha / 2 */
    CLOSE_TO(kr_interval_score(-1, 2, 0.1, 2.5),
             (kr_pinball(0.05, -1, 2.5) + kr_pinball(0.95, 2, 2.5)) / 0.05, 1e-12);
}

static void walk(void)
{
    struct kr_random_walk walk = {0}, straight = {0};
    double a = log(1.02), b = log(0.99);

    CU_ASSERT_EQUAL(kr_random_walk_sigma(&walk), 0);
    kr_random_walk_push(&walk, 100);
    CU_ASSERT_EQUAL(kr_random_walk_sigma(&walk), 0);
    kr_random_walk_push(&walk, 102);
    CLOSE_TO(kr_random_walk_sigma(&walk), a, 1e-15);
    kr_random_walk_push(&walk, 102 * 0.99);
    CLOSE_TO(kr_random_walk_sigma(&walk), sqrt((0.97 * a * a + b * b) / 1.97), 1e-15);

    /* a revision is as if the first content had never been */
    kr_random_walk_push(&straight, 100);
    kr_random_walk_push(&straight, 102);
    kr_random_walk_push(&straight, 95);
    kr_random_walk_revise(&walk, 99);
    kr_random_walk_revise(&walk, 95);
    CU_ASSERT_EQUAL(kr_random_walk_sigma(&walk), kr_random_walk_sigma(&straight));
    kr_random_walk_push(&walk, 96);
    kr_random_walk_push(&straight, 96);
    CU_ASSERT_EQUAL(kr_random_walk_sigma(&walk), kr_random_walk_sigma(&straight));

    walk = (struct kr_random_walk){0};
    kr_random_walk_revise(&walk, 5);
    CU_ASSERT_EQUAL(walk.close, 5);
    CU_ASSERT_EQUAL(kr_random_walk_sigma(&walk), 0);
    kr_random_walk_revise(&walk, 6);
    kr_random_walk_push(&walk, 6);
    CU_ASSERT_EQUAL(kr_random_walk_sigma(&walk), 0);
    CU_ASSERT_EQUAL(walk.weight, 1);
}

/* In the long run the plain recursion sigma^2 <- 0.97 sigma^2 + 0.03 r^2. */
static void walk_is_an_ewma(void)
{
    struct kt_market market = kt_market();
    struct kt_random random = {.seed = 3};
    struct kr_random_walk made = {0};
    double variance = 0;

    kr_random_walk_push(&made, market.close);
    for (size_t i = 0; i < 1500; i++) {
        double before = market.close, r = log(kt_market_step(&market, &random) / before);

        kr_random_walk_push(&made, market.close);
        variance = i == 0 ? r * r : 0.97 * variance + 0.03 * r * r;
    }
    CLOSE_TO(kr_random_walk_sigma(&made) / sqrt(variance), 1, 1e-12);
}

static void comparison(void)
{
    static const double d[12] = {0.3, -0.1, 0.4, 0.2, -0.3, 0.5, 0.1, 0.0, 0.25, -0.05, 0.35, 0.15};
    static const double same[4] = {0.5, 0.5, 0.5, 0.5};
    struct kr_comparison made = {.p = 7};

    CU_ASSERT_EQUAL_FATAL(kr_compare(d, 12, 1, &made), 0);
    CLOSE_TO(made.mean, 0.15, 1e-15);
    CLOSE_TO(made.statistic, 2.243635065041716, 1e-12);
    CLOSE_TO(made.p, 0.046404751739801554, 1e-12);
    CU_ASSERT_EQUAL_FATAL(kr_compare(d, 12, 3, &made), 0);
    CLOSE_TO(made.statistic, 4.9295030175464944, 1e-12);
    CLOSE_TO(made.p, 0.00045002025786661411, 1e-12);

    made.p = 7;
    CU_ASSERT_EQUAL(kr_compare(d, 1, 1, &made), -EDOM);
    CU_ASSERT_EQUAL(kr_compare(d, 12, 12, &made), -EDOM);
    CU_ASSERT_EQUAL(kr_compare(same, 4, 1, &made), -EDOM);
    CU_ASSERT_EQUAL(made.p, 7);
}

/* Of differentials that overlap by four steps but mean nothing, about one in twenty may be
 * significant. */
static void comparison_size(void)
{
    struct kt_random random = {.seed = 17};
    size_t rejected = 0, naive = 0;

    for (size_t trial = 0; trial < 400; trial++) {
        double noise[304], d[300];
        struct kr_comparison made;

        for (size_t i = 0; i < 304; i++)
            noise[i] = kt_normal(&random);
        for (size_t i = 0; i < 300; i++)
            d[i] = noise[i] + noise[i + 1] + noise[i + 2] + noise[i + 3];
        CU_ASSERT_EQUAL_FATAL(kr_compare(d, 300, 4, &made), 0);
        rejected += made.p < 0.05;
        CU_ASSERT_EQUAL_FATAL(kr_compare(d, 300, 1, &made), 0);
        naive += made.p < 0.05;
    }
    kt_note("of 400 at 5 %%: %zu rejected, %zu without lags", rejected, naive);
    /* Bartlett weights leave some correlation out: nearer 0.1 than 0.05, far from the naive 0.3 */
    CU_ASSERT(rejected >= 10 && rejected <= 56);
    CU_ASSERT(naive > 90);
}

static void skill(void)
{
    CU_ASSERT_EQUAL(kr_skill(0.75, 1), 0.25);
    CU_ASSERT_EQUAL(kr_skill(2, 1), -1);
    CU_ASSERT_EQUAL(kr_skill(0, 0), 0);
    CU_ASSERT_EQUAL(kr_skill(3, 0), 0);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"CRPS of ensembles", crps_of_ensembles},
        {"CRPS of points", crps_of_points},
        {"CRPS of normals", crps_of_normals},
        {"fair CRPS is unbiased", fair_is_unbiased},
        {"PIT", pit},
        {"PIT with ties is uniform", pit_of_ties},
        {"test of uniformity", uniform_test},
        {"pinball and interval score", quantile_scores},
        {"random walk", walk},
        {"random walk is an EWMA", walk_is_an_ewma},
        {"Diebold-Mariano", comparison},
        {"Diebold-Mariano under overlap", comparison_size},
        {"skill", skill},
    };

    return kt_main("score", tests, KR_ARRAY_LENGTH(tests));
}
