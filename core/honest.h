/* SPDX-License-Identifier: MIT */
/* What keeps a forecast honest where the public model is known to fail: the scale of its inputs, bars that
 * cannot be, markets that do not move.
 *
 * Pure functions, any thread, nothing allocated. All are switched off together by --raw. */
#ifndef KR_HONEST_H
#define KR_HONEST_H

#include "core/bar.h"

/* Lowest price that a forecast may state, as a share of the last close. */
#define KR_PRICE_FLOOR 1e-6

/* k for which 2^k is the power of two nearest 1 / spread, nearest in log2: spread 2^k lies in
 * (sqrt(1/2), sqrt(2)]. 0 where spread is not above 0 or not finite: nothing to scale by. The result is
 * in [-1024, 1074] and the same with every libm; for the spread of f32 data in [-128, 149]. */
int kr_scale_exponent(double spread);

/* Exponents of the six columns from their standard deviations: one for the four prices together, by the
 * square root of their mean variance (a shape must not be bent), one for volume, one for amount. */
void kr_scale_groups(const double std[KR_COLUMNS], int ret_exponents[KR_COLUMNS]);

/* Make the bars of one path [n_steps][KR_COLUMNS] possible, in this order: a price below KR_PRICE_FLOOR
 * times last_close (> 0; rounded to f32, at least the least positive f32) becomes that; a high below open
 * or close becomes the largest, a low above open or close the smallest of the bar's four prices; volume
 * and amount below 0 become 0. Values that are not finite are the caller's to refuse: NaN stays.
 * Return: number of values changed; 0 on a path that was repaired before. */
unsigned kr_repair(float *path, size_t n_steps, double last_close);

/* True if all four prices of all bars [n] are one and the same number to the model, that is in f32, and
 * n > 0. Volume and amount do not matter. */
bool kr_flat(const struct kr_bar *bars, size_t n);

#endif
