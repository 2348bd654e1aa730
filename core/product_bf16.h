/* SPDX-License-Identifier: MIT */
/* What the two bfloat16 products share: rows of activations rounded to pairs of bfloat16. */
#ifndef KR_PRODUCT_BF16_H
#define KR_PRODUCT_BF16_H

#include "core/product.h"

/* Columns of x and of the packed weights are filled up with zeros to a multiple of this: one AMX tile. */
#define KR_BF16_DEPTH 32
/* Items of the buffer that rounded rows go through, on the stack: the widest row that a model may have fits
 * (KR_MAX_FF), and a block of 64 rows of most. */
#define KR_BF16_ITEMS ((size_t)65536)

#ifdef __AVX512BF16__
#include <immintrin.h>
#include <string.h>

/* x [n_rows][x_stride] -> ret [n_rows][n_in rounded up to KR_BF16_DEPTH], KR_ALIGNMENT-aligned, to the nearest,
 * ties to even, zeros behind n_in. */
static inline void kr_bf16_rows(const float *x, size_t x_stride, size_t n_in, size_t n_rows,
                                void *ret)
{
    size_t depth = kr_round_up(n_in, KR_BF16_DEPTH);
    uint16_t *to = ret;

    for (size_t row = 0; row < n_rows; row++, x += x_stride, to += depth) {
        size_t k = 0;

        for (; k + 32 <= n_in; k += 32) {
            __m512 low = _mm512_loadu_ps(x + k), high = _mm512_loadu_ps(x + k + 16);

            _mm512_store_si512(to + k, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
        if (k < n_in) {
            size_t left = n_in - k;
            __mmask16 first = (__mmask16)((1u << KR_MIN(left, (size_t)16)) - 1);
            __mmask16 second = (__mmask16)(left > 16 ? (1u << (left - 16)) - 1 : 0);
            __m512 low = _mm512_maskz_loadu_ps(first, x + k);
            __m512 high = _mm512_maskz_loadu_ps(second, x + k + 16);

            _mm512_store_si512(to + k, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
    }
}
#endif

#endif
