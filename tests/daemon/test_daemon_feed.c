/* SPDX-License-Identifier: MIT */
/* What a feed may do to the real daemon: wrong, hostile, repeated, late, missing and forming bars. Whatever it
 * does, every message ends in one counter. */
#include "tests/daemon/harness.h"
#include "tests/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

static void feed_range(void *feed, const char *symbol, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        struct kw_bar bar = kt_bar(symbol, "1m", i);

        kt_feed_bar(feed, &bar);
    }
}

static void feed_revised(void *feed, size_t i, int64_t rev, double factor)
{
    struct kw_bar bar = kt_bar("AAA", "1m", i);

    bar.bar.rev = rev;
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        bar.bar.v[c] *= factor;
    kt_feed_bar(feed, &bar);
}

static void end(struct kt_daemon *daemon)
{
    CU_ASSERT_EQUAL(kt_daemon_stop(daemon), 0);
    kt_daemon_end(daemon);
}

/* Malformed, oversized and hostile messages: each is counted by its reason and the next bar is taken. */

static size_t send_hostile(void *feed, uint64_t expected[KW_REASONS])
{
    static const char claims_map[] = "\xdf\xff\xff\xff\xff";
    static const char claims_array[] = "\x81\xa1v\xdd\xff\xff\xff\xff";
    static const char claims_bin[] = "\x81\xa1v\xc6\xff\xff\xff\xff";
    static const char nested[] =
        "\x81\xa1x\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\xc0";
    static const char twice[] = "\x82\xa1v\x01\xa1v\x01";
    static const char empty_map[] = "\x80";
    static const struct {
        const char *data;
        size_t n;
        enum kw_reason reason;
    } messages[] = {
        {"", 0, KW_NOT_A_MAP},
        {"\xc1", 1, KW_NOT_A_MAP},
        {"\x93\x01\x02\x03", 4, KW_NOT_A_MAP},
        {"hello", 5, KW_NOT_A_MAP},
        {claims_map, sizeof(claims_map) - 1, KW_BAD_TYPE},
        {claims_array, sizeof(claims_array) - 1, KW_BAD_TYPE},
        {claims_bin, sizeof(claims_bin) - 1, KW_BAD_TYPE},
        {nested, sizeof(nested) - 1, KW_BAD_TYPE},
        {twice, sizeof(twice) - 1, KW_BAD_TYPE},
        {empty_map, sizeof(empty_map) - 1, KW_MISSING_KEY},
    };
    size_t n = sizeof(messages) / sizeof(messages[0]);

    for (size_t i = 0; i < n; i++) {
        kt_feed_send(feed, "bar|", messages[i].data, messages[i].n);
        expected[messages[i].reason]++;
    }
    return n;
}

/* A bar whose message is changed in one place before it is sent. */
static void send_bar_with(void *feed, const struct kw_bar *bar, const char *from, const char *to,
                          size_t n)
{
    msgpack_sbuffer buffer;
    char *at;

    msgpack_sbuffer_init(&buffer);
    CU_ASSERT_EQUAL_FATAL(kw_encode_bar(&buffer, bar), 0);
    at = memmem(buffer.data, buffer.size, from, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    memcpy(at, to, n);
    kt_feed_send(feed, "bar|1m|AAA|", buffer.data, buffer.size);
    msgpack_sbuffer_destroy(&buffer);
}

static size_t send_bad_bars(void *feed, uint64_t expected[KW_REASONS])
{
    struct kw_bar bar = kt_bar("AAA", "1m", 3);
    char nan[8] = {0x7f, (char)0xf8}, price[8], large[5000] = {0};
    uint64_t word;
    size_t n = 0;

    /* the bytes of the open price, big-endian */
    memcpy(&word, &bar.bar.v[KR_OPEN], 8);
    word = __builtin_bswap64(word);
    memcpy(price, &word, 8);
    send_bar_with(feed, &bar, price, nan, 8);
    expected[KW_NOT_FINITE]++, n++;
    price[0] ^= (char)0x80; /* its negative */
    bar.bar.v[KR_OPEN] = -bar.bar.v[KR_OPEN];
    kt_feed_bar(feed, &bar);
    expected[KW_PRICE_NOT_POSITIVE]++, n++;
    bar = kt_bar("AAA", "1m", 3);
    bar.bar.v[KR_HIGH] = bar.bar.v[KR_LOW] * 0.9;
    kt_feed_bar(feed, &bar);
    expected[KW_HIGH_LOW]++, n++;
    bar = kt_bar("AAA", "1m", 3);
    bar.bar.t_ns += 1000;
    kt_feed_bar(feed, &bar);
    expected[KW_OFF_GRID]++, n++;
    bar = kt_bar("AAA", "1m", 3);
    send_bar_with(feed, &bar, "AAA", "A|A", 3);
    expected[KW_BAD_SYMBOL]++, n++;
    send_bar_with(feed, &bar, "\xa2\x31m", "\xa2\x30m", 3);
    expected[KW_BAD_INTERVAL]++, n++;
    kt_feed_send(feed, "bar|1m|AAA|", large, sizeof(large));
    expected[KW_TOO_LARGE]++, n++;
    return n;
}

/* One frame, three frames, and a frame so large that libzmq drops its sender. */
static size_t send_odd_frames(struct kt_daemon *daemon, void *feed, uint64_t expected[KW_REASONS])
{
    void *hostile = kt_feed_open(daemon);
    char *huge = calloc(1, 1 << 20);

    CU_ASSERT_TRUE(zmq_send(feed, "bar|alone", 9, 0) == 9);
    CU_ASSERT_TRUE(zmq_send(feed, "bar|1m|AAA|", 11, ZMQ_SNDMORE) == 11);
    for (int i = 0; i < 100; i++)
        CU_ASSERT_TRUE(zmq_send(feed, "more", 4, i < 99 ? ZMQ_SNDMORE : 0) == 4);
    expected[KW_NOT_A_MAP] += 2;
    kt_feed_send(hostile, "bar|1m|AAA|", huge, 1 << 20); /* not counted: it never arrives */
    free(huge);
    kt_feed_close(&hostile);
    return 2;
}

static void hostile(void)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *events;
    struct kt_status status;
    uint64_t expected[KW_REASONS] = {0};
    size_t n = 0;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, ""));
    events = kt_subscribe(&daemon, "event|");
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 3);
    n += send_hostile(feed, expected);
    n += send_bad_bars(feed, expected);
    n += send_odd_frames(&daemon, feed, expected);
    feed_range(feed, "AAA", 3, 6);
    CU_ASSERT_TRUE(kt_settled(&daemon, n + 6, &status));
    CU_ASSERT_EQUAL(status.received, n + 6);
    CU_ASSERT_EQUAL(status.accepted, 6);
    CU_ASSERT_EQUAL(status.rejected, n);
    for (int reason = 0; reason < KW_REASONS; reason++)
        KT_CHECK(status.reasons[reason] == expected[reason], "%s: %llu, expected %llu",
                 kw_reason_names[reason], (unsigned long long)status.reasons[reason],
                 (unsigned long long)expected[reason]);
    CU_ASSERT_TRUE(kt_event(events, "quarantined", "not_finite", 1));
    CU_ASSERT_TRUE(kt_event(events, "quarantined", "high_low", 1));
    CU_ASSERT_TRUE(kt_event(events, "quarantined", "off_grid", 1));
    CU_ASSERT_TRUE(kt_event(events, "quarantined", "too_large", 1));
    kronosd_subscriber_close(&events);
    kt_feed_close(&feed);
    end(&daemon);
}

/* Random bytes, and real bars with a few bytes changed. */
static void random_bytes(void)
{
    struct kt_daemon daemon;
    struct kt_status status;
    uint64_t state = 20261130;
    const size_t n = 3000;
    void *feed;

    kt_note("seed %llu", (unsigned long long)state);
    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, ""));
    feed = kt_feed_open(&daemon);
    for (size_t i = 0; i < n; i++) {
        struct kw_bar bar = kt_bar("AAA", "1m", i);
        msgpack_sbuffer buffer;

        msgpack_sbuffer_init(&buffer);
        CU_ASSERT_EQUAL_FATAL(kw_encode_bar(&buffer, &bar), 0);
        for (int k = 0; k < 4; k++) {
            state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
            buffer.data[(state >> 33) % buffer.size] = (char)(state >> 24);
        }
        kt_feed_send(feed, "bar|", buffer.data, i % 3 ? buffer.size : buffer.size / 2);
        msgpack_sbuffer_destroy(&buffer);
    }
    CU_ASSERT_TRUE(kt_settled(&daemon, n, &status));
    CU_ASSERT_EQUAL(status.received, n);
    CU_ASSERT_TRUE(kt_balanced(&status));
    CU_ASSERT_TRUE(status.rejected > n / 2);
    kt_feed_close(&feed);
    end(&daemon);
}

/* Forecasts of a stream of 40 bars, then what `disturb` sends; flags of the last forecast. */

static void repeated(void)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *events, *forecasts;
    struct kronosd_message message;
    struct kt_status status;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, ""));
    events = kt_subscribe(&daemon, "event|1m|AAA|");
    forecasts = kt_subscribe(&daemon, "forecast|1m|AAA|");
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 35);
    feed_range(feed, "AAA", 36, 70); /* number 35 comes late */
    feed_range(feed, "AAA", 69, 70);
    feed_revised(feed, 69, 0, 1.001);
    feed_revised(feed, 69, 2, 1.002);
    feed_revised(feed, 69, 1, 1.003);
    feed_revised(feed, 40, 1, 1.001);
    feed_range(feed, "AAA", 35, 36);
    CU_ASSERT_TRUE(kt_event(events, "gap", "held", 1));
    CU_ASSERT_TRUE(kt_event(events, "duplicate", "same", 1));
    CU_ASSERT_TRUE(kt_event(events, "revised", "by_arrival", 1));
    CU_ASSERT_TRUE(kt_event(events, "revised", "higher_rev", 1));
    CU_ASSERT_TRUE(kt_event(events, "duplicate", "older_rev", 1));
    CU_ASSERT_TRUE(kt_event(events, "revised", "higher_rev", 2));
    CU_ASSERT_TRUE(kt_event(events, "late", "late", 1));
    CU_ASSERT_TRUE(kt_settled(&daemon, 75, &status));
    CU_ASSERT_EQUAL(status.received, 75);
    CU_ASSERT_EQUAL(status.duplicates, 2);
    CU_ASSERT_EQUAL(status.accepted, 73);
    CU_ASSERT_EQUAL(status.live, 1);
    /* every accepted bar once warm has its forecast, the revisions too */
    CU_ASSERT_EQUAL(status.forecasts, 73 - 31);
    for (size_t i = 0; i < 73 - 31; i++) {
        CU_ASSERT_TRUE(kt_receive(forecasts, &message));
        CU_ASSERT_EQUAL(kt_holds(kronosd_get(message.root, "flags"), "gap"), i >= 35 - 31);
        CU_ASSERT_EQUAL(kt_holds(kronosd_get(message.root, "flags"), "revised"), i >= 69 - 31);
        CU_ASSERT_EQUAL(kt_holds(kronosd_get(message.root, "flags"), "late"), i >= 72 - 31);
        if (i == 70 - 31) /* behind the second revision of the last bar */
            CU_ASSERT_EQUAL(kronosd_get_int(message.root, "rev", 0), 2);
    }
    kronosd_subscriber_close(&events);
    kronosd_subscriber_close(&forecasts);
    kt_feed_close(&feed);
    end(&daemon);
}

/* The same holes under each policy: 40 bars, two missing, 30 bars, nine missing, one bar. */
static void gap_policy(const char *more, const char *reason, uint64_t n_events, uint64_t n_bars,
                       bool synthetic)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *events, *forecasts;
    struct kronosd_control *control;
    struct kronosd_message message;
    struct kt_status status;
    const msgpack_object *reply, *flags;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, more));
    events = kt_subscribe(&daemon, "event|");
    forecasts = kt_subscribe(&daemon, "forecast|");
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 40);
    feed_range(feed, "AAA", 42, 72);
    feed_range(feed, "AAA", 81, 82);
    CU_ASSERT_TRUE(kt_event(events, "gap", reason, n_events));
    CU_ASSERT_TRUE(kt_settled(&daemon, 71, &status));
    CU_ASSERT_EQUAL(status.accepted, 71);
    CU_ASSERT_EQUAL(status.forecasts, 71 - 31);
    CU_ASSERT_EQUAL(status.live, 1);
    for (size_t i = 0; i < 71 - 31; i++)
        CU_ASSERT_TRUE(kt_receive(forecasts, &message));
    flags = kronosd_get(message.root, "flags");
    CU_ASSERT_EQUAL(kt_holds(flags, "synthetic"), synthetic);
    CU_ASSERT_TRUE(kt_holds(flags, "gap"));
    CU_ASSERT_EQUAL(kronosd_get_int(message.root, "as_of", 0), kt_bar("AAA", "1m", 81).bar.t_ns);
    control = kt_control(&daemon);
    CU_ASSERT_EQUAL_FATAL(kt_ask(control, "symbols", NULL, NULL, &reply), 0);
    CU_ASSERT_EQUAL(kronosd_get_uint(&kronosd_get(reply, "symbols")->via.array.ptr[0], "bars", 0),
                    n_bars);
    kronosd_control_close(&control);
    kronosd_subscriber_close(&events);
    kronosd_subscriber_close(&forecasts);
    kt_feed_close(&feed);
    end(&daemon);
}

static void gaps(void)
{
    gap_policy("[feed] gap = hold\n", "held", 2, 71, false);
    gap_policy("[feed] gap = fill\n[feed] max_fill = 4\n", "filled", 1, 73, true);
    gap_policy("[feed] gap = reanchor\n", "reanchored", 2, 71, false);
}

static void forming_bars(const char *more, uint64_t n_forecasts)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *forecasts;
    struct kronosd_message message;
    struct kt_status status;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, more));
    forecasts = kt_subscribe(&daemon, "forecast|");
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 32);
    CU_ASSERT_TRUE(kt_receive(forecasts, &message));
    for (int i = 0; i < 3; i++) { /* each is waited for, so that none is overtaken */
        struct kw_bar bar = kt_bar("AAA", "1m", 32);

        bar.final = false;
        bar.bar.v[KR_HIGH] += i;
        kt_feed_bar(feed, &bar);
        if (n_forecasts == 2)
            continue;
        CU_ASSERT_TRUE(kt_receive(forecasts, &message));
        CU_ASSERT_TRUE(kt_holds(kronosd_get(message.root, "flags"), "forming"));
        CU_ASSERT_EQUAL(kronosd_get_int(message.root, "as_of", 0), bar.bar.t_ns);
    }
    CU_ASSERT_TRUE(kt_settled(&daemon, 35, &status));
    CU_ASSERT_EQUAL(status.forming, 3);
    CU_ASSERT_EQUAL(status.accepted, 32);
    feed_range(feed, "AAA", 32, 33);
    CU_ASSERT_TRUE(kt_receive(forecasts, &message));
    CU_ASSERT_FALSE(kt_holds(kronosd_get(message.root, "flags"), "forming"));
    CU_ASSERT_EQUAL(message.seq, n_forecasts);
    kronosd_subscriber_close(&forecasts);
    /* a late joiner gets the last final forecast */
    forecasts = kt_subscribe(&daemon, "forecast|");
    CU_ASSERT_TRUE(kt_receive(forecasts, &message));
    CU_ASSERT_FALSE(kt_holds(kronosd_get(message.root, "flags"), "forming"));
    kronosd_subscriber_close(&forecasts);
    kt_feed_close(&feed);
    end(&daemon);
}

static void forming(void)
{
    forming_bars("", 2);
    forming_bars("[feed] forming = overlay\n", 5);
}

/* Streams beyond the limit or not allowed are refused, the others are not disturbed. */
static void refused(void)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *events;
    struct kt_status status;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, "[limits] symbols = 2\n[feed] allow = A* B*\n"
                                                  "[stream AXE] allow = no\n"));
    events = kt_subscribe(&daemon, "event|");
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 2);
    feed_range(feed, "ZZZ", 0, 2);
    feed_range(feed, "AXE", 0, 2);
    feed_range(feed, "BBB", 0, 2);
    feed_range(feed, "ABC", 0, 2);
    feed_range(feed, "AAA", 2, 4);
    CU_ASSERT_TRUE(kt_event(events, "refused", "not_allowed", 1));
    CU_ASSERT_TRUE(kt_event(events, "refused", "too_many_symbols", 1));
    CU_ASSERT_TRUE(kt_settled(&daemon, 12, &status));
    CU_ASSERT_EQUAL(status.accepted, 6);
    CU_ASSERT_EQUAL(status.reasons[KW_NOT_ALLOWED], 4);
    CU_ASSERT_EQUAL(status.reasons[KW_TOO_MANY_SYMBOLS], 2);
    kronosd_subscriber_close(&events);
    kt_feed_close(&feed);
    end(&daemon);
}

static void wall_clock(void)
{
    struct kt_daemon daemon;
    struct kt_status status;
    struct timespec now;
    struct kw_bar bar = kt_bar("AAA", "1m", 0);
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, "[feed] clock = wall\n"));
    feed = kt_feed_open(&daemon);
    clock_gettime(CLOCK_REALTIME, &now);
    bar.bar.t_ns = (now.tv_sec / 60 - 5) * KT_MINUTE_NS;
    kt_feed_bar(feed, &bar);
    bar.bar.t_ns += 60 * KT_MINUTE_NS;
    kt_feed_bar(feed, &bar);
    CU_ASSERT_TRUE(kt_settled(&daemon, 2, &status));
    CU_ASSERT_EQUAL(status.accepted, 1);
    CU_ASSERT_EQUAL(status.reasons[KW_FUTURE], 1);
    kt_feed_close(&feed);
    end(&daemon);
}

/* More bars than may wait: the feed is paused, nothing is lost; `latest` skips forecasts and counts them. */
static void paused(void)
{
    struct kt_daemon daemon;
    struct kt_status status;
    void *feed;

    CU_ASSERT_TRUE_FATAL(
        kt_daemon_begin(&daemon, "[limits] pending = 16\n[forecast] paths = 32\n"));
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 400);
    CU_ASSERT_TRUE(kt_settled(&daemon, 400, &status));
    CU_ASSERT_EQUAL(status.accepted, 400);
    CU_ASSERT_EQUAL(status.forecasts, 400 - 31);
    kt_feed_close(&feed);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(daemon.text, "feed_paused"));
    CU_ASSERT_PTR_NOT_NULL(strstr(daemon.text, "feed_resumed"));
    kt_daemon_end(&daemon);
    CU_ASSERT_TRUE_FATAL(
        kt_daemon_begin(&daemon, "[forecast] backlog = latest\n[forecast] paths = 32\n"));
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 1000);
    CU_ASSERT_TRUE(kt_settled(&daemon, 1000, &status));
    CU_ASSERT_EQUAL(status.accepted, 1000);
    CU_ASSERT_EQUAL(status.forecasts + status.skipped, 1000 - 31);
    CU_ASSERT_TRUE(status.forecasts > 0);
    kt_feed_close(&feed);
    end(&daemon);
}

/* A flood of events is thinned out, counted, and leaves the counters whole. */
static void event_flood(void)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *subscriber;
    struct kronosd_message message;
    struct kt_status status;
    uint64_t dropped;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, "[log] burst = 10\n"));
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 1);
    for (int i = 0; i < 20000; i++)
        feed_range(feed, "AAA", 0, 1);
    CU_ASSERT_TRUE(kt_settled(&daemon, 20001, &status));
    CU_ASSERT_EQUAL(status.duplicates, 20000);
    subscriber = kt_subscribe(&daemon, "status|");
    CU_ASSERT_TRUE(kt_receive(subscriber, &message));
    dropped = kronosd_get_uint(message.root, "events_dropped", 0);
    CU_ASSERT_TRUE(dropped > 0 && dropped < 20000);
    kronosd_subscriber_close(&subscriber);
    kt_feed_close(&feed);
    end(&daemon);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"malformed, oversized, hostile messages", hostile},
        {"changed bytes", random_bytes},
        {"duplicates, revisions, late bars", repeated},
        {"gaps under each policy", gaps},
        {"forming bars ignored and overlaid", forming},
        {"streams refused", refused},
        {"clock = wall", wall_clock},
        {"pending bars are bounded, latest skips", paused},
        {"a flood of events", event_flood},
    };

    return kt_main("daemon_feed", tests, sizeof(tests) / sizeof(tests[0]));
}
