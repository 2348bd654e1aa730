/* SPDX-License-Identifier: MIT */
/* From prices to the model's six inputs and back: `levels`, the public model's z-scores. */
#ifndef KR_NORMALISER_H
#define KR_NORMALISER_H

#include "core/bar.h"

struct kr_normaliser {
    float mean[KR_COLUMNS], std[KR_COLUMNS]; /* of scaled columns, population std */
    int exponent[KR_COLUMNS]; /* columns are multiplied by 2^exponent first; 0 if off */
    size_t n_bars;            /* that mean and std cover */
};

/* Mean and std over bars [n], n >= 1, summed in double over values rounded to f32. With `scale`, the power
 * of two nearest 1/std for each of {prices}, {volume}, {amount} (rules, "scale"). */
void kr_normaliser_fit(struct kr_normaliser *normaliser, const struct kr_bar *bars, size_t n,
                       bool scale);

/* x = clip((v - mean) / (std + 1e-5), -5, 5). Return: true if anything was clipped. */
bool kr_normaliser_apply(const struct kr_normaliser *normaliser, const struct kr_bar *bar,
                         float ret_x[KR_COLUMNS]);

/* v = (y (std + 1e-5) + mean) / 2^exponent, in f32. */
void kr_normaliser_invert(const struct kr_normaliser *normaliser, const float y[KR_COLUMNS],
                          float ret_v[KR_COLUMNS]);

#endif
