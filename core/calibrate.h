/* SPDX-License-Identifier: MIT */
/* Online calibration of one stream's forecasts: what came due teaches how to read what is sampled
 * next.
 *
 * Two layers, all numbers in units of u = sigma sqrt(h), sigma the random walk's at the forecast
 * (score.h):
 *
 * 1. Per horizon, the distribution. Members x_i of mean xbar become
 *        z_i = follow xbar + shift u + scale c (x_i - xbar)
 *    follow in [0, 1]: the share of the ensemble's drift that realised drift has borne out, a ridge
 *    regression of y on xbar. Returns have next to no predictable mean; a forecast's must earn its
 *    weight.
 *    shift: the mean residual y - follow xbar, believed slowly, n / (n + prior), unless it is
 *    beyond 3 standard errors: then by 1 - 9 / t^2 (positive-part shrinkage, James and Stein 1961).
 *    scale: the ratio of mean sqrt|y - centre| to mean sqrt|x - xbar|, squared. The root keeps one
 *    jump from widening the next hundred forecasts; the ratio needs no assumption of shape.
 *    The sums behind them forget (memory 50 origins for scale, 200 for location), begin with a
 *    prior, and are pooled over horizons with weights (min(h, h') / max(h, h'))^3: neighbours err
 *    alike, and short horizons learn first. An outcome weighs min(1, d / h) of an origin, d bars
 *    from the origin before it: forecasts made every bar overlap and say little new.
 *    c gives z_i the variance of the mapped distribution in spite of the noise of xbar,
 *        c^2 = (1 - (follow / scale)^2 / m) m / (m - 1),
 *    and pairs are taken without it (struct kr_map, share). That keeps the fair CRPS fair: exactly
 *    for Gaussian draws; heavier tails are judged too strictly, by order 1 / m. Merely centring 32
 *    draws would show 1 % of false skill.
 *
 * 2. Per horizon and level tau, conformal tracking of q = Q_z(alpha) + offset u, after every
 *    outcome, err = 1{y < q}:
 *        alpha  += 0.6 g (tau - err)                               (Gibbs and Candes 2021)
 *        offset += 0.4 g (tau - err) scale / (1.6 tau (1 - tau))   (Angelopoulos et al. 2023)
 *    with g = weight / min(n + 60, 120): slow at first, never ending. alpha follows the shape of
 *    the ensemble, offset goes where it has no members; 1.6 tau (1 - tau) stands for the density
 *    at a quantile, so that both move alike. A tie with q teaches nothing. alpha is clamped to
 *    [1 / (n + 1), 1 - 1 / (n + 1)] where that is wider than tau itself: n outcomes cannot speak
 *    for more. Levels are sorted afterwards and never cross.
 *
 * Feedback is delayed by the horizon: kr_calibrator_learn() gets what came due, with the quantiles
 * published at the time. All memory is taken by kr_calibrator_init(). One thread at a time. The
 * same outcomes in the same order give the same bytes. */
#ifndef KR_CALIBRATE_H
#define KR_CALIBRATE_H

#include "core/record.h"

/* What is known of a model before a stream has said anything: numbers that ship with it, pooled
 * over many streams. At horizons 1, 4, 16, 64, linear in log h between, constant beyond. */
#define KR_PRIOR_KNOTS 4

struct kr_prior {
    double scale[KR_PRIOR_KNOTS];  /* true spread over raw spread, in [1/8, 8] */
    double shift[KR_PRIOR_KNOTS];  /* in sigma sqrt(h), in [-4, 4]; what is to be added */
    double follow[KR_PRIOR_KNOTS]; /* in [0, 1] */
    /* Weights > 0: scale and shift in origins, follow in sums of (xbar / u)^2. */
    double scale_weight, shift_weight, follow_weight;
};

/* Identity, held loosely: for models that ship none. */
extern const struct kr_prior kr_prior_identity;

/* Return: 0, or -EINVAL with a line naming the number outside its range. */
int kr_prior_check(const struct kr_prior *prior, struct kr_error *error) kr_must_check;

/* One of a prior's lists at horizon `step` + 1. */
double kr_prior_at(const double knots[KR_PRIOR_KNOTS], size_t step);

enum kr_trust_status {
    KR_UNCALIBRATED, /* fewer than 20 outcomes learned */
    KR_WARMING,      /* fewer than 100 */
    KR_CALIBRATED,
    KR_STALE, /* at least 20, but none for more than 10 H bars */
};
extern const char *const kr_trust_names[]; /* "uncalibrated", "warming", "calibrated", "stale" */

#define KR_WARMING_FROM    20
#define KR_CALIBRATED_FROM 100
#define KR_STALE_AFTER     10 /* horizons */

/* How a member x becomes a calibrated one: z = shift + slope x, slope > 0. */
struct kr_map {
    double shift, slope;
    double share; /* for kr_crps() of mapped members: see kr_map_crps() */
};

/* CRPS of the calibrated distribution from raw members. */
double kr_map_crps(const struct kr_map *map, const double *sorted, size_t m, double y);

/* What a horizon's location and scale are estimated from; sums of outcomes' weights. */
enum {
    KR_SUM_REALISED,  /* sqrt|y - centre|, winsorised at 3 times what the scaled ensemble expects */
    KR_SUM_EXPECTED,  /* mean sqrt|x - xbar| */
    KR_SUM_CROSS,     /* xbar (y - prior shift), both winsorised at 4 */
    KR_SUM_SQUARE,    /* xbar^2 */
    KR_SUM_RESIDUAL,  /* y - prior shift - follow xbar */
    KR_SUM_RESIDUAL2, /* its square */
    KR_SUM_COUNT,     /* 1 */
    KR_SUMS
};

struct kr_horizon {
    uint64_t n;         /* outcomes learned */
    double weight;      /* origins' worth of them, never forgotten */
    int64_t origin_row; /* of the newest learned; only if n > 0 */
    double sum[KR_SUMS];
};

struct kr_estimate {
    double follow, shift, scale;
};

struct kr_calibrator {
    size_t n_steps, n_levels;
    struct kr_prior prior;
    uint64_t id; /* of model and parameters: kr_calibration_id() */
    uint64_t n_learned;
    int64_t last_row;           /* bar at which something was learned last; only if n_learned > 0 */
    double *levels;             /* [n_levels], strictly rising in (0, 1); head of the allocation */
    struct kr_horizon *horizon; /* [n_steps] */
    struct kr_estimate *estimate; /* [n_steps], what is in force since kr_calibrator_settle() */
    double (*pooled)[KR_SUMS];    /* [n_steps] */
    double *alpha, *offset;       /* [n_steps][n_levels] */
};

/* What a calibration belongs to; any difference resets it. */
struct kr_calibration_key {
    const char *model_sha256; /* text; of everything that makes the numbers */
    const char *mode;         /* "exact", .. */
    double temperature, top_p;
    uint64_t top_k, n_paths;
    bool scale, join, repair, stratified;
};
uint64_t kr_calibration_id(const struct kr_calibration_key *key);

/* Bytes that kr_calibrator_init() takes; 0 if they do not fit a size_t. */
size_t kr_calibrator_size_bytes(size_t n_steps, size_t n_levels);
/* prior NULL: identity. Return: 0, -EINVAL (sizes 0, levels, prior), -ENOMEM; written only on
 * success. */
int kr_calibrator_init(struct kr_calibrator *calibrator, size_t n_steps, const double *levels,
                       size_t n_levels, const struct kr_prior *prior, uint64_t id,
                       struct kr_error *error) kr_must_check;
/* Accepts a zeroed and an already freed one; leaves it zeroed. */
void kr_calibrator_free(struct kr_calibrator *calibrator);
/* Forget everything; from now on it belongs to `id`. The prior stays. */
void kr_calibrator_reset(struct kr_calibrator *calibrator, uint64_t id);

/* One horizon's raw forecast: log-returns from the last close. */
struct kr_ensemble {
    size_t step; /* horizon - 1 */
    const double *sorted;
    size_t m; /* members, >= 1 */
    double sigma;
    bool stratified;
};

/* Map and calibrated quantiles [n_levels] of the log-return, rising. sigma 0: nothing to measure
 * by, the raw distribution as it is. */
void kr_calibrate(const struct kr_calibrator *calibrator, const struct kr_ensemble *ensemble,
                  struct kr_map *ret_map, double *ret_q);

/* Learn from an outcome: y the log-return that came true, q [n_levels] what kr_calibrate() gave at
 * the time, origin_row the number of the bar behind which the forecast was made, row that of the
 * bar which came. All outcomes of one bar are learned under the estimates in force before it, in
 * any order of horizons; then kr_calibrator_settle(). Return: false if there was nothing to learn
 * by (sigma 0): not counted. */
bool kr_calibrator_learn(struct kr_calibrator *calibrator, const struct kr_ensemble *ensemble,
                         double y, const double *q, int64_t origin_row, int64_t row);
void kr_calibrator_settle(struct kr_calibrator *calibrator);

/* Outcomes learned at the horizon that has fewest. */
uint64_t kr_calibrator_n(const struct kr_calibrator *calibrator);
/* Status of a forecast behind bar `row`: of the horizon that has fewest outcomes. */
enum kr_trust_status kr_calibrator_status(const struct kr_calibrator *calibrator, int64_t row);

/* Prior from calibrators that ran on many streams of one model: means over them, in logarithms for
 * scale, of what each has come to at the knots' horizons (the last within n_steps). All have the
 * same n_steps. Weights are those given. n >= 1 (asserted). */
struct kr_prior kr_prior_pool(const struct kr_calibrator *const *calibrators, size_t n,
                              const struct kr_prior *weights);

/* The state as a record. size_bytes is exact. Return: 0, -ENOBUFS. */
size_t kr_calibrator_record_bytes(const struct kr_calibrator *calibrator);
int kr_calibrator_pack(const struct kr_calibrator *calibrator, void *bytes, size_t size,
                       size_t *ret) kr_must_check;
/* Into an initialised calibrator. Return: 0; -ESTALE (sound, but of another id, horizon or set of
 * levels), -EBADMSG (damaged, or numbers that learning cannot give), -EPROTO (another version):
 * unchanged after any. */
int kr_calibrator_unpack(struct kr_calibrator *calibrator, const void *bytes,
                         size_t size) kr_must_check;

#endif
