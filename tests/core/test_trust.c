/* SPDX-License-Identifier: MIT */
/* Bars in, forecasts in, scores out: on markets whose true distribution is known, so that a
 * forecaster who samples it must come out calibrated, and one who is wrong must come out corrected.
 * */
#include "core/bar.h"
#include "core/draw.h"
#include "core/special.h"
#include "core/summary.h"
#include "core/trust.h"
#include "tests/core/market.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_LEVELS  7
#define MAX_STEPS 24
#define MAX_PATHS 99
#define MINUTE    60000000000

static const double levels[N_LEVELS] = {0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95};
static float paths[MAX_PATHS * MAX_STEPS * KR_COLUMNS];

#define CLOSE_TO(found, expected, tolerance)                                                       \
    KT_CHECK(fabs((found) - (expected)) <= (tolerance), "line %d: expected %.17g, found %.17g",    \
             __LINE__, (double)(expected), (double)(found))

static size_t n_allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    n_allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    n_allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    n_allocations++;
    return __real_realloc(p, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    n_allocations++;
    return __real_aligned_alloc(alignment, size);
}

/* A stream, its market, and a forecaster of it. */
struct stream {
    struct kr_trust trust;
    struct kt_market market;
    struct kt_random random;
    size_t n_steps, n_paths;
    double spread, shift;
    int64_t row; /* of the next bar; minute as well */
};

static void open_stream(struct stream *stream, struct kt_market market, size_t n_steps,
                        size_t n_paths, uint64_t seed)
{
    const struct kr_trust_config config = {
        .size = {n_steps, n_paths, N_LEVELS, 0}, .levels = levels, .id = 7};

    *stream = (struct stream){.market = market,
                              .random = {.seed = seed},
                              .n_steps = n_steps,
                              .n_paths = n_paths,
                              .spread = 1};
    CU_ASSERT_EQUAL_FATAL(kr_trust_init(&stream->trust, &config, NULL), 0);
}

static size_t next_bar(struct stream *stream)
{
    double close = kt_market_step(&stream->market, &stream->random);
    int64_t row = stream->row++;

    return kr_trust_bar(&stream->trust, row * MINUTE, row, close);
}

/* Publish `paths`, as they stand, behind the last bar. */
static struct kr_pending_entry *publish(struct stream *stream)
{
    int64_t due_ns[MAX_STEPS], row = stream->row - 1;
    const struct kr_published published = {.as_of_ns = row * MINUTE,
                                           .as_of_row = row,
                                           .key = 99,
                                           .last_close = stream->market.close,
                                           .n_steps = stream->n_steps,
                                           .n_paths = stream->n_paths,
                                           .due_ns = due_ns,
                                           .paths = paths};
    struct kr_pending_entry *entry = NULL;

    for (size_t step = 0; step < stream->n_steps; step++)
        due_ns[step] = (row + 1 + (int64_t)step) * MINUTE;
    CU_ASSERT_EQUAL_FATAL(kr_trust_forecast(&stream->trust, &published, &entry), 0);
    return entry;
}

static struct kr_pending_entry *forecast(struct stream *stream)
{
    struct kr_pending_entry *entry;

    kt_market_paths(&stream->market, &stream->random, stream->n_paths, stream->n_steps,
                    stream->spread, stream->shift, paths);
    entry = publish(stream);
    for (size_t step = 0; step < stream->n_steps; step++)
        for (size_t l = 1; l < N_LEVELS; l++)
            CU_ASSERT(entry->q[step * N_LEVELS + l - 1] <= entry->q[step * N_LEVELS + l]);
    return entry;
}

/* A forecaster who samples the truth: uniform PIT, every level covered, with origins that do not
 * overlap. */
static void true_distribution(void)
{
    const size_t n = 2000, h = 6;
    struct stream stream;

    open_stream(&stream, kt_market(), h, 99, 31);
    for (size_t i = 0; i < 200; i++)
        next_bar(&stream);
    for (size_t i = 0; i < n; i++) {
        forecast(&stream);
        for (size_t step = 0; step < h; step++)
            CU_ASSERT_EQUAL(next_bar(&stream), 1);
    }
    for (size_t step = 0; step < h; step++) {
        const struct kr_tally *tally = &stream.trust.tally[step];
        double p = kr_uniform_p(tally->pit, KR_PIT_BINS, NULL);

        CU_ASSERT_EQUAL(tally->n, n);
        KT_CHECK(p > 0.01, "h %zu: PIT p %g", step + 1, p);
        for (size_t l = 0; l < N_LEVELS; l++) {
            double error = sqrt(levels[l] * (1 - levels[l]) / (double)n);

            CLOSE_TO((double)stream.trust.hits[step * N_LEVELS + l] / (double)n, levels[l],
                     3 * error);
            CLOSE_TO((double)stream.trust.hits_cal[step * N_LEVELS + l] / (double)n, levels[l],
                     3 * error);
        }
        kt_note("h %zu: PIT p %.3f, calibrated %.3f; skill %.4f, calibrated %.4f", step + 1, p,
                kr_uniform_p(tally->pit_cal, KR_PIT_BINS, NULL),
                kr_skill(tally->crps, tally->crps_rw), kr_skill(tally->crps_cal, tally->crps_rw));
        CU_ASSERT(kr_skill(tally->crps, tally->crps_rw) > -0.005); /* GARCH is all but an EWMA */
        CU_ASSERT(kr_skill(tally->crps_cal, tally->crps_rw) >
                  kr_skill(tally->crps, tally->crps_rw) - 0.01);
        CU_ASSERT(tally->crps < tally->crps_still);
    }
    kr_trust_free(&stream.trust);
}

/* A forecaster who samples the random walk itself has no skill against it. */
static void walk_against_itself(void)
{
    const size_t n = 1500, h = 4;
    struct stream stream;

    open_stream(&stream, kt_market(), h, 32, 32);
    for (size_t i = 0; i < 200; i++)
        next_bar(&stream);
    for (size_t i = 0; i < n; i++) {
        double sigma = kr_random_walk_sigma(&stream.trust.walk);

        for (size_t path = 0; path < 32; path++)
            for (size_t step = 0; step < h; step++)
                paths[(path * h + step) * KR_COLUMNS + KR_CLOSE] =
                    (float)(stream.market.close *
                            exp(sigma * sqrt((double)(step + 1)) * kt_normal(&stream.random)));
        publish(&stream);
        for (size_t step = 0; step < h; step++)
            next_bar(&stream);
    }
    for (size_t step = 0; step < h; step++) {
        const struct kr_tally *tally = &stream.trust.tally[step];

        CLOSE_TO(kr_skill(tally->crps, tally->crps_rw), 0, 0.01);
    }
    kr_trust_free(&stream.trust);
}

/* A forecast behind every bar, too wide by half and off: the band is right behind the 100th
 * outcome, and the skill lost comes back. */
static void wrong_forecaster(void)
{
    static const double spreads[3] = {1.5, 0.6, 1.2}, shifts[3] = {0, 0.2, -0.5};
    const size_t h = 6;

    for (size_t i = 0; i < 3; i++) {
        struct stream stream;
        size_t n[MAX_STEPS] = {0}, inside[MAX_STEPS] = {0};

        open_stream(&stream, kt_market(), h, 32, 40 + i);
        stream.spread = spreads[i];
        stream.shift = shifts[i];
        for (size_t bar = 0; bar < 1600; bar++) {
            size_t due = next_bar(&stream);

            for (size_t j = 0; j < due; j++) {
                const struct kr_score *score = &stream.trust.scores[j];

                if (score->status != KR_CALIBRATED)
                    continue;
                n[score->step]++;
                inside[score->step] += !score->hit_cal[0] && score->hit_cal[N_LEVELS - 1];
            }
            if (bar >= 64)
                forecast(&stream);
        }
        for (size_t step = 0; step < h; step++) {
            const struct kr_tally *tally = &stream.trust.tally[step];
            double cover = (double)inside[step] / (double)n[step];
            double raw = kr_skill(tally->crps, tally->crps_rw);
            double calibrated = kr_skill(tally->crps_cal, tally->crps_rw);

            KT_CHECK(cover >= 0.87 && cover <= 0.93, "case %zu h %zu: cover %.3f", i, step + 1,
                     cover);
            KT_CHECK(calibrated > raw + 0.015, "case %zu h %zu: skill %.3f, calibrated %.3f", i,
                     step + 1, raw, calibrated);
            CU_ASSERT(n[step] > 1400);
        }
        kt_note("spread %.1f shift %.1f: skill at h 6 %.3f, calibrated %.3f", spreads[i], shifts[i],
                kr_skill(stream.trust.tally[5].crps, stream.trust.tally[5].crps_rw),
                kr_skill(stream.trust.tally[5].crps_cal, stream.trust.tally[5].crps_rw));
        kr_trust_free(&stream.trust);
    }
}

/* A rig with closes given, and forecasts of three paths that all stay, rise and fall 1 %. */
static struct kr_pending_entry *simple(struct stream *stream)
{
    static const double moves[3] = {0, 0.01, -0.01};

    for (size_t path = 0; path < 3; path++)
        for (size_t step = 0; step < stream->n_steps; step++)
            paths[(path * stream->n_steps + step) * KR_COLUMNS + KR_CLOSE] =
                (float)(stream->market.close * (1 + moves[path]));
    return publish(stream);
}

static size_t bar_at(struct stream *stream, double close)
{
    int64_t row = stream->row++;

    stream->market.close = close;
    return kr_trust_bar(&stream->trust, row * MINUTE, row, close);
}

static void one_score(void)
{
    struct stream stream;
    struct kr_pending_entry *entry;
    const struct kr_score *score;
    double x[3], y = log(102 / 101.0), sigma, crps, v, walk;

    open_stream(&stream, kt_calm_market(), 2, 3, 1);
    bar_at(&stream, 100);
    bar_at(&stream, 101);
    entry = simple(&stream);
    sigma = log(1.01);
    CU_ASSERT_EQUAL(entry->sigma, sigma);
    CU_ASSERT_EQUAL(entry->status, KR_UNCALIBRATED);
    kr_pending_members(entry, 0, x);
    CU_ASSERT_EQUAL(entry->q[3], 0);

    CU_ASSERT_EQUAL_FATAL(bar_at(&stream, 102), 1);
    score = &stream.trust.scores[0];
    CU_ASSERT_EQUAL(score->as_of_ns, MINUTE);
    CU_ASSERT_EQUAL(score->t_ns, 2 * MINUTE);
    CU_ASSERT_EQUAL(score->step, 0);
    CU_ASSERT_EQUAL(score->y, y);
    crps = (fabs(x[0] - y) + fabs(y) + fabs(x[2] - y)) / 3 - 2 * (x[2] - x[0]) / 6;
    walk = kr_crps_normal(0, sigma, y);
    CLOSE_TO(score->crps, crps, 1e-15);
    CLOSE_TO(score->crps_cal, crps, 1e-15); /* nothing learned yet */
    CLOSE_TO(score->crps_rw, walk, 1e-15);
    CU_ASSERT_EQUAL(score->crps_still, y);
    v = kr_draw(99, MINUTE, UINT32_MAX, 0, 2);
    CLOSE_TO(score->pit, (2 + v) / 4, 1e-15); /* 0.985 % lies below the 1 % path */
    CLOSE_TO(score->pit_cal, (2 + v) / 4, 1e-15);
    for (size_t l = 0; l < N_LEVELS; l++) {
        CU_ASSERT_EQUAL(score->hit[l], levels[l] > 0.7);
        CU_ASSERT_EQUAL(score->hit_cal[l], levels[l] > 0.7);
        CU_ASSERT_EQUAL(stream.trust.hits[l], score->hit[l]);
    }
    CU_ASSERT_EQUAL(score->n, 1);
    CLOSE_TO(score->skill, 1 - crps / walk, 1e-12);
    CU_ASSERT_EQUAL(score->status, KR_UNCALIBRATED);
    CU_ASSERT_FALSE(score->stratified);

    CU_ASSERT_EQUAL_FATAL(bar_at(&stream, 101), 1); /* back where it was: a tie with one path */
    score = &stream.trust.scores[0];
    CU_ASSERT_EQUAL(score->step, 1);
    CU_ASSERT_EQUAL(score->y, 0);
    v = kr_draw(99, MINUTE, UINT32_MAX, 1, 2);
    CLOSE_TO(score->pit, (1 + 2 * v) / 4, 1e-15);
    CU_ASSERT_EQUAL(score->crps_still, 0);
    CU_ASSERT_EQUAL(stream.trust.tally[0].n, 1);
    CU_ASSERT_EQUAL(stream.trust.tally[1].n, 1);
    CU_ASSERT_EQUAL(stream.trust.pending.n, 0);
    CU_ASSERT_EQUAL(stream.trust.calibrator.n_learned, 2);
    CU_ASSERT_EQUAL(stream.trust.calibrator.horizon[1].origin_row, 1);
    CU_ASSERT_EQUAL(stream.trust.calibrator.last_row, 3);
    kr_trust_free(&stream.trust);
}

/* Stratified draws: the plain score, and the flag. */
static void stratified(void)
{
    struct stream stream;
    struct kr_pending_entry *entry = NULL;
    int64_t due_ns[1] = {2 * MINUTE};
    struct kr_published published = {.as_of_ns = MINUTE,
                                     .as_of_row = 1,
                                     .last_close = 101,
                                     .stratified = true,
                                     .n_steps = 1,
                                     .n_paths = 3,
                                     .due_ns = due_ns,
                                     .paths = paths};
    double x[3], y = log(102 / 101.0);

    open_stream(&stream, kt_calm_market(), 1, 3, 1);
    bar_at(&stream, 100);
    bar_at(&stream, 101);
    for (size_t path = 0; path < 3; path++)
        paths[path * KR_COLUMNS + KR_CLOSE] = 100 + (float)path;
    CU_ASSERT_EQUAL_FATAL(kr_trust_forecast(&stream.trust, &published, &entry), 0);
    kr_pending_members(entry, 0, x);
    CU_ASSERT_EQUAL_FATAL(bar_at(&stream, 102), 1);
    CU_ASSERT_TRUE(stream.trust.scores[0].stratified);
    CLOSE_TO(stream.trust.scores[0].crps, kr_crps(x, 3, y, 2.0 / 3), 1e-15);
    kr_trust_free(&stream.trust);
}

/* Bars that are not simply next. */
static void bars_out_of_order(void)
{
    struct stream stream;
    struct kr_trust *trust = &stream.trust;
    double sigma;

    open_stream(&stream, kt_calm_market(), 3, 3, 1);
    bar_at(&stream, 100);
    bar_at(&stream, 101);
    simple(&stream); /* behind minute 1, due at 2, 3, 4 */
    CU_ASSERT_EQUAL(bar_at(&stream, 102), 1);

    /* a revision of the bar just scored: no second score, but the walk follows */
    CU_ASSERT_EQUAL(kr_trust_revised(trust, 2 * MINUTE, 101), 0);
    CU_ASSERT_EQUAL(trust->n_revised, 1);
    sigma = kr_random_walk_sigma(&trust->walk);
    CLOSE_TO(sigma, sqrt(0.97 * log(1.01) * log(1.01) / 1.97), 1e-15);
    stream.market.close = 101;

    /* minute 3 is missing; 4 comes, then 3 */
    stream.row++;
    CU_ASSERT_EQUAL(bar_at(&stream, 102), 1);
    CU_ASSERT_EQUAL(trust->scores[0].step, 2);
    sigma = kr_random_walk_sigma(&trust->walk);
    CU_ASSERT_EQUAL(kr_trust_late(trust, 3 * MINUTE, 103), 1);
    CU_ASSERT_EQUAL(trust->scores[0].step, 1);
    CU_ASSERT_EQUAL(trust->scores[0].y, log(103 / 101.0));
    CU_ASSERT_EQUAL(trust->pending.counts.late, 1);
    CU_ASSERT_EQUAL(kr_random_walk_sigma(&trust->walk), sigma);
    CU_ASSERT_EQUAL(kr_trust_late(trust, 3 * MINUTE, 103), 0);

    /* a revision of a bar that nobody waited for */
    CU_ASSERT_EQUAL(kr_trust_revised(trust, 0, 99), 0);
    CU_ASSERT_EQUAL(trust->n_revised, 1);
    CU_ASSERT_EQUAL(kr_random_walk_sigma(&trust->walk), sigma);
    kr_trust_free(trust);
}

/* Synthetic bars are no actuals; their first real content is. */
static void synthetic_bars(void)
{
    struct stream stream;
    struct kr_trust *trust = &stream.trust;
    struct kr_random_walk before;

    open_stream(&stream, kt_calm_market(), 3, 3, 1);
    bar_at(&stream, 100);
    bar_at(&stream, 101);
    simple(&stream);
    before = trust->walk;
    kr_trust_synthetic(trust, 2 * MINUTE, 2);
    stream.row++;
    CU_ASSERT_EQUAL(trust->tally[0].n, 0);
    CU_ASSERT_EQUAL(memcmp(&before, &trust->walk, sizeof(before)), 0);
    CU_ASSERT_EQUAL(kr_trust_revised(trust, 2 * MINUTE, 102), 1);
    CU_ASSERT_EQUAL(trust->n_revised, 0);
    CU_ASSERT_EQUAL(trust->walk.close, 102);
    CU_ASSERT_EQUAL(trust->walk.before.close, 101);
    CU_ASSERT_EQUAL(bar_at(&stream, 103), 1);
    kr_trust_free(trust);
}

/* A market at rest: everything is 0, nothing is nan, nobody is called calibrated. */
static void flat_market(void)
{
    struct stream stream;

    open_stream(&stream, kt_calm_market(), 3, 3, 1);
    for (size_t i = 0; i < 150; i++) {
        size_t n = bar_at(&stream, 5);

        for (size_t j = 0; j < n; j++) {
            const struct kr_score *score = &stream.trust.scores[j];

            CU_ASSERT(score->crps == 0 && score->crps_cal == 0 && score->crps_rw == 0);
            CU_ASSERT(score->skill == 0 && score->skill_cal == 0);
            CU_ASSERT(score->pit >= 0 && score->pit < 1);
            CU_ASSERT_EQUAL(score->status, KR_UNCALIBRATED);
        }
        for (size_t p = 0; p < 3 * 3; p++)
            paths[p * KR_COLUMNS + KR_CLOSE] = 5;
        for (size_t l = 0; l < N_LEVELS; l++)
            CU_ASSERT_EQUAL(publish(&stream)->q[l], 0);
    }
    CU_ASSERT_EQUAL(stream.trust.tally[0].n, 149);
    CU_ASSERT_EQUAL(stream.trust.calibrator.n_learned, 0);
    kr_trust_free(&stream.trust);
}

static void status_and_reset(void)
{
    struct stream stream;
    struct kr_random_walk walk;
    size_t bars = 0;

    open_stream(&stream, kt_market(), 3, 8, 50);
    next_bar(&stream);
    while (next_bar(&stream), bars++ < 200) {
        enum kr_trust_status status = forecast(&stream)->status;
        uint64_t n = kr_calibrator_n(&stream.trust.calibrator);

        CU_ASSERT_EQUAL(status, n < 20 ? KR_UNCALIBRATED : n < 100 ? KR_WARMING : KR_CALIBRATED);
        CU_ASSERT_EQUAL(n, bars > 3 ? bars - 3 : 0);
    }
    for (size_t i = 0; i < 32; i++) /* two of these are still due */
        next_bar(&stream);
    CU_ASSERT_EQUAL(forecast(&stream)->status, KR_CALIBRATED);
    CU_ASSERT_EQUAL(next_bar(&stream), 1);

    walk = stream.trust.walk;
    CU_ASSERT_EQUAL(stream.trust.pending.n, 1);
    kr_trust_reset(&stream.trust, 8);
    CU_ASSERT_EQUAL(stream.trust.calibrator.id, 8);
    CU_ASSERT_EQUAL(kr_calibrator_n(&stream.trust.calibrator), 0);
    CU_ASSERT_EQUAL(stream.trust.tally[0].n, 0);
    CU_ASSERT_EQUAL(stream.trust.hits[3], 0);
    CU_ASSERT_EQUAL(stream.trust.pending.n, 0);
    CU_ASSERT_EQUAL(stream.trust.pending.counts.unscored, 2);
    CU_ASSERT_EQUAL(memcmp(&walk, &stream.trust.walk, sizeof(walk)), 0);
    CU_ASSERT_EQUAL(forecast(&stream)->status, KR_UNCALIBRATED);
    CU_ASSERT_EQUAL(next_bar(&stream), 1);
    kr_trust_free(&stream.trust);
}

/* Forecasts stop; ten horizons later what was learned is called stale. */
static void stale(void)
{
    struct stream stream;

    open_stream(&stream, kt_market(), 3, 8, 51);
    for (size_t i = 0; i < 140; i++) {
        next_bar(&stream);
        forecast(&stream);
    }
    for (size_t i = 0; i < 3 + 30; i++)
        next_bar(&stream);
    CU_ASSERT_EQUAL(kr_calibrator_status(&stream.trust.calibrator, stream.trust.row),
                    KR_CALIBRATED);
    next_bar(&stream);
    CU_ASSERT_EQUAL(forecast(&stream)->status, KR_STALE);
    next_bar(&stream);
    CU_ASSERT_EQUAL(forecast(&stream)->status, KR_CALIBRATED);
    kr_trust_free(&stream.trust);
}

/* Replays */

#define RECORD_BYTES 65536

static unsigned char first[RECORD_BYTES], second[RECORD_BYTES];

/* Bars [from, to) with holes, late bars, revisions and skipped forecasts. */
static void run(struct stream *stream, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        if (i % 17 == 5) { /* bar i - 1 comes after bar i */
            double missing = kt_market_step(&stream->market, &stream->random);
            int64_t t_ns = stream->row++ * MINUTE;

            next_bar(stream);
            kr_trust_late(&stream->trust, t_ns, missing);
        } else {
            next_bar(stream);
        }
        if (i % 13 == 4)
            kr_trust_revised(&stream->trust, (stream->row - 1) * MINUTE,
                             stream->market.close *= 1.0001);
        if (i > 64 && i % 11 != 3)
            forecast(stream);
    }
}

static size_t pack(const struct kr_trust *trust, unsigned char *bytes)
{
    size_t length = 0, state = 0;

    CU_ASSERT_EQUAL_FATAL(kr_trust_pack(trust, bytes, RECORD_BYTES, &length), 0);
    CU_ASSERT_EQUAL(length, kr_trust_record_bytes(trust));
    CU_ASSERT_EQUAL_FATAL(
        kr_pending_pack_state(&trust->pending, bytes + length, RECORD_BYTES - length, &state), 0);
    return length + state;
}

static void replay(void)
{
    struct stream a, b;
    size_t length;

    open_stream(&a, kt_market(), 6, 16, 60);
    open_stream(&b, kt_market(), 6, 16, 60);
    run(&a, 0, 500);
    run(&b, 0, 500);
    length = pack(&a.trust, first);
    CU_ASSERT_EQUAL(pack(&b.trust, second), length);
    CU_ASSERT_EQUAL(memcmp(first, second, length), 0);
    CU_ASSERT(a.trust.tally[5].n > 300);
    CU_ASSERT(a.trust.pending.counts.late > 20);
    CU_ASSERT(a.trust.n_revised > 20);
    kr_trust_free(&a.trust);
    kr_trust_free(&b.trust);
}

/* A clean restart at bar 301: everything through records. */
static void restart(void)
{
    struct stream a, b;
    size_t length;

    open_stream(&a, kt_market(), 6, 16, 61);
    open_stream(&b, kt_market(), 6, 16, 61);
    run(&a, 0, 301);
    CU_ASSERT_EQUAL_FATAL(kr_trust_pack(&a.trust, first, RECORD_BYTES, &length), 0);
    CU_ASSERT_EQUAL_FATAL(kr_trust_unpack(&b.trust, first, length), 0);
    CU_ASSERT(a.trust.pending.n >= 5);
    for (size_t i = 0; i < a.trust.pending.n; i++) {
        CU_ASSERT_EQUAL_FATAL(kr_pending_pack_entry(&a.trust.pending,
                                                    kr_pending_at(&a.trust.pending, i), first,
                                                    RECORD_BYTES, &length),
                              0);
        CU_ASSERT_EQUAL_FATAL(kr_pending_unpack_entry(&b.trust.pending, first, length), 0);
    }
    CU_ASSERT_EQUAL_FATAL(kr_pending_pack_state(&a.trust.pending, first, RECORD_BYTES, &length), 0);
    CU_ASSERT_EQUAL_FATAL(kr_pending_unpack_state(&b.trust.pending, first, length), 0);
    b.market = a.market;
    b.random = a.random;
    b.row = a.row;
    run(&a, 301, 500);
    run(&b, 301, 500);
    length = pack(&a.trust, first);
    CU_ASSERT_EQUAL(pack(&b.trust, second), length);
    CU_ASSERT_EQUAL(memcmp(first, second, length), 0);
    kr_trust_free(&a.trust);
    kr_trust_free(&b.trust);
}

static void damaged_records(void)
{
    struct stream a, b;
    size_t length, before;

    open_stream(&a, kt_market(), 3, 8, 62);
    open_stream(&b, kt_market(), 3, 8, 63);
    run(&a, 0, 120);
    run(&b, 0, 80);
    CU_ASSERT_EQUAL_FATAL(kr_trust_pack(&a.trust, first, RECORD_BYTES, &length), 0);
    CU_ASSERT_EQUAL(kr_trust_pack(&a.trust, second, length - 1, &before), -ENOBUFS);
    before = pack(&b.trust, second);
    for (size_t i = 0; i < length; i++) {
        first[i] ^= 1;
        CU_ASSERT_EQUAL(kr_trust_unpack(&b.trust, first, length), -EBADMSG);
        first[i] ^= 1;
        CU_ASSERT_EQUAL(kr_trust_unpack(&b.trust, first, i), -EBADMSG);
    }
    b.trust.calibrator.id = 8;
    CU_ASSERT_EQUAL(kr_trust_unpack(&b.trust, first, length), -ESTALE);
    b.trust.calibrator.id = 7;
    CU_ASSERT_EQUAL(pack(&b.trust, first), before);
    CU_ASSERT_EQUAL(memcmp(first, second, before), 0);
    kr_trust_free(&a.trust);
    kr_trust_free(&b.trust);
}

/* Offsets: the walk 52 .. 99, the first horizon's n 100, its scores 108 .. 139, PIT bins 140 ..
 * 299, hits from 300. */
static void hostile_records(void)
{
    static const struct {
        size_t at, n;
        unsigned char bytes[8];
    } cases[] = {
        {52, 8, {0, 0, 0, 0, 0, 0, 0xf8, 0x7f}},  /* a close that is nan */
        {60, 8, {0, 0, 0, 0, 0, 0, 0xf0, 0xbf}},  /* squares of -1 */
        {100, 8, {1}},                            /* fewer outcomes than their bins hold */
        {100, 8, {0xff, 0xff}},                   /* more */
        {108, 8, {0, 0, 0, 0, 0, 0, 0xf0, 0x7f}}, /* an infinite score */
        {140, 8, {0xff, 0xff, 0xff, 0xff, 0xff}}, /* a bin of many */
        {300, 8, {0xff, 0xff, 0xff, 0xff, 0xff}}, /* more hits than outcomes */
    };
    struct stream a, b;
    size_t length, own, before;

    open_stream(&a, kt_market(), 3, 8, 64);
    open_stream(&b, kt_market(), 3, 8, 65);
    run(&a, 0, 120);
    CU_ASSERT_EQUAL_FATAL(kr_trust_pack(&a.trust, first, RECORD_BYTES, &length), 0);
    before = pack(&b.trust, second);
    own = (size_t)first[0] | (size_t)first[1] << 8;
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        unsigned char kept[8];
        uint32_t crc;

        memcpy(kept, first + cases[i].at, 8);
        memcpy(first + cases[i].at, cases[i].bytes, cases[i].n);
        crc = kr_crc32(first + 4, own - 4);
        for (size_t j = 0; j < 4; j++)
            first[own + j] = (unsigned char)(crc >> 8 * j);
        KT_CHECK(kr_trust_unpack(&b.trust, first, length) == -EBADMSG, "case %zu", i);
        memcpy(first + cases[i].at, kept, 8);
    }
    CU_ASSERT_EQUAL(pack(&b.trust, first), before);
    CU_ASSERT_EQUAL(memcmp(first, second, before), 0);
    kr_trust_free(&a.trust);
    kr_trust_free(&b.trust);
}

static void memory(void)
{
    struct kr_trust_config config = {.size = {24, 32, 7, 0}, .levels = levels};
    struct kr_trust trust = {.row = 99};
    struct stream stream;
    size_t before;

    kt_note("24 steps, 32 paths, 7 levels: %zu bytes", kr_trust_size_bytes(&config));
    CU_ASSERT(kr_trust_size_bytes(&config) > 24 * 32 * 4 * 33);
    CU_ASSERT(kr_trust_size_bytes(&config) < 262144);
    config.size.max_paths = SIZE_MAX / 4;
    CU_ASSERT_EQUAL(kr_trust_size_bytes(&config), 0);
    CU_ASSERT_EQUAL(kr_trust_init(&trust, &config, NULL), -ENOMEM);
    config.size.max_paths = 0;
    CU_ASSERT_EQUAL(kr_trust_init(&trust, &config, NULL), -EINVAL);
    CU_ASSERT_EQUAL(trust.row, 99);
    trust = (struct kr_trust){0};
    kr_trust_free(&trust);

    open_stream(&stream, kt_market(), 24, 32, 70);
    before = n_allocations;
    run(&stream, 0, 200);
    CU_ASSERT_EQUAL(n_allocations, before);
    kr_trust_free(&stream.trust);
    kr_trust_free(&stream.trust);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"true distribution", true_distribution},
        {"the walk against itself", walk_against_itself},
        {"a wrong forecaster", wrong_forecaster},
        {"one score by hand", one_score},
        {"stratified draws", stratified},
        {"bars out of order", bars_out_of_order},
        {"synthetic bars", synthetic_bars},
        {"a flat market", flat_market},
        {"status and reset", status_and_reset},
        {"stale", stale},
        {"replay", replay},
        {"restart", restart},
        {"damaged records", damaged_records},
        {"hostile records", hostile_records},
        {"memory", memory},
    };

    return kt_main("trust", tests, KR_ARRAY_LENGTH(tests));
}
