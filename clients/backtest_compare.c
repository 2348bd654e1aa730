/* SPDX-License-Identifier: MIT */
#include "clients/backtest.h"

#include "clients/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* In units of kr_live_drift(). */
const double kc_backtest_drifts[2] = {0.25, 0.5};

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

/* NaN of none. Sorts them. */
static double median_of(double *values, size_t n)
{
    if (n == 0)
        return NAN;
    qsort(values, n, sizeof(*values), by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static size_t class_of(double drift)
{
    return (size_t)(drift >= kc_backtest_drifts[0]) + (drift >= kc_backtest_drifts[1]);
}

/* Distances of one class of drift (3: all) into values; return how many. */
static size_t collect(const struct kc_backtest *one, const struct kc_backtest *other, size_t step,
                      size_t class, double *values)
{
    const struct kc_backtest_horizon *a = &one->horizons[step], *b = &other->horizons[step];
    size_t n = 0;

    for (size_t i = 0; i < one->n_origins; i++) {
        double width = (a->width[i] + b->width[i]) / 2;

        if (width > 0 && (class == 3 || class_of(other->drift[i]) == class))
            values[n++] = fabs(a->median[i] - b->median[i]) / width;
    }
    return n;
}

int kc_backtest_distance(const struct kc_backtest *backtest, const struct kc_backtest *other,
                         size_t step, struct kc_backtest_distance *ret)
{
    struct kc_backtest_distance distance = {.worst = NAN};
    double *values;

    if (backtest->n_origins != other->n_origins || step >= backtest->n_steps ||
        step >= other->n_steps)
        return -EINVAL;
    values = calloc(backtest->n_origins + 1, sizeof(*values));
    if (!values)
        return -ENOMEM;
    for (size_t class = 0; class < 3; class ++)
        distance.by_drift[class] = median_of(values, collect(backtest, other, step, class, values));
    distance.n = collect(backtest, other, step, 3, values);
    distance.median = median_of(values, distance.n);
    if (distance.n)
        distance.worst = values[distance.n - 1];
    free(values);
    *ret = distance;
    return 0;
}

/* Median drift over origins; NaN without memory. */
static double median_drift(const struct kc_backtest *backtest)
{
    double *values = calloc(backtest->n_origins + 1, sizeof(*values)), median;

    if (!values)
        return NAN;
    for (size_t i = 0; i < backtest->n_origins; i++)
        values[i] = backtest->drift[i];
    median = median_of(values, backtest->n_origins);
    free(values);
    return median;
}

int kc_backtest_compare_text(FILE *stream, const struct kc_backtest *backtest,
                             const struct kc_backtest *other,
                             const struct kc_backtest_config *config, const char *file)
{
    static const size_t chosen[] = {1, 6, 12, 24};
    int r = kc_backtest_text(stream, backtest, config, file);

    if (r == 0 && fputc('\n', stream) != EOF)
        r = kc_backtest_text(stream, other, config, file);
    fprintf(stream,
            "\n%s against %s: |difference of medians| / (95 %% - 5 %%), the same draws\n"
            "   h   median    worst   drift < %.2f   < %.2f   above\n",
            kr_mode_names[other->mode], kr_mode_names[backtest->mode], kc_backtest_drifts[0],
            kc_backtest_drifts[1]);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(chosen) && r == 0; i++) {
        struct kc_backtest_distance distance;

        if (chosen[i] > backtest->n_steps)
            continue;
        r = kc_backtest_distance(backtest, other, chosen[i] - 1, &distance);
        if (r == 0)
            fprintf(stream, "%4zu %8.4f %8.4f %14.4f %8.4f %7.4f\n", chosen[i], distance.median,
                    distance.worst, distance.by_drift[0], distance.by_drift[1],
                    distance.by_drift[2]);
    }
    fprintf(stream, "median drift %.3f; %llu epochs, %llu of them begun early by drift\n",
            median_drift(other), (unsigned long long)other->n_epochs,
            (unsigned long long)other->n_drifted);
    return r < 0 ? r : ferror(stream) ? -EIO : 0;
}

static int add_distances(json_t *list, const struct kc_backtest *backtest,
                         const struct kc_backtest *other)
{
    for (size_t step = 0; step < backtest->n_steps; step++) {
        struct kc_backtest_distance distance;
        int r = kc_backtest_distance(backtest, other, step, &distance);

        if (r < 0)
            return r;
        if (json_array_append_new(
                list, json_pack("{s:I, s:o, s:o, s:[o, o, o]}", "h", (json_int_t)step + 1, "median",
                                kj_real(distance.median), "worst", kj_real(distance.worst),
                                "by_drift", kj_real(distance.by_drift[0]),
                                kj_real(distance.by_drift[1]), kj_real(distance.by_drift[2]))) != 0)
            return -ENOMEM;
    }
    return 0;
}

int kc_backtest_compare_json(FILE *stream, const struct kc_backtest *backtest,
                             const struct kc_backtest *other, const char *file)
{
    json_t *distances = json_array(), *all = NULL;
    int r = distances ? add_distances(distances, backtest, other) : -ENOMEM;

    if (r == 0)
        all = json_pack("{s:[o, o], s:O, s:{s:[f, f], s:o, s:I, s:I}}", "modes",
                        kc_backtest_object(backtest, file), kc_backtest_object(other, file),
                        "distance", distances, "drift", "bounds", kc_backtest_drifts[0],
                        kc_backtest_drifts[1], "median", kj_real(median_drift(other)), "epochs",
                        (json_int_t)other->n_epochs, "drifted", (json_int_t)other->n_drifted);
    if (r == 0)
        r = all ? kj_write_line(stream, all) : -ENOMEM;
    json_decref(all);
    json_decref(distances);
    return r;
}
