/* SPDX-License-Identifier: MIT */
#include "clients/packed_json.h"

#include "clients/ctl.h"
#include "clients/cursor.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define MAX_DEPTH 16

static void write_escaped(FILE *stream, const char *text, size_t n)
{
    putc('"', stream);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '"' || c == '\\')
            fprintf(stream, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", stream);
        else if (c < 0x20 || c == 0x7f)
            fprintf(stream, "\\u%04x", c);
        else
            putc(c, stream);
    }
    putc('"', stream);
}

static void write_text(FILE *stream, const char *bytes, size_t n)
{
    char *valid;

    if (g_utf8_validate(bytes, (gssize)n, NULL)) {
        write_escaped(stream, bytes, n);
        return;
    }
    valid = g_utf8_make_valid(bytes, (gssize)n);
    write_escaped(stream, valid, strlen(valid));
    g_free(valid);
}

static void write_binary(FILE *stream, const char *bytes, size_t n)
{
    char *text = g_base64_encode((const guchar *)bytes, n);

    fprintf(stream, "\"%s\"", text);
    g_free(text);
}

static void write_real(FILE *stream, double value)
{
    char text[KC_NUMBER_TEXT];

    if (!isfinite(value)) {
        fputs("null", stream);
        return;
    }
    kc_write_number(text, value);
    fputs(text, stream);
    if (!strpbrk(text, ".e"))
        fputs(".0", stream);
}

static void write_value(FILE *stream, struct kw_cursor *cursor, unsigned depth);

static void write_key(FILE *stream, struct kw_cursor *cursor)
{
    struct kw_item key = kw_next(cursor);

    if (key.type == KW_STR)
        write_text(stream, key.bytes, key.n);
    else if (key.type == KW_UINT)
        fprintf(stream, "\"%" PRIu64 "\"", key.u);
    else
        cursor->bad = true; /* no message of the wire has other keys */
    putc(':', stream);
}

static void write_members(FILE *stream, struct kw_cursor *cursor, const struct kw_item *head,
                          unsigned depth)
{
    bool map = head->type == KW_MAP;

    if (depth == 0)
        cursor->bad = true;
    putc(map ? '{' : '[', stream);
    for (size_t i = 0; i < head->n && !cursor->bad; i++) {
        if (i)
            putc(',', stream);
        if (map)
            write_key(stream, cursor);
        write_value(stream, cursor, depth - 1);
    }
    putc(map ? '}' : ']', stream);
}

static void write_value(FILE *stream, struct kw_cursor *cursor, unsigned depth)
{
    struct kw_item item = kw_next(cursor);

    switch (item.type) {
    case KW_NIL:
        fputs("null", stream);
        break;
    case KW_BOOL:
        fputs(item.boolean ? "true" : "false", stream);
        break;
    case KW_UINT:
        fprintf(stream, "%" PRIu64, item.u);
        break;
    case KW_NEGATIVE:
        fprintf(stream, "%" PRId64, item.negative);
        break;
    case KW_REAL:
        write_real(stream, item.real);
        break;
    case KW_STR:
        write_text(stream, item.bytes, item.n);
        break;
    case KW_BIN:
    case KW_EXT:
        write_binary(stream, item.bytes, item.n);
        break;
    case KW_ARRAY:
    case KW_MAP:
        write_members(stream, cursor, &item, depth);
        break;
    }
}

int kc_json_packed(FILE *stream, const void *data, size_t n_bytes)
{
    struct kw_cursor cursor = kw_cursor(data, n_bytes);

    write_value(stream, &cursor, MAX_DEPTH);
    putc('\n', stream);
    if (cursor.bad || cursor.at != cursor.end)
        return -EBADMSG;
    return ferror(stream) ? -EIO : 0;
}

int kc_json_object(FILE *stream, const msgpack_object *value)
{
    msgpack_sbuffer buffer;
    msgpack_packer packer;
    int r;

    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    r = msgpack_pack_object(&packer, *value) == 0 ? kc_json_packed(stream, buffer.data, buffer.size)
                                                  : -ENOMEM;
    msgpack_sbuffer_destroy(&buffer);
    return r;
}
