/* SPDX-License-Identifier: MIT */
/* Reading MessagePack in place: a bounded cursor with a sticky error.
 *
 * Nothing is allocated and nothing is believed: a declared count or length is held against the
 * bytes that remain (an element takes at least one), so a short message costs little whatever it
 * claims. After the first fault every read gives nil and the cursor stays `bad`: check once at the
 * end. */
#ifndef KW_CURSOR_H
#define KW_CURSOR_H

#include "core/base.h"

struct kw_cursor {
    const uint8_t *at, *end;
    bool bad;
};

enum kw_type {
    KW_NIL,
    KW_BOOL,
    KW_UINT, /* every integer >= 0, however it was packed */
    KW_NEGATIVE,
    KW_REAL, /* float 32 or 64 */
    KW_STR,
    KW_BIN,
    KW_EXT,
    KW_ARRAY,
    KW_MAP
};

/* One value; of an array or a map the head only. */
struct kw_item {
    enum kw_type type;
    union {
        bool boolean;
        uint64_t u; /* KW_UINT */
        int64_t negative;
        double real;
        const char *bytes; /* KW_STR, KW_BIN, KW_EXT: inside the message, not terminated */
    };
    size_t n; /* bytes of the above; elements of an array; pairs of a map */
};

static inline struct kw_cursor kw_cursor(const void *data, size_t n_bytes)
{
    const uint8_t *start =
        data ? data : (const void *)""; /* an empty message may have no address */

    return (struct kw_cursor){start, start + (data ? n_bytes : 0), false};
}

/* The next value, or nil when bad. */
struct kw_item kw_next(struct kw_cursor *cursor);

/* Step over one whole value of at most `max_depth` nested levels (a scalar has none, {} one). Maps
 * of more than KW_MAP_MAX keys, and with `unique` those with two equal strings as keys, are bad. */
#define KW_MAP_MAX 256
void kw_skip(struct kw_cursor *cursor, size_t max_depth, bool unique);

/* Is the item this text? */
bool kw_is(const struct kw_item *item, const char *text);

#endif
