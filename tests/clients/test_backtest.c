/* SPDX-License-Identifier: MIT */
/* kronosctl backtest, the real program: its numbers against scores recomputed from predict's paths by
 * the textbook's formulae, its outputs, and what it refuses. */
#include "core/bar.h"
#include "core/safetensors.h"
#include "tests/clients/run.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <glib.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "kronosctl COMMAND" with a checkpoint and more options, up to a NULL. */
struct line {
    const char *words[64];
    size_t n;
    char predictor[512], tokenizer[512];
};

static void add(struct line *line, const char *option, const char *value)
{
    line->words[line->n++] = option;
    if (value)
        line->words[line->n++] = value;
    line->words[line->n] = NULL;
}

static void start_line(struct line *line, const char *command, const char *model)
{
    char relative[64];

    *line = (struct line){.n = 0};
    snprintf(relative, sizeof(relative), "%s/predictor", model);
    snprintf(line->predictor, sizeof(line->predictor), "%s", kt_source(relative));
    snprintf(relative, sizeof(relative), "%s/tokenizer", model);
    snprintf(line->tokenizer, sizeof(line->tokenizer), "%s", kt_source(relative));
    add(line, command, NULL);
    add(line, "--predictor", line->predictor);
    add(line, "--tokenizer", line->tokenizer);
}

#define PICO    "golden/pico"
#define BUILTIN "../etc/model"

static struct kt_run run_line(const struct line *line, int status)
{
    struct kt_run run = kt_run(NULL, line->words);

    KT_CHECK(run.status == status, "expected status %d, found %d: %s", status, run.status, run.err);
    return run;
}

static json_t *run_json(const struct line *line)
{
    struct line copy = *line;
    struct kt_run run;
    json_t *json;

    add(&copy, "--format", "json");
    run = run_line(&copy, 0);
    CU_ASSERT_TRUE(kt_one_line(run.out));
    CU_ASSERT_STRING_EQUAL(run.err, "");
    json = json_loads(run.out, JSON_REJECT_DUPLICATES, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    kt_run_free(&run);
    return json;
}

static const json_t *horizon_at(const json_t *json, size_t h)
{
    return json_array_get(json_object_get(json, "horizons"), h - 1);
}

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* Bars of a market, made by the program's own simulator. */
static const char *simulate(const char *name, const char *n_bars, const char *seed)
{
    const char *path = kt_path(name);
    struct kt_run run =
        KT_RUN("simulate", "--symbols", "1", "--bars", n_bars, "--seed", seed, "--interval", "5m");

    CU_ASSERT_EQUAL_FATAL(run.status, 0);
    kt_put(path, run.out, run.out_bytes);
    kt_run_free(&run);
    return path;
}

/* Outputs */

static void keys(void)
{
    static const char *const top[] = {"file", "mode", "origins", "calibrated_origins", "horizons"};
    static const char *const each[] = {"h",           "crps",      "crps_rw",
                                       "skill",       "skill_cal", "cover90_raw",
                                       "cover90_cal", "pit_p",     "join_error"};
    const char *csv = simulate("keys.csv", "320", "3");
    struct line line;
    json_t *json;

    start_line(&line, "backtest", BUILTIN);
    add(&line, "--bars", csv);
    add(&line, "--lookback", "200");
    add(&line, "--horizon", "7");
    add(&line, "--every", "11");
    add(&line, "--paths", "8");
    json = run_json(&line);
    CU_ASSERT_EQUAL(json_object_size(json), KR_ARRAY_LENGTH(top));
    for (size_t i = 0; i < KR_ARRAY_LENGTH(top); i++)
        KT_CHECK(json_object_get(json, top[i]) != NULL, "no %s", top[i]);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json, "file")), csv);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json, "mode")), "rolling");
    /* behind bars 200, 211, .. 310: the last that seven bars follow */
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json, "origins")), 11);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json, "calibrated_origins")), 0);
    CU_ASSERT_EQUAL_FATAL(json_array_size(json_object_get(json, "horizons")), 7);
    for (size_t h = 1; h <= 7; h++) {
        const json_t *horizon = horizon_at(json, h);

        CU_ASSERT_EQUAL(json_object_size(horizon), KR_ARRAY_LENGTH(each));
        for (size_t i = 0; i < KR_ARRAY_LENGTH(each); i++)
            KT_CHECK(json_object_get(horizon, each[i]) != NULL, "no %s", each[i]);
        CU_ASSERT_EQUAL(json_integer_value(json_object_get(horizon, "h")), (json_int_t)h);
        CU_ASSERT_DOUBLE_EQUAL(number(horizon, "skill"),
                               1 - number(horizon, "crps") / number(horizon, "crps_rw"), 1e-12);
        CU_ASSERT_TRUE(json_is_null(json_object_get(horizon, "cover90_cal")));
        CU_ASSERT_EQUAL(number(horizon, "join_error"), number(horizon_at(json, 1), "join_error"));
    }
    json_decref(json);
}

/* No checkpoint named: the built-in model; half of one is refused. */
static void built_in(void)
{
    const char *csv = simulate("builtin.csv", "64", "3");
    struct kt_run run = KT_RUN("backtest", "--bars", csv, "--lookback", "60", "--horizon", "2",
                               "--paths", "2", "--format", "json");

    KT_CHECK(run.status == 0, "status %d: %s", run.status, run.err);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "\"mode\":\"rolling\",\"origins\":2,"));
    kt_run_free(&run);
    run = KT_RUN("backtest", "--bars", csv, "--predictor", "/nonexistent");
    CU_ASSERT_EQUAL(run.status, 64);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.err, "found no --tokenizer"));
    kt_run_free(&run);
}

/* Pico over 40 bars of history, short steps. */
static void short_line(struct line *line, const char *command, const char *csv)
{
    start_line(line, command, PICO);
    add(line, "--bars", csv);
    add(line, "--lookback", "40");
    add(line, "--max-context", "64");
    add(line, "--horizon", "3");
    add(line, "--paths", "8");
    add(line, "--mode", "exact");
    add(line, "--calendar", "24x7");
}

static void determinism(void)
{
    const char *csv = simulate("same.csv", "80", "5");
    struct line line;
    json_t *one, *same, *other;

    short_line(&line, "backtest", csv);
    one = run_json(&line);
    same = run_json(&line);
    CU_ASSERT_TRUE(json_equal(one, same));
    add(&line, "--seed", "1");
    other = run_json(&line);
    CU_ASSERT_NOT_EQUAL(number(horizon_at(one, 1), "crps"), number(horizon_at(other, 1), "crps"));
    /* the walk knows nothing of draws */
    CU_ASSERT_EQUAL(number(horizon_at(one, 3), "crps_rw"), number(horizon_at(other, 3), "crps_rw"));
    json_decref(one);
    json_decref(same);
    json_decref(other);
}

/* Recomputed */

#define STEPS 3
#define PATHS 8

/* One forecast of predict over a file's first n_rows bars: closes, and the mean first open. */
static double predicted(const char *csv, size_t n_rows, double ret_close[STEPS][PATHS])
{
    const char *cut = kt_path("cut.csv"), *output = kt_path("paths.safetensors");
    struct kr_safetensors *file = NULL;
    const struct kr_tensor *tensor;
    float values[PATHS * STEPS * KR_COLUMNS];
    struct kr_error error;
    struct line line;
    struct kt_run run;
    size_t n_bytes, rows = 0, at = 0;
    char *bytes = kt_get(csv, &n_bytes);
    double open = 0;

    for (; at < n_bytes && rows < n_rows + 1; at++) /* and the header */
        rows += bytes[at] == '\n';
    kt_put(cut, bytes, at);
    free(bytes);
    short_line(&line, "predict", cut);
    add(&line, "--format", "safetensors");
    add(&line, "--output", output);
    run = run_line(&line, 0);
    kt_run_free(&run);
    CU_ASSERT_EQUAL_FATAL(kr_safetensors_open(output, &file, &error), 0);
    tensor = kr_safetensors_find(file, "paths");
    CU_ASSERT_FATAL(tensor && tensor->n_items == KR_ARRAY_LENGTH(values));
    CU_ASSERT_EQUAL_FATAL(kr_tensor_to_f32(tensor, values), 0);
    for (size_t p = 0; p < PATHS; p++) {
        open += (double)values[p * STEPS * KR_COLUMNS + KR_OPEN] / PATHS;
        for (size_t step = 0; step < STEPS; step++)
            ret_close[step][p] = (double)values[(p * STEPS + step) * KR_COLUMNS + KR_CLOSE];
    }
    kr_safetensors_close(&file);
    return open;
}

/* E|X - y| - E|X - X'| / 2 with the pairs of different members. */
static double fair_crps(const double x[PATHS], double y)
{
    double near = 0, spread = 0;

    for (size_t i = 0; i < PATHS; i++) {
        near += fabs(x[i] - y) / PATHS;
        for (size_t j = 0; j < PATHS; j++)
            spread += fabs(x[i] - x[j]) / (PATHS * (PATHS - 1));
    }
    return near - spread / 2;
}

static double walk_crps(const double *closes, size_t n, size_t h, double y)
{
    double squares = 0, weights = 0, deviation, z;

    for (size_t i = 1; i < n; i++) {
        double weight = pow(0.97, (double)(n - 1 - i)), r = log(closes[i] / closes[i - 1]);

        squares += weight * r * r;
        weights += weight;
    }
    deviation = sqrt(squares / weights * (double)h);
    z = y / deviation;
    return deviation *
           (z * erf(z / M_SQRT2) + 2 * exp(-z * z / 2) / sqrt(2 * M_PI) - 1 / sqrt(M_PI));
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The 90 % band of eight members is the outermost two: 0.05 * 9 lies below the first. */
static bool holds(double x[PATHS], double y)
{
    qsort(x, PATHS, sizeof(*x), by_size);
    return y >= x[0] && y <= x[PATHS - 1];
}

static size_t read_closes(const char *csv, double *ret, size_t max)
{
    size_t n_bytes, n = 0;
    char *bytes = kt_get(csv, &n_bytes), *save = NULL;

    strtok_r(bytes, "\n", &save);
    for (char *row; n < max && (row = strtok_r(NULL, "\n", &save)) != NULL;)
        n += sscanf(row, "%*[^,],%*f,%*f,%*f,%lf", &ret[n]) == 1;
    free(bytes);
    return n;
}

/* Four origins, each forecast again by predict over the file cut off there. */
static void recomputed(void)
{
    char csv[512];
    double closes[50], crps[STEPS] = {0}, walk[STEPS] = {0}, held[STEPS] = {0}, join = 0;
    struct line line;
    json_t *json;

    snprintf(csv, sizeof(csv), "%s", simulate("tiny.csv", "50", "7")); /* outlives the rotation */
    CU_ASSERT_EQUAL_FATAL(read_closes(csv, closes, 50), 50);
    for (size_t n = 40; n <= 46; n += 2) {
        double paths[STEPS][PATHS], last = closes[n - 1];

        join += fabs(log(predicted(csv, n, paths) / last)) / 4;
        for (size_t step = 0; step < STEPS; step++) {
            double y = log(closes[n + step] / last);

            for (size_t p = 0; p < PATHS; p++)
                paths[step][p] = log(paths[step][p] / last);
            crps[step] += fair_crps(paths[step], y) / 4;
            walk[step] += walk_crps(closes, n, step + 1, y) / 4;
            held[step] += holds(paths[step], y) / 4.0;
        }
    }
    short_line(&line, "backtest", csv);
    add(&line, "--every", "2");
    json = run_json(&line);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json, "origins")), 4);
    for (size_t step = 0; step < STEPS; step++) {
        const json_t *horizon = horizon_at(json, step + 1);

        KT_CHECK(fabs(number(horizon, "crps") / crps[step] - 1) < 1e-4, "crps: %g, %g",
                 number(horizon, "crps"), crps[step]);
        KT_CHECK(fabs(number(horizon, "crps_rw") / walk[step] - 1) < 1e-9, "walk: %g, %g",
                 number(horizon, "crps_rw"), walk[step]);
        CU_ASSERT_EQUAL(number(horizon, "cover90_raw"), held[step]);
        CU_ASSERT_DOUBLE_EQUAL(number(horizon, "join_error"), join, 1e-6);
    }
    json_decref(json);
}

/* A market at rest: forecasts are flat and right, there is nothing to beat. Minutes 45 to 49 are
 * missing, so that steps stay unscored. */
static void at_rest(void)
{
    const char *path = kt_path("flat.csv");
    FILE *file = fopen(path, "w");
    struct line line;
    struct kt_run run;
    json_t *json;

    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fprintf(file, "time,open,high,low,close,volume\n");
    for (int i = 0; i < 60; i++)
        if (i < 45 || i >= 50)
            fprintf(file, "2026-03-02 10:%02d:00,7,7,7,7,5\n", i);
    fclose(file);
    short_line(&line, "backtest", path);
    add(&line, "--every", "4");
    json = run_json(&line);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json, "origins")), 4);
    for (size_t h = 1; h <= 3; h++) {
        const json_t *horizon = horizon_at(json, h);

        CU_ASSERT_EQUAL(number(horizon, "crps"), 0);
        CU_ASSERT_EQUAL(number(horizon, "crps_rw"), 0);
        CU_ASSERT_EQUAL(number(horizon, "skill"), 0);
        CU_ASSERT_EQUAL(number(horizon, "cover90_raw"), 1);
        CU_ASSERT_EQUAL(number(horizon, "join_error"), 0);
    }
    json_decref(json);
    /* behind minute 43 only the next bar comes in time */
    run = run_line(&line, 0);
    KT_CHECK(strstr(run.out, "2 of 12 steps unscored") != NULL, "%s", run.out);
    kt_run_free(&run);
}

/* Forecasts behind every bar: 100 outcomes at both horizons are there from the 102nd origin on. */
static void calibrated(void)
{
    const char *csv = simulate("long.csv", "200", "11");
    struct line line;
    json_t *json;

    start_line(&line, "backtest", PICO);
    add(&line, "--bars", csv);
    add(&line, "--lookback", "32");
    add(&line, "--max-context", "64");
    add(&line, "--horizon", "2");
    add(&line, "--every", "1");
    add(&line, "--paths", "8");
    add(&line, "--mode", "exact");
    add(&line, "--calendar", "24x7");
    json = run_json(&line);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json, "origins")), 167);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json, "calibrated_origins")), 66);
    for (size_t h = 1; h <= 2; h++) {
        double cover = number(horizon_at(json, h), "cover90_cal") * 66;

        CU_ASSERT_DOUBLE_EQUAL(cover, round(cover), 1e-9); /* counted over those 66 */
        CU_ASSERT_TRUE(cover > 66 * 0.75 && cover <= 66);
    }
    json_decref(json);
}

/* What is learned in the history changes no raw number, and makes the first origins calibrated. */
static void history_teaches(void)
{
    static const char *const raw[] = {"crps", "crps_rw", "skill", "cover90_raw", "pit_p"};
    const char *csv = simulate("history.csv", "260", "11");
    json_t *without, *with;
    struct line line;

    start_line(&line, "backtest", PICO);
    add(&line, "--bars", csv);
    add(&line, "--lookback", "200");
    add(&line, "--horizon", "2");
    add(&line, "--every", "5");
    add(&line, "--paths", "8");
    add(&line, "--mode", "exact");
    add(&line, "--calendar", "24x7");
    add(&line, "--learn-every", "0");
    without = run_json(&line);
    line.words[line.n - 1] = "1";
    with = run_json(&line);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(without, "origins")), 12);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(with, "origins")), 12);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(without, "calibrated_origins")), 0);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(with, "calibrated_origins")), 12);
    for (size_t h = 1; h <= 2; h++) {
        for (size_t i = 0; i < KR_ARRAY_LENGTH(raw); i++)
            CU_ASSERT_EQUAL(number(horizon_at(with, h), raw[i]),
                            number(horizon_at(without, h), raw[i]));
        CU_ASSERT_NOT_EQUAL(number(horizon_at(with, h), "skill_cal"),
                            number(horizon_at(without, h), "skill_cal"));
    }
    json_decref(without);
    json_decref(with);
}

/* Several files: each as by itself, and means of files, not of origins. A market at rest is one of them. */
static void several(void)
{
    static const char *const columns[] = {"skill", "skill_cal", "cover90_raw"};
    char csv[2][512], flat[512], needle[64];
    const char *names[3] = {csv[0], csv[1], flat};
    json_t *all, *mean, *one[3];
    struct line line;
    struct kt_run run;
    FILE *file;

    snprintf(csv[0], sizeof(csv[0]), "%s", simulate("one.csv", "80", "5"));
    snprintf(csv[1], sizeof(csv[1]), "%s", simulate("two.csv", "58", "6"));
    snprintf(flat, sizeof(flat), "%s", kt_path("three.csv"));
    file = fopen(flat, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fprintf(file, "time,open,high,low,close,volume\n");
    for (int i = 0; i < 50; i++)
        fprintf(file, "2026-03-02 10:%02d:00,7,7,7,7,5\n", i);
    fclose(file);
    for (int i = 0; i < 3; i++) {
        short_line(&line, "backtest", names[i]);
        one[i] = run_json(&line);
    }
    short_line(&line, "backtest", csv[0]);
    add(&line, csv[1], NULL);
    add(&line, flat, NULL);
    all = run_json(&line);
    CU_ASSERT_EQUAL_FATAL(json_array_size(json_object_get(all, "files")), 3);
    for (size_t i = 0; i < 3; i++)
        CU_ASSERT_TRUE(json_equal(json_array_get(json_object_get(all, "files"), i), one[i]));
    mean = json_object_get(all, "mean");
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(mean, "files")), 3);
    CU_ASSERT_EQUAL(number(mean, "origins"), number(one[0], "origins") + number(one[1], "origins") +
                                                 number(one[2], "origins"));
    CU_ASSERT_NOT_EQUAL(number(one[0], "origins"), number(one[1], "origins"));
    CU_ASSERT_EQUAL(json_array_size(json_object_get(mean, "horizons")), STEPS);
    for (size_t h = 1; h <= STEPS; h++) {
        const json_t *row = horizon_at(mean, h);
        double least = INFINITY;

        for (size_t c = 0; c < KR_ARRAY_LENGTH(columns); c++) {
            double sum = 0;

            for (size_t i = 0; i < 3; i++)
                sum += number(horizon_at(one[i], h), columns[c]);
            CU_ASSERT_DOUBLE_EQUAL(number(row, columns[c]), sum / 3, 1e-12);
        }
        for (size_t i = 0; i < 3; i++)
            least = fmin(least, number(horizon_at(one[i], h), "skill"));
        CU_ASSERT_EQUAL(number(row, "least_skill"), least);
        CU_ASSERT_EQUAL(number(row, "scored_files"), 3);
        CU_ASSERT_EQUAL(number(row, "calibrated_files"), 0); /* too few outcomes in each */
        CU_ASSERT_TRUE(json_is_null(json_object_get(row, "cover90_cal")));
    }
    run = run_line(&line, 0);
    snprintf(needle, sizeof(needle), "\n   3 %+8.4f %+8.4f", number(horizon_at(mean, 3), "skill"),
             number(horizon_at(mean, 3), "skill_cal"));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "\nMeans over 3 files, "));
    /* the chosen horizons of the means are 1, 6, 12, 24 */
    CU_ASSERT_PTR_NULL(strstr(strstr(run.out, "\nMeans"), needle));
    snprintf(needle, sizeof(needle), "\n   1 %+8.4f %+8.4f", number(horizon_at(mean, 1), "skill"),
             number(horizon_at(mean, 1), "skill_cal"));
    CU_ASSERT_PTR_NOT_NULL(strstr(strstr(run.out, "\nMeans"), needle));
    kt_run_free(&run);
    add(&line, "/nonexistent.csv", NULL);
    run = run_line(&line, 66);
    CU_ASSERT_STRING_EQUAL(run.out, "");
    kt_run_free(&run);
    for (int i = 0; i < 3; i++)
        json_decref(one[i]);
    json_decref(all);
}

/* Two modes side by side: a mode is no distance from itself; anchored and exact are apart by what is told. */
static void compared(void)
{
    const char *csv = simulate("compared.csv", "260", "12");
    struct line line;
    struct kt_run run;
    json_t *json;

    start_line(&line, "backtest", PICO);
    add(&line, "--bars", csv);
    add(&line, "--lookback", "128");
    add(&line, "--horizon", "6");
    add(&line, "--paths", "16");
    add(&line, "--calendar", "24x7");
    add(&line, "--mode", "exact");
    add(&line, "--compare", "exact");
    json = run_json(&line);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(json, "modes")), 2);
    CU_ASSERT_EQUAL_FATAL(json_array_size(json_object_get(json, "distance")), 6);
    for (size_t i = 0; i < 6; i++)
        CU_ASSERT_EQUAL(number(json_array_get(json_object_get(json, "distance"), i), "worst"), 0);
    json_decref(json);
    line.words[line.n - 1] = "anchored";
    json = run_json(&line);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(
                               json_array_get(json_object_get(json, "modes"), 0), "mode")),
                           "exact");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(
                               json_array_get(json_object_get(json, "modes"), 1), "mode")),
                           "anchored");
    for (size_t i = 0; i < 6; i++) {
        const json_t *row = json_array_get(json_object_get(json, "distance"), i);

        CU_ASSERT_EQUAL(json_integer_value(json_object_get(row, "h")), (json_int_t)i + 1);
        CU_ASSERT_TRUE(number(row, "median") > 0 && number(row, "median") <= number(row, "worst"));
    }
    CU_ASSERT_TRUE(number(json_object_get(json, "drift"), "epochs") >= 2);
    json_decref(json);
    run = run_line(&line, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "\nanchored against exact: "));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, ": mode exact, "));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, ": mode anchored, "));
    kt_run_free(&run);
}

/* The table has the numbers of the JSON, chosen horizons first. */
static void table(void)
{
    const char *csv = simulate("table.csv", "80", "5");
    char expected[64];
    struct line line;
    struct kt_run run;
    json_t *json;
    const char *first;

    short_line(&line, "backtest", csv);
    json = run_json(&line);
    run = run_line(&line, 0);
    snprintf(expected, sizeof(expected), "\n   1 %8.3f %8.3f %+8.4f %+8.4f",
             number(horizon_at(json, 1), "crps") * 1e4,
             number(horizon_at(json, 1), "crps_rw") * 1e4, number(horizon_at(json, 1), "skill"),
             number(horizon_at(json, 1), "skill_cal"));
    first = strstr(run.out, expected);
    KT_CHECK(first != NULL, "expected %s in %s", expected, run.out);
    CU_ASSERT_TRUE(first && strstr(first + 1, expected)); /* among the chosen, and among all */
    CU_ASSERT_TRUE(strstr(run.out, "\n   3 ") > strstr(run.out, "all horizons"));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "(DM)"));
    kt_run_free(&run);
    json_decref(json);
}

/* SVG */

struct seen {
    unsigned n_text, n_path, n_rect, depth;
    bool bad;
};

static void on_start(GMarkupParseContext *context, const char *name, const char **keys,
                     const char **values, void *data, GError **error)
{
    struct seen *seen = data;

    (void)context;
    (void)keys;
    (void)error;
    seen->n_text += strcmp(name, "text") == 0;
    seen->n_path += strcmp(name, "path") == 0;
    seen->n_rect += strcmp(name, "rect") == 0;
    seen->bad |= seen->depth++ == 0 && strcmp(name, "svg") != 0;
    for (; *values; values++)
        seen->bad |= strstr(*values, "nan") != NULL || strstr(*values, "inf") != NULL;
}

static void on_end(GMarkupParseContext *context, const char *name, void *data, GError **error)
{
    (void)context;
    (void)name;
    (void)error;
    ((struct seen *)data)->depth--;
}

/* Well-formed, whatever the file is called. */
static void plot(void)
{
    static const GMarkupParser parser = {.start_element = on_start, .end_element = on_end};
    const char *csv = simulate("a<b>&\"c\".csv", "80", "5"), *path = kt_path("plot.svg");
    struct seen seen = {0};
    GMarkupParseContext *context = g_markup_parse_context_new(&parser, 0, &seen, NULL);
    struct line line;
    struct kt_run run;
    size_t n_bytes;
    char *svg;

    short_line(&line, "backtest", csv);
    add(&line, "--plot", path);
    run = run_line(&line, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "origins"));
    kt_run_free(&run);
    svg = kt_get(path, &n_bytes);
    CU_ASSERT_TRUE(g_markup_parse_context_parse(context, svg, (gssize)n_bytes, NULL));
    CU_ASSERT_TRUE(g_markup_parse_context_end_parse(context, NULL));
    g_markup_parse_context_free(context);
    CU_ASSERT_FALSE(seen.bad);
    CU_ASSERT_EQUAL(seen.depth, 0);
    CU_ASSERT_EQUAL(seen.n_path, 3 + 2 + 1 + 2);  /* bands, outline, median, closes */
    CU_ASSERT_EQUAL(seen.n_rect, 1 + 3 + 10 + 1); /* ground, bands' legend, bins and theirs */
    CU_ASSERT_TRUE(seen.n_text > 40);
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "Backtest of a&lt;b&gt;&amp;&quot;c&quot;.csv"));
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "nominal share of the central band, %"));
    CU_ASSERT_PTR_NOT_NULL(strstr(svg, "PIT histogram"));
    free(svg);
}

/* What is refused: one line, the documented status, nothing on stdout. */
static void refused(void)
{
    static const struct {
        const char *option, *value;
        int status;
        const char *words;
    } cases[] = {
        {"--bars", "/nonexistent.csv", 66, "/nonexistent.csv"},
        {"--lookback", "78", 65, "expected at least 81 (lookback 78 and horizon 3), found 80"},
        {"--every", "0", 64, "--every"},
        {"--horizon", "0", 64, "--horizon"},
        {"--temperature", "0", 64, "temperature"},
        {"--mode", "rolling", 78, "rolling"},
        {"--mode", "anchored", 78, "max_context"},
        {"--format", "csv", 64, "text|json"},
        {"--output", "/nonexistent/file", 74, "/nonexistent/file"},
        {"--predictor", "/nonexistent", 66, "/nonexistent"},
    };
    const char *csv = simulate("refused.csv", "80", "5");
    struct line line;
    struct kt_run run;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        short_line(&line, "backtest", csv);
        add(&line, cases[i].option, cases[i].value);
        run = run_line(&line, cases[i].status);
        KT_CHECK(kt_one_line(run.err), "more than a line: %s", run.err);
        KT_CHECK(strstr(run.err, cases[i].words) != NULL, "expected \"%s\" in: %s", cases[i].words,
                 run.err);
        CU_ASSERT_STRING_EQUAL(run.out, "");
        kt_run_free(&run);
    }
    start_line(&line, "backtest", PICO);
    run = run_line(&line, 64);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.err, "expected --bars FILE, found none"));
    kt_run_free(&run);
    short_line(&line, "backtest", csv);
    add(&line, "--plot", "/nonexistent/plot.svg");
    run = run_line(&line, 74);
    kt_run_free(&run);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"JSON", keys},
        {"built-in model", built_in},
        {"the same twice", determinism},
        {"numbers recomputed", recomputed},
        {"a market at rest", at_rest},
        {"calibrated", calibrated},
        {"the history teaches", history_teaches},
        {"two modes side by side", compared},
        {"several files", several},
        {"table", table},
        {"SVG", plot},
        {"refused", refused},
    };

    return kt_main("backtest", tests, KR_ARRAY_LENGTH(tests));
}
