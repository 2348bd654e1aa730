/* SPDX-License-Identifier: MIT */
/* What every file of libkronos uses: attributes, one-line errors, small helpers.
 *
 * Functions that can fail return 0 or a negative errno and write their outputs only on success; a
 * `struct kr_error` beside it, which may be NULL, receives one line for a person. A positive return is
 * a documented outcome. libkronos opens no socket, reads no clock, logs nothing and never exits. */
#ifndef KR_BASE_H
#define KR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define kr_must_check            __attribute__((warn_unused_result))
#define kr_printf(string, first) __attribute__((format(printf, string, first)))
#define kr_cleanup(destructor)   __attribute__((cleanup(destructor)))

#define KR_ARRAY_LENGTH(a) (sizeof(a) / sizeof((a)[0]))
#define KR_MIN(a, b)       ((a) < (b) ? (a) : (b))
#define KR_MAX(a, b)       ((a) > (b) ? (a) : (b))

/* Bytes of the line that the vector kernels and OpenBLAS like their buffers aligned to. */
#define KR_ALIGNMENT 64

/* One line of text: "file: tensor or line: expected ..., found ...". No newline, nor any other control
 * character: kr_error_set() replaces them. The installed clients/client.h, which stands without
 * libkronos, declares the same structure. */
#ifndef KR_ERROR_DEFINED
#define KR_ERROR_DEFINED
struct kr_error {
    char text[512];
};
#endif

/* Write the line, unless `error` is NULL. Return: `code`, so that one can write
 * `return kr_error_set(error, -EINVAL, ...)`. */
int kr_error_set(struct kr_error *error, int code, const char *format, ...) kr_printf(3, 4);

/* Zeroed, KR_ALIGNMENT-aligned memory for `count` items of `size` bytes; free() releases it.
 * Return: NULL if there is none or the product overflows. */
void *kr_alloc(size_t count, size_t size) __attribute__((malloc));

/* The same for what is large and read from end to end again and again, weights and caches: on huge pages
 * where the system lends them. Takes `size` rounded up by kr_huge_bytes(). */
void *kr_alloc_huge(size_t size) __attribute__((malloc));
size_t kr_huge_bytes(size_t size);

/* Grow-only product for size computations: false when a * b (or a + b) does not fit. */
bool kr_multiply(size_t a, size_t b, size_t *ret);
bool kr_add(size_t a, size_t b, size_t *ret);

/* Round up to a multiple of `step` (a power of two). */
static inline size_t kr_round_up(size_t n, size_t step)
{
    return (n + step - 1) & ~(step - 1);
}

/* 64-bit FNV-1a of a string: stream keys ("iv|sym") of draws and of epoch phases (rules). */
uint64_t kr_fnv1a64(const char *text);

/* free(*p); *p = NULL. For kr_cleanup on any pointer from malloc or kr_alloc(). */
void kr_freep(void *p);

#endif
