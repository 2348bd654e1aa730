/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "core/kernels.h"

#include <string.h>

extern const struct kr_kernels kr_kernels_generic;
#ifdef KR_X86
extern const struct kr_kernels kr_kernels_avx2, kr_kernels_avx512;
#endif

const struct kr_kernels *kr_kernels_named(const char *name)
{
#ifdef KR_X86
    __builtin_cpu_init();
    if (strcmp(name, "avx512") == 0 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw"))
        return &kr_kernels_avx512;
    if (strcmp(name, "avx2") == 0 && __builtin_cpu_supports("avx2") &&
        __builtin_cpu_supports("fma"))
        return &kr_kernels_avx2;
#endif
    return strcmp(name, "generic") == 0 ? &kr_kernels_generic : NULL;
}

const struct kr_kernels *kr_kernels(void)
{
    static const char *const names[] = {"avx512", "avx2", "generic"};
    static const struct kr_kernels *chosen; /* racing threads store the same pointer */
    const struct kr_kernels *kernels = __atomic_load_n(&chosen, __ATOMIC_RELAXED);

    for (size_t i = 0; !kernels && i < KR_ARRAY_LENGTH(names); i++)
        kernels = kr_kernels_named(names[i]);
    __atomic_store_n(&chosen, kernels, __ATOMIC_RELAXED);
    return kernels;
}
