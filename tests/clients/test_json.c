/* SPDX-License-Identifier: MIT */
#include "clients/client.h"
#include "clients/json.h"
#include "core/base.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line that the bytes become; for free(). */
static char *line(const char *data, size_t n)
{
    msgpack_unpacked unpacked;
    char *text = NULL;
    size_t size, offset = 0;
    FILE *stream = open_memstream(&text, &size);

    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL_FATAL(msgpack_unpack_next(&unpacked, data, n, &offset), MSGPACK_UNPACK_SUCCESS);
    CU_ASSERT_EQUAL(kj_write_msgpack(stream, &unpacked.data), 0);
    fclose(stream);
    msgpack_unpacked_destroy(&unpacked);
    return text;
}

static void kinds(void)
{
    static const struct {
        const char *data;
        size_t n;
        const char *expected;
    } cases[] = {
#define CASE(bytes, expected) {bytes, sizeof(bytes) - 1, expected "\n"}
        CASE("\xc0", "null"),
        CASE("\xc3", "true"),
        CASE("\xc2", "false"),
        CASE("\x05", "5"),
        CASE("\xff", "-1"),
        CASE("\xcf\x7f\xff\xff\xff\xff\xff\xff\xff", "9223372036854775807"),
        CASE("\xcf\x80\0\0\0\0\0\0\0", "\"9223372036854775808\""),
        CASE("\xcf\xff\xff\xff\xff\xff\xff\xff\xff", "\"18446744073709551615\""),
        CASE("\xd3\x80\0\0\0\0\0\0\0", "-9223372036854775808"),
        CASE("\xcb\x3f\xf8\0\0\0\0\0\0", "1.5"),
        CASE("\xcb\x40\0\0\0\0\0\0\0", "2.0"), /* stays a real */
        CASE("\xca\x3f\xc0\0\0", "1.5"),
        CASE("\xcb\x7f\xf8\0\0\0\0\0\0", "null"),
        CASE("\xcb\xff\xf0\0\0\0\0\0\0", "null"),
        CASE("\xa3"
             "a\"b",
             "\"a\\\"b\""),
        CASE("\xa3"
             "a\0b",
             "\"a\\u0000b\""),
        CASE("\xa2"
             "a\n",
             "\"a\\n\""),
        CASE("\xa3"
             "a\xff"
             "b",
             "\"a\xef\xbf\xbd"
             "b\""),
        CASE("\xa2\xc3\xa4", "\"\xc3\xa4\""),
        CASE("\xa0", "\"\""),
        CASE("\xc4\x04\0\1\2\3", "\"AAECAw==\""),
        CASE("\xc4\x00", "\"\""),
        CASE("\xd5\x05"
             "ab",
             "\"YWI=\""),
        CASE("\x90", "[]"),
        CASE("\x80", "{}"),
        CASE("\x93\x01\x92\x02\x03\xc0", "[1,[2,3],null]"),
        CASE("\x83\xa1z\x01\xa1"
             "a\x81\xa1x\x90\xa1m\x02",
             "{\"z\":1,\"a\":{\"x\":[]},\"m\":2}"),
        CASE("\x82\x05\x01\xc3\x02", "{\"5\":1,\"true\":2}"),
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        char *text = line(cases[i].data, cases[i].n);

        KT_CHECK(strcmp(text, cases[i].expected) == 0, "expected %s# found %s", cases[i].expected,
                 text);
        free(text);
    }
}

/* Every double comes back the same. */
static void doubles(void)
{
    static const double special[] = {0.1,  1.0 / 3, 5e-324,  1.7976931348623157e308,
                                     -0.0, 1e22,    123456.7};
    uint64_t state = 42;
    unsigned wrong = 0;

    for (size_t i = 0; i < 20000; i++) {
        msgpack_object object = {.type = MSGPACK_OBJECT_FLOAT64};
        json_t *json, *back;
        char *text;

        state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
        memcpy(&object.via.f64, &state, sizeof(state));
        if (i < KR_ARRAY_LENGTH(special))
            object.via.f64 = special[i];
        if (!isfinite(object.via.f64))
            continue;
        json = kj_from_msgpack(&object);
        text = json_dumps(json, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
        back = json_loads(text, JSON_DECODE_ANY, NULL);
        {
            double value = json_real_value(back);

            wrong += !json_is_real(back) || memcmp(&value, &object.via.f64, sizeof(value)) != 0;
        }
        json_decref(json);
        json_decref(back);
        free(text);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void depth(void)
{
    char nest[17];
    msgpack_unpacked unpacked;
    size_t offset = 0;
    json_t *json;

    memset(nest, 0x91, sizeof(nest));
    nest[15] = 1;
    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL(msgpack_unpack_next(&unpacked, nest, 16, &offset), MSGPACK_UNPACK_SUCCESS);
    json = kj_from_msgpack(&unpacked.data);
    CU_ASSERT_PTR_NOT_NULL(json);
    json_decref(json);
    nest[15] = (char)0x91;
    nest[16] = 1;
    offset = 0;
    CU_ASSERT_EQUAL(msgpack_unpack_next(&unpacked, nest, 17, &offset), MSGPACK_UNPACK_SUCCESS);
    CU_ASSERT_PTR_NULL(kj_from_msgpack(&unpacked.data));
    msgpack_unpacked_destroy(&unpacked);
}

static void full_disk(void)
{
    msgpack_object object = {.type = MSGPACK_OBJECT_NIL};
    FILE *stream = fopen("/dev/full", "w");

    if (!stream) {
        kt_skip("no /dev/full");
        return;
    }
    setvbuf(stream, NULL, _IONBF, 0);
    CU_ASSERT_EQUAL(kj_write_msgpack(stream, &object), -EIO);
    fclose(stream);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"every kind of value", kinds},
        {"doubles come back the same", doubles},
        {"sixteen levels", depth},
        {"a full disk", full_disk},
    };

    return kt_main("json", tests, KR_ARRAY_LENGTH(tests));
}
