/* SPDX-License-Identifier: MIT */
#include "clients/simulate.h"

#include "core/draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DAY_NS  INT64_C(86400000000000)
#define WEEK_NS (7 * DAY_NS)
#define PI      3.14159265358979323846

/* What a bar's draws are for: the third word of their address. */
enum purpose { CHARACTER, TRADES, SIDES, BAR };

struct pair {
    double a, b;
};

static struct pair uniforms(const struct kc_simulator *s, enum purpose purpose, uint32_t step)
{
    uint64_t bar = purpose == CHARACTER ? UINT64_MAX : (uint64_t)s->n;
    const uint32_t key[2] = {(uint32_t)s->key, (uint32_t)(s->key >> 32)};
    const uint32_t counter[4] = {(uint32_t)bar, (uint32_t)(bar >> 32), purpose, step};
    uint32_t w[4];

    kr_philox(counter, key, w);
    return (struct pair){(double)(((uint64_t)w[1] << 32 | w[0]) >> 11) * 0x1p-53,
                         (double)(((uint64_t)w[3] << 32 | w[2]) >> 11) * 0x1p-53};
}

/* Two independent standard normals (Box and Muller). */
static struct pair normals(const struct kc_simulator *s, enum purpose purpose, uint32_t step)
{
    struct pair u = uniforms(s, purpose, step);
    double r = sqrt(-2 * log(1 - u.a));

    return (struct pair){r * cos(2 * PI * u.b), r * sin(2 * PI * u.b)};
}

static double chance(const struct kc_simulator *s, uint32_t step)
{
    return uniforms(s, CHARACTER, step).a;
}

static double between(const struct kc_simulator *s, uint32_t step, double low, double high)
{
    return low + (high - low) * uniforms(s, CHARACTER, step).b;
}

/* Uniform in the logarithm. */
static double scale_between(const struct kc_simulator *s, uint32_t step, double low, double high)
{
    return low * pow(high / low, uniforms(s, CHARACTER, step).b);
}

size_t kc_simulate_symbol(char ret[KR_SYMBOL_MAX + 1], size_t index)
{
    return (size_t)snprintf(ret, KR_SYMBOL_MAX + 1, "SIM%03zu", index + 1);
}

static void draw_volatility(struct kc_simulator *s, double day)
{
    struct kc_character *c = &s->character;

    c->sigma = 0.02 * exp(0.7 * normals(s, CHARACTER, 2).a) * sqrt(fmin(day, 7));
    c->sigma = fmin(fmax(c->sigma, 2e-5), 0.08);
    c->alpha = between(s, 3, 0.01, 0.12);
    c->gamma = chance(s, 4) < 0.5 ? between(s, 4, 0, 0.08) : 0;
    c->gamma_up = chance(s, 5) < 0.3;
    c->beta = 1 - scale_between(s, 5, 0.005, 0.15) - c->alpha - c->gamma / 2;
    c->slow = between(s, 6, 0, 0.5);
    c->slow_memory = 1 - 1 / scale_between(s, 7, 20, 600);
    c->regimes = 1 + (int)(chance(s, 8) * KC_SIMULATE_REGIMES);
    c->regime_length = scale_between(s, 8, 15, 500);
    for (uint32_t i = 0; i < KC_SIMULATE_REGIMES; i++)
        c->regime[i] = exp(0.45 * normals(s, CHARACTER, 10 + i).a);
    c->tail = between(s, 15, 0.05, 0.75);
    c->season = day < 0.5 && chance(s, 16) < 0.75 ? between(s, 16, 0, 0.75) : 0;
    c->season_phase = between(s, 17, 0, 1);
    c->jump = chance(s, 18) < 0.6 ? scale_between(s, 18, 3e-4, 0.015) : 0;
    c->jump_size = between(s, 19, 2, 7);
    c->jump_reverts = chance(s, 20) < 0.5 ? between(s, 20, 0, 0.9) : 0;
}

/* Momentum, reversion, bid and ask, tick: what makes successive closes depend on each other. */
static void draw_micro(struct kc_simulator *s)
{
    struct kc_character *c = &s->character;
    double kind = chance(s, 25), exponent;

    if (chance(s, 26) < 0.45)
        c->drift = scale_between(s, 26, 0.01, 0.25);
    c->drift_memory = 1 - 1 / scale_between(s, 27, 1.5, 200);
    if (kind < 0.65)
        c->pull = scale_between(s, 28, 0.2, 2.5);
    c->pull_memory = 1 - 1 / scale_between(s, 29, 1.05, 30);
    if (kind > 0.15)
        c->half_spread =
            kind < 0.7 ? scale_between(s, 30, 0.08, 1.4) : scale_between(s, 30, 0.005, 0.2);
    c->stick = between(s, 31, 0.3, 0.9);
    c->liquid = chance(s, 32) < 0.75;
    c->trades = c->liquid ? KC_SIMULATE_TRADES : scale_between(s, 32, 0.9, 2 * KC_SIMULATE_TRADES);
    c->opens_at_last = chance(s, 33) < 0.25;
    /* Tick over sigma: mostly fine, up to about three bars' moves. */
    c->tick =
        c->price * c->sigma *
        (chance(s, 34) < 0.7 ? scale_between(s, 34, 1e-3, 0.15) : scale_between(s, 34, 0.15, 2));
    exponent = floor(log10(c->tick));
    c->tick /= pow(10, exponent);
    c->tick = pow(10, exponent) * (c->tick < 1.5 ? 1 : c->tick < 3 ? 2 : 5);
    c->decimals = exponent < 0 ? (int)-exponent : 0;
    c->halt = chance(s, 35) < 0.06 ? scale_between(s, 35, 1e-3, 0.02) : 0;
    c->halt_length = scale_between(s, 36, 2, 40);
}

static void draw_volume(struct kc_simulator *s)
{
    struct kc_character *c = &s->character;
    double kind = chance(s, 40);

    c->volume = scale_between(s, 40, 20, 2e6) / sqrt(c->price);
    c->volume_sigma = between(s, 41, 0.1, 1.0);
    c->volume_memory = 1 - 1 / scale_between(s, 42, 1.5, 80);
    c->volume_noise = between(s, 43, 0.1, 0.8);
    c->volume_volatility = between(s, 44, 0, 1.3);
    c->volume_range = between(s, 45, 0, 1);
    c->multiplier = chance(s, 46) < 0.3 ? 100 : 1;
    c->lot = kind < 0.08 ? 0 : kind < 0.4 ? 1 : 1e-4;
    if (c->lot >= 1)
        c->volume = fmax(c->volume, 30);
}

static const int32_t session_kinds[][2][2] = {
    {{34200, 57600}, {0, 0}},         /* 09:30-16:00 */
    {{34200, 41400}, {46800, 54000}}, /* 09:30-11:30, 13:00-15:00 */
    {{32400, 63000}, {0, 0}},         /* 09:00-17:30 */
    {{32400, 41400}, {45000, 54000}}, /* 09:00-11:30, 12:30-15:00 */
    {{0, 86400}, {0, 0}},             /* around the clock, but not on weekends */
};

static void draw_sessions(struct kc_simulator *s)
{
    struct kc_character *c = &s->character;
    double kind = chance(s, 50);
    size_t which = (size_t)(uniforms(s, CHARACTER, 50).b * 5);

    c->weekdays = kind < 0.45 ? 7 : 5;
    c->gap = between(s, 51, 0.1, 0.9);
    if (kind < 0.45 || s->interval.ns >= DAY_NS)
        return;
    if (s->interval.ns > 3600 * INT64_C(1000000000))
        which = 4;
    memcpy(c->session, session_kinds[which], sizeof(c->session));
    c->n_sessions = c->session[1][1] > 0 ? 2 : 1;
    if (which != 4)
        c->season_phase = 0;
}

static void draw_character(struct kc_simulator *s)
{
    struct kc_character *c = &s->character;

    c->weekdays = 7;
    c->price = scale_between(s, 0, 0.05, 50000);
    draw_volatility(s, (double)s->interval.ns / (double)DAY_NS);
    draw_micro(s);
    draw_volume(s);
}

/* Whether a bar that opens then lies in a session. 1970-01-01 was a Thursday. */
static bool is_open(const struct kc_simulator *s, int64_t t_ns)
{
    const struct kc_character *c = &s->character;
    int64_t day = t_ns / DAY_NS, weekday = (day + 3) % 7, second = t_ns % DAY_NS / 1000000000;

    if (weekday >= c->weekdays)
        return false;
    for (int i = 0; i < c->n_sessions; i++)
        if (second >= c->session[i][0] && second < c->session[i][1])
            return true;
    return c->n_sessions == 0;
}

/* To the first open slot at or after t_ns; closed time is counted. */
static void seek(struct kc_simulator *s)
{
    int64_t from = s->t_ns;

    while (!is_open(s, s->t_ns) && s->t_ns - from < 2 * WEEK_NS)
        s->t_ns += s->interval.ns;
    s->break_bars = (double)(s->t_ns - from) / (double)s->interval.ns;
}

static void start(struct kc_simulator *s, uint64_t seed, const char *symbol,
                  const struct kr_interval *interval, int64_t t0_ns, bool may_close)
{
    /* A week begins on Monday, and so does its grid. */
    int64_t origin = interval->ns % WEEK_NS == 0 ? 4 * DAY_NS : 0;
    int64_t offset = (t0_ns - origin) % interval->ns;

    *s = (struct kc_simulator){.interval = *interval,
                               .key = kr_draw_key(seed, interval->text, symbol),
                               .garch = 1,
                               .side = 1};
    s->t_ns = t0_ns - (offset < 0 ? offset + interval->ns : offset);
    draw_character(s);
    if (may_close) {
        draw_sessions(s);
        seek(s);
        s->break_bars = 0;
    }
    s->log_price = log(s->character.price);
    s->last_ticks = KR_MAX(llround(s->character.price / s->character.tick), 1LL);
}

void kc_simulate_start(struct kc_simulator *simulator, uint64_t seed, const char *symbol,
                       const struct kr_interval *interval, int64_t t0_ns)
{
    start(simulator, seed, symbol, interval, t0_ns, false);
}

void kc_simulate_start_any(struct kc_simulator *simulator, uint64_t seed, const char *symbol,
                           const struct kr_interval *interval, int64_t t0_ns)
{
    start(simulator, seed, symbol, interval, t0_ns, true);
}

/* From ticks to the double nearest to the decimal price. */
static double price_of(const struct kc_character *c, int64_t ticks)
{
    double scale = pow(10, c->decimals);

    return (double)(ticks * llround(c->tick * scale)) / scale;
}

/* 1 on average: waves over the day, or busy ends of a session. */
static double season_of(const struct kc_simulator *s)
{
    const struct kc_character *c = &s->character;
    int64_t second = s->t_ns % DAY_NS / 1000000000;
    double day = (double)second / 86400;

    for (int i = 0; i < c->n_sessions; i++) {
        double a = c->session[i][0], b = c->session[i][1];

        if (second < c->session[i][0] || second >= c->session[i][1] || b - a >= 86400)
            continue;
        day = (c->n_sessions == 2 ? (i + ((double)second - a) / (b - a)) / 2
                                  : ((double)second - a) / (b - a));
        /* High at the opening, low in the middle, up again at the close. */
        return 1 + c->season * (2.2 * exp(-7 * day) + 0.9 * exp(-7 * (1 - day)) - 0.44);
    }
    day -= c->season_phase;
    return 1 + c->season * (0.6 * cos(2 * PI * day) + 0.4 * cos(4 * PI * (day - 0.1)));
}

static int64_t to_ticks(const struct kc_character *c, double log_price)
{
    return KR_MAX(llround(exp(log_price) / c->tick), (int64_t)1);
}

/* The trades of a bar, in ticks. */
struct way {
    int n;
    int64_t first, last, high, low;
    double sum;
};

static void touch(struct way *way, int64_t ticks)
{
    way->high = way->n ? KR_MAX(way->high, ticks) : ticks;
    way->low = way->n ? KR_MIN(way->low, ticks) : ticks;
}

/* Where many trades stand behind each step, both sides were touched at the extremes of the way between
 * (of a Brownian bridge). */
static void touch_extremes(const struct kc_simulator *s, struct way *way, uint32_t i, double from,
                           double to, double variance)
{
    struct pair u = uniforms(s, SIDES, i + 128);
    double half = s->character.half_spread * s->character.sigma, d = to - from;
    double up = sqrt(d * d - 2 * variance * log(1 - u.a));
    double down = sqrt(d * d - 2 * variance * log(1 - u.b));

    touch(way, to_ticks(&s->character, (from + to + up) / 2 + half));
    touch(way, to_ticks(&s->character, (from + to - down) / 2 - half));
}

/* One bar's way. */
static struct way trade(struct kc_simulator *s, double sigma, double activity)
{
    const struct kc_character *c = &s->character;
    double root = 1 / sqrt((double)KC_SIMULATE_TRADES), usual = fmax(sigma, c->sigma * 0.02);
    double memory = pow(c->pull_memory, 1.0 / KC_SIMULATE_TRADES);
    double kick = c->pull * sqrt(1 - memory * memory),
           p = c->trades / KC_SIMULATE_TRADES * activity;
    struct pair jump = uniforms(s, BAR, 0);
    uint32_t jump_at = jump.a < c->jump ? (uint32_t)(jump.b * KC_SIMULATE_TRADES) : UINT32_MAX;
    double from = s->log_price + usual * s->pull;
    struct way way = {0};

    for (uint32_t i = 0; i < KC_SIMULATE_TRADES; i++) {
        struct pair move = normals(s, TRADES, i), u = uniforms(s, SIDES, i);
        double mid;
        int64_t ticks;

        s->log_price += usual * (root * move.a + s->drift / KC_SIMULATE_TRADES);
        s->pull = memory * s->pull + kick * move.b;
        if (i == jump_at) {
            double size = c->jump_size * normals(s, BAR, 1).a;

            s->log_price += usual * size * (1 - c->jump_reverts);
            s->pull += size * c->jump_reverts;
        }
        if (u.a >= p)
            continue;
        if (u.b >= c->stick)
            s->side = uniforms(s, SIDES, i + 64).a < 0.5 ? -1 : 1;
        mid = s->log_price + usual * s->pull;
        ticks = to_ticks(c, mid + s->side * c->half_spread * c->sigma);
        touch(&way, ticks);
        way.first = way.n ? way.first : ticks;
        way.last = ticks;
        way.n++;
        way.sum += (double)ticks;
        if (c->liquid)
            touch_extremes(s, &way, i, from, mid, usual * usual * (root * root + kick * kick));
        from = mid;
    }
    /* Far out it bounces off a wall: ten ticks above nothing, a hundred times the first price. */
    s->log_price = fmax(s->log_price, KR_MAX(log(c->price / 100), log(10 * c->tick)));
    s->log_price = fmin(s->log_price, log(c->price * 100));
    return way;
}

static void advance_volatility(struct kc_simulator *s, double innovation)
{
    const struct kc_character *c = &s->character;
    double news = innovation * innovation, omega = 1 - c->alpha - c->gamma / 2 - c->beta;
    double a = sqrt(1 - c->slow_memory * c->slow_memory);
    double b = sqrt(1 - c->drift_memory * c->drift_memory);
    double d = sqrt(1 - c->volume_memory * c->volume_memory);
    struct pair n = normals(s, BAR, 2), m = normals(s, BAR, 3), u = uniforms(s, BAR, 4);

    s->garch = omega + (c->alpha + ((innovation > 0) == c->gamma_up ? c->gamma : 0)) * news +
               c->beta * s->garch;
    s->garch = fmin(fmax(s->garch, 0.03), 20);
    s->slow = c->slow_memory * s->slow + c->slow * a * n.a;
    s->drift = c->drift_memory * s->drift + c->drift * b * n.b;
    s->busy = c->volume_memory * s->busy + c->volume_sigma * d * m.a;
    if (u.a * c->regime_length < 1)
        s->regime = (int)(u.b * c->regimes);
    if (s->halted > 0)
        s->halted--;
    else if (uniforms(s, BAR, 5).a < c->halt)
        s->halted = (int64_t)(-c->halt_length * log(1 - uniforms(s, BAR, 5).b));
}

static double volume_of(const struct kc_simulator *s, double usual, double range, int trades)
{
    const struct kc_character *c = &s->character;
    double log_volume = s->busy + c->volume_noise * normals(s, BAR, 6).a +
                        c->volume_volatility * log(usual / c->sigma) +
                        c->volume_range * log(0.3 + range / (c->sigma * 1.5)),
           volume;

    if (trades == 0 || c->lot == 0)
        return 0;
    volume = c->volume * exp(log_volume) * trades / KC_SIMULATE_TRADES;
    return fmax(round(volume / c->lot), 1) * c->lot;
}

/* The efficient price moves while the market is closed. */
static void cross_break(struct kc_simulator *s, double usual)
{
    const struct kc_character *c = &s->character;

    if (s->break_bars <= 0)
        return;
    s->log_price += usual * c->gap * sqrt(fmin(s->break_bars, 2000)) * 0.5 *
                    exp(0.4 * normals(s, BAR, 7).b) * normals(s, BAR, 7).a;
    s->pull *= 0.3;
}

static double round_to(double value, double step)
{
    return round(value / step) * step;
}

void kc_simulate_next(struct kc_simulator *simulator, struct kr_bar *ret)
{
    struct kc_simulator *s = simulator;
    const struct kc_character *c = &s->character;
    double season = season_of(s), usual, mixing, before, innovation, mean = 0;
    int64_t open, high, low, close;
    struct way way;

    *ret = (struct kr_bar){.t_ns = s->t_ns};
    usual = c->sigma * season * exp(s->slow) * c->regime[s->regime] * sqrt(s->garch);
    usual = fmin(usual, 0.2);
    mixing = exp(c->tail * normals(s, BAR, 8).a - c->tail * c->tail);
    cross_break(s, usual);
    before = s->log_price;
    way = trade(s, usual * mixing, fmin(sqrt(season) * exp(0.5 * s->busy), 4));
    innovation = (s->log_price - before) / usual * sqrt(s->garch);
    open = high = low = close = s->last_ticks;
    if (way.n > 0 && s->halted == 0) {
        open = c->opens_at_last && s->break_bars == 0 ? s->last_ticks : way.first;
        close = way.last;
        high = KR_MAX(open, way.high);
        low = KR_MIN(open, way.low);
        mean = way.sum / way.n * c->tick;
    }
    ret->v[KR_OPEN] = price_of(c, open);
    ret->v[KR_HIGH] = price_of(c, high);
    ret->v[KR_LOW] = price_of(c, low);
    ret->v[KR_CLOSE] = price_of(c, close);
    if (mean > 0) {
        ret->v[KR_VOLUME] = volume_of(s, usual, log((double)high / (double)low), way.n);
        ret->v[KR_AMOUNT] = round_to(ret->v[KR_VOLUME] * mean * c->multiplier, c->tick * 1e-2);
    }
    s->last_ticks = close;
    advance_volatility(s, fmin(fmax(innovation, -10), 10));
    s->n++;
    s->t_ns += s->interval.ns;
    seek(s);
}
