/* SPDX-License-Identifier: MIT */
#include "core/special.h"

#include <assert.h>
#include <float.h>
#include <math.h>

/* Enough for any argument that statistics over bars give; the loops end long before. */
#define MAX_TERMS 100000

/* Stands for a denominator of zero in Lentz' method. */
#define TINY 1e-300

/* lgamma() writes a global, signgam: not for several threads. */
static double log_gamma(double x)
{
    int sign;

    return lgamma_r(x, &sign);
}

static double not_zero(double x)
{
    return fabs(x) < TINY ? TINY : x;
}

/* Lower function by its power series, best for x < a + 1. */
static double gamma_series(double a, double x)
{
    double term = 1 / a, sum = term;

    for (int n = 1; n < MAX_TERMS && term > sum * DBL_EPSILON / 4; n++) {
        term *= x / (a + n);
        sum += term;
    }
    return sum * exp(a * log(x) - x - log_gamma(a));
}

/* Upper function by its continued fraction, best for x > a + 1. */
static double gamma_fraction(double a, double x)
{
    double b = x + 1 - a, c = 1 / TINY, d = 1 / not_zero(b), product = d;

    for (int n = 1; n < MAX_TERMS; n++) {
        double numerator = -n * (n - a), step;

        b += 2;
        d = 1 / not_zero(numerator * d + b);
        c = not_zero(b + numerator / c);
        step = c * d;
        product *= step;
        if (fabs(step - 1) < DBL_EPSILON)
            break;
    }
    return product * exp(a * log(x) - x - log_gamma(a));
}

double kr_gamma_upper(double a, double x)
{
    assert(a > 0 && x >= 0);
    if (x == 0)
        return 1;
    if (isinf(x))
        return 0;
    return x < a + 1 ? 1 - gamma_series(a, x) : gamma_fraction(a, x);
}

/* Continued fraction of the incomplete beta function, best for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 / not_zero(1 - (a + b) * x / (a + 1)), product = d;

    for (int n = 1; n < MAX_TERMS; n++) {
        double even = n * (b - n) * x / ((a + 2 * n - 1) * (a + 2 * n));
        double odd = -(a + n) * (a + b + n) * x / ((a + 2 * n) * (a + 2 * n + 1));
        double step;

        d = 1 / not_zero(1 + even * d);
        c = not_zero(1 + even / c);
        product *= c * d;
        d = 1 / not_zero(1 + odd * d);
        c = not_zero(1 + odd / c);
        step = c * d;
        product *= step;
        if (fabs(step - 1) < DBL_EPSILON)
            break;
    }
    return product;
}

double kr_beta_lower(double a, double b, double x)
{
    double front;

    assert(a > 0 && b > 0 && x >= 0 && x <= 1);
    if (x == 0 || x == 1)
        return x;
    front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double kr_chi_square_p(double x, unsigned freedom)
{
    assert(freedom >= 1);
    return x > 0 ? kr_gamma_upper(freedom / 2.0, x / 2) : 1;
}

double kr_student_p(double t, double freedom)
{
    assert(freedom > 0);
    if (isinf(t))
        return 0;
    return kr_beta_lower(freedom / 2, 0.5, freedom / (freedom + t * t));
}

double kr_normal_density(double z)
{
    return exp(-z * z / 2) * 0.3989422804014326779;
}

double kr_normal_below(double z)
{
    return 0.5 * erfc(-z * M_SQRT1_2);
}
