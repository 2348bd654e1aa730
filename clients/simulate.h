/* SPDX-License-Identifier: MIT */
/* Simulated markets: bars that look and count like traded ones, the same for the same seed.
 *
 * Each symbol has a character drawn from the seed and its name: price, tick, volatility, how much of it
 * clusters, how often it jumps, how much it trades. A bar is SIM_STEPS trades on the tick grid:
 * - volatility: GJR-GARCH(1,1) on bar returns (falls weigh more), times a slow log-volatility and a daily
 *   season; innovations with fat tails, rare jumps;
 * - drift: a slowly changing trend, small against the volatility, and a weak pull that keeps a long
 *   series within a factor of 50 of its first price;
 * - prices: the trades alternate between bid and ask around the unseen price, so closes bounce and
 *   high and low are what was traded;
 * - volume: log-normal, tied to volatility and to the size of the move, with a memory of its own; quiet
 *   symbols have bars without a trade: flat, volume 0.
 * Every random number is an addressed Philox draw (core/draw.h) of seed, interval, symbol, bar and step:
 * bar n of a symbol does not depend on how many bars or symbols are asked for. */
#ifndef KC_SIMULATE_H
#define KC_SIMULATE_H

#include "core/bar.h"

/* What stays the same for a symbol. */
struct kc_character {
    double price; /* first price */
    double tick;  /* a power of ten, or 5 times one */
    int decimals; /* of a price */
    double sigma; /* usual standard deviation of a bar's log-return */
    double alpha, gamma,
        beta;      /* GJR-GARCH: news, extra of falls, memory; alpha + gamma/2 + beta < 1 */
    double slow;   /* standard deviation of the slow log-volatility */
    double tail;   /* of the log-normal mixing of a bar's innovation */
    double jump;   /* probability of a jump in a bar */
    double season; /* depth of the daily season of volatility and volume, 0 to 1 */
    double trend;  /* standard deviation of the drift, in sigmas a bar */
    double spread; /* half the bid-ask distance, in ticks */
    double volume; /* usual volume of a bar */
    double quiet;  /* probability of a bar without a trade */
};

struct kc_simulator {
    struct kc_character character;
    struct kr_interval interval;
    uint64_t key;       /* of the draws */
    int64_t t0_ns;      /* open time of bar 0 */
    int64_t n;          /* bars made so far */
    double log_price;   /* unseen price */
    double garch;       /* variance factor, 1 on average */
    double slow;        /* log-volatility, 0 on average */
    double drift;       /* in sigmas a bar */
    double busy;        /* log-volume, 0 on average */
    int64_t last_ticks; /* last traded price */
};

/* 2024-01-01, a Monday. */
#define KC_SIMULATE_T0_NS INT64_C(1704067200000000000)

/* The name of symbol `index`: "SIM001", ... Return: its length. */
size_t kc_simulate_symbol(char ret[KR_SYMBOL_MAX + 1], size_t index);

/* Start a symbol; bar 0 opens at t0_ns, rounded down to the interval's grid. */
void kc_simulate_start(struct kc_simulator *simulator, uint64_t seed, const char *symbol,
                       const struct kr_interval *interval, int64_t t0_ns);

/* The next bar: all six columns and t_ns; the stamp is left zero. */
void kc_simulate_next(struct kc_simulator *simulator, struct kr_bar *ret);

#endif
