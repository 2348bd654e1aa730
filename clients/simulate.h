/* SPDX-License-Identifier: MIT */
/* Simulated markets: bars that look and count like traded ones, the same for the same seed.
 *
 * One market's character is drawn from a wide prior over real markets, by seed, interval and name; the
 * built-in model was trained on nothing else (etc/train/). What a market is made of:
 * - an efficient price: volatility is the product of a GJR-GARCH, a slow log-volatility, up to four
 *   regimes and a season of the day; fat tails by mixing; jumps, some of which revert; a drift that is
 *   remembered for a few bars (momentum) or pulls back; gaps overnight and over weekends;
 * - a traded price beside it: a transitory part that decays within a few bars, bid and ask on both
 *   sides with a side that persists, a tick grid from very fine to several bars' moves;
 * - trading: up to KC_SIMULATE_TRADES trades a bar, from every one to less than one a bar; the open may stand
 *   where the last trade was; stretches in which nothing moves;
 * - volume: log-normal with memory, tied to volatility, the season, the bar's range and its trades; whole
 *   lots in some markets, missing in others.
 * Every random number is an addressed Philox draw (core/draw.h) of seed, interval, symbol, bar and
 * purpose: bar n of a symbol does not depend on how many bars or symbols are asked for. */
#ifndef KC_SIMULATE_H
#define KC_SIMULATE_H

#include "core/bar.h"

#define KC_SIMULATE_TRADES  12
#define KC_SIMULATE_REGIMES 4

/* What stays the same for a symbol. Lengths in bars, sizes in usual standard deviations of a bar. */
struct kc_character {
    double price;              /* first price */
    double tick;               /* a power of ten times 1, 2 or 5 */
    int decimals;              /* of a price */
    double sigma;              /* usual standard deviation of a bar's log-return */
    double alpha, gamma, beta; /* GJR-GARCH: news, extra of one side, memory */
    bool gamma_up;             /* it is rises that weigh more */
    double slow, slow_memory;  /* standard deviation and memory of the slow log-volatility */
    int regimes;
    double regime[KC_SIMULATE_REGIMES]; /* volatility factors */
    double regime_length;
    double tail;                /* standard deviation of the log of a bar's mixing variable */
    double season;              /* depth of the daily season, 0 to 1 */
    double season_phase;        /* of a market that never closes, in days */
    double jump;                /* probability of a jump in a bar */
    double jump_size;           /* its standard deviation */
    double jump_reverts;        /* share of it that is transitory */
    double drift, drift_memory; /* standard deviation of the momentum */
    double pull, pull_memory;   /* standard deviation of the transitory part */
    double half_spread;         /* bid to middle */
    double stick;               /* probability that a trade is on the side of the last one */
    double trades;      /* expected in a usual bar, of KC_SIMULATE_TRADES that there may be */
    bool liquid;        /* each of them stands for many */
    bool opens_at_last; /* the open repeats the last close when trading is continuous */
    double gap;         /* size of a gap over night, in sigmas times sqrt(bars in the break) */
    double halt, halt_length; /* probability and length of a stretch without moves */
    double volume;            /* usual volume of a bar */
    double volume_sigma, volume_memory, volume_noise;
    double volume_volatility, volume_range; /* exponents */
    double lot;                             /* volume is a multiple of it; 0: no volume */
    double multiplier;                      /* amount of a unit of volume, in prices */
    int n_sessions;                         /* 0: never closes */
    int32_t session[2][2];                  /* start and end, seconds of the day */
    int weekdays;                           /* 5 or 7 */
};

struct kc_simulator {
    struct kc_character character;
    struct kr_interval interval;
    uint64_t key;      /* of the draws */
    int64_t t_ns;      /* open time of the next bar */
    int64_t n;         /* bars made so far */
    double break_bars; /* closed time before the next bar, in bars */
    double log_price;  /* efficient price */
    double pull;       /* transitory part of the traded price, in sigmas */
    double garch;      /* variance factor, 1 on average */
    double slow;       /* log-volatility, 0 on average */
    double drift;      /* in sigmas a bar */
    double busy;       /* log-volume, 0 on average */
    int regime;
    int64_t halted;     /* bars left without a move */
    double side;        /* of the last trade, -1 or 1 */
    int64_t last_ticks; /* last traded price */
};

/* 2024-01-01, a Monday. */
#define KC_SIMULATE_T0_NS INT64_C(1704067200000000000)

/* The name of symbol `index`: "SIM001", ... Return: its length. */
size_t kc_simulate_symbol(char ret[KR_SYMBOL_MAX + 1], size_t index);

/* Start a symbol that trades around the clock; bar 0 opens at t0_ns, rounded down to the interval's grid. */
void kc_simulate_start(struct kc_simulator *simulator, uint64_t seed, const char *symbol,
                       const struct kr_interval *interval, int64_t t0_ns);

/* The same, but the market may also close over night, at noon and on weekends, as drawn. Times are the
 * exchange's own. */
void kc_simulate_start_any(struct kc_simulator *simulator, uint64_t seed, const char *symbol,
                           const struct kr_interval *interval, int64_t t0_ns);

/* The next bar: all six columns and t_ns; the stamp is left zero. */
void kc_simulate_next(struct kc_simulator *simulator, struct kr_bar *ret);

#endif
