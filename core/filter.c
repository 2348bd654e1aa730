/* SPDX-License-Identifier: MIT */
#include "core/filter.h"
#include "core/kernels.h"

#include <errno.h>
#include <float.h>
#include <math.h>

/* Weights relative to the likeliest id, exp(d) with d <= 0, below this are taken as 0. The exponential
 * kernel stops at exp(-87) = 1.4 * 2^-126, so without this an id that is 200 below would be as likely as
 * one that is 87 below, no id would ever be impossible, and "the last id with p > 0" would always be
 * n - 1. Draws have 53 bits: nothing that could be drawn is lost. */
#define WEIGHT_MIN 0x1p-125f

int kr_sampling_check(const struct kr_sampling *sampling, struct kr_error *error)
{
    if (!isfinite(sampling->temperature) || sampling->temperature <= 0)
        return kr_error_set(error, -EINVAL, "temperature: expected a finite number above 0");
    if (!(sampling->top_p > 0 && sampling->top_p <= 1))
        return kr_error_set(error, -EINVAL, "top_p: expected a number above 0, at most 1");
    return 0;
}

static size_t argmax(const float *logits, size_t n)
{
    size_t best = 0;

    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* The total order of both filters: by descending logit, then ascending id. */
static inline bool before(const float *logits, uint32_t a, uint32_t b)
{
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void sift_down(const float *logits, uint32_t *heap, size_t n, size_t root)
{
    uint32_t moving = heap[root];

    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(logits, heap[child + 1], heap[child]))
            child++;
        if (!before(logits, heap[child], moving))
            break;
        heap[root] = heap[child];
    }
    heap[root] = moving;
}

/* Ids as a heap, first in order on top. The order is total, so popping gives the ids exactly as sorting
 * would, at the price of those that are asked for. */
static void heap_build(const float *logits, uint32_t *heap, size_t n)
{
    for (size_t i = 0; i < n; i++)
        heap[i] = (uint32_t)i;
    for (size_t root = n / 2; root-- > 0;)
        sift_down(logits, heap, n, root);
}

/* Move the first of heap [n] to heap[n - 1], behind the n - 1 that remain. */
static uint32_t heap_pop(const float *logits, uint32_t *heap, size_t n)
{
    uint32_t first = heap[0];

    heap[0] = heap[n - 1];
    heap[n - 1] = first;
    sift_down(logits, heap, n - 1, 0);
    return first;
}

static void drop_below_kth(const float *logits, size_t n, size_t k, float *weights, uint32_t *order)
{
    float kth = 0;

    heap_build(logits, order, n);
    for (size_t i = 0; i < k; i++)
        kth = logits[heap_pop(logits, order, n - i)];
    for (size_t i = 0; i < n; i++)
        if (logits[i] < kth)
            weights[i] = 0;
}

/* Sum of weights in one order of their own: eight running sums by column, then a tree. */
static double total_of(const float *weights, size_t n)
{
    double lanes[8] = {0};
    size_t i = 0;

    for (; i + 8 <= n; i += 8)
        for (size_t l = 0; l < 8; l++)
            lanes[l] += (double)weights[i + l];
    for (size_t l = 0; i + l < n; l++)
        lanes[l] += (double)weights[i + l];
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}

/* Probability of a weight: rounded to f32 wherever it counts. */
static inline float share(float weight, double total)
{
    return (float)((double)weight / total);
}

static void drop_after_top_p(const float *logits, size_t n, double top_p, float *weights,
                             uint32_t *order)
{
    double total = total_of(weights, n), cumulative = 0;
    size_t left = n;

    heap_build(logits, order, n);
    while (left > 0 && !(cumulative > top_p)) {
        cumulative += (double)share(weights[heap_pop(logits, order, left)], total);
        left--;
    }
    for (size_t i = 0; i < left; i++)
        weights[order[i]] = 0;
}

/* Weights of the ids that are left, in proportion to their probabilities. Return: their sum. */
static double weigh(const struct kr_sampling *sampling, const float *logits, size_t n,
                    float *weights, uint32_t *order)
{
    float max = logits[argmax(logits, n)];
    /* A temperature below f32 would divide 0 by 0; at the smallest normal number all but ties is gone. */
    float temperature = (float)KR_MAX(sampling->temperature, (double)FLT_MIN);

    /* The maximum is taken off first: the difference of the likeliest ids is exact, and no temperature
     * turns it into infinity less infinity. */
    for (size_t i = 0; i < n; i++)
        weights[i] = logits[i] - max;
    if (temperature != 1)
        for (size_t i = 0; i < n; i++)
            weights[i] /= temperature;
    kr_kernels()->exp_shifted(weights, 0, n);
    for (size_t i = 0; i < n; i++)
        weights[i] = weights[i] < WEIGHT_MIN ? 0 : weights[i];
    if (sampling->top_k > 0 && sampling->top_k < n)
        drop_below_kth(logits, n, sampling->top_k, weights, order);
    else if (sampling->top_k == 0 && sampling->top_p < 1)
        drop_after_top_p(logits, n, sampling->top_p, weights, order);
    return total_of(weights, n);
}

void kr_filter(const struct kr_sampling *sampling, const float *logits, size_t n, float *p,
               uint32_t *order)
{
    double total = weigh(sampling, logits, n, p, order);

    for (size_t i = 0; i < n; i++)
        p[i] = share(p[i], total);
}

/* kr_pick() on share(weights[i], total), computed as far as it is needed. */
static size_t pick(const float *weights, size_t n, double total, double u)
{
    double cumulative = 0;
    size_t last = n;

    for (size_t i = 0; i < n; i++) {
        cumulative += (double)share(weights[i], total);
        if (cumulative > u)
            return i;
    }
    while (last > 1 && !(weights[last - 1] > 0))
        last--;
    return last - 1;
}

size_t kr_pick(const float *p, size_t n, double u)
{
    return pick(p, n, 1, u);
}

size_t kr_sample(const struct kr_sampling *sampling, const float *logits, size_t n, double u,
                 float *p, uint32_t *order)
{
    double total;

    if (sampling->top_k == 1)
        return argmax(logits, n);
    total = weigh(sampling, logits, n, p, order);
    return pick(p, n, total, u);
}
