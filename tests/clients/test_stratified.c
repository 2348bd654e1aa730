/* SPDX-License-Identifier: MIT */
/* predict --stratified: how much less noise there is in means and quantiles, over many seeds; what else it changes;
 * and that nothing else does. Real program, built-in model. */
#include "tests/clients/run.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t steps[] = {1, 6, 24};
static const char *const names[] = {"mean", "q05", "q50", "q95"};
#define N_STEPS (sizeof(steps) / sizeof(steps[0]))
#define N_NAMES (sizeof(names) / sizeof(names[0]))

/* Sums over seeds, for the variance of each figure of the close. */
struct moments {
    double sum, squares;
};

static const char *csv;

static void write_bars(void)
{
    struct kt_run run =
        KT_RUN("simulate", "--symbols", "1", "--bars", "300", "--seed", "77", "--interval", "5m");

    CU_ASSERT_EQUAL_FATAL(run.status, 0);
    csv = kt_path("bars.csv");
    kt_put(csv, run.out, run.out_bytes);
    kt_run_free(&run);
}

static json_t *predict(const char *seed, bool stratified)
{
    const char *words[] = {
        "predict", "--bars", csv,        "--interval", "5m",
        "--seed",  seed,     "--format", "json",       stratified ? "--stratified" : NULL,
        NULL};
    struct kt_run run = kt_run(NULL, words);
    json_t *json;

    KT_CHECK(run.status == 0, "%s", run.err);
    json = json_loads(run.out, 0, NULL);
    kt_run_free(&run);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    return json;
}

static double at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

/* Levels are .05 .1 .25 .5 .75 .9 .95. */
static void take(const json_t *json, struct moments moments[N_STEPS][N_NAMES])
{
    const json_t *close = json_object_get(json, "close"), *q = json_object_get(close, "q");

    for (size_t s = 0; s < N_STEPS; s++) {
        size_t i = steps[s] - 1;
        const double figures[N_NAMES] = {at(json_object_get(close, "mean"), i),
                                         at(json_array_get(q, 0), i), at(json_array_get(q, 3), i),
                                         at(json_array_get(q, 6), i)};

        for (size_t n = 0; n < N_NAMES; n++) {
            moments[s][n].sum += figures[n];
            moments[s][n].squares += figures[n] * figures[n];
        }
    }
}

static double variance(const struct moments *moments, size_t n)
{
    double mean = moments->sum / (double)n;

    return moments->squares / (double)n - mean * mean;
}

static void less_noise(void)
{
    size_t n = getenv("KT_SANITIZED") ? 32 : 128;
    struct moments plain[N_STEPS][N_NAMES] = {{{0}}}, strata[N_STEPS][N_NAMES] = {{{0}}};

    write_bars();
    for (size_t seed = 1; seed <= n; seed++) {
        char text[24];

        snprintf(text, sizeof(text), "%zu", seed);
        for (int stratified = 0; stratified < 2; stratified++) {
            json_t *json = predict(text, stratified);

            take(json, stratified ? strata : plain);
            json_decref(json);
        }
    }
    for (size_t s = 0; s < N_STEPS; s++) {
        char line[128] = "";

        for (size_t i = 0; i < N_NAMES; i++)
            snprintf(line + strlen(line), sizeof(line) - strlen(line), "  %s %.2f", names[i],
                     variance(&strata[s][i], n) / variance(&plain[s][i], n));
        kt_note("h %2zu: variance over %zu seeds, stratified / independent:%s", steps[s], n, line);
    }
    /* the next bar is drawn by two uniforms alone; later ones by many, of which only the last are
     * spread evenly among paths that have gone apart */
    for (size_t i = 0; i < N_NAMES && n >= 128; i++) /* of fewer seeds it may be chance */
        KT_CHECK(variance(&strata[0][i], n) < variance(&plain[0][i], n), "%s", names[i]);
    CU_ASSERT_TRUE(variance(&strata[0][0], n) < variance(&plain[0][0], n));
}

static bool has_flag(const json_t *json, const char *name)
{
    const json_t *flag;
    size_t i;

    json_array_foreach(json_object_get(json, "flags"), i,
                       flag) if (strcmp(json_string_value(flag), name) == 0) return true;
    return false;
}

static void said(void)
{
    json_t *json;
    struct kt_run run;

    write_bars();
    json = predict("1", true);
    CU_ASSERT_TRUE(has_flag(json, "stratified"));
    json_decref(json);
    json = predict("1", false);
    CU_ASSERT_FALSE(has_flag(json, "stratified"));
    json_decref(json);
    run = KT_RUN("predict", "--bars", csv, "--stratified", "--uniforms", "none.safetensors");
    CU_ASSERT_EQUAL(run.status, 64);
    CU_ASSERT_TRUE(kt_one_line(run.err));
    kt_run_free(&run);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"less noise", less_noise},
        {"said, and not mixed with draws of one's own", said},
    };

    return kt_main("stratified", tests, sizeof(tests) / sizeof(tests[0]));
}
