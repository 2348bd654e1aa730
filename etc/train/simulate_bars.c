/* SPDX-License-Identifier: MIT */
/* simulate_bars SEED MARKETS BARS FILE: the training set as one safetensors file: `bars` [n, L, 6] f64 and
 * `t_ns` [n, L] i64, each market with an interval and sessions of its own. */
#include "clients/simulate.h"
#include "core/draw.h"
#include "core/safetensors.h"

#include <stdio.h>
#include <stdlib.h>

/* Intervals by weight; the first bar of a market is somewhere within eight years. */
static const char *const intervals[] = {"1m",  "1m", "1m", "5m", "5m", "5m", "15m", "15m",
                                        "30m", "1h", "1h", "1h", "2h", "4h", "1d",  "1d"};

static void simulate(uint64_t seed, size_t market, size_t n_bars, double *bars, int64_t *t_ns)
{
    struct kc_simulator simulator;
    struct kr_interval interval;
    char symbol[KR_SYMBOL_MAX + 1];
    double u = kr_draw(seed, (int64_t)market, 0, 0, 0), v = kr_draw(seed, (int64_t)market, 0, 0, 1);

    if (kr_interval_parse(intervals[(size_t)(u * KR_ARRAY_LENGTH(intervals))], &interval))
        abort();
    snprintf(symbol, sizeof(symbol), "T%zu", market);
    kc_simulate_start_any(&simulator, seed, symbol, &interval,
                          KC_SIMULATE_T0_NS - (int64_t)(v * 8 * 365) * INT64_C(86400000000000));
    for (size_t i = 0; i < n_bars; i++) {
        struct kr_bar bar;

        kc_simulate_next(&simulator, &bar);
        for (int c = 0; c < KR_COLUMNS; c++)
            bars[i * KR_COLUMNS + c] = bar.v[c];
        t_ns[i] = bar.t_ns;
    }
}

int main(int argc, char **argv)
{
    uint64_t seed;
    size_t markets, n_bars;
    double *bars;
    int64_t *t_ns;
    FILE *file;
    int r;

    if (argc != 5) {
        fputs("usage: simulate_bars SEED MARKETS BARS FILE\n", stderr);
        return 64;
    }
    seed = strtoull(argv[1], NULL, 10);
    markets = strtoull(argv[2], NULL, 10);
    n_bars = strtoull(argv[3], NULL, 10);
    bars = calloc(markets * n_bars, KR_COLUMNS * sizeof(*bars));
    t_ns = calloc(markets * n_bars, sizeof(*t_ns));
    file = fopen(argv[4], "wb");
    if (!bars || !t_ns || !file) {
        perror(argv[4]);
        return 74;
    }
    for (size_t i = 0; i < markets; i++)
        simulate(seed, i, n_bars, bars + i * n_bars * KR_COLUMNS, t_ns + i * n_bars);
    const struct kr_tensor tensors[] = {
        {.name = "bars",
         .dtype = KR_F64,
         .rank = 3,
         .shape = {markets, n_bars, KR_COLUMNS},
         .data = bars},
        {.name = "t_ns", .dtype = KR_I64, .rank = 2, .shape = {markets, n_bars}, .data = t_ns},
    };
    r = kr_safetensors_write(file, tensors, KR_ARRAY_LENGTH(tensors));
    if (r == 0 && fclose(file) == 0)
        return 0;
    fprintf(stderr, "%s: cannot be written\n", argv[4]);
    return 74;
}
