/* SPDX-License-Identifier: MIT */
/* Statistics over sampled paths. Everything is allocated by kr_summary_init(); computing allocates
 * nothing, so one summary serves a stream's every bar. Not thread-safe; one thread at a time. */
#ifndef KR_SUMMARY_H
#define KR_SUMMARY_H

#include "core/bar.h"

/* Mean, population standard deviation and quantiles of one quantity at each step. */
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
    size_t n_steps, n_levels, n_paths; /* n_paths: of the last computation */
    double *levels;                    /* [n_levels], strictly rising in (0, 1) */
    struct kr_band columns[KR_COLUMNS];
    struct kr_band ret;   /* log-return of close from the last close, per step */
    double *p_up;         /* [n_steps]: (k + 1/2) / (S + 1), ties count half */
    struct kr_spread vol; /* realised: sqrt of the sum of squared one-step log-returns of a path */
    struct kr_spread mdd; /* maximum drawdown of a path's closes from the last close on, 1 - c / peak */
    double var[KR_RISK_LEVELS]; /* value at risk of the return at the last step, a positive loss */
    double es[KR_RISK_LEVELS];  /* expected shortfall, the mean loss beyond it (Acerbi, Tasche 2002) */
    bool tail;            /* a level lies beyond the outermost order statistics: clamped to them */
    size_t max_steps, max_paths;
    double *scratch;      /* [max_paths] */
};

/* Return: 0, -EINVAL (levels not rising inside (0, 1), a zero size), -ENOMEM. */
int kr_summary_init(struct kr_summary *summary, size_t max_steps, size_t max_paths,
                    const double *levels, size_t n_levels, struct kr_error *error) kr_must_check;
void kr_summary_free(struct kr_summary *summary);
/* Bytes that kr_summary_init() takes. */
size_t kr_summary_size_bytes(size_t max_steps, size_t max_paths, size_t n_levels);

/* paths [n_paths][n_steps][KR_COLUMNS] f32; n_paths <= max_paths, n_steps <= max_steps (asserted).
 * Means and deviations are double sums over paths in ascending order. A close at or below zero (possible
 * only without `repair`) counts as a fall to one millionth of the last close. */
void kr_summary_compute(struct kr_summary *summary, const float *paths, size_t n_paths, size_t n_steps,
                        double last_close);

/* Quantile of M sorted values: position tau (M + 1) between order statistics, linear, clamped to the
 * extremes (then *tail, if not NULL, is set true). */
double kr_quantile(const double *sorted, size_t m, double tau, bool *tail);

#endif
