/* SPDX-License-Identifier: MIT */
/* What this machine can do: its f32 and bf16 peak, and how fast it reads memory.
 *
 * The peak is that of fused multiply-adds on registers alone, the widest that processor and build have; bf16
 * that of AMX where the processor has it and the system lends it, else of vdpbf16ps (AVX512_BF16). Memory is read in the order of addresses from buffers on huge pages, larger
 * than what the caches hold where there is room. All threads of a gang work at once; a figure is the whole
 * machine's, of the best of several passes. */
#ifndef KC_METER_H
#define KC_METER_H

#include "clients/gang.h"

/* The loops of one instruction set (meter_isa.c); any thread. */
struct kc_meter {
    const char *name; /* "avx512_bf16", "avx512", "avx2", "generic" */
    /* `rounds` rounds of a loop. Return: the operations that took, a multiplication with addition being
     * two. bf16: NULL where there is none. */
    double (*f32)(size_t rounds);
    double (*bf16)(size_t rounds);
    /* Sum of n floats, a multiple of 256: what matters is that all are read. */
    float (*read)(const float *x, size_t n);
};

/* The best set that this processor runs. */
const struct kc_meter *kc_meter(void);

/* The like of `bf16` on AMX tiles (meter_amx.c); only where kc_meter_has_amx(). */
double kc_meter_amx(size_t rounds);
/* Asks the system for the tiles, for the whole process. */
bool kc_meter_has_amx(void);

/* GFLOP/s of all threads together, best of `passes` of about 5 ms. bf16: of AMX, else of vectors, else 0; and
 * of vectors alone. */
double kc_meter_f32(struct kc_gang *gang, unsigned passes);
double kc_meter_bf16(struct kc_gang *gang, unsigned passes);
double kc_meter_bf16_vector(struct kc_gang *gang, unsigned passes);

/* GB/s (1e9 bytes) of all threads together, best of `passes` over *ret_bytes: twice the outermost cache, 256 MiB
 * to 1 GiB, and at most a quarter of the memory that is free. Return: 0, or -ENOMEM. */
int kc_meter_dram(struct kc_gang *gang, unsigned passes, double *ret_gbps,
                  size_t *ret_bytes) kr_must_check;

#endif
