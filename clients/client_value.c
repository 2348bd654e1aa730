/* SPDX-License-Identifier: MIT */
/* Looking into messages: check, unpack, values by key. */
#include "clients/client.h"
#include "clients/wire.h"

#include <errno.h>
#include <math.h>
#include <string.h>

int kronosd_unpack(const void *data, size_t n_bytes, msgpack_unpacked *ret)
{
    size_t offset = 0;

    if (kw_check(data, n_bytes, KRONOSD_DEPTH) != 0)
        return -EBADMSG;
    switch (msgpack_unpack_next(ret, data, n_bytes, &offset)) {
    case MSGPACK_UNPACK_SUCCESS:
        return 0;
    case MSGPACK_UNPACK_NOMEM_ERROR:
        return -ENOMEM;
    default:
        return -EBADMSG;
    }
}

const msgpack_object *kronosd_get(const msgpack_object *map, const char *key)
{
    size_t n = strlen(key);

    if (!map || map->type != MSGPACK_OBJECT_MAP)
        return NULL;
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];

        if (pair->key.type == MSGPACK_OBJECT_STR && pair->key.via.str.size == n &&
            (n == 0 || memcmp(pair->key.via.str.ptr, key, n) == 0))
            return &pair->val;
    }
    return NULL;
}

/* Any number as a double. */
static double real(const msgpack_object *value, double otherwise)
{
    if (!value)
        return otherwise;
    switch (value->type) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        return (double)value->via.u64;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return (double)value->via.i64;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return value->via.f64;
    default:
        return otherwise;
    }
}

double kronosd_get_real(const msgpack_object *map, const char *key, double otherwise)
{
    return real(kronosd_get(map, key), otherwise);
}

int64_t kronosd_get_int(const msgpack_object *map, const char *key, int64_t otherwise)
{
    const msgpack_object *value = kronosd_get(map, key);

    if (value && value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        return value->via.i64;
    if (value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER && value->via.u64 <= INT64_MAX)
        return (int64_t)value->via.u64;
    return otherwise;
}

uint64_t kronosd_get_uint(const msgpack_object *map, const char *key, uint64_t otherwise)
{
    const msgpack_object *value = kronosd_get(map, key);

    return value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? value->via.u64 : otherwise;
}

bool kronosd_get_bool(const msgpack_object *map, const char *key, bool otherwise)
{
    const msgpack_object *value = kronosd_get(map, key);

    return value && value->type == MSGPACK_OBJECT_BOOLEAN ? value->via.boolean : otherwise;
}

bool kronosd_get_string(const msgpack_object *map, const char *key, char *ret, size_t size)
{
    const msgpack_object *value = kronosd_get(map, key);
    size_t n = 0;

    if (value && value->type == MSGPACK_OBJECT_STR) {
        n = KR_MIN((size_t)value->via.str.size, size - 1);
        if (n > 0) /* an empty string has no address */
            memcpy(ret, value->via.str.ptr, n);
    }
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)ret[i] < ' ' || ret[i] == 0x7f)
            ret[i] = '?';
    ret[n] = '\0';
    return value && value->type == MSGPACK_OBJECT_STR;
}

size_t kronosd_length(const msgpack_object *array)
{
    return array && array->type == MSGPACK_OBJECT_ARRAY ? array->via.array.size : 0;
}

double kronosd_at_real(const msgpack_object *array, size_t i)
{
    return i < kronosd_length(array) ? real(&array->via.array.ptr[i], NAN) : NAN;
}
