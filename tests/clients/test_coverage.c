/* SPDX-License-Identifier: MIT */
/* The built-in model on simulated markets that it was not trained on (seeds of their own): how often do its 90 %
 * bands hold, as sampled and as calibrated online? Real programs: simulate, then backtest.
 *
 * In the suite a few markets, and bounds that few outcomes allow; with KT_MARKETS=64 (make coverage) enough
 * for the claim itself, within 0.02. Markets differ, so outcomes of one are not quite independent; the bound
 * takes them as if they were. */
#include "tests/clients/run.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_SEED 5000001 /* training used 1, 1001, 1002 and 9001 */
#define LEVEL      0.9
#define CLAIM      0.02

static const size_t horizons[] = {1, 6, 12, 24};
#define N_HORIZONS (sizeof(horizons) / sizeof(horizons[0]))

static struct {
    double inside, inside_cal, skill, skill_cal;
} sums[N_HORIZONS];
static double n_origins, n_calibrated;

static size_t from_environment(const char *name, size_t otherwise)
{
    const char *text = getenv(name);

    return text ? strtoul(text, NULL, 10) : otherwise;
}

static json_t *backtest(size_t market, size_t n_bars)
{
    static const char *const intervals[] = {"1m", "5m", "15m", "1h", "4h", "1d"};
    const char *interval = intervals[market % 6], *path = kt_path("market.csv");
    char seed[32], bars[32];
    struct kt_run run;
    json_t *json;

    snprintf(seed, sizeof(seed), "%zu", FIRST_SEED + market);
    snprintf(bars, sizeof(bars), "%zu", n_bars);
    run = KT_RUN("simulate", "--symbols", "1", "--bars", bars, "--seed", seed, "--interval",
                 interval);
    CU_ASSERT_EQUAL_FATAL(run.status, 0);
    kt_put(path, run.out, run.out_bytes);
    kt_run_free(&run);
    run = KT_RUN("backtest", "--bars", path, "--interval", interval, "--format", "json");
    KT_CHECK(run.status == 0, "market %zu: %s", market, run.err);
    json = json_loads(run.out, 0, NULL);
    kt_run_free(&run);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    return json;
}

static double number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);

    return json_is_number(value) ? json_number_value(value) : 0;
}

static void take(const json_t *json)
{
    double origins = number(json, "origins"), calibrated = number(json, "calibrated_origins");

    n_origins += origins;
    n_calibrated += calibrated;
    for (size_t i = 0; i < N_HORIZONS; i++) {
        const json_t *row = json_array_get(json_object_get(json, "horizons"), horizons[i] - 1);

        sums[i].inside += origins * number(row, "cover90_raw");
        sums[i].inside_cal += calibrated * number(row, "cover90_cal");
        /* every market weighs the same */
        sums[i].skill += number(row, "skill");
        sums[i].skill_cal += number(row, "skill_cal");
    }
}

static void held_out(void)
{
    size_t n_markets = from_environment("KT_MARKETS", getenv("KT_SANITIZED") ? 2 : 6);
    size_t n_bars = from_environment("KT_BARS", n_markets >= 64 ? 1600 : 1000);
    double error, bound;

    for (size_t market = 0; market < n_markets; market++) {
        json_t *json = backtest(market, n_bars);

        take(json);
        json_decref(json);
        if (n_markets >= 64 && (market + 1) % 16 == 0)
            kt_note("%zu of %zu markets", market + 1, n_markets);
    }
    CU_ASSERT_TRUE_FATAL(n_calibrated > 0);
    error = sqrt(LEVEL * (1 - LEVEL) / n_calibrated);
    bound = n_markets >= 64 ? CLAIM : CLAIM + 3 * error;
    kt_note("%zu markets, %.0f origins, %.0f of them calibrated; standard error %.4f, bound %.4f",
            n_markets, n_origins, n_calibrated, error, bound);
    CU_ASSERT_TRUE(n_calibrated > 0.8 * n_origins);
    for (size_t i = 0; i < N_HORIZONS; i++) {
        double raw = sums[i].inside / n_origins, cal = sums[i].inside_cal / n_calibrated;

        kt_note("h %2zu: 90 %% band holds raw %.4f, calibrated %.4f; skill %+.4f, %+.4f",
                horizons[i], raw, cal, sums[i].skill / (double)n_markets,
                sums[i].skill_cal / (double)n_markets);
        KT_CHECK(fabs(cal - LEVEL) <= bound, "h %zu: calibrated %.4f", horizons[i], cal);
    }
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"held-out simulated markets", held_out},
    };

    return kt_main("coverage", tests, 1);
}
