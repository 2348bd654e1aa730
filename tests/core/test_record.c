/* SPDX-License-Identifier: MIT */
#include "core/record.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define MAGIC 0x54455354u

static size_t make(unsigned char *bytes, size_t size)
{
    struct kr_writer writer = kr_record_begin(bytes, size, MAGIC, 3);
    size_t length = 0;

    kr_write_u8(&writer, 0xab);
    kr_write_u32(&writer, 0x01020304);
    kr_write_u64(&writer, 0x1122334455667788);
    kr_write_i64(&writer, -2);
    kr_write_f32(&writer, -1.5f);
    kr_write_f64(&writer, 0x1.921fb54442d18p+1);
    CU_ASSERT_EQUAL_FATAL(kr_record_end(&writer, &length), 0);
    return length;
}

static void crc(void)
{
    CU_ASSERT_EQUAL(kr_crc32("123456789", 9), 0xcbf43926); /* the check value of CRC-32 */
    CU_ASSERT_EQUAL(kr_crc32("", 0), 0);
    CU_ASSERT_EQUAL(kr_crc32("a", 1), 0xe8b7be43);
}

static void layout(void)
{
    static const unsigned char head[] = {
        'T',  'S',  'E',  'T',  3,    0,    0,    0,    0xab, 4,    3,    2,    1,    0x88,
        0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0,    0,    0xc0, 0xbf, 0x18, 0x2d, 0x44, 0x54, 0xfb, 0x21, 0x09, 0x40};
    unsigned char bytes[64];

    CU_ASSERT_EQUAL_FATAL(make(bytes, sizeof(bytes)), sizeof(head) + 4);
    CU_ASSERT_EQUAL(memcmp(bytes, head, sizeof(head)), 0);
}

static void round_trip(void)
{
    unsigned char bytes[64];
    size_t length = make(bytes, sizeof(bytes));
    struct kr_reader reader;

    CU_ASSERT_EQUAL_FATAL(kr_record_open(bytes, length, MAGIC, 3, &reader), 0);
    CU_ASSERT_EQUAL(kr_read_u8(&reader), 0xab);
    CU_ASSERT_EQUAL(kr_read_u32(&reader), 0x01020304);
    CU_ASSERT_EQUAL(kr_read_u64(&reader), 0x1122334455667788);
    CU_ASSERT_EQUAL(kr_read_i64(&reader), -2);
    CU_ASSERT_EQUAL(kr_read_f32(&reader), -1.5f);
    CU_ASSERT_EQUAL(kr_reader_end(&reader), -EBADMSG); /* something is left */
    CU_ASSERT_EQUAL(kr_read_f64(&reader), M_PI);
    CU_ASSERT_EQUAL(kr_reader_end(&reader), 0);
    CU_ASSERT_EQUAL(kr_read_u8(&reader), 0); /* never into the CRC */
    CU_ASSERT_EQUAL(kr_reader_end(&reader), -EBADMSG);
}

static void small_buffers(void)
{
    for (size_t size = 0; size < 13; size++) {
        unsigned char bytes[32];
        struct kr_writer writer;
        size_t length = 99;

        memset(bytes, 0x5a, sizeof(bytes));
        writer = kr_record_begin(bytes, size, MAGIC, 1);
        kr_write_u8(&writer, 1);
        CU_ASSERT_EQUAL(kr_record_end(&writer, &length), -ENOBUFS);
        CU_ASSERT_EQUAL(length, 99);
        for (size_t i = size; i < sizeof(bytes); i++)
            CU_ASSERT_EQUAL(bytes[i], 0x5a);
    }
}

static void damage(void)
{
    unsigned char bytes[64];
    size_t length = make(bytes, sizeof(bytes));
    struct kr_reader reader = {.size = 77};

    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CU_ASSERT_EQUAL(kr_record_open(bytes, length, MAGIC, 3, &reader), -EBADMSG);
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t short_by = 1; short_by <= length; short_by++)
        CU_ASSERT_EQUAL(kr_record_open(bytes, length - short_by, MAGIC, 3, &reader), -EBADMSG);
    CU_ASSERT_EQUAL(kr_record_open(bytes, length, MAGIC + 1, 3, &reader), -EBADMSG);
    CU_ASSERT_EQUAL(kr_record_open(bytes, length, MAGIC, 4, &reader), -EPROTO);
    CU_ASSERT_EQUAL(reader.size, 77);
}

static void ranges(void)
{
    static const double values[5] = {0.5, 2, NAN, -INFINITY, 1};
    static const bool sound[5] = {true, false, false, false, true};

    for (size_t i = 0; i < 5; i++) {
        unsigned char bytes[32];
        struct kr_writer writer = kr_record_begin(bytes, sizeof(bytes), MAGIC, 1);
        struct kr_reader reader;
        size_t length;

        kr_write_f64(&writer, values[i]);
        CU_ASSERT_EQUAL_FATAL(kr_record_end(&writer, &length), 0);
        CU_ASSERT_EQUAL_FATAL(kr_record_open(bytes, length, MAGIC, 1, &reader), 0);
        CU_ASSERT_EQUAL(kr_read_within(&reader, 0.5, 1), sound[i] ? values[i] : 0.5);
        CU_ASSERT_EQUAL(kr_reader_end(&reader), sound[i] ? 0 : -EBADMSG);
    }
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"CRC-32", crc},
        {"layout", layout},
        {"round trip", round_trip},
        {"buffers too small", small_buffers},
        {"damage", damage},
        {"ranges", ranges},
    };

    return kt_main("record", tests, KR_ARRAY_LENGTH(tests));
}
