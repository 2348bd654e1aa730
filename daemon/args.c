/* SPDX-License-Identifier: MIT */
#include "daemon/args.h"

#include <math.h>
#include <string.h>

static const msgpack_object *find(const msgpack_object *map, const char *key)
{
    size_t length = strlen(key);

    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];

        if (pair->key.type == MSGPACK_OBJECT_STR && pair->key.via.str.size == length &&
            memcmp(pair->key.via.str.ptr, key, length) == 0)
            return pair->val.type == MSGPACK_OBJECT_NIL ? NULL : &pair->val;
    }
    return NULL;
}

int kd_args_string(const msgpack_object *map, const char *key, char *ret, size_t size)
{
    const msgpack_object *value = find(map, key);

    if (!value)
        return 0;
    if (value->type != MSGPACK_OBJECT_STR || value->via.str.size >= size ||
        memchr(value->via.str.ptr, '\0', value->via.str.size))
        return -1;
    memcpy(ret, value->via.str.ptr, value->via.str.size);
    ret[value->via.str.size] = '\0';
    return 1;
}

int kd_args_int(const msgpack_object *map, const char *key, int64_t *ret)
{
    const msgpack_object *value = find(map, key);

    if (!value)
        return 0;
    if (value->type == MSGPACK_OBJECT_NEGATIVE_INTEGER)
        *ret = value->via.i64;
    else if (value->type == MSGPACK_OBJECT_POSITIVE_INTEGER && value->via.u64 <= INT64_MAX)
        *ret = (int64_t)value->via.u64;
    else
        return -1;
    return 1;
}

int kd_args_uint(const msgpack_object *map, const char *key, uint64_t *ret)
{
    const msgpack_object *value = find(map, key);

    if (!value)
        return 0;
    if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER)
        return -1;
    *ret = value->via.u64;
    return 1;
}

int kd_args_real(const msgpack_object *map, const char *key, double *ret)
{
    const msgpack_object *value = find(map, key);
    double real;

    if (!value)
        return 0;
    switch (value->type) {
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        real = (double)value->via.u64;
        break;
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        real = (double)value->via.i64;
        break;
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        real = value->via.f64;
        break;
    default:
        return -1;
    }
    if (!isfinite(real))
        return -1;
    *ret = real;
    return 1;
}

int kd_args_bool(const msgpack_object *map, const char *key, bool *ret)
{
    const msgpack_object *value = find(map, key);

    if (!value)
        return 0;
    if (value->type != MSGPACK_OBJECT_BOOLEAN)
        return -1;
    *ret = value->via.boolean;
    return 1;
}

int kd_args_bytes(const msgpack_object *map, const char *key, const char **ret, size_t *ret_n)
{
    const msgpack_object *value = find(map, key);

    if (!value)
        return 0;
    if (value->type != MSGPACK_OBJECT_BIN)
        return -1;
    *ret = value->via.bin.ptr;
    *ret_n = value->via.bin.size;
    return 1;
}
