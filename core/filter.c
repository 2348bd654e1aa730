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

/* Selection: ids go to buckets by their distance from the largest logit, which keeps their order between
 * buckets; only the bucket in which the last id that stays lies is sorted. */

#define BUCKETS    256
#define PER_DEGREE 16 /* buckets for a distance of one temperature */

struct buckets {
    const float *logits;
    size_t n;
    float most, scale;
};

/* Return: false if the logits are too far apart for buckets, or not numbers. */
static bool buckets_of(struct buckets *buckets, const float *logits, size_t n, float most,
                       float temperature)
{
    *buckets = (struct buckets){logits, n, most, PER_DEGREE / temperature};
    return isfinite(most) && isfinite(buckets->scale);
}

static inline float bucket_position(const struct buckets *buckets, size_t i)
{
    return (buckets->most - buckets->logits[i]) * buckets->scale;
}

static inline size_t bucket_of(const struct buckets *buckets, size_t i)
{
    float position = bucket_position(buckets, i);

    return position < BUCKETS - 1 ? (size_t)position : BUCKETS - 1;
}

/* Ids of one bucket as a heap. Return: how many. */
static size_t bucket_heap(const struct buckets *buckets, size_t bucket, uint32_t *heap)
{
    size_t n = 0;

    for (size_t i = 0; i < buckets->n; i++)
        if (bucket_of(buckets, i) == bucket)
            heap[n++] = (uint32_t)i;
    for (size_t root = n / 2; root-- > 0;)
        sift_down(buckets->logits, heap, n, root);
    return n;
}

static void drop_behind_bucket(const struct buckets *buckets, size_t bucket, float *weights)
{
    if (bucket < BUCKETS - 1)
        for (size_t i = 0; i < buckets->n; i++)
            weights[i] = bucket_position(buckets, i) >= (float)(bucket + 1) ? 0 : weights[i];
}

/* The k-th largest logit, 1 <= k <= n. */
static float kth_of(const float *logits, size_t n, float most, size_t k, uint32_t *order)
{
    size_t count[BUCKETS] = {0}, bucket = 0, before = 0;
    struct buckets buckets;
    float kth = 0;

    if (buckets_of(&buckets, logits, n, most, 1)) {
        for (size_t i = 0; i < n; i++)
            count[bucket_of(&buckets, i)]++;
        while (before + count[bucket] < k)
            before += count[bucket++];
        n = bucket_heap(&buckets, bucket, order);
    } else {
        heap_build(logits, order, n);
    }
    for (size_t i = before; i < k; i++)
        kth = logits[heap_pop(logits, order, n - (i - before))];
    return kth;
}

static void drop_below_kth(const float *logits, size_t n, float most, size_t k, float *weights,
                           uint32_t *order)
{
    float kth = kth_of(logits, n, most, k, order);

    for (size_t i = 0; i < n; i++)
        weights[i] = logits[i] < kth ? 0 : weights[i];
}

/* Probability of a weight: rounded to f32 wherever it counts. */
static inline float share(float weight, double total)
{
    return (float)((double)weight / total);
}

/* From its definition: ids one by one in order, shares added up until top_p is exceeded. */
static void drop_one_by_one(const float *logits, size_t n, double top_p, double total,
                            float *weights, uint32_t *order)
{
    double cumulative = 0;
    size_t left = n;

    heap_build(logits, order, n);
    while (left > 0 && !(cumulative > top_p)) {
        cumulative += (double)share(weights[heap_pop(logits, order, left)], total);
        left--;
    }
    for (size_t i = 0; i < left; i++)
        weights[order[i]] = 0;
}

/* A sum of weights in any order, over the total, differs from the sum of the shares in their order by less:
 * half an f32 ulp of each share, and as many double ulps of 1 as there are ids. */
#define SHARE_SUMS_DIFFER 1e-6

/* The same by buckets. Return: false where sums as close to top_p as that cannot tell; nothing is dropped. */
static bool drop_by_buckets(const struct buckets *buckets, double top_p, double total,
                            float *weights, uint32_t *order)
{
    double sum[BUCKETS] = {0}, cumulative = 0, last = 0;
    size_t bucket = 0, left;

    for (size_t i = 0; i < buckets->n; i++)
        sum[bucket_of(buckets, i)] += (double)weights[i];
    while (bucket < BUCKETS && cumulative + sum[bucket] <= top_p * total)
        cumulative += sum[bucket++];
    if (bucket == BUCKETS)
        return false;
    left = bucket_heap(buckets, bucket, order);
    while (left > 0 && cumulative <= top_p * total) {
        last = cumulative;
        cumulative += (double)weights[heap_pop(buckets->logits, order, left)];
        left--;
    }
    if (top_p * total - last <= SHARE_SUMS_DIFFER * total ||
        cumulative - top_p * total <= SHARE_SUMS_DIFFER * total)
        return false;
    for (size_t i = 0; i < left; i++)
        weights[order[i]] = 0;
    drop_behind_bucket(buckets, bucket, weights);
    return true;
}

static void drop_after_top_p(const float *logits, size_t n, float most, float temperature,
                             double top_p, float *weights, uint32_t *order)
{
    double total = kr_kernels()->total(weights, n);
    struct buckets buckets;

    if (!buckets_of(&buckets, logits, n, most, temperature) ||
        !drop_by_buckets(&buckets, top_p, total, weights, order))
        drop_one_by_one(logits, n, top_p, total, weights, order);
}

/* Weights of the ids that are left, in proportion to their probabilities. Return: their sum. */
static double weigh(const struct kr_sampling *sampling, const float *logits, size_t n,
                    float *weights, uint32_t *order)
{
    const struct kr_kernels *kernels = kr_kernels();
    float most = kernels->maximum(logits, n);
    /* A temperature below f32 would divide 0 by 0; at the smallest normal number all but ties is gone. */
    float temperature = (float)KR_MAX(sampling->temperature, (double)FLT_MIN);

    /* The maximum is taken off first: the difference of the likeliest ids is exact, and no temperature
     * turns it into infinity less infinity. */
    kernels->weights(weights, logits, most, temperature, WEIGHT_MIN, n);
    if (sampling->top_k > 0 && sampling->top_k < n)
        drop_below_kth(logits, n, most, sampling->top_k, weights, order);
    else if (sampling->top_k == 0 && sampling->top_p < 1)
        drop_after_top_p(logits, n, most, temperature, sampling->top_p, weights, order);
    return kernels->total(weights, n);
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
    size_t at = kr_kernels()->pick(weights, n, total, u), last = n;

    if (at < n)
        return at;
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
