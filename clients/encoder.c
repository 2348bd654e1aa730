/* SPDX-License-Identifier: MIT */
#include "clients/encoder.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* What msgpack-c calls for each piece. Its own check of the result is per call; ours is kept. */
static int append(void *context, const char *data, size_t n_bytes)
{
    struct kw_encoder *encoder = context;

    if (!encoder->failed && msgpack_sbuffer_write(encoder->out, data, n_bytes) != 0)
        encoder->failed = true;
    return encoder->failed ? -1 : 0;
}

void kw_begin(struct kw_encoder *encoder, msgpack_sbuffer *out, size_t n_keys)
{
    encoder->out = out;
    encoder->start = out->size;
    encoder->failed = false;
    msgpack_packer_init(&encoder->packer, encoder, append);
    msgpack_pack_map(&encoder->packer, n_keys);
}

int kw_end(struct kw_encoder *encoder)
{
    if (!encoder->failed)
        return 0;
    encoder->out->size = encoder->start;
    return -ENOMEM;
}

void kw_bool(struct kw_encoder *encoder, bool value)
{
    if (value)
        msgpack_pack_true(&encoder->packer);
    else
        msgpack_pack_false(&encoder->packer);
}

void kw_text(struct kw_encoder *encoder, const char *value)
{
    size_t n = value ? strlen(value) : 0;

    msgpack_pack_str(&encoder->packer, n);
    msgpack_pack_str_body(&encoder->packer, value ? value : "", n);
}

void kw_put_bool(struct kw_encoder *encoder, const char *key, bool value)
{
    kw_text(encoder, key);
    if (value)
        msgpack_pack_true(&encoder->packer);
    else
        msgpack_pack_false(&encoder->packer);
}

void kw_put_int(struct kw_encoder *encoder, const char *key, int64_t value)
{
    kw_text(encoder, key);
    msgpack_pack_int64(&encoder->packer, value);
}

void kw_put_uint(struct kw_encoder *encoder, const char *key, uint64_t value)
{
    kw_text(encoder, key);
    msgpack_pack_uint64(&encoder->packer, value);
}

static void put_real(struct kw_encoder *encoder, double value)
{
    if (isfinite(value))
        msgpack_pack_double(&encoder->packer, value);
    else
        msgpack_pack_nil(&encoder->packer);
}

void kw_put_real(struct kw_encoder *encoder, const char *key, double value)
{
    kw_text(encoder, key);
    put_real(encoder, value);
}

void kw_put_text(struct kw_encoder *encoder, const char *key, const char *value)
{
    kw_text(encoder, key);
    kw_text(encoder, value);
}

void kw_put_ints(struct kw_encoder *encoder, const char *key, const int64_t *values, size_t n)
{
    kw_put_array(encoder, key, n);
    for (size_t i = 0; i < n; i++)
        msgpack_pack_int64(&encoder->packer, values[i]);
}

void kw_put_reals(struct kw_encoder *encoder, const char *key, const double *values, size_t n)
{
    kw_put_array(encoder, key, n);
    for (size_t i = 0; i < n; i++)
        put_real(encoder, values[i]);
}

void kw_put_rows(struct kw_encoder *encoder, const char *key, const double *values, size_t n_rows,
                 size_t n)
{
    kw_put_array(encoder, key, n_rows);
    for (size_t row = 0; row < n_rows; row++) {
        msgpack_pack_array(&encoder->packer, n);
        for (size_t i = 0; i < n; i++)
            put_real(encoder, values[row * n + i]);
    }
}

void kw_put_bytes(struct kw_encoder *encoder, const char *key, const void *data, size_t n_bytes)
{
    kw_text(encoder, key);
    msgpack_pack_bin(&encoder->packer, n_bytes);
    if (n_bytes)
        msgpack_pack_bin_body(&encoder->packer, data, n_bytes);
}

void kw_put_map(struct kw_encoder *encoder, const char *key, size_t n_keys)
{
    kw_text(encoder, key);
    msgpack_pack_map(&encoder->packer, n_keys);
}

void kw_put_array(struct kw_encoder *encoder, const char *key, size_t n)
{
    kw_text(encoder, key);
    msgpack_pack_array(&encoder->packer, n);
}

void kw_put_packed(struct kw_encoder *encoder, const char *key, const void *data, size_t n_bytes)
{
    kw_text(encoder, key);
    append(encoder, data, n_bytes);
}

void kw_map(struct kw_encoder *encoder, size_t n_keys)
{
    msgpack_pack_map(&encoder->packer, n_keys);
}
