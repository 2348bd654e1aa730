/* SPDX-License-Identifier: MIT */
/* The loops of meter.h for one instruction set; the makefile compiles this file once for each, with KC_ISA
 * naming it. Twelve independent sums hide the latency of a multiply-add (4 cycles, two a cycle) and fit the
 * registers of every set, so that none is spilled. */
#include "clients/meter.h"

#if defined(__AVX512F__) || (defined(__AVX2__) && defined(__FMA__))
#include <immintrin.h>
#endif

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(a)    #a
#define TEXT(a)     TEXT_(a)

#define SUMS 12
#define EACH_SUM(one)                                                                              \
    one(0) one(1) one(2) one(3) one(4) one(5) one(6) one(7) one(8) one(9) one(10) one(11)

#if defined(__AVX512F__)
typedef float vector __attribute__((vector_size(64)));
#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__AVX2__) && defined(__FMA__)
typedef float vector __attribute__((vector_size(32)));
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#else
typedef float vector __attribute__((vector_size(16)));
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c)) /* fused where the processor always can */
#endif
#define LANES (sizeof(vector) / sizeof(float))

/* The sums stay bounded: s <- s/2 + 1 tends to 2. The factors are read where the compiler cannot know them:
 * it would see that the sum which starts at 2 stays there. */
static double f32(size_t rounds)
{
    vector half = {0}, one = {0}, total = {0};
    volatile float factor = 0.5f, term = 1.0f, kept;

    for (size_t l = 0; l < LANES; l++) {
        half[l] = factor;
        one[l] = term;
    }
#define START(i) vector sum##i = one * (float)(i);
    EACH_SUM(START)
    for (size_t r = 0; r < rounds; r++) {
#define STEP(i) sum##i = MULTIPLY_ADD(sum##i, half, one);
        EACH_SUM(STEP)
        __asm__ volatile(""); /* each round is run */
    }
#define TAKE(i) total += sum##i;
    EACH_SUM(TAKE)
    kept = total[0];
    (void)kept;
    return 2.0 * SUMS * (double)LANES * (double)rounds;
}

#ifdef __AVX512BF16__
static double bf16(size_t rounds)
{
    __m512 total = _mm512_setzero_ps();
    __m512bh pairs = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0x1p-20f), _mm512_set1_ps(0x1p-20f));
    volatile float kept;

#define START_BF16(i) __m512 dots##i = _mm512_set1_ps((float)(i));
    EACH_SUM(START_BF16)
    for (size_t r = 0; r < rounds; r++) {
#define STEP_BF16(i) dots##i = _mm512_dpbf16_ps(dots##i, pairs, pairs);
        EACH_SUM(STEP_BF16)
        __asm__ volatile("");
    }
#define TAKE_BF16(i) total = _mm512_add_ps(total, dots##i);
    EACH_SUM(TAKE_BF16)
    kept = _mm512_cvtss_f32(total);
    (void)kept;
    return 2.0 * SUMS * 32 * (double)rounds;
}
#endif

static float read_all(const float *x, size_t n)
{
    enum { FLOATS = 256, AHEAD = 2048 }; /* of a turn; that are fetched early */
    vector sums[8] = {{0}};
    float total = 0;

    for (size_t i = 0; i + FLOATS <= n; i += FLOATS)
        for (size_t j = 0; j < FLOATS / LANES; j++) {
            __builtin_prefetch(x + i + j * LANES + AHEAD); /* past the end it does nothing */
            sums[j % 8] += *(const vector *)(const void *)(x + i + j * LANES);
        }
    for (size_t j = 0; j < 8; j++)
        for (size_t l = 0; l < LANES; l++)
            total += sums[j][l];
    return total;
}

extern const struct kc_meter JOIN(kc_meter_, KC_ISA);
const struct kc_meter JOIN(kc_meter_, KC_ISA) = {
    .name = TEXT(KC_ISA),
    .f32 = f32,
#ifdef __AVX512BF16__
    .bf16 = bf16,
#endif
    .read = read_all,
};
