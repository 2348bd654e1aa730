/* SPDX-License-Identifier: MIT */
#include "tests/allocations.h"

#include <stdatomic.h>

static atomic_size_t n_allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__real_reallocarray(void *p, size_t n, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    n_allocations++;
    return __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    n_allocations++;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
    n_allocations++;
    return __real_realloc(p, size);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    n_allocations++;
    return __real_reallocarray(p, n, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    n_allocations++;
    return __real_aligned_alloc(alignment, size);
}

size_t kt_allocations(void)
{
    return n_allocations;
}
