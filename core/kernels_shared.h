/* SPDX-License-Identifier: MIT */
/* Vectors of one instruction set for kernels_shared.c, and names of what it gives to kernels_isa.c. Only those
 * two include it. Every operation rounds as its scalar does: a lane gives the same bits with every set. */
#ifndef KR_KERNELS_SHARED_H
#define KR_KERNELS_SHARED_H

#include "core/kernels.h"

#define JOIN_(a, b)  a##b
#define JOIN(a, b)   JOIN_(a, b)
#define OF_ISA(name) JOIN(kr_##name##_, KR_ISA)

void OF_ISA(to_columns)(float *columns, size_t stride, const float *rows, size_t row_stride,
                        size_t n, size_t dim);
void OF_ISA(to_rows)(float *rows, size_t row_stride, const float *columns, size_t stride, size_t n,
                     size_t dim);
void OF_ISA(shared_scores)(float *s, const float *q, const float *k, size_t first, size_t n,
                           size_t dim, size_t lanes, float scale);
void OF_ISA(shared_maximum)(float *most, const float *s, const struct kr_seen *seen, size_t n,
                            size_t lanes);
void OF_ISA(shared_weights)(float *s, float *sum, const float *most, const struct kr_seen *seen,
                            size_t n, size_t lanes);
void OF_ISA(shared_accumulate)(float *out, const float *p, const float *v, size_t n, size_t dim,
                               size_t lanes, bool some);
void OF_ISA(fork_scores)(float *s, const float *q, const float *k, size_t first, size_t n,
                         size_t dim, size_t lanes, size_t fork_lanes, float scale);
void OF_ISA(fork_accumulate)(float *out, const float *p, const float *v, size_t n, size_t dim,
                             size_t lanes, size_t fork_lanes);

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512 vec;
#define VEC  16
#define TILE 8 /* keys, or columns of V, in registers at a time */
/* Keeps a vector in its register: gcc 12 would read it from memory again for every FMA. */
#define vec_keep(a) __asm__("" : "+v"(a))
static inline vec vec_load(const float *x)
{
    return _mm512_loadu_ps(x);
}
static inline void vec_store(float *x, vec a)
{
    _mm512_storeu_ps(x, a);
}
static inline vec vec_all(float x)
{
    return _mm512_set1_ps(x);
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline vec vec_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}
/* fma(a, b, c) where a is not 0, else c. */
static inline vec vec_fma_some(vec a, vec b, vec c)
{
    return _mm512_mask3_fmadd_ps(a, b, c, _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_NEQ_UQ));
}
/* x[i] becomes column i of the VEC rows that x was. */
static inline void vec_transpose(vec x[VEC])
{
    vec u[16];

    for (int i = 0; i < 16; i += 4) {
        __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(x[i], x[i + 1]));
        __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(x[i], x[i + 1]));
        __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(x[i + 2], x[i + 3]));
        __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(x[i + 2], x[i + 3]));

        u[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
        u[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
        u[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
        u[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
    }
    /* u[4 g + j] holds, in its quarter q, column 4 q + j of rows 4 g .. 4 g + 3 */
    for (int j = 0; j < 4; j++) {
        vec even = _mm512_shuffle_f32x4(u[j], u[4 + j], 0x88);
        vec even2 = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0x88);
        vec odd = _mm512_shuffle_f32x4(u[j], u[4 + j], 0xdd);
        vec odd2 = _mm512_shuffle_f32x4(u[8 + j], u[12 + j], 0xdd);

        x[j] = _mm512_shuffle_f32x4(even, even2, 0x88);
        x[8 + j] = _mm512_shuffle_f32x4(even, even2, 0xdd);
        x[4 + j] = _mm512_shuffle_f32x4(odd, odd2, 0x88);
        x[12 + j] = _mm512_shuffle_f32x4(odd, odd2, 0xdd);
    }
}
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
typedef __m256 vec;
#define VEC         8
#define TILE        4
#define vec_keep(a) __asm__("" : "+x"(a))
static inline vec vec_load(const float *x)
{
    return _mm256_loadu_ps(x);
}
static inline void vec_store(float *x, vec a)
{
    _mm256_storeu_ps(x, a);
}
static inline vec vec_all(float x)
{
    return _mm256_set1_ps(x);
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline vec vec_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}
static inline vec vec_fma_some(vec a, vec b, vec c)
{
    return _mm256_blendv_ps(c, _mm256_fmadd_ps(a, b, c),
                            _mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_NEQ_UQ));
}
static inline void vec_transpose(vec x[VEC])
{
    vec u[8];

    for (int i = 0; i < 8; i += 4) {
        __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(x[i], x[i + 1]));
        __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(x[i], x[i + 1]));
        __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(x[i + 2], x[i + 3]));
        __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(x[i + 2], x[i + 3]));

        u[i] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
        u[i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
        u[i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
        u[i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
    }
    for (int j = 0; j < 4; j++) {
        x[j] = _mm256_permute2f128_ps(u[j], u[4 + j], 0x20);
        x[4 + j] = _mm256_permute2f128_ps(u[j], u[4 + j], 0x31);
    }
}
#else
#define VEC         8
#define TILE        4
#define vec_keep(a) ((void)(a))
typedef struct {
    float lane[VEC];
} vec;
static inline vec vec_load(const float *x)
{
    vec a;

    for (int l = 0; l < VEC; l++)
        a.lane[l] = x[l];
    return a;
}
static inline void vec_store(float *x, vec a)
{
    for (int l = 0; l < VEC; l++)
        x[l] = a.lane[l];
}
static inline vec vec_all(float x)
{
    vec a;

    for (int l = 0; l < VEC; l++)
        a.lane[l] = x;
    return a;
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    for (int l = 0; l < VEC; l++)
        c.lane[l] = __builtin_fmaf(a.lane[l], b.lane[l], c.lane[l]);
    return c;
}
static inline vec vec_mul(vec a, vec b)
{
    for (int l = 0; l < VEC; l++)
        a.lane[l] *= b.lane[l];
    return a;
}
static inline vec vec_fma_some(vec a, vec b, vec c)
{
    for (int l = 0; l < VEC; l++)
        if (a.lane[l] != 0)
            c.lane[l] = __builtin_fmaf(a.lane[l], b.lane[l], c.lane[l]);
    return c;
}
static inline void vec_transpose(vec x[VEC])
{
    for (int i = 0; i < VEC; i++)
        for (int j = 0; j < i; j++) {
            float a = x[i].lane[j];

            x[i].lane[j] = x[j].lane[i];
            x[j].lane[i] = a;
        }
}
#endif

#endif
