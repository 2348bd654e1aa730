/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "clients/meter.h"

#include "clients/ctl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef KR_X86
#include <cpuid.h>
#include <sys/syscall.h>
#endif

extern const struct kc_meter kc_meter_generic;
#ifdef KR_X86
extern const struct kc_meter kc_meter_avx2, kc_meter_avx512, kc_meter_avx512_bf16;
#endif

const struct kc_meter *kc_meter(void)
{
#ifdef KR_X86
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bf16"))
        return &kc_meter_avx512_bf16;
    if (__builtin_cpu_supports("avx512f"))
        return &kc_meter_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &kc_meter_avx2;
#endif
    return &kc_meter_generic;
}

bool kc_meter_has_amx(void)
{
#ifdef KR_X86
    /* CPUID leaf 7: AMX-BF16, AMX-TILE; arch_prctl(2): ARCH_REQ_XCOMP_PERM for the tiles' state */
    const unsigned bits = 1u << 22 | 1u << 24, request = 0x1023, tile_data = 18;
    unsigned a, b, c, d;

    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & bits) == bits &&
           syscall(SYS_arch_prctl, request, tile_data) == 0;
#else
    return false;
#endif
}

/* Peaks */

#define PASS_SECONDS 0.005

struct peak {
    double (*loop)(size_t rounds);
    size_t rounds;
    double flop; /* of one thread: they all run as many rounds */
};

static void peak_work(void *context, size_t index)
{
    struct peak *peak = context;
    double flop = peak->loop(peak->rounds);

    if (index == 0)
        peak->flop = flop;
}

static double measure_peak(struct kc_gang *gang, double (*loop)(size_t rounds), unsigned passes)
{
    struct peak peak = {.loop = loop, .rounds = 1000};
    double best = 0, seconds;

    if (!loop)
        return 0;
    while ((seconds = kc_gang_run(gang, peak_work, &peak)) < PASS_SECONDS) {
        if (!(peak.flop > 0)) /* a loop that the compiler left empty never takes so long */
            return 0;
        peak.rounds *= 2;
    }
    for (unsigned pass = 0; pass < passes; pass++) {
        seconds = kc_gang_run(gang, peak_work, &peak);
        best = fmax(best, peak.flop * (double)kc_gang_size(gang) / seconds * 1e-9);
    }
    return best;
}

double kc_meter_f32(struct kc_gang *gang, unsigned passes)
{
    return measure_peak(gang, kc_meter()->f32, passes);
}

double kc_meter_bf16(struct kc_gang *gang, unsigned passes)
{
    if (kc_meter_has_amx())
        return measure_peak(gang, kc_meter_amx, passes);
    return kc_meter_bf16_vector(gang, passes);
}

double kc_meter_bf16_vector(struct kc_gang *gang, unsigned passes)
{
    return measure_peak(gang, kc_meter()->bf16, passes);
}

/* Memory */

#define HUGE_PAGE ((size_t)2 << 20)
#define MIB       ((size_t)1 << 20)

struct reading {
    float *memory;
    size_t floats; /* of each thread */
};

/* Pages come from the thread that reads them, so from the memory nearest to it. */
static void fill_work(void *context, size_t index)
{
    struct reading *reading = context;
    float *own = reading->memory + index * reading->floats;

    for (size_t i = 0; i < reading->floats; i++)
        own[i] = 1;
}

static void read_work(void *context, size_t index)
{
    struct reading *reading = context;
    volatile float kept;

    kept = kc_meter()->read(reading->memory + index * reading->floats, reading->floats);
    (void)kept;
}

/* Bytes to be read, so many that hardly any is in a cache still. */
static size_t reading_bytes(void)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE), pages = sysconf(_SC_AVPHYS_PAGES);
    size_t room = (size_t)KR_MAX(pages, 0L) * (size_t)sysconf(_SC_PAGESIZE) / 4;
    size_t wanted = cache > 0 ? 2 * (size_t)cache : 0;

    wanted = KR_MIN(KR_MAX(wanted, 256 * MIB), 1024 * MIB);
    return KR_MAX(KR_MIN(wanted, room), 16 * MIB);
}

int kc_meter_dram(struct kc_gang *gang, unsigned passes, double *ret_gbps, size_t *ret_bytes)
{
    size_t n = kc_gang_size(gang), each = reading_bytes() / n / HUGE_PAGE * HUGE_PAGE;
    struct reading reading;
    double best = INFINITY;

    each = KR_MAX(each, HUGE_PAGE);
    reading.floats = each / sizeof(float);
    reading.memory = aligned_alloc(HUGE_PAGE, n * each);
    if (!reading.memory)
        return -ENOMEM;
    (void)madvise(reading.memory, n * each,
                  MADV_HUGEPAGE); /* refused: the small ones, and slower */
    kc_gang_run(gang, fill_work, &reading);
    for (unsigned pass = 0; pass < passes; pass++)
        best = fmin(best, kc_gang_run(gang, read_work, &reading));
    free(reading.memory);
    *ret_gbps = (double)(n * each) / best * 1e-9;
    *ret_bytes = n * each;
    return 0;
}
