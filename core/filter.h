/* SPDX-License-Identifier: MIT */
/* From logits to a token: temperature, top-k, top-p, softmax, inverse CDF (model arithmetic, "Sampling
 * filters"; ties and ends by rules).
 *
 * Pure functions of their arguments: nothing is allocated, any thread, and each row of logits gives the
 * same bits whatever was sampled before it. Logits are finite; with others the numbers mean nothing, but
 * an id returned is below n all the same. n >= 1, below 2^32. */
#ifndef KR_FILTER_H
#define KR_FILTER_H

#include "core/base.h"

struct kr_sampling {
    double temperature; /* > 0 */
    size_t top_k;       /* 0: off; else top_p is ignored; 1 is greedy; n or more keeps all */
    double top_p;       /* 1: off */
    bool stratified;    /* of the uniforms, not of the filter: kr_draw_strata() */
};

/* Return: 0, or -EINVAL with a line: temperature <= 0 or not finite, top_p outside (0, 1]. */
int kr_sampling_check(const struct kr_sampling *sampling, struct kr_error *error) kr_must_check;

/* Probabilities p [n] (sum 1 but for rounding, dropped ids exactly 0) of logits [n]; `order` [n] is scratch.
 * top_k: logits below the k-th largest drop, ties with it stay. top_p: by descending logit, ties by lower
 * id, everything after the first id whose cumulative probability (double sum of f32 probabilities)
 * exceeds top_p drops. An id less than 2^-125 times as likely as the likeliest is 0 too. */
void kr_filter(const struct kr_sampling *sampling, const float *logits, size_t n, float *p,
               uint32_t *order);

/* Inverse CDF in token-id order: the first id whose cumulative probability (double sum) exceeds u in
 * [0, 1); if u reaches the total, the last id with p > 0. */
size_t kr_pick(const float *p, size_t n, double u);

/* Both, greedy (top_k 1) as argmax with the lowest id on ties. p, order: scratch [n]. */
size_t kr_sample(const struct kr_sampling *sampling, const float *logits, size_t n, double u,
                 float *p, uint32_t *order);

#endif
