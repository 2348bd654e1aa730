/* SPDX-License-Identifier: MIT */
/* Simulated markets whose next steps' distribution can be sampled exactly: closes with GARCH(1,1)
 * volatility and Student's t or Gaussian surprises, and paths from the same process. All draws are
 * Philox's. */
#ifndef KT_MARKET_H
#define KT_MARKET_H

#include "core/base.h"

/* A stream of uniforms of one seed. */
struct kt_random {
    uint64_t seed, n;
};

double kt_uniform(struct kt_random *random); /* (0, 1) */
double kt_normal(struct kt_random *random);
/* Student's t of `freedom` > 2, scaled to variance 1; infinite: normal. */
double kt_student(struct kt_random *random, double freedom);

/* One-bar log-return r = drift + sqrt(variance) e; variance' = omega + alpha (r - drift)^2 + beta
 * variance. */
struct kt_market {
    double omega, alpha, beta, drift, freedom;
    double variance, close;
};

/* Long-run deviation of 0.01 a bar, clustered, t with 5 degrees; close 100. */
struct kt_market kt_market(void);
/* The same with constant variance and Gaussian surprises. */
struct kt_market kt_calm_market(void);

/* Next bar's close. */
double kt_market_step(struct kt_market *market, struct kt_random *random);

/* Paths of closes behind the market's last bar, as the model gives them: paths
 * [n_paths][n_steps][KR_COLUMNS], only the close is set. Log-returns are multiplied by `spread`,
 * then `shift` deviations per sqrt(bar) are added: for forecasters who are wrong in a known way. */
void kt_market_paths(const struct kt_market *market, struct kt_random *random, size_t n_paths,
                     size_t n_steps, double spread, double shift, float *paths);

#endif
