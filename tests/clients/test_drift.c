/* SPDX-License-Identifier: MIT */
/* How far an anchored forecast's median is from the exact one's, by the same draws, on a small trained model of levels
 * (tests/levels) and simulated markets: with the drift rule as it is live, and without it. Real program.
 *
 * In the suite a few origins, with KT_ORIGINS=100 (make drift) enough for a table to look at. */
#include "tests/clients/run.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_MARKETS 3
#define LOOKBACK  128
#define HORIZON   24
#define EVERY     24
#define BOUND     0.05

static const size_t horizons[] = {1, 6, 12, 24};
#define N_HORIZONS (sizeof(horizons) / sizeof(horizons[0]))

/* Means over markets of what each comes to: medians over origins. */
struct found {
    double distance[N_HORIZONS], by_drift[N_HORIZONS][3], n_by_drift[N_HORIZONS][3], drift;
    double bars, epochs, drifted;
};

static size_t n_origins(void)
{
    const char *text = getenv("KT_ORIGINS");

    return text ? strtoul(text, NULL, 10) : getenv("KT_SANITIZED") ? 4 : 20;
}

static const char *market(size_t i)
{
    static char name[32];
    char seed[32], bars[32];
    struct kt_run run;

    snprintf(seed, sizeof(seed), "%zu", 6000001 + i);
    snprintf(bars, sizeof(bars), "%zu", LOOKBACK + HORIZON + (n_origins() - 1) * EVERY);
    snprintf(name, sizeof(name), "market-%zu.csv", i);
    run = KT_RUN("simulate", "--symbols", "1", "--bars", bars, "--seed", seed, "--interval",
                 i % 2 ? "1h" : "5m");
    CU_ASSERT_EQUAL_FATAL(run.status, 0);
    kt_put(kt_path(name), run.out, run.out_bytes);
    kt_run_free(&run);
    return kt_path(name);
}

static json_t *compare(const char *csv, const char *interval, bool rule)
{
    static char predictor[512], tokenizer[512];
    const char *words[] = {"backtest", "--bars",
                           csv,        "--interval",
                           interval,   "--predictor",
                           predictor,  "--tokenizer",
                           tokenizer,  "--lookback",
                           "128",      "--paths",
                           "512",      "--learn-every",
                           "0",        "--mode",
                           "exact",    "--compare",
                           "anchored", "--format",
                           "json",     rule ? NULL : "--drift",
                           "1e9",      NULL};
    struct kt_run run;
    json_t *json;

    snprintf(predictor, sizeof(predictor), "%s", kt_source("levels/predictor"));
    snprintf(tokenizer, sizeof(tokenizer), "%s", kt_source("levels/tokenizer"));
    run = kt_run(NULL, words);
    KT_CHECK(run.status == 0, "%s", run.err);
    json = json_loads(run.out, 0, NULL);
    kt_run_free(&run);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    return json;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void take(const json_t *json, struct found *found)
{
    const json_t *drift = json_object_get(json, "drift");

    for (size_t i = 0; i < N_HORIZONS; i++) {
        const json_t *row = json_array_get(json_object_get(json, "distance"), horizons[i] - 1);

        found->distance[i] += number(row, "median") / N_MARKETS;
        for (size_t k = 0; k < 3; k++) {
            const json_t *part = json_array_get(json_object_get(row, "by_drift"), k);

            if (json_is_number(part)) {
                found->by_drift[i][k] += json_number_value(part);
                found->n_by_drift[i][k]++;
            }
        }
    }
    found->drift += number(drift, "median") / N_MARKETS;
    found->epochs += number(drift, "epochs");
    found->drifted += number(drift, "drifted");
    found->bars += (double)(HORIZON + (n_origins() - 1) * EVERY);
}

static void print(const char *name, const struct found *found)
{
    kt_note("%s: median drift %.2f, an epoch lasts %.0f bars, %.0f of %.0f begun early", name,
            found->drift, found->bars / found->epochs, found->drifted, found->epochs);
    for (size_t i = 0; i < N_HORIZONS; i++)
        kt_note("  h %2zu: %.4f; by drift below 0.25, below 0.5, above: %.4f %.4f %.4f",
                horizons[i], found->distance[i], found->by_drift[i][0] / found->n_by_drift[i][0],
                found->by_drift[i][1] / found->n_by_drift[i][1],
                found->by_drift[i][2] / found->n_by_drift[i][2]);
}

static void close_to_exact(void)
{
    struct found with = {.drift = 0}, without = {.drift = 0};

    for (size_t i = 0; i < N_MARKETS; i++) {
        const char *csv = market(i), *interval = i % 2 ? "1h" : "5m";

        for (int rule = 0; rule < 2; rule++) {
            json_t *json = compare(csv, interval, rule);

            take(json, rule ? &with : &without);
            json_decref(json);
        }
    }
    kt_note(
        "|difference of medians| / (95 %% - 5 %%), median over %zu origins, mean over %d markets",
        n_origins(), N_MARKETS);
    print("drift rule on", &with);
    print("drift rule off", &without);
    for (size_t i = 0; i < N_HORIZONS && n_origins() >= 20; i++)
        KT_CHECK(with.distance[i] < BOUND, "h %zu: %.4f", horizons[i], with.distance[i]);
    CU_ASSERT_TRUE(with.epochs >= without.epochs);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"anchored against exact", close_to_exact},
    };

    return kt_main("drift", tests, 1);
}
