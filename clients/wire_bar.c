/* SPDX-License-Identifier: MIT */
/* `bar` messages: the one thing that strangers send to a daemon, read in place. */
#include "clients/cursor.h"
#include "clients/encoder.h"
#include "clients/wire.h"

#include <float.h>
#include <math.h>
#include <string.h>

const char *const kw_reason_names[KW_REASONS] = {
    "accepted",           "not_a_map", "bad_type",    "missing_key",      "not_finite",
    "price_not_positive", "high_low",  "off_grid",    "future",           "bad_symbol",
    "bad_interval",       "too_large", "not_allowed", "too_many_symbols", "too_old",
};

enum { V, SYM, IV, T, O, H, L, C, VOL, AMT, FIN, SEQ, EP, REV, SYN, N_KEYS };
static const char *const key_names[N_KEYS] = {"v",   "sym", "iv",  "t",   "o",  "h",   "l",  "c",
                                              "vol", "amt", "fin", "seq", "ep", "rev", "syn"};
#define REQUIRED (1u << V | 1u << SYM | 1u << IV | 1u << T | 1u << O | 1u << H | 1u << L | 1u << C)

/* A price, or a volume, in which nil says "missing" and is kept as NaN. */
static bool take_number(const struct kw_item *item, bool optional, double *ret, bool *ret_bad_value)
{
    switch (item->type) {
    case KW_UINT:
        *ret = (double)item->u;
        return true;
    case KW_NEGATIVE:
        *ret = (double)item->negative;
        return true;
    case KW_REAL:
        /* the model reads f32: what is infinite there is no number to it */
        if (!isfinite(item->real) || fabs(item->real) > (double)FLT_MAX)
            *ret_bad_value = true;
        *ret = item->real;
        return true;
    case KW_NIL:
        *ret = NAN;
        return optional;
    default:
        return false;
    }
}

static bool take_bool(const struct kw_item *item, bool *ret)
{
    *ret = item->type == KW_BOOL && item->boolean;
    return item->type == KW_BOOL;
}

static bool take_int64(const struct kw_item *item, int64_t least, int64_t most, int64_t *ret)
{
    int64_t value;

    if (item->type == KW_UINT && item->u <= INT64_MAX)
        value = (int64_t)item->u;
    else if (item->type == KW_NEGATIVE)
        value = item->negative;
    else
        return false;
    if (value < least || value > most)
        return false;
    *ret = value;
    return true;
}

/* What one message said, before it is judged as a whole. */
struct reading {
    unsigned seen; /* bits of the keys above */
    bool bad_type, bad_symbol, bad_interval, not_finite;
};

/* A symbol or interval of the right type but wrong content is a reason of its own. */
static bool take_symbol(const struct kw_item *item, struct kw_bar *bar, struct reading *reading)
{
    if (item->type != KW_STR)
        return false;
    if (kr_symbol_valid(item->bytes, item->n))
        memcpy(bar->symbol, item->bytes, item->n);
    else
        reading->bad_symbol = true;
    return true;
}

static bool take_interval(const struct kw_item *item, struct kw_bar *bar, struct reading *reading)
{
    char text[sizeof(bar->interval.text)] = "";

    if (item->type != KW_STR)
        return false;
    if (item->n < sizeof(text))
        memcpy(text, item->bytes, item->n);
    /* a NUL inside would end the text early: then the lengths differ */
    reading->bad_interval = strlen(text) != item->n || kr_interval_parse(text, &bar->interval) != 0;
    return true;
}

static bool take_value(int key, const struct kw_item *item, struct kw_bar *bar,
                       struct reading *reading)
{
    switch (key) {
    case V:
        return item->type == KW_UINT && item->u == KW_VERSION;
    case SYM:
        return take_symbol(item, bar, reading);
    case IV:
        return take_interval(item, bar, reading);
    case T:
        return take_int64(item, -KW_TIME_MAX, KW_TIME_MAX, &bar->bar.t_ns);
    case O:
    case H:
    case L:
    case C:
        return take_number(item, false, &bar->bar.v[KR_OPEN + key - O], &reading->not_finite);
    case VOL:
    case AMT:
        return take_number(item, true, &bar->bar.v[KR_VOLUME + key - VOL], &reading->not_finite);
    case FIN:
        return take_bool(item, &bar->final);
    case SEQ:
        bar->seq = item->u;
        return bar->has_seq = item->type == KW_UINT;
    case EP:
        bar->ep = item->u;
        return bar->has_ep = item->type == KW_UINT;
    case REV:
        return take_int64(item, 0, INT64_MAX, &bar->bar.rev);
    default: /* SYN */
        return take_bool(item, &bar->bar.synthetic);
    }
}

static int find_key(const struct kw_item *item)
{
    int key = 0;

    while (key < N_KEYS && !kw_is(item, key_names[key]))
        key++;
    return key;
}

/* All pairs of the map, as far as they can be read. Of a key that comes twice the first counts. */
static void read_pairs(struct kw_cursor *cursor, size_t n, struct kw_bar *bar,
                       struct reading *reading)
{
    for (size_t i = 0; i < n && !cursor->bad; i++) {
        struct kw_cursor before = *cursor;
        struct kw_item item = kw_next(cursor);
        int key = find_key(&item);

        if (item.type != KW_STR) {
            *cursor = before;
            kw_skip(cursor, KW_MAX_DEPTH, false);
        }
        before = *cursor;
        kw_skip(cursor, KW_MAX_DEPTH, false);
        if (key == N_KEYS || cursor->bad || reading->seen & 1u << key)
            continue;
        item = kw_next(&before); /* of a container the head, which no key of ours takes */
        if (!take_value(key, &item, bar, reading))
            reading->bad_type = true;
        reading->seen |= 1u << key;
    }
}

/* The message's head, if it says map; an empty message says nothing. */
static bool is_map(const uint8_t *data, size_t n_bytes)
{
    return n_bytes > 0 && ((data[0] & 0xf0) == 0x80 || data[0] == 0xde || data[0] == 0xdf);
}

enum kw_reason kw_judge_columns(double v[KR_COLUMNS])
{
    for (int c = 0; c < KR_COLUMNS; c++)
        if (fabs(v[c]) > (double)FLT_MAX)
            return KW_NOT_FINITE;
    switch (kr_bar_check(v)) {
    case KR_BAR_OK:
        break;
    case KR_BAR_NOT_FINITE:
        return KW_NOT_FINITE;
    case KR_BAR_PRICE_NOT_POSITIVE:
        return KW_PRICE_NOT_POSITIVE;
    case KR_BAR_HIGH_LOW:
        return KW_HIGH_LOW;
    }
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        if (!((float)v[c] > 0))
            return KW_PRICE_NOT_POSITIVE;
    kr_bar_fill(v);
    /* volume times price may leave the range that both are in */
    return v[KR_AMOUNT] > (double)FLT_MAX ? KW_NOT_FINITE : KW_ACCEPTED;
}

enum kw_reason kw_decode_bar(const void *data, size_t n_bytes, struct kw_bar *ret)
{
    struct kw_cursor cursor = kw_cursor(data, n_bytes);
    struct reading reading = {0};
    struct kw_item head;

    memset(ret, 0, sizeof(*ret));
    ret->final = true;
    ret->bar.v[KR_VOLUME] = ret->bar.v[KR_AMOUNT] = NAN;
    if (!is_map(data, n_bytes))
        return KW_NOT_A_MAP;
    head = kw_next(&cursor);
    read_pairs(&cursor, head.n, ret, &reading);
    if (reading.bad_type || kw_check(data, n_bytes, KW_MAX_DEPTH) != 0)
        return KW_BAD_TYPE;
    if (~reading.seen & REQUIRED)
        return KW_MISSING_KEY;
    if (reading.bad_symbol)
        return KW_BAD_SYMBOL;
    if (reading.bad_interval)
        return KW_BAD_INTERVAL;
    if (reading.not_finite)
        return KW_NOT_FINITE;
    return kw_judge_columns(ret->bar.v);
}

int kw_encode_bar(msgpack_sbuffer *out, const struct kw_bar *bar)
{
    const double *v = bar->bar.v;
    bool has_volume = v[KR_VOLUME] >= 0, has_amount = v[KR_AMOUNT] >= 0;
    struct kw_encoder encoder;

    kw_begin(&encoder, out,
             11 + has_volume + has_amount + (size_t)bar->has_seq + (size_t)bar->has_ep);
    kw_put_uint(&encoder, "v", KW_VERSION);
    kw_put_text(&encoder, "sym", bar->symbol);
    kw_put_text(&encoder, "iv", bar->interval.text);
    kw_put_int(&encoder, "t", bar->bar.t_ns);
    kw_put_real(&encoder, "o", v[KR_OPEN]);
    kw_put_real(&encoder, "h", v[KR_HIGH]);
    kw_put_real(&encoder, "l", v[KR_LOW]);
    kw_put_real(&encoder, "c", v[KR_CLOSE]);
    if (has_volume)
        kw_put_real(&encoder, "vol", v[KR_VOLUME]);
    if (has_amount)
        kw_put_real(&encoder, "amt", v[KR_AMOUNT]);
    kw_put_bool(&encoder, "fin", bar->final);
    if (bar->has_seq)
        kw_put_uint(&encoder, "seq", bar->seq);
    if (bar->has_ep)
        kw_put_uint(&encoder, "ep", bar->ep);
    kw_put_int(&encoder, "rev", bar->bar.rev);
    kw_put_bool(&encoder, "syn", bar->bar.synthetic);
    return kw_end(&encoder);
}
