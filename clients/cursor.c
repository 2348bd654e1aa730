/* SPDX-License-Identifier: MIT */
#include "clients/cursor.h"

#include <string.h>

static size_t remaining(const struct kw_cursor *cursor)
{
    return (size_t)(cursor->end - cursor->at);
}

/* From here on nothing can be read. */
static void fail(struct kw_cursor *cursor)
{
    cursor->bad = true;
    cursor->at = cursor->end;
}

/* A big-endian unsigned number of 1, 2, 4 or 8 bytes; 0 when bad. */
static uint64_t number(struct kw_cursor *cursor, size_t width)
{
    uint64_t value = 0;

    if (width > remaining(cursor)) {
        fail(cursor);
        return 0;
    }
    for (size_t i = 0; i < width; i++)
        value = value << 8 | cursor->at[i];
    cursor->at += width;
    return value;
}

static struct kw_item integer(uint64_t bits, size_t width)
{
    struct kw_item item = {.type = KW_UINT};
    unsigned unused = 64 - 8 * (unsigned)width;
    /* the sign moves to the top and back again */
    int64_t value = (int64_t)(bits << unused) >> unused;

    if (value >= 0) {
        item.u = (uint64_t)value;
    } else {
        item.type = KW_NEGATIVE;
        item.negative = value;
    }
    return item;
}

static struct kw_item real(uint64_t bits, size_t width)
{
    struct kw_item item = {.type = KW_REAL};

    if (width == 4) {
        uint32_t narrow = (uint32_t)bits;
        float value;

        memcpy(&value, &narrow, sizeof(value));
        item.real = (double)value;
    } else {
        memcpy(&item.real, &bits, sizeof(item.real));
    }
    return item;
}

/* A string, binary or extension of n bytes that lie in the message. */
static struct kw_item bytes(struct kw_cursor *cursor, enum kw_type type, uint64_t n)
{
    struct kw_item item = {.type = type};

    if (type == KW_EXT)
        number(cursor, 1); /* its own type, which means nothing to us */
    if (cursor->bad || n > remaining(cursor)) {
        fail(cursor);
        return (struct kw_item){.type = KW_NIL};
    }
    item.bytes = (const char *)cursor->at;
    item.n = (size_t)n;
    cursor->at += n;
    return item;
}

/* The head of n elements (or pairs), each of which takes at least one byte (or two). */
static struct kw_item container(struct kw_cursor *cursor, enum kw_type type, uint64_t n)
{
    if (cursor->bad || n > remaining(cursor) / (type == KW_MAP ? 2 : 1)) {
        fail(cursor);
        return (struct kw_item){.type = KW_NIL};
    }
    return (struct kw_item){.type = type, .n = (size_t)n};
}

struct kw_item kw_next(struct kw_cursor *cursor)
{
    unsigned head = (unsigned)number(cursor, 1);
    struct kw_item item = {.type = KW_NIL};

    if (cursor->bad)
        return item;
    if (head <= 0x7f)
        return integer(head, 8);
    if (head <= 0x8f)
        return container(cursor, KW_MAP, head & 0xf);
    if (head <= 0x9f)
        return container(cursor, KW_ARRAY, head & 0xf);
    if (head <= 0xbf)
        return bytes(cursor, KW_STR, head & 0x1f);
    if (head >= 0xe0)
        return integer(head, 1);
    switch (head) {
    case 0xc0:
        break;
    case 0xc2:
    case 0xc3:
        item.type = KW_BOOL;
        item.boolean = head & 1;
        break;
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return bytes(cursor, KW_BIN, number(cursor, (size_t)1 << (head - 0xc4)));
    case 0xc7:
    case 0xc8:
    case 0xc9:
        return bytes(cursor, KW_EXT, number(cursor, (size_t)1 << (head - 0xc7)));
    case 0xca:
    case 0xcb:
        item = real(number(cursor, (size_t)4 << (head - 0xca)), (size_t)4 << (head - 0xca));
        break;
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        item.type = KW_UINT;
        item.u = number(cursor, (size_t)1 << (head - 0xcc));
        break;
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        item = integer(number(cursor, (size_t)1 << (head - 0xd0)), (size_t)1 << (head - 0xd0));
        break;
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7:
    case 0xd8:
        return bytes(cursor, KW_EXT, (uint64_t)1 << (head - 0xd4));
    case 0xd9:
    case 0xda:
    case 0xdb:
        return bytes(cursor, KW_STR, number(cursor, (size_t)1 << (head - 0xd9)));
    case 0xdc:
    case 0xdd:
        return container(cursor, KW_ARRAY, number(cursor, (size_t)2 << (head - 0xdc)));
    case 0xde:
    case 0xdf:
        return container(cursor, KW_MAP, number(cursor, (size_t)2 << (head - 0xde)));
    default: /* 0xc1 is never used */
        fail(cursor);
    }
    if (cursor->bad)
        item.type = KW_NIL;
    return item;
}

static void skip_map(struct kw_cursor *cursor, size_t n, size_t max_depth, bool unique)
{
    struct {
        const char *bytes;
        size_t n;
    } keys[KW_MAP_MAX];
    size_t n_keys = 0;

    if (n > KW_MAP_MAX)
        fail(cursor);
    for (size_t i = 0; i < n && !cursor->bad; i++) {
        struct kw_cursor before = *cursor;
        struct kw_item key = kw_next(cursor);

        if (key.type != KW_STR) { /* nobody looks it up, but it may be a container */
            *cursor = before;
            kw_skip(cursor, max_depth, unique);
        } else if (unique && !cursor->bad) {
            for (size_t k = 0; k < n_keys; k++)
                if (keys[k].n == key.n && memcmp(keys[k].bytes, key.bytes, key.n) == 0)
                    fail(cursor);
            keys[n_keys].bytes = key.bytes;
            keys[n_keys++].n = key.n;
        }
        kw_skip(cursor, max_depth, unique);
    }
}

void kw_skip(struct kw_cursor *cursor, size_t max_depth, bool unique)
{
    struct kw_item item = kw_next(cursor);

    if (item.type != KW_ARRAY && item.type != KW_MAP)
        return;
    if (max_depth == 0) {
        fail(cursor);
        return;
    }
    if (item.type == KW_MAP) {
        skip_map(cursor, item.n, max_depth - 1, unique);
        return;
    }
    for (size_t i = 0; i < item.n && !cursor->bad; i++)
        kw_skip(cursor, max_depth - 1, unique);
}

bool kw_is(const struct kw_item *item, const char *text)
{
    return item->type == KW_STR && item->n == strlen(text) &&
           memcmp(item->bytes, text, item->n) == 0;
}
