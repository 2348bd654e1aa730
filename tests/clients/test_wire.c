/* SPDX-License-Identifier: MIT */
/* The wire: bars in, everything out, and what must never get in. */
#include "clients/client.h"
#include "clients/cursor.h"
#include "clients/wire.h"
#include "tests/tap.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T0 INT64_C(1700000100000000000)

/* One test asks for more memory than there is; without a sanitizer nobody calls this. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* ---- A bar put together from raw bytes ---- */

struct pair {
    const char *key; /* NULL: left out */
    const char *value;
    size_t n;
};
#define RAW(bytes) (bytes), sizeof(bytes) - 1

#define TIME "\xcf\x17\x97\x9c\xd4\xf4\x4e\xf8\x00"

enum { V, SYM, IV, T, O, H, L, C, VOL, AMT, FIN, SEQ, EP, REV, SYN, N_PAIRS };
static const struct pair plain[N_PAIRS] = {
    {"v", RAW("\x01")},
    {"sym", RAW("\xa7"
                "BTCUSDT")},
    {"iv", RAW("\xa2"
               "5m")},
    {"t", RAW(TIME)},
    {"o", RAW("\x64")},
    {"h", RAW("\x6e")},
    {"l", RAW("\x5a")},
    {"c", RAW("\x69")},
    {"vol", RAW("\x0a")},
    {"amt", RAW("\x14")},
    {"fin", RAW("\xc3")},
    {"seq", RAW("\x07")},
    {"ep", RAW("\x09")},
    {"rev", RAW("\x02")},
    {"syn", RAW("\xc3")},
};

struct bytes {
    uint8_t data[512];
    size_t n;
};

static void append(struct bytes *to, const void *data, size_t n)
{
    if (to->n + n > sizeof(to->data))
        abort();
    memcpy(to->data + to->n, data, n);
    to->n += n;
}

static void append_pair(struct bytes *to, const char *key, const char *value, size_t n)
{
    append(to, &(uint8_t){(uint8_t)(0xa0 + strlen(key))}, 1);
    append(to, key, strlen(key));
    append(to, value, n);
}

/* The map of n pairs, those without a key left out. */
static struct bytes build(const struct pair *pairs, size_t n)
{
    struct bytes out = {.n = 3};
    uint16_t count = 0;

    for (size_t i = 0; i < n; i++) {
        if (!pairs[i].key)
            continue;
        append_pair(&out, pairs[i].key, pairs[i].value, pairs[i].n);
        count++;
    }
    out.data[0] = 0xde;
    out.data[1] = (uint8_t)(count >> 8);
    out.data[2] = (uint8_t)count;
    return out;
}

/* The plain bar with one pair replaced (value NULL: left out). */
static struct bytes with(int index, const char *value, size_t n)
{
    struct pair pairs[N_PAIRS];

    memcpy(pairs, plain, sizeof(pairs));
    pairs[index].key = value ? plain[index].key : NULL;
    pairs[index].value = value;
    pairs[index].n = n;
    return build(pairs, N_PAIRS);
}

/* Decode from a block of exactly that size, so that a sanitizer sees a byte too far. */
static enum kw_reason decode(const struct bytes *message, struct kw_bar *ret)
{
    uint8_t *copy = malloc(message->n ? message->n : 1);
    enum kw_reason reason;

    memcpy(copy, message->data, message->n);
    reason = kw_decode_bar(copy, message->n, ret);
    free(copy);
    return reason;
}

static void expect(const struct bytes *message, enum kw_reason reason, const char *what)
{
    struct kw_bar bar;
    enum kw_reason found = decode(message, &bar);

    KT_CHECK(found == reason, "%s: expected %s, found %s", what, kw_reason_names[reason],
             kw_reason_names[found]);
}

/* ---- Bars ---- */

static void decode_every_field(void)
{
    struct bytes message = build(plain, N_PAIRS);
    struct kw_bar bar;

    CU_ASSERT_EQUAL(decode(&message, &bar), KW_ACCEPTED);
    CU_ASSERT_STRING_EQUAL(bar.symbol, "BTCUSDT");
    CU_ASSERT_STRING_EQUAL(bar.interval.text, "5m");
    CU_ASSERT_EQUAL(bar.interval.ns, INT64_C(300000000000));
    CU_ASSERT_EQUAL(bar.bar.t_ns, INT64_C(0x17979cd4f44ef800));
    CU_ASSERT_EQUAL(bar.bar.v[KR_OPEN], 100);
    CU_ASSERT_EQUAL(bar.bar.v[KR_HIGH], 110);
    CU_ASSERT_EQUAL(bar.bar.v[KR_LOW], 90);
    CU_ASSERT_EQUAL(bar.bar.v[KR_CLOSE], 105);
    CU_ASSERT_EQUAL(bar.bar.v[KR_VOLUME], 10);
    CU_ASSERT_EQUAL(bar.bar.v[KR_AMOUNT], 20);
    CU_ASSERT_TRUE(bar.final && bar.has_seq && bar.has_ep && bar.bar.synthetic);
    CU_ASSERT_EQUAL(bar.seq, 7);
    CU_ASSERT_EQUAL(bar.ep, 9);
    CU_ASSERT_EQUAL(bar.bar.rev, 2);
}

static void decode_defaults(void)
{
    struct pair pairs[N_PAIRS];
    struct bytes message;
    struct kw_bar bar;

    memcpy(pairs, plain, sizeof(pairs));
    for (int i = VOL; i < N_PAIRS; i++)
        pairs[i].key = NULL;
    message = build(pairs, N_PAIRS);
    CU_ASSERT_EQUAL(decode(&message, &bar), KW_ACCEPTED);
    CU_ASSERT_EQUAL(bar.bar.v[KR_VOLUME], 0);
    CU_ASSERT_EQUAL(bar.bar.v[KR_AMOUNT], 0);
    CU_ASSERT_TRUE(bar.final);
    CU_ASSERT_FALSE(bar.has_seq || bar.has_ep || bar.bar.synthetic);
    CU_ASSERT_EQUAL(bar.bar.rev, 0);

    pairs[FIN] = (struct pair){"fin", RAW("\xc2")};
    pairs[VOL] = plain[VOL];
    message = build(pairs, N_PAIRS);
    CU_ASSERT_EQUAL(decode(&message, &bar), KW_ACCEPTED);
    CU_ASSERT_FALSE(bar.final);
    CU_ASSERT_EQUAL(bar.bar.v[KR_AMOUNT], 10 * 101.25);
}

static void missing_volume(void)
{
    static const struct {
        int key;
        const char *value;
        size_t n;
        double volume, amount;
    } cases[] = {
        {VOL, RAW("\xc0"), 0, 0},
        {VOL, RAW("\xff"), 0, 0},                     /* -1, as some feeds have it */
        {VOL, RAW("\xcb\xbf\xf0\0\0\0\0\0\0"), 0, 0}, /* -1.0 */
        {AMT, RAW("\xc0"), 10, 1012.5},
        {AMT, RAW("\xd0\x80"), 10, 1012.5},
        {AMT, RAW("\x00"), 10, 0},
    };
    struct kw_bar bar;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct bytes message = with(cases[i].key, cases[i].value, cases[i].n);

        CU_ASSERT_EQUAL(decode(&message, &bar), KW_ACCEPTED);
        CU_ASSERT_EQUAL(bar.bar.v[KR_VOLUME], cases[i].volume);
        CU_ASSERT_EQUAL(bar.bar.v[KR_AMOUNT], cases[i].amount);
    }
}

static void numbers_of_every_width(void)
{
    static const struct {
        const char *value;
        size_t n;
        double expected;
    } opens[] = {
        {RAW("\x64"), 100},
        {RAW("\xcc\x64"), 100},
        {RAW("\xcd\x00\x64"), 100},
        {RAW("\xce\0\0\0\x64"), 100},
        {RAW("\xcf\0\0\0\0\0\0\0\x64"), 100},
        {RAW("\xd0\x64"), 100},
        {RAW("\xd1\x00\x64"), 100},
        {RAW("\xd2\0\0\0\x64"), 100},
        {RAW("\xd3\0\0\0\0\0\0\0\x64"), 100},
        {RAW("\xca\x42\xc8\x80\x00"), 100.25},
        {RAW("\xcb\x40\x59\x10\0\0\0\0\0"), 100.25},
    };
    struct kw_bar bar;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(opens); i++) {
        struct bytes message = with(O, opens[i].value, opens[i].n);

        CU_ASSERT_EQUAL(decode(&message, &bar), KW_ACCEPTED);
        CU_ASSERT_EQUAL(bar.bar.v[KR_OPEN], opens[i].expected);
    }
}

static void times(void)
{
    static const struct {
        const char *value;
        size_t n;
        int64_t expected;
    } good[] = {
        {RAW("\x00"), 0},
        {RAW("\xd3\x17\x97\x9c\xd4\xf4\x4e\xf8\x00"), INT64_C(0x17979cd4f44ef800)},
        {RAW("\xff"), -1},
        {RAW("\xd2\x80\0\0\0"), INT32_MIN},
        {RAW("\xcf\x40\0\0\0\0\0\0\0"), INT64_C(1) << 62},
        {RAW("\xd3\xc0\0\0\0\0\0\0\0"), -(INT64_C(1) << 62)},
    };
    static const struct {
        const char *value;
        size_t n;
    } bad[] = {
        {RAW("\xca\x42\xc8\x80\x00")},
        {RAW("\xcb\x43\xb7\x97\x9c\xd4\xf4\x4e\xf8")},
        {RAW("\xcf\xff\xff\xff\xff\xff\xff\xff\xff")},
        {RAW("\xcf\x40\0\0\0\0\0\0\1")},
        {RAW("\xd3\x80\0\0\0\0\0\0\0")},
        {RAW("\xc0")},
        {RAW("\xa1"
             "0")},
    };
    struct kw_bar bar;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(good); i++) {
        struct bytes message = with(T, good[i].value, good[i].n);

        CU_ASSERT_EQUAL(decode(&message, &bar), KW_ACCEPTED);
        CU_ASSERT_EQUAL(bar.bar.t_ns, good[i].expected);
    }
    for (size_t i = 0; i < KR_ARRAY_LENGTH(bad); i++) {
        struct bytes message = with(T, bad[i].value, bad[i].n);

        expect(&message, KW_BAD_TYPE, "a time");
    }
}

#define NAN64 "\xcb\x7f\xf8\0\0\0\0\0\0"
#define INF64 "\xcb\x7f\xf0\0\0\0\0\0\0"
#define BIG64 "\xcb\x7e\x37\xe4\x3c\x88\0\x75\x9c" /* 1e300 */
#define LONG_SYMBOL                                                                                \
    "\xd9\x21"                                                                                     \
    "012345678901234567890123456789012"

static void reasons(void)
{
    static const struct {
        int key;
        const char *value;
        size_t n;
        enum kw_reason reason;
    } cases[] = {
        {V, NULL, 0, KW_MISSING_KEY},
        {V, RAW("\x02"), KW_BAD_TYPE},
        {V,
         RAW("\xa1"
             "1"),
         KW_BAD_TYPE},
        {V, RAW("\xcb\x3f\xf0\0\0\0\0\0\0"), KW_BAD_TYPE},
        {SYM, NULL, 0, KW_MISSING_KEY},
        {SYM, RAW("\x05"), KW_BAD_TYPE},
        {SYM,
         RAW("\xc4\x01"
             "A"),
         KW_BAD_TYPE},
        {SYM, RAW("\xa0"), KW_BAD_SYMBOL},
        {SYM,
         RAW("\xa3"
             "A|B"),
         KW_BAD_SYMBOL},
        {SYM,
         RAW("\xa3"
             "A B"),
         KW_BAD_SYMBOL},
        {SYM,
         RAW("\xa3"
             "A\0B"),
         KW_BAD_SYMBOL},
        {SYM,
         RAW("\xa3"
             "A\xc3\xa4"),
         KW_BAD_SYMBOL},
        {SYM, RAW(LONG_SYMBOL), KW_BAD_SYMBOL},
        {IV, NULL, 0, KW_MISSING_KEY},
        {IV, RAW("\x05"), KW_BAD_TYPE},
        {IV,
         RAW("\xa2"
             "5M"),
         KW_BAD_INTERVAL},
        {IV,
         RAW("\xa3"
             "5m\0"),
         KW_BAD_INTERVAL},
        {IV, RAW("\xa0"), KW_BAD_INTERVAL},
        {IV,
         RAW("\xa8"
             "0000005m"),
         KW_BAD_INTERVAL},
        {T, NULL, 0, KW_MISSING_KEY},
        {O, NULL, 0, KW_MISSING_KEY},
        {H, NULL, 0, KW_MISSING_KEY},
        {L, NULL, 0, KW_MISSING_KEY},
        {C, NULL, 0, KW_MISSING_KEY},
        {O,
         RAW("\xa3"
             "100"),
         KW_BAD_TYPE}, /* prices as text */
        {O, RAW("\xc0"), KW_BAD_TYPE},
        {O, RAW("\xc3"), KW_BAD_TYPE},
        {O, RAW("\x91\x64"), KW_BAD_TYPE},
        {O, RAW("\x80"), KW_BAD_TYPE},
        {O, RAW("\xd4\x01\x64"), KW_BAD_TYPE},
        {O, RAW(NAN64), KW_NOT_FINITE},
        {H, RAW(INF64), KW_NOT_FINITE},
        {H, RAW(BIG64), KW_NOT_FINITE},
        {VOL, RAW(NAN64), KW_NOT_FINITE},
        {VOL, RAW("\xcb\xff\xf0\0\0\0\0\0\0"), KW_NOT_FINITE},
        {AMT, RAW(INF64), KW_NOT_FINITE},
        {AMT, RAW("\xca\x7f\xc0\0\0"), KW_NOT_FINITE},
        {VOL,
         RAW("\xa1"
             "5"),
         KW_BAD_TYPE},
        {L, RAW("\x00"), KW_PRICE_NOT_POSITIVE},
        {L, RAW("\xff"), KW_PRICE_NOT_POSITIVE},
        {L, RAW("\xcb\x01\0\0\0\0\0\0\0"), KW_PRICE_NOT_POSITIVE}, /* 0 in f32 */
        {H, RAW("\x68"), KW_HIGH_LOW},
        {L, RAW("\x65"), KW_HIGH_LOW},
        {H, RAW("\x69"), KW_ACCEPTED},
        {L, RAW("\x64"), KW_ACCEPTED},
        {FIN, RAW("\x01"), KW_BAD_TYPE},
        {FIN, RAW("\xc0"), KW_BAD_TYPE},
        {SEQ, RAW("\xff"), KW_BAD_TYPE},
        {SEQ, RAW("\xcb\x3f\xf0\0\0\0\0\0\0"), KW_BAD_TYPE},
        {SEQ, RAW("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), KW_ACCEPTED},
        {EP, RAW("\xff"), KW_BAD_TYPE},
        {EP, RAW("\xcf\xff\xff\xff\xff\xff\xff\xff\xff"), KW_ACCEPTED},
        {REV, RAW("\xff"), KW_BAD_TYPE},
        {REV, RAW("\xcf\x80\0\0\0\0\0\0\0"), KW_BAD_TYPE},
        {SYN, RAW("\x00"), KW_BAD_TYPE},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct bytes message = with(cases[i].key, cases[i].value, cases[i].n);
        char what[64];

        snprintf(what, sizeof(what), "case %zu, %s", i, plain[cases[i].key].key);
        expect(&message, cases[i].reason, what);
    }
}

/* A volume times a price that only together leave the range. */
static void derived_amount_overflows(void)
{
    struct bytes message = with(VOL, RAW("\xca\x7f\x7f\xff\xff"));
    struct pair pairs[N_PAIRS];
    struct kw_bar bar;

    CU_ASSERT_EQUAL(decode(&message, &bar), KW_ACCEPTED); /* the amount is given */
    CU_ASSERT_EQUAL(bar.bar.v[KR_VOLUME], (double)FLT_MAX);
    memcpy(pairs, plain, sizeof(pairs));
    pairs[AMT].key = NULL;
    pairs[VOL] = (struct pair){"vol", RAW("\xca\x7f\x7f\xff\xff")};
    message = build(pairs, N_PAIRS);
    expect(&message, KW_NOT_FINITE, "amount derived");
}

/* Not a map, and what only looks like one. */
static void not_a_map(void)
{
    static const struct {
        const char *data;
        size_t n;
        enum kw_reason reason;
    } cases[] = {
        {RAW(""), KW_NOT_A_MAP},
        {RAW("\xc0"), KW_NOT_A_MAP},
        {RAW("\x90"), KW_NOT_A_MAP},
        {RAW("\xc1"), KW_NOT_A_MAP},
        {RAW("hello"), KW_NOT_A_MAP},
        {RAW("\xdd\xff\xff\xff\xff"), KW_NOT_A_MAP},
        {RAW("\x80"), KW_MISSING_KEY},
        {RAW("\x80\x80"), KW_BAD_TYPE},
        {RAW("\x81"), KW_BAD_TYPE},
        {RAW("\xde\x00"), KW_BAD_TYPE},
        {RAW("\xde\x00\x00"), KW_MISSING_KEY},
        {RAW("\xdf\xff\xff\xff\xff"), KW_BAD_TYPE},
        {RAW("\xdf\0\0\0\0"), KW_MISSING_KEY},
    };
    struct kw_bar bar;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct bytes message = {.n = 0};

        append(&message, cases[i].data, cases[i].n);
        expect(&message, cases[i].reason, cases[i].data);
    }
    CU_ASSERT_EQUAL(kw_decode_bar(NULL, 0, &bar), KW_NOT_A_MAP);
}

/* Of several faults the earliest reason of the header's list counts. */
static void first_reason(void)
{
    static const struct pair wrong[] = {
        {"rev", RAW("\xff")},
        {"c", RAW("\x69")}, /* c is needed, so leaving it out shows */
        {"sym", RAW("\xa1"
                    "|")},
        {"iv", RAW("\xa1"
                   "x")},
        {"vol", RAW(NAN64)},
        {"l", RAW("\x00")},
        {"h", RAW("\x01")},
    };
    static const enum kw_reason expected[] = {
        KW_BAD_TYPE,   KW_MISSING_KEY,        KW_BAD_SYMBOL, KW_BAD_INTERVAL,
        KW_NOT_FINITE, KW_PRICE_NOT_POSITIVE, KW_HIGH_LOW,
    };

    for (size_t first = 0; first < KR_ARRAY_LENGTH(wrong); first++) {
        struct pair pairs[N_PAIRS];
        struct bytes message;

        memcpy(pairs, plain, sizeof(pairs));
        for (size_t i = first; i < KR_ARRAY_LENGTH(wrong); i++)
            for (int k = 0; k < N_PAIRS; k++)
                if (strcmp(plain[k].key, wrong[i].key) == 0)
                    pairs[k] = wrong[i];
        if (first <= 1)
            pairs[C].key = NULL;
        message = build(pairs, N_PAIRS);
        expect(&message, expected[first], kw_reason_names[expected[first]]);
    }
}

/* The stream is known as far as it could be read. */
static void stream_of_a_refused_bar(void)
{
    struct bytes message = with(O, RAW("\xc0"));
    struct kw_bar bar;

    CU_ASSERT_EQUAL(decode(&message, &bar), KW_BAD_TYPE);
    CU_ASSERT_STRING_EQUAL(bar.symbol, "BTCUSDT");
    CU_ASSERT_STRING_EQUAL(bar.interval.text, "5m");
    message = build(plain, N_PAIRS);
    message.n = 3 + 3 + 12 + 6 + 11; /* cut behind t */
    CU_ASSERT_EQUAL(decode(&message, &bar), KW_BAD_TYPE);
    CU_ASSERT_STRING_EQUAL(bar.symbol, "BTCUSDT");
    CU_ASSERT_STRING_EQUAL(bar.interval.text, "5m");
    message.data[3 + 3 + 12 + 6 - 1] = 0xc1; /* iv is broken */
    CU_ASSERT_EQUAL(decode(&message, &bar), KW_BAD_TYPE);
    CU_ASSERT_STRING_EQUAL(bar.symbol, "BTCUSDT");
    CU_ASSERT_STRING_EQUAL(bar.interval.text, "");
    message = with(SYM, RAW("\xa1|"));
    CU_ASSERT_EQUAL(decode(&message, &bar), KW_BAD_SYMBOL);
    CU_ASSERT_STRING_EQUAL(bar.symbol, "");
    CU_ASSERT_STRING_EQUAL(bar.interval.text, "5m");
}

static void keys(void)
{
    struct pair pairs[N_PAIRS + 2];
    struct bytes message;
    struct kw_bar bar;
    static const struct pair unknown[] = {
        {"x", RAW("\xc0")},
        {"symbol", RAW("\xa1"
                       "Z")},
        {"T", RAW("\xca\x7f\xc0\0\0")}, /* a nan that nobody reads */
        {"x", RAW("\x93\x91\x91\x01\x80\x82\xa1"
                  "a\x01\xa1"
                  "b\x02")},
        {"x", RAW("\xc7\x03\x05"
                  "abc")},
        {"x", RAW("\xd8\x05"
                  "0123456789abcdef")},
        {"x", RAW("\xc5\x00\x02"
                  "ab")},
        {"x", RAW("\xdc\x00\x01\xc2")},
    };
    static const struct pair twice[] = {
        {"o", RAW("\x64")}, /* a known key, the same value again */
        {"x", RAW("\x01")}, /* an unknown one, after the first below */
    };

    memcpy(pairs, plain, sizeof(plain));
    pairs[N_PAIRS + 1].key = NULL;
    for (size_t i = 0; i < KR_ARRAY_LENGTH(unknown); i++) {
        pairs[N_PAIRS] = unknown[i];
        message = build(pairs, N_PAIRS + 1);
        expect(&message, KW_ACCEPTED, unknown[i].key);
    }
    for (size_t i = 0; i < KR_ARRAY_LENGTH(twice); i++) {
        pairs[N_PAIRS] = twice[i];
        pairs[N_PAIRS + 1] = twice[i];
        message = build(pairs, N_PAIRS + 2);
        expect(&message, KW_BAD_TYPE, "twice");
    }
    /* of a doubled symbol the first names the stream, whole */
    pairs[N_PAIRS] = (struct pair){"sym", RAW("\xa3"
                                              "ETH")};
    message = build(pairs, N_PAIRS + 1);
    CU_ASSERT_EQUAL(decode(&message, &bar), KW_BAD_TYPE);
    CU_ASSERT_STRING_EQUAL(bar.symbol, "BTCUSDT");
    /* the same key in a longer spelling is the same key */
    message = build(plain, N_PAIRS);
    message.data[2]++;
    append(&message, "\xd9\x01o\x64", 4);
    expect(&message, KW_BAD_TYPE, "twice, str 8");
    /* twice inside a value */
    pairs[N_PAIRS] = (struct pair){"x", RAW("\x82\xa1"
                                            "a\x01\xa1"
                                            "a\x02")};
    message = build(pairs, N_PAIRS + 1);
    expect(&message, KW_BAD_TYPE, "twice, inside");
    /* keys that are no text are nobody's */
    message = build(plain, N_PAIRS);
    message.data[2]++;
    append(&message, "\x91\x05\x64", 3);
    expect(&message, KW_ACCEPTED, "an array as a key");
    /* four levels are allowed, the bar's own map being the first */
    pairs[N_PAIRS] = (struct pair){"x", RAW("\x91\x91\x91\x01")};
    message = build(pairs, N_PAIRS + 1);
    expect(&message, KW_ACCEPTED, "depth 4");
    pairs[N_PAIRS] = (struct pair){"x", RAW("\x91\x91\x91\x91\x01")};
    message = build(pairs, N_PAIRS + 1);
    expect(&message, KW_BAD_TYPE, "depth 5");
}

static void bar_round_trip(void)
{
    struct kw_bar bar = {
        .symbol = "0123456789ABCDEF0123456789abcdef",
        .interval = {"15m", INT64_C(900000000000)},
        .bar = {.t_ns = -T0, .v = {1e-7, 0.5, 1e-8, 0.1, 3.25, 1e9}, .synthetic = true, .rev = 3},
        .final = false,
        .has_seq = true,
        .has_ep = true,
        .seq = UINT64_MAX,
        .ep = UINT64_MAX - 1,
    };
    struct kw_bar back;
    msgpack_sbuffer out;

    msgpack_sbuffer_init(&out);
    CU_ASSERT_EQUAL(kw_encode_bar(&out, &bar), 0);
    CU_ASSERT_EQUAL(kw_check(out.data, out.size, 1), 0);
    CU_ASSERT_EQUAL(kw_decode_bar(out.data, out.size, &back), KW_ACCEPTED);
    CU_ASSERT_STRING_EQUAL(back.symbol, bar.symbol);
    CU_ASSERT_STRING_EQUAL(back.interval.text, "15m");
    CU_ASSERT_EQUAL(back.interval.ns, bar.interval.ns);
    CU_ASSERT_EQUAL(back.bar.t_ns, -T0);
    for (int c = 0; c < KR_COLUMNS; c++)
        CU_ASSERT_EQUAL(back.bar.v[c], bar.bar.v[c]);
    CU_ASSERT_TRUE(back.bar.synthetic && !back.final && back.has_seq && back.has_ep);
    CU_ASSERT_EQUAL(back.bar.rev, 3);
    CU_ASSERT_EQUAL(back.seq, UINT64_MAX);
    CU_ASSERT_EQUAL(back.ep, UINT64_MAX - 1);

    bar.has_seq = bar.has_ep = bar.bar.synthetic = false;
    bar.final = true;
    bar.bar.v[KR_VOLUME] = NAN;
    bar.bar.v[KR_AMOUNT] = -1;
    msgpack_sbuffer_clear(&out);
    CU_ASSERT_EQUAL(kw_encode_bar(&out, &bar), 0);
    CU_ASSERT_EQUAL(kw_decode_bar(out.data, out.size, &back), KW_ACCEPTED);
    CU_ASSERT_FALSE(back.has_seq || back.has_ep || back.bar.synthetic);
    CU_ASSERT_TRUE(back.final);
    CU_ASSERT_EQUAL(back.bar.v[KR_VOLUME], 0);
    CU_ASSERT_EQUAL(back.bar.v[KR_AMOUNT], 0);
    msgpack_sbuffer_destroy(&out);
}

/* ---- Hostile messages ---- */

static void check_hostile(void)
{
    struct kw_cursor cursor;
    uint8_t nest[155], wide[3 + 257 * 4], huge[] = {0xdb, 0xff, 0xff, 0xff, 0xff, 'a'};
    static const struct {
        const char *data;
        size_t n, depth;
        int expected;
    } cases[] = {
        {RAW("\xdd\xff\xff\xff\xff"), 4, -EBADMSG}, /* msgpack-c would ask for gigabytes */
        {RAW("\xdf\x7f\xff\xff\xff"), 4, -EBADMSG},
        {RAW("\xdc\xff\xff\x01"), 4, -EBADMSG},
        {RAW("\x92\x01"), 4, -EBADMSG},
        {RAW("\x82\x01\x02\x03"), 4, -EBADMSG},
        {RAW("\xc6\xff\xff\xff\xff"), 4, -EBADMSG},
        {RAW("\xc9\xff\xff\xff\xff\x01"), 4, -EBADMSG},
        {RAW("\xc7\x01\x05"), 4, -EBADMSG},
        {RAW("\xc7\x00"), 4, -EBADMSG},
        {RAW("\xc7\x00\x05"), 4, 0},
        {RAW("\xd8\x05"
             "0123456789abcde"),
         4, -EBADMSG},
        {RAW("\xc1"), 4, -EBADMSG},
        {RAW("\x91\xc1"), 4, -EBADMSG},
        {RAW(""), 4, -EBADMSG},
        {RAW("\x01"), 0, 0},
        {RAW("\x01\x02"), 4, -EBADMSG},
        {RAW("\x90"), 0, -EBADMSG},
        {RAW("\x90"), 1, 0},
        {RAW("\x91\x91\x91\x90"), 4, 0},
        {RAW("\x91\x91\x91\x91\x90"), 4, -EBADMSG},
        {RAW("\x81\x91\x90\x01"), 2, -EBADMSG}, /* a key nests like a value */
        {RAW("\x81\x91\x90\x01"), 3, 0},
        {RAW("\x82\xa1"
             "a\x01\xa1"
             "b\x01"),
         4, 0},
        {RAW("\x82\xa1"
             "a\x01\xa1"
             "a\x01"),
         4, -EBADMSG},
        {RAW("\x82\xa0\x01\xa0\x01"), 4, -EBADMSG},
        {RAW("\x82\x01\x01\x01\x01"), 4, 0}, /* no text */
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++)
        KT_CHECK(kw_check(cases[i].data, cases[i].n, cases[i].depth) == cases[i].expected,
                 "case %zu", i);
    for (size_t i = 0; i < sizeof(nest); i++)
        nest[i] = i % 5 ? 0xff : 0xdd;
    CU_ASSERT_EQUAL(kw_check(nest, sizeof(nest), 4), -EBADMSG);
    CU_ASSERT_EQUAL(kw_check(nest, sizeof(nest), KRONOSD_DEPTH), -EBADMSG);
    memset(nest, 0x91, sizeof(nest));
    CU_ASSERT_EQUAL(kw_check(nest, sizeof(nest), KRONOSD_DEPTH), -EBADMSG);
    CU_ASSERT_EQUAL(kw_check(huge, sizeof(huge), 4), -EBADMSG);
    cursor = kw_cursor("\xdc\x00\x03\x01\x02", 5); /* a head alone is held against what follows */
    CU_ASSERT_EQUAL(kw_next(&cursor).type, KW_NIL);
    CU_ASSERT_TRUE(cursor.bad);
    CU_ASSERT_EQUAL(kw_next(&cursor).type, KW_NIL); /* and stays so */
    CU_ASSERT_EQUAL(kw_check(NULL, 0, 4), -EBADMSG);

    /* 256 keys pass, 257 do not */
    memcpy(wide, "\xde\x01\x00", 3);
    for (unsigned i = 0; i < 257; i++)
        memcpy(wide + 3 + 4 * i, (const uint8_t[]){0xa2, (uint8_t)(i >> 4), i & 15, 0xc0}, 4);
    CU_ASSERT_EQUAL(kw_check(wide, sizeof(wide) - 4, 4), 0);
    wide[2] = 1;
    CU_ASSERT_EQUAL(kw_check(wide, sizeof(wide), 4), -EBADMSG);
}

static void truncations(void)
{
    struct bytes message = build(plain, N_PAIRS);

    for (size_t n = 0; n < message.n; n++) {
        struct bytes cut = message;

        cut.n = n;
        expect(&cut, n ? KW_BAD_TYPE : KW_NOT_A_MAP, "cut");
        CU_ASSERT_EQUAL(kw_check(message.data, n, KW_MAX_DEPTH), -EBADMSG);
    }
    append(&message, "\xc0", 1);
    expect(&message, KW_BAD_TYPE, "a byte too many");
}

/* What must hold of any bytes. Return: whether they are well-formed. */
static bool probe(const uint8_t *data, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    bool sound;
    struct kw_bar bar;
    enum kw_reason reason;
    msgpack_unpacked unpacked;
    size_t offset = 0;

    memcpy(copy, data, n);
    sound = kw_check(copy, n, KW_MAX_DEPTH) == 0;
    reason = kw_decode_bar(copy, n, &bar);
    if (!sound)
        KT_CHECK(reason == KW_BAD_TYPE || reason == KW_NOT_A_MAP, "malformed, but %s",
                 kw_reason_names[reason]);
    if (reason == KW_ACCEPTED) {
        for (int c = 0; c < KR_COLUMNS; c++)
            KT_CHECK(isfinite((float)bar.bar.v[c]) && bar.bar.v[c] >= 0, "column %d: %g", c,
                     bar.bar.v[c]);
        KT_CHECK(kr_symbol_valid(bar.symbol, strlen(bar.symbol)) && bar.interval.ns > 0 &&
                     bar.bar.v[KR_LOW] > 0 && bar.bar.v[KR_HIGH] >= bar.bar.v[KR_LOW],
                 "an impossible bar was accepted");
    }
    /* what the check lets pass msgpack-c reads, to the last byte */
    if (sound) {
        msgpack_unpacked_init(&unpacked);
        KT_CHECK(msgpack_unpack_next(&unpacked, (const char *)copy, n, &offset) ==
                         MSGPACK_UNPACK_SUCCESS &&
                     offset == n,
                 "msgpack-c disagrees");
        msgpack_unpacked_destroy(&unpacked);
    }
    free(copy);
    return sound;
}

static void flips(void)
{
    struct bytes message = build(plain, N_PAIRS);
    unsigned sound = 0;

    for (size_t i = 0; i < message.n; i++)
        for (unsigned bit = 0; bit < 9; bit++) {
            uint8_t old = message.data[i];

            message.data[i] ^= bit < 8 ? 1u << bit : 0xff;
            sound += probe(message.data, message.n);
            message.data[i] = old;
        }
    CU_ASSERT_TRUE(sound > 0 && sound < message.n * 9);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void mutations(void)
{
    const uint64_t seed = UINT64_C(20261130);
    uint64_t state = seed;
    struct bytes original = build(plain, N_PAIRS);
    unsigned sound = 0;

    kt_note("seed %llu", (unsigned long long)seed);
    for (unsigned i = 0; i < 200000; i++) {
        struct bytes message = original;
        unsigned edits = 1 + next_random(&state) % 4;

        while (edits-- > 0) {
            size_t at = next_random(&state) % message.n;
            size_t from = next_random(&state) % message.n;
            size_t n = 1 + next_random(&state) % 8;

            switch (next_random(&state) % 4) {
            case 0:
                message.data[at] = (uint8_t)next_random(&state);
                break;
            case 1: /* a type byte */
                message.data[at] = 0xc0 | (next_random(&state) & 0x1f);
                break;
            case 2: /* a piece from elsewhere */
                memmove(message.data + at, message.data + from,
                        KR_MIN(n, message.n - KR_MAX(at, from)));
                break;
            default:
                message.n = KR_MAX(at, (size_t)1);
            }
        }
        sound += probe(message.data, message.n);
    }
    kt_note("%u of 200000 well-formed", sound);
    CU_ASSERT_TRUE(sound > 1000 && sound < 199000);
}

/* ---- What goes out ---- */

enum { STEPS = 3, LEVELS = 2 };

/* A summary of distinct numbers: 100 x column + 10 x quantity (mean, std, q) + position. */
static struct kr_summary example_summary(void)
{
    static double levels[LEVELS] = {0.1, 0.9}, spreads[2 * LEVELS] = {0.25, 0.5, 0.75, 0.875};
    static double means[7][STEPS], stds[7][STEPS], qs[7][LEVELS * STEPS];
    static double p_up[STEPS] = {0.5, 0.25, 0.125};
    struct kr_summary summary = {
        .n_steps = STEPS,
        .n_levels = LEVELS,
        .levels = levels,
        .p_up = p_up,
        .vol = {0.0625, spreads},
        .mdd = {0.03125, spreads + LEVELS},
        .var = {0.02, 0.03},
        .es = {0.04, 0.05},
    };

    for (int c = 0; c < 7; c++) {
        for (int i = 0; i < STEPS; i++) {
            means[c][i] = 100 * c + i;
            stds[c][i] = 100 * c + 10 + i;
        }
        for (int i = 0; i < LEVELS * STEPS; i++)
            qs[c][i] = 100 * c + 20 + i;
        *(c < 6 ? &summary.columns[c] : &summary.ret) = (struct kr_band){means[c], stds[c], qs[c]};
    }
    return summary;
}

static struct kw_forecast example_forecast(const struct kr_summary *summary)
{
    static const int64_t t_ns[STEPS] = {T0 + 1, T0 + 2, T0 + 3};

    return (struct kw_forecast){
        .symbol = "BTCUSDT",
        .interval = "5m",
        .ep = UINT64_MAX,
        .seq = 4,
        .as_of_ns = T0,
        .rev = 1,
        .last_t_ns = T0,
        .last_close = 0.1,
        .pub_ns = T0 + 9,
        .mode = "anchored",
        .epoch = 2,
        .bars = 400,
        .anchor_n = 399,
        .win_t0_ns = T0 - 5,
        .model_name = "pico",
        .model_sha256 = "00ff",
        .isa = "avx2",
        .precision = "f32",
        .sampling = {.temperature = 0.7, .top_k = 5, .top_p = 0.9},
        .paths = 2,
        .horizon = STEPS,
        .seed = 11,
        .scale = true,
        .repair = true,
        .t_ns = t_ns,
        .summary = summary,
        .cal_status = "uncalibrated",
        .cal_n = 17,
        .flags = KW_GAP | KW_TAIL | KW_STRATIFIED,
        .queue_us = 1,
        .append_us = 2,
        .decode_us = 3,
        .total_us = 6,
    };
}

/* The keys of a map, each followed by a space. */
static const char *keys_of(const msgpack_object *map)
{
    static char text[1024];
    size_t n = 0;

    text[0] = '\0';
    if (!map || map->type != MSGPACK_OBJECT_MAP)
        return text;
    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_str *key = &map->via.map.ptr[i].key.via.str;

        n += (size_t)snprintf(text + n, sizeof(text) - n, "%.*s ", (int)key->size, key->ptr);
    }
    return text;
}

static void expect_text(const msgpack_object *map, const char *key, const char *expected)
{
    char text[64];

    KT_CHECK(kronosd_get_string(map, key, text, sizeof(text)) && strcmp(text, expected) == 0,
             "%s: expected %s, found %s", key, expected, text);
}

static void expect_band(const msgpack_object *map, double base)
{
    const msgpack_object *q = kronosd_get(map, "q");

    CU_ASSERT_EQUAL_FATAL(kronosd_length(q), LEVELS);
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(map, "mean")), STEPS);
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(map, "std")), STEPS);
    for (size_t i = 0; i < STEPS; i++) {
        CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(map, "mean"), i), base + (double)i);
        CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(map, "std"), i), base + 10 + (double)i);
    }
    for (size_t level = 0; level < LEVELS; level++) {
        CU_ASSERT_EQUAL(kronosd_length(&q->via.array.ptr[level]), STEPS);
        for (size_t i = 0; i < STEPS; i++)
            CU_ASSERT_EQUAL(kronosd_at_real(&q->via.array.ptr[level], i),
                            base + 20 + (double)(level * STEPS + i));
    }
}

#define HEAD                                                                                       \
    "v sym iv ep seq as_of rev last pub mode epoch bars win_t0 anchor_n model isa precision "      \
    "params t "

static void expect_head(const msgpack_object *root)
{
    const msgpack_object *params = kronosd_get(root, "params");

    CU_ASSERT_EQUAL(kronosd_get_uint(root, "v", 0), 1);
    expect_text(root, "sym", "BTCUSDT");
    expect_text(root, "iv", "5m");
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "ep", 0), UINT64_MAX);
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "seq", 0), 4);
    CU_ASSERT_EQUAL(kronosd_get_int(root, "as_of", 0), T0);
    CU_ASSERT_EQUAL(kronosd_get_int(root, "rev", 0), 1);
    CU_ASSERT_STRING_EQUAL(keys_of(kronosd_get(root, "last")), "t c ");
    CU_ASSERT_EQUAL(kronosd_get_int(kronosd_get(root, "last"), "t", 0), T0);
    CU_ASSERT_EQUAL(kronosd_get_real(kronosd_get(root, "last"), "c", 0), 0.1);
    CU_ASSERT_EQUAL(kronosd_get_int(root, "pub", 0), T0 + 9);
    expect_text(root, "mode", "anchored");
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "epoch", 0), 2);
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "bars", 0), 400);
    CU_ASSERT_EQUAL(kronosd_get_int(root, "win_t0", 0), T0 - 5);
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "anchor_n", 0), 399);
    CU_ASSERT_STRING_EQUAL(keys_of(kronosd_get(root, "model")), "name sha256 ");
    expect_text(kronosd_get(root, "model"), "name", "pico");
    expect_text(kronosd_get(root, "model"), "sha256", "00ff");
    expect_text(root, "isa", "avx2");
    expect_text(root, "precision", "f32");
    CU_ASSERT_STRING_EQUAL(keys_of(params), "T top_k top_p paths horizon seed scale join repair ");
    CU_ASSERT_EQUAL(kronosd_get_real(params, "T", 0), 0.7);
    CU_ASSERT_EQUAL(kronosd_get_uint(params, "top_k", 0), 5);
    CU_ASSERT_EQUAL(kronosd_get_real(params, "top_p", 0), 0.9);
    CU_ASSERT_EQUAL(kronosd_get_uint(params, "paths", 0), 2);
    CU_ASSERT_EQUAL(kronosd_get_uint(params, "horizon", 0), STEPS);
    CU_ASSERT_EQUAL(kronosd_get_uint(params, "seed", 0), 11);
    CU_ASSERT_TRUE(kronosd_get_bool(params, "scale", false));
    CU_ASSERT_FALSE(kronosd_get_bool(params, "join", true));
    CU_ASSERT_TRUE(kronosd_get_bool(params, "repair", false));
    CU_ASSERT_EQUAL_FATAL(kronosd_length(kronosd_get(root, "t")), STEPS);
    for (size_t i = 0; i < STEPS; i++)
        CU_ASSERT_EQUAL(kronosd_get(root, "t")->via.array.ptr[i].via.u64, (uint64_t)T0 + 1 + i);
}

static void forecast(void)
{
    struct kr_summary summary = example_summary();
    struct kw_forecast forecast = example_forecast(&summary);
    const msgpack_object *root, *ret, *part;
    msgpack_unpacked unpacked;
    msgpack_sbuffer out;

    msgpack_sbuffer_init(&out);
    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL(kw_encode_forecast(&out, &forecast), 0);
    CU_ASSERT_EQUAL(kw_check(out.data, out.size, KW_MAX_DEPTH), 0);
    for (size_t n = 0; n < out.size; n++)
        CU_ASSERT_EQUAL(kw_check(out.data, n, KW_MAX_DEPTH), -EBADMSG);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(out.data, out.size, &unpacked), 0);
    root = &unpacked.data;
    CU_ASSERT_STRING_EQUAL(keys_of(root),
                           HEAD "levels open high low close volume amount ret cal flags lat ");
    expect_head(root);
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(root, "levels")), LEVELS);
    CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(root, "levels"), 0), 0.1);
    CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(root, "levels"), 1), 0.9);
    for (int c = 0; c < KR_COLUMNS; c++) {
        CU_ASSERT_STRING_EQUAL(keys_of(kronosd_get(root, kr_column_names[c])), "mean std q ");
        expect_band(kronosd_get(root, kr_column_names[c]), 100 * c);
    }

    ret = kronosd_get(root, "ret");
    CU_ASSERT_STRING_EQUAL(keys_of(ret), "mean std q p_up vol mdd var es ");
    expect_band(ret, 600);
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(ret, "p_up")), STEPS);
    CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(ret, "p_up"), 2), 0.125);
    part = kronosd_get(ret, "vol");
    CU_ASSERT_STRING_EQUAL(keys_of(part), "mean q ");
    CU_ASSERT_EQUAL(kronosd_get_real(part, "mean", 0), 0.0625);
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(part, "q")), LEVELS);
    CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(part, "q"), 1), 0.5);
    part = kronosd_get(ret, "mdd");
    CU_ASSERT_STRING_EQUAL(keys_of(part), "mean q ");
    CU_ASSERT_EQUAL(kronosd_get_real(part, "mean", 0), 0.03125);
    CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(part, "q"), 1), 0.875);
    CU_ASSERT_STRING_EQUAL(keys_of(kronosd_get(ret, "var")), "0.95 0.99 ");
    CU_ASSERT_EQUAL(kronosd_get_real(kronosd_get(ret, "var"), "0.99", 0), 0.03);
    CU_ASSERT_STRING_EQUAL(keys_of(kronosd_get(ret, "es")), "0.95 0.99 ");
    CU_ASSERT_EQUAL(kronosd_get_real(kronosd_get(ret, "es"), "0.95", 0), 0.04);

    part = kronosd_get(root, "cal");
    CU_ASSERT_STRING_EQUAL(keys_of(part), "status q n ");
    expect_text(part, "status", "uncalibrated");
    CU_ASSERT_EQUAL(kronosd_get_uint(part, "n", 0), 17);
    CU_ASSERT_EQUAL_FATAL(kronosd_length(kronosd_get(part, "q")), LEVELS);
    CU_ASSERT_EQUAL(kronosd_at_real(&kronosd_get(part, "q")->via.array.ptr[1], 2), 325);
    part = kronosd_get(root, "flags");
    CU_ASSERT_EQUAL_FATAL(kronosd_length(part), 3);
    CU_ASSERT_EQUAL(part->via.array.ptr[0].via.str.size, 3);
    CU_ASSERT_EQUAL(memcmp(part->via.array.ptr[0].via.str.ptr, "gap", 3), 0);
    CU_ASSERT_EQUAL(memcmp(part->via.array.ptr[1].via.str.ptr, "tail", 4), 0);
    CU_ASSERT_EQUAL(memcmp(part->via.array.ptr[2].via.str.ptr, "stratified", 10), 0);
    part = kronosd_get(root, "lat");
    CU_ASSERT_STRING_EQUAL(keys_of(part), "queue_us append_us decode_us total_us ");
    CU_ASSERT_EQUAL(kronosd_get_uint(part, "total_us", 0), 6);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&out);
}

static void forecast_without_numbers(void)
{
    struct kr_summary summary = example_summary();
    struct kw_forecast forecast = example_forecast(&summary);
    const msgpack_object *mean;
    msgpack_unpacked unpacked;
    msgpack_sbuffer out;

    summary.columns[KR_CLOSE].mean[1] = NAN;
    forecast.last_close = -INFINITY;
    forecast.flags = 0;
    forecast.model_name = NULL;
    msgpack_sbuffer_init(&out);
    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL(kw_encode_forecast(&out, &forecast), 0);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(out.data, out.size, &unpacked), 0);
    mean = kronosd_get(kronosd_get(&unpacked.data, "close"), "mean");
    CU_ASSERT_EQUAL_FATAL(kronosd_length(mean), STEPS);
    CU_ASSERT_EQUAL(mean->via.array.ptr[1].type, MSGPACK_OBJECT_NIL);
    CU_ASSERT_EQUAL(kronosd_at_real(mean, 2), 302);
    CU_ASSERT_EQUAL(kronosd_get(kronosd_get(&unpacked.data, "last"), "c")->type,
                    MSGPACK_OBJECT_NIL);
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(&unpacked.data, "flags")), 0);
    expect_text(kronosd_get(&unpacked.data, "model"), "name", "");
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&out);
}

static void paths(void)
{
    struct kr_summary summary = example_summary();
    struct kw_forecast forecast = example_forecast(&summary);
    float values[2 * STEPS * KR_COLUMNS];
    const msgpack_object *root, *data, *shape;
    msgpack_unpacked unpacked;
    msgpack_sbuffer out;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(values); i++)
        values[i] = (float)i + 0.5f;
    msgpack_sbuffer_init(&out);
    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL(kw_encode_paths(&out, &forecast, values), 0);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(out.data, out.size, &unpacked), 0);
    root = &unpacked.data;
    CU_ASSERT_STRING_EQUAL(keys_of(root), HEAD "shape data ");
    expect_head(root);
    shape = kronosd_get(root, "shape");
    CU_ASSERT_EQUAL(kronosd_length(shape), 3);
    CU_ASSERT_EQUAL(kronosd_at_real(shape, 0), 2);
    CU_ASSERT_EQUAL(kronosd_at_real(shape, 1), STEPS);
    CU_ASSERT_EQUAL(kronosd_at_real(shape, 2), 6);
    data = kronosd_get(root, "data");
    CU_ASSERT_EQUAL_FATAL(data->type, MSGPACK_OBJECT_BIN);
    CU_ASSERT_EQUAL_FATAL(data->via.bin.size, sizeof(values));
    CU_ASSERT_EQUAL(memcmp(data->via.bin.ptr, values, sizeof(values)), 0);
    CU_ASSERT_EQUAL(memcmp(data->via.bin.ptr, "\0\0\0\x3f\0\0\xc0\x3f", 8), 0); /* 0.5, 1.5 */
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&out);
}

static void event(void)
{
    const struct kw_event event = {
        .symbol = "A",
        .interval = "1h",
        .ep = 1,
        .seq = 2,
        .t_ns = T0,
        .kind = "quarantined",
        .reason = kw_reason_names[KW_HIGH_LOW],
        .count = 3,
    };
    msgpack_unpacked unpacked;
    msgpack_sbuffer out;

    msgpack_sbuffer_init(&out);
    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL(kw_encode_event(&out, &event), 0);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(out.data, out.size, &unpacked), 0);
    CU_ASSERT_STRING_EQUAL(keys_of(&unpacked.data), "v sym iv ep seq t kind reason count ");
    CU_ASSERT_EQUAL(kronosd_get_uint(&unpacked.data, "v", 0), 1);
    expect_text(&unpacked.data, "sym", "A");
    expect_text(&unpacked.data, "iv", "1h");
    CU_ASSERT_EQUAL(kronosd_get_uint(&unpacked.data, "ep", 0), 1);
    CU_ASSERT_EQUAL(kronosd_get_uint(&unpacked.data, "seq", 0), 2);
    CU_ASSERT_EQUAL(kronosd_get_int(&unpacked.data, "t", 0), T0);
    expect_text(&unpacked.data, "kind", "quarantined");
    expect_text(&unpacked.data, "reason", "high_low");
    CU_ASSERT_EQUAL(kronosd_get_uint(&unpacked.data, "count", 0), 3);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&out);
}

static void status(void)
{
    static const struct kw_count rejected[] = {{"bad_type", 2}, {"high_low", 1}};
    static const struct kw_count streams[] = {{"live", 5}};
    static const struct kw_count trust[] = {{"uncalibrated", 3}, {"warming", 2}};
    static const struct kw_count state[] = {{"commits", 6}, {"lost", 7}};
    static const struct {
        const char *key;
        uint64_t value;
    } expected[] = {
        {"v", 1},         {"ep", 10},           {"seq", 11},
        {"received", 20}, {"accepted", 13},     {"forecasts", 14},
        {"skipped", 15},  {"epoch_waited", 16}, {"lag_us", 17},
        {"backlog", 18},  {"rss_bytes", 19},    {"duplicates", 3},
        {"forming", 1},   {"window_slid", 21},  {"events_dropped", 22},
    };
    const struct kw_status status = {
        .ep = 10,
        .seq = 11,
        .pub_ns = T0,
        .uptime_s = 1.5,
        .received = 20,
        .accepted = 13,
        .duplicates = 3,
        .forming = 1,
        .rejected = rejected,
        .n_rejected = 2,
        .forecasts = 14,
        .skipped = 15,
        .epoch_waited = 16,
        .window_slid = 21,
        .events_dropped = 22,
        .lag_us = 17,
        .backlog = 18,
        .streams = streams,
        .n_streams = 1,
        .rss_bytes = 19,
        .version = "0.1.0",
        .model_name = "pico",
        .isa = "generic",
        .trust = trust,
        .n_trust = 2,
        .scored = 30,
        .unscored = 31,
        .recalibrated = 32,
        .skill = 0.25,
        .skill_cal = NAN,
        .state = state,
        .n_state = 2,
    };
    const msgpack_object *part;
    msgpack_unpacked unpacked;
    msgpack_sbuffer out;

    msgpack_sbuffer_init(&out);
    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL(kw_encode_status(&out, &status), 0);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(out.data, out.size, &unpacked), 0);
    CU_ASSERT_STRING_EQUAL(keys_of(&unpacked.data),
                           "v ep seq pub uptime_s received accepted rejected forecasts skipped "
                           "epoch_waited lag_us backlog streams rss_bytes duplicates forming "
                           "window_slid events_dropped version model isa trust state ");
    for (size_t i = 0; i < KR_ARRAY_LENGTH(expected); i++)
        KT_CHECK(kronosd_get_uint(&unpacked.data, expected[i].key, 99) == expected[i].value, "%s",
                 expected[i].key);
    CU_ASSERT_EQUAL(kronosd_get_int(&unpacked.data, "pub", 0), T0);
    CU_ASSERT_EQUAL(kronosd_get_real(&unpacked.data, "uptime_s", 0), 1.5);
    CU_ASSERT_STRING_EQUAL(keys_of(kronosd_get(&unpacked.data, "rejected")), "bad_type high_low ");
    CU_ASSERT_EQUAL(kronosd_get_uint(kronosd_get(&unpacked.data, "rejected"), "bad_type", 0), 2);
    CU_ASSERT_STRING_EQUAL(keys_of(kronosd_get(&unpacked.data, "streams")), "live ");
    expect_text(&unpacked.data, "version", "0.1.0");
    expect_text(&unpacked.data, "model", "pico");
    expect_text(&unpacked.data, "isa", "generic");
    part = kronosd_get(&unpacked.data, "trust");
    CU_ASSERT_STRING_EQUAL(keys_of(part),
                           "uncalibrated warming scored unscored recalibrated skill skill_cal ");
    CU_ASSERT_EQUAL(kronosd_get_uint(part, "warming", 0), 2);
    CU_ASSERT_EQUAL(kronosd_get_uint(part, "scored", 0), 30);
    CU_ASSERT_EQUAL(kronosd_get_uint(part, "unscored", 0), 31);
    CU_ASSERT_EQUAL(kronosd_get_uint(part, "recalibrated", 0), 32);
    CU_ASSERT_EQUAL(kronosd_get_real(part, "skill", 0), 0.25);
    CU_ASSERT_EQUAL(kronosd_get(part, "skill_cal")->type, MSGPACK_OBJECT_NIL);
    CU_ASSERT_STRING_EQUAL(keys_of(kronosd_get(&unpacked.data, "state")), "commits lost ");
    CU_ASSERT_EQUAL(kronosd_get_uint(kronosd_get(&unpacked.data, "state"), "lost", 0), 7);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&out);
}

static void score(void)
{
    const bool hit[] = {false, true}, hit_cal[] = {true, false};
    const double levels[] = {0.25, 0.75}, pinball[] = {0.5, 0.125};
    const struct kr_score scored = {.as_of_ns = T0,
                                    .t_ns = T0 + 5,
                                    .step = 6,
                                    .y = -0.5,
                                    .crps = 1.5,
                                    .crps_cal = 1.25,
                                    .crps_rw = 2.5,
                                    .crps_still = 0.5,
                                    .pit = 0.0625,
                                    .pit_cal = 0.125,
                                    .hit = hit,
                                    .hit_cal = hit_cal,
                                    .pinball = pinball,
                                    .n = 9,
                                    .skill = 0.375,
                                    .skill_cal = 0.4375,
                                    .status = KR_WARMING};
    const struct {
        const char *key;
        double value;
    } reals[] = {
        {"crps", 1.5},       {"crps_rw", 2.5},   {"pit", 0.0625},
        {"skill", 0.375},    {"y", -0.5},        {"crps_cal", 1.25},
        {"crps_still", 0.5}, {"pit_cal", 0.125}, {"skill_cal", 0.4375},
    };
    const struct kw_score message = {.symbol = "A",
                                     .interval = "1h",
                                     .ep = 1,
                                     .seq = 2,
                                     .score = &scored,
                                     .levels = levels,
                                     .n_levels = 2};
    const msgpack_object *root, *part;
    msgpack_unpacked unpacked;
    msgpack_sbuffer out;

    msgpack_sbuffer_init(&out);
    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL(kw_encode_score(&out, &message), 0);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(out.data, out.size, &unpacked), 0);
    root = &unpacked.data;
    CU_ASSERT_STRING_EQUAL(keys_of(root),
                           "v sym iv ep seq as_of t h crps crps_rw pit hit n skill y status "
                           "crps_cal crps_still pit_cal hit_cal skill_cal levels pinball "
                           "stratified ");
    expect_text(root, "sym", "A");
    expect_text(root, "iv", "1h");
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "ep", 0), 1);
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "seq", 0), 2);
    CU_ASSERT_EQUAL(kronosd_get_int(root, "as_of", 0), T0);
    CU_ASSERT_EQUAL(kronosd_get_int(root, "t", 0), T0 + 5);
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "h", 0), 7);
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "n", 0), 9);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(reals); i++)
        KT_CHECK(kronosd_get_real(root, reals[i].key, 99) == reals[i].value, "%s", reals[i].key);
    part = kronosd_get(root, "hit");
    CU_ASSERT_EQUAL_FATAL(kronosd_length(part), 2);
    CU_ASSERT_TRUE(!part->via.array.ptr[0].via.boolean && part->via.array.ptr[1].via.boolean);
    part = kronosd_get(root, "hit_cal");
    CU_ASSERT_EQUAL_FATAL(kronosd_length(part), 2);
    CU_ASSERT_TRUE(part->via.array.ptr[0].via.boolean && !part->via.array.ptr[1].via.boolean);
    CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(root, "levels"), 1), 0.75);
    CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(root, "pinball"), 0), 0.5);
    expect_text(root, "status", "warming");
    CU_ASSERT_FALSE(kronosd_get_bool(root, "stratified", true));
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_destroy(&out);
}

/* Without memory nothing half-written stays; a used buffer needs no more of it. */
static void memory(void)
{
    const struct kw_event event = {.symbol = "A", .interval = "1h", .kind = "gap"};
    msgpack_sbuffer full = {.size = SIZE_MAX / 4, .alloc = SIZE_MAX / 4};
    msgpack_sbuffer out;
    const char *before;
    size_t alloc;

    CU_ASSERT_EQUAL(kw_encode_event(&full, &event), -ENOMEM);
    CU_ASSERT_EQUAL(full.size, SIZE_MAX / 4);
    msgpack_sbuffer_init(&out);
    CU_ASSERT_EQUAL(kw_encode_event(&out, &event), 0);
    before = out.data;
    alloc = out.alloc;
    msgpack_sbuffer_clear(&out);
    CU_ASSERT_EQUAL(kw_encode_event(&out, &event), 0);
    CU_ASSERT_TRUE(out.data == before && out.alloc == alloc);
    msgpack_sbuffer_destroy(&out);
}

static void topics(void)
{
    char topic[KW_TOPIC_MAX + 1];

    CU_ASSERT_EQUAL(kw_topic(topic, "forecast", "5m", "BTCUSDT"), 20);
    CU_ASSERT_STRING_EQUAL(topic, "forecast|5m|BTCUSDT|");
    CU_ASSERT_EQUAL(kw_topic(topic, "status", "", ""), 9);
    CU_ASSERT_STRING_EQUAL(topic, "status|||");
}

static void names(void)
{
    CU_ASSERT_STRING_EQUAL(kw_reason_names[KW_ACCEPTED], "accepted");
    CU_ASSERT_STRING_EQUAL(kw_reason_names[KW_PRICE_NOT_POSITIVE], "price_not_positive");
    CU_ASSERT_STRING_EQUAL(kw_reason_names[KW_TOO_LARGE], "too_large");
    CU_ASSERT_STRING_EQUAL(kw_reason_names[KW_TOO_OLD], "too_old");
    CU_ASSERT_STRING_EQUAL(kw_flag_names[0], "flat");
    CU_ASSERT_EQUAL(1u << (KW_FLAGS - 1), KW_STRATIFIED);
    CU_ASSERT_STRING_EQUAL(kw_flag_names[KW_FLAGS - 1], "stratified");
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"a bar with every field", decode_every_field},
        {"defaults of a bar", decode_defaults},
        {"missing volume and amount", missing_volume},
        {"numbers of every width", numbers_of_every_width},
        {"times are integers in range", times},
        {"each quarantine reason", reasons},
        {"a derived amount out of range", derived_amount_overflows},
        {"not a map", not_a_map},
        {"the first reason counts", first_reason},
        {"the stream of a refused bar", stream_of_a_refused_bar},
        {"unknown, doubled and nested keys", keys},
        {"a bar there and back", bar_round_trip},
        {"hostile heads", check_hostile},
        {"cut at every length", truncations},
        {"each bit flipped", flips},
        {"200000 mutations", mutations},
        {"a forecast's keys and shapes", forecast},
        {"numbers that are none become nil", forecast_without_numbers},
        {"paths", paths},
        {"an event", event},
        {"status", status},
        {"a score", score},
        {"no memory", memory},
        {"topics", topics},
        {"names", names},
    };

    return kt_main("wire", tests, KR_ARRAY_LENGTH(tests));
}
