/* SPDX-License-Identifier: MIT */
#include "clients/json.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <math.h>

#define MAX_DEPTH 16

static json_t *from_value(const msgpack_object *value, unsigned depth);

static json_t *from_text(const char *bytes, size_t n)
{
    json_t *json = json_stringn(n ? bytes : "", n); /* an empty one has no address */
    char *valid;

    if (json)
        return json;
    valid = g_utf8_make_valid(bytes, (gssize)n);
    json = json_string(valid);
    g_free(valid);
    return json;
}

static json_t *from_bytes(const char *bytes, size_t n)
{
    char *text = g_base64_encode((const guchar *)bytes, n);
    json_t *json = json_string(text);

    g_free(text);
    return json;
}

static json_t *from_uint(uint64_t value)
{
    char text[24];

    if (value <= INT64_MAX)
        return json_integer((json_int_t)value);
    snprintf(text, sizeof(text), "%" PRIu64, value);
    return json_string(text);
}

static json_t *from_array(const msgpack_object_array *array, unsigned depth)
{
    json_t *json = json_array();

    for (uint32_t i = 0; json && i < array->size; i++)
        if (json_array_append_new(json, from_value(&array->ptr[i], depth - 1)) != 0) {
            json_decref(json);
            json = NULL;
        }
    return json;
}

/* A key as text; its own JSON text if it is no string. */
static json_t *from_key(const msgpack_object *key, unsigned depth)
{
    json_t *json = from_value(key, depth), *text;
    char *dump;

    if (!json || json_is_string(json))
        return json;
    dump = json_dumps(json, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(json);
    text = dump ? json_string(dump) : NULL;
    free(dump);
    return text;
}

static json_t *from_map(const msgpack_object_map *map, unsigned depth)
{
    json_t *json = json_object();

    for (uint32_t i = 0; json && i < map->size; i++) {
        json_t *key = from_key(&map->ptr[i].key, depth - 1);
        json_t *value = key ? from_value(&map->ptr[i].val, depth - 1) : NULL;

        if (!value || json_object_setn_new(json, json_string_value(key), json_string_length(key),
                                           value) != 0) {
            json_decref(json);
            json = NULL;
        }
        json_decref(key);
    }
    return json;
}

static json_t *from_value(const msgpack_object *value, unsigned depth)
{
    if (depth == 0)
        return NULL;
    switch (value->type) {
    case MSGPACK_OBJECT_BOOLEAN:
        return json_boolean(value->via.boolean);
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        return from_uint(value->via.u64);
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return json_integer(value->via.i64);
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return kj_real(value->via.f64);
    case MSGPACK_OBJECT_STR:
        return from_text(value->via.str.ptr, value->via.str.size);
    case MSGPACK_OBJECT_BIN:
        return from_bytes(value->via.bin.ptr, value->via.bin.size);
    case MSGPACK_OBJECT_EXT:
        return from_bytes(value->via.ext.ptr, value->via.ext.size);
    case MSGPACK_OBJECT_ARRAY:
        return from_array(&value->via.array, depth);
    case MSGPACK_OBJECT_MAP:
        return from_map(&value->via.map, depth);
    case MSGPACK_OBJECT_NIL:
        break;
    }
    return json_null();
}

json_t *kj_real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

json_t *kj_from_msgpack(const msgpack_object *value)
{
    return from_value(value, MAX_DEPTH);
}

int kj_write_line(FILE *stream, const json_t *json)
{
    size_t format = JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(17);

    return json_dumpf(json, stream, format) == 0 && putc('\n', stream) != EOF ? 0 : -EIO;
}

int kj_write_msgpack(FILE *stream, const msgpack_object *value)
{
    json_t *json = kj_from_msgpack(value);
    int code = json ? kj_write_line(stream, json) : -ENOMEM;

    json_decref(json);
    return code;
}
