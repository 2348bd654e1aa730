/* SPDX-License-Identifier: MIT */
/* Parameters of a control request: values at the keys of a map. Each returns 1 with *ret, 0 if the key is
 * absent (or nil), -1 if it holds something else; *ret is untouched then. */
#ifndef KD_ARGS_H
#define KD_ARGS_H

#include "core/base.h"

#include <msgpack.h>

/* Without NULs, terminated; longer ones than size - 1 are not taken. */
int kd_args_string(const msgpack_object *map, const char *key, char *ret, size_t size);
int kd_args_int(const msgpack_object *map, const char *key, int64_t *ret);
int kd_args_uint(const msgpack_object *map, const char *key, uint64_t *ret);
/* Any number, finite. */
int kd_args_real(const msgpack_object *map, const char *key, double *ret);
int kd_args_bool(const msgpack_object *map, const char *key, bool *ret);
/* Borrowed. */
int kd_args_bytes(const msgpack_object *map, const char *key, const char **ret, size_t *ret_n);

#endif
