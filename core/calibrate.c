/* SPDX-License-Identifier: MIT */
#include "core/calibrate.h"
#include "core/score.h"
#include "core/summary.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const kr_trust_names[] = {"uncalibrated", "warming", "calibrated", "stale"};

/* Memory of the sums in origins. Spread follows the market, location is mostly the model's habit.
 * */
#define SCALE_MEMORY    50
#define LOCATION_MEMORY 200

/* What sqrt|z| of a standard normal is on average: turns the prior's weight into sums. */
#define MEAN_ROOT 0.822

#define LEAST_SCALE    0.125
#define MOST_SCALE     8
#define MOST_SHIFT     4    /* in u; of outcomes, drift and offsets too */
#define MOST_SURPRISE  3    /* times the expected root */
#define MOST_EXPECTED  1000 /* root: sums stay finite whatever an ensemble is */
#define LEAST_WIDENING 0.5  /* of c, where an ensemble is all drift */
#define SHIFT_DOUBT    9    /* squared standard errors */

/* Tracking: gain weight / min(n + GAIN_START, GAIN_MEMORY), shared by both ways to move. */
#define GAIN_START  60
#define GAIN_MEMORY 120
#define ALPHA_SHARE 0.6

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high); /* low for nan */
}

/* What one outcome is about */

static double unit_of(const struct kr_ensemble *ensemble)
{
    return ensemble->sigma * sqrt((double)(ensemble->step + 1));
}

static double mean_of(const struct kr_ensemble *ensemble)
{
    double sum = 0;

    for (size_t i = 0; i < ensemble->m; i++)
        sum += ensemble->sorted[i];
    return sum / (double)ensemble->m;
}

static double mean_root(const struct kr_ensemble *ensemble, double mean)
{
    double sum = 0;

    for (size_t i = 0; i < ensemble->m; i++)
        sum += sqrt(fabs(ensemble->sorted[i] - mean));
    return sum / (double)ensemble->m;
}

/* Noise of the ensemble's mean, as a share of the spread that scaled members have: 0 for draws
 * whose mean hardly has any. */
static double mean_noise(const struct kr_ensemble *ensemble, const struct kr_estimate *estimate)
{
    double ratio = estimate->follow / estimate->scale;

    return ensemble->stratified ? 0 : ratio * ratio / (double)ensemble->m;
}

/* c of the header. */
static double widening(const struct kr_ensemble *ensemble, const struct kr_estimate *estimate)
{
    double m = (double)ensemble->m, squared;

    if (ensemble->stratified || ensemble->m < 2 || estimate->follow == estimate->scale)
        return 1;
    squared = (1 - mean_noise(ensemble, estimate)) * m / (m - 1);
    return squared > LEAST_WIDENING * LEAST_WIDENING ? sqrt(squared) : LEAST_WIDENING;
}

/* Reading a forecast */

double kr_map_crps(const struct kr_map *map, const double *sorted, size_t m, double y)
{
    return map->slope * kr_crps(sorted, m, (y - map->shift) / map->slope, map->share);
}

static void sort_levels(double *q, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        double moving = q[i];
        size_t at = i;

        for (; at > 0 && q[at - 1] > moving; at--)
            q[at] = q[at - 1];
        q[at] = moving;
    }
}

/* alpha at most as far out as n outcomes can speak for, or as the level itself asks. */
static double within_reach(double alpha, double tau, uint64_t n)
{
    double least = 1 / ((double)n + 1);

    return clamp(alpha, fmin(tau, least), fmax(tau, 1 - least));
}

void kr_calibrate(const struct kr_calibrator *calibrator, const struct kr_ensemble *ensemble,
                  struct kr_map *ret_map, double *ret_q)
{
    size_t step = ensemble->step, n_levels = calibrator->n_levels;
    const struct kr_estimate *estimate = &calibrator->estimate[step];
    double u = unit_of(ensemble), share = kr_crps_share(ensemble->m, ensemble->stratified), wider;

    assert(step < calibrator->n_steps && ensemble->m >= 1);
    if (!(u > 0)) {
        *ret_map = (struct kr_map){.slope = 1, .share = share};
        for (size_t l = 0; l < n_levels; l++)
            ret_q[l] = kr_quantile(ensemble->sorted, ensemble->m, calibrator->levels[l], NULL);
        return;
    }
    wider = widening(ensemble, estimate);
    ret_map->slope = estimate->scale * wider;
    ret_map->shift = (estimate->follow - ret_map->slope) * mean_of(ensemble) + estimate->shift * u;
    ret_map->share = share / wider;
    for (size_t l = 0; l < n_levels; l++) {
        size_t tracker = step * n_levels + l;
        double alpha = within_reach(calibrator->alpha[tracker], calibrator->levels[l],
                                    calibrator->horizon[step].n);

        ret_q[l] = ret_map->shift +
                   ret_map->slope * kr_quantile(ensemble->sorted, ensemble->m, alpha, NULL) +
                   calibrator->offset[tracker] * u;
    }
    sort_levels(ret_q, n_levels);
}

/* Learning */

static void add(struct kr_horizon *horizon, int sum, double weight, double value, double memory)
{
    horizon->sum[sum] += weight * (value - horizon->sum[sum] / memory);
}

static void learn_distribution(struct kr_horizon *horizon, const struct kr_estimate *estimate,
                               const struct kr_ensemble *ensemble, double y, double prior_shift,
                               double weight)
{
    double u = unit_of(ensemble), mean = mean_of(ensemble), m = (double)ensemble->m;
    double realised, expected;
    double drift = clamp(mean / u, -MOST_SHIFT, MOST_SHIFT);
    double moved = clamp(y / u - prior_shift, -MOST_SHIFT, MOST_SHIFT);
    double residual = moved - estimate->follow * drift;

    add(horizon, KR_SUM_CROSS, weight, drift * moved, LOCATION_MEMORY);
    add(horizon, KR_SUM_SQUARE, weight, drift * drift, LOCATION_MEMORY);
    add(horizon, KR_SUM_RESIDUAL, weight, residual, LOCATION_MEMORY);
    add(horizon, KR_SUM_RESIDUAL2, weight, residual * residual, LOCATION_MEMORY);
    add(horizon, KR_SUM_COUNT, weight, 1, LOCATION_MEMORY);

    expected = mean_root(ensemble, mean) / sqrt(u);
    if (!(expected > 0))
        return;                /* a point has no spread to scale */
    if (!ensemble->stratified) /* members lie closer to their own mean than to that drawn from */
        expected *= sqrt(sqrt(m / (m - 1)));
    expected = fmin(expected, MOST_EXPECTED);
    realised = sqrt(fabs(y - estimate->follow * mean - estimate->shift * u) / u);
    realised = fmin(realised, MOST_SURPRISE * sqrt(estimate->scale) * expected);
    /* and y differs from the centre by the centre's own noise too */
    expected *= sqrt(sqrt(1 + mean_noise(ensemble, estimate)));
    add(horizon, KR_SUM_REALISED, weight, realised, SCALE_MEMORY);
    add(horizon, KR_SUM_EXPECTED, weight, expected, SCALE_MEMORY);
}

static void learn_levels(struct kr_calibrator *calibrator, size_t step, double y, const double *q,
                         double weight)
{
    const struct kr_horizon *horizon = &calibrator->horizon[step];
    double gain = weight / fmin(horizon->weight + GAIN_START, GAIN_MEMORY);

    for (size_t l = 0; l < calibrator->n_levels; l++) {
        double tau = calibrator->levels[l], pull = gain * (tau - (y < q[l] ? 1 : 0));
        double *alpha = &calibrator->alpha[step * calibrator->n_levels + l];
        double *offset = &calibrator->offset[step * calibrator->n_levels + l];

        if (y == q[l])
            continue;
        *alpha = within_reach(*alpha + ALPHA_SHARE * pull, tau, horizon->n + 1);
        *offset +=
            (1 - ALPHA_SHARE) * pull * calibrator->estimate[step].scale / (1.6 * tau * (1 - tau));
        *offset = clamp(*offset, -MOST_SHIFT, MOST_SHIFT);
    }
}

/* Share of an origin's news in an outcome: forecasts nearer than their horizon overlap. */
static double news(const struct kr_horizon *horizon, size_t step, int64_t origin_row)
{
    double apart =
        horizon->n > 0 ? fabs((double)origin_row - (double)horizon->origin_row) : INFINITY;

    return fmin(fmax(apart, 1) / (double)(step + 1), 1);
}

bool kr_calibrator_learn(struct kr_calibrator *calibrator, const struct kr_ensemble *ensemble,
                         double y, const double *q, int64_t origin_row, int64_t row)
{
    struct kr_horizon *horizon = &calibrator->horizon[ensemble->step];
    double weight;

    assert(ensemble->step < calibrator->n_steps && isfinite(y));
    if (!(unit_of(ensemble) > 0))
        return false;
    weight = news(horizon, ensemble->step, origin_row);
    learn_levels(calibrator, ensemble->step, y, q, weight);
    learn_distribution(horizon, &calibrator->estimate[ensemble->step], ensemble, y,
                       kr_prior_at(calibrator->prior.shift, ensemble->step), weight);
    horizon->weight += weight;
    horizon->origin_row = horizon->n > 0 ? KR_MAX(horizon->origin_row, origin_row)
                                         : origin_row; /* a late bar's is older */
    horizon->n++;
    calibrator->last_row = calibrator->n_learned > 0 ? KR_MAX(calibrator->last_row, row) : row;
    calibrator->n_learned++;
    return true;
}

/* (a / b)^3, a < b: the share of a horizon's sums that its neighbour takes. */
static double share_of(size_t a, size_t b)
{
    double ratio = (double)a / (double)b;

    return ratio * ratio * ratio;
}

/* Sums of all horizons as each one sees them. The weights are separable: (h / h')^3 is a product
 * over the steps between, so one pass up and one down do. */
static void pool(struct kr_calibrator *calibrator)
{
    double below[KR_SUMS] = {0}, above[KR_SUMS] = {0}, norm_below = 0, norm_above = 0;
    size_t n = calibrator->n_steps;

    /* pooled = own and lower ones; the norm stands in front, in estimate.scale, until the way back
     * */
    for (size_t h = 1; h <= n; h++) {
        double share = share_of(h - 1, h);

        for (size_t i = 0; i < KR_SUMS; i++) {
            below[i] = share * below[i] + calibrator->horizon[h - 1].sum[i];
            calibrator->pooled[h - 1][i] = below[i];
        }
        norm_below = share * norm_below + 1;
        calibrator->estimate[h - 1].scale = norm_below;
    }
    for (size_t h = n; h >= 1; h--) {
        double share = share_of(h, h + 1), norm;

        norm_above *= share;
        norm = calibrator->estimate[h - 1].scale + norm_above;
        norm_above += 1;
        for (size_t i = 0; i < KR_SUMS; i++) {
            above[i] *= share;
            calibrator->pooled[h - 1][i] = (calibrator->pooled[h - 1][i] + above[i]) / norm;
            above[i] += calibrator->horizon[h - 1].sum[i];
        }
    }
}

static struct kr_estimate estimate_from(const double sum[KR_SUMS], const struct kr_prior *prior,
                                        size_t step)
{
    double held = prior->scale_weight * MEAN_ROOT, root, believed;
    struct kr_estimate made;

    made.follow = (prior->follow_weight * kr_prior_at(prior->follow, step) + sum[KR_SUM_CROSS]) /
                  (prior->follow_weight + sum[KR_SUM_SQUARE]);
    made.follow = clamp(made.follow, 0, 1);

    made.shift = kr_prior_at(prior->shift, step);
    if (sum[KR_SUM_COUNT] > 0 && sum[KR_SUM_RESIDUAL2] > 0) {
        double t2 = sum[KR_SUM_RESIDUAL] * sum[KR_SUM_RESIDUAL] / sum[KR_SUM_RESIDUAL2];

        believed = sum[KR_SUM_COUNT] / (sum[KR_SUM_COUNT] + prior->shift_weight);
        if (t2 > SHIFT_DOUBT)
            believed = fmax(believed, 1 - SHIFT_DOUBT / t2);
        made.shift += believed * sum[KR_SUM_RESIDUAL] / sum[KR_SUM_COUNT];
    }
    made.shift = clamp(made.shift, -MOST_SHIFT, MOST_SHIFT);

    root = (held * sqrt(kr_prior_at(prior->scale, step)) + sum[KR_SUM_REALISED]) /
           (held + sum[KR_SUM_EXPECTED]);
    made.scale = clamp(root * root, LEAST_SCALE, MOST_SCALE);
    return made;
}

void kr_calibrator_settle(struct kr_calibrator *calibrator)
{
    pool(calibrator);
    for (size_t step = 0; step < calibrator->n_steps; step++)
        calibrator->estimate[step] =
            estimate_from(calibrator->pooled[step], &calibrator->prior, step);
}

/* Status */

uint64_t kr_calibrator_n(const struct kr_calibrator *calibrator)
{
    uint64_t fewest = UINT64_MAX;

    for (size_t step = 0; step < calibrator->n_steps; step++)
        fewest = KR_MIN(fewest, calibrator->horizon[step].n);
    return fewest;
}

enum kr_trust_status kr_calibrator_status(const struct kr_calibrator *calibrator, int64_t row)
{
    uint64_t n = kr_calibrator_n(calibrator);

    if (n < KR_WARMING_FROM)
        return KR_UNCALIBRATED;
    if ((double)row - (double)calibrator->last_row >
        (double)KR_STALE_AFTER * (double)calibrator->n_steps)
        return KR_STALE;
    return n < KR_CALIBRATED_FROM ? KR_WARMING : KR_CALIBRATED;
}

/* Memory */

size_t kr_calibrator_size_bytes(size_t n_steps, size_t n_levels)
{
    size_t per_step, n;

    if (!kr_multiply(n_levels, 2 * sizeof(double), &per_step) ||
        !kr_add(per_step,
                sizeof(struct kr_horizon) + sizeof(struct kr_estimate) + KR_SUMS * sizeof(double),
                &per_step) ||
        !kr_multiply(per_step, n_steps, &n) || !kr_add(n, n_levels * sizeof(double), &n) ||
        n > SIZE_MAX - KR_ALIGNMENT)
        return 0;
    return kr_round_up(n, KR_ALIGNMENT);
}

static void start_levels(struct kr_calibrator *calibrator)
{
    for (size_t step = 0; step < calibrator->n_steps; step++)
        memcpy(&calibrator->alpha[step * calibrator->n_levels], calibrator->levels,
               calibrator->n_levels * sizeof(double));
    memset(calibrator->offset, 0, calibrator->n_steps * calibrator->n_levels * sizeof(double));
}

void kr_calibrator_reset(struct kr_calibrator *calibrator, uint64_t id)
{
    calibrator->id = id;
    calibrator->n_learned = 0;
    calibrator->last_row = 0;
    memset(calibrator->horizon, 0, calibrator->n_steps * sizeof(*calibrator->horizon));
    start_levels(calibrator);
    kr_calibrator_settle(calibrator);
}

int kr_calibrator_init(struct kr_calibrator *calibrator, size_t n_steps, const double *levels,
                       size_t n_levels, const struct kr_prior *prior, uint64_t id,
                       struct kr_error *error)
{
    struct kr_calibrator made = {.n_steps = n_steps, .n_levels = n_levels};
    size_t bytes = kr_calibrator_size_bytes(n_steps, n_levels);
    int r;

    if (n_steps < 1 || n_levels < 1)
        return kr_error_set(error, -EINVAL, "calibration: expected at least one step and level");
    for (size_t i = 0; i < n_levels; i++)
        if (!(levels[i] > (i > 0 ? levels[i - 1] : 0) && levels[i] < 1))
            return kr_error_set(
                error, -EINVAL,
                "levels: expected numbers strictly rising between 0 and 1, number %zu is not",
                i + 1);
    made.prior = prior ? *prior : kr_prior_identity;
    r = kr_prior_check(&made.prior, error);
    if (r < 0)
        return r;
    made.levels = bytes > 0 ? kr_alloc(1, bytes) : NULL;
    if (!made.levels)
        return kr_error_set(error, -ENOMEM, "calibration: no memory for %zu steps, %zu levels",
                            n_steps, n_levels);
    memcpy(made.levels, levels, n_levels * sizeof(double));
    /* all of it is in units of eight bytes */
    made.horizon = (struct kr_horizon *)(made.levels + n_levels);
    made.estimate = (struct kr_estimate *)(made.horizon + n_steps);
    made.pooled = (double(*)[KR_SUMS])(made.estimate + n_steps);
    made.alpha = (double *)(made.pooled + n_steps);
    made.offset = made.alpha + n_steps * n_levels;
    kr_calibrator_reset(&made, id);
    *calibrator = made;
    return 0;
}

void kr_calibrator_free(struct kr_calibrator *calibrator)
{
    free(calibrator->levels);
    *calibrator = (struct kr_calibrator){0};
}
