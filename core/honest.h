/* SPDX-License-Identifier: MIT */
/* What keeps sampled paths honest: scale of the inputs, broken candles, markets that do not move (rules,
 * "scale"; the public model's faults as its users report them). Pure functions. */
#ifndef KR_HONEST_H
#define KR_HONEST_H

#include "core/bar.h"

/* Power of two nearest 1 / spread (nearest in log2); 0 if spread is 0 or not finite. */
int kr_scale_exponent(double spread);

/* Exponents of the groups {open, high, low, close} (root of the mean variance), {volume}, {amount} from
 * each column's standard deviation. */
void kr_scale_groups(const double std[KR_COLUMNS], int ret_exponent[KR_COLUMNS]);

/* Lowest price that a repaired path may show, as a share of the last close. */
#define KR_PRICE_FLOOR 1e-6

/* Make a path [n_steps][KR_COLUMNS] one of real candles, in place: prices at least KR_PRICE_FLOOR of
 * last_close, high and low enclosing open and close, volume and amount not below 0. Idempotent.
 * Return: the number of values changed. */
unsigned kr_repair(float *path, size_t n_steps, double last_close);

/* All four prices of all bars [n] are one number. */
bool kr_flat(const struct kr_bar *bars, size_t n);

#endif
