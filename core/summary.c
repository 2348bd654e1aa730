/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "core/honest.h"
#include "core/summary.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const double kr_risk_levels[KR_RISK_LEVELS] = {0.95, 0.99};

/* A level whose position misses the outermost order statistic by rounding alone is not beyond it. */
#define POSITION_ROUNDING 1e-9

/* Memory: columns and ret are bands. */
#define N_BANDS (KR_COLUMNS + 1)

size_t kr_summary_size_bytes(size_t max_steps, size_t max_paths, size_t n_levels)
{
    size_t rows, n, small;

    /* max_steps (7 (2 + n_levels) + 1) + 3 n_levels + max_paths */
    if (!kr_add(n_levels, 2, &rows) || !kr_multiply(rows, N_BANDS, &rows) ||
        !kr_add(rows, 1, &rows) || !kr_multiply(rows, max_steps, &n) ||
        !kr_multiply(n_levels, 3, &small) || !kr_add(n, small, &n) || !kr_add(n, max_paths, &n) ||
        !kr_multiply(n, sizeof(double), &n) || n > SIZE_MAX - KR_ALIGNMENT)
        return 0;
    return kr_round_up(n, KR_ALIGNMENT);
}

static double *take(double **cursor, size_t n)
{
    double *taken = *cursor;

    *cursor += n;
    return taken;
}

static void take_band(struct kr_band *band, double **cursor, size_t max_steps, size_t n_levels)
{
    band->mean = take(cursor, max_steps);
    band->std = take(cursor, max_steps);
    band->q = take(cursor, n_levels * max_steps);
}

int kr_summary_init(struct kr_summary *summary, size_t max_steps, size_t max_paths,
                    const double *levels, size_t n_levels, struct kr_error *error)
{
    struct kr_summary made = {.n_levels = n_levels, .max_steps = max_steps, .max_paths = max_paths};
    size_t bytes = kr_summary_size_bytes(max_steps, max_paths, n_levels);
    double *cursor;

    if (max_steps < 1 || max_paths < 1 || n_levels < 1)
        return kr_error_set(error, -EINVAL, "summary: expected at least one step, path and level");
    for (size_t i = 0; i < n_levels; i++)
        if (!(levels[i] > (i > 0 ? levels[i - 1] : 0) && levels[i] < 1))
            return kr_error_set(
                error, -EINVAL,
                "levels: expected numbers strictly rising between 0 and 1, number %zu is not",
                i + 1);
    cursor = bytes > 0 ? kr_alloc(1, bytes) : NULL;
    if (!cursor)
        return kr_error_set(error, -ENOMEM, "summary: no memory for %zu steps, %zu paths",
                            max_steps, max_paths);
    made.levels = take(&cursor, n_levels); /* first: what kr_summary_free() releases */
    memcpy(made.levels, levels, n_levels * sizeof(double));
    for (int c = 0; c < KR_COLUMNS; c++)
        take_band(&made.columns[c], &cursor, max_steps, n_levels);
    take_band(&made.ret, &cursor, max_steps, n_levels);
    made.p_up = take(&cursor, max_steps);
    made.vol.q = take(&cursor, n_levels);
    made.mdd.q = take(&cursor, n_levels);
    made.scratch = take(&cursor, max_paths);
    *summary = made;
    return 0;
}

void kr_summary_free(struct kr_summary *summary)
{
    free(summary->levels);
    *summary = (struct kr_summary){0};
}

/* One quantity over the paths */

/* Shell's sort with Ciura's gaps: in place, short, and quick for tens to a few thousand values. (The C
 * library's qsort allocates above a kilobyte.) */
void kr_sort(double *x, size_t n)
{
    static const size_t gaps[] = {3937, 1750, 701, 301, 132, 57, 23, 10, 4, 1};

    for (size_t g = 0; g < KR_ARRAY_LENGTH(gaps); g++) {
        size_t gap = gaps[g];

        for (size_t i = gap; i < n; i++) {
            double moving = x[i];
            size_t at = i;

            for (; at >= gap && x[at - gap] > moving; at -= gap)
                x[at] = x[at - gap];
            x[at] = moving;
        }
    }
}

double kr_quantile(const double *sorted, size_t m, double tau, bool *tail)
{
    double position = tau * (double)(m + 1), fraction;
    size_t below;

    if (tail && (position < 1 - POSITION_ROUNDING || position > (double)m + POSITION_ROUNDING))
        *tail = true;
    if (position <= 1)
        return sorted[0];
    if (position >= (double)m)
        return sorted[m - 1];
    below = (size_t)position; /* 1 .. m - 1 */
    fraction = position - (double)below;
    return sorted[below - 1] + fraction * (sorted[below] - sorted[below - 1]);
}

static double mean_of(const double *x, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

static double std_of(const double *x, size_t n, double mean)
{
    double squares = 0;

    for (size_t i = 0; i < n; i++)
        squares += (x[i] - mean) * (x[i] - mean);
    return sqrt(squares / (double)n);
}

/* The values in scratch, by path, become one step of a band; scratch is left sorted. */
static void finish_band(struct kr_summary *summary, struct kr_band *band, size_t step)
{
    double *x = summary->scratch;
    size_t n = summary->n_paths;

    band->mean[step] = mean_of(x, n);
    band->std[step] = std_of(x, n, band->mean[step]);
    kr_sort(x, n);
    for (size_t i = 0; i < summary->n_levels; i++)
        band->q[i * summary->n_steps + step] =
            kr_quantile(x, n, summary->levels[i], &summary->tail);
}

static void finish_spread(struct kr_summary *summary, struct kr_spread *spread)
{
    double *x = summary->scratch;
    size_t n = summary->n_paths;

    spread->mean = mean_of(x, n);
    kr_sort(x, n);
    for (size_t i = 0; i < summary->n_levels; i++)
        spread->q[i] = kr_quantile(x, n, summary->levels[i], &summary->tail);
}

/* What is gathered from the paths */

static float value_at(const struct kr_summary *summary, const float *paths, size_t path,
                      size_t step, int column)
{
    return paths[(path * summary->n_steps + step) * KR_COLUMNS + (size_t)column];
}

/* Close of a path as returns and drawdowns see it: never so low that a logarithm fails. */
static double close_at(const struct kr_summary *summary, const float *paths, size_t path,
                       size_t step, double last_close)
{
    double close = (double)value_at(summary, paths, path, step, KR_CLOSE);

    return KR_MAX(close, KR_PRICE_FLOOR * last_close);
}

static void column_at(struct kr_summary *summary, const float *paths, int column, size_t step)
{
    for (size_t path = 0; path < summary->n_paths; path++)
        summary->scratch[path] = (double)value_at(summary, paths, path, step, column);
    finish_band(summary, &summary->columns[column], step);
}

static void return_at(struct kr_summary *summary, const float *paths, size_t step,
                      double last_close)
{
    for (size_t path = 0; path < summary->n_paths; path++)
        summary->scratch[path] = log(close_at(summary, paths, path, step, last_close) / last_close);
    finish_band(summary, &summary->ret, step);
}

static double p_up_at(const struct kr_summary *summary, const float *paths, size_t step,
                      double last_close)
{
    size_t halves = 0;

    for (size_t path = 0; path < summary->n_paths; path++) {
        float close = value_at(summary, paths, path, step, KR_CLOSE);

        halves += (size_t)(close > (float)last_close) + (size_t)(close >= (float)last_close);
    }
    return ((double)halves / 2 + 0.5) / ((double)summary->n_paths + 1);
}

static void realised_volatility(struct kr_summary *summary, const float *paths, double last_close)
{
    for (size_t path = 0; path < summary->n_paths; path++) {
        double previous = last_close, squares = 0;

        for (size_t step = 0; step < summary->n_steps; step++) {
            double close = close_at(summary, paths, path, step, last_close);
            double change = log(close / previous);

            squares += change * change;
            previous = close;
        }
        summary->scratch[path] = sqrt(squares);
    }
    finish_spread(summary, &summary->vol);
}

static void maximum_drawdown(struct kr_summary *summary, const float *paths, double last_close)
{
    for (size_t path = 0; path < summary->n_paths; path++) {
        double peak = last_close, worst = 0;

        for (size_t step = 0; step < summary->n_steps; step++) {
            double close = close_at(summary, paths, path, step, last_close);

            peak = KR_MAX(peak, close);
            worst = KR_MAX(worst, 1 - close / peak);
        }
        summary->scratch[path] = worst;
    }
    finish_spread(summary, &summary->mdd);
}

/* Expected shortfall of sorted returns [n] at a = 1 - level. */
static double shortfall(const double *sorted, size_t n, double a)
{
    double share = (double)n * a, sum = 0;
    size_t whole = (size_t)share;

    if (share < 1)
        return 0 - sorted[0];
    for (size_t i = 0; i < whole; i++)
        sum += sorted[i];
    if (whole < n)
        sum += (share - (double)whole) * sorted[whole];
    return 0 - sum / share; /* not minus: a loss of nothing is 0, not -0 */
}

/* From the returns of the last step, sorted in scratch. */
static void risk(struct kr_summary *summary)
{
    const double *x = summary->scratch;

    for (size_t i = 0; i < KR_RISK_LEVELS; i++) {
        double a = 1 - kr_risk_levels[i];

        summary->var[i] = 0 - kr_quantile(x, summary->n_paths, a, &summary->tail_risk);
        summary->es[i] = shortfall(x, summary->n_paths, a);
    }
}

/* Costly, so only where such checks are built in. */
static void check_finite(const float *x, size_t n)
{
#ifdef KR_DEBUG_CHECKS
    for (size_t i = 0; i < n; i++)
        assert(isfinite(x[i]));
#endif
}

void kr_summary_compute(struct kr_summary *summary, const float *paths, size_t n_paths,
                        size_t n_steps, double last_close)
{
    assert(n_paths >= 1 && n_paths <= summary->max_paths);
    assert(n_steps >= 1 && n_steps <= summary->max_steps);
    assert(last_close > 0);
    check_finite(paths, n_paths * n_steps * KR_COLUMNS);
    summary->n_paths = n_paths;
    summary->n_steps = n_steps;
    summary->tail = summary->tail_risk = false;
    for (int c = 0; c < KR_COLUMNS; c++)
        for (size_t step = 0; step < n_steps; step++)
            column_at(summary, paths, c, step);
    for (size_t step = 0; step < n_steps; step++)
        summary->p_up[step] = p_up_at(summary, paths, step, last_close);
    realised_volatility(summary, paths, last_close);
    maximum_drawdown(summary, paths, last_close);
    for (size_t step = 0; step < n_steps; step++)
        return_at(summary, paths, step, last_close);
    risk(summary); /* right after the last step's returns */
}
