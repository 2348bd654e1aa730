/* SPDX-License-Identifier: MIT */
/* Scores of one forecast against what happened, the baselines it has to beat, and tests on many of
 * them.
 *
 * All are of the log-return from the last close, ln(c_h / c_last), in double. An ensemble is m >= 1
 * sorted finite numbers that stand for the distribution. Pure functions, any thread, nothing
 * allocated; the structures are plain values of their owner. */
#ifndef KR_SCORE_H
#define KR_SCORE_H

#include "core/base.h"

/* Continuous ranked probability score of an ensemble, E|X - y| - share E|X - X'| / 2, less is
 * better:
 *     (1/m) sum |x_i - y| - share / (m (m - 1)) sum_i (2 i - m - 1) x_(i),   i = 1 .. m
 * share 1 is the fair score (Ferro 2014; Zamo and Naveau 2018): for independent draws its
 * expectation is that of the distribution drawn from, whatever m. share (m - 1) / m is the plain
 * score of the empirical distribution: for draws that are not independent, stratified ones, of
 * which the fair score would think too well. One member: |x - y|. */
double kr_crps(const double *sorted, size_t m, double y, double share);

/* Share for kr_crps() by the kind of draws. */
double kr_crps_share(size_t m, bool stratified);

/* The same of N(mean, deviation^2), closed form (Gneiting and Raftery 2007, eq. 21), z = (y - mean)
 * / deviation: deviation (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)). Deviation 0: |y - mean|. */
double kr_crps_normal(double mean, double deviation, double y);

/* Randomised probability integral transform (#{x < y} + v (1 + #{x = y})) / (m + 1), v uniform in
 * [0, 1): uniform if y and the members come from one distribution. v is kr_draw_pit(). */
double kr_pit(const double *sorted, size_t m, double y, double v);

/* Pinball loss of quantile q at level tau, (tau - 1{y < q}) (y - q) >= 0. */
double kr_pinball(double tau, double q, double y);

/* Interval score of the central band [lower, upper] that y leaves with probability alpha (Gneiting
 * and Raftery 2007, eq. 43): its width and 2 / alpha times the distance by which it was left. */
double kr_interval_score(double lower, double upper, double alpha, double y);

/* Random walk: N(0, h sigma^2) for the return over h bars, sigma^2 the mean of squared one-bar
 * log-returns of closes with weights KR_WALK_DECAY^age. The weights are summed along, so the first
 * returns count in full rather than against a start of 0. Persistence: the point 0, whose CRPS is
 * |y|. */
#define KR_WALK_DECAY 0.97

struct kr_random_walk {
    double close;           /* the last one; 0 before the first */
    double squares, weight; /* sum of decay^age r^2, of decay^age */
    struct {
        double close, squares, weight;
    } before; /* the same without the last close: its revision starts here */
};

/* The next close, > 0. A walk that is all zeros has seen none. */
void kr_random_walk_push(struct kr_random_walk *walk, double close);
/* Other content for the last close. What is older stays as it was seen. No close yet: as push. */
void kr_random_walk_revise(struct kr_random_walk *walk, double close);
/* sigma of one bar; 0 before the first return and where nothing moved. */
double kr_random_walk_sigma(const struct kr_random_walk *walk);

/* Chi-square test of counts [n] against equal expectations, n - 1 degrees of freedom: the
 * probability of a statistic at least as large. 1 without counts. */
double kr_uniform_p(const uint64_t *counts, size_t n, double *ret_statistic);

/* Test of equal accuracy (Diebold and Mariano 1995) on loss differentials d [n], ours minus theirs,
 * in order of time: negative favours us. */
struct kr_comparison {
    double mean;      /* of d */
    double statistic; /* mean over its standard error, with small-sample correction */
    double p;         /* two-sided, Student's t with n - 1 degrees */
};

/* steps: forecast horizon in units of the distance between origins, rounded up, >= 1; differentials
 * so far apart or farther are taken as uncorrelated. Variance by Newey and West (1987), lags to
 * steps - 1 with weights 1 - j / steps; correction of Harvey, Leybourne and Newbold (1997), sqrt((n
 * + 1 - 2 steps + steps (steps - 1) / n) / n). Return: 0, -EDOM (fewer than two, too few for the
 * horizon, or no variance: ret is untouched). */
int kr_compare(const double *d, size_t n, size_t steps, struct kr_comparison *ret) kr_must_check;

/* Running sums of one horizon. */
#define KR_PIT_BINS 10

struct kr_tally {
    uint64_t n;
    double crps, crps_cal; /* raw, calibrated */
    double crps_rw;        /* random walk */
    double crps_still;     /* persistence */
    uint64_t pit[KR_PIT_BINS], pit_cal[KR_PIT_BINS];
};

/* Count a PIT value in [0, 1] into its bin. */
void kr_pit_count(uint64_t counts[KR_PIT_BINS], double pit);

/* 1 - ours / baseline, the skill of summed scores; 0 where the baseline is 0 and there is nothing
 * to beat. */
double kr_skill(double ours, double baseline);

#endif
