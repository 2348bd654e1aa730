/* SPDX-License-Identifier: MIT */
#include "core/record.h"

#include <errno.h>
#include <string.h>

/* Four bits at a time: records are kilobytes, and a table of 16 words needs no initialisation. */
uint32_t kr_crc32(const void *bytes, size_t size)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    const unsigned char *at = bytes;
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < size; i++) {
        crc = table[(crc ^ at[i]) & 15] ^ crc >> 4;
        crc = table[(crc ^ (uint32_t)at[i] >> 4) & 15] ^ crc >> 4;
    }
    return ~crc;
}

/* Writing */

static void write_low_bytes(struct kr_writer *writer, uint64_t value, size_t n)
{
    if (writer->overflow || writer->size - writer->used < n) {
        writer->overflow = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        writer->bytes[writer->used++] = (unsigned char)(value >> 8 * i);
}

void kr_write_u8(struct kr_writer *writer, uint8_t value)
{
    write_low_bytes(writer, value, 1);
}

void kr_write_u32(struct kr_writer *writer, uint32_t value)
{
    write_low_bytes(writer, value, 4);
}

void kr_write_u64(struct kr_writer *writer, uint64_t value)
{
    write_low_bytes(writer, value, 8);
}

void kr_write_i64(struct kr_writer *writer, int64_t value)
{
    kr_write_u64(writer, (uint64_t)value);
}

void kr_write_f32(struct kr_writer *writer, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    kr_write_u32(writer, bits);
}

void kr_write_f64(struct kr_writer *writer, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    kr_write_u64(writer, bits);
}

struct kr_writer kr_record_begin(void *bytes, size_t size, uint32_t magic, uint32_t version)
{
    struct kr_writer writer = {.bytes = bytes, .size = size};

    kr_write_u32(&writer, magic);
    kr_write_u32(&writer, version);
    return writer;
}

int kr_record_end(struct kr_writer *writer, size_t *ret)
{
    kr_write_u32(writer, kr_crc32(writer->bytes, writer->used));
    if (writer->overflow)
        return -ENOBUFS;
    *ret = writer->used;
    return 0;
}

/* Reading */

static uint64_t read_low_bytes(struct kr_reader *reader, size_t n)
{
    uint64_t value = 0;

    if (reader->failed || reader->size - reader->used < n) {
        reader->failed = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)reader->bytes[reader->used++] << 8 * i;
    return value;
}

uint8_t kr_read_u8(struct kr_reader *reader)
{
    return (uint8_t)read_low_bytes(reader, 1);
}

uint32_t kr_read_u32(struct kr_reader *reader)
{
    return (uint32_t)read_low_bytes(reader, 4);
}

uint64_t kr_read_u64(struct kr_reader *reader)
{
    return read_low_bytes(reader, 8);
}

int64_t kr_read_i64(struct kr_reader *reader)
{
    return (int64_t)kr_read_u64(reader);
}

float kr_read_f32(struct kr_reader *reader)
{
    uint32_t bits = kr_read_u32(reader);
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

double kr_read_f64(struct kr_reader *reader)
{
    uint64_t bits = kr_read_u64(reader);
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

double kr_read_within(struct kr_reader *reader, double low, double high)
{
    double value = kr_read_f64(reader);

    kr_reader_expect(reader, value >= low && value <= high);
    return reader->failed ? low : value;
}

void kr_reader_expect(struct kr_reader *reader, bool sound)
{
    if (!sound)
        reader->failed = true;
}

int kr_reader_end(const struct kr_reader *reader)
{
    return reader->failed || reader->used != reader->size ? -EBADMSG : 0;
}

int kr_record_open(const void *bytes, size_t size, uint32_t magic, uint32_t version,
                   struct kr_reader *ret)
{
    struct kr_reader tail, reader = {.bytes = bytes};

    if (size < KR_RECORD_FRAME)
        return -EBADMSG;
    reader.size = size - 4; /* without the CRC */
    tail = (struct kr_reader){.bytes = bytes, .size = size, .used = size - 4};
    if (kr_read_u32(&reader) != magic || kr_read_u32(&tail) != kr_crc32(bytes, size - 4))
        return -EBADMSG;
    if (kr_read_u32(&reader) != version)
        return -EPROTO;
    *ret = reader;
    return 0;
}
