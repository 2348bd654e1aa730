/* SPDX-License-Identifier: MIT */
/* Linked into a kronosd of its own with --wrap: counts what our objects (and msgpack-c's inline functions
 * in them) ask of the allocator, and says so at the end. libzmq, being a shared library, is not counted. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

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

__attribute__((destructor)) static void say(void)
{
    fprintf(stderr, "allocations: %zu\n", n_allocations);
}
