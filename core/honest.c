/* SPDX-License-Identifier: MIT */
#include "core/honest.h"

#include <math.h>

int kr_scale_exponent(double spread)
{
    if (!(spread > 0) || !isfinite(spread))
        return 0;
    return (int)-lround(log2(spread));
}

void kr_scale_groups(const double std[KR_COLUMNS], int ret_exponent[KR_COLUMNS])
{
    double variance = 0;

    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        variance += std[c] * std[c];
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        ret_exponent[c] = kr_scale_exponent(sqrt(variance / 4));
    ret_exponent[KR_VOLUME] = kr_scale_exponent(std[KR_VOLUME]);
    ret_exponent[KR_AMOUNT] = kr_scale_exponent(std[KR_AMOUNT]);
}

static unsigned at_least(float *value, float least)
{
    if (*value >= least)
        return 0;
    *value = least;
    return 1;
}

unsigned kr_repair(float *path, size_t n_steps, double last_close)
{
    float floor = (float)(last_close * KR_PRICE_FLOOR);
    unsigned n = 0;

    for (size_t step = 0; step < n_steps; step++) {
        float *v = path + step * KR_COLUMNS, low;

        for (int c = KR_OPEN; c <= KR_CLOSE; c++)
            n += at_least(&v[c], floor);
        n += at_least(&v[KR_HIGH], fmaxf(v[KR_OPEN], v[KR_CLOSE]));
        low = fminf(v[KR_OPEN], v[KR_CLOSE]);
        if (v[KR_LOW] > low) {
            v[KR_LOW] = low;
            n++;
        }
        n += at_least(&v[KR_VOLUME], 0);
        n += at_least(&v[KR_AMOUNT], 0);
    }
    return n;
}

bool kr_flat(const struct kr_bar *bars, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (int c = KR_OPEN; c <= KR_CLOSE; c++)
            if (bars[i].v[c] != bars[0].v[KR_OPEN])
                return false;
    return n > 0;
}
