/* SPDX-License-Identifier: MIT */
/* Tail probabilities that the tests of a forecast need: chi-square and Student's t, and the two
 * incomplete functions behind them. Pure functions, any thread, nothing allocated; relative error
 * about 1e-12, growing with the parameters (1e-10 at 1e5).
 *
 * Series and continued fractions as in the Digital Library of Mathematical Functions
 * (dlmf.nist.gov)
 * 8.11.4, 8.9.2 and 8.17.22, the fractions by Lentz' method. */
#ifndef KR_SPECIAL_H
#define KR_SPECIAL_H

#include "core/base.h"

/* Q(a, x) = Gamma(a, x) / Gamma(a), the regularised upper incomplete gamma function; a > 0, x >= 0.
 * */
double kr_gamma_upper(double a, double x);

/* I_x(a, b), the regularised incomplete beta function; a, b > 0, 0 <= x <= 1. */
double kr_beta_lower(double a, double b, double x);

/* P(X >= x) for a chi-square variable of `freedom` >= 1 degrees; 1 where x <= 0. */
double kr_chi_square_p(double x, unsigned freedom);

/* P(|T| >= |t|) for Student's t of `freedom` > 0 degrees: two-sided. An infinite t gives 0. */
double kr_student_p(double t, double freedom);

/* Density and distribution function of the standard normal. */
double kr_normal_density(double z);
double kr_normal_below(double z);

#endif
