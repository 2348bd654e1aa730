/* SPDX-License-Identifier: MIT */
#include "core/normaliser.h"

#include "core/honest.h"

#include <math.h>

#define EPSILON 1e-5f
#define CLIP    5.0f

void kr_normaliser_fit(struct kr_normaliser *normaliser, const struct kr_bar *bars, size_t n,
                       bool scale)
{
    double std[KR_COLUMNS];
    int exponents[KR_COLUMNS] = {0};

    for (int c = 0; c < KR_COLUMNS; c++) {
        double sum = 0, squares = 0, mean;

        for (size_t i = 0; i < n; i++)
            sum += (double)(float)bars[i].v[c];
        mean = sum / (double)n;
        for (size_t i = 0; i < n; i++) {
            double d = (double)(float)bars[i].v[c] - mean;

            squares += d * d;
        }
        std[c] = sqrt(squares / (double)n);
        normaliser->mean[c] = (float)mean;
        normaliser->std[c] = (float)std[c];
    }
    if (scale)
        kr_scale_groups(std, exponents);
    for (int c = 0; c < KR_COLUMNS; c++) {
        normaliser->exponent[c] = exponents[c];
        normaliser->mean[c] = ldexpf(normaliser->mean[c], exponents[c]);
        normaliser->std[c] = ldexpf(normaliser->std[c], exponents[c]);
    }
    normaliser->n_bars = n;
}

bool kr_normaliser_apply(const struct kr_normaliser *normaliser, const struct kr_bar *bar,
                         float ret_x[KR_COLUMNS])
{
    bool clipped = false;

    for (int c = 0; c < KR_COLUMNS; c++) {
        float v = ldexpf((float)bar->v[c], normaliser->exponent[c]);
        float x = (v - normaliser->mean[c]) / (normaliser->std[c] + EPSILON);

        if (x > CLIP || x < -CLIP) {
            x = x > 0 ? CLIP : -CLIP;
            clipped = true;
        }
        ret_x[c] = x;
    }
    return clipped;
}

void kr_normaliser_invert(const struct kr_normaliser *normaliser, const float y[KR_COLUMNS],
                          float ret_v[KR_COLUMNS])
{
    for (int c = 0; c < KR_COLUMNS; c++)
        ret_v[c] = ldexpf(y[c] * (normaliser->std[c] + EPSILON) + normaliser->mean[c],
                          -normaliser->exponent[c]);
}
