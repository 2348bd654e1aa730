/* SPDX-License-Identifier: MIT */
/* What may be asked of the real daemon, and what hostile askers get. */
#include "tests/daemon/harness.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

static void feed_range(void *feed, const char *symbol, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        struct kw_bar bar = kt_bar(symbol, "1m", i);

        kt_feed_bar(feed, &bar);
    }
}

static void end(struct kt_daemon *daemon)
{
    CU_ASSERT_EQUAL(kt_daemon_stop(daemon), 0);
    kt_daemon_end(daemon);
}

/* A daemon with n bars of the stream AAA 1m, settled. */
static void *begin(struct kt_daemon *daemon, const char *more, size_t n)
{
    struct kt_status status;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(daemon, more));
    feed = kt_feed_open(daemon);
    feed_range(feed, "AAA", 0, n);
    CU_ASSERT_TRUE(kt_settled(daemon, n, &status));
    CU_ASSERT_EQUAL(status.accepted, n);
    return feed;
}

/* The code of a refusal. */
#define REFUSED(control, call, expected)                                                           \
    do {                                                                                           \
        CU_ASSERT_EQUAL(call, -EREMOTEIO);                                                         \
        CU_ASSERT_STRING_EQUAL(kronosd_control_code(control), expected);                           \
    } while (0)

static void questions(void)
{
    struct kt_daemon daemon;
    void *feed = begin(&daemon, "", 100);
    struct kronosd_control *control = kt_control(&daemon);
    const msgpack_object *reply, *entry, *status;
    struct kronosd_bars bars;
    struct kw_bar bar = kt_bar("AAA", "1m", 99);
    char text[96];

    CU_ASSERT_EQUAL_FATAL(kt_ask(control, "ping", NULL, NULL, &reply), 0);
    CU_ASSERT_TRUE(kronosd_get_uint(reply, "ep", 0) != 0);
    CU_ASSERT_EQUAL_FATAL(kt_ask(control, "version", NULL, NULL, &reply), 0);
    CU_ASSERT_TRUE(kronosd_get_string(kronosd_get(reply, "model"), "name", text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, "pico");
    CU_ASSERT_TRUE(kronosd_get_string(kronosd_get(reply, "model"), "sha256", text, sizeof(text)));
    CU_ASSERT_EQUAL(strlen(text), 64);
    CU_ASSERT_EQUAL_FATAL(kronosd_status(control, KT_WAIT_MS, &status, NULL), 0);
    CU_ASSERT_EQUAL(kronosd_get_uint(status, "accepted", 0), 100);
    CU_ASSERT_EQUAL_FATAL(kt_ask(control, "symbols", NULL, NULL, &reply), 0);
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(reply, "symbols")), 1);
    entry = &kronosd_get(reply, "symbols")->via.array.ptr[0];
    CU_ASSERT_TRUE(kronosd_get_string(entry, "state", text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, "live");
    CU_ASSERT_TRUE(kronosd_get_string(entry, "mode", text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, "anchored");
    CU_ASSERT_EQUAL(kronosd_get_int(entry, "row", -1), 99);
    CU_ASSERT_EQUAL(kronosd_get_int(kronosd_get(entry, "last"), "t", 0), bar.bar.t_ns);
    CU_ASSERT_TRUE(kronosd_get_uint(entry, "epoch", 0) >= 2);
    CU_ASSERT_EQUAL_FATAL(kronosd_snapshot(control, "AAA", "1m", KT_WAIT_MS, &status, NULL), 0);
    CU_ASSERT_EQUAL(kronosd_get_int(status, "as_of", 0), bar.bar.t_ns);
    CU_ASSERT_EQUAL(kronosd_get_uint(status, "seq", 0), 69);
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(status, "t")), 4);
    /* the last bars, and bars from a time on */
    CU_ASSERT_EQUAL_FATAL(
        kronosd_history(control, "AAA", "1m", KRONOSD_LAST, 10, KT_WAIT_MS, &bars, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(bars.n, 10);
    CU_ASSERT_EQUAL(bars.t_ns[9], bar.bar.t_ns);
    CU_ASSERT_EQUAL(bars.v[9][KR_CLOSE], bar.bar.v[KR_CLOSE]);
    kronosd_bars_free(&bars);
    CU_ASSERT_EQUAL_FATAL(kronosd_history(control, "AAA", "1m", bar.bar.t_ns - KT_MINUTE_NS, 1000,
                                          KT_WAIT_MS, &bars, NULL),
                          0);
    CU_ASSERT_EQUAL(bars.n, 2);
    kronosd_bars_free(&bars);
    REFUSED(control, kt_ask(control, "snapshot", "NONE", "1m", &reply), "not_found");
    REFUSED(control, kt_ask(control, "history", "AAA", "5m", &reply), "not_found");
    REFUSED(control, kt_ask(control, "snapshot", "A A", "1m", &reply), "bad_request");
    REFUSED(control, kt_ask(control, "snapshot", "AAA", "0m", &reply), "bad_request");
    REFUSED(control, kt_ask(control, "snapshot", NULL, NULL, &reply), "bad_request");
    REFUSED(control, kt_ask(control, "frobnicate", NULL, NULL, &reply), "unknown_op");
    kronosd_control_close(&control);
    kt_feed_close(&feed);
    end(&daemon);
}

/* History towards the daemon: an empty stream is warm at once; older bars join a live one. */
static void load(void)
{
    struct kt_daemon daemon;
    void *feed = begin(&daemon, "", 2);
    struct kronosd_control *control = kt_control(&daemon);
    struct kronosd_subscriber *forecasts = kt_subscribe(&daemon, "forecast|1m|NEW|");
    struct kronosd_message message;
    struct kr_error error = {""};
    int64_t t_ns[100];
    double v[100][KRONOSD_COLUMNS];
    struct kronosd_bars bars = {.n = 100, .t_ns = t_ns, .v = v};
    const msgpack_object *reply;
    uint64_t accepted;

    for (size_t i = 0; i < 100; i++) {
        struct kw_bar bar = kt_bar("NEW", "1m", i);

        t_ns[i] = bar.bar.t_ns;
        memcpy(v[i], bar.bar.v, sizeof(v[i]));
    }
    v[50][KR_VOLUME] = v[50][KR_AMOUNT] = NAN; /* missing */
    v[60][KR_HIGH] = 0;                        /* wrong */
    KT_CHECK(kronosd_load(control, "NEW", "1m", &bars, KT_WAIT_MS, NULL, NULL, &accepted, &error) ==
                 0,
             "%s", error.text);
    CU_ASSERT_EQUAL(accepted, 99);
    CU_ASSERT_TRUE(kt_receive(forecasts, &message)); /* without waiting for a bar */
    CU_ASSERT_EQUAL(kronosd_get_int(message.root, "as_of", 0), t_ns[99]);
    CU_ASSERT_EQUAL(kronosd_get_uint(message.root, "bars", 0), 64);
    feed_range(feed, "NEW", 100, 101);
    CU_ASSERT_TRUE(kt_receive(forecasts, &message));
    CU_ASSERT_EQUAL(kronosd_get_uint(message.root, "bars", 0), 65);
    /* again: all known */
    v[60][KR_HIGH] = v[60][KR_OPEN] * 2;
    CU_ASSERT_EQUAL(
        kronosd_load(control, "NEW", "1m", &bars, KT_WAIT_MS, NULL, NULL, &accepted, &error), 0);
    CU_ASSERT_EQUAL(accepted, 1);
    /* older than a live stream's first bar */
    for (size_t i = 0; i < 100; i++)
        t_ns[i] -= 200 * KT_MINUTE_NS;
    CU_ASSERT_EQUAL(
        kronosd_load(control, "AAA", "1m", &bars, KT_WAIT_MS, NULL, NULL, &accepted, &error), 0);
    CU_ASSERT_EQUAL(accepted, 100);
    CU_ASSERT_EQUAL_FATAL(kt_ask(control, "symbols", NULL, NULL, &reply), 0);
    CU_ASSERT_EQUAL(kronosd_get_uint(&kronosd_get(reply, "symbols")->via.array.ptr[0], "bars", 0),
                    102);
    /* reset: the stream is empty, and warms again */
    CU_ASSERT_EQUAL(kt_ask(control, "reset", "NEW", "1m", &reply), 0);
    REFUSED(control, kt_ask(control, "snapshot", "NEW", "1m", &reply), "no_forecast");
    feed_range(feed, "NEW", 0, 32);
    CU_ASSERT_TRUE(kt_receive(forecasts, &message));
    while (kronosd_get_int(message.root, "as_of", 0) != kt_bar("NEW", "1m", 31).bar.t_ns)
        if (!kt_receive(forecasts, &message))
            break;
    CU_ASSERT_EQUAL(kronosd_get_uint(message.root, "bars", 0), 32);
    kronosd_subscriber_close(&forecasts);
    kronosd_control_close(&control);
    kt_feed_close(&feed);
    end(&daemon);
}

static int ask_forecast(struct kronosd_control *control, const char *key, int64_t value,
                        const msgpack_object **ret)
{
    msgpack_packer *packer = kronosd_request_begin(control, "forecast", 3);
    struct kr_error error = {""};
    int status;

    kronosd_pack_string(packer, "sym", "AAA");
    kronosd_pack_string(packer, "iv", "1m");
    kronosd_pack_int(packer, key, value);
    status = kronosd_request(control, KT_WAIT_MS, ret, &error);
    if (status && status != -EREMOTEIO)
        kt_note("forecast: %s", error.text);
    return status;
}

static void forecasts(void)
{
    struct kt_daemon daemon;
    void *feed = begin(&daemon, "[limits] max_horizon = 6000\n[limits] max_paths = 100\n", 100);
    struct kronosd_control *control = kt_control(&daemon);
    const msgpack_object *reply, *forecast;
    char mode[16];

    CU_ASSERT_EQUAL_FATAL(ask_forecast(control, "paths", 7, &reply), 0);
    forecast = kronosd_get(reply, "forecast");
    CU_ASSERT_EQUAL(kronosd_get_uint(kronosd_get(forecast, "params"), "paths", 0), 7);
    CU_ASSERT_EQUAL(kronosd_get_uint(kronosd_get(forecast, "params"), "horizon", 0), 4);
    CU_ASSERT_TRUE(kronosd_get_string(forecast, "mode", mode, sizeof(mode)));
    CU_ASSERT_STRING_EQUAL(mode, "exact");
    CU_ASSERT_EQUAL(kronosd_get_uint(forecast, "bars", 0), 64);
    CU_ASSERT_EQUAL(kronosd_get_int(forecast, "as_of", 0), kt_bar("AAA", "1m", 99).bar.t_ns);
    CU_ASSERT_EQUAL_FATAL(ask_forecast(control, "lookback", 90, &reply), 0);
    CU_ASSERT_EQUAL(kronosd_get_uint(kronosd_get(reply, "forecast"), "bars", 0), 90);
    CU_ASSERT_EQUAL_FATAL(ask_forecast(control, "horizon", 200, &reply), 0); /* the window slides */
    forecast = kronosd_get(reply, "forecast");
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(forecast, "t")), 200);
    CU_ASSERT_TRUE(kt_holds(kronosd_get(forecast, "flags"), "window_slid"));
    REFUSED(control, ask_forecast(control, "horizon", 6001, &reply), "too_large");
    REFUSED(control, ask_forecast(control, "horizon", 0, &reply), "bad_request");
    REFUSED(control, ask_forecast(control, "paths", 101, &reply), "too_large");
    REFUSED(control, ask_forecast(control, "T", 0, &reply), "bad_request");
    REFUSED(control, ask_forecast(control, "lookback", 1000000, &reply), "too_large");
    kronosd_control_close(&control);
    kt_feed_close(&feed);
    end(&daemon);
}

/* A forecast of 5,000 bars runs while the feed is flooded: nothing is lost, every warm bar is forecast. */
static void long_forecast_in_a_flood(void)
{
    struct kt_daemon daemon;
    void *feed = begin(&daemon, "[model] max_context = 96\n", 64), *asker;
    struct kt_status status;
    msgpack_sbuffer request;
    msgpack_packer packer;
    msgpack_unpacked reply = {0};
    zmq_msg_t message;
    int wait = 10 * KT_WAIT_MS, linger = 0; /* slow under sanitizers */
    const msgpack_object *forecast;

    asker = zmq_socket(daemon.zmq, ZMQ_DEALER);
    zmq_setsockopt(asker, ZMQ_RCVTIMEO, &wait, sizeof(wait));
    zmq_setsockopt(asker, ZMQ_LINGER, &linger, sizeof(linger));
    CU_ASSERT_EQUAL_FATAL(zmq_connect(asker, daemon.control), 0);
    msgpack_sbuffer_init(&request);
    msgpack_packer_init(&packer, &request, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, 5);
    kronosd_pack_string(&packer, "op", "forecast");
    kronosd_pack_string(&packer, "sym", "AAA");
    kronosd_pack_string(&packer, "iv", "1m");
    kronosd_pack_int(&packer, "horizon", 5000);
    kronosd_pack_int(&packer, "paths", 1);
    CU_ASSERT_TRUE(zmq_send(asker, request.data, request.size, 0) > 0);
    msgpack_sbuffer_destroy(&request);
    /* requests are taken in order: with the answer to this one the other is under way */
    CU_ASSERT_TRUE(zmq_send(asker, "\x81\xa2op\xa4ping", 9, 0) == 9);
    zmq_msg_init(&message);
    CU_ASSERT_TRUE_FATAL(zmq_msg_recv(&message, asker, 0) > 0);
    CU_ASSERT_TRUE(zmq_msg_size(&message) < 100);
    for (size_t i = 0; i < 1000; i++) {
        static const char *const symbols[] = {"AAA", "BBB", "CCC"};

        for (size_t s = 0; s < 3; s++)
            feed_range(feed, symbols[s], s ? i : i + 64, (s ? i : i + 64) + 1);
    }
    CU_ASSERT_TRUE(kt_settled(&daemon, 3064, &status));
    CU_ASSERT_EQUAL(status.accepted, 3064);
    CU_ASSERT_EQUAL(status.forecasts, 1064 - 31 + 2 * (1000 - 31));
    CU_ASSERT_EQUAL(status.skipped, 0);
    CU_ASSERT_TRUE_FATAL(zmq_msg_recv(&message, asker, 0) > 0);
    msgpack_unpacked_init(&reply);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(zmq_msg_data(&message), zmq_msg_size(&message), &reply),
                          0);
    CU_ASSERT_TRUE(kronosd_get_bool(&reply.data, "ok", false));
    forecast = kronosd_get(&reply.data, "forecast");
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(forecast, "t")), 5000);
    CU_ASSERT_EQUAL(kronosd_get_int(forecast, "as_of", 0), kt_bar("AAA", "1m", 63).bar.t_ns);
    msgpack_unpacked_destroy(&reply);
    zmq_msg_close(&message);
    zmq_close(asker);
    kt_feed_close(&feed);
    end(&daemon);
}

/* Raw requests */

struct raw {
    void *socket;
    msgpack_unpacked reply;
    zmq_msg_t message;
};

static void raw_open(struct raw *raw, struct kt_daemon *daemon, int type)
{
    int wait = KT_WAIT_MS, linger = 0;

    raw->socket = zmq_socket(daemon->zmq, type);
    zmq_setsockopt(raw->socket, ZMQ_RCVTIMEO, &wait, sizeof(wait));
    zmq_setsockopt(raw->socket, ZMQ_LINGER, &linger, sizeof(linger));
    CU_ASSERT_EQUAL_FATAL(zmq_connect(raw->socket, daemon->control), 0);
    zmq_msg_init(&raw->message);
    msgpack_unpacked_init(&raw->reply);
}

static void raw_close(struct raw *raw)
{
    msgpack_unpacked_destroy(&raw->reply);
    zmq_msg_close(&raw->message);
    zmq_close(raw->socket);
}

/* The reply's map; its frames before the last are counted in *ret_frames. */
static const msgpack_object *raw_reply(struct raw *raw, int *ret_frames)
{
    *ret_frames = 0;
    do {
        if (zmq_msg_recv(&raw->message, raw->socket, 0) < 0) {
            CU_FAIL("no reply");
            return NULL;
        }
        ++*ret_frames;
    } while (zmq_msg_more(&raw->message));
    msgpack_unpacked_destroy(&raw->reply);
    if (kronosd_unpack(zmq_msg_data(&raw->message), zmq_msg_size(&raw->message), &raw->reply)) {
        CU_FAIL("a reply that is none");
        return NULL;
    }
    return &raw->reply.data;
}

static void check_refused(const msgpack_object *reply, const char *code)
{
    char text[32];

    CU_ASSERT_FALSE(kronosd_get_bool(reply, "ok", true));
    kronosd_get_string(kronosd_get(reply, "error"), "code", text, sizeof(text));
    KT_CHECK(strcmp(text, code) == 0, "code %s, expected %s", text, code);
}

static void hostile(void)
{
    static const struct {
        const char *data;
        size_t n;
        const char *code;
    } requests[] = {
        {"", 0, "bad_request"},
        {"\xc1", 1, "bad_request"},
        {"ping", 4, "bad_request"},
        {"\x93\x01\x02\x03", 4, "bad_request"},
        {"\x80", 1, "bad_request"},
        {"\xdf\xff\xff\xff\xff", 5, "bad_request"},
        {"\x81\xa2op\xdd\xff\xff\xff\xff", 9, "bad_request"},
        {"\x81\xa2op\xc6\x7f\xff\xff\xff", 9, "bad_request"},
        {"\x81\xa2op\x05", 5, "bad_request"},
        {"\x81\xa2op\xa4pong", 9, "unknown_op"},
        {"\x82\xa2op\xa4ping\xa2op\xa4ping", 17, "bad_request"},
        {"\x81\xa2op\xa4ping\x00", 10, "bad_request"},
        {"\x82\xa2op\xa4ping\xa2id\x91\x91\x91\x91\x91\xc0", 18, "bad_request"},
        {"\x82\xa2op\xa4ping\xa2id\x91\xc0", 14, "bad_request"},
        {"\x84\xa2op\xa4load\xa3sym\xa1X\xa2iv\xa2"
         "1m\xa1t\xc4\x07"
         "1234567",
         33, "bad_request"},
    };
    struct kt_daemon daemon;
    void *feed = begin(&daemon, "[limits] request_bytes = 64K\n", 1);
    struct raw raw;
    char *large = calloc(1, 1 << 17);
    int frames;

    raw_open(&raw, &daemon, ZMQ_DEALER);
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        CU_ASSERT_TRUE(zmq_send(raw.socket, requests[i].data, requests[i].n, 0) >= 0);
        check_refused(raw_reply(&raw, &frames), requests[i].code);
        CU_ASSERT_EQUAL(frames, 1);
    }
    /* frames that make no request */
    for (int i = 0; i < 50; i++)
        CU_ASSERT_TRUE(zmq_send(raw.socket, "x", 1, i < 49 ? ZMQ_SNDMORE : 0) == 1);
    check_refused(raw_reply(&raw, &frames), "bad_request");
    /* a message above the limit costs the connection, and nothing else */
    CU_ASSERT_TRUE(zmq_send(raw.socket, large, 1 << 17, 0) > 0);
    raw_close(&raw);
    free(large);
    raw_open(&raw, &daemon, ZMQ_DEALER);
    CU_ASSERT_TRUE(zmq_send(raw.socket, "\x81\xa2op\xa4ping", 9, 0) == 9);
    CU_ASSERT_TRUE(kronosd_get_bool(raw_reply(&raw, &frames), "ok", false));
    raw_close(&raw);
    kt_feed_close(&feed);
    end(&daemon);
}

/* REQ and DEALER, with and without a delimiter, with every kind of `id`. */
static void shapes(void)
{
    struct kt_daemon daemon;
    void *feed = begin(&daemon, "", 1);
    struct raw raw;
    const msgpack_object *reply, *id;
    int frames;

    raw_open(&raw, &daemon, ZMQ_REQ);
    CU_ASSERT_TRUE(zmq_send(raw.socket, "\x82\xa2op\xa4ping\xa2id\xcd\x01\x00", 15, 0) == 15);
    reply = raw_reply(&raw, &frames);
    CU_ASSERT_TRUE(kronosd_get_bool(reply, "ok", false));
    CU_ASSERT_EQUAL(kronosd_get_int(reply, "id", 0), 256);
    raw_close(&raw);
    raw_open(&raw, &daemon, ZMQ_DEALER);
    CU_ASSERT_TRUE(zmq_send(raw.socket, "\x82\xa2op\xa4ping\xa2id\xa2xy", 15, 0) == 15);
    reply = raw_reply(&raw, &frames);
    CU_ASSERT_EQUAL(frames, 1);
    id = kronosd_get(reply, "id");
    CU_ASSERT_TRUE(id && id->type == MSGPACK_OBJECT_STR && id->via.str.size == 2);
    /* with a delimiter, as REQ does */
    CU_ASSERT_TRUE(zmq_send(raw.socket, "", 0, ZMQ_SNDMORE) == 0);
    CU_ASSERT_TRUE(zmq_send(raw.socket, "\x81\xa2op\xa4ping", 9, 0) == 9);
    reply = raw_reply(&raw, &frames);
    CU_ASSERT_EQUAL(frames, 2);
    CU_ASSERT_TRUE(kronosd_get_bool(reply, "ok", false));
    CU_ASSERT_PTR_NULL(kronosd_get(reply, "id"));
    raw_close(&raw);
    kt_feed_close(&feed);
    end(&daemon);
}

/* Forecasts only where somebody listens; `every`; the paths themselves; settings of one stream. */
static void demand(void)
{
    struct kt_daemon daemon;
    void *feed = begin(&daemon,
                       "[forecast] on_demand = subscribed\n[stream BBB] every = 10\n"
                       "[stream BBB] on_demand = no\n[stream BBB] publish_paths = yes\n"
                       "[stream BBB] paths = 3\n",
                       50);
    struct kronosd_subscriber *forecasts, *paths;
    struct kronosd_message message;
    struct kt_status status;
    const msgpack_object *shape, *data;

    CU_ASSERT_TRUE(kt_settled(&daemon, 50, &status));
    CU_ASSERT_EQUAL(status.forecasts, 0);
    /* whoever subscribes gets one at once, and then all */
    forecasts = kt_subscribe(&daemon, "forecast|1m|AAA|");
    CU_ASSERT_TRUE(kt_receive(forecasts, &message));
    CU_ASSERT_EQUAL(message.seq, 1);
    CU_ASSERT_EQUAL(kronosd_get_int(message.root, "as_of", 0), kt_bar("AAA", "1m", 49).bar.t_ns);
    feed_range(feed, "AAA", 50, 52);
    CU_ASSERT_TRUE(kt_receive(forecasts, &message));
    CU_ASSERT_TRUE(kt_receive(forecasts, &message));
    CU_ASSERT_EQUAL(message.seq, 3);
    kronosd_subscriber_close(&forecasts);
    paths = kt_subscribe(&daemon, "paths|1m|BBB|");
    feed_range(feed, "BBB", 0, 60);
    for (uint64_t i = 0; i < 3; i++) { /* behind the 40th, 50th and 60th bar */
        CU_ASSERT_TRUE(kt_receive(paths, &message));
        CU_ASSERT_EQUAL(message.seq, i + 1);
        CU_ASSERT_EQUAL(kronosd_get_int(message.root, "as_of", 0),
                        kt_bar("BBB", "1m", 39 + 10 * i).bar.t_ns);
    }
    shape = kronosd_get(message.root, "shape");
    data = kronosd_get(message.root, "data");
    CU_ASSERT_EQUAL(kronosd_length(shape), 3);
    CU_ASSERT_EQUAL(kronosd_at_real(shape, 0), 3);
    CU_ASSERT_EQUAL(kronosd_at_real(shape, 1), 4);
    CU_ASSERT_TRUE(data && data->type == MSGPACK_OBJECT_BIN &&
                   data->via.bin.size == 3 * 4 * 6 * sizeof(float));
    kronosd_subscriber_close(&paths);
    CU_ASSERT_TRUE(kt_settled(&daemon, 112, &status));
    CU_ASSERT_EQUAL(status.forecasts, 6);
    kt_feed_close(&feed);
    end(&daemon);
}

static void reload_and_drain(void)
{
    struct kt_daemon daemon;
    void *feed = begin(&daemon, "", 1);
    struct kronosd_control *control = kt_control(&daemon);
    const msgpack_object *reply;

    CU_ASSERT_EQUAL(kt_ask(control, "reload", NULL, NULL, &reply), 0);
    kt_daemon_configure(&daemon, "[forecast] paths = none\n");
    REFUSED(control, kt_ask(control, "reload", NULL, NULL, &reply), "invalid");
    CU_ASSERT_EQUAL(kt_ask(control, "ping", NULL, NULL, &reply), 0);
    CU_ASSERT_EQUAL(kt_ask(control, "drain", NULL, NULL, &reply), 0);
    CU_ASSERT_TRUE(kt_daemon_notified(&daemon, "STOPPING=1"));
    kronosd_control_close(&control);
    kt_feed_close(&feed);
    end(&daemon); /* SIGTERM finds it gone or going: status 0 all the same */
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"ping version status symbols snapshot history", questions},
        {"load and reset", load},
        {"forecasts with other parameters", forecasts},
        {"a horizon of 5,000 in a flood of bars", long_forecast_in_a_flood},
        {"hostile requests", hostile},
        {"REQ, DEALER, ids", shapes},
        {"on_demand, every, paths", demand},
        {"reload and drain", reload_and_drain},
    };

    return kt_main("daemon_control", tests, sizeof(tests) / sizeof(tests[0]));
}
