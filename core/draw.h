/* SPDX-License-Identifier: MIT */
/* Addressed draws: the same bar gives the same uniforms whatever else happens (rules, Numbers).
 *
 * Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), key = low,
 * high 32 bits of (seed XOR fnv1a64("iv|sym")), counter = low32(as_of), high32(as_of), path,
 * 2 step + head.
 *
 * head 2 is the V of the randomised PIT (core/score.h). Its word 2 step + 2 would be that of the
 * next step's s1, so it has a path of its own, KR_DRAW_PIT_PATH, that no path is numbered by: for
 * horizon h (1 is the next bar) the counter is (as_of, KR_DRAW_PIT_PATH, 2 (h - 1) + 2). */
#ifndef KR_DRAW_H
#define KR_DRAW_H

#include "core/base.h"

/* Seed of one stream: seed XOR fnv1a64("<interval>|<symbol>"). */
uint64_t kr_draw_key(uint64_t seed, const char *interval, const char *symbol);

/* Philox4x32-10 itself: the four words of a counter under a key. */
void kr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4]);

/* Uniform in [0, 1): (((u64)w1 << 32 | w0) >> 11) * 2^-53. head 0 draws s1, 1 draws s2. */
double kr_draw(uint64_t key, int64_t as_of_ns, uint32_t path, uint32_t step, uint32_t head);

/* Stratified draws, for less noise in what is averaged over paths: the uniforms of one step and head
 * over n paths fall one into each of n equal strata,
 *     u'_p = (rank_p + u_p) / n,   u_p = kr_draw() of path p,
 * rank_p the rank of words 3 and 2 of the same Philox output among the n paths': a uniform random
 * permutation, independent of u. So each path's uniforms are exactly uniform and independent from
 * step to step, as kr_draw()'s; those of different paths are not independent of each other, and
 * scores that assume it (the fair CRPS) do not hold. Another n is another set of draws.
 * ret [n]; ranks: scratch [n]. */
struct kr_rank {
    uint64_t key;
    uint32_t path;
};
void kr_draw_strata(uint64_t key, int64_t as_of_ns, uint32_t step, uint32_t head, size_t n,
                    struct kr_rank *ranks, double *ret);

#define KR_DRAW_PIT_PATH UINT32_MAX
/* V of the randomised PIT for horizon `step` + 1 of the forecast made behind as_of. */
double kr_draw_pit(uint64_t key, int64_t as_of_ns, uint32_t step);

#endif
