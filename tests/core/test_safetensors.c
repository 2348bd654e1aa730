/* SPDX-License-Identifier: MIT */
#include "core/safetensors.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PICO "golden/pico/predictor/model.safetensors"

/* A file with this header and n_data bytes 0, 1, 2... behind it. */
static const char *put(const char *header, size_t length, size_t n_data)
{
    const char *path = kt_path("x.safetensors");
    size_t n_bytes = 8 + length + n_data;
    unsigned char *bytes = malloc(n_bytes);
    uint64_t prefix = length;

    memcpy(bytes, &prefix, 8);
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < n_data; i++)
        bytes[8 + length + i] = (unsigned char)i;
    kt_put(path, bytes, n_bytes);
    free(bytes);
    return path;
}

/* Opening must fail with this code and a single line that starts with the path and holds `part`;
 * what the caller has stays untouched. */
static void refused(const char *path, int code, const char *part)
{
    struct kr_safetensors *const sentinel = (struct kr_safetensors *)(uintptr_t)64;
    struct kr_safetensors *file = sentinel;
    struct kr_error error = {""};
    int got = kr_safetensors_open(path, &file, &error);

    KT_CHECK(got == code, "%s: %d, expected %d: %s", part, got, code, error.text);
    KT_CHECK(file == sentinel, "%s: output written", part);
    KT_CHECK(strncmp(error.text, path, strlen(path)) == 0, "no path in: %s", error.text);
    KT_CHECK(strstr(error.text, part) != NULL, "expected ...%s... in: %s", part, error.text);
    KT_CHECK(strchr(error.text, '\n') == NULL, "two lines: %s", error.text);
    CU_ASSERT_EQUAL(kr_safetensors_open(path, &file, NULL), code);
}

static void reads(void)
{
    static const char header[] =
        "{\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
        "\"__metadata__\":{\"k\":\"v\",\"T\":\"1.0\"},"
        "\"a\":{\"shape\":[],\"dtype\":\"I64\",\"data_offsets\":[0,8],\"note\":\"ignored\"},"
        "\"empty\":{\"dtype\":\"BF16\",\"shape\":[3,0,7],\"data_offsets\":[32,32]},"
        "\"c\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,3],\"data_offsets\":[32,35]},"
        "\"d\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[35,37]}}   ";
    const char *path = put(header, sizeof(header) - 1, 37);
    struct kr_safetensors *file = NULL;
    struct kr_error error = {""};
    const struct kr_tensor *tensor;
    const unsigned char *bytes;
    size_t n_bytes;
    int64_t scalar;

    CU_ASSERT_EQUAL_FATAL(kr_safetensors_open(path, &file, &error), 0);
    CU_ASSERT_STRING_EQUAL(kr_safetensors_path(file), path);
    CU_ASSERT_EQUAL(kr_safetensors_count(file), 5);
    CU_ASSERT_STRING_EQUAL(kr_safetensors_at(file, 0)->name, "a");
    CU_ASSERT_STRING_EQUAL(kr_safetensors_at(file, 1)->name, "b");
    CU_ASSERT_STRING_EQUAL(kr_safetensors_at(file, 4)->name, "d");
    CU_ASSERT_PTR_NULL(kr_safetensors_at(file, 5));
    CU_ASSERT_STRING_EQUAL(kr_safetensors_metadata(file, "T"), "1.0");
    CU_ASSERT_PTR_NULL(kr_safetensors_metadata(file, "other"));
    CU_ASSERT_PTR_NULL(kr_safetensors_find(file, "__metadata__"));
    CU_ASSERT_PTR_NULL(kr_safetensors_find(file, "bb"));

    bytes = kr_safetensors_bytes(file, &n_bytes);
    CU_ASSERT_EQUAL(n_bytes, 8 + sizeof(header) - 1 + 37);
    tensor = kr_safetensors_find(file, "b");
    CU_ASSERT_PTR_NOT_NULL_FATAL(tensor);
    CU_ASSERT_EQUAL(tensor->dtype, KR_F32);
    CU_ASSERT_EQUAL(tensor->rank, 2);
    CU_ASSERT_EQUAL(tensor->shape[0], 2);
    CU_ASSERT_EQUAL(tensor->shape[1], 3);
    CU_ASSERT_EQUAL(tensor->n_items, 6);
    CU_ASSERT_EQUAL(tensor->n_bytes, 24);
    CU_ASSERT_PTR_EQUAL(tensor->data, bytes + 8 + sizeof(header) - 1 + 8);

    tensor = kr_safetensors_find(file, "a");
    CU_ASSERT_EQUAL(tensor->rank, 0);
    CU_ASSERT_EQUAL(tensor->n_items, 1);
    CU_ASSERT_EQUAL(kr_tensor_to_i64(tensor, &scalar), 0);
    CU_ASSERT_EQUAL(scalar, 0x0706050403020100);
    tensor = kr_safetensors_find(file, "empty");
    CU_ASSERT_EQUAL(tensor->n_items, 0);
    CU_ASSERT_EQUAL(tensor->dtype, KR_BF16);
    tensor = kr_safetensors_find(file, "c");
    CU_ASSERT_EQUAL(tensor->dtype, KR_OTHER);
    CU_ASSERT_EQUAL(tensor->rank, KR_MAX_RANK);
    CU_ASSERT_EQUAL(tensor->n_bytes, 3);
    CU_ASSERT_EQUAL(kr_safetensors_find(file, "d")->n_bytes, 2);
    kr_safetensors_close(&file);
    CU_ASSERT_PTR_NULL(file);
    kr_safetensors_close(&file);

    /* no tensors at all */
    CU_ASSERT_EQUAL_FATAL(kr_safetensors_open(put("{}", 2, 0), &file, &error), 0);
    CU_ASSERT_EQUAL(kr_safetensors_count(file), 0);
    CU_ASSERT_PTR_NULL(kr_safetensors_find(file, "a"));
    CU_ASSERT_PTR_NULL(kr_safetensors_metadata(file, "a"));
    kr_safetensors_close(&file);
}

/* {"t": <entry>} */
#define T(entry)            "{\"t\":{" entry "}}"
#define F32(shape, offsets) T("\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets)
#define TWO(first, second)                                                                         \
    "{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" first                               \
    "},\"u\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" second "}}"

static void hostile_headers(void)
{
    static const struct {
        const char *header, *part;
    } cases[] = {
        /* not a header */
        {"", "starts with {"},
        {" {}", "starts with {"},
        {"[]", "starts with {"},
        {"{", "expected JSON"},
        {"{}x", "expected JSON"},
        {"{\"t\":}", "expected JSON"},
        {"{\"t\":{},\"t\":{}}", "duplicate"},
        {"{\"a\\u0000b\":{}}", "expected JSON"},
        {"{\"\xff\":{}}", "expected JSON"},
        {"{\"t\n\":{}}", "expected JSON"},
        {"{\"t\\n\":{}}", "t?: expected a dtype"},
        {"{\"t\":[]}", "t: expected a dtype such as F32, found nothing"},
        {"{\"t\":7}", "t: expected a dtype"},
        {"{\"__metadata__\":[]}", "__metadata__: expected an object, found a list of 0"},
        {"{\"__metadata__\":{\"k\":1}}", "__metadata__.k: expected a string, found 1"},
        /* dtypes and shapes */
        {T("\"shape\":[4],\"data_offsets\":[0,16]"), "expected a dtype such as F32, found nothing"},
        {T("\"dtype\":7,\"shape\":[4],\"data_offsets\":[0,16]"),
         "expected a dtype such as F32, found 7"},
        {T("\"dtype\":\"F33\",\"shape\":[4],\"data_offsets\":[0,16]"), "found \"F33\""},
        {T("\"dtype\":\"f32\",\"shape\":[4],\"data_offsets\":[0,16]"), "found \"f32\""},
        {T("\"dtype\":\"F32\",\"data_offsets\":[0,16]"),
         "expected a shape of at most 8, found nothing"},
        {F32("4", "[0,16]"), "expected a shape of at most 8, found 4"},
        {F32("{\"0\":4}", "[0,16]"), "found an object of 1 keys"},
        {F32("[1,1,1,1,1,1,1,1,4]", "[0,16]"), "expected a shape of at most 8, found a list of 9"},
        {F32("[2,-2]", "[0,16]"), "expected a size in shape[1], found -2"},
        {F32("[4.0]", "[0,16]"), "expected a size in shape[0], found 4.0"},
        {F32("[\"4\"]", "[0,16]"), "expected a size in shape[0], found \"4\""},
        {F32("[[4]]", "[0,16]"), "expected a size in shape[0], found a list of 1"},
        {F32("[null]", "[0,16]"), "expected a size in shape[0], found null"},
        {F32("[1e0]", "[0,16]"), "expected a size in shape[0], found 1.0"},
        {F32("[9223372036854775808]", "[0,16]"), "expected JSON, found too big integer"},
        {F32("[1e999]", "[0,16]"), "expected JSON, found real number overflow"},
        {F32("[4294967296,4294967296]", "[0,16]"), "expected a shape that fits"},
        {F32("[4611686018427387904,4]", "[0,16]"), "expected a shape that fits"},
        {F32("[9223372036854775807]", "[0,16]"), "expected whole bytes that fit"},
        /* 2^62 * 4 bytes * 8 bits wraps to 0; 2^61 likewise */
        {F32("[4611686018427387904]", "[0,0]"), "expected whole bytes that fit"},
        {F32("[2305843009213693952]", "[0,0]"), "expected whole bytes that fit"},
        {T("\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,16]"), "expected whole bytes"},
        /* offsets */
        {T("\"dtype\":\"F32\",\"shape\":[4]"), "expected data_offsets [begin, end]"},
        {F32("[4]", "[0]"), "expected data_offsets [begin, end]"},
        {F32("[4]", "[0,16,16]"), "expected data_offsets [begin, end]"},
        {F32("[4]", "16"), "expected data_offsets [begin, end]"},
        {F32("[4]", "[-16,0]"), "expected data_offsets [begin, end], found -16, 0"},
        {F32("[4]", "[0,\"16\"]"), "expected data_offsets [begin, end]"},
        {F32("[4]", "[0.0,16]"), "expected data_offsets [begin, end]"},
        {F32("[4]", "[16,0]"), "inside 16 bytes, found [16, 0]"},
        {F32("[4]", "[4,20]"), "inside 16 bytes, found [4, 20]"},
        {F32("[4]", "[9223372036854775791,9223372036854775807]"), "inside 16 bytes"},
        {F32("[4]", "[0,9223372036854775807]"), "inside 16 bytes"},
        {F32("[3]", "[0,16]"), "expected 12 bytes of data, found 16"},
        {F32("[5]", "[0,16]"), "expected 20 bytes of data, found 16"},
        {F32("[0]", "[0,16]"), "expected 0 bytes of data, found 16"},
        /* tiling of the 16 bytes */
        {"{}", "expected 0 bytes of data, found 16"},
        {F32("[3]", "[0,12]"), "expected 12 bytes of data, found 16"},
        {F32("[3]", "[4,16]"), "expected data from byte 0, found 4 (a hole)"},
        {TWO("[0,4]", "[12,16]"), "u: expected data from byte 4, found 12 (a hole)"},
        {TWO("[12,16]", "[0,4]"), "t: expected data from byte 4, found 12 (a hole)"},
        {TWO("[0,4]", "[2,6]"), "u: expected data from byte 4, found 2 (tensors overlap)"},
        {TWO("[0,4]", "[0,4]"), "u: expected data from byte 4, found 0 (tensors overlap)"},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++)
        refused(put(cases[i].header, strlen(cases[i].header), 16), -EBADMSG, cases[i].part);
    refused(put("{}\0", 3, 0), -EBADMSG, "expected JSON");
    refused(put("\0\0", 2, 0), -EBADMSG, "starts with {");
}

static void header_lengths(void)
{
    static const struct {
        uint64_t length;
        const char *part;
    } cases[] = {
        {UINT64_MAX, "expected a header of at most 10 bytes, found 18446744073709551615"},
        {UINT64_MAX - 7, "expected a header of at most 10 bytes"},
        {UINT64_C(1) << 63, "expected a header of at most 10 bytes"},
        {11, "expected a header of at most 10 bytes, found 11"},
        {0, "starts with {"},
        {1, "expected JSON"},
    };
    const char *path = kt_path("length.safetensors");
    unsigned char bytes[18] = "........{}        ";

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        memcpy(bytes, &cases[i].length, 8);
        kt_put(path, bytes, sizeof(bytes));
        refused(path, -EBADMSG, cases[i].part);
    }
    /* inside of the file, but beyond the format's 100 MB; the file is sparse */
    memcpy(bytes, &(uint64_t){(100 << 20) + 1}, 8);
    kt_put(path, bytes, sizeof(bytes));
    CU_ASSERT_EQUAL_FATAL(truncate(path, 200 << 20), 0);
    refused(path, -EBADMSG, "expected a header of at most 104857600 bytes, found 104857601");
}

/* Small files that would make a tree far larger than themselves, or a deep one. */
static void hostile_nesting(void)
{
    size_t n = 3 << 20;
    char *header = malloc(n);

    memset(header, '[', n);
    memcpy(header, "{\"t\":", 5);
    refused(put(header, 5 + 5000, 0), -EBADMSG, "expected JSON, found maximum parsing depth");
    refused(put(header, n, 0), -EBADMSG, "expected a header of at most 1048576 elements");
    for (size_t i = 5; i < n; i += 3)
        memcpy(header + i, "[],", KR_MIN((size_t)3, n - i));
    header[5] = '[';
    refused(put(header, n, 0), -EBADMSG, "expected a header of at most 1048576 elements");
    free(header);
}

static void not_files(void)
{
    const char *pipe = kt_path("pipe");

    refused(kt_path("none.safetensors"), -ENOENT, "expected a file, found: No such file");
    refused(kt_tmp(), -EBADMSG, "expected a regular file, found a folder");
    CU_ASSERT_EQUAL_FATAL(mkfifo(pipe, 0600), 0);
    refused(pipe, -EBADMSG, "expected a regular file, found a device or pipe");
    refused("/dev/null", -EBADMSG, "expected a regular file");
    kt_put(kt_path("empty"), "", 0);
    refused(kt_path("empty"), -EBADMSG, "expected a header of at least 8 bytes, found 0");
    refused(kt_path("empty/model.safetensors"), -ENOENT, "expected a file");
    kt_put(kt_path("seven"), "1234567", 7);
    refused(kt_path("seven"), -EBADMSG, "expected a header of at least 8 bytes, found 7");
}

static void truncated(void)
{
    const char *path = kt_path("cut.safetensors");
    size_t n_bytes, n_opened = 0;
    char *bytes = kt_get(kt_source(PICO), &n_bytes);
    uint64_t length;

    memcpy(&length, bytes, 8);
    kt_put(path, bytes, n_bytes);
    free(bytes);
    for (size_t n = n_bytes; n-- > 0;) {
        struct kr_safetensors *file = NULL;
        struct kr_error error = {""};
        int code;

        /* every length of the header and of the first and last items, a sample of those between */
        if (n > 8 + length + 64 && n + 64 < n_bytes && n % 997 != 0)
            continue;
        CU_ASSERT_EQUAL_FATAL(truncate(path, (off_t)n), 0);
        code = kr_safetensors_open(path, &file, &error);
        n_opened++;
        if (code != -EBADMSG || file)
            KT_CHECK(false, "%zu bytes: %d %s", n, code, error.text);
    }
    kt_note("%zu lengths", n_opened);
    CU_ASSERT(n_opened > 6000);
}

/* Whatever opens must be consistent. */
static bool consistent(const struct kr_safetensors *file)
{
    size_t n_bytes, sum = 0;
    const unsigned char *bytes = kr_safetensors_bytes(file, &n_bytes);

    for (size_t i = 0; i < kr_safetensors_count(file); i++) {
        const struct kr_tensor *tensor = kr_safetensors_at(file, i);
        const unsigned char *data = tensor->data;
        size_t n_items = 1;

        for (size_t r = 0; r < tensor->rank; r++)
            n_items *= tensor->shape[r];
        if (data < bytes + 8 || data > bytes + n_bytes ||
            tensor->n_bytes > (size_t)(bytes + n_bytes - data) || n_items != tensor->n_items ||
            kr_safetensors_find(file, tensor->name) != tensor)
            return false;
        sum += tensor->n_bytes;
    }
    return sum <= n_bytes;
}

/* Each bit, and each byte as a whole, of the length and the header. */
static void flipped(void)
{
    const char *path = kt_path("flip.safetensors");
    size_t n_bytes, n_valid = 0, n_refused = 0;
    char *bytes = kt_get(kt_source(PICO), &n_bytes);
    uint64_t length;

    memcpy(&length, bytes, 8);
    kt_put(path, bytes, n_bytes);
    for (size_t i = 0; i < 8 + length; i++)
        for (int bit = 0; bit <= 8; bit++) {
            unsigned char mask = bit < 8 ? (unsigned char)(1 << bit) : 0xff;
            unsigned char byte = (unsigned char)bytes[i] ^ mask;
            struct kr_safetensors *file = NULL;
            struct kr_error error = {""};
            int code;

            kt_poke(path, i, byte);
            code = kr_safetensors_open(path, &file, &error);
            if (code == 0)
                n_valid++;
            else
                n_refused++;
            if (code == 0 ? !file || !consistent(file) : code != -EBADMSG || file || !error.text[0])
                KT_CHECK(false, "byte %zu ^ %02x: %d %s", i, mask, code, error.text);
            kr_safetensors_close(&file);
            kt_poke(path, i, (unsigned char)bytes[i]);
        }
    free(bytes);
    kt_note("%zu valid, %zu refused", n_valid, n_refused);
    CU_ASSERT(n_valid > 1000); /* letters of names */
    CU_ASSERT(n_refused > n_valid);
}

static float bits_to_f32(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* All 65,536 values of both half formats, against arithmetic. */
static void halves(void)
{
    static uint16_t all[65536];
    static float wide[65536];
    struct kr_tensor tensor = {
        .dtype = KR_F16, .n_items = 65536, .n_bytes = sizeof(all), .data = all};
    size_t n_wrong = 0, n_nan = 0, n_infinite = 0;

    for (size_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    CU_ASSERT_EQUAL(kr_tensor_to_f32(&tensor, wide), 0);
    for (size_t i = 0; i < 65536; i++) {
        int exponent = (int)(i >> 10 & 31), mantissa = (int)(i & 1023);
        float size = exponent == 0 ? ldexpf((float)mantissa, -24)
                                   : ldexpf((float)(1024 + mantissa), exponent - 25);

        n_nan += isnan(wide[i]) != 0;
        n_infinite += isinf(wide[i]) != 0;
        if (exponent == 31)
            n_wrong += mantissa ? !isnan(wide[i]) : !isinf(wide[i]);
        else
            n_wrong += fabsf(wide[i]) != size;
        n_wrong += (signbit(wide[i]) != 0) != (i >> 15 == 1);
    }
    CU_ASSERT_EQUAL(n_wrong, 0);
    CU_ASSERT_EQUAL(n_nan, 2 * 1023);
    CU_ASSERT_EQUAL(n_infinite, 2);
    CU_ASSERT_EQUAL(wide[0x3c00], 1);
    CU_ASSERT_EQUAL(wide[0x0001], 0x1p-24f);
    CU_ASSERT_EQUAL(wide[0x03ff], 1023 * 0x1p-24f);
    CU_ASSERT_EQUAL(wide[0x0400], 0x1p-14f);
    CU_ASSERT_EQUAL(wide[0xfbff], -65504);

    tensor.dtype = KR_BF16;
    CU_ASSERT_EQUAL(kr_tensor_to_f32(&tensor, wide), 0);
    for (size_t i = 0; i < 65536; i++) {
        float value = bits_to_f32((uint32_t)i << 16);

        n_wrong += isnan(value) ? !isnan(wide[i]) : memcmp(&value, &wide[i], 4) != 0;
    }
    CU_ASSERT_EQUAL(n_wrong, 0);
    CU_ASSERT_EQUAL(wide[0x3f80], 1);
    CU_ASSERT_EQUAL(wide[0x0001], 0x1p-133f);
}

static void conversions(void)
{
    static const double wide[] = {1 + 0x1p-24, 1 + 3 * 0x1p-24, 1 + 0x1p-24 + 0x1p-50,
                                  1e300,       0x1p-149,        -0.0};
    static const float narrow[] = {1, 1 + 4 * 0x1p-24f, 1 + 0x1p-23f, INFINITY, 0x1p-149f, -0.0f};
    static const int32_t integers[] = {INT32_MIN, -1, 7};
    unsigned char unaligned[sizeof(wide) + 1];
    float floats[6];
    int64_t longs[3];
    struct kr_tensor tensor = {.dtype = KR_F64, .n_items = 6, .n_bytes = sizeof(wide)};

    memcpy(unaligned + 1, wide, sizeof(wide));
    tensor.data = unaligned + 1;
    CU_ASSERT_EQUAL(kr_tensor_to_f32(&tensor, floats), 0);
    CU_ASSERT_EQUAL(memcmp(floats, narrow, sizeof(narrow)), 0);
    CU_ASSERT_EQUAL(kr_tensor_to_i64(&tensor, longs), -EINVAL);

    memcpy(unaligned + 1, narrow, sizeof(narrow));
    tensor.dtype = KR_F32;
    tensor.n_bytes = sizeof(narrow);
    memset(floats, 0, sizeof(floats));
    CU_ASSERT_EQUAL(kr_tensor_to_f32(&tensor, floats), 0);
    CU_ASSERT_EQUAL(memcmp(floats, narrow, sizeof(narrow)), 0);

    memcpy(unaligned + 1, integers, sizeof(integers));
    tensor =
        (struct kr_tensor){.dtype = KR_I32, .n_items = 3, .n_bytes = 12, .data = unaligned + 1};
    CU_ASSERT_EQUAL(kr_tensor_to_i64(&tensor, longs), 0);
    CU_ASSERT_EQUAL(longs[0], INT32_MIN);
    CU_ASSERT_EQUAL(longs[1], -1);
    CU_ASSERT_EQUAL(longs[2], 7);
    CU_ASSERT_EQUAL(kr_tensor_to_f32(&tensor, floats), -EINVAL);
    tensor.dtype = KR_OTHER;
    CU_ASSERT_EQUAL(kr_tensor_to_f32(&tensor, floats), -EINVAL);
    CU_ASSERT_EQUAL(kr_tensor_to_i64(&tensor, longs), -EINVAL);

    CU_ASSERT_STRING_EQUAL(kr_dtype_name(KR_BF16), "BF16");
    CU_ASSERT_STRING_EQUAL(kr_dtype_name(KR_I32), "I32");
    CU_ASSERT_EQUAL(kr_dtype_bytes(KR_F64), 8);
    CU_ASSERT_EQUAL(kr_dtype_bytes(KR_F16), 2);
    CU_ASSERT_EQUAL(kr_dtype_bytes(KR_OTHER), 0);
}

static int write_to(const char *path, const struct kr_tensor *tensors, size_t n)
{
    FILE *stream = fopen(path, "we");
    int code = kr_safetensors_write(stream, tensors, n);

    fclose(stream);
    return code;
}

static void writer(void)
{
    static const float odd[5] = {1, -2, 0x1p-149f, 4, 5};
    static const int64_t longs[2] = {INT64_MIN, 3};
    static const uint16_t halves16[3] = {0x3c00, 1, 0x7bff};
    static const double scalar = 0.1;
    static const struct kr_tensor tensors[] = {
        {.name = "paths", .dtype = KR_F32, .rank = 2, .shape = {1, 5}, .data = odd},
        {.name = "t", .dtype = KR_I64, .rank = 1, .shape = {2}, .data = longs},
        {.name = "none", .dtype = KR_I32, .rank = 2, .shape = {0, 4}, .data = NULL},
        {.name = "h \"\xc3\xa9\\\n",
         .dtype = KR_BF16,
         .rank = 3,
         .shape = {1, 3, 1},
         .data = halves16},
        {.name = "x", .dtype = KR_F64, .rank = 0, .data = &scalar},
    };
    static const char start[] =
        "{\"paths\":{\"dtype\":\"F32\",\"shape\":[1,5],\"data_offsets\":[0,20]},"
        "\"t\":{\"dtype\":\"I64\",\"shape\":[2],\"data_offsets\":[20,36]},";
    const char *path = kt_path("written.safetensors");
    struct kr_safetensors *file = NULL;
    struct kr_error error = {""};
    size_t n_bytes;
    char *bytes;
    uint64_t length;

    CU_ASSERT_EQUAL_FATAL(write_to(path, tensors, KR_ARRAY_LENGTH(tensors)), 0);
    CU_ASSERT_EQUAL_FATAL(kr_safetensors_open(path, &file, &error), 0);
    CU_ASSERT_EQUAL_FATAL(kr_safetensors_count(file), 5);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(tensors); i++) {
        const struct kr_tensor *tensor = kr_safetensors_find(file, tensors[i].name);

        CU_ASSERT_PTR_NOT_NULL_FATAL(tensor);
        CU_ASSERT_PTR_EQUAL(tensor, kr_safetensors_at(file, i));
        CU_ASSERT_EQUAL(tensor->dtype, tensors[i].dtype);
        CU_ASSERT_EQUAL(tensor->rank, tensors[i].rank);
        CU_ASSERT_EQUAL(memcmp(tensor->shape, tensors[i].shape, sizeof(tensor->shape)), 0);
        CU_ASSERT(tensor->n_bytes == 0 ||
                  memcmp(tensor->data, tensors[i].data, tensor->n_bytes) == 0);
    }
    kr_safetensors_close(&file);

    bytes = kt_get(path, &n_bytes);
    memcpy(&length, bytes, 8);
    CU_ASSERT_EQUAL(length % 8, 0);
    CU_ASSERT_EQUAL(n_bytes, 8 + length + 20 + 16 + 6 + 8);
    CU_ASSERT_EQUAL(strncmp(bytes + 8, start, strlen(start)), 0);
    free(bytes);

    /* every padding from 0 to 7 */
    for (size_t i = 1; i <= 8; i++) {
        struct kr_tensor named = {.name = &"nnnnnnnn"[8 - i], .dtype = KR_F64, .data = &scalar};

        CU_ASSERT_EQUAL(write_to(path, &named, 1), 0);
        CU_ASSERT_EQUAL_FATAL(kr_safetensors_open(path, &file, &error), 0);
        bytes = (char *)(uintptr_t)kr_safetensors_bytes(file, &n_bytes);
        CU_ASSERT_EQUAL(n_bytes % 8, 0);
        CU_ASSERT_EQUAL(memcmp(bytes + n_bytes - 8, &scalar, 8), 0);
        kr_safetensors_close(&file);
    }
    CU_ASSERT_EQUAL(write_to(path, NULL, 0), 0);
    CU_ASSERT_EQUAL(kr_safetensors_open(path, &file, &error), 0);
    kr_safetensors_close(&file);
}

static void writer_refuses(void)
{
    static const unsigned char byte;
    static char block[1 << 16];
    const char *path = kt_path("refused.safetensors");
    struct kr_tensor tensors[2] = {
        {.name = "a", .dtype = KR_OTHER, .rank = 1, .shape = {1}, .data = &byte}};
    struct kr_tensor large = {
        .name = "a", .dtype = KR_F32, .rank = 1, .shape = {1 << 14}, .data = block};
    FILE *full;

    CU_ASSERT_EQUAL(write_to(path, tensors, 1), -EINVAL);
    tensors[0].dtype = KR_F32;
    tensors[0].shape[0] = 0;
    CU_ASSERT_EQUAL(write_to(path, tensors, 1), 0);
    tensors[1] = tensors[0];
    CU_ASSERT_EQUAL(write_to(path, tensors, 2), -EINVAL); /* the same name twice */
    tensors[1].name = "b";
    CU_ASSERT_EQUAL(write_to(path, tensors, 2), 0);
    tensors[1].name = "__metadata__";
    CU_ASSERT_EQUAL(write_to(path, tensors, 2), -EINVAL);
    tensors[1].name = "\xff";
    CU_ASSERT_EQUAL(write_to(path, tensors, 2), -EINVAL);
    tensors[1].name = "c";
    tensors[1].rank = KR_MAX_RANK + 1;
    CU_ASSERT_EQUAL(write_to(path, tensors, 2), -EINVAL);
    tensors[1].rank = 2;
    tensors[1].shape[0] = tensors[1].shape[1] = SIZE_MAX / 2;
    CU_ASSERT_EQUAL(write_to(path, tensors, 2), -EINVAL);

    full = fopen("/dev/full", "we");
    if (full) {
        CU_ASSERT_EQUAL(kr_safetensors_write(full, &large, 1), -ENOSPC);
        fclose(full);
        full = fopen("/dev/full", "we");
        CU_ASSERT_EQUAL(kr_safetensors_write(full, tensors, 1), -ENOSPC);
        fclose(full);
    }
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"a file of every kind of tensor", reads},
        {"hostile headers", hostile_headers},
        {"header lengths", header_lengths},
        {"hostile nesting", hostile_nesting},
        {"folders, pipes, empty files", not_files},
        {"truncated anywhere", truncated},
        {"every bit of the header flipped", flipped},
        {"every half and bfloat16", halves},
        {"conversions", conversions},
        {"writer round trip", writer},
        {"writer refuses", writer_refuses},
    };

    return kt_main("safetensors", tests, KR_ARRAY_LENGTH(tests));
}
