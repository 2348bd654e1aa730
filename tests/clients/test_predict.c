/* SPDX-License-Identifier: MIT */
/* kronosctl predict, the real program: the public reference's numbers end to end, its three outputs, times
 * of real markets, and what it refuses. */
#include "core/product.h"
#include "core/safetensors.h"
#include "tests/clients/run.h"
#include "tests/core/files.h"
#include "tests/core/golden.h"
#include "tests/tap.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#define END_TO_END 1e-4 /* of a column's std + 1e-5 */

/* "kronosctl predict" with a golden checkpoint and more options, up to a NULL. */
struct line {
    const char *words[64];
    size_t n;
    char predictor[512], tokenizer[512];
};

static void start_line(struct line *line, const char *model)
{
    char relative[64];

    *line = (struct line){.n = 0};
    snprintf(relative, sizeof(relative), "golden/%s/predictor", model);
    snprintf(line->predictor, sizeof(line->predictor), "%s", kt_source(relative));
    snprintf(relative, sizeof(relative), "golden/%s/tokenizer", model);
    snprintf(line->tokenizer, sizeof(line->tokenizer), "%s", kt_source(relative));
    line->words[line->n++] = "predict";
    line->words[line->n++] = "--predictor";
    line->words[line->n++] = line->predictor;
    line->words[line->n++] = "--tokenizer";
    line->words[line->n++] = line->tokenizer;
}

static void add(struct line *line, const char *option, const char *value)
{
    line->words[line->n++] = option;
    if (value)
        line->words[line->n++] = value;
    line->words[line->n] = NULL;
}

static struct kt_run run_line(const struct line *line)
{
    return kt_run(NULL, line->words);
}

/* Against the reference */

struct expectation {
    const char *name;               /* of the file */
    const char *forecast, *s1, *s2; /* tensors */
    bool uniforms;                  /* it holds them */
    bool last_row;                  /* only the last [H] of them is meant */
};

static const float *wanted_floats(struct kt_golden *golden, const struct expectation *e, size_t n)
{
    const struct kr_tensor *tensor = kr_safetensors_find(golden->file, e->forecast);
    const float *values = kt_floats(golden, e->forecast, NULL, NULL);

    return values && tensor ? values + (e->last_row ? tensor->n_items - n : 0) : NULL;
}

static const int64_t *wanted_ints(struct kt_golden *golden, const struct expectation *e,
                                  const char *name, size_t n)
{
    const struct kr_tensor *tensor = kr_safetensors_find(golden->file, name);
    const int64_t *values = kt_ints(golden, name, NULL, NULL);

    return values && tensor ? values + (e->last_row ? tensor->n_items - n : 0) : NULL;
}

/* Standard deviation of the first n bars, the unit of differences. */
static void units_of(const struct kr_bar *bars, size_t n, double ret[KR_COLUMNS])
{
    for (int c = 0; c < KR_COLUMNS; c++) {
        double mean = 0, square = 0;

        for (size_t i = 0; i < n; i++)
            mean += bars[i].v[c] / (double)n;
        for (size_t i = 0; i < n; i++)
            square += (bars[i].v[c] - mean) * (bars[i].v[c] - mean) / (double)n;
        ret[c] = sqrt(square) + 1e-5;
    }
}

static void compare_output(struct kt_golden *golden, const struct expectation *e, const char *path,
                           size_t n_anchor)
{
    struct kr_safetensors *file = NULL;
    const struct kr_tensor *paths, *s1, *s2, *mean, *t;
    struct kr_error error = {""};
    size_t n_bars;
    struct kr_bar *bars = kt_bars(golden, &n_bars);
    const float *expected;
    const int64_t *id1, *id2;
    double units[KR_COLUMNS], most = 0;
    size_t n_rows, wrong = 0;
    float *ours;

    CU_ASSERT_EQUAL_FATAL(kr_safetensors_open(path, &file, &error), 0);
    paths = kr_safetensors_find(file, "paths");
    mean = kr_safetensors_find(file, "mean");
    s1 = kr_safetensors_find(file, "s1");
    s2 = kr_safetensors_find(file, "s2");
    t = kr_safetensors_find(file, "t");
    CU_ASSERT_FATAL(paths && s1 && s2 && mean && t);
    CU_ASSERT_FATAL(paths->rank == 3 && paths->dtype == KR_F32 && s1->dtype == KR_I64);
    CU_ASSERT_FATAL(mean->rank == 2 && mean->shape[0] == paths->shape[1] && mean->shape[1] == 6);
    CU_ASSERT_EQUAL(t->shape[0], paths->shape[1]);
    n_rows = paths->shape[0] * paths->shape[1];
    CU_ASSERT_EQUAL_FATAL(s1->n_items, n_rows);
    units_of(bars, n_anchor, units);
    expected = wanted_floats(golden, e, paths->n_items);
    id1 = wanted_ints(golden, e, e->s1, n_rows);
    id2 = wanted_ints(golden, e, e->s2, n_rows);
    ours = calloc(paths->n_items, sizeof(*ours));
    CU_ASSERT_FATAL(expected && id1 && id2 && ours);
    CU_ASSERT_EQUAL(kr_tensor_to_f32(paths, ours), 0);
    for (size_t i = 0; i < paths->n_items; i++)
        most = fmax(most, fabs((double)ours[i] - (double)expected[i]) / units[i % KR_COLUMNS]);
    for (size_t i = 0; i < n_rows; i++) {
        int64_t a, b;

        memcpy(&a, (const char *)s1->data + 8 * i, 8);
        memcpy(&b, (const char *)s2->data + 8 * i, 8);
        wrong += (a != id1[i]) + (b != id2[i]);
    }
    KT_CHECK(wrong == 0, "%s: %zu ids differ", golden->path, wrong);
    kt_within(golden, e->forecast, most, END_TO_END);
    free(ours);
    kr_safetensors_close(&file);
}

static void reference_file(const char *model, const struct expectation *e)
{
    struct kt_golden golden;
    struct kt_run run;
    struct line line;
    char path[512], horizon[16], paths[16], context[16], temperature[16], top_k[16], top_p[16];
    char anchor[16];
    size_t n_bars, n_anchor;
    double lookback;

    if (!kt_golden_open(&golden, model, e->name))
        return;
    kt_bars(&golden, &n_bars);
    start_line(&line, model);
    snprintf(path, sizeof(path), "%s", kt_path("forecast.safetensors"));
    snprintf(horizon, sizeof(horizon), "%g", kt_setting(&golden, "pred_len"));
    snprintf(paths, sizeof(paths), "%g", kt_setting(&golden, "paths"));
    snprintf(context, sizeof(context), "%g", kt_setting(&golden, "max_context"));
    snprintf(temperature, sizeof(temperature), "%g", kt_setting(&golden, "T"));
    snprintf(top_k, sizeof(top_k), "%g", kt_setting(&golden, "top_k"));
    snprintf(top_p, sizeof(top_p), "%g", kt_setting(&golden, "top_p"));
    lookback = e->last_row ? kt_setting(&golden, "lookback") : 0;
    n_anchor = e->last_row ? (size_t)lookback : n_bars;
    snprintf(anchor, sizeof(anchor), "%zu", n_anchor);
    add(&line, "--bars", kr_safetensors_path(golden.file));
    add(&line, "--horizon", horizon);
    add(&line, "--max-context", context);
    add(&line, "--temperature", temperature);
    add(&line, "--top-k", top_k);
    add(&line, "--top-p", top_p);
    add(&line, "--raw", NULL);
    add(&line, "--format", "safetensors");
    add(&line, "--output", path);
    add(&line, e->last_row ? "--anchor" : "--mode", e->last_row ? anchor : "exact");
    if (e->uniforms)
        add(&line, "--uniforms", kr_safetensors_path(golden.file));
    else
        add(&line, "--paths", paths);
    run = run_line(&line);
    KT_CHECK(run.status == 0, "%s: status %d: %s", golden.path, run.status, run.err);
    CU_ASSERT_STRING_EQUAL(run.out, "");
    if (run.status == 0)
        compare_output(&golden, e, path, n_anchor);
    kt_run_free(&run);
    kt_golden_close(&golden);
}

static void reference_model(const char *model)
{
    static const struct expectation files[] = {
        {"greedy", "forecast", "gen_s1", "gen_s2", false, false},
        {"paths_plain", "paths", "gen_s1", "gen_s2", true, false},
        {"paths_topp", "paths", "gen_s1", "gen_s2", true, false},
        {"paths_topk", "paths", "gen_s1", "gen_s2", true, false},
        {"paths_hot", "paths", "gen_s1", "gen_s2", true, false},
        {"overflow", "forecast", "gen_s1", "gen_s2", false, false},
        {"longlookback", "forecast", "gen_s1", "gen_s2", false, false},
        {"anchored", "forecasts", "gen_s1", "gen_s2", false, true},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(files); i++)
        reference_file(model, &files[i]);
}

static void reference_pico(void)
{
    reference_model("pico");
}

static void reference_odd(void)
{
    reference_model("odd");
}

/* Outputs */

/* A CSV of n five-minute bars. */
static const char *make_csv(size_t n)
{
    const char *path = kt_path("bars.csv");
    FILE *file = fopen(path, "w");

    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fprintf(file, "Date,Open,High,Low,Close,Volume\n");
    for (size_t i = 0; i < n; i++) {
        double price = 50 + 3 * sin((double)i / 9) + 0.1 * (double)(i % 7);

        fprintf(file, "2026-03-%02zu %02zu:%02zu:00,%.2f,%.2f,%.2f,%.2f,%zu\n", 2 + i / 288,
                i / 12 % 24, i % 12 * 5, price, price + 0.3, price - 0.3, price + 0.1,
                100 + i % 13);
    }
    fclose(file);
    return path;
}

static void csv_line(struct line *line, const char *csv)
{
    start_line(line, "pico");
    add(line, "--bars", csv);
    add(line, "--interval", "5m");
    add(line, "--symbol", "BTC");
    add(line, "--lookback", "64");
    add(line, "--max-context", "128");
    add(line, "--horizon", "6");
    add(line, "--paths", "9");
}

static json_t *run_json(const struct line *line)
{
    struct line copy = *line;
    struct kt_run run;
    json_t *json;

    add(&copy, "--format", "json");
    run = run_line(&copy);
    KT_CHECK(run.status == 0, "status %d: %s", run.status, run.err);
    CU_ASSERT_TRUE(kt_one_line(run.out));
    json = json_loads(run.out, JSON_REJECT_DUPLICATES, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    kt_run_free(&run);
    return json;
}

static const json_t *at(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);

    KT_CHECK(value != NULL, "no key %s", key);
    return value;
}

static void json_output(void)
{
    static const char *const keys[] = {"v",      "sym",    "iv",       "ep",   "seq",   "as_of",
                                       "rev",    "last",   "pub",      "mode", "epoch", "bars",
                                       "win_t0", "model",  "anchor_n", "isa",  "t",     "params",
                                       "open",   "levels", "high",     "low",  "close", "precision",
                                       "volume", "ret",    "amount",   "cal",  "flags", "lat"};
    struct line line;
    json_t *json;

    csv_line(&line, make_csv(300));
    json = run_json(&line);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(keys); i++)
        at(json, keys[i]);
    CU_ASSERT_EQUAL(json_object_size(json), KR_ARRAY_LENGTH(keys));
    CU_ASSERT_STRING_EQUAL(json_string_value(at(json, "sym")), "BTC");
    CU_ASSERT_STRING_EQUAL(json_string_value(at(json, "iv")), "5m");
    CU_ASSERT_STRING_EQUAL(json_string_value(at(json, "mode")), "anchored");
    CU_ASSERT_EQUAL(json_integer_value(at(json, "bars")), 64);
    CU_ASSERT_EQUAL(json_integer_value(at(json, "anchor_n")), 64);
    CU_ASSERT_EQUAL(json_array_size(at(json, "t")), 6);
    CU_ASSERT_EQUAL(json_array_size(at(json, "levels")), 7);
    CU_ASSERT_EQUAL(json_array_size(at(at(json, "close"), "q")), 7);
    CU_ASSERT_EQUAL(json_array_size(json_array_get(at(at(json, "close"), "q"), 6)), 6);
    CU_ASSERT_EQUAL(json_array_size(at(at(json, "ret"), "p_up")), 6);
    CU_ASSERT_TRUE(json_is_true(at(at(json, "params"), "join")));
    /* bar 299 opens at 00:55 of the third; the next one five minutes later */
    CU_ASSERT_EQUAL(json_integer_value(at(json, "as_of")), INT64_C(1772499300000000000));
    CU_ASSERT_EQUAL(json_integer_value(json_array_get(at(json, "t"), 0)),
                    INT64_C(1772499600000000000));
    CU_ASSERT_EQUAL(json_integer_value(json_array_get(at(json, "t"), 5)),
                    INT64_C(1772501100000000000));
    json_decref(json);
}

static double last_median(const json_t *json)
{
    return json_real_value(json_array_get(json_array_get(at(at(json, "close"), "q"), 3), 5));
}

/* Who makes the products, and in which numbers, is said; what cannot be is refused. */
static void products(void)
{
    bool native = kr_products_named("avx2") || kr_products_named("avx512");
    bool bf16 = kr_products_named("avx512_bf16");
    struct line line, with;
    struct kt_run run;
    json_t *usual, *other;

    csv_line(&line, make_csv(300));
    usual = run_json(&line);
    CU_ASSERT_STRING_EQUAL(json_string_value(at(usual, "precision")), "f32");
    CU_ASSERT_EQUAL(strchr(json_string_value(at(usual, "isa")), '+') == NULL, native);

    with = line;
    add(&with, "--matmul", "openblas");
    other = run_json(&with);
    CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(at(other, "isa")), "+openblas-"));
    CU_ASSERT_DOUBLE_EQUAL(last_median(usual), last_median(other), 0.5);
    json_decref(other);
    add(&with, "--precision", "bf16");
    run = run_line(&with);
    CU_ASSERT_EQUAL(run.status, 78);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.err, "precision: bf16, expected f32 with matmul = openblas"));
    kt_run_free(&run);

    with = line;
    add(&with, "--matmul", "native");
    run = run_line(&with);
    CU_ASSERT_EQUAL(run.status, native ? 0 : 78);
    kt_run_free(&run);

    with = line;
    add(&with, "--precision", "bf16");
    if (bf16) {
        other = run_json(&with);
        CU_ASSERT_STRING_EQUAL(json_string_value(at(other, "precision")), "bf16");
        CU_ASSERT_PTR_NOT_NULL(strstr(json_string_value(at(other, "isa")), "_bf16"));
        json_decref(other);
    } else {
        run = run_line(&with);
        CU_ASSERT_EQUAL(run.status, 78);
        CU_ASSERT_PTR_NOT_NULL(strstr(run.err, "AVX512_BF16"));
        kt_run_free(&run);
    }
    json_decref(usual);
}

/* All three say the same. */
static void csv_output(void)
{
    struct line line;
    struct kt_run run;
    json_t *json;
    size_t n = 0;
    char *save = NULL;

    csv_line(&line, make_csv(300));
    json = run_json(&line);
    run = run_line(&line);
    CU_ASSERT_EQUAL(run.status, 0);
    for (char *text = strtok_r(run.out, "\n", &save); text;
         text = strtok_r(NULL, "\n", &save), n++) {
        char time[64], column[16];
        double mean, std, low, high;
        size_t step = (n - 1) / KR_COLUMNS;
        const json_t *band;

        if (n == 0) {
            CU_ASSERT_STRING_EQUAL(text, "t,column,mean,std,q05,q10,q25,q50,q75,q90,q95");
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(sscanf(text, "%63[^,],%15[^,],%lf,%lf,%lf,%*f,%*f,%*f,%*f,%*f,%lf",
                                     time, column, &mean, &std, &low, &high),
                              6);
        CU_ASSERT_STRING_EQUAL(column, kr_column_names[(n - 1) % KR_COLUMNS]);
        band = at(json, column);
        CU_ASSERT_EQUAL(mean, json_number_value(json_array_get(at(band, "mean"), step)));
        CU_ASSERT_EQUAL(std, json_number_value(json_array_get(at(band, "std"), step)));
        CU_ASSERT_EQUAL(low,
                        json_number_value(json_array_get(json_array_get(at(band, "q"), 0), step)));
        CU_ASSERT_EQUAL(high,
                        json_number_value(json_array_get(json_array_get(at(band, "q"), 6), step)));
        if (n == 1)
            CU_ASSERT_STRING_EQUAL(time, "2026-03-03T01:00:00Z");
    }
    CU_ASSERT_EQUAL(n, 1 + 6 * KR_COLUMNS);
    kt_run_free(&run);
    json_decref(json);
}

/* The same twice; another seed, symbol or interval draws others. */
static void draws(void)
{
    static const char *const changes[][2] = {
        {"--seed", "1"}, {"--symbol", "ETH"}, {"--interval", "10m"}, {"--temperature", "1.5"}};
    const char *csv = make_csv(300);
    struct line line;
    struct kt_run first, other;

    csv_line(&line, csv);
    first = run_line(&line);
    other = run_line(&line);
    CU_ASSERT_STRING_EQUAL(first.out, other.out);
    kt_run_free(&other);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(changes); i++) {
        csv_line(&line, csv);
        add(&line, changes[i][0], changes[i][1]);
        other = run_line(&line);
        CU_ASSERT_EQUAL(other.status, 0);
        KT_CHECK(strcmp(first.out, other.out) != 0, "%s changes nothing", changes[i][0]);
        kt_run_free(&other);
    }
    kt_run_free(&first);
}

/* A window that the daemon would have grown bar by bar is the same encoded at once; exact is anchored over
 * the whole window. */
static void modes(void)
{
    const char *csv = make_csv(300);
    struct line line;
    json_t *exact, *anchored, *shorter;

    csv_line(&line, csv);
    add(&line, "--mode", "exact");
    exact = run_json(&line);
    CU_ASSERT_STRING_EQUAL(json_string_value(at(exact, "mode")), "exact");
    csv_line(&line, csv);
    add(&line, "--mode", "anchored");
    anchored = run_json(&line);
    CU_ASSERT_STRING_EQUAL(json_string_value(at(anchored, "mode")), "anchored");
    CU_ASSERT_TRUE(json_equal(at(exact, "close"), at(anchored, "close")));
    csv_line(&line, csv);
    add(&line, "--anchor", "40");
    shorter = run_json(&line);
    CU_ASSERT_EQUAL(json_integer_value(at(shorter, "anchor_n")), 40);
    CU_ASSERT_EQUAL(json_integer_value(at(shorter, "bars")), 64);
    CU_ASSERT_FALSE(json_equal(at(exact, "close"), at(shorter, "close")));
    json_decref(exact);
    json_decref(anchored);
    json_decref(shorter);
}

/* Joined paths open near the last close; --raw says what is off. */
static void raw(void)
{
    const char *csv = make_csv(300);
    struct line line;
    json_t *honest, *as_is;

    csv_line(&line, csv);
    honest = run_json(&line);
    add(&line, "--raw", NULL);
    as_is = run_json(&line);
    CU_ASSERT_TRUE(json_is_false(at(at(as_is, "params"), "join")));
    CU_ASSERT_TRUE(json_is_false(at(at(as_is, "params"), "scale")));
    CU_ASSERT_FALSE(json_equal(at(honest, "close"), at(as_is, "close")));
    json_decref(honest);
    json_decref(as_is);
}

/* What is refused: one line on stderr, the documented status, nothing on stdout. */

static void expect_failure(const struct line *line, int status, const char *words)
{
    struct kt_run run = run_line(line);

    KT_CHECK(run.status == status, "expected status %d, found %d: %s", status, run.status, run.err);
    KT_CHECK(kt_one_line(run.err), "more than a line: %s", run.err);
    KT_CHECK(strstr(run.err, words) != NULL, "expected \"%s\" in: %s", words, run.err);
    CU_ASSERT_STRING_EQUAL(run.out, "");
    kt_run_free(&run);
}

static void refused_options(void)
{
    static const struct {
        const char *option, *value;
        int status;
        const char *words;
    } cases[] = {
        {"--horizon", "0", 64, "--horizon: expected a whole number"},
        {"--horizon", "6.5", 64, "--horizon"},
        {"--paths", "", 64, "--paths"},
        {"--temperature", "0", 64, "temperature"},
        {"--temperature", "0x1p3", 64, "--temperature: expected a number"},
        {"--top-p", "0", 64, "top_p"},
        {"--top-p", "1.5", 64, "top_p"},
        {"--seed", "-1", 64, "--seed"},
        {"--symbol", "A|B", 64, "--symbol"},
        {"--interval", "5", 64, "--interval"},
        {"--timezone", "Mars/Olympus", 64, "--timezone"},
        {"--stamp", "middle", 64, "open|close"},
        {"--format", "xml", 64, "csv|json|safetensors"},
        {"--mode", "rolling", 78, "rolling"},
        {"--first-row", "7", 78, "first-row"},
        {"--anchor", "65", 78, "anchor"},
        {"--lookback", "301", 65, "bars.csv: bars: expected at least 301, found 300"},
        {"--calendar", "nosuch", 78, "expected a section [calendar nosuch]"},
        {"--uniforms", "/nonexistent", 66, "/nonexistent"},
        {"--bars", "/nonexistent.csv", 66, "/nonexistent.csv"},
        {"--bars", "/nonexistent.safetensors", 66, "/nonexistent.safetensors"},
        {"--predictor", "/nonexistent", 66, "/nonexistent"},
        {"--output", "/nonexistent/file", 74, "/nonexistent/file"},
    };
    const char *csv = make_csv(300), *config = kt_path("empty.conf");

    kt_put(config, "[feed]\n", 7);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct line line;

        csv_line(&line, csv);
        add(&line, "--config", config);
        add(&line, cases[i].option, cases[i].value);
        expect_failure(&line, cases[i].status, cases[i].words);
    }
}

static void refused_files(void)
{
    const char *text = kt_path("text.csv"), *tensors = kt_path("none.safetensors");
    const char *model = kt_path("cut/predictor");
    struct line line;
    char *bytes;
    size_t n;

    kt_put(text, "time,open,high,low,close\n2026-01-01,1,2,0.5,x\n", 46);
    csv_line(&line, text);
    expect_failure(&line, 65, "text.csv:2: ");
    bytes = kt_get(kt_source("golden/pico/filters.safetensors"), &n);
    kt_put(tensors, bytes, n);
    free(bytes);
    csv_line(&line, tensors);
    expect_failure(&line, 65, "none.safetensors: bars: expected a tensor, found none");
    kt_make_folder("cut/predictor");
    bytes = kt_get(kt_source("golden/pico/predictor/config.json"), &n);
    kt_put(kt_path("cut/predictor/config.json"), bytes, n);
    free(bytes);
    bytes = kt_get(kt_source("golden/pico/predictor/model.safetensors"), &n);
    kt_put(kt_path("cut/predictor/model.safetensors"), bytes, n - 4);
    free(bytes);
    csv_line(&line, make_csv(300));
    add(&line, "--predictor", model);
    expect_failure(&line, 65, "model.safetensors");
    csv_line(&line, make_csv(300));
    add(&line, "--uniforms", kt_source("golden/pico/paths_hot.safetensors"));
    expect_failure(&line, 65, "uniforms: expected shape [9,12], found [6,32]");
}

/* Times */

/* Weekday (Sunday 0) and minutes of the day of a "t" cell, hours added. */
static void when(const char *text, int hours, int *ret_weekday, int *ret_minutes)
{
    struct tm tm = {0};
    time_t t;

    CU_ASSERT_PTR_NOT_NULL_FATAL(strptime(text, "%Y-%m-%dT%H:%M:%S", &tm));
    t = timegm(&tm) + hours * 3600;
    gmtime_r(&t, &tm);
    *ret_weekday = tm.tm_wday;
    *ret_minutes = tm.tm_hour * 60 + tm.tm_min;
}

/* Every row of an output: finite, prices above 0, times that rise. Return: the times, one a step. */
static size_t check_rows(const struct kt_run *run, char times[][32], size_t max)
{
    char *copy = strdup(run->out), *save = NULL;
    size_t n = 0, n_bad = 0;

    strtok_r(copy, "\n", &save);
    for (char *text; (text = strtok_r(NULL, "\n", &save)) != NULL;) {
        char time[32], column[16];
        double mean, std;

        if (sscanf(text, "%31[^,],%15[^,],%lf,%lf", time, column, &mean, &std) != 4 ||
            !isfinite(mean) || !isfinite(std) || strstr(text, "nan") || strstr(text, "inf")) {
            n_bad++;
            continue;
        }
        n_bad += strcmp(column, "volume") != 0 && strcmp(column, "amount") != 0 && mean <= 0;
        if (strcmp(column, "open") != 0 || n == max)
            continue;
        n_bad += n > 0 && strcmp(times[n - 1], time) >= 0; /* ISO 8601 sorts as it rises */
        strcpy(times[n++], time);
    }
    free(copy);
    KT_CHECK(n_bad == 0, "%zu bad rows", n_bad);
    return n;
}

#define STEPS 60

static size_t real_file(const char *name, const char *zone, const char *stamp, char times[][32])
{
    char relative[64];
    const char *path;
    struct line line;
    struct kt_run run;
    size_t n;

    snprintf(relative, sizeof(relative), "bars/%s", name);
    path = kt_shared(relative);
    if (!path)
        return 0;
    start_line(&line, "pico");
    add(&line, "--bars", path);
    add(&line, "--timezone", zone);
    add(&line, "--stamp", stamp);
    add(&line, "--lookback", "100");
    add(&line, "--horizon", "60");
    add(&line, "--paths", "4");
    run = run_line(&line);
    KT_CHECK(run.status == 0, "%s: status %d: %s", name, run.status, run.err);
    n = check_rows(&run, times, STEPS);
    KT_CHECK(n == STEPS, "%s: %zu steps", name, n);
    kt_run_free(&run);
    return n;
}

static void real_files(void)
{
    static const char *const others[] = {
        "DASHBTC-5m.csv", "ETHBTC-5m.csv", "LTCBTC-5m.csv",         "ZECBTC-5m.csv",
        "TRXBTC-5m.csv",  "EURUSD-1h.csv", "UNITTEST-1m-gappy.csv",
    };
    char times[STEPS][32];
    int day, minutes;

    if (!kt_shared("bars/GOOG-1d.csv")) {
        kt_skip("no folder of real bars beside the checkout");
        return;
    }
    for (size_t i = 0; i < KR_ARRAY_LENGTH(others); i++)
        real_file(others[i], "UTC", "open", times);
    /* close-stamped: the last bar ended at 11:30, the next one opens at 13:00 in Shanghai */
    if (real_file("600977-5m.csv", "Asia/Shanghai", "close", times) == STEPS) {
        CU_ASSERT_STRING_EQUAL(times[0], "2024-08-29T05:00:00Z");
        for (size_t i = 0; i < STEPS; i++) {
            when(times[i], 8, &day, &minutes);
            KT_CHECK(day >= 1 && day <= 5 &&
                         ((minutes >= 9 * 60 + 30 && minutes < 11 * 60 + 30) ||
                          (minutes >= 13 * 60 && minutes < 15 * 60)),
                     "outside a session: %s", times[i]);
        }
    }
    if (real_file("GOOG-1d.csv", "UTC", "open", times) == STEPS) {
        CU_ASSERT_STRING_EQUAL(times[0], "2013-03-04T00:00:00Z"); /* the first was a Friday */
        for (size_t i = 0; i < STEPS; i++) {
            when(times[i], 0, &day, &minutes);
            KT_CHECK(day >= 1 && day <= 5, "a weekend: %s", times[i]);
        }
    }
}

/* A calendar of a configuration file; weekdays; around the clock. */
static void calendars(void)
{
    static const char config[] = "[calendar desk]\ntimezone = Europe/Berlin\n"
                                 "sessions = 09:00-10:00\nweekdays = mon-fri\n";
    static const struct {
        const char *calendar, *first, *last;
    } cases[] = {
        /* bar 299 opened on Tuesday 2026-03-03 at 00:55 in Berlin, 23:55 UTC the day before */
        {"desk", "2026-03-03T08:00:00Z", "2026-03-03T08:25:00Z"},
        {"24x7", "2026-03-03T01:00:00Z", "2026-03-03T01:25:00Z"},
        {"weekdays", "2026-03-03T01:00:00Z", "2026-03-03T01:25:00Z"},
        {"infer", "2026-03-03T01:00:00Z", "2026-03-03T01:25:00Z"},
    };
    const char *csv = make_csv(300), *path = kt_path("kronosd.conf");
    char times[STEPS][32];

    kt_put(path, config, strlen(config));
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct line line;
        struct kt_run run;

        csv_line(&line, csv);
        add(&line, "--config", path);
        add(&line, "--calendar", cases[i].calendar);
        run = run_line(&line);
        KT_CHECK(run.status == 0, "status %d: %s", run.status, run.err);
        CU_ASSERT_EQUAL_FATAL(check_rows(&run, times, STEPS), 6);
        CU_ASSERT_STRING_EQUAL(times[0], cases[i].first);
        CU_ASSERT_STRING_EQUAL(times[5], cases[i].last);
        kt_run_free(&run);
    }
}

/* Ten times the horizon: the output's growth and 1 MiB, no more. */
static void memory(void)
{
#if defined(__SANITIZE_ADDRESS__)
    kt_skip("the sanitizer's own memory is not ours to count");
#else
    static const char *const horizons[] = {"500", "5000"};
    const char *csv = make_csv(300), *path = kt_path("long.safetensors");
    long peak[2];
    size_t bytes[2];

    for (int i = 0; i < 2; i++) {
        struct line line;
        struct kt_run run;
        char *output;

        csv_line(&line, csv);
        add(&line, "--paths", "4");
        add(&line, "--horizon", horizons[i]);
        add(&line, "--format", "safetensors");
        add(&line, "--output", path);
        run = run_line(&line);
        KT_CHECK(run.status == 0, "status %d: %s", run.status, run.err);
        peak[i] = run.peak_kb;
        output = kt_get(path, &bytes[i]);
        free(output);
        kt_run_free(&run);
    }
    kt_note("horizon 500: %ld KiB at most, output %zu; 5000: %ld KiB, output %zu", peak[0],
            bytes[0], peak[1], bytes[1]);
    CU_ASSERT_TRUE((peak[1] - peak[0]) * 1024 <= (long)(bytes[1] - bytes[0]) + 1048576);
#endif
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"the reference's numbers: pico", reference_pico},
        {"the reference's numbers: odd", reference_odd},
        {"JSON", json_output},
        {"products", products},
        {"CSV says the same", csv_output},
        {"draws are addressed", draws},
        {"modes", modes},
        {"--raw", raw},
        {"options refused", refused_options},
        {"files refused", refused_files},
        {"real markets", real_files},
        {"calendars", calendars},
        {"memory of a long horizon", memory},
    };

    return kt_main("predict", tests, KR_ARRAY_LENGTH(tests));
}
