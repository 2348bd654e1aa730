/* SPDX-License-Identifier: MIT */
/* The exponential of all kernels, for the sources that are compiled once per instruction set. */
#ifndef KR_KERNELS_EXP_H
#define KR_KERNELS_EXP_H

#include <stdint.h>
#include <string.h>

#define fma_f32(a, b, c) __builtin_fmaf(a, b, c)

/* exp by Cody and Waite's reduction and a polynomial of degree 6 on [-ln2/2, ln2/2], the same operations
 * whatever the lane. Its coefficients minimise the largest relative error (3.1e-9, by Remez; the first two
 * are held at 1, so exp(0) is 1); the result is within 0.89 ulp. Arguments are clamped to [-87, 88]. */
static inline float kr_exp_one(float x)
{
    const float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    const float round = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    float n, r, p;
    uint32_t bits;

    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    n = fma_f32(x, log2_e, round);
    memcpy(&bits, &n, sizeof(bits));
    n -= round;
    r = fma_f32(n, -ln2_high, x);
    r = fma_f32(n, -ln2_low, r);
    p = 1.38145406e-3f;
    p = fma_f32(p, r, 8.36874545e-3f);
    p = fma_f32(p, r, 4.1668389e-2f);
    p = fma_f32(p, r, 1.66665211e-1f);
    p = fma_f32(p, r, 4.9999994e-1f);
    p = fma_f32(p, r, 1.0f);
    p = fma_f32(p, r, 1.0f);
    bits = (bits + 127) << 23; /* 2^n; the low bits of `round` vanish in the shift */
    memcpy(&n, &bits, sizeof(n));
    return p * n;
}

#endif
