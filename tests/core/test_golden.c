/* SPDX-License-Identifier: MIT */
/* The public reference's own numbers: stage by stage from the file's mean, std and x_norm, and end to end
 * from the bars. Tolerances are those of golden/README.md. */
#include "core/live.h"
#include "tests/core/golden.h"
#include "tests/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STAGE      2e-5 /* absolute, logits and decoded rows */
#define END_TO_END 1e-4 /* of the column's std + 1e-5 */

/* Everything that a forecast needs, at one max_context. */
struct bench {
    struct kr_model *model;
    struct kr_engine engine;
    struct kr_generator generator;
    struct kr_paths paths;
    float *s1_logits, *s2_logits;
};

static void bench_open_model(struct bench *bench, struct kr_model *model, size_t paths,
                             size_t horizon, size_t max_context, size_t window)
{
    struct kr_generator_size size = {.max_paths = paths,
                                     .max_horizon = horizon,
                                     .max_context = max_context,
                                     .min_window = 1,
                                     .max_window = KR_MIN(window, max_context)};
    struct kr_error error = {""};
    size_t vocabulary;

    memset(bench, 0, sizeof(*bench));
    bench->model = model;
    vocabulary = model->predictor.vocabulary;
    CU_ASSERT_EQUAL_FATAL(
        kr_engine_init(&bench->engine, bench->model, max_context + window + horizon + 64), 0);
    CU_ASSERT_EQUAL_FATAL(kr_generator_init(&bench->generator, bench->model, &size, &error), 0);
    CU_ASSERT_EQUAL_FATAL(kr_paths_init(&bench->paths, paths, horizon), 0);
    bench->s1_logits = kr_alloc(horizon * vocabulary, sizeof(float));
    bench->s2_logits = kr_alloc(horizon * vocabulary, sizeof(float));
}

static void bench_open(struct bench *bench, const char *name, size_t paths, size_t horizon,
                       size_t max_context, size_t window)
{
    struct kr_model *model = kt_model(name);

    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    bench_open_model(bench, model, paths, horizon, max_context, window);
}

static void bench_close(struct bench *bench)
{
    free(bench->s1_logits);
    free(bench->s2_logits);
    kr_paths_free(&bench->paths);
    kr_generator_free(&bench->generator);
    kr_engine_free(&bench->engine);
    kr_model_free(&bench->model);
}

static size_t ids_wrong(const uint16_t *ours, const int64_t *theirs, size_t n)
{
    size_t wrong = 0;

    for (size_t i = 0; i < n; i++)
        wrong += ours[i] != theirs[i];
    return wrong;
}

/* Forecast difference in units of std + 1e-5, over n rows. */
static double forecast_difference(const float *ours, const float *theirs, size_t n,
                                  const struct kr_normaliser *normaliser)
{
    double most = 0;

    for (size_t i = 0; i < n * KR_COLUMNS; i++) {
        double unit = normaliser->std[i % KR_COLUMNS] + 1e-5;

        most = fmax(most, fabs((double)ours[i] - theirs[i]) / unit);
    }
    return most;
}

static void use_file_normaliser(struct kt_golden *golden, struct kr_normaliser *ret)
{
    const float *mean = kt_floats(golden, "mean", NULL, NULL);
    const float *std = kt_floats(golden, "std", NULL, NULL);

    memset(ret, 0, sizeof(*ret));
    memcpy(ret->mean, mean, sizeof(ret->mean));
    memcpy(ret->std, std, sizeof(ret->std));
}

static void greedy_encode(struct bench *bench, struct kt_golden *golden, const float *x, size_t n)
{
    struct kr_cache_shape shape = kr_cache_shape_of(bench->model, KR_CACHE_ENCODER);
    size_t n_bits = bench->model->tokenizer.n_bits, wrong = 0;
    const float *expected = kt_floats(golden, "quant_pre_sign", NULL, NULL);
    const int64_t *s1 = kt_ints(golden, "s1", NULL, NULL), *s2 = kt_ints(golden, "s2", NULL, NULL);
    struct kr_cache cache;
    double most = 0;

    CU_ASSERT_EQUAL_FATAL(kr_cache_init(&cache, &shape, n), 0);
    for (size_t i = 0; i < n; i++) {
        struct kr_view view = {.own = &cache, .index = i, .position = i};
        uint16_t ours1, ours2;
        float z[32];

        kr_encode_rows(&bench->engine, &view, x + i * KR_COLUMNS, 1, &ours1, &ours2, z);
        CU_ASSERT_EQUAL(kr_cache_append(&cache, 1), 0);
        most = fmax(most, kt_max_difference(z, expected + i * n_bits, n_bits));
        wrong += ids_wrong(&ours1, &s1[i], 1) + ids_wrong(&ours2, &s2[i], 1);
    }
    kr_cache_free(&cache);
    kt_within(golden, "quant_pre_sign", most, STAGE);
    KT_CHECK(wrong == 0, "%s: %zu ids differ", golden->path, wrong);
}

/* One decoder window over lookback and generated ids. */
static void greedy_decode(struct bench *bench, struct kt_golden *golden, size_t n, size_t horizon)
{
    struct kr_cache_shape shape = kr_cache_shape_of(bench->model, KR_CACHE_DECODER);
    const float *expected = kt_floats(golden, "decoded_norm", NULL, NULL);
    const int64_t *s1 = kt_ints(golden, "s1", NULL, NULL), *s2 = kt_ints(golden, "s2", NULL, NULL);
    const int64_t *g1 = kt_ints(golden, "gen_s1", NULL, NULL);
    const int64_t *g2 = kt_ints(golden, "gen_s2", NULL, NULL);
    struct kr_cache cache;
    double most = 0;

    CU_ASSERT_EQUAL_FATAL(kr_cache_init(&cache, &shape, n + horizon), 0);
    for (size_t i = 0; i < n + horizon; i++) {
        struct kr_view view = {.own = &cache, .index = i, .position = i};
        uint16_t id1 = (uint16_t)(i < n ? s1[i] : g1[i - n]);
        uint16_t id2 = (uint16_t)(i < n ? s2[i] : g2[i - n]);
        float y[KR_COLUMNS];

        kr_decode_rows(&bench->engine, &view, &id1, &id2, 1, y);
        CU_ASSERT_EQUAL(kr_cache_append(&cache, 1), 0);
        most = fmax(most, kt_max_difference(y, expected + i * KR_COLUMNS, KR_COLUMNS));
    }
    kr_cache_free(&cache);
    kt_within(golden, "decoded_norm", most, STAGE);
}

static struct kr_request request_of(const struct kt_golden *golden, const struct kr_stamp *future)
{
    return (struct kr_request){
        .horizon = (size_t)kt_setting(golden, "pred_len"),
        .paths = (size_t)kt_setting(golden, "paths"),
        .max_context = kr_safetensors_metadata(golden->file, "max_context")
                           ? (size_t)kt_setting(golden, "max_context")
                           : 0, /* rolling: none */
        .sampling = {.temperature = kt_setting(golden, "T"),
                     .top_k = (size_t)kt_setting(golden, "top_k"),
                     .top_p = kt_setting(golden, "top_p")},
        .future = future,
    };
}

static void greedy_of(const char *name)
{
    struct kt_golden golden;
    struct bench bench;
    struct kr_normaliser normaliser;
    struct kr_state state;
    struct kr_request request;
    size_t n, horizon, vocabulary;
    struct kr_bar *bars;
    struct kr_stamp *stamps;
    const float *x, *forecast;
    float ours[KR_COLUMNS];
    double most = 0;

    if (!kt_golden_open(&golden, name, "greedy"))
        return;
    bars = kt_bars(&golden, &n);
    x = kt_floats(&golden, "x_norm", NULL, NULL);
    horizon = (size_t)kt_setting(&golden, "pred_len");
    bench_open(&bench, name, 1, horizon, (size_t)kt_setting(&golden, "max_context"), n);
    vocabulary = bench.model->predictor.vocabulary;

    /* calendar and normalised inputs */
    stamps = kt_stamps(&golden, kt_ints(&golden, "ts_ns", NULL, NULL), n);
    {
        const int64_t *calendar = kt_ints(&golden, "calendar", NULL, NULL);

        for (size_t i = 0; i < n; i++) {
            CU_ASSERT_EQUAL(stamps[i].minute, calendar[i * 5]);
            CU_ASSERT_EQUAL(stamps[i].hour, calendar[i * 5 + 1]);
            CU_ASSERT_EQUAL(stamps[i].weekday, calendar[i * 5 + 2]);
            CU_ASSERT_EQUAL(stamps[i].day, calendar[i * 5 + 3]);
            CU_ASSERT_EQUAL(stamps[i].month, calendar[i * 5 + 4]);
        }
    }
    use_file_normaliser(&golden, &normaliser);
    for (size_t i = 0; i < n; i++) {
        kr_normaliser_apply(&normaliser, &bars[i], ours);
        most = fmax(most, kt_max_difference(ours, x + i * KR_COLUMNS, KR_COLUMNS));
    }
    kt_within(&golden, "x_norm", most, STAGE);
    {
        struct kr_normaliser own;
        double mean = 0, std = 0;

        kr_normaliser_fit(&own, bars, n, false);
        for (int c = 0; c < KR_COLUMNS; c++) {
            mean = fmax(mean, fabs((double)own.mean[c] - normaliser.mean[c]) /
                                  (normaliser.std[c] + 1e-5));
            std = fmax(std,
                       fabs((double)own.std[c] - normaliser.std[c]) / (normaliser.std[c] + 1e-5));
        }
        kt_within(&golden, "mean (of std)", mean, END_TO_END);
        kt_within(&golden, "std (of std)", std, END_TO_END);
    }
    greedy_encode(&bench, &golden, x, n);

    /* every step's logits, from the file's x_norm */
    CU_ASSERT_EQUAL_FATAL(kr_state_init(&state, bench.model, n, n), 0);
    kr_state_reset(&state, &normaliser, 0);
    CU_ASSERT_EQUAL(kr_state_append_normalised(&state, &bench.engine, x, stamps, n), 0);
    request = request_of(&golden,
                         kt_stamps(&golden, kt_ints(&golden, "future_ts_ns", NULL, NULL), horizon));
    request.ret_s1_logits = bench.s1_logits;
    request.ret_s2_logits = bench.s2_logits;
    CU_ASSERT_EQUAL(
        kr_generate(&bench.generator, &bench.engine, &state, &request, &bench.paths, NULL), 0);
    kt_within(&golden, "step_s1_logits",
              kt_max_difference(bench.s1_logits, kt_floats(&golden, "step_s1_logits", NULL, NULL),
                                horizon * vocabulary),
              STAGE);
    kt_within(&golden, "step_s2_logits",
              kt_max_difference(bench.s2_logits, kt_floats(&golden, "step_s2_logits", NULL, NULL),
                                horizon * vocabulary),
              STAGE);
    CU_ASSERT_EQUAL(ids_wrong(bench.paths.s1, kt_ints(&golden, "gen_s1", NULL, NULL), horizon), 0);
    CU_ASSERT_EQUAL(ids_wrong(bench.paths.s2, kt_ints(&golden, "gen_s2", NULL, NULL), horizon), 0);
    greedy_decode(&bench, &golden, n, horizon);
    forecast = kt_floats(&golden, "forecast", NULL, NULL);
    kt_within(&golden, "forecast (of std)",
              forecast_difference(bench.paths.bars, forecast, horizon, &normaliser), END_TO_END);
    kr_state_free(&state);
    bench_close(&bench);
    kt_golden_close(&golden);
}

static void greedy(void)
{
    greedy_of("pico");
    greedy_of("odd");
}

/* From the bars alone, raw, through the live window: ids and forecasts. */
static void end_to_end(const char *name, const char *which, const char *ids1, const char *ids2,
                       const char *bars_tensor)
{
    struct kt_golden golden;
    struct bench bench;
    struct kr_live live;
    struct kr_live_report report;
    struct kr_request request;
    struct kr_normaliser normaliser;
    struct kr_error error = {""};
    size_t n;
    struct kr_bar *bars;
    int r;

    if (!kt_golden_open(&golden, name, which))
        return;
    bars = kt_bars(&golden, &n);
    request = request_of(&golden, NULL);
    request.future =
        kt_stamps(&golden, kt_ints(&golden, "future_ts_ns", NULL, NULL), request.horizon);
    if (kr_safetensors_find(golden.file, "uniforms"))
        request.uniforms = kt_doubles(&golden, "uniforms", NULL);
    bench_open(&bench, name, request.paths, request.horizon, request.max_context, n);
    {
        struct kr_live_config config = {.mode = KR_MODE_EXACT,
                                        .lookback = n,
                                        .min_bars = n,
                                        .horizon = request.horizon,
                                        .max_context = request.max_context};

        CU_ASSERT_EQUAL_FATAL(kr_live_init(&live, bench.model, &config, &error), 0);
    }
    for (size_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL(kr_live_apply(&live, &bench.engine, KR_NEXT, &bars[i]), 0);
    request.ret_s1_logits = bench.s1_logits;
    request.ret_s2_logits = bench.s2_logits;
    r = kr_live_forecast(&live, &bench.engine, &bench.generator, &request, NULL, &bench.paths,
                         &report, &error);
    KT_CHECK(r == 0, "%s: %s", golden.path, error.text);
    CU_ASSERT_EQUAL(report.window_slid, n + request.horizon > request.max_context);
    CU_ASSERT_EQUAL(report.bars, KR_MIN(n, request.max_context));
    CU_ASSERT_EQUAL(report.anchor_n, n);
    CU_ASSERT_EQUAL(ids_wrong(bench.paths.s1, kt_ints(&golden, ids1, NULL, NULL),
                              request.paths * request.horizon),
                    0);
    CU_ASSERT_EQUAL(ids_wrong(bench.paths.s2, kt_ints(&golden, ids2, NULL, NULL),
                              request.paths * request.horizon),
                    0);
    if (kr_safetensors_find(golden.file, "step_s1_logits")) {
        size_t values = request.horizon * bench.model->predictor.vocabulary;

        /* from bars, not from x_norm: the float32 sums of the reference show */
        kt_within(&golden, "step_s1_logits",
                  kt_max_difference(bench.s1_logits,
                                    kt_floats(&golden, "step_s1_logits", NULL, NULL), values),
                  STAGE);
        kt_within(&golden, "step_s2_logits",
                  kt_max_difference(bench.s2_logits,
                                    kt_floats(&golden, "step_s2_logits", NULL, NULL), values),
                  STAGE);
    }
    kr_normaliser_fit(&normaliser, bars, n, false);
    kt_within(&golden, bars_tensor,
              forecast_difference(bench.paths.bars, kt_floats(&golden, bars_tensor, NULL, NULL),
                                  request.paths * request.horizon, &normaliser),
              END_TO_END);
    if (kr_safetensors_find(golden.file, "mean_forecast")) {
        size_t values = request.horizon * KR_COLUMNS;
        float *mean = kr_alloc(values, sizeof(*mean));

        for (size_t i = 0; i < values; i++) {
            double sum = 0;

            for (size_t path = 0; path < request.paths; path++)
                sum += bench.paths.bars[path * values + i];
            mean[i] = (float)(sum / (double)request.paths);
        }
        kt_within(&golden, "mean_forecast",
                  forecast_difference(mean, kt_floats(&golden, "mean_forecast", NULL, NULL),
                                      request.horizon, &normaliser),
                  END_TO_END);
        free(mean);
    }
    kr_live_free(&live);
    bench_close(&bench);
    kt_golden_close(&golden);
}

static void whole(void)
{
    end_to_end("pico", "greedy", "gen_s1", "gen_s2", "forecast");
    end_to_end("odd", "greedy", "gen_s1", "gen_s2", "forecast");
}

static void paths(void)
{
    static const char *const kinds[] = {"paths_plain", "paths_topp", "paths_topk", "paths_hot"};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(kinds); i++) {
        end_to_end("pico", kinds[i], "gen_s1", "gen_s2", "paths");
        end_to_end("odd", kinds[i], "gen_s1", "gen_s2", "paths");
    }
}

static void overflow(void)
{
    end_to_end("pico", "overflow", "gen_s1", "gen_s2", "forecast");
    end_to_end("odd", "overflow", "gen_s1", "gen_s2", "forecast");
}

static void longlookback(void)
{
    end_to_end("pico", "longlookback", "gen_s1", "gen_s2", "forecast");
    end_to_end("odd", "longlookback", "gen_s1", "gen_s2", "forecast");
}

/* Statistics frozen on the first `lookback` bars; a forecast after each appended bar. */
static void anchored_of(const char *name)
{
    struct kt_golden golden;
    struct bench bench;
    struct kr_state state;
    struct kr_normaliser normaliser;
    struct kr_request request;
    size_t n, lookback, horizon, vocabulary, wrong = 0;
    struct kr_bar *bars;
    struct kr_stamp *future;
    const int64_t *g1, *g2;
    const float *logits, *forecasts;
    double most_logits = 0, most = 0;

    if (!kt_golden_open(&golden, name, "anchored"))
        return;
    bars = kt_bars(&golden, &n);
    lookback = (size_t)kt_setting(&golden, "lookback");
    request = request_of(&golden, NULL);
    horizon = request.horizon;
    future = kt_stamps(&golden, kt_ints(&golden, "future_ts_ns", NULL, NULL), n + horizon);
    use_file_normaliser(&golden, &normaliser);
    bench_open(&bench, name, 1, horizon, request.max_context, n);
    vocabulary = bench.model->predictor.vocabulary;
    logits = kt_floats(&golden, "first_s1_logits", NULL, NULL);
    forecasts = kt_floats(&golden, "forecasts", NULL, NULL);
    g1 = kt_ints(&golden, "gen_s1", NULL, NULL);
    g2 = kt_ints(&golden, "gen_s2", NULL, NULL);
    request.ret_s1_logits = bench.s1_logits;

    CU_ASSERT_EQUAL_FATAL(kr_state_init(&state, bench.model, n, n), 0);
    kr_state_reset(&state, &normaliser, 0);
    CU_ASSERT_TRUE(kr_state_append(&state, &bench.engine, bars, lookback) >= 0);
    for (size_t row = 0; lookback + row <= n; row++) {
        if (row > 0)
            CU_ASSERT_TRUE(kr_state_append(&state, &bench.engine, &bars[lookback + row - 1], 1) >=
                           0);
        request.future = future + lookback + row;
        CU_ASSERT_EQUAL(
            kr_generate(&bench.generator, &bench.engine, &state, &request, &bench.paths, NULL), 0);
        most_logits = fmax(
            most_logits, kt_max_difference(bench.s1_logits, logits + row * vocabulary, vocabulary));
        wrong += ids_wrong(bench.paths.s1, g1 + row * horizon, horizon);
        wrong += ids_wrong(bench.paths.s2, g2 + row * horizon, horizon);
        most =
            fmax(most, forecast_difference(bench.paths.bars, forecasts + row * horizon * KR_COLUMNS,
                                           horizon, &normaliser));
    }
    kt_within(&golden, "first_s1_logits", most_logits, STAGE);
    kt_within(&golden, "forecasts (of std)", most, END_TO_END);
    {
        const int64_t *s1 = kt_ints(&golden, "s1", NULL, NULL),
                      *s2 = kt_ints(&golden, "s2", NULL, NULL);

        wrong += ids_wrong(state.s1, s1, n) + ids_wrong(state.s2, s2, n);
    }
    KT_CHECK(wrong == 0, "%s: %zu ids differ", golden.path, wrong);
    kr_state_free(&state);
    bench_close(&bench);
    kt_golden_close(&golden);
}

static void anchored(void)
{
    anchored_of("pico");
    anchored_of("odd");
}

/* The attention window of our own checkpoints: ring caches, rows numbered from 1000, any append size. */
static void window_of(const char *name, size_t chunk)
{
    struct kt_golden golden;
    struct bench bench;
    struct kr_state state;
    struct kr_request request;
    size_t n, horizon, paths, vocabulary, wrong = 0;
    const double *uniforms;
    const float *x, *s1_logits, *s2_logits, *decoded;
    const int64_t *s1, *s2, *g1, *g2;
    double most_s1 = 0, most_s2 = 0, most = 0;
    struct kr_stamp *stamps;
    struct kr_model *model;

    if (!kt_golden_open(&golden, name, "window"))
        return;
    request = request_of(&golden, NULL);
    horizon = request.horizon;
    paths = request.paths;
    x = kt_floats(&golden, "x_norm", &n, NULL);
    s1 = kt_ints(&golden, "s1", NULL, NULL);
    s2 = kt_ints(&golden, "s2", NULL, NULL);
    g1 = kt_ints(&golden, "gen_s1", NULL, NULL);
    g2 = kt_ints(&golden, "gen_s2", NULL, NULL);
    s1_logits = kt_floats(&golden, "step_s1_logits", NULL, NULL);
    s2_logits = kt_floats(&golden, "step_s2_logits", NULL, NULL);
    decoded = kt_floats(&golden, "decoded_norm", NULL, NULL);
    uniforms = kt_doubles(&golden, "uniforms", NULL);
    stamps = kt_stamps(&golden, kt_ints(&golden, "ts_ns", NULL, NULL), n);
    request.future = kt_stamps(&golden, kt_ints(&golden, "future_ts_ns", NULL, NULL), horizon);
    model = kt_model(name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    model->attention_window = (size_t)kt_setting(&golden, "attention_window");
    bench_open_model(&bench, model, paths, horizon, 1, 1);
    vocabulary = model->predictor.vocabulary;
    CU_ASSERT_EQUAL_FATAL(kr_state_init(&state, model, 1, 1), 0);
    kr_state_reset_rolling(&state, (int64_t)kt_setting(&golden, "first_row"));
    for (int c = 0; c < KR_COLUMNS; c++)
        state.normaliser.std[c] = 1.0f - 1e-5f; /* what comes out is what the decoder says */
    for (size_t done = 0, rows; done < n; done += rows) {
        rows = KR_MIN(chunk, n - done);
        CU_ASSERT_EQUAL(kr_state_append_normalised(&state, &bench.engine, x + done * KR_COLUMNS,
                                                   stamps + done, rows),
                        0);
        if (rows <= KR_RING_SLACK)
            wrong += ids_wrong(state.s1, s1 + done, rows) + ids_wrong(state.s2, s2 + done, rows);
    }
    for (size_t path = 0; path < paths; path++) { /* one by one: logits are kept of path 0 */
        request.paths = 1;
        request.uniforms = uniforms + path * 2 * horizon;
        request.ret_s1_logits = bench.s1_logits;
        request.ret_s2_logits = bench.s2_logits;
        CU_ASSERT_EQUAL(
            kr_generate(&bench.generator, &bench.engine, &state, &request, &bench.paths, NULL), 0);
        most_s1 = fmax(most_s1,
                       kt_max_difference(bench.s1_logits, s1_logits + path * horizon * vocabulary,
                                         horizon * vocabulary));
        most_s2 = fmax(most_s2,
                       kt_max_difference(bench.s2_logits, s2_logits + path * horizon * vocabulary,
                                         horizon * vocabulary));
        wrong += ids_wrong(bench.paths.s1, g1 + path * horizon, horizon);
        wrong += ids_wrong(bench.paths.s2, g2 + path * horizon, horizon);
    }
    request.paths = paths;
    request.uniforms = uniforms;
    CU_ASSERT_EQUAL(
        kr_generate(&bench.generator, &bench.engine, &state, &request, &bench.paths, NULL), 0);
    CU_ASSERT_FALSE(bench.paths.window_slid);
    wrong += ids_wrong(bench.paths.s1, g1, paths * horizon);
    wrong += ids_wrong(bench.paths.s2, g2, paths * horizon);
    most = kt_max_difference(bench.paths.bars, decoded, paths * horizon * KR_COLUMNS);
    kt_within(&golden, "step_s1_logits", most_s1, STAGE);
    kt_within(&golden, "step_s2_logits", most_s2, STAGE);
    kt_within(&golden, "decoded_norm", most, STAGE);
    KT_CHECK(wrong == 0, "%s: %zu ids differ", golden.path, wrong);
    kr_state_free(&state);
    bench_close(&bench);
    kt_golden_close(&golden);
}

static void window(void)
{
    window_of("pico", 1);
    window_of("odd", 1);
    window_of("pico", 64);
    window_of("odd", 5);
}

/* The built-in model as it was trained, against its PyTorch original in double: 600 rows through rings of 256. */
static void builtin(void)
{
    struct kt_golden golden;
    struct kr_model *model = NULL;
    struct bench bench;
    struct kr_cache caches[KR_CACHES];
    const float *x, *z, *h, *s1_logits, *s2_logits, *decoded;
    const int64_t *s1, *s2, *rows, *calendar;
    size_t n, n_rows, d, vocabulary, n_bits, at = 0, wrong = 0;
    double most_z = 0, most_h = 0, most_s1 = 0, most_s2 = 0, most_y = 0;

    if (!kt_golden_open(&golden, "builtin", "logits"))
        return;
    CU_ASSERT_EQUAL_FATAL(kr_model_load_or_builtin(kt_source("../etc/model/predictor"),
                                                   kt_source("../etc/model/tokenizer"), kt_products,
                                                   &model, NULL),
                          0);
    bench_open_model(&bench, model, 1, 1, 1, 1);
    d = model->predictor.d_model;
    vocabulary = model->predictor.vocabulary;
    n_bits = model->tokenizer.n_bits;
    x = kt_floats(&golden, "x", &n, NULL);
    z = kt_floats(&golden, "z", NULL, NULL);
    h = kt_floats(&golden, "h", &n_rows, NULL);
    s1_logits = kt_floats(&golden, "s1_logits", NULL, NULL);
    s2_logits = kt_floats(&golden, "s2_logits", NULL, NULL);
    decoded = kt_floats(&golden, "decoded", NULL, NULL);
    s1 = kt_ints(&golden, "s1", NULL, NULL);
    s2 = kt_ints(&golden, "s2", NULL, NULL);
    rows = kt_ints(&golden, "rows", NULL, NULL);
    calendar = kt_ints(&golden, "stamps", NULL, NULL);
    for (int c = 0; c < KR_CACHES; c++) {
        struct kr_cache_shape shape = kr_cache_shape_of(model, c);

        CU_ASSERT_EQUAL_FATAL(kr_cache_init_ring(&caches[c], &shape, model->attention_window), 0);
    }
    for (size_t i = 0; i < n; i++) {
        uint16_t id1 = (uint16_t)s1[i], id2 = (uint16_t)s2[i], ours1, ours2;
        const int64_t *t = calendar + 5 * i;
        struct kr_stamp stamp = {(uint8_t)t[0], (uint8_t)t[1], (uint8_t)t[2], (uint8_t)t[3],
                                 (uint8_t)t[4]};
        struct kr_view views[KR_CACHES];
        float ours_z[32], y[KR_COLUMNS];

        for (int c = 0; c < KR_CACHES; c++)
            views[c] = (struct kr_view){.own = &caches[c], .index = i, .position = (int64_t)i};
        kr_encode_rows(&bench.engine, &views[KR_CACHE_ENCODER], x + i * KR_COLUMNS, 1, &ours1,
                       &ours2, ours_z);
        wrong += (ours1 != id1) + (ours2 != id2);
        most_z = fmax(most_z, kt_max_difference(ours_z, z + i * n_bits, n_bits));
        kr_decode_rows(&bench.engine, &views[KR_CACHE_DECODER], &id1, &id2, 1, y);
        most_y = fmax(most_y, kt_max_difference(y, decoded + i * KR_COLUMNS, KR_COLUMNS));
        kr_predict_rows(&bench.engine, &views[KR_CACHE_TRUNK], &id1, &id2, &stamp, 1);
        kr_dependency_rows(&bench.engine, &views[KR_CACHE_DEPENDENCY], 1);
        if (at < n_rows && rows[at] == (int64_t)i) {
            uint16_t next = (uint16_t)s1[i + 1];

            most_h = fmax(most_h, kt_max_difference(bench.engine.normed, h + at * d, d));
            kr_s1_logits(&bench.engine, bench.engine.normed, d, 1);
            most_s1 = fmax(most_s1, kt_max_difference(bench.engine.logits,
                                                      s1_logits + at * vocabulary, vocabulary));
            kr_s2_logits(&bench.engine, &views[KR_CACHE_DEPENDENCY], &next, bench.engine.normed, d,
                         1);
            most_s2 = fmax(most_s2, kt_max_difference(bench.engine.logits,
                                                      s2_logits + at * vocabulary, vocabulary));
            at++;
        }
        for (int c = 0; c < KR_CACHES; c++)
            CU_ASSERT_EQUAL(kr_cache_append(&caches[c], 1), 0);
    }
    CU_ASSERT_EQUAL(at, n_rows);
    kt_within(&golden, "z", most_z, STAGE);
    kt_within(&golden, "h", most_h, STAGE);
    kt_within(&golden, "s1_logits", most_s1, STAGE);
    kt_within(&golden, "s2_logits", most_s2, STAGE);
    kt_within(&golden, "decoded", most_y, STAGE);
    KT_CHECK(wrong == 0, "%s: %zu ids differ", golden.path, wrong);
    for (int c = 0; c < KR_CACHES; c++)
        kr_cache_free(&caches[c]);
    bench_close(&bench);
    kt_golden_close(&golden);
}

/* What follows runs with these products. */
static void use_openblas(void)
{
    kt_products = kr_products_named("openblas");
}

static void use_avx2(void)
{
    kt_products = kr_products_named("avx2");
    if (!kt_products)
        kt_skip("this processor has no AVX2");
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"greedy, stage by stage", greedy},
        {"greedy, from the bars", whole},
        {"four ways to draw six paths", paths},
        {"horizon crosses max_context", overflow},
        {"lookback longer than max_context", longlookback},
        {"anchored, a forecast after each bar", anchored},
        {"attention window in rings", window},
        {"the built-in model", builtin},
    };
    static const struct kt_test switches[] = {
        {"again with OpenBLAS", use_openblas},
        {"again with AVX2", use_avx2},
    };
    struct kt_test all[KR_ARRAY_LENGTH(tests) * 3 + 2];
    size_t n = KR_ARRAY_LENGTH(tests);
    const struct kr_products *usual = NULL;

    memcpy(all, tests, sizeof(tests));
    for (size_t i = 0; i < KR_ARRAY_LENGTH(switches); i++) {
        all[n++] = switches[i];
        memcpy(all + n, tests, sizeof(tests));
        n += KR_ARRAY_LENGTH(tests);
    }
    kr_product_init();
    if (kr_products_choose(KR_MATMUL_AUTO, KR_F32_PRODUCTS, &usual, NULL) == 0)
        kt_note("products by %s", usual->name);
    return kt_main("golden", all, n);
}
