/* SPDX-License-Identifier: MIT */
/* One MessagePack map appended to a buffer: msgpack-c's packer with a sticky error.
 *
 * Between kw_begin() and kw_end() nothing needs checking; when memory ran out kw_end() takes
 * everything back. Keys are ours and never NULL. */
#ifndef KW_ENCODER_H
#define KW_ENCODER_H

#include "core/base.h"

#include <msgpack.h>

struct kw_encoder {
    msgpack_packer packer;
    msgpack_sbuffer *out;
    size_t start;
    bool failed;
};

/* A map of n_keys pairs; the encoder must stay where it is. */
void kw_begin(struct kw_encoder *encoder, msgpack_sbuffer *out, size_t n_keys);
/* Return: 0, or -ENOMEM (out has the length it had). */
int kw_end(struct kw_encoder *encoder);

/* One pair each. Text may be NULL: "". Reals that are not finite become nil. */
void kw_put_bool(struct kw_encoder *encoder, const char *key, bool value);
void kw_put_int(struct kw_encoder *encoder, const char *key, int64_t value);
void kw_put_uint(struct kw_encoder *encoder, const char *key, uint64_t value);
void kw_put_real(struct kw_encoder *encoder, const char *key, double value);
void kw_put_text(struct kw_encoder *encoder, const char *key, const char *value);
void kw_put_ints(struct kw_encoder *encoder, const char *key, const int64_t *values, size_t n);
void kw_put_reals(struct kw_encoder *encoder, const char *key, const double *values, size_t n);
/* values [n_rows][n] as an array of arrays. */
void kw_put_rows(struct kw_encoder *encoder, const char *key, const double *values, size_t n_rows,
                 size_t n);
/* data is never NULL unless n_bytes is 0. */
void kw_put_bytes(struct kw_encoder *encoder, const char *key, const void *data, size_t n_bytes);
/* A value that is MessagePack already: exactly one, well-formed. */
void kw_put_packed(struct kw_encoder *encoder, const char *key, const void *data, size_t n_bytes);
/* A key whose value is a map of n_keys pairs, or an array of n values, that follow. */
void kw_put_map(struct kw_encoder *encoder, const char *key, size_t n_keys);
void kw_put_array(struct kw_encoder *encoder, const char *key, size_t n);
/* Values without a key, for arrays: a text, a truth, a map whose n_keys pairs follow. */
void kw_text(struct kw_encoder *encoder, const char *value);
void kw_bool(struct kw_encoder *encoder, bool value);
void kw_map(struct kw_encoder *encoder, size_t n_keys);

#endif
