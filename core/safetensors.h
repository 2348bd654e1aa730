/* SPDX-License-Identifier: MIT */
/* Safetensors files: a checked reader over mmap, and a writer.
 *
 * Format: u64 little-endian header length, a JSON header {name: {dtype, shape, data_offsets}},
 * then the data. Nothing of a file is trusted: header length, JSON, dtypes, shapes, products,
 * offsets, overlaps and total size are checked when it is opened; a tensor handed out lies
 * wholly inside the mapping. A file that is truncated by somebody else while it is mapped may
 * still raise SIGBUS. */
#ifndef KR_SAFETENSORS_H
#define KR_SAFETENSORS_H

#include "core/base.h"

enum kr_dtype { KR_F64, KR_F32, KR_F16, KR_BF16, KR_I64, KR_I32, KR_OTHER };
#define KR_MAX_RANK 8

struct kr_tensor {
    const char *name;    /* borrowed from the file object */
    enum kr_dtype dtype; /* KR_OTHER: any other known dtype, kept only for its size */
    size_t rank, shape[KR_MAX_RANK];
    size_t n_items, n_bytes;
    const void *data; /* unaligned, in the mapping */
};

struct kr_safetensors;

/* Return: 0, -ENOENT and other negative errnos of open() and mmap(), -EBADMSG for a file that is
 * not what it claims (a folder among them), -ENOMEM. The error line starts with `path`. */
int kr_safetensors_open(const char *path, struct kr_safetensors **ret,
                        struct kr_error *error) kr_must_check;
void kr_safetensors_close(struct kr_safetensors **file);

const char *kr_safetensors_path(const struct kr_safetensors *file);
/* The whole mapping, for checksums. */
const void *kr_safetensors_bytes(const struct kr_safetensors *file, size_t *ret_n_bytes);
/* A value of `__metadata__`, NULL if absent. Borrowed. */
const char *kr_safetensors_metadata(const struct kr_safetensors *file, const char *key);
/* NULL if absent. Borrowed. */
const struct kr_tensor *kr_safetensors_find(const struct kr_safetensors *file, const char *name);
/* In the order of their data. */
size_t kr_safetensors_count(const struct kr_safetensors *file);
const struct kr_tensor *kr_safetensors_at(const struct kr_safetensors *file, size_t index);

/* Copy with conversion from F32, F16, BF16 or F64 (rounded to nearest even). `ret` holds n_items.
 * Return: 0, or -EINVAL if the dtype is not a float. */
int kr_tensor_to_f32(const struct kr_tensor *tensor, float *ret) kr_must_check;
/* From I64 or I32. */
int kr_tensor_to_i64(const struct kr_tensor *tensor, int64_t *ret) kr_must_check;

const char *kr_dtype_name(enum kr_dtype dtype);
size_t kr_dtype_bytes(enum kr_dtype dtype); /* 0 for KR_OTHER */

/* Write `n` tensors (name, dtype, rank, shape, data; sizes follow from the shape) in the order
 * given to `stdio_stream` and flush it. The header is padded with spaces so that the data start
 * at a multiple of 8 bytes; tensors follow each other without holes, as the format demands.
 * Return: 0, -EINVAL (KR_OTHER, a name that is not UTF-8, occurs twice or is `__metadata__`),
 * -ENOMEM, a negative errno of the stream (some of it may be written). */
int kr_safetensors_write(void *stdio_stream, const struct kr_tensor *tensors,
                         size_t n) kr_must_check;

#endif
