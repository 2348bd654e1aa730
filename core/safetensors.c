/* SPDX-License-Identifier: MIT */
#include "core/safetensors.h"

#include "core/file.h"
#include "core/json.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensors are little-endian, copied as they are");

#define PREFIX_BYTES     8 /* the header length */
#define MAX_HEADER_BYTES ((size_t)100 << 20)
/* Brackets, braces and commas of a header: bounds what its parsed form takes to some 100 MiB,
 * where the bytes alone would allow gigabytes. A tensor has nine or so. */
#define MAX_HEADER_MARKS ((size_t)1 << 20)
#define METADATA         "__metadata__"

struct kr_safetensors {
    char *path;
    const unsigned char *bytes; /* the mapping */
    size_t n_bytes;
    json_t *header;                   /* owns the names */
    struct kr_tensor *tensors;        /* [n], by offset */
    const struct kr_tensor **by_name; /* [n] */
    size_t n;
};

static const struct {
    const char *name;
    size_t bits;
    enum kr_dtype dtype;
} dtypes[] = {
    {"F64", 64, KR_F64},      {"F32", 32, KR_F32},      {"F16", 16, KR_F16},
    {"BF16", 16, KR_BF16},    {"I64", 64, KR_I64},      {"I32", 32, KR_I32},
    {"BOOL", 8, KR_OTHER},    {"U8", 8, KR_OTHER},      {"I8", 8, KR_OTHER},
    {"U16", 16, KR_OTHER},    {"I16", 16, KR_OTHER},    {"U32", 32, KR_OTHER},
    {"U64", 64, KR_OTHER},    {"C64", 64, KR_OTHER},    {"F8_E4M3", 8, KR_OTHER},
    {"F8_E5M2", 8, KR_OTHER}, {"F8_E8M0", 8, KR_OTHER}, {"F6_E2M3", 6, KR_OTHER},
    {"F6_E3M2", 6, KR_OTHER}, {"F4", 4, KR_OTHER},
};

const char *kr_dtype_name(enum kr_dtype dtype)
{
    for (size_t i = 0; dtype != KR_OTHER && i < KR_ARRAY_LENGTH(dtypes); i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return "another dtype";
}

size_t kr_dtype_bytes(enum kr_dtype dtype)
{
    for (size_t i = 0; dtype != KR_OTHER && i < KR_ARRAY_LENGTH(dtypes); i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].bits / 8;
    return 0;
}

/* One tensor's entry of the header against the `n_data` bytes at `data`. */
static int read_entry(const char *path, const char *name, const json_t *entry,
                      const unsigned char *data, size_t n_data, struct kr_tensor *ret,
                      struct kr_error *error)
{
    const json_t *dtype = json_object_get(entry, "dtype");
    const json_t *shape = json_object_get(entry, "shape");
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const char *dtype_name = json_string_value(dtype);
    struct kr_tensor tensor = {.name = name, .rank = json_array_size(shape), .n_items = 1};
    size_t n_bits, begin, end, d = 0;

    while (dtype_name && d < KR_ARRAY_LENGTH(dtypes) && strcmp(dtypes[d].name, dtype_name) != 0)
        d++;
    if (!dtype_name || d == KR_ARRAY_LENGTH(dtypes))
        return kr_error_set(error, -EBADMSG, "%s: %.80s: expected a dtype such as F32, found %s",
                            path, name, kr_json_describe(dtype).text);
    tensor.dtype = dtypes[d].dtype;

    if (!json_is_array(shape) || tensor.rank > KR_MAX_RANK)
        return kr_error_set(error, -EBADMSG, "%s: %.80s: expected a shape of at most %d, found %s",
                            path, name, KR_MAX_RANK, kr_json_describe(shape).text);
    for (size_t i = 0; i < tensor.rank; i++)
        if (!kr_json_size(json_array_get(shape, i), &tensor.shape[i]))
            return kr_error_set(error, -EBADMSG,
                                "%s: %.80s: expected a size in shape[%zu], found %s", path, name, i,
                                kr_json_describe(json_array_get(shape, i)).text);
    for (size_t i = 0; i < tensor.rank; i++)
        if (!kr_multiply(tensor.n_items, tensor.shape[i], &tensor.n_items))
            return kr_error_set(error, -EBADMSG,
                                "%s: %.80s: expected a shape that fits, found overflow", path,
                                name);
    if (!kr_multiply(tensor.n_items, dtypes[d].bits, &n_bits) || n_bits % 8)
        return kr_error_set(error, -EBADMSG,
                            "%s: %.80s: expected whole bytes that fit, found %zu of %s", path, name,
                            tensor.n_items, dtype_name);
    tensor.n_bytes = n_bits / 8;

    if (json_array_size(offsets) != 2 || !kr_json_size(json_array_get(offsets, 0), &begin) ||
        !kr_json_size(json_array_get(offsets, 1), &end))
        return kr_error_set(
            error, -EBADMSG, "%s: %.80s: expected data_offsets [begin, end], found %s, %s in %s",
            path, name, kr_json_describe(json_array_get(offsets, 0)).text,
            kr_json_describe(json_array_get(offsets, 1)).text, kr_json_describe(offsets).text);
    if (begin > end || end > n_data)
        return kr_error_set(error, -EBADMSG,
                            "%s: %.80s: expected data_offsets inside %zu bytes, found [%zu, %zu]",
                            path, name, n_data, begin, end);
    if (end - begin != tensor.n_bytes)
        return kr_error_set(error, -EBADMSG, "%s: %.80s: expected %zu bytes of data, found %zu",
                            path, name, tensor.n_bytes, end - begin);
    tensor.data = data + begin;
    *ret = tensor;
    return 0;
}

static int check_metadata(const char *path, json_t *metadata, struct kr_error *error)
{
    const char *key;
    json_t *value;

    if (!json_is_object(metadata))
        return kr_error_set(error, -EBADMSG, "%s: %s: expected an object, found %s", path, METADATA,
                            kr_json_describe(metadata).text);
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return kr_error_set(error, -EBADMSG, "%s: %s.%.80s: expected a string, found %s", path,
                                METADATA, key, kr_json_describe(value).text);
    }
    return 0;
}

static int compare_data(const void *a, const void *b)
{
    const struct kr_tensor *left = a, *right = b;

    if (left->data != right->data)
        return left->data < right->data ? -1 : 1;
    if (left->n_bytes != right->n_bytes)
        return left->n_bytes < right->n_bytes ? -1 : 1;
    return strcmp(left->name, right->name);
}

static int compare_names(const void *a, const void *b)
{
    const struct kr_tensor *const *left = a, *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

/* The data of the tensors, in order, must tile the `n_data` bytes at `data`. */
static int check_tiling(const struct kr_safetensors *file, const unsigned char *data, size_t n_data,
                        struct kr_error *error)
{
    size_t at = 0;

    for (size_t i = 0; i < file->n; i++) {
        const struct kr_tensor *tensor = &file->tensors[i];
        size_t begin = (size_t)((const unsigned char *)tensor->data - data);

        if (begin != at)
            return kr_error_set(
                error, -EBADMSG, "%s: %.80s: expected data from byte %zu, found %zu (%s)",
                file->path, tensor->name, at, begin, begin < at ? "tensors overlap" : "a hole");
        at += tensor->n_bytes;
    }
    if (at != n_data)
        return kr_error_set(error, -EBADMSG, "%s: expected %zu bytes of data, found %zu",
                            file->path, at, n_data);
    return 0;
}

/* Fill header, tensors and by_name from the mapping. */
static int read_header(struct kr_safetensors *file, struct kr_error *error)
{
    const char *text = (const char *)file->bytes + PREFIX_BYTES;
    const unsigned char *data;
    uint64_t length;
    size_t n_data, n_marks = 0;
    const char *name;
    json_t *entry;
    int code;

    if (file->n_bytes < PREFIX_BYTES)
        return kr_error_set(error, -EBADMSG,
                            "%s: expected a header of at least %d bytes, found %zu", file->path,
                            PREFIX_BYTES, file->n_bytes);
    memcpy(&length, file->bytes, sizeof(length));
    if (length > file->n_bytes - PREFIX_BYTES || length > MAX_HEADER_BYTES)
        return kr_error_set(
            error, -EBADMSG, "%s: expected a header of at most %zu bytes, found %llu", file->path,
            KR_MIN(file->n_bytes - PREFIX_BYTES, MAX_HEADER_BYTES), (unsigned long long)length);
    if (length == 0 || text[0] != '{')
        return kr_error_set(error, -EBADMSG, "%s: expected a header that starts with {, found none",
                            file->path);
    for (size_t i = 0; i < length; i++)
        n_marks += text[i] == ',' || text[i] == '[' || text[i] == '{';
    if (n_marks > MAX_HEADER_MARKS)
        return kr_error_set(error, -EBADMSG,
                            "%s: expected a header of at most %zu elements, found %zu", file->path,
                            MAX_HEADER_MARKS, n_marks);
    code = kr_json_parse(file->path, text, (size_t)length, &file->header, error);
    if (code < 0)
        return code;

    data = file->bytes + PREFIX_BYTES + length;
    n_data = file->n_bytes - PREFIX_BYTES - (size_t)length;
    file->tensors = kr_alloc(json_object_size(file->header), sizeof(*file->tensors));
    file->by_name = kr_alloc(json_object_size(file->header), sizeof(*file->by_name));
    if (!file->tensors || !file->by_name)
        return kr_error_set(error, -ENOMEM, "%s: no memory for the header", file->path);
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, METADATA) == 0)
            code = check_metadata(file->path, entry, error);
        else
            code =
                read_entry(file->path, name, entry, data, n_data, &file->tensors[file->n++], error);
        if (code < 0)
            return code;
    }
    qsort(file->tensors, file->n, sizeof(*file->tensors), compare_data);
    for (size_t i = 0; i < file->n; i++)
        file->by_name[i] = &file->tensors[i];
    qsort(file->by_name, file->n, sizeof(const struct kr_tensor *), compare_names);
    return check_tiling(file, data, n_data, error);
}

int kr_safetensors_open(const char *path, struct kr_safetensors **ret, struct kr_error *error)
{
    kr_cleanup(kr_safetensors_close) struct kr_safetensors *file = kr_alloc(1, sizeof(*file));
    void *mapping;
    int fd, code;

    if (!file || !(file->path = strdup(path)))
        return kr_error_set(error, -ENOMEM, "%s: no memory", path);
    code = kr_file_open(path, &fd, &file->n_bytes, error);
    if (code < 0)
        return code;
    if (file->n_bytes > 0) {
        mapping = mmap(NULL, file->n_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        code = mapping == MAP_FAILED ? -errno : 0;
        file->bytes = code < 0 ? NULL : mapping;
    }
    close(fd);
    if (code < 0)
        return kr_error_set(error, code, "%s: expected to map %zu bytes, found: %s", path,
                            file->n_bytes, strerror(-code));
    code = read_header(file, error);
    if (code < 0)
        return code;
    *ret = file;
    file = NULL;
    return 0;
}

void kr_safetensors_close(struct kr_safetensors **file)
{
    struct kr_safetensors *f = *file;

    if (!f)
        return;
    if (f->bytes)
        munmap((void *)(uintptr_t)f->bytes, f->n_bytes);
    json_decref(f->header);
    free(f->tensors);
    free(f->by_name);
    free(f->path);
    free(f);
    *file = NULL;
}

const char *kr_safetensors_path(const struct kr_safetensors *file)
{
    return file->path;
}

const void *kr_safetensors_bytes(const struct kr_safetensors *file, size_t *ret_n_bytes)
{
    *ret_n_bytes = file->n_bytes;
    return file->bytes;
}

const char *kr_safetensors_metadata(const struct kr_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, METADATA), key));
}

const struct kr_tensor *kr_safetensors_find(const struct kr_safetensors *file, const char *name)
{
    const struct kr_tensor wanted = {.name = name}, *key = &wanted;
    const struct kr_tensor **found;

    found = bsearch(&key, file->by_name, file->n, sizeof(const struct kr_tensor *), compare_names);
    return found ? *found : NULL;
}

size_t kr_safetensors_count(const struct kr_safetensors *file)
{
    return file->n;
}

const struct kr_tensor *kr_safetensors_at(const struct kr_safetensors *file, size_t index)
{
    return index < file->n ? &file->tensors[index] : NULL;
}

/* IEEE half to single. Exact: every half, subnormals included, is a single. */
static float half_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t exponent = half >> 10 & 0x1fu;
    uint32_t mantissa = half & 0x3ffu;
    uint32_t bits;
    float value;

    if (exponent == 0) { /* zero or subnormal: mantissa * 2^-24 */
        value = (float)mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    if (exponent == 0x1f) /* infinity or nan */
        bits = sign | 0x7f800000u | mantissa << 13;
    else
        bits = sign | (exponent + 112) << 23 | mantissa << 13;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

int kr_tensor_to_f32(const struct kr_tensor *tensor, float *ret)
{
    const unsigned char *data = tensor->data;
    uint16_t half;
    uint32_t bits;
    double wide;

    switch (tensor->dtype) {
    case KR_F32:
        if (tensor->n_bytes)
            memcpy(ret, data, tensor->n_bytes);
        return 0;
    case KR_F64:
        for (size_t i = 0; i < tensor->n_items; i++) {
            memcpy(&wide, data + i * sizeof(wide), sizeof(wide));
            ret[i] = (float)wide;
        }
        return 0;
    case KR_F16:
        for (size_t i = 0; i < tensor->n_items; i++) {
            memcpy(&half, data + i * sizeof(half), sizeof(half));
            ret[i] = half_to_f32(half);
        }
        return 0;
    case KR_BF16: /* the upper half of a single */
        for (size_t i = 0; i < tensor->n_items; i++) {
            memcpy(&half, data + i * sizeof(half), sizeof(half));
            bits = (uint32_t)half << 16;
            memcpy(&ret[i], &bits, sizeof(bits));
        }
        return 0;
    default:
        return -EINVAL;
    }
}

int kr_tensor_to_i64(const struct kr_tensor *tensor, int64_t *ret)
{
    const unsigned char *data = tensor->data;
    int32_t narrow;

    switch (tensor->dtype) {
    case KR_I64:
        if (tensor->n_bytes)
            memcpy(ret, data, tensor->n_bytes);
        return 0;
    case KR_I32:
        for (size_t i = 0; i < tensor->n_items; i++) {
            memcpy(&narrow, data + i * sizeof(narrow), sizeof(narrow));
            ret[i] = narrow;
        }
        return 0;
    default:
        return -EINVAL;
    }
}

/* Bytes of a tensor to be written, from its shape. */
static int size_of(const struct kr_tensor *tensor, size_t *ret)
{
    size_t bytes = kr_dtype_bytes(tensor->dtype);

    if (bytes == 0 || tensor->rank > KR_MAX_RANK)
        return -EINVAL;
    for (size_t i = 0; i < tensor->rank; i++)
        if (!kr_multiply(bytes, tensor->shape[i], &bytes))
            return -EINVAL;
    *ret = bytes;
    return 0;
}

/* {dtype, shape, data_offsets}; NULL without memory. */
static json_t *make_entry(const struct kr_tensor *tensor, size_t begin, size_t end)
{
    json_t *shape = json_array();

    for (size_t i = 0; i < tensor->rank; i++)
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->shape[i])) < 0) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", kr_dtype_name(tensor->dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static int make_header(const struct kr_tensor *tensors, size_t n, char **ret)
{
    json_t *header = json_object();
    size_t begin = 0, n_bytes;
    int code = header ? 0 : -ENOMEM;

    for (size_t i = 0; code == 0 && i < n; i++) {
        size_t end;

        if (!g_utf8_validate(tensors[i].name, -1, NULL) ||
            json_object_get(header, tensors[i].name) || strcmp(tensors[i].name, METADATA) == 0 ||
            size_of(&tensors[i], &n_bytes) < 0 || !kr_add(begin, n_bytes, &end))
            code = -EINVAL;
        else if (json_object_set_new(header, tensors[i].name, make_entry(&tensors[i], begin, end)) <
                 0)
            code = -ENOMEM;
        else
            begin = end;
    }
    if (code == 0) {
        *ret = json_dumps(header, JSON_COMPACT);
        code = *ret ? 0 : -ENOMEM;
    }
    json_decref(header);
    return code;
}

int kr_safetensors_write(void *stdio_stream, const struct kr_tensor *tensors, size_t n)
{
    kr_cleanup(kr_freep) char *header = NULL;
    size_t length, padding, n_bytes;
    uint64_t prefix;
    int code = make_header(tensors, n, &header);

    if (code < 0)
        return code;
    length = strlen(header);
    padding = kr_round_up(length, PREFIX_BYTES) - length;
    prefix = length + padding;
    errno = 0;
    if (fwrite(&prefix, sizeof(prefix), 1, stdio_stream) != 1 ||
        fwrite(header, 1, length, stdio_stream) != length ||
        fprintf(stdio_stream, "%*s", (int)padding, "") < 0)
        return errno ? -errno : -EIO;
    for (size_t i = 0; i < n; i++) {
        if (size_of(&tensors[i], &n_bytes) == 0 && n_bytes > 0 &&
            fwrite(tensors[i].data, 1, n_bytes, stdio_stream) != n_bytes)
            return errno ? -errno : -EIO;
    }
    return fflush(stdio_stream) == 0 ? 0 : -errno;
}
