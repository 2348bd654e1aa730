/* SPDX-License-Identifier: MIT */
#include "core/score.h"
#include "core/special.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

/* One forecast */

double kr_crps_share(size_t m, bool stratified)
{
    return stratified ? (double)(m - 1) / (double)m : 1;
}

double kr_crps(const double *sorted, size_t m, double y, double share)
{
    double distance = 0, pairs = 0;

    assert(m >= 1);
    for (size_t i = 0; i < m; i++)
        distance += fabs(sorted[i] - y);
    if (m == 1)
        return distance;
    /* From both ends inwards: half the terms, and a constant ensemble gives exactly 0. */
    for (size_t i = 0; i < m / 2; i++)
        pairs += (double)(m - 1 - 2 * i) * (sorted[m - 1 - i] - sorted[i]);
    return distance / (double)m - share * pairs / ((double)m * (double)(m - 1));
}

double kr_crps_normal(double mean, double deviation, double y)
{
    double z;

    if (!(deviation > 0))
        return fabs(y - mean);
    z = (y - mean) / deviation;
    if (fabs(z) > 40) /* the density is 0, and z may be infinite beside a tiny deviation */
        return fabs(y - mean) - deviation * M_2_SQRTPI / 2;
    return deviation * (z * (2 * kr_normal_below(z) - 1) + 2 * kr_normal_density(z) -
                        M_2_SQRTPI / 2); /* 1 / sqrt(pi) */
}

double kr_pit(const double *sorted, size_t m, double y, double v)
{
    size_t below = 0, equal = 0;

    for (size_t i = 0; i < m; i++) {
        below += sorted[i] < y;
        equal += sorted[i] == y;
    }
    return ((double)below + v * (double)(1 + equal)) / (double)(m + 1);
}

double kr_pinball(double tau, double q, double y)
{
    return (tau - (y < q ? 1 : 0)) * (y - q);
}

double kr_interval_score(double lower, double upper, double alpha, double y)
{
    double left = fmax(lower - y, 0) + fmax(y - upper, 0);

    return upper - lower + 2 / alpha * left;
}

/* Baseline */

void kr_random_walk_push(struct kr_random_walk *walk, double close)
{
    assert(close > 0);
    walk->before.close = walk->close;
    walk->before.squares = walk->squares;
    walk->before.weight = walk->weight;
    if (walk->close > 0) {
        double change = log(close / walk->close);

        walk->squares = KR_WALK_DECAY * walk->squares + change * change;
        walk->weight = KR_WALK_DECAY * walk->weight + 1;
    }
    walk->close = close;
}

void kr_random_walk_revise(struct kr_random_walk *walk, double close)
{
    walk->close = walk->before.close;
    walk->squares = walk->before.squares;
    walk->weight = walk->before.weight;
    kr_random_walk_push(walk, close);
}

double kr_random_walk_sigma(const struct kr_random_walk *walk)
{
    return walk->weight > 0 ? sqrt(walk->squares / walk->weight) : 0;
}

/* Tests on many */

double kr_uniform_p(const uint64_t *counts, size_t n, double *ret_statistic)
{
    double total = 0, statistic = 0, expected;

    assert(n >= 2);
    for (size_t i = 0; i < n; i++)
        total += (double)counts[i];
    expected = total / (double)n;
    if (total > 0)
        for (size_t i = 0; i < n; i++)
            statistic += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    if (ret_statistic)
        *ret_statistic = statistic;
    return kr_chi_square_p(statistic, (unsigned)(n - 1));
}

static double autocovariance(const double *d, size_t n, double mean, size_t lag)
{
    double sum = 0;

    for (size_t i = lag; i < n; i++)
        sum += (d[i] - mean) * (d[i - lag] - mean);
    return sum / (double)n;
}

int kr_compare(const double *d, size_t n, size_t steps, struct kr_comparison *ret)
{
    double mean = 0, variance, count = (double)n, apart = (double)steps, correction;

    assert(steps >= 1);
    if (n < 2 || steps >= n)
        return -EDOM;
    for (size_t i = 0; i < n; i++)
        mean += d[i];
    mean /= count;
    variance = autocovariance(d, n, mean, 0);
    for (size_t j = 1; j < steps; j++)
        variance += 2 * (1 - (double)j / apart) * autocovariance(d, n, mean, j);
    correction = (count + 1 - 2 * apart + apart * (apart - 1) / count) / count;
    if (!(variance > 0) || !(correction > 0))
        return -EDOM;
    ret->mean = mean;
    ret->statistic = mean / sqrt(variance / count) * sqrt(correction);
    ret->p = kr_student_p(ret->statistic, count - 1);
    return 0;
}

void kr_pit_count(uint64_t counts[KR_PIT_BINS], double pit)
{
    size_t bin = pit > 0 ? (size_t)(pit * KR_PIT_BINS) : 0;

    counts[KR_MIN(bin, (size_t)KR_PIT_BINS - 1)]++;
}

double kr_skill(double ours, double baseline)
{
    return baseline > 0 ? 1 - ours / baseline : 0;
}
