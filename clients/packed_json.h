/* SPDX-License-Identifier: MIT */
/* MessagePack bytes as JSON text, straight from one to the other: no tree between them, so a long
 * forecast costs no memory beyond its own.
 *
 * Keys and their order are those of the message. Binaries become base64 text, numbers that are not finite
 * null, text that is no UTF-8 has U+FFFD in its place. Integers keep all 64 bits; reals have the shortest
 * text that reads back the same, and always a point or an exponent. */
#ifndef KC_PACKED_JSON_H
#define KC_PACKED_JSON_H

#include "core/base.h"

#include <msgpack.h>
#include <stdio.h>

/* One value on one line, with a newline. Return: 0, -EBADMSG (not exactly one well-formed value; some text
 * may have been written), -EIO (the stream). */
int kc_json_packed(FILE *stream, const void *data, size_t n_bytes) kr_must_check;

/* The same for a value that was unpacked already. Return: also -ENOMEM. */
int kc_json_object(FILE *stream, const msgpack_object *value) kr_must_check;

#endif
