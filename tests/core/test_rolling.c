/* SPDX-License-Identifier: MIT */
/* Mode `rolling`: rings against a plain recomputation from the stream's first bar, and a stream that has
 * appended for long against a fresh replay of the receptive field, byte for byte, on the K and V of all four
 * caches and on the paths. */
#include "core/draw.h"
#include "core/rolling.h"
#include "tests/core/golden.h"
#include "tests/core/reference.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define HORIZON 6
#define PATHS   9 /* whose suffixes lie side by side */

/* Rows that go through the predictor, counted through the linker's --wrap. */
static size_t n_rows;

void __real_kr_predict_rows(struct kr_engine *engine, const struct kr_view *views,
                            const uint16_t *s1, const uint16_t *s2, const struct kr_stamp *stamps,
                            size_t n);
void __wrap_kr_predict_rows(struct kr_engine *engine, const struct kr_view *views,
                            const uint16_t *s1, const uint16_t *s2, const struct kr_stamp *stamps,
                            size_t n);

void __wrap_kr_predict_rows(struct kr_engine *engine, const struct kr_view *views,
                            const uint16_t *s1, const uint16_t *s2, const struct kr_stamp *stamps,
                            size_t n)
{
    n_rows += n;
    __real_kr_predict_rows(engine, views, s1, s2, stamps, n);
}

/* Bar i of an endless walk on a five-minute grid. */
static struct kr_bar bar_at(int64_t i)
{
    uint32_t at = (uint32_t)(i + 1000000);
    double a = kr_draw(3, 1, at, 0, 0), b = kr_draw(3, 1, at, 1, 0);
    double open = 50 + sin((double)i * 0.05), close = open * exp(0.004 * (a - 0.5));
    struct kr_bar bar = {.t_ns = i * 300 * INT64_C(1000000000)};

    bar.v[KR_OPEN] = open;
    bar.v[KR_CLOSE] = close;
    bar.v[KR_HIGH] = fmax(open, close) + 0.02 * b;
    bar.v[KR_LOW] = fmin(open, close) - 0.02 * a;
    bar.v[KR_VOLUME] = 10 + 5 * b;
    bar.v[KR_AMOUNT] = NAN;
    kr_bar_fill(bar.v);
    bar.stamp =
        (struct kr_stamp){(uint8_t)((i % 12 + 12) % 12 * 5), (uint8_t)((i / 12 % 24 + 24) % 24),
                          (uint8_t)((i / 288 % 7 + 7) % 7), 3, 4};
    return bar;
}

struct bench {
    struct kr_model *model;
    struct kr_engine engine;
    struct kr_generator generator;
    struct kr_paths paths[2];
    struct kr_live_config config;
    struct kr_stamp future[64];
    size_t horizon;
};

/* The golden pico with a small window and the built-in model's normaliser, or the built-in model itself. */
static void bench_open(struct bench *bench, size_t window, size_t horizon)
{
    struct kr_generator_size size;
    struct kr_error error = {""};
    struct kr_model *builtin = NULL;

    memset(bench, 0, sizeof(*bench));
    CU_ASSERT_EQUAL_FATAL(kr_model_load(kt_source("../etc/model/predictor"),
                                        kt_source("../etc/model/tokenizer"), &builtin, &error),
                          0);
    if (window) {
        bench->model = kt_model("pico");
        bench->model->normaliser = KR_RETURNS;
        bench->model->returns = builtin->returns;
        bench->model->attention_window = window;
        kr_model_free(&builtin);
    } else {
        bench->model = builtin;
    }
    bench->horizon = horizon;
    bench->config = (struct kr_live_config){.mode = KR_MODE_AUTO,
                                            .lookback = 64,
                                            .min_bars = 1,
                                            .horizon = horizon,
                                            .max_context = 512,
                                            .repair = true};
    CU_ASSERT_EQUAL_FATAL(kr_live_resolve(&bench->config, bench->model, "5m", "X", &error), 0);
    CU_ASSERT_EQUAL_FATAL(bench->config.mode, KR_MODE_ROLLING);
    size = kr_live_generator_size(&bench->config, PATHS);
    CU_ASSERT_EQUAL_FATAL(kr_engine_init(&bench->engine, bench->model, 1), 0);
    CU_ASSERT_EQUAL_FATAL(kr_generator_init(&bench->generator, bench->model, &size, &error), 0);
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(kr_paths_init(&bench->paths[i], PATHS, horizon), 0);
    for (size_t i = 0; i < horizon; i++)
        bench->future[i] = (struct kr_stamp){(uint8_t)(5 * i % 60), 7, 1, 2, 3};
}

static void bench_close(struct bench *bench)
{
    for (int i = 0; i < 2; i++)
        kr_paths_free(&bench->paths[i]);
    kr_generator_free(&bench->generator);
    kr_engine_free(&bench->engine);
    kr_model_free(&bench->model);
}

static struct kr_request request_of(const struct bench *bench, const struct kr_live *live)
{
    return (struct kr_request){.horizon = bench->horizon,
                               .paths = PATHS,
                               .sampling = {1.0, 0, 1.0, false},
                               .key = 5,
                               .as_of_ns = kr_series_last(&live->series)->t_ns,
                               .future = bench->future};
}

static struct kr_live_report forecast(struct bench *bench, struct kr_live *live,
                                      const struct kr_bar *overlay, struct kr_paths *ret)
{
    struct kr_request request = request_of(bench, live);
    struct kr_live_report report = {0};
    struct kr_error error = {""};
    int r;

    if (overlay)
        request.as_of_ns = overlay->t_ns;
    r = kr_live_forecast(live, &bench->engine, &bench->generator, &request, overlay, ret, &report,
                         &error);
    KT_CHECK(r == 0, "%s", error.text);
    return report;
}

static bool same_paths(const struct kr_paths *a, const struct kr_paths *b)
{
    size_t n = a->n_paths * a->n_steps;

    return memcmp(a->s1, b->s1, n * sizeof(*a->s1)) == 0 &&
           memcmp(a->s2, b->s2, n * sizeof(*a->s2)) == 0 &&
           memcmp(a->bars, b->bars, n * KR_COLUMNS * sizeof(float)) == 0;
}

/* The last n rows of all four caches. */
static bool same_rows(const struct kr_state *a, const struct kr_state *b, size_t n)
{
    static float k[2][1024], v[2][1024];

    for (int c = 0; c < KR_CACHES; c++) {
        const struct kr_cache *one = &a->caches[c], *two = &b->caches[c];
        size_t bytes = one->shape.n_heads * one->shape.head_dim * sizeof(float);

        if (one->first + (int64_t)one->len != two->first + (int64_t)two->len || one->len < n ||
            two->len < n)
            return false;
        for (size_t layer = 0; layer < one->shape.n_layers; layer++)
            for (size_t row = 1; row <= n; row++) {
                kr_cache_read(one, layer, one->len - row, k[0], v[0]);
                kr_cache_read(two, layer, two->len - row, k[1], v[1]);
                if (memcmp(k[0], k[1], bytes) != 0 || memcmp(v[0], v[1], bytes) != 0)
                    return false;
            }
    }
    return true;
}

/* A stream that has only the bars a replay needs, with their row numbers, against `live`. */
static void expect_replay(struct bench *bench, struct kr_live *live, const char *what)
{
    size_t keep = KR_MIN(live->series.len, kr_rolling_bars(bench->model));
    size_t rows = KR_MIN(live->series.len, bench->model->attention_window);
    struct kr_live fresh;

    CU_ASSERT_EQUAL_FATAL(kr_live_init(&fresh, bench->model, &bench->config, NULL), 0);
    fresh.series.next_row = live->series.next_row - (int64_t)keep;
    for (size_t i = live->series.len - keep; i < live->series.len; i++)
        CU_ASSERT_EQUAL(kr_live_apply(&fresh, &bench->engine, KR_HISTORY, &live->series.bars[i]),
                        0);
    forecast(bench, live, NULL, &bench->paths[0]);
    forecast(bench, &fresh, NULL, &bench->paths[1]);
    KT_CHECK(same_rows(&live->state, &fresh.state, rows), "%s: caches differ", what);
    KT_CHECK(same_paths(&bench->paths[0], &bench->paths[1]), "%s: paths differ", what);
    kr_live_free(&fresh);
}

static void push(struct bench *bench, struct kr_live *live, int64_t i)
{
    struct kr_bar bar = bar_at(i);

    CU_ASSERT_EQUAL(kr_live_apply(live, &bench->engine, KR_NEXT, &bar), 0);
}

/* Whole streams, from their first bar, recomputed without rings; suffixes shorter and longer than a ring. */
static void plain(void)
{
    static const struct {
        size_t window, bars, horizon;
    } cases[] = {{5, 40, 6}, {20, 50, 6}, {5, 30, 40}, {24, 7, 50}};

    for (size_t c = 0; c < KR_ARRAY_LENGTH(cases); c++) {
        size_t n = cases[c].bars, horizon = cases[c].horizon;
        struct bench bench;
        struct kr_live live;
        struct kr_bar bars[64];
        struct kr_stamp stamps[64];
        float x[64 * KR_COLUMNS], expected[64 * KR_COLUMNS];
        uint16_t s1[64], s2[64];
        struct kr_walk walk;
        size_t context;

        bench_open(&bench, cases[c].window, horizon);
        CU_ASSERT_EQUAL_FATAL(kr_live_init(&live, bench.model, &bench.config, NULL), 0);
        live.series.next_row = 777;
        kt_ref_first_row = 777;
        for (size_t i = 0; i < n; i++) {
            bars[i] = bar_at((int64_t)i);
            stamps[i] = bars[i].stamp;
            context = KR_MIN(i, bench.model->returns.config.bars);
            kr_returns_apply(&bench.model->returns, bars + i - context, context + 1,
                             x + i * KR_COLUMNS);
            push(&bench, &live, (int64_t)i);
        }
        context = KR_MIN(n, bench.model->returns.config.bars);
        kr_walk_start(&walk, &bench.model->returns, bars + n - context, context);
        forecast(&bench, &live, NULL, &bench.paths[0]);
        for (uint32_t path = 0; path < PATHS; path++) {
            struct kt_ref_request request = {.x = x,
                                             .stamps = stamps,
                                             .future = bench.future,
                                             .n = n,
                                             .horizon = horizon,
                                             .sampling = {1.0, 0, 1.0, false},
                                             .key = 5,
                                             .as_of_ns = bars[n - 1].t_ns,
                                             .path = path,
                                             .walk = &walk};
            size_t at = path * horizon;

            kt_ref_path(bench.model, &request, s1, s2, expected);
            KT_CHECK(memcmp(bench.paths[0].s1 + at, s1, horizon * sizeof(*s1)) == 0 &&
                         memcmp(bench.paths[0].s2 + at, s2, horizon * sizeof(*s2)) == 0,
                     "window %zu, %zu bars, path %u: ids differ", cases[c].window, n, path);
            KT_CHECK(memcmp(bench.paths[0].bars + at * KR_COLUMNS, expected,
                            horizon * KR_COLUMNS * sizeof(float)) == 0,
                     "window %zu, %zu bars, path %u: bars differ", cases[c].window, n, path);
        }
        kt_ref_first_row = 0;
        kr_live_free(&live);
        bench_close(&bench);
    }
}

/* The built-in model for 20,000 bars: the same bytes as a replay, the same work at each bar. */
static void for_long(void)
{
    size_t last = getenv("KT_SANITIZED") ? 2500 : 20000, per_bar = 0;
    struct bench bench;
    struct kr_live live;

    bench_open(&bench, 0, HORIZON);
    CU_ASSERT_EQUAL_FATAL(kr_live_init(&live, bench.model, &bench.config, NULL), 0);
    kt_note("receptive field %zu rows, %zu bars kept, %.1f MiB a stream",
            kr_rolling_field(bench.model), kr_rolling_bars(bench.model),
            (double)kr_live_size_bytes(bench.model, &bench.config) / (1 << 20));
    for (size_t i = 1; i <= last; i++) {
        n_rows = 0;
        push(&bench, &live, (int64_t)i);
        per_bar = KR_MAX(per_bar, n_rows);
        if (i == 1 || i == 100 || i == 1500 || i == last)
            expect_replay(&bench, &live, i == 1 ? "1 bar" : i == last ? "the last bar" : "a bar");
    }
    CU_ASSERT_EQUAL(per_bar, 1);
    CU_ASSERT_EQUAL(live.n_reanchored, 0);
    kr_live_free(&live);
    bench_close(&bench);
}

static void changes(void)
{
    struct bench bench;
    struct kr_live live;
    struct kr_bar bar;
    int64_t n = 900;

    bench_open(&bench, 20, HORIZON);
    CU_ASSERT_EQUAL_FATAL(kr_live_init(&live, bench.model, &bench.config, NULL), 0);
    for (int64_t i = 0; i < n; i++)
        if (i != n - 40)
            push(&bench, &live, i);
    /* the last bar, and the ninth last: truncated and appended */
    for (int64_t back = 1; back <= 9; back += 8) {
        bar = bar_at(n - back);
        bar.v[KR_CLOSE] = bar.v[KR_LOW];
        CU_ASSERT_EQUAL(kr_live_apply(&live, &bench.engine, KR_REVISED, &bar), 0);
        CU_ASSERT_EQUAL(live.n_reanchored, 0);
        expect_replay(&bench, &live, "revised in the ring");
    }
    bar = bar_at(n - 10);
    bar.v[KR_CLOSE] = bar.v[KR_HIGH];
    CU_ASSERT_EQUAL(kr_live_apply(&live, &bench.engine, KR_REVISED, &bar), 0);
    CU_ASSERT_EQUAL(live.n_reanchored, 1);
    expect_replay(&bench, &live, "the tenth last revised");
    /* a late bar renumbers what follows it */
    bar = bar_at(n - 40);
    CU_ASSERT_EQUAL(kr_live_apply(&live, &bench.engine, KR_LATE, &bar), 0);
    CU_ASSERT_EQUAL(live.n_reanchored, 2);
    CU_ASSERT_EQUAL(live.series.next_row, n);
    expect_replay(&bench, &live, "a late bar");
    CU_ASSERT_EQUAL(kr_live_apply(&live, &bench.engine, KR_LATE, &bar), -EEXIST);
    /* appended again after the replays, and behind a gap */
    push(&bench, &live, n);
    bar = bar_at(n + 500);
    CU_ASSERT_EQUAL(kr_live_apply(&live, &bench.engine, KR_REANCHOR, &bar), 0);
    expect_replay(&bench, &live, "behind a gap");
    kr_live_free(&live);
    bench_close(&bench);
}

/* History before the first bar has negative numbers, newest first as oldest first; a forming bar leaves nothing
 * behind. */
static void history_and_forming_of(bool oldest_first)
{
    struct bench bench;
    struct kr_live live, other;
    struct kr_bar bar;

    bench_open(&bench, 20, HORIZON);
    CU_ASSERT_EQUAL_FATAL(kr_live_init(&live, bench.model, &bench.config, NULL), 0);
    push(&bench, &live, 0);
    for (int64_t i = 1; i <= 60; i++) {
        bar = bar_at(oldest_first ? i - 61 : -i);
        CU_ASSERT_EQUAL(kr_live_apply(&live, &bench.engine, KR_LATE, &bar), 0);
    }
    CU_ASSERT_EQUAL(live.series.next_row, 1);
    expect_replay(&bench, &live, "history in front");
    push(&bench, &live, 1);
    expect_replay(&bench, &live, "and a bar behind it");

    CU_ASSERT_EQUAL_FATAL(kr_live_init(&other, bench.model, &bench.config, NULL), 0);
    other.series.next_row = -60;
    for (int64_t i = -60; i <= 2; i++)
        push(&bench, &other, i);
    bar = bar_at(2);
    CU_ASSERT_EQUAL(forecast(&bench, &live, &bar, &bench.paths[0]).mode, KR_MODE_ROLLING);
    forecast(&bench, &other, NULL, &bench.paths[1]);
    CU_ASSERT_TRUE(same_paths(&bench.paths[0], &bench.paths[1]));
    expect_replay(&bench, &live, "after a forming bar");
    push(&bench, &live, 2);
    forecast(&bench, &live, NULL, &bench.paths[0]);
    forecast(&bench, &other, NULL, &bench.paths[1]);
    CU_ASSERT_TRUE(same_paths(&bench.paths[0], &bench.paths[1]));
    kr_live_free(&other);
    kr_live_free(&live);
    bench_close(&bench);
}

static void history_and_forming(void)
{
    history_and_forming_of(false);
    history_and_forming_of(true);
}

/* `exact` is the replay itself; what a model cannot do is refused by name. */
static void modes(void)
{
    struct bench bench;
    struct kr_live live, exact;
    struct kr_live_config config;
    struct kr_live_report report;
    struct kr_error error;

    bench_open(&bench, 20, HORIZON);
    CU_ASSERT_EQUAL_FATAL(kr_live_init(&live, bench.model, &bench.config, NULL), 0);
    config = bench.config;
    config.mode = KR_MODE_EXACT;
    CU_ASSERT_EQUAL(kr_live_resolve(&config, bench.model, "5m", "X", &error), 0);
    CU_ASSERT_EQUAL_FATAL(kr_live_init(&exact, bench.model, &config, NULL), 0);
    for (int64_t i = 0; i < 200; i++) {
        push(&bench, &live, i);
        push(&bench, &exact, i);
    }
    CU_ASSERT_EQUAL(forecast(&bench, &live, NULL, &bench.paths[0]).mode, KR_MODE_ROLLING);
    report = forecast(&bench, &exact, NULL, &bench.paths[1]);
    CU_ASSERT_EQUAL(report.mode, KR_MODE_EXACT);
    CU_ASSERT_TRUE(same_paths(&bench.paths[0], &bench.paths[1]));
    config.mode = KR_MODE_ANCHORED;
    CU_ASSERT_EQUAL(kr_live_resolve(&config, bench.model, "5m", "X", &error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "normaliser = returns"));
    bench.model->normaliser = KR_LEVELS;
    config.mode = KR_MODE_AUTO;
    CU_ASSERT_EQUAL(kr_live_resolve(&config, bench.model, "5m", "X", &error), -EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "attention_window = 20"));
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "normaliser = levels"));
    bench.model->normaliser = KR_RETURNS;
    kr_live_free(&exact);
    kr_live_free(&live);
    bench_close(&bench);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"rings against a plain recomputation", plain},
        {"20,000 bars against a replay", for_long},
        {"revisions, late bars, gaps", changes},
        {"history and forming bars", history_and_forming},
        {"modes", modes},
    };

    kr_product_init();
    return kt_main("rolling", tests, KR_ARRAY_LENGTH(tests));
}
