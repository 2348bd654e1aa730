/* SPDX-License-Identifier: MIT */
#include "core/returns.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

#define GRID 65536.0 /* inputs are multiples of 1 / GRID */

static double clip(double value, double limit)
{
    return fmin(fmax(value, -limit), limit);
}

static int out_of_range(struct kr_error *error, const char *name, const char *expected,
                        double found)
{
    return kr_error_set(error, -EINVAL, "%s: expected %s, found %g", name, expected, found);
}

int kr_returns_init(struct kr_returns *ret, const struct kr_returns_config *config,
                    struct kr_error *error)
{
    const struct kr_returns_config *c = config;
    const struct {
        const char *name;
        double value;
    } decays[] = {{"norm_decay", c->decay}, {"norm_fast", c->fast}, {"norm_slow", c->slow}},
      sizes[] = {{"norm_unit", c->unit}, {"norm_floor", c->floor}, {"norm_volume", c->volume}};

    if (c->bars < 1 || c->bars > KR_RETURNS_MAX_BARS)
        return kr_error_set(error, -EINVAL,
                            "norm_bars: expected an integer from 1 to %d, found %zu",
                            KR_RETURNS_MAX_BARS, c->bars);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(decays); i++)
        if (!(decays[i].value > 0 && decays[i].value <= 1))
            return out_of_range(error, decays[i].name, "a number above 0, at most 1",
                                decays[i].value);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(sizes); i++)
        if (!(sizes[i].value > 0 && isfinite(sizes[i].value)))
            return out_of_range(error, sizes[i].name, "a number above 0", sizes[i].value);
    if (!(c->clip > 0 && c->clip <= 16))
        return out_of_range(error, "norm_clip", "a number above 0, at most 16", c->clip);
    if (!(c->cap >= 1 && isfinite(c->cap)))
        return out_of_range(error, "norm_cap", "a number from 1", c->cap);
    ret->config = *config;
    ret->decay[0] = ret->fast[0] = ret->slow[0] = 1;
    for (size_t i = 1; i <= KR_RETURNS_MAX_BARS; i++) {
        ret->decay[i] = ret->decay[i - 1] * c->decay;
        ret->fast[i] = ret->fast[i - 1] * c->fast;
        ret->slow[i] = ret->slow[i - 1] * c->slow;
    }
    return 0;
}

static double own_range(const struct kr_bar *bar)
{
    return log(bar->v[KR_HIGH] / bar->v[KR_LOW]);
}

static double true_range(const double v[KR_COLUMNS], double before)
{
    return log(fmax(v[KR_HIGH], before) / fmin(v[KR_LOW], before));
}

/* Mean true range of bars[0..n-1], the oldest without its predecessor. */
static double mean_range(const double *powers, const struct kr_bar *bars, size_t n)
{
    double sum = 0, weight = 0;

    for (size_t i = 0; i < n; i++) {
        double power = powers[n - 1 - i];
        double range =
            i == 0 ? own_range(&bars[0]) : true_range(bars[i].v, bars[i - 1].v[KR_CLOSE]);

        sum += power * range;
        weight += power;
    }
    return sum / weight;
}

static double mean_volume(const double *powers, const struct kr_bar *bars, size_t n)
{
    double sum = 0, weight = 0;

    for (size_t i = 0; i < n; i++) {
        sum += powers[n - 1 - i] * bars[i].v[KR_VOLUME];
        weight += powers[n - 1 - i];
    }
    return sum / weight;
}

double kr_returns_sigma(const struct kr_returns *returns, const struct kr_bar *bars, size_t n)
{
    const struct kr_returns_config *c = &returns->config;
    size_t m = KR_MIN(n, c->bars);

    assert(n >= 1);
    return fmax(c->unit * mean_range(returns->decay, bars + (n - m), m), c->floor);
}

static double volume_input(const struct kr_returns *returns, double volume, double usual)
{
    double soft = returns->config.volume, ratio = volume > 0 ? INFINITY : 0;

    if (usual > 0)
        ratio = volume / usual;
    return log((ratio + soft) / (1 + soft));
}

/* Fast against slow volatility, of bars[0..n-1]. */
static double speed_input(const struct kr_returns *returns, const struct kr_bar *bars, size_t n)
{
    double floor = returns->config.floor;

    return log(fmax(mean_range(returns->fast, bars, n), floor) /
               fmax(mean_range(returns->slow, bars, n), floor));
}

bool kr_returns_apply(const struct kr_returns *returns, const struct kr_bar *bars, size_t n,
                      float ret_x[KR_COLUMNS])
{
    const struct kr_returns_config *c = &returns->config;
    size_t before = KR_MIN(n - 1, c->bars);
    const struct kr_bar *bar = &bars[n - 1], *context = bar - before;
    const double *v = bar->v;
    double sigma = kr_returns_sigma(returns, context, KR_MAX(before, (size_t)1));
    double usual = mean_volume(returns->decay, context, KR_MAX(before, (size_t)1));
    double close = before > 0 ? bar[-1].v[KR_CLOSE] : 0, x[KR_COLUMNS];
    bool clipped = false;

    assert(n >= 1);
    x[KR_OPEN] = before > 0 ? asinh(log(v[KR_OPEN] / close) / sigma) : 0;
    x[KR_HIGH] = log1p(fmax(log(v[KR_HIGH] / fmax(v[KR_OPEN], v[KR_CLOSE])), 0) / sigma);
    x[KR_LOW] = log1p(fmax(log(fmin(v[KR_OPEN], v[KR_CLOSE]) / v[KR_LOW]), 0) / sigma);
    x[KR_CLOSE] = before > 0 ? asinh(log(v[KR_CLOSE] / close) / sigma) : 0;
    x[KR_VOLUME] = volume_input(returns, v[KR_VOLUME], usual);
    x[KR_AMOUNT] = speed_input(returns, context, before + 1);
    for (int i = 0; i < KR_COLUMNS; i++) {
        double inside = clip(x[i], c->clip);

        clipped |= inside != x[i];
        ret_x[i] = (float)(rint(inside * GRID) / GRID);
    }
    return clipped;
}

static void push(struct kr_walk *walk, size_t capacity, double range, double own, double volume)
{
    walk->range[walk->head] = range;
    walk->own[walk->head] = own;
    walk->volume[walk->head] = volume;
    walk->head = (walk->head + 1) % capacity;
    walk->n = KR_MIN(walk->n + 1, capacity);
}

void kr_walk_start(struct kr_walk *walk, const struct kr_returns *returns,
                   const struct kr_bar *bars, size_t n)
{
    size_t m = KR_MIN(n, returns->config.bars);
    const struct kr_bar *context = bars + (n - m);
    double amount = 0, turnover = 0;

    assert(n >= 1);
    *walk = (struct kr_walk){.close = bars[n - 1].v[KR_CLOSE]};
    for (size_t i = 0; i < m; i++) {
        const double *v = context[i].v;
        double own = own_range(&context[i]), weight = returns->decay[m - 1 - i];

        push(walk, returns->config.bars, i == 0 ? own : true_range(v, context[i - 1].v[KR_CLOSE]),
             own, v[KR_VOLUME]);
        amount += weight * v[KR_AMOUNT];
        turnover +=
            weight * (v[KR_VOLUME] * ((v[KR_OPEN] + v[KR_HIGH] + v[KR_LOW] + v[KR_CLOSE]) / 4));
    }
    walk->multiplier = turnover > 0 ? amount / turnover : 1;
}

void kr_walk_step(struct kr_walk *walk, const struct kr_returns *returns, const float y[KR_COLUMNS],
                  double ret_v[KR_COLUMNS])
{
    const struct kr_returns_config *c = &returns->config;
    size_t oldest = (walk->head + c->bars - walk->n) % c->bars;
    double range = 0, volume = 0, weight = 0, sigma, usual, in[KR_COLUMNS], before = walk->close;
    double *v = ret_v;

    for (size_t i = 0; i < walk->n; i++) {
        size_t slot = (oldest + i) % c->bars;
        double power = returns->decay[walk->n - 1 - i];

        range += power * (i == 0 ? walk->own[slot] : walk->range[slot]);
        volume += power * walk->volume[slot];
        weight += power;
    }
    sigma = fmax(c->unit * (range / weight), c->floor);
    usual = volume / weight;
    if (walk->start == 0)
        walk->start = sigma;
    sigma = fmin(sigma, c->cap * walk->start);
    for (int i = 0; i < KR_COLUMNS; i++)
        in[i] = clip((double)y[i], c->clip);
    v[KR_OPEN] = before * exp(sigma * sinh(in[KR_OPEN]));
    v[KR_CLOSE] = before * exp(sigma * sinh(in[KR_CLOSE]));
    v[KR_HIGH] = fmax(v[KR_OPEN], v[KR_CLOSE]) * exp(sigma * expm1(fmax(in[KR_HIGH], 0)));
    v[KR_LOW] = fmin(v[KR_OPEN], v[KR_CLOSE]) * exp(-sigma * expm1(fmax(in[KR_LOW], 0)));
    v[KR_VOLUME] = usual * fmax(exp(in[KR_VOLUME]) * (1 + c->volume) - c->volume, 0);
    v[KR_AMOUNT] =
        v[KR_VOLUME] * ((v[KR_OPEN] + v[KR_HIGH] + v[KR_LOW] + v[KR_CLOSE]) / 4) * walk->multiplier;
    push(walk, c->bars, true_range(v, before), log(v[KR_HIGH] / v[KR_LOW]), v[KR_VOLUME]);
    walk->close = v[KR_CLOSE];
}
