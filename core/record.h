/* SPDX-License-Identifier: MIT */
/* Versioned byte strings for a database: little-endian numbers between a header and a CRC-32.
 *
 * Layout: magic u32, version u32, the fields as written, CRC-32 (IEEE 802.3, reflected) u32 of all
 * that precedes it. The CRC finds damage, not malice: whoever reads fields checks what they mean.
 * Both cursors have a sticky error and are checked once at the end. Plain values, any thread,
 * nothing allocated. */
#ifndef KR_RECORD_H
#define KR_RECORD_H

#include "core/base.h"

/* Bytes beside the fields. */
#define KR_RECORD_FRAME 12

struct kr_writer {
    unsigned char *bytes;
    size_t size, used;
    bool overflow; /* something did not fit: nothing is written behind that */
};

struct kr_reader {
    const unsigned char *bytes;
    size_t size, used; /* of the fields */
    bool failed;       /* read past the end, or kr_reader_expect(): all that follows reads as 0 */
};

uint32_t kr_crc32(const void *bytes, size_t size);

/* Begin a record in bytes [size]. */
struct kr_writer kr_record_begin(void *bytes, size_t size, uint32_t magic, uint32_t version);
void kr_write_u8(struct kr_writer *writer, uint8_t value);
void kr_write_u32(struct kr_writer *writer, uint32_t value);
void kr_write_u64(struct kr_writer *writer, uint64_t value);
void kr_write_i64(struct kr_writer *writer, int64_t value);
void kr_write_f32(struct kr_writer *writer, float value);
void kr_write_f64(struct kr_writer *writer, double value);
/* Append the CRC. Return: 0 with the record's length, or -ENOBUFS (ret untouched). */
int kr_record_end(struct kr_writer *writer, size_t *ret) kr_must_check;

/* Verify a record and stand before its first field.
 * Return: 0, -EBADMSG (too short, other magic, CRC), -EPROTO (sound, but of another version). */
int kr_record_open(const void *bytes, size_t size, uint32_t magic, uint32_t version,
                   struct kr_reader *ret) kr_must_check;
uint8_t kr_read_u8(struct kr_reader *reader);
uint32_t kr_read_u32(struct kr_reader *reader);
uint64_t kr_read_u64(struct kr_reader *reader);
int64_t kr_read_i64(struct kr_reader *reader);
float kr_read_f32(struct kr_reader *reader);
double kr_read_f64(struct kr_reader *reader);
/* A number within [low, high]; anything else, nan too, fails the reader and reads as low. */
double kr_read_within(struct kr_reader *reader, double low, double high);
/* Fail the reader unless `sound`. */
void kr_reader_expect(struct kr_reader *reader, bool sound);
/* Return: 0 if all fields were read, none failed and none is left, otherwise -EBADMSG. */
int kr_reader_end(const struct kr_reader *reader) kr_must_check;

#endif
