/* SPDX-License-Identifier: MIT */
#include "core/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

int kr_error_set(struct kr_error *error, int code, const char *format, ...)
{
    va_list arguments;

    if (!error)
        return code;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    /* Names and paths from hostile files must not break the promise of one line. */
    for (char *c = error->text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return code;
}

void *kr_alloc(size_t count, size_t size)
{
    size_t bytes;
    void *memory;

    if (!kr_multiply(count, size, &bytes) || bytes > SIZE_MAX - KR_ALIGNMENT)
        return NULL;
    bytes = kr_round_up(KR_MAX(bytes, (size_t)1), KR_ALIGNMENT);
    memory = aligned_alloc(KR_ALIGNMENT, bytes);
    if (memory)
        memset(memory, 0, bytes);
    return memory;
}

size_t kr_huge_bytes(size_t size)
{
    if (size > SIZE_MAX - HUGE_PAGE)
        return size; /* nobody has that much */
    return kr_round_up(size, size < HUGE_PAGE ? KR_ALIGNMENT : HUGE_PAGE);
}

void *kr_alloc_huge(size_t size)
{
    void *memory;

    if (size < HUGE_PAGE || size > SIZE_MAX - HUGE_PAGE)
        return kr_alloc(1, size);
    size = kr_huge_bytes(size);
    memory = aligned_alloc(HUGE_PAGE, size);
    if (!memory)
        return NULL;
    (void)madvise(memory, size, MADV_HUGEPAGE); /* a wish: small pages only cost time */
    memset(memory, 0, size);
    return memory;
}

bool kr_multiply(size_t a, size_t b, size_t *ret)
{
    return !__builtin_mul_overflow(a, b, ret);
}

bool kr_add(size_t a, size_t b, size_t *ret)
{
    return !__builtin_add_overflow(a, b, ret);
}

uint64_t kr_fnv1a64(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

void kr_freep(void *p)
{
    void **pointer = p;

    free(*pointer);
    *pointer = NULL;
}
