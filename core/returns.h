/* SPDX-License-Identifier: MIT */
/* Normaliser `returns`: six inputs of a bar from that bar and those before it, and back.
 *
 * Nothing that comes later changes them, so a stream may append for ever. All is arithmetic on ratios:
 * prices times a power of two give the same bits.
 *
 * Context of bar t: the n <= norm_bars bars t-n .. t-1 before it, oldest first. C' is the close before a bar.
 *   own_i   = log(high_i / low_i)
 *   range_i = log(max(high_i, C') / min(low_i, C')), the true range; own_i for the oldest of a context
 *   mean(v, d, a..b) = (sum of d^(b-i) v_i) / (sum of d^(b-i)) over i = a..b, oldest first, in double
 *   sigma   = max(norm_unit mean(range, norm_decay, t-n..t-1), norm_floor)
 *   usual   = mean(volume, norm_decay, t-n..t-1)
 *   x_open   = asinh(log(open / C') / sigma)
 *   x_high   = log1p(max(0, log(high / max(open, close))) / sigma)
 *   x_low    = log1p(max(0, log(min(open, close) / low)) / sigma)
 *   x_close  = asinh(log(close / C') / sigma)
 *   x_volume = log((volume / usual + norm_volume) / (1 + norm_volume)); usual = 0: volume / usual is 0
 *              without volume, infinite with it
 *   x_speed  = log(max(mean(range, norm_fast, t-n..t), norm_floor)
 *                / max(mean(range, norm_slow, t-n..t), norm_floor))   (in the column of the amount)
 * each clipped to +-norm_clip and rounded to a multiple of 2^-16, so that a price scale other than a power
 * of two, which moves logarithms by an ulp, gives the same inputs. A first bar (n = 0) has logarithms
 * against C' of 0, sigma from its own range and its own volume as usual.
 *
 * Decoding walks a path on from the last bar; y is clipped to +-norm_clip first:
 *   sigma as above over the last norm_bars bars, real ones and the path's own, but at most norm_cap times
 *   the sigma of the path's first step; open = C' exp(sigma sinh(y_open)), close likewise,
 *   high = max(open, close) exp(sigma expm1(max(0, y_high))), low = min(open, close) / the same of y_low,
 *   volume = usual max(0, exp(y_volume) (1 + norm_volume) - norm_volume),
 *   amount = volume (open + high + low + close) / 4 times what the context's amounts were of that. */
#ifndef KR_RETURNS_H
#define KR_RETURNS_H

#include "core/bar.h"

#define KR_RETURNS_MAX_BARS 256

/* The constants, in the tokenizer's config.json under the names above. */
struct kr_returns_config {
    size_t bars;              /* norm_bars, 1 to KR_RETURNS_MAX_BARS */
    double decay, fast, slow; /* in (0, 1] */
    double unit;              /* above 0 */
    double floor;             /* above 0, in log units */
    double clip;              /* above 0, at most 16 */
    double cap;               /* at least 1 */
    double volume;            /* above 0 */
};

/* The constants and tables made of them. Immutable once made; any thread. */
struct kr_returns {
    struct kr_returns_config config;
    /* Powers from 0 up: of decay, of fast, of slow. */
    double decay[KR_RETURNS_MAX_BARS + 1], fast[KR_RETURNS_MAX_BARS + 1],
        slow[KR_RETURNS_MAX_BARS + 1];
};

/* Return: 0, or -EINVAL naming the constant that is out of range (ret untouched). */
int kr_returns_init(struct kr_returns *ret, const struct kr_returns_config *config,
                    struct kr_error *error) kr_must_check;

/* Inputs of bars[n - 1], n >= 1, from it and the bars before it; of those the last config.bars count, the
 * caller passes as many as there are up to that. Columns of the bars are finite, prices above 0, volume not
 * below. Return: true if anything was clipped. */
bool kr_returns_apply(const struct kr_returns *returns, const struct kr_bar *bars, size_t n,
                      float ret_x[KR_COLUMNS]);

/* The volatility known after bars[n - 1] (sigma of the next bar), n >= 1. */
double kr_returns_sigma(const struct kr_returns *returns, const struct kr_bar *bars, size_t n);

/* One path's position: a plain value, so that paths fork by assignment. */
struct kr_walk {
    double close;      /* the last one */
    double start;      /* sigma of the first step; 0 before it */
    double multiplier; /* amount over volume times mean price */
    size_t n, head;    /* bars in the ring; where the next goes */
    double range[KR_RETURNS_MAX_BARS], own[KR_RETURNS_MAX_BARS], volume[KR_RETURNS_MAX_BARS];
};

/* Stand behind bars[n - 1], n >= 1; the last config.bars count. */
void kr_walk_start(struct kr_walk *walk, const struct kr_returns *returns,
                   const struct kr_bar *bars, size_t n);

/* One bar on. y: the decoder's row. ret_v: all six columns; low <= open, close <= high, prices above 0
 * unless they leave the range of a double, volume and amount not below 0. */
void kr_walk_step(struct kr_walk *walk, const struct kr_returns *returns, const float y[KR_COLUMNS],
                  double ret_v[KR_COLUMNS]);

#endif
