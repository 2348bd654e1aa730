/* SPDX-License-Identifier: MIT */
#include "clients/simulate.h"

#include "core/draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIM_STEPS 16 /* trades a bar */
#define DAY_NS    INT64_C(86400000000000)
#define PI        3.14159265358979323846

/* What a bar's draws are for: the `path` of their address. */
enum purpose { CHARACTER, STEPS, SIDES, BAR };

static double uniform(const struct kc_simulator *simulator, enum purpose purpose, uint32_t step)
{
    int64_t bar = purpose == CHARACTER ? -1 : simulator->n;

    return kr_draw(simulator->key, bar, purpose, step, 0);
}

/* Standard normal (Box and Muller) from the two heads of one address. */
static double normal(const struct kc_simulator *simulator, enum purpose purpose, uint32_t step)
{
    int64_t bar = purpose == CHARACTER ? -1 : simulator->n;
    double u = kr_draw(simulator->key, bar, purpose, step, 0);
    double v = kr_draw(simulator->key, bar, purpose, step, 1);

    return sqrt(-2 * log(1 - u)) * cos(2 * PI * v);
}

static double between(const struct kc_simulator *simulator, uint32_t step, double low, double high)
{
    return low + (high - low) * uniform(simulator, CHARACTER, step);
}

size_t kc_simulate_symbol(char ret[KR_SYMBOL_MAX + 1], size_t index)
{
    return (size_t)snprintf(ret, KR_SYMBOL_MAX + 1, "SIM%03zu", index + 1);
}

static void draw_character(struct kc_simulator *simulator)
{
    struct kc_character *c = &simulator->character;
    double day = (double)simulator->interval.ns / (double)DAY_NS;
    int exponent;

    c->price = exp(between(simulator, 0, log(0.05), log(50000)));
    exponent = (int)floor(log10(c->price)) - 4;
    c->decimals = exponent < 0 ? -exponent : 0;
    c->tick = pow(10, exponent) * (uniform(simulator, CHARACTER, 1) < 0.25 ? 5 : 1);
    c->sigma = 0.02 * exp(0.6 * normal(simulator, CHARACTER, 2)) * sqrt(day);
    c->sigma = fmin(c->sigma, 0.06);
    c->alpha = between(simulator, 3, 0.03, 0.09);
    c->gamma = between(simulator, 4, 0, 0.06);
    c->beta = between(simulator, 5, 0.97, 0.995) - c->alpha - c->gamma / 2;
    c->slow = between(simulator, 6, 0.1, 0.5);
    c->tail = between(simulator, 7, 0.1, 0.45);
    c->jump = between(simulator, 8, 0, 0.004);
    c->season = day < 0.5 ? between(simulator, 9, 0, 0.7) : 0;
    c->trend = between(simulator, 10, 0, 0.08);
    c->spread = between(simulator, 11, 0, 1.5);
    c->volume = exp(between(simulator, 12, log(20), log(2e6))) / sqrt(c->price);
    c->quiet = uniform(simulator, CHARACTER, 13) < 0.15 ? between(simulator, 14, 0, 0.1) : 0;
}

void kc_simulate_start(struct kc_simulator *simulator, uint64_t seed, const char *symbol,
                       const struct kr_interval *interval, int64_t t0_ns)
{
    /* A week begins on Monday, and so does its grid; 1970-01-01 was a Thursday. */
    int64_t origin = interval->ns % (7 * DAY_NS) == 0 ? 4 * DAY_NS : 0;
    int64_t offset = (t0_ns - origin) % interval->ns;

    *simulator = (struct kc_simulator){
        .interval = *interval, .key = kr_draw_key(seed, interval->text, symbol), .garch = 1};
    simulator->t0_ns = t0_ns - (offset < 0 ? offset + interval->ns : offset);
    draw_character(simulator);
    simulator->log_price = log(simulator->character.price);
    simulator->last_ticks = llround(simulator->character.price / simulator->character.tick);
}

/* From ticks to the double nearest to the decimal price. */
static double price_of(const struct kc_character *c, int64_t ticks)
{
    double scale = pow(10, c->decimals);

    return (double)(ticks * llround(c->tick * scale)) / scale;
}

/* 1 on average over the day; twice-daily waves make a busy opening and a busy close. */
static double season_of(const struct kc_simulator *simulator, int64_t t_ns)
{
    double day = (double)(t_ns % DAY_NS) / (double)DAY_NS;

    return 1 + simulator->character.season *
                   (0.6 * cos(2 * PI * (day - 0.6)) + 0.4 * cos(4 * PI * day));
}

static double round_to(double value, int decimals)
{
    double scale = pow(10, decimals);

    return round(value * scale) / scale;
}

/* The bar's trades, in ticks: first is the open, last the close. Moves the unseen price. */
static void trade(struct kc_simulator *simulator, double sigma, int64_t ticks[SIM_STEPS + 1])
{
    const struct kc_character *c = &simulator->character;
    double step = sigma / sqrt(SIM_STEPS), x = simulator->log_price;
    double pull = -1e-4 * (x - log(c->price)) / log(50.0),
           mean = simulator->drift * c->sigma + pull;
    uint32_t jump_at = SIM_STEPS;

    if (uniform(simulator, BAR, 0) < c->jump)
        jump_at = (uint32_t)(uniform(simulator, BAR, 1) * SIM_STEPS);
    for (uint32_t i = 0; i <= SIM_STEPS; i++) {
        double side = uniform(simulator, SIDES, i) < 0.5 ? -c->spread : c->spread;

        ticks[i] = llround(exp(x) / c->tick + side);
        ticks[i] = KR_MAX(ticks[i], (int64_t)1);
        if (i == SIM_STEPS)
            break;
        x += step * normal(simulator, STEPS, i) + mean / SIM_STEPS;
        if (i == jump_at)
            x += 4 * sigma * normal(simulator, BAR, 2);
    }
    /* Far out it bounces off a wall: ten ticks above nothing, fifty times the first price. */
    x = fmax(x, KR_MAX(log(c->price / 50), log(10 * c->tick)));
    simulator->log_price = fmin(x, log(c->price * 50));
}

static void advance_volatility(struct kc_simulator *simulator, double innovation)
{
    const struct kc_character *c = &simulator->character;
    double news = innovation * innovation, omega = 1 - c->alpha - c->gamma / 2 - c->beta;
    const double memory = 0.998, trend_memory = 0.995, busy_memory = 0.9;

    simulator->garch =
        omega + (c->alpha + (innovation < 0 ? c->gamma : 0)) * news + c->beta * simulator->garch;
    simulator->garch = fmin(fmax(simulator->garch, 0.02), 25);
    simulator->slow =
        memory * simulator->slow + c->slow * sqrt(1 - memory * memory) * normal(simulator, BAR, 3);
    simulator->drift = trend_memory * simulator->drift +
                       c->trend * sqrt(1 - trend_memory * trend_memory) * normal(simulator, BAR, 4);
    simulator->busy = busy_memory * simulator->busy +
                      0.5 * sqrt(1 - busy_memory * busy_memory) * normal(simulator, BAR, 5);
}

void kc_simulate_next(struct kc_simulator *simulator, struct kr_bar *ret)
{
    const struct kc_character *c = &simulator->character;
    int64_t t_ns = simulator->t0_ns + simulator->n * simulator->interval.ns;
    double season = season_of(simulator, t_ns), before = simulator->log_price;
    double usual = c->sigma * season * exp(simulator->slow) * sqrt(simulator->garch);
    double mixing = exp(c->tail * normal(simulator, BAR, 6) - c->tail * c->tail);
    int64_t ticks[SIM_STEPS + 1], high, low, open;
    double sum = 0, innovation, volume;

    *ret = (struct kr_bar){.t_ns = t_ns};
    trade(simulator, fmin(usual * mixing, 0.25), ticks);
    innovation = (simulator->log_price - before) / fmax(usual, 1e-12) * sqrt(simulator->garch);
    advance_volatility(simulator, fmin(fmax(innovation, -12), 12));
    if (uniform(simulator, BAR, 7) < c->quiet) {
        for (int i = KR_OPEN; i <= KR_CLOSE; i++)
            ret->v[i] = price_of(c, simulator->last_ticks);
        simulator->n++;
        return;
    }
    open = high = low = ticks[0];
    for (int i = 0; i <= SIM_STEPS; i++) {
        high = KR_MAX(high, ticks[i]);
        low = KR_MIN(low, ticks[i]);
        sum += price_of(c, ticks[i]);
    }
    simulator->last_ticks = ticks[SIM_STEPS];
    volume = c->volume * season *
             exp(0.7 * log(usual / c->sigma) + 0.35 * fmin(fabs(innovation), 4) - 0.3 +
                 simulator->busy + 0.3 * normal(simulator, BAR, 8));
    ret->v[KR_OPEN] = price_of(c, open);
    ret->v[KR_HIGH] = price_of(c, high);
    ret->v[KR_LOW] = price_of(c, low);
    ret->v[KR_CLOSE] = price_of(c, ticks[SIM_STEPS]);
    ret->v[KR_VOLUME] = fmax(round_to(volume, 3), 0.001);
    ret->v[KR_AMOUNT] = round_to(ret->v[KR_VOLUME] * (sum / (SIM_STEPS + 1)), 4);
    simulator->n++;
}
