/* SPDX-License-Identifier: MIT */
/* Live windows: what is encoded under which statistics, and when that changes. Every state is compared, byte
 * for byte, with a window encoded afresh. */
#include "core/draw.h"
#include "core/honest.h"
#include "core/live.h"
#include "core/summary.h"
#include "tests/allocations.h"
#include "tests/core/golden.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LOOKBACK 48
#define HORIZON  6
#define CONTEXT  120
#define PATHS    3
#define BARS     400

/* A random walk without drift, on a five-minute grid. */
static void make_bars(struct kr_bar *bars, size_t n)
{
    double price = 50;

    memset(bars, 0, n * sizeof(*bars));
    for (size_t i = 0; i < n; i++) {
        double a = kr_draw(1, 1, (uint32_t)i, 0, 0), b = kr_draw(1, 1, (uint32_t)i, 1, 0);
        double open = price, close = 50 + (price - 50) * 0.8 + 0.1 * (a - 0.5);

        bars[i].t_ns = (int64_t)(i + 1) * 300 * 1000000000;
        bars[i].v[KR_OPEN] = open;
        bars[i].v[KR_CLOSE] = close;
        bars[i].v[KR_HIGH] = fmax(open, close) + 0.01 * b;
        bars[i].v[KR_LOW] = fmin(open, close) - 0.01 * b;
        bars[i].v[KR_VOLUME] = 10 + 5 * b;
        bars[i].v[KR_AMOUNT] = NAN;
        kr_bar_fill(bars[i].v);
        bars[i].stamp = (struct kr_stamp){(uint8_t)(i * 5 % 60), (uint8_t)(i / 12 % 24), 2, 3, 4};
        price = close;
    }
}

struct bench {
    struct kr_model *model;
    struct kr_engine engine;
    struct kr_generator generator;
    struct kr_paths paths, others;
    struct kr_live live;
    struct kr_live_config config;
    struct kr_stamp future[HORIZON];
    struct kr_request request;
    struct kr_bar bars[BARS];
};

static struct kr_live_config config_of(enum kr_mode mode, struct kr_pool *pool)
{
    return (struct kr_live_config){.mode = mode,
                                   .lookback = LOOKBACK,
                                   .min_bars = 10,
                                   .horizon = HORIZON,
                                   .max_context = CONTEXT,
                                   .growth = 30,
                                   .drift_limit = 1, /* epochs of a length to reckon with */
                                   .scale = true,
                                   .join = true,
                                   .repair = true,
                                   .pool = pool};
}

static void bench_open(struct bench *bench, enum kr_mode mode)
{
    struct kr_generator_size size;

    memset(bench, 0, sizeof(*bench));
    bench->model = kt_model("pico");
    CU_ASSERT_PTR_NOT_NULL_FATAL(bench->model);
    bench->config = config_of(mode, NULL);
    CU_ASSERT_EQUAL_FATAL(kr_live_resolve(&bench->config, bench->model, "5m", "X", NULL), 0);
    size = kr_live_generator_size(&bench->config, PATHS);
    CU_ASSERT_EQUAL_FATAL(kr_engine_init(&bench->engine, bench->model, CONTEXT + 1), 0);
    CU_ASSERT_EQUAL_FATAL(kr_generator_init(&bench->generator, bench->model, &size, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(kr_paths_init(&bench->paths, PATHS, HORIZON), 0);
    CU_ASSERT_EQUAL_FATAL(kr_paths_init(&bench->others, PATHS, HORIZON), 0);
    CU_ASSERT_EQUAL_FATAL(kr_live_init(&bench->live, bench->model, &bench->config, NULL), 0);
    make_bars(bench->bars, BARS);
    for (size_t i = 0; i < HORIZON; i++)
        bench->future[i] = (struct kr_stamp){(uint8_t)(5 * i), 7, 1, 2, 3};
    bench->request = (struct kr_request){.horizon = HORIZON,
                                         .paths = PATHS,
                                         .sampling = {1.0, 0, 1.0, false},
                                         .key = 5,
                                         .future = bench->future};
}

static void bench_close(struct bench *bench)
{
    kr_live_free(&bench->live);
    kr_paths_free(&bench->paths);
    kr_paths_free(&bench->others);
    kr_generator_free(&bench->generator);
    kr_engine_free(&bench->engine);
    kr_model_free(&bench->model);
}

static void next(struct bench *bench, struct kr_live *live, const struct kr_bar *bar)
{
    CU_ASSERT_EQUAL(kr_live_apply(live, &bench->engine, KR_NEXT, bar), 0);
}

static struct kr_live_report forecast(struct bench *bench, struct kr_live *live,
                                      const struct kr_bar *overlay, struct kr_paths *ret)
{
    struct kr_live_report report = {0};
    struct kr_error error = {""};
    int r;

    bench->request.as_of_ns = overlay ? overlay->t_ns : kr_series_last(&live->series)->t_ns;
    r = kr_live_forecast(live, &bench->engine, &bench->generator, &bench->request, overlay, ret,
                         &report, &error);
    KT_CHECK(r == 0, "%s", error.text);
    return report;
}

static bool same_paths(const struct kr_paths *a, const struct kr_paths *b)
{
    size_t n = a->n_paths * a->n_steps;

    return a->n_paths == b->n_paths && a->n_steps == b->n_steps &&
           memcmp(a->s1, b->s1, n * sizeof(*a->s1)) == 0 &&
           memcmp(a->s2, b->s2, n * sizeof(*a->s2)) == 0 &&
           memcmp(a->bars, b->bars, n * KR_COLUMNS * sizeof(float)) == 0;
}

static bool same_caches(const struct kr_state *a, const struct kr_state *b)
{
    static float k[2][256], v[2][256];

    for (int c = 0; c < KR_CACHES; c++) {
        const struct kr_cache *one = &a->caches[c], *two = &b->caches[c];
        size_t bytes = one->shape.n_heads * one->shape.head_dim * sizeof(float);

        if (one->len != two->len)
            return false;
        for (size_t layer = 0; layer < one->shape.n_layers; layer++)
            for (size_t row = 0; row < one->len; row++) {
                kr_cache_read(one, layer, row, k[0], v[0]);
                kr_cache_read(two, layer, row, k[1], v[1]);
                if (memcmp(k[0], k[1], bytes) != 0 || memcmp(v[0], v[1], bytes) != 0)
                    return false;
            }
    }
    return a->len == b->len;
}

/* The live state and its forecast against `window` encoded afresh, statistics over its first anchor_n. */
static void expect_window(struct bench *bench, struct kr_live *live, const struct kr_bar *window,
                          size_t n, size_t anchor_n, enum kr_mode mode)
{
    struct kr_live_report report = forecast(bench, live, NULL, &bench->paths);
    struct kr_normaliser normaliser;
    struct kr_request request = bench->request;
    struct kr_state fresh;
    float x[KR_COLUMNS];

    CU_ASSERT_EQUAL(report.mode, mode);
    CU_ASSERT_EQUAL(report.bars, n);
    CU_ASSERT_EQUAL(report.anchor_n, anchor_n);
    CU_ASSERT_EQUAL(report.win_t0_ns, window[0].t_ns);
    CU_ASSERT_EQUAL_FATAL(kr_state_init(&fresh, bench->model, n, n), 0);
    kr_normaliser_fit(&normaliser, window, anchor_n, true);
    kr_state_reset(&fresh, &normaliser, 0);
    CU_ASSERT_TRUE(kr_state_append(&fresh, &bench->engine, window, n) >= 0);
    KT_CHECK(same_caches(&fresh, &live->state), "caches of %zu bars, %zu anchored", n, anchor_n);
    request.max_context = CONTEXT;
    request.join = true;
    {
        struct kr_bar last = window[n - 1];
        float close = ldexpf((float)last.v[KR_CLOSE], normaliser.exponent[KR_CLOSE]);

        kr_normaliser_apply(&normaliser, &last, x);
        request.last_close =
            (close - normaliser.mean[KR_CLOSE]) / (normaliser.std[KR_CLOSE] + 1e-5f);
    }
    CU_ASSERT_EQUAL(
        kr_generate(&bench->generator, &bench->engine, &fresh, &request, &bench->others, NULL), 0);
    for (size_t path = 0; path < PATHS; path++)
        kr_repair(bench->others.bars + path * HORIZON * KR_COLUMNS, HORIZON,
                  window[n - 1].v[KR_CLOSE]);
    KT_CHECK(same_paths(&bench->paths, &bench->others), "paths behind %zu bars, %zu anchored", n,
             anchor_n);
    kr_state_free(&fresh);
}

static void resolve(void)
{
    struct kr_live_config config = {
        .lookback = 400, .min_bars = 64, .horizon = 24, .max_context = 512};
    struct kr_live_config changed;
    struct kr_error error;

    changed = config;
    CU_ASSERT_EQUAL(kr_live_resolve(&changed, NULL, "1m", "X", &error), 0);
    CU_ASSERT_EQUAL(changed.mode, KR_MODE_ANCHORED);
    CU_ASSERT_EQUAL(changed.growth, 88 - kr_fnv1a64("1m|X") % 22);
    changed = config;
    changed.max_context = 2048;
    CU_ASSERT_EQUAL(kr_live_resolve(&changed, NULL, "1m", "X", &error), 0);
    CU_ASSERT_EQUAL(changed.growth, 200 - kr_fnv1a64("1m|X") % 50);
    changed = config;
    changed.horizon = 100; /* 12 rows of growth: too few */
    CU_ASSERT_EQUAL(kr_live_resolve(&changed, NULL, "1m", "X", &error), 0);
    CU_ASSERT_EQUAL(changed.mode, KR_MODE_EXACT);
    CU_ASSERT_EQUAL(changed.growth, 0);
    changed = config;
    changed.horizon = 5000;
    CU_ASSERT_EQUAL(kr_live_resolve(&changed, NULL, "1m", "X", &error), 0);
    CU_ASSERT_EQUAL(changed.mode, KR_MODE_EXACT);
    changed.mode = KR_MODE_ANCHORED;
    CU_ASSERT_EQUAL(kr_live_resolve(&changed, NULL, "1m", "X", &error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "growth"));
    changed = config;
    changed.mode = KR_MODE_ANCHORED;
    changed.growth = 100;
    CU_ASSERT_EQUAL(kr_live_resolve(&changed, NULL, "1m", "X", &error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "max_context"));
    changed = config;
    changed.mode = KR_MODE_ROLLING;
    CU_ASSERT_EQUAL(kr_live_resolve(&changed, NULL, "1m", "X", &error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "rolling"));
    changed = config;
    changed.min_bars = 401;
    CU_ASSERT_EQUAL(kr_live_resolve(&changed, NULL, "1m", "X", &error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "min_bars"));
}

/* Refused when it is built, in one line. */
static void undersized(void)
{
    struct kr_model *model = kt_model("pico");
    struct kr_generator_size size = {.max_paths = 2,
                                     .max_horizon = 24,
                                     .max_context = 512,
                                     .min_window = 400,
                                     .max_window = 488,
                                     .suffix_rows = 23};
    struct kr_generator generator;
    struct kr_state state;
    struct kr_error error = {""};

    CU_ASSERT_EQUAL(kr_generator_init(&generator, model, &size, &error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error.text,
                           "cache of a path: expected 24 rows for min(window 400 + horizon "
                           "24, max_context 512), found 23");
    size.suffix_rows = 24;
    CU_ASSERT_EQUAL(kr_generator_init(&generator, model, &size, &error), 0);
    kr_generator_free(&generator);
    size.max_window = 513;
    CU_ASSERT_EQUAL(kr_generator_init(&generator, model, &size, &error), -EINVAL);
    CU_ASSERT_EQUAL(kr_state_init(&state, model, 10, 9), -EINVAL);
    CU_ASSERT_EQUAL(kr_state_init(&state, model, 0, 0), -EINVAL);
    kr_model_free(&model);
}

static void exact(void)
{
    static struct bench bench;

    bench_open(&bench, KR_MODE_EXACT);
    for (size_t i = 0; i < 70; i++) {
        struct kr_error error = {""};
        struct kr_live_report report;

        next(&bench, &bench.live, &bench.bars[i]);
        if (i + 1 < 10) {
            CU_ASSERT_EQUAL(kr_live_forecast(&bench.live, &bench.engine, &bench.generator,
                                             &bench.request, NULL, &bench.paths, &report, &error),
                            -EAGAIN);
        } else if (i % 9 == 0 || i > 60) {
            size_t n = KR_MIN(i + 1, (size_t)LOOKBACK);

            expect_window(&bench, &bench.live, bench.bars + i + 1 - n, n, n, KR_MODE_EXACT);
        }
    }
    bench_close(&bench);
}

/* Epochs without a drift: where they begin and end, and what they hold. */
static void epochs(void)
{
    static struct bench bench;
    struct kr_pool *pool = NULL;
    struct kr_live pooled;
    struct kr_live_config config;
    size_t first = 0, growth, changes = 0;
    const float *addresses[2 * KR_CACHES];

    bench_open(&bench, KR_MODE_ANCHORED);
    growth = bench.config.growth;
    CU_ASSERT_EQUAL(growth, 30 - kr_fnv1a64("5m|X") % 7);
    CU_ASSERT_EQUAL_FATAL(kr_pool_new(bench.model, 1, LOOKBACK + KR_EPOCH_DELAY, &pool), 0);
    config = bench.config;
    config.pool = pool;
    CU_ASSERT_EQUAL_FATAL(kr_live_init(&pooled, bench.model, &config, NULL), 0);
    for (int c = 0; c < KR_CACHES; c++) {
        addresses[2 * c] = pooled.state.caches[c].k;
        addresses[2 * c + 1] = pooled.state.caches[c].v;
    }
    for (size_t i = 0; i < 200; i++) {
        size_t n = i + 1 - first;

        next(&bench, &bench.live, &bench.bars[i]);
        next(&bench, &pooled, &bench.bars[i]);
        if (i + 1 >= LOOKBACK && n == LOOKBACK + growth) {
            /* the last 8 of the old window's growth were beside the new one, which begins later */
            first = i + 1 - LOOKBACK - KR_EPOCH_DELAY;
            n = LOOKBACK + KR_EPOCH_DELAY;
            changes++;
        }
        if (i + 1 < LOOKBACK && i + 1 >= 10 && i % 10 == 0)
            expect_window(&bench, &bench.live, bench.bars, i + 1, i + 1, KR_MODE_EXACT);
        if (i + 1 < LOOKBACK || (i % 7 != 0 && n > LOOKBACK + KR_EPOCH_DELAY + 1))
            continue;
        expect_window(&bench, &bench.live, bench.bars + first, n, LOOKBACK, KR_MODE_ANCHORED);
        expect_window(&bench, &pooled, bench.bars + first, n, LOOKBACK, KR_MODE_ANCHORED);
        CU_ASSERT_EQUAL(bench.live.epoch, changes + 1);
        CU_ASSERT_EQUAL(pooled.epoch, changes + 1);
    }
    CU_ASSERT_EQUAL(bench.live.n_drifted, 0);
    KT_CHECK(changes >= 4, "%zu epoch changes", changes);
    CU_ASSERT_EQUAL(bench.live.n_waited, changes); /* no pool: encoded at the swap */
    CU_ASSERT_EQUAL(pooled.n_waited, 0);
    for (int c = 0; c < KR_CACHES; c++) {
        CU_ASSERT_PTR_EQUAL(addresses[2 * c], pooled.state.caches[c].k);
        CU_ASSERT_PTR_EQUAL(addresses[2 * c + 1], pooled.state.caches[c].v);
    }
    kr_live_free(&pooled);
    kr_pool_free(&pool);
    bench_close(&bench);
}

/* A jump freezes the next epoch at once; it takes over eight bars later. */
static void drift(void)
{
    static struct bench bench;

    bench_open(&bench, KR_MODE_ANCHORED);
    for (size_t i = 0; i < LOOKBACK + 2; i++)
        next(&bench, &bench.live, &bench.bars[i]);
    CU_ASSERT_EQUAL(bench.live.epoch, 1);
    CU_ASSERT_EQUAL(bench.live.n_drifted, 0);
    for (size_t i = LOOKBACK + 2; i < LOOKBACK + 11; i++) {
        for (int c = KR_OPEN; c <= KR_CLOSE; c++)
            bench.bars[i].v[c] += 5;
        next(&bench, &bench.live, &bench.bars[i]);
        CU_ASSERT_EQUAL(bench.live.n_drifted, 1);
        CU_ASSERT_EQUAL(bench.live.epoch, i == LOOKBACK + 10 ? 2 : 1);
        if (i < LOOKBACK + 10)
            CU_ASSERT_TRUE(forecast(&bench, &bench.live, NULL, &bench.paths).clipped);
    }
    expect_window(&bench, &bench.live, bench.bars + 3, LOOKBACK + 8, LOOKBACK, KR_MODE_ANCHORED);
    bench_close(&bench);
}

static void revisions(void)
{
    static struct bench bench;
    struct kr_bar revised;
    size_t n = LOOKBACK + 5;

    bench_open(&bench, KR_MODE_ANCHORED);
    for (size_t i = 0; i < n; i++)
        next(&bench, &bench.live, &bench.bars[i]);
    /* the last bar: truncate and append */
    revised = bench.bars[n - 1];
    revised.v[KR_CLOSE] = revised.v[KR_LOW];
    CU_ASSERT_EQUAL(kr_live_apply(&bench.live, &bench.engine, KR_REVISED, &revised), 0);
    bench.bars[n - 1] = revised;
    CU_ASSERT_EQUAL(bench.live.epoch, 1);
    expect_window(&bench, &bench.live, bench.bars, n, LOOKBACK, KR_MODE_ANCHORED);
    /* a deeper one: a new epoch at once */
    revised = bench.bars[n - 10];
    revised.v[KR_CLOSE] = revised.v[KR_HIGH];
    CU_ASSERT_EQUAL(kr_live_apply(&bench.live, &bench.engine, KR_REVISED, &revised), 0);
    bench.bars[n - 10] = revised;
    CU_ASSERT_EQUAL(bench.live.epoch, 2);
    CU_ASSERT_EQUAL(bench.live.n_reanchored, 1);
    expect_window(&bench, &bench.live, bench.bars + 5, LOOKBACK, LOOKBACK, KR_MODE_ANCHORED);
    /* older than the window: kept, nothing encoded changes */
    revised = bench.bars[2];
    revised.v[KR_CLOSE] = revised.v[KR_HIGH];
    CU_ASSERT_EQUAL(kr_live_apply(&bench.live, &bench.engine, KR_REVISED, &revised), 0);
    CU_ASSERT_EQUAL(bench.live.epoch, 2);
    revised.t_ns += 1;
    CU_ASSERT_EQUAL(kr_live_apply(&bench.live, &bench.engine, KR_REVISED, &revised), -ENOENT);
    /* behind a gap that wants a new epoch */
    CU_ASSERT_EQUAL(kr_live_apply(&bench.live, &bench.engine, KR_REANCHOR, &bench.bars[n]), 0);
    CU_ASSERT_EQUAL(bench.live.epoch, 3);
    expect_window(&bench, &bench.live, bench.bars + 6, LOOKBACK, LOOKBACK, KR_MODE_ANCHORED);
    bench_close(&bench);
}

/* A late bar is stored and enters with the next epoch, with or without a spare under way. */
static void late(void)
{
    static struct bench bench;
    static struct kr_bar seen[BARS];
    struct kr_pool *pool = NULL;
    size_t growth, missing = LOOKBACK - 5, n = 0, i = 0;

    bench_open(&bench, KR_MODE_ANCHORED);
    CU_ASSERT_EQUAL_FATAL(kr_pool_new(bench.model, 1, LOOKBACK + KR_EPOCH_DELAY, &pool), 0);
    bench.live.config.pool = pool;
    growth = bench.config.growth;
    for (; n < LOOKBACK + growth - 3; i++)
        if (i != missing) {
            next(&bench, &bench.live, &bench.bars[i]);
            seen[n++] = bench.bars[i];
        }
    CU_ASSERT_PTR_NOT_NULL(bench.live.spare); /* pending since 8 were left */
    CU_ASSERT_EQUAL(kr_live_apply(&bench.live, &bench.engine, KR_LATE, &bench.bars[missing]), 0);
    CU_ASSERT_EQUAL(kr_live_apply(&bench.live, &bench.engine, KR_LATE, &bench.bars[missing]),
                    -EEXIST);
    expect_window(&bench, &bench.live, seen, n, LOOKBACK, KR_MODE_ANCHORED);
    for (; bench.live.epoch == 1; i++)
        next(&bench, &bench.live, &bench.bars[i]);
    /* the window is the last lookback + 8 bars, the late one among them; its statistics were frozen before
     * it came, so only the caches' sizes and the first bar can be told here */
    CU_ASSERT_EQUAL(bench.live.state.len, LOOKBACK + KR_EPOCH_DELAY);
    CU_ASSERT_EQUAL(bench.live.window_t0_ns, bench.bars[i - LOOKBACK - KR_EPOCH_DELAY].t_ns);
    {
        struct kr_state fresh;

        CU_ASSERT_EQUAL_FATAL(kr_state_init(&fresh, bench.model, CONTEXT, CONTEXT), 0);
        kr_state_reset(&fresh, &bench.live.state.normaliser, 0);
        CU_ASSERT_TRUE(kr_state_append(&fresh, &bench.engine,
                                       bench.bars + i - LOOKBACK - KR_EPOCH_DELAY,
                                       LOOKBACK + KR_EPOCH_DELAY) >= 0);
        CU_ASSERT_TRUE(same_caches(&fresh, &bench.live.state));
        kr_state_free(&fresh);
    }
    bench_close(&bench);
    kr_pool_free(&pool);
}

/* A forming bar is laid over and taken off; what follows is as if it had never been. */
static void overlay(void)
{
    static struct bench bench;
    static const enum kr_mode modes[] = {KR_MODE_ANCHORED, KR_MODE_EXACT};

    for (size_t m = 0; m < KR_ARRAY_LENGTH(modes); m++) {
        struct kr_live other;
        struct kr_live_report report;
        size_t n = LOOKBACK + 3;

        bench_open(&bench, modes[m]);
        CU_ASSERT_EQUAL_FATAL(kr_live_init(&other, bench.model, &bench.config, NULL), 0);
        for (size_t i = 0; i < n; i++) {
            next(&bench, &bench.live, &bench.bars[i]);
            next(&bench, &other, &bench.bars[i]);
        }
        report = forecast(&bench, &bench.live, &bench.bars[n], &bench.paths);
        CU_ASSERT_EQUAL(report.mode, modes[m]);
        next(&bench, &other, &bench.bars[n]);
        forecast(&bench, &other, NULL, &bench.others);
        KT_CHECK(same_paths(&bench.paths, &bench.others), "overlaid as appended, %s",
                 kr_mode_names[modes[m]]);
        kr_live_free(&other);
        expect_window(&bench, &bench.live, bench.bars + (modes[m] == KR_MODE_EXACT ? 3 : 0),
                      modes[m] == KR_MODE_EXACT ? LOOKBACK : n, LOOKBACK, modes[m]);
        /* and with the very bar that would begin the first epoch */
        bench_close(&bench);
        bench_open(&bench, modes[m]);
        for (size_t i = 0; i + 1 < LOOKBACK; i++)
            next(&bench, &bench.live, &bench.bars[i]);
        forecast(&bench, &bench.live, &bench.bars[LOOKBACK], &bench.paths);
        expect_window(&bench, &bench.live, bench.bars, LOOKBACK - 1, LOOKBACK - 1, KR_MODE_EXACT);
        next(&bench, &bench.live, &bench.bars[LOOKBACK - 1]);
        expect_window(&bench, &bench.live, bench.bars, LOOKBACK, LOOKBACK, modes[m]);
        bench_close(&bench);
    }
}

/* History is only stored; the epoch begins with the first bar that is forecast behind. */
static void history(void)
{
    static struct bench bench;

    bench_open(&bench, KR_MODE_ANCHORED);
    for (size_t i = 0; i < 100; i++)
        CU_ASSERT_EQUAL(kr_live_apply(&bench.live, &bench.engine, KR_HISTORY, &bench.bars[i]), 0);
    CU_ASSERT_EQUAL(bench.live.epoch, 0);
    expect_window(&bench, &bench.live, bench.bars + 100 - LOOKBACK, LOOKBACK, LOOKBACK,
                  KR_MODE_ANCHORED);
    CU_ASSERT_EQUAL(bench.live.epoch, 1);
    bench_close(&bench);
}

static void flat(void)
{
    static struct bench bench;
    struct kr_live_report report;

    bench_open(&bench, KR_MODE_EXACT);
    for (size_t i = 0; i < 20; i++) {
        for (int c = KR_OPEN; c <= KR_CLOSE; c++)
            bench.bars[i].v[c] = 0.1;
        next(&bench, &bench.live, &bench.bars[i]);
    }
    report = forecast(&bench, &bench.live, NULL, &bench.paths);
    CU_ASSERT_TRUE(report.flat);
    for (size_t i = 0; i < PATHS * HORIZON; i++)
        for (int c = KR_OPEN; c <= KR_CLOSE; c++)
            CU_ASSERT_EQUAL(bench.paths.bars[i * KR_COLUMNS + c], 0.1f);
    next(&bench, &bench.live, &bench.bars[20]);
    CU_ASSERT_FALSE(forecast(&bench, &bench.live, NULL, &bench.paths).flat);
    bench_close(&bench);
}

/* With `scale`, prices times a power of two give the same bytes, scaled. */
static void scaled(void)
{
    static struct bench bench;
    static const int exponents[] = {20, -20};

    for (size_t e = 0; e < KR_ARRAY_LENGTH(exponents); e++) {
        size_t n = PATHS * HORIZON;

        bench_open(&bench, KR_MODE_ANCHORED);
        for (size_t i = 0; i < LOOKBACK + 9; i++)
            next(&bench, &bench.live, &bench.bars[i]);
        forecast(&bench, &bench.live, NULL, &bench.others);
        kr_live_free(&bench.live);
        CU_ASSERT_EQUAL_FATAL(kr_live_init(&bench.live, bench.model, &bench.config, NULL), 0);
        for (size_t i = 0; i < LOOKBACK + 9; i++) {
            for (int c = KR_OPEN; c <= KR_CLOSE; c++)
                bench.bars[i].v[c] = ldexp(bench.bars[i].v[c], exponents[e]);
            next(&bench, &bench.live, &bench.bars[i]);
        }
        forecast(&bench, &bench.live, NULL, &bench.paths);
        CU_ASSERT_EQUAL(memcmp(bench.paths.s1, bench.others.s1, n * sizeof(*bench.paths.s1)), 0);
        for (size_t i = 0; i < n; i++)
            for (int c = KR_OPEN; c <= KR_CLOSE; c++)
                CU_ASSERT_EQUAL(bench.paths.bars[i * KR_COLUMNS + c],
                                ldexpf(bench.others.bars[i * KR_COLUMNS + c], exponents[e]));
        bench_close(&bench);
    }
}

/* Once warm, a bar takes no memory: append, epoch changes, forecast, statistics. */
static void no_allocation(void)
{
    static struct bench bench;
    static const double levels[] = {0.05, 0.5, 0.95};
    struct kr_pool *pool = NULL;
    struct kr_summary summary;
    size_t before;

    bench_open(&bench, KR_MODE_ANCHORED);
    CU_ASSERT_EQUAL_FATAL(kr_pool_new(bench.model, 1, LOOKBACK + KR_EPOCH_DELAY, &pool), 0);
    bench.live.config.pool = pool;
    CU_ASSERT_EQUAL_FATAL(kr_summary_init(&summary, HORIZON, PATHS, levels, 3, NULL), 0);
    for (size_t i = 0; i < LOOKBACK; i++)
        next(&bench, &bench.live, &bench.bars[i]);
    forecast(&bench, &bench.live, NULL, &bench.paths);
    before = kt_allocations();
    for (size_t i = LOOKBACK; i < LOOKBACK + 60; i++) {
        next(&bench, &bench.live, &bench.bars[i]);
        forecast(&bench, &bench.live, NULL, &bench.paths);
        kr_summary_compute(&summary, bench.paths.bars, PATHS, HORIZON, bench.bars[i].v[KR_CLOSE]);
    }
    CU_ASSERT_EQUAL(kt_allocations(), before);
    KT_CHECK(before > 10, "the count works: %zu before", before);
    CU_ASSERT_TRUE(bench.live.epoch > 1);
    kr_summary_free(&summary);
    bench_close(&bench);
    kr_pool_free(&pool);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"modes and growth are settled", resolve},
        {"undersized caches are refused", undersized},
        {"exact windows", exact},
        {"anchored epochs, with and without a spare", epochs},
        {"drift", drift},
        {"revisions and gaps", revisions},
        {"late bars", late},
        {"forming bars", overlay},
        {"history", history},
        {"flat series", flat},
        {"scale by powers of two", scaled},
        {"a warm bar allocates nothing", no_allocation},
    };

    kr_product_init();
    return kt_main("live", tests, KR_ARRAY_LENGTH(tests));
}
