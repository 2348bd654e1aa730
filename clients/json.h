/* SPDX-License-Identifier: MIT */
/* MessagePack as JSON, for every command that prints it: keys as on the wire, in their order. */
#ifndef KJ_JSON_H
#define KJ_JSON_H

#include "core/base.h"

#include <jansson.h>
#include <msgpack.h>
#include <stdio.h>

/* The value as JSON: binaries and extensions as base64 text, keys that are no strings as their JSON
 * text. Integers stay integers; those beyond the range of int64 (an `ep` or `seed` may be) become
 * decimal text since jansson has none wider. Reals that are not finite become null, text that is no
 * UTF-8 has U+FFFD in its place. Return: a new reference (json_decref()), NULL without memory or
 * beyond 16 levels. */
json_t *kj_from_msgpack(const msgpack_object *value) kr_must_check;

/* A real, or null if it is not finite. Return: a new reference, NULL without memory. */
json_t *kj_real(double value);

/* One line without spaces and its newline; doubles with 17 digits, which read back the same, and a
 * point whatever the locale. Return: 0, or -EIO (the stream fails, or memory does). */
int kj_write_line(FILE *stream, const json_t *json) kr_must_check;

/* Both at once for one message. Return: 0, -ENOMEM, -EIO. */
int kj_write_msgpack(FILE *stream, const msgpack_object *value) kr_must_check;

#endif
