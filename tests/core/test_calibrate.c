/* SPDX-License-Identifier: MIT */
/* Forecasters that are wrong in a known way, in units of sigma sqrt(h): what becomes true is
 * Gaussian (or Student's t) with deviation 1, what is forecast is `spread` times as wide and
 * `shift` off. */
#include "core/calibrate.h"
#include "core/score.h"
#include "core/summary.h"
#include "tests/core/market.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define N_LEVELS    7
#define MAX_MEMBERS 64
#define SIGMA       0.01

static const double levels[N_LEVELS] = {0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95};

#define CLOSE_TO(found, expected, tolerance)                                                       \
    KT_CHECK(fabs((found) - (expected)) <= (tolerance), "line %d: expected %.17g, found %.17g",    \
             __LINE__, (double)(expected), (double)(found))

static void open_calibrator(struct kr_calibrator *calibrator, size_t n_steps,
                            const struct kr_prior *prior)
{
    CU_ASSERT_EQUAL_FATAL(kr_calibrator_init(calibrator, n_steps, levels, N_LEVELS, prior, 1, NULL),
                          0);
}

/* Sorted members centre + deviation N(0, 1) in u of the step. */
static struct kr_ensemble draw(struct kt_random *random, double *members, size_t m, size_t step,
                               double centre, double deviation)
{
    double u = SIGMA * sqrt((double)(step + 1));

    for (size_t i = 0; i < m; i++)
        members[i] = u * (centre + deviation * kt_normal(random));
    kr_sort(members, m);
    return (struct kr_ensemble){.step = step, .sorted = members, .m = m, .sigma = SIGMA};
}

static void expect_rising(const double *q)
{
    for (size_t l = 1; l < N_LEVELS; l++)
        CU_ASSERT(q[l - 1] <= q[l]);
}

/* One horizon, independent origins. */
struct forecaster {
    double spread, shift;
    double knowledge; /* deviation of a drift that is really there, and foreseen */
    double freedom;   /* of what becomes true; 0: Gaussian */
    double truth;     /* its deviation */
    size_t m;
};

static const struct forecaster perfect = {.spread = 1, .truth = 1, .m = 32};

struct tally {
    size_t n, inside; /* of the 90 % band */
};

static void one_origin(struct kr_calibrator *calibrator, struct kt_random *random,
                       const struct forecaster *who, int64_t row, struct tally *tally)
{
    double members[MAX_MEMBERS], q[N_LEVELS], drift, y;
    struct kr_ensemble ensemble;
    struct kr_map map;

    drift = who->knowledge > 0 ? who->knowledge * kt_normal(random) : 0;
    ensemble = draw(random, members, who->m, 0, drift + who->shift, who->spread * who->truth);
    y = SIGMA * (drift + who->truth * (who->freedom > 0 ? kt_student(random, who->freedom)
                                                        : kt_normal(random)));
    kr_calibrate(calibrator, &ensemble, &map, q);
    expect_rising(q);
    tally->n++;
    tally->inside += y >= q[0] && y <= q[N_LEVELS - 1];
    CU_ASSERT_TRUE(kr_calibrator_learn(calibrator, &ensemble, y, q, row, row + 1));
    kr_calibrator_settle(calibrator);
}

static struct tally origins(struct kr_calibrator *calibrator, struct kt_random *random,
                            const struct forecaster *who, int64_t from, int64_t to)
{
    struct tally tally = {0};

    for (int64_t row = from; row < to; row++)
        one_origin(calibrator, random, who, row, &tally);
    return tally;
}

/* Before anything has been learned an identity prior changes nothing, to the last bit. */
static void begins_as_identity(void)
{
    struct kt_random random = {.seed = 1};
    struct kr_calibrator calibrator;
    double members[32], q[N_LEVELS];

    open_calibrator(&calibrator, 24, NULL);
    for (size_t step = 0; step < 24; step++) {
        struct kr_ensemble ensemble = draw(&random, members, 32, step, 0.3, 1.2);
        struct kr_map map;

        kr_calibrate(&calibrator, &ensemble, &map, q);
        CU_ASSERT_EQUAL(map.shift, 0);
        CU_ASSERT_EQUAL(map.slope, 1);
        CU_ASSERT_EQUAL(map.share, 1);
        for (size_t l = 0; l < N_LEVELS; l++)
            CU_ASSERT_EQUAL(q[l], kr_quantile(members, 32, levels[l], NULL));
        CU_ASSERT_EQUAL(kr_map_crps(&map, members, 32, 0.001), kr_crps(members, 32, 0.001, 1));
        ensemble.stratified = true;
        kr_calibrate(&calibrator, &ensemble, &map, q);
        CU_ASSERT_EQUAL(map.slope, 1);
        CU_ASSERT_EQUAL(map.share, 31.0 / 32);
    }
    kr_calibrator_free(&calibrator);
}

static const struct kr_prior wrong_prior = {
    .scale = {0.8, 0.8, 0.8, 0.8},
    .shift = {0.1, 0.1, 0.1, 0.1},
    .follow = {0, 0, 0, 0},
    .scale_weight = 6,
    .shift_weight = 400,
    .follow_weight = 2,
};

/* Mapped ensembles of eight, their drift taken out, score what the mapped distribution would:
 * N(0.1, 0.8). The naive score of centred members, which takes them for independent draws, claims
 * too much. */
static void mapped_crps_is_unbiased(void)
{
    const size_t n = 60000, m = 8;
    const double y = 0.5, expected = kr_crps_normal(0.1, 0.8, y);
    struct kt_random random = {.seed = 2};
    struct kr_calibrator calibrator;
    double sum = 0, squares = 0, naive = 0, error;

    open_calibrator(&calibrator, 1, &wrong_prior);
    for (size_t i = 0; i < n; i++) {
        double members[8], q[N_LEVELS], mean = 0, score;
        struct kr_ensemble ensemble = draw(&random, members, m, 0, 0.7, 1);
        struct kr_map map;

        kr_calibrate(&calibrator, &ensemble, &map, q);
        score = kr_map_crps(&map, members, m, SIGMA * y) / SIGMA;
        sum += score;
        squares += score * score;
        for (size_t j = 0; j < m; j++)
            mean += members[j] / (double)m;
        for (size_t j = 0; j < m; j++)
            members[j] = 0.1 + 0.8 * (members[j] - mean) / SIGMA;
        naive += kr_crps(members, m, y, 1) / (double)n;
    }
    sum /= (double)n;
    error = sqrt((squares / (double)n - sum * sum) / (double)n);
    kt_note("mapped %.5f +- %.5f, naive %.5f, of the distribution %.5f", sum, error, naive,
            expected);
    CU_ASSERT(error < 0.001);
    CLOSE_TO(sum, expected, 3 * error);
    CU_ASSERT(naive < expected - 10 * error);
    kr_calibrator_free(&calibrator);
}

/* A perfect forecaster is left alone, but the noise of its mean is not followed. */
static void perfect_stays(void)
{
    struct kt_random random = {.seed = 3};
    struct kr_calibrator calibrator;
    struct tally tally;

    open_calibrator(&calibrator, 1, NULL);
    tally = origins(&calibrator, &random, &perfect, 0, 2000);
    kt_note("scale %.3f shift %.3f follow %.3f cover %.3f", calibrator.estimate[0].scale,
            calibrator.estimate[0].shift, calibrator.estimate[0].follow,
            (double)tally.inside / (double)tally.n);
    CLOSE_TO(calibrator.estimate[0].scale, 1, 0.15);
    CLOSE_TO(calibrator.estimate[0].shift, 0, 0.06);
    CU_ASSERT(calibrator.estimate[0].follow < 0.4);
    CLOSE_TO((double)tally.inside / (double)tally.n, 0.9, 3 * sqrt(0.09 / 2000));
    CU_ASSERT_EQUAL(calibrator.horizon[0].n, 2000);
    CU_ASSERT_EQUAL(calibrator.horizon[0].weight, 2000);
    kr_calibrator_free(&calibrator);
}

/* Drift that comes true earns its weight; of a mean over 32 members at most 1 / (1 + 1 / (32
 * 0.5^2)). */
static void drift_earns_its_weight(void)
{
    struct forecaster knows = perfect;
    struct kr_prior doubtful = kr_prior_identity;
    struct kt_random random = {.seed = 4};
    struct kr_calibrator calibrator;

    knows.knowledge = 0.5;
    for (size_t i = 0; i < KR_PRIOR_KNOTS; i++)
        doubtful.follow[i] = 0;
    open_calibrator(&calibrator, 1, &doubtful);
    CU_ASSERT_EQUAL(calibrator.estimate[0].follow, 0);
    origins(&calibrator, &random, &knows, 0, 400);
    KT_CHECK(calibrator.estimate[0].follow > 0.65 && calibrator.estimate[0].follow <= 1,
             "follow %g", calibrator.estimate[0].follow);
    kr_calibrator_free(&calibrator);
}

/* What comes true lies off a centred forecast: a little may be chance and is doubted, much is not. */
static void shift_is_doubted(void)
{
    static const double offs[2] = {0.1, 0.7};
    double shift[2] = {0};

    for (size_t i = 0; i < 2; i++)
        for (uint64_t stream = 0; stream < 10; stream++) {
            struct kt_random random = {.seed = 200 + stream};
            struct kr_calibrator calibrator;
            double members[32], q[N_LEVELS];

            open_calibrator(&calibrator, 1, NULL);
            for (int64_t row = 0; row < 100; row++) {
                struct kr_ensemble ensemble = draw(&random, members, 32, 0, 0, 1);
                struct kr_map map;

                kr_calibrate(&calibrator, &ensemble, &map, q);
                kr_calibrator_learn(&calibrator, &ensemble, SIGMA * (offs[i] + kt_normal(&random)),
                                    q, row, row + 1);
                kr_calibrator_settle(&calibrator);
            }
            shift[i] += calibrator.estimate[0].shift / 10;
            kr_calibrator_free(&calibrator);
        }
    kt_note("after 100 origins: %.3f of 0.1, %.3f of 0.7", shift[0], shift[1]);
    CU_ASSERT(shift[0] > 0 && shift[0] < 0.05);
    CU_ASSERT(shift[1] > 0.3 && shift[1] < 0.7);
}

/* Two passes do what the definition says with all pairs of horizons. */
static void pooling(void)
{
    struct kt_random random = {.seed = 5};
    struct kr_calibrator calibrator;

    open_calibrator(&calibrator, 24, NULL);
    for (size_t step = 0; step < 24; step++)
        for (size_t i = 0; i < KR_SUMS; i++)
            calibrator.horizon[step].sum[i] = kt_uniform(&random);
    kr_calibrator_settle(&calibrator);
    for (size_t step = 0; step < 24; step++)
        for (size_t i = 0; i < KR_SUMS; i++) {
            double sum = 0, norm = 0;

            for (size_t other = 0; other < 24; other++) {
                double ratio =
                    (double)(KR_MIN(step, other) + 1) / (double)(KR_MAX(step, other) + 1);

                sum += ratio * ratio * ratio * calibrator.horizon[other].sum[i];
                norm += ratio * ratio * ratio;
            }
            CLOSE_TO(calibrator.pooled[step][i], sum / norm, 1e-14);
        }
    kr_calibrator_free(&calibrator);
}

/* Estimates after few origins, averaged over streams. */
static void learns_quickly(void)
{
    static const double spreads[2] = {1.5, 0.6};

    for (size_t i = 0; i < 2; i++) {
        struct forecaster who = perfect;
        double scale = 0;

        who.spread = spreads[i];
        for (uint64_t stream = 0; stream < 20; stream++) {
            struct kt_random random = {.seed = 100 + stream};
            struct kr_calibrator calibrator;

            open_calibrator(&calibrator, 1, NULL);
            origins(&calibrator, &random, &who, 0, 50);
            scale += calibrator.estimate[0].scale / 20;
            kr_calibrator_free(&calibrator);
        }
        kt_note("spread %.1f: scale %.3f after 50 origins", spreads[i], scale);
        CLOSE_TO(scale * spreads[i], 1, 0.1);
    }
}

/* Whatever is wrong, the 90 % band is right from the 50th origin on, over 40 streams; and for
 * single streams over a thousand origins from the 100th. */
static void recovers(void)
{
    static const struct forecaster cases[] = {
        {.spread = 1.5, .truth = 1, .m = 32},
        {.spread = 0.6, .truth = 1, .m = 32},
        {.spread = 1, .shift = 0.5, .truth = 1, .m = 32},
        {.spread = 1.5, .shift = -1, .truth = 1, .m = 32},
        {.spread = 0.6, .shift = 0.3, .truth = 1, .freedom = 3, .m = 32},
        {.spread = 1.2, .truth = 1.5, .freedom = 4, .m = 64},
        {.spread = 2, .truth = 0.4, .m = 20},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct tally early = {0};
        double worst = 0;

        for (uint64_t stream = 0; stream < 40; stream++) {
            struct kt_random random = {.seed = 1000 * i + stream};
            struct kr_calibrator calibrator;
            struct tally tally;

            open_calibrator(&calibrator, 1, NULL);
            origins(&calibrator, &random, &cases[i], 0, 50);
            tally = origins(&calibrator, &random, &cases[i], 50, 100);
            early.n += tally.n;
            early.inside += tally.inside;
            if (stream < 4) {
                tally = origins(&calibrator, &random, &cases[i], 100, 1100);
                worst = fmax(worst, fabs((double)tally.inside / (double)tally.n - 0.9));
            }
            kr_calibrator_free(&calibrator);
        }
        KT_CHECK(fabs((double)early.inside / (double)early.n - 0.9) <= 0.03,
                 "case %zu: origins 50 to 100 cover %.3f", i,
                 (double)early.inside / (double)early.n);
        KT_CHECK(worst <= 0.03, "case %zu: off by up to %.3f behind origin 100", i, worst);
        kt_note("case %zu: origins 50 to 100 cover %.3f, behind 100 off by up to %.3f", i,
                (double)early.inside / (double)early.n, worst);
    }
}

/* All seven levels, not only the outermost, and of a shape that location and scale cannot mend. */
static void every_level(void)
{
    struct forecaster who = {.spread = 1.3, .shift = 0.2, .truth = 1, .freedom = 3, .m = 32};
    struct kt_random random = {.seed = 8};
    struct kr_calibrator calibrator;
    size_t below[N_LEVELS] = {0};
    const int64_t n = 4000;

    open_calibrator(&calibrator, 1, NULL);
    origins(&calibrator, &random, &who, 0, 200);
    for (int64_t row = 200; row < 200 + n; row++) {
        double members[32], q[N_LEVELS], y = SIGMA * kt_student(&random, 3);
        struct kr_ensemble ensemble = draw(&random, members, 32, 0, 0.2, 1.3);
        struct kr_map map;

        kr_calibrate(&calibrator, &ensemble, &map, q);
        for (size_t l = 0; l < N_LEVELS; l++)
            below[l] += y < q[l];
        kr_calibrator_learn(&calibrator, &ensemble, y, q, row, row + 1);
        kr_calibrator_settle(&calibrator);
    }
    for (size_t l = 0; l < N_LEVELS; l++)
        CLOSE_TO((double)below[l] / (double)n, levels[l],
                 0.005 + 3 * sqrt(levels[l] * (1 - levels[l]) / (double)n));
    kr_calibrator_free(&calibrator);
}

/* The market doubles or halves its spread and the forecaster does not notice. */
static void regime_change(void)
{
    static const double factors[2] = {2, 0.5};

    for (size_t i = 0; i < 2; i++) {
        struct forecaster after = perfect;
        struct tally at_once = {0}, later = {0};

        after.truth = factors[i];
        after.spread = 1 / factors[i];
        for (uint64_t stream = 0; stream < 20; stream++) {
            struct kt_random random = {.seed = 500 + stream};
            struct kr_calibrator calibrator;
            struct tally tally;

            open_calibrator(&calibrator, 1, NULL);
            origins(&calibrator, &random, &perfect, 0, 400);
            tally = origins(&calibrator, &random, &after, 400, 415);
            at_once.n += tally.n;
            at_once.inside += tally.inside;
            origins(&calibrator, &random, &after, 415, 500);
            tally = origins(&calibrator, &random, &after, 500, 600);
            later.n += tally.n;
            later.inside += tally.inside;
            kr_calibrator_free(&calibrator);
        }
        kt_note("spread times %.1f: cover %.3f at once, %.3f after 100 origins", factors[i],
                (double)at_once.inside / (double)at_once.n, (double)later.inside / (double)later.n);
        CU_ASSERT(fabs((double)at_once.inside / (double)at_once.n - 0.9) > 0.05);
        CLOSE_TO((double)later.inside / (double)later.n, 0.9, 0.03);
    }
}

/* A forecast behind every bar of a Gaussian walk, 24 steps each, too wide by half; what is due at a
 * bar is what was forecast h bars before. */
#define H    24
#define BARS 3000

static void delayed_feedback(void)
{
    static double members[BARS][H][20], q[BARS][H][N_LEVELS], level[BARS + 1];
    struct kt_random random = {.seed = 6};
    struct kr_calibrator calibrator;
    size_t n[H] = {0}, inside[H] = {0};
    static const size_t shown[4] = {0, 5, 11, 23};

    open_calibrator(&calibrator, H, NULL);
    for (int64_t bar = 0; bar < BARS; bar++) {
        level[bar] = (bar > 0 ? level[bar - 1] : 0) + SIGMA * kt_normal(&random);
        for (size_t step = 0; step < H && (int64_t)step < bar; step++) {
            int64_t origin = bar - 1 - (int64_t)step;
            struct kr_ensemble due = {
                .step = step, .sorted = members[origin][step], .m = 20, .sigma = SIGMA};
            double y = level[bar] - level[origin];
            const double *published = q[origin][step];

            if (bar >= 1000) {
                n[step]++;
                inside[step] += y >= published[0] && y <= published[N_LEVELS - 1];
            }
            CU_ASSERT_TRUE(kr_calibrator_learn(&calibrator, &due, y, published, origin, bar));
        }
        kr_calibrator_settle(&calibrator);
        CU_ASSERT_EQUAL(calibrator.horizon[H - 1].n, (uint64_t)KR_MAX(bar - H + 1, 0));
        for (size_t step = 0; step < H; step++) {
            struct kr_ensemble ensemble = draw(&random, members[bar][step], 20, step, 0, 1.5);
            struct kr_map map;

            kr_calibrate(&calibrator, &ensemble, &map, q[bar][step]);
            expect_rising(q[bar][step]);
        }
        if (bar == 20) { /* the last horizon has learned nothing itself, its neighbours have */
            CU_ASSERT_EQUAL(calibrator.horizon[H - 1].n, 0);
            CU_ASSERT(calibrator.estimate[H - 1].scale < 0.99);
        }
    }
    /* overlapping outcomes: one for the first, 1 / h for each that follows */
    CU_ASSERT_EQUAL(calibrator.horizon[0].weight, BARS - 1);
    CLOSE_TO(calibrator.horizon[H - 1].weight, 1 + (BARS - H - 1) / 24.0, 1e-9);
    for (size_t i = 0; i < 4; i++) {
        double cover = (double)inside[shown[i]] / (double)n[shown[i]];

        kt_note("h %zu: cover %.3f scale %.3f", shown[i] + 1, cover,
                calibrator.estimate[shown[i]].scale);
        KT_CHECK(cover >= 0.87 && cover <= 0.93, "h %zu: %g", shown[i] + 1, cover);
        CLOSE_TO(calibrator.estimate[shown[i]].scale * 1.5, 1, 0.15);
    }
    kr_calibrator_free(&calibrator);
}

/* An outcome of an older origin (its bar came late) weighs as an overlapping one. */
static void out_of_order(void)
{
    struct kt_random random = {.seed = 7};
    struct kr_calibrator calibrator;
    double members[8], q[N_LEVELS];
    struct kr_ensemble ensemble = draw(&random, members, 8, 3, 0, 1); /* h = 4 */
    struct kr_map map;

    open_calibrator(&calibrator, 4, NULL);
    kr_calibrate(&calibrator, &ensemble, &map, q);
    kr_calibrator_learn(&calibrator, &ensemble, 0.001, q, 10, 14);
    CU_ASSERT_EQUAL(calibrator.horizon[3].weight, 1);
    kr_calibrator_learn(&calibrator, &ensemble, 0.001, q, 13, 17);
    CU_ASSERT_EQUAL(calibrator.horizon[3].weight, 1.75);
    kr_calibrator_learn(&calibrator, &ensemble, 0.001, q, 11, 17);
    CU_ASSERT_EQUAL(calibrator.horizon[3].weight, 2.25);
    CU_ASSERT_EQUAL(calibrator.horizon[3].origin_row, 13);
    kr_calibrator_learn(&calibrator, &ensemble, 0.001, q, 13, 18);
    CU_ASSERT_EQUAL(calibrator.horizon[3].weight, 2.5);
    kr_calibrator_learn(&calibrator, &ensemble, 0.001, q, 1000, 1004);
    CU_ASSERT_EQUAL(calibrator.horizon[3].weight, 3.5);
    CU_ASSERT_EQUAL(calibrator.last_row, 1004);
    kr_calibrator_free(&calibrator);
}

/* First steps by hand: one miss of the lowest band, one tie. */
static void tracking(void)
{
    struct kt_random random = {.seed = 9};
    struct kr_calibrator calibrator;
    double members[32], q[N_LEVELS], gain = 1.0 / 60;
    struct kr_ensemble ensemble = draw(&random, members, 32, 0, 0, 1);
    struct kr_map map;

    open_calibrator(&calibrator, 1, NULL);
    kr_calibrate(&calibrator, &ensemble, &map, q);
    kr_calibrator_learn(&calibrator, &ensemble, q[0], q, 0, 1); /* a tie with the 5 % quantile */
    CU_ASSERT_EQUAL(calibrator.alpha[0], 0.05);
    CU_ASSERT_EQUAL(calibrator.offset[0], 0);
    CLOSE_TO(calibrator.alpha[1], 0.1, 0); /* 1 outcome cannot speak for less than 10 % */
    CLOSE_TO(calibrator.offset[1], -0.4 * gain * 0.9 / (1.6 * 0.1 * 0.9), 1e-15);

    kr_calibrator_reset(&calibrator, 1);
    kr_calibrator_learn(&calibrator, &ensemble, q[6] + 1, q, 0, 1); /* above all of them */
    for (size_t l = 0; l < N_LEVELS; l++) {
        double tau = levels[l], moved = fmin(tau + 0.6 * gain * tau, fmax(tau, 0.5));

        CLOSE_TO(calibrator.alpha[l], moved, 1e-15);
        CLOSE_TO(calibrator.offset[l], 0.4 * gain * tau / (1.6 * tau * (1 - tau)), 1e-15);
    }
    kr_calibrator_free(&calibrator);
}

/* alpha moves out of its level only as far as the outcomes can speak for; the offset goes on. */
static void reach_of_alpha(void)
{
    struct kt_random random = {.seed = 10};
    struct kr_calibrator calibrator;
    double members[32], q[N_LEVELS];
    struct kr_ensemble ensemble = draw(&random, members, 32, 0, 0, 1);
    struct kr_map map;

    open_calibrator(&calibrator, 1, NULL);
    for (int64_t n = 1; n <= 200; n++) { /* always below everything */
        double reach = fmin(0.05, 1 / ((double)n + 1));

        kr_calibrate(&calibrator, &ensemble, &map, q);
        kr_calibrator_learn(&calibrator, &ensemble, q[0] - 0.1, q, n, n + 1);
        CU_ASSERT(calibrator.alpha[0] >= reach);
        if (n <= 19)
            CU_ASSERT_EQUAL(calibrator.alpha[0], 0.05);
        CU_ASSERT(calibrator.offset[0] < 0 && calibrator.offset[0] >= -4);
    }
    CLOSE_TO(calibrator.alpha[0], 1.0 / 201, 1e-9);
    CU_ASSERT_EQUAL(calibrator.offset[0], -4);
    kr_calibrator_free(&calibrator);
}

/* A point for a forecast: there is no spread to scale, but the tracked levels open up around it. */
static void constant_ensembles(void)
{
    struct kt_random random = {.seed = 12};
    struct kr_calibrator calibrator;
    double members[32] = {0}, q[N_LEVELS];
    struct kr_ensemble ensemble = {.sorted = members, .m = 32, .sigma = SIGMA};
    struct kr_map map;

    open_calibrator(&calibrator, 1, NULL);
    for (int64_t row = 0; row < 1500; row++) {
        double y = SIGMA * kt_normal(&random);

        kr_calibrate(&calibrator, &ensemble, &map, q);
        expect_rising(q);
        kr_calibrator_learn(&calibrator, &ensemble, y, q, row, row + 1);
        kr_calibrator_settle(&calibrator);
    }
    CU_ASSERT_EQUAL(calibrator.estimate[0].scale, 1);
    CLOSE_TO(q[0] / SIGMA, -1.645, 0.35);
    CLOSE_TO(q[3] / SIGMA, 0, 0.25);
    CLOSE_TO(q[6] / SIGMA, 1.645, 0.35);
    kr_calibrator_free(&calibrator);
}

/* A market at rest: nothing to measure by, nothing learned, the raw quantiles. */
static void no_sigma(void)
{
    struct kt_random random = {.seed = 13};
    struct kr_calibrator calibrator;
    double members[32], q[N_LEVELS];
    struct kr_ensemble ensemble = draw(&random, members, 32, 0, 1, 1);
    struct kr_map map;

    open_calibrator(&calibrator, 1, &wrong_prior);
    ensemble.sigma = 0;
    kr_calibrate(&calibrator, &ensemble, &map, q);
    CU_ASSERT_EQUAL(map.slope, 1);
    CU_ASSERT_EQUAL(map.shift, 0);
    CU_ASSERT_EQUAL(q[3], kr_quantile(members, 32, 0.5, NULL));
    CU_ASSERT_FALSE(kr_calibrator_learn(&calibrator, &ensemble, 0, q, 0, 1));
    CU_ASSERT_EQUAL(calibrator.n_learned, 0);
    CU_ASSERT_EQUAL(calibrator.horizon[0].n, 0);
    kr_calibrator_free(&calibrator);
}

/* After a long rest sigma is next to nothing, and the first move a million of them. */
static void one_jump(void)
{
    struct kt_random random = {.seed = 14};
    struct kr_calibrator calibrator;
    double members[32], q[N_LEVELS], before;
    struct kr_ensemble ensemble;
    struct kr_map map;

    open_calibrator(&calibrator, 1, NULL);
    origins(&calibrator, &random, &perfect, 0, 200);
    before = calibrator.estimate[0].scale;
    ensemble = draw(&random, members, 32, 0, 0, 1);
    kr_calibrate(&calibrator, &ensemble, &map, q);
    kr_calibrator_learn(&calibrator, &ensemble, 1e6 * SIGMA, q, 200, 201);
    kr_calibrator_settle(&calibrator);
    KT_CHECK(calibrator.estimate[0].scale > before && calibrator.estimate[0].scale < 1.15 * before,
             "%g -> %g", before, calibrator.estimate[0].scale);
    CU_ASSERT(fabs(calibrator.estimate[0].shift) < 0.1);
    /* and the other way round: an ensemble from another world */
    for (size_t i = 0; i < 32; i++)
        members[i] = 1e200 * (double)i;
    kr_calibrate(&calibrator, &ensemble, &map, q);
    kr_calibrator_learn(&calibrator, &ensemble, 0.01, q, 201, 202);
    kr_calibrator_settle(&calibrator);
    CU_ASSERT(calibrator.estimate[0].scale >= 0.125 && calibrator.estimate[0].scale <= 8);
    for (size_t i = 0; i < KR_SUMS; i++)
        CU_ASSERT(isfinite(calibrator.horizon[0].sum[i]));
    kr_calibrator_free(&calibrator);
}

/* Too few members for a mean, a spread, a pair. */
static void few_members(void)
{
    for (size_t m = 1; m <= 3; m++) {
        struct forecaster who = perfect;
        struct kt_random random = {.seed = 15};
        struct kr_calibrator calibrator;

        who.m = m;
        open_calibrator(&calibrator, 1, &wrong_prior);
        origins(&calibrator, &random, &who, 0, 300);
        CU_ASSERT(isfinite(calibrator.estimate[0].scale));
        CU_ASSERT(m > 1 || calibrator.horizon[0].sum[KR_SUM_EXPECTED] == 0);
        kr_calibrator_free(&calibrator);
    }
}

static void status(void)
{
    struct kt_random random = {.seed = 16};
    struct kr_calibrator calibrator;
    double members[8], q[N_LEVELS] = {0};

    open_calibrator(&calibrator, 2, NULL);
    for (int64_t n = 0; n <= 120; n++) {
        CU_ASSERT_EQUAL(kr_calibrator_n(&calibrator), (uint64_t)n);
        CU_ASSERT_EQUAL(kr_calibrator_status(&calibrator, n + 1), n < 20    ? KR_UNCALIBRATED
                                                                  : n < 100 ? KR_WARMING
                                                                            : KR_CALIBRATED);
        for (size_t step = 0; step < 2; step++) {
            struct kr_ensemble ensemble = draw(&random, members, 8, step, 0, 1);

            CU_ASSERT_EQUAL(kr_calibrator_n(&calibrator), (uint64_t)n); /* the poorer horizon's */
            kr_calibrator_learn(&calibrator, &ensemble, 0.001, q, n, n + 1);
        }
    }
    CU_ASSERT_EQUAL(kr_calibrator_status(&calibrator, 121 + 20), KR_CALIBRATED);
    CU_ASSERT_EQUAL(kr_calibrator_status(&calibrator, 121 + 21), KR_STALE);
    CU_ASSERT_STRING_EQUAL(kr_trust_names[KR_UNCALIBRATED], "uncalibrated");
    CU_ASSERT_STRING_EQUAL(kr_trust_names[KR_WARMING], "warming");
    CU_ASSERT_STRING_EQUAL(kr_trust_names[KR_CALIBRATED], "calibrated");
    CU_ASSERT_STRING_EQUAL(kr_trust_names[KR_STALE], "stale");
    kr_calibrator_reset(&calibrator, 2);
    CU_ASSERT_EQUAL(kr_calibrator_status(&calibrator, 100000), KR_UNCALIBRATED);
    kr_calibrator_free(&calibrator);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"begins as identity", begins_as_identity},
        {"mapped CRPS is unbiased", mapped_crps_is_unbiased},
        {"a perfect forecaster stays", perfect_stays},
        {"drift earns its weight", drift_earns_its_weight},
        {"a shift is doubted", shift_is_doubted},
        {"pooling", pooling},
        {"learns quickly", learns_quickly},
        {"recovers", recovers},
        {"every level", every_level},
        {"regime change", regime_change},
        {"delayed feedback", delayed_feedback},
        {"out of order", out_of_order},
        {"tracking by hand", tracking},
        {"reach of alpha", reach_of_alpha},
        {"constant ensembles", constant_ensembles},
        {"no sigma", no_sigma},
        {"one jump", one_jump},
        {"few members", few_members},
        {"status", status},
    };

    return kt_main("calibrate", tests, KR_ARRAY_LENGTH(tests));
}
