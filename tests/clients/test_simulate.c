/* SPDX-License-Identifier: MIT */
/* Simulated markets: the same for the same seed, valid, and with the statistics of markets. */
#include "clients/simulate.h"
#include "tests/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct kr_interval interval_of(const char *text)
{
    struct kr_interval interval = {"", 0};

    CU_ASSERT_EQUAL_FATAL(kr_interval_parse(text, &interval), 0);
    return interval;
}

static void make(uint64_t seed, const char *symbol, const char *interval, struct kr_bar *bars,
                 size_t n)
{
    struct kr_interval parsed = interval_of(interval);
    struct kc_simulator simulator;

    kc_simulate_start(&simulator, seed, symbol, &parsed, KC_SIMULATE_T0_NS);
    for (size_t i = 0; i < n; i++)
        kc_simulate_next(&simulator, &bars[i]);
}

static void deterministic(void)
{
    struct kr_bar a[300], b[300];

    make(7, "SIM001", "5m", a, 300);
    make(7, "SIM001", "5m", b, 200);
    CU_ASSERT_EQUAL(memcmp(a, b, 200 * sizeof(*a)), 0);
    make(8, "SIM001", "5m", b, 300);
    CU_ASSERT_NOT_EQUAL(a[0].v[KR_CLOSE], b[0].v[KR_CLOSE]);
    make(7, "SIM002", "5m", b, 300);
    CU_ASSERT_NOT_EQUAL(a[0].v[KR_CLOSE], b[0].v[KR_CLOSE]);
    make(7, "SIM001", "1m", b, 300);
    CU_ASSERT_NOT_EQUAL(a[0].v[KR_CLOSE], b[0].v[KR_CLOSE]);
}

static void names(void)
{
    char name[KR_SYMBOL_MAX + 1];

    CU_ASSERT_EQUAL(kc_simulate_symbol(name, 0), 6);
    CU_ASSERT_STRING_EQUAL(name, "SIM001");
    kc_simulate_symbol(name, 9999);
    CU_ASSERT_STRING_EQUAL(name, "SIM10000");
}

/* Every bar of every market: valid, on its grid, on its tick. */
static void valid(void)
{
    static const char *const intervals[] = {"1s", "1m", "7m", "1h", "1d", "1w"};
    struct kr_bar bar;

    for (uint64_t seed = 0; seed < 60; seed++) {
        struct kr_interval interval = interval_of(intervals[seed % KR_ARRAY_LENGTH(intervals)]);
        struct kc_simulator simulator;
        int64_t last_ns = INT64_MIN;
        size_t n_bad = 0;

        kc_simulate_start(&simulator, seed, "SIM001", &interval, KC_SIMULATE_T0_NS);
        for (size_t i = 0; i < 3000; i++) {
            double ticks;

            kc_simulate_next(&simulator, &bar);
            ticks = bar.v[KR_CLOSE] / simulator.character.tick;
            n_bad += kr_bar_check(bar.v) != KR_BAR_OK || !(bar.v[KR_VOLUME] >= 0) ||
                     !(bar.v[KR_AMOUNT] >= 0) || fabs(ticks - round(ticks)) > 1e-6 * ticks + 1e-6 ||
                     (last_ns != INT64_MIN && bar.t_ns != last_ns + interval.ns);
            last_ns = bar.t_ns;
        }
        KT_CHECK(n_bad == 0, "seed %llu, %s: %zu bad bars", (unsigned long long)seed, interval.text,
                 n_bad);
    }
}

/* Weeks begin on Monday; a start between two bars is rounded down. */
static void grid(void)
{
    const int64_t day = INT64_C(86400000000000);
    struct kr_interval week = interval_of("1w"), minutes = interval_of("5m");
    struct kc_simulator simulator;

    kc_simulate_start(&simulator, 1, "A", &week, KC_SIMULATE_T0_NS + 3 * day);
    CU_ASSERT_EQUAL(simulator.t_ns, KC_SIMULATE_T0_NS);
    kc_simulate_start(&simulator, 1, "A", &minutes, KC_SIMULATE_T0_NS + 1);
    CU_ASSERT_EQUAL(simulator.t_ns, KC_SIMULATE_T0_NS);
    kc_simulate_start(&simulator, 1, "A", &minutes, -1);
    CU_ASSERT_EQUAL(simulator.t_ns, -minutes.ns);
}

#define LONG 4000

struct facts {
    double kurtosis, sign, cluster, volume;
};

static double correlation(const double *a, const double *b, size_t n)
{
    double ma = 0, mb = 0, ab = 0, aa = 0, bb = 0;

    for (size_t i = 0; i < n; i++) {
        ma += a[i] / (double)n;
        mb += b[i] / (double)n;
    }
    for (size_t i = 0; i < n; i++) {
        ab += (a[i] - ma) * (b[i] - mb);
        aa += (a[i] - ma) * (a[i] - ma);
        bb += (b[i] - mb) * (b[i] - mb);
    }
    return ab / sqrt(aa * bb);
}

static struct facts facts_of(uint64_t seed, struct kr_bar *bars, double *r, double *size,
                             double *volume)
{
    double m2 = 0, m4 = 0;

    make(seed, "SIM001", "5m", bars, LONG);
    for (size_t i = 1; i < LONG; i++) {
        r[i - 1] = log(bars[i].v[KR_CLOSE] / bars[i - 1].v[KR_CLOSE]);
        size[i - 1] = fabs(r[i - 1]);
        volume[i - 1] = log(bars[i].v[KR_VOLUME] + 1e-3);
        m2 += r[i - 1] * r[i - 1] / (LONG - 1);
        m4 += pow(r[i - 1], 4) / (LONG - 1);
    }
    return (struct facts){m4 / (m2 * m2), correlation(r, r + 1, LONG - 2),
                          correlation(size, size + 1, LONG - 2),
                          correlation(size, volume, LONG - 1)};
}

/* What a prior over markets must hold: fat tails (the normal's kurtosis is 3), moves in clusters, volume with
 * them, and closes from bouncing between bid and ask to trending. */
static void like_markets(void)
{
    enum { MARKETS = 60 };
    struct kr_bar *bars = calloc(LONG, sizeof(*bars));
    double *memory = calloc(3 * LONG, sizeof(*memory));
    size_t n_fat = 0, n_clusters = 0, n_volume = 0, n_bounce = 0, n_none = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(bars);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    for (uint64_t seed = 1; seed <= MARKETS; seed++) {
        struct facts f = facts_of(seed, bars, memory, memory + LONG, memory + 2 * LONG);

        KT_CHECK(f.kurtosis > 2.5 && f.sign > -0.55 && f.sign < 0.35,
                 "seed %llu: kurtosis %g, correlation of returns %g", (unsigned long long)seed,
                 f.kurtosis, f.sign);
        n_fat += f.kurtosis > 5;
        n_clusters += f.cluster > 0.05;
        n_volume += f.volume > 0.1;
        n_bounce += f.sign < -0.15;
        n_none += fabs(f.sign) < 0.05;
    }
    kt_note(
        "of %d markets: fat tails %zu, clusters %zu, volume with moves %zu, bounce %zu, none %zu",
        MARKETS, n_fat, n_clusters, n_volume, n_bounce, n_none);
    CU_ASSERT_TRUE(n_fat >= MARKETS / 2);
    CU_ASSERT_TRUE(n_clusters >= MARKETS / 2);
    CU_ASSERT_TRUE(n_volume >= MARKETS / 3);
    CU_ASSERT_TRUE(n_bounce >= MARKETS / 8 && n_bounce <= MARKETS / 2);
    CU_ASSERT_TRUE(n_none >= MARKETS / 8);
    free(bars);
    free(memory);
}

/* Markets with holes, coarse ticks, no volume, stretches without a move: each occurs, none rules. */
static void variety(void)
{
    enum { MARKETS = 200, BARS = 400 };
    struct kr_interval interval = interval_of("5m");
    size_t n_coarse = 0, n_no_volume = 0, n_flat = 0, n_gap = 0, n_closed = 0, n_weekend = 0;

    for (uint64_t seed = 0; seed < MARKETS; seed++) {
        struct kc_simulator simulator;
        struct kr_bar bar, last = {0};
        size_t zeros = 0, flats = 0, gaps = 0;
        double volume = 0;

        kc_simulate_start_any(&simulator, seed, "X", &interval, KC_SIMULATE_T0_NS);
        n_closed += simulator.character.n_sessions > 0;
        for (size_t i = 0; i < BARS; i++) {
            kc_simulate_next(&simulator, &bar);
            CU_ASSERT_TRUE(i == 0 || bar.t_ns > last.t_ns);
            zeros += bar.v[KR_CLOSE] == last.v[KR_CLOSE];
            flats += bar.v[KR_HIGH] == bar.v[KR_LOW];
            gaps += i > 0 && bar.t_ns > last.t_ns + interval.ns;
            n_weekend += simulator.character.weekdays == 5 &&
                         (bar.t_ns / INT64_C(86400000000000) + 3) % 7 >= 5;
            volume += bar.v[KR_VOLUME];
            last = bar;
        }
        n_coarse += zeros > BARS / 5;
        n_flat += flats > BARS / 5;
        n_gap += gaps > 0;
        n_no_volume += volume == 0;
    }
    kt_note(
        "of %d markets: coarse %zu, flat %zu, with sessions %zu, with breaks %zu, no volume %zu",
        MARKETS, n_coarse, n_flat, n_closed, n_gap, n_no_volume);
    CU_ASSERT_TRUE(n_coarse > 10 && n_coarse < 100);
    CU_ASSERT_TRUE(n_flat > 5 && n_flat < 80);
    CU_ASSERT_TRUE(n_closed > 70 && n_closed < 150);
    CU_ASSERT_TRUE(n_gap > 50 && n_gap <= n_closed);
    CU_ASSERT_TRUE(n_no_volume > 3 && n_no_volume < 40);
    CU_ASSERT_EQUAL(n_weekend, 0);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"the same seed, the same bars", deterministic}, {"names", names},
        {"valid bars on grid and tick", valid},          {"the first bar's time", grid},
        {"statistics of markets", like_markets},         {"variety", variety},
    };

    return kt_main("simulate", tests, KR_ARRAY_LENGTH(tests));
}
