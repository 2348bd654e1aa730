/* SPDX-License-Identifier: MIT */
/* Vectors of one instruction set for kernels_shared.c, and names of what it gives to kernels_isa.c. Only those
 * two include it. Every operation rounds as its scalar does: a lane gives the same bits with every set. */
#ifndef KR_KERNELS_SHARED_H
#define KR_KERNELS_SHARED_H

#include "core/kernels.h"

#define JOIN_(a, b)  a##b
#define JOIN(a, b)   JOIN_(a, b)
#define OF_ISA(name) JOIN(kr_##name##_, KR_ISA)

void OF_ISA(to_columns)(float *columns, const float *rows, size_t stride, size_t n, size_t dim,
                        size_t lanes);
void OF_ISA(to_rows)(float *rows, size_t stride, const float *columns, size_t n, size_t dim,
                     size_t lanes);
void OF_ISA(shared_scores)(float *s, const float *q, const float *k, size_t first, size_t n,
                           size_t dim, size_t lanes, float scale);
void OF_ISA(shared_maximum)(float *most, const float *s, const struct kr_seen *seen, size_t n,
                            size_t lanes);
void OF_ISA(shared_weights)(float *s, float *sum, const float *most, const struct kr_seen *seen,
                            size_t n, size_t lanes);
void OF_ISA(shared_accumulate)(float *out, const float *p, const float *v, size_t n, size_t dim,
                               size_t lanes, bool some);

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
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
typedef __m256 vec;
#define VEC  8
#define TILE 4
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
#else
#define VEC  8
#define TILE 4
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
#endif

#endif
