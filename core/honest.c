/* SPDX-License-Identifier: MIT */
#include "core/honest.h"

#include <assert.h>
#include <float.h>
#include <math.h>

int kr_scale_exponent(double spread)
{
    int exponent;
    double mantissa;

    if (!(spread > 0) || !isfinite(spread))
        return 0;
    /* spread = mantissa 2^exponent, mantissa in [1/2, 1): compared instead of taking a logarithm, whose
     * last bit differs between libraries. sqrt(1/2) is irrational, so there are no ties. */
    mantissa = frexp(spread, &exponent);
    return mantissa > M_SQRT1_2 ? -exponent : 1 - exponent;
}

void kr_scale_groups(const double std[KR_COLUMNS], int ret_exponents[KR_COLUMNS])
{
    double variance = 0;
    int prices;

    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        variance += std[c] * std[c];
    prices = kr_scale_exponent(sqrt(variance / 4));
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        ret_exponents[c] = prices;
    ret_exponents[KR_VOLUME] = kr_scale_exponent(std[KR_VOLUME]);
    ret_exponents[KR_AMOUNT] = kr_scale_exponent(std[KR_AMOUNT]);
}

/* Set *v, counting a change of value. */
static unsigned set(float *v, float value)
{
    unsigned changed = *v != value;

    *v = value;
    return changed;
}

static unsigned repair_bar(float v[KR_COLUMNS], float floor)
{
    unsigned n = 0;
    float top, bottom, largest, smallest;

    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        if (v[c] < floor)
            n += set(&v[c], floor);
    top = KR_MAX(v[KR_OPEN], v[KR_CLOSE]);
    bottom = KR_MIN(v[KR_OPEN], v[KR_CLOSE]);
    largest = KR_MAX(top, KR_MAX(v[KR_HIGH], v[KR_LOW]));
    smallest = KR_MIN(bottom, KR_MIN(v[KR_HIGH], v[KR_LOW]));
    if (v[KR_HIGH] < top)
        n += set(&v[KR_HIGH], largest);
    if (v[KR_LOW] > bottom)
        n += set(&v[KR_LOW], smallest);
    for (int c = KR_VOLUME; c <= KR_AMOUNT; c++)
        if (v[c] < 0)
            n += set(&v[c], 0);
    return n;
}

unsigned kr_repair(float *path, size_t n_steps, double last_close)
{
    float floor = (float)(last_close * KR_PRICE_FLOOR);
    unsigned n = 0;

    assert(last_close > 0);
    floor = KR_MAX(floor, FLT_TRUE_MIN);
    for (size_t step = 0; step < n_steps; step++)
        n += repair_bar(path + step * KR_COLUMNS, floor);
    return n;
}

bool kr_flat(const struct kr_bar *bars, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int c = KR_OPEN; c <= KR_CLOSE; c++)
            if ((float)bars[i].v[c] != (float)bars[0].v[KR_OPEN])
                return false;
    return n > 0;
}
