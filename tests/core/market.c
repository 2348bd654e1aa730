/* SPDX-License-Identifier: MIT */
#include "tests/core/market.h"
#include "core/bar.h"
#include "core/draw.h"

#include <math.h>

double kt_uniform(struct kt_random *random)
{
    uint64_t n = random->n++;

    return kr_draw(random->seed, (int64_t)(n >> 32), (uint32_t)n, 0, 0) + 0x1p-54;
}

double kt_normal(struct kt_random *random)
{
    double radius = sqrt(-2 * log(kt_uniform(random)));

    return radius * cos(2 * M_PI * kt_uniform(random));
}

/* Bailey's polar method (1994). */
double kt_student(struct kt_random *random, double freedom)
{
    double u, t;

    if (isinf(freedom))
        return kt_normal(random);
    u = kt_uniform(random);
    t = sqrt(freedom * (pow(u, -2 / freedom) - 1)) * cos(2 * M_PI * kt_uniform(random));
    return t * sqrt((freedom - 2) / freedom);
}

struct kt_market kt_market(void)
{
    return (struct kt_market){
        .omega = 2e-6, .alpha = 0.08, .beta = 0.9, .freedom = 5, .variance = 1e-4, .close = 100};
}

struct kt_market kt_calm_market(void)
{
    return (struct kt_market){.omega = 1e-4, .freedom = INFINITY, .variance = 1e-4, .close = 100};
}

/* One return, and what it makes of the variance. */
static double step(const struct kt_market *market, struct kt_random *random, double *variance)
{
    double surprise = sqrt(*variance) * kt_student(random, market->freedom);

    *variance = market->omega + market->alpha * surprise * surprise + market->beta * *variance;
    return market->drift + surprise;
}

double kt_market_step(struct kt_market *market, struct kt_random *random)
{
    market->close *= exp(step(market, random, &market->variance));
    return market->close;
}

void kt_market_paths(const struct kt_market *market, struct kt_random *random, size_t n_paths,
                     size_t n_steps, double spread, double shift, float *paths)
{
    double unit = sqrt(market->variance);

    for (size_t path = 0; path < n_paths; path++) {
        double variance = market->variance, sum = 0;

        for (size_t h = 0; h < n_steps; h++) {
            double moved;

            sum += step(market, random, &variance);
            moved = spread * sum + shift * unit * sqrt((double)(h + 1));
            paths[(path * n_steps + h) * KR_COLUMNS + KR_CLOSE] =
                (float)(market->close * exp(moved));
        }
    }
}
