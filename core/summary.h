/* SPDX-License-Identifier: MIT */
/* Statistics over sampled paths: what the bars, returns and risks of a forecast look like when S paths
 * stand for the distribution.
 *
 * kr_summary_init() takes all memory in one piece; computing allocates nothing, so one summary serves a
 * stream's every bar. Not thread-safe: one thread at a time. All numbers are in double and depend on the
 * paths and the last close alone. */
#ifndef KR_SUMMARY_H
#define KR_SUMMARY_H

#include "core/bar.h"

/* Mean, population standard deviation (divided by S) and quantiles of one quantity at each step, in the
 * quantity's own unit. n_steps is that of the last computation: rows are packed, whatever max_steps is. */
struct kr_band {
    double *mean, *std; /* [n_steps] */
    double *q;          /* [n_levels][n_steps] */
};

/* Mean and quantiles of one number per path. */
struct kr_spread {
    double mean;
    double *q; /* [n_levels] */
};

#define KR_RISK_LEVELS 2
extern const double kr_risk_levels[KR_RISK_LEVELS]; /* 0.95, 0.99 */

struct kr_summary {
    size_t n_levels;
    size_t n_steps, n_paths; /* of the last computation; 0 before the first */

    /* [n_levels], strictly rising in (0, 1); a copy, and the head of the allocation. */
    double *levels;

    struct kr_band columns[KR_COLUMNS];

    /* Log-return of close from the last close at each step, ln(c_h / c_last). */
    struct kr_band ret;

    /* [n_steps]: (k + 1/2) / (S + 1), k paths that close above the last close plus half of those that
     * close at it. Compared in f32, as paths are: a path that stays where it was is a tie even if the
     * last close is no f32. */
    double *p_up;

    /* Realised volatility over the horizon, not annualised: square root of the sum of a path's squared
     * one-step log-returns, the first one from the last close. */
    struct kr_spread vol;

    /* Maximum drawdown: the largest 1 - c_h / (highest close up to h), the last close included in the
     * highest; in [0, 1). */
    struct kr_spread mdd;

    /* Of ret at the last step, at kr_risk_levels L; losses positive, in log units; a = 1 - L.
     * var: minus the quantile at a, by the rule of all quantiles.
     * es: mean of the worst S a returns, the last of them by its fraction (Acerbi and Tasche 2002):
     *     -(x_(1) + .. + x_(m) + (S a - m) x_(m+1)) / (S a), m = floor(S a); for S a < 1 -x_(1). */
    double var[KR_RISK_LEVELS], es[KR_RISK_LEVELS];

    /* One of `levels` lies beyond the outermost order statistics: its q are clamped to them. tail_risk:
     * the same for var, at 0.99 with fewer than 99 paths, at 0.95 with fewer than 19. */
    bool tail, tail_risk;

    size_t max_steps, max_paths;
    double *scratch; /* [max_paths] */
};

/* Return: 0, -EINVAL (levels not strictly rising inside (0, 1), a zero size), -ENOMEM (also for sizes whose
 * product does not fit). `summary` is written only on success; its previous content is not released. */
int kr_summary_init(struct kr_summary *summary, size_t max_steps, size_t max_paths,
                    const double *levels, size_t n_levels, struct kr_error *error) kr_must_check;
/* Accepts a zeroed and an already freed summary; leaves it zeroed. */
void kr_summary_free(struct kr_summary *summary);
/* Bytes that kr_summary_init() takes; 0 if they do not fit a size_t. */
size_t kr_summary_size_bytes(size_t max_steps, size_t max_paths, size_t n_levels);

/* paths [n_paths][n_steps][KR_COLUMNS] f32; 1 <= n_paths <= max_paths, 1 <= n_steps <= max_steps,
 * last_close > 0 (asserted). Values are finite: the caller refuses others (asserted under
 * --enable-debug-checks; without, numbers mean nothing but memory is safe).
 * Means and deviations are double sums over paths in ascending order, the deviation from the mean in a
 * second pass. For ret, vol, mdd, var and es a close below KR_PRICE_FLOOR (one millionth) of the last
 * close, zero and below included (possible only without `repair`), counts as that. */
void kr_summary_compute(struct kr_summary *summary, const float *paths, size_t n_paths,
                        size_t n_steps, double last_close);

/* Sort ascending, in place, without allocating; x [n] holds no nan. */
void kr_sort(double *x, size_t n);

/* Quantile of m >= 1 sorted values: position tau (m + 1) between order statistics 1 .. m, linear, clamped
 * to the extremes (then *tail, if not NULL, is set true; otherwise it is left as it is). */
double kr_quantile(const double *sorted, size_t m, double tau, bool *tail);

#endif
