/* SPDX-License-Identifier: MIT */
/* kronosctl feed and simulate --to, the real program over real sockets: nothing is lost to whoever listens,
 * however slowly; lines of JSON; the history socket. */
#include "clients/client.h"
#include "clients/ctl.h"
#include "clients/history.h"
#include "clients/wire.h"
#include "tests/clients/run.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define PATIENCE_MS                                                                                \
    20000 /* for what must come; a failing test waits so long, a passing one never */

static void *context;

/* "ipc://<temporary folder>/<name>" */
static const char *endpoint(const char *name)
{
    static char texts[4][600];
    static unsigned next;
    char *text = texts[next++ % 4];

    snprintf(text, sizeof(texts[0]), "ipc://%s/%s", kt_tmp(), name);
    return text;
}

/* A SUB that holds only few messages itself: the rest is the publisher's problem. */
static void *subscriber(const char *to, const char *topic, bool bind)
{
    void *socket = zmq_socket(context, ZMQ_SUB);
    int few = 10, patience = PATIENCE_MS, none = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(socket);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &few, sizeof(few));
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    CU_ASSERT_EQUAL_FATAL(bind ? zmq_bind(socket, to) : zmq_connect(socket, to), 0);
    return socket;
}

/* The next bar, as the daemon reads it. Return: false if none came. */
static bool receive(void *socket, struct kw_bar *ret, char topic[KW_TOPIC_MAX + 1])
{
    unsigned char data[4096];
    int n = zmq_recv(socket, topic, KW_TOPIC_MAX, 0), more = 0;
    size_t size = sizeof(more);
    enum kw_reason reason;

    if (n < 0)
        return false;
    topic[KR_MIN(n, KW_TOPIC_MAX)] = '\0';
    zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    CU_ASSERT_TRUE_FATAL(more);
    n = zmq_recv(socket, data, sizeof(data), 0);
    CU_ASSERT_FATAL(n > 0 && (size_t)n <= sizeof(data));
    reason = kw_decode_bar(data, (size_t)n, ret);
    KT_CHECK(reason == KW_ACCEPTED, "a bar that is %s", kw_reason_names[reason]);
    return reason == KW_ACCEPTED;
}

static const char *simulated(const char *bars, const char *seed)
{
    static char path[600];
    struct kt_run run =
        KT_RUN("simulate", "--bars", bars, "--seed", seed, "--output", kt_path("sim"));

    CU_ASSERT_EQUAL_FATAL(run.status, 0);
    kt_run_free(&run);
    snprintf(path, sizeof(path), "%s", kt_path("sim/SIM001-1m.csv"));
    return path;
}

#define MANY 40000 /* far more than all queues and buffers on the way hold */

static void slow_subscriber(void)
{
    const char *file = simulated("40000", "1"), *to = endpoint("slow");
    void *socket = subscriber(to, "bar|1m|", false);
    struct kt_child feed =
        KT_START("feed", file, "--symbol", "SLOW", "--interval", "1m", "--to", to);
    char topic[KW_TOPIC_MAX + 1];
    struct kw_bar bar;
    struct kt_run run;
    size_t n = 0, wrong = 0;
    uint64_t ep = 0;

    CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
    CU_ASSERT_STRING_EQUAL(topic, "bar|1m|SLOW|");
    CU_ASSERT_STRING_EQUAL(bar.symbol, "SLOW");
    CU_ASSERT_EQUAL(bar.seq, 1);
    CU_ASSERT_TRUE(bar.final);
    ep = bar.ep;
    /* Nobody reads: it must wait, not drop. */
    CU_ASSERT_FALSE(kt_ended(&feed, 400));
    for (n = 1; n < MANY && receive(socket, &bar, topic); n++)
        wrong += bar.seq != n + 1 || bar.ep != ep ||
                 bar.bar.t_ns != INT64_C(1704067200000000000) + (int64_t)n * INT64_C(60000000000);
    CU_ASSERT_EQUAL(n, MANY);
    KT_CHECK(wrong == 0, "%zu bars out of order", wrong);
    run = kt_finish(&feed);
    CU_ASSERT_EQUAL(run.status, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "sent 40000 bars"));
    kt_run_free(&run);
    zmq_close(socket);
}

/* What a file says arrives as it stands, in open times whatever the stamps. */
static void content(void)
{
    static const char text[] = "time,open,high,low,close,volume\n"
                               "2026-03-02 09:05:00,1.5,2.25,1.25,2,7\n"
                               "2026-03-02 09:10:00,2,2,2,2,\n";
    const int64_t five = INT64_C(300000000000),
                  first = INT64_C(1772438700000000000); /* 08:05 UTC */
    static const struct {
        const char *stamp, *send;
        int64_t shift;
    } cases[] = {
        {"open", "open", 0}, {"close", "open", -1}, {"close", "close", 0}, {"open", "close", 1}};
    const char *file = kt_path("content.csv");

    kt_put(file, text, strlen(text));
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        const char *to = endpoint("content");
        void *socket = subscriber(to, "bar|", false);
        struct kt_child feed =
            KT_START("feed", file, "--symbol", "X", "--interval", "5m", "--to", to, "--timezone",
                     "Europe/Berlin", "--stamp", cases[i].stamp, "--send-stamp", cases[i].send);
        char topic[KW_TOPIC_MAX + 1];
        struct kw_bar bar;
        struct kt_run run;

        CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
        CU_ASSERT_EQUAL(bar.bar.t_ns, first + cases[i].shift * five);
        CU_ASSERT_EQUAL(bar.bar.v[KR_OPEN], 1.5);
        CU_ASSERT_EQUAL(bar.bar.v[KR_HIGH], 2.25);
        CU_ASSERT_EQUAL(bar.bar.v[KR_LOW], 1.25);
        CU_ASSERT_EQUAL(bar.bar.v[KR_CLOSE], 2);
        CU_ASSERT_EQUAL(bar.bar.v[KR_VOLUME], 7);
        CU_ASSERT_EQUAL(bar.bar.v[KR_AMOUNT], 7 * 1.75);
        CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
        CU_ASSERT_EQUAL(bar.seq, 2);
        CU_ASSERT_EQUAL(bar.bar.v[KR_VOLUME], 0);
        run = kt_finish(&feed);
        CU_ASSERT_EQUAL(run.status, 0);
        kt_run_free(&run);
        zmq_close(socket);
    }
}

/* The subscriber binds, the feed connects. */
static void connecting(void)
{
    const char *file = simulated("100", "2"), *to = endpoint("connect");
    void *socket = subscriber(to, "bar|1m|C|", true);
    struct kt_child feed =
        KT_START("feed", file, "--symbol", "C", "--interval", "1m", "--to", to, "--connect");
    char topic[KW_TOPIC_MAX + 1];
    struct kw_bar bar;
    struct kt_run run;
    size_t n = 0;

    while (n < 100 && receive(socket, &bar, topic))
        n++;
    CU_ASSERT_EQUAL(n, 100);
    run = kt_finish(&feed);
    CU_ASSERT_EQUAL(run.status, 0);
    kt_run_free(&run);
    zmq_close(socket);
}

static void nobody(void)
{
    const char *file = simulated("100", "2"), *to = endpoint("nobody");
    void *socket = subscriber(to, "forecast|", false); /* not to bars */
    struct kt_run run =
        KT_RUN("feed", file, "--symbol", "C", "--interval", "1m", "--to", to, "--wait", "300ms");

    CU_ASSERT_EQUAL(run.status, 75);
    CU_ASSERT_TRUE(kt_one_line(run.err));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.err, to));
    kt_run_free(&run);
    run = KT_RUN("feed", "/nonexistent.csv", "--symbol", "C", "--interval", "1m", "--to", to);
    CU_ASSERT_EQUAL(run.status, 66);
    kt_run_free(&run);
    zmq_close(socket);
}

static void address_in_use(void)
{
    const char *file = simulated("100", "2");
    void *socket = zmq_socket(context, ZMQ_PUB);
    char taken[128];
    size_t size = sizeof(taken);
    struct kt_run run;

    CU_ASSERT_EQUAL_FATAL(zmq_bind(socket, "tcp://127.0.0.1:*"), 0);
    zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, taken, &size);
    run = KT_RUN("feed", file, "--symbol", "C", "--interval", "1m", "--to", taken);
    CU_ASSERT_EQUAL(run.status, 69);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.err, "cannot bind"));
    kt_run_free(&run);
    zmq_close(socket);
}

/* The subscriber leaves: the feed holds. Another one comes: it goes on from where it was. */
static void subscriber_returns(void)
{
    const char *file = simulated("40000", "1"), *to = endpoint("return");
    void *socket = subscriber(to, "bar|1m|", false);
    struct kt_child feed = KT_START("feed", file, "--symbol", "R", "--interval", "1m", "--to", to);
    char topic[KW_TOPIC_MAX + 1];
    struct kw_bar bar = {.seq = 0};
    struct kt_run run;
    uint64_t last;

    for (int i = 0; i < 100; i++)
        CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
    zmq_close(socket);
    socket = subscriber(to, "bar|1m|", false);
    CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
    CU_ASSERT_TRUE(bar.seq > 100);
    do {
        last = bar.seq;
        if (!receive(socket, &bar, topic))
            break;
        KT_CHECK(bar.seq == last + 1, "after %llu came %llu", (unsigned long long)last,
                 (unsigned long long)bar.seq);
    } while (bar.seq < MANY);
    CU_ASSERT_EQUAL(bar.seq, MANY);
    run = kt_finish(&feed);
    CU_ASSERT_EQUAL(run.status, 0);
    kt_run_free(&run);
    zmq_close(socket);
}

static void interrupted(void)
{
    const char *file = simulated("100", "2"), *to = endpoint("interrupt");
    void *socket = subscriber(to, "bar|", false);
    struct kt_child feed = KT_START("feed", file, "--symbol", "I", "--interval", "1m", "--to", to,
                                    "--speed", "realtime");
    char topic[KW_TOPIC_MAX + 1];
    struct kw_bar bar;
    struct kt_run run;

    CU_ASSERT_TRUE(receive(socket, &bar, topic));
    kill(feed.pid, SIGINT); /* a minute before the second bar */
    run = kt_finish(&feed);
    CU_ASSERT_EQUAL(run.status, 130);
    CU_ASSERT_TRUE(kt_one_line(run.err));
    kt_run_free(&run);
    zmq_close(socket);
}

/* JSON lines */

static void json_lines(void)
{
    static const char good[] = "{\"sym\":\"A\",\"iv\":\"1m\",\"t\":1704067200000000000,\"o\":1,"
                               "\"h\":2,\"l\":0.5,\"c\":1.5,\"vol\":3}\n"
                               "\n"
                               "{\"t\":1704067200000000001,\"o\":1,\"h\":2,\"l\":0.5,\"c\":1.5,"
                               "\"fin\":false,\"rev\":4,\"syn\":true}\n"
                               "{\"sym\":\"A\",\"iv\":\"1m\",\"t\":1704067260000000000,\"o\":1,"
                               "\"h\":2,\"l\":0.5,\"c\":1.5,\"seq\":9,\"ep\":5}\n"
                               "{\"sym\":\"A\",\"iv\":\"1m\",\"t\":1704067320000000000,\"o\":1,"
                               "\"h\":2,\"l\":0.5,\"c\":1.5,\"other\":[1]}\n";
    const char *to = endpoint("lines");
    void *socket = subscriber(to, "bar|", false);
    struct kt_child feed =
        KT_START("feed", "--stdin", "--symbol", "B", "--interval", "5m", "--to", to);
    char topic[KW_TOPIC_MAX + 1];
    struct kw_bar bar;
    struct kt_run run;
    uint64_t ep;

    kt_write(&feed, good);
    CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
    CU_ASSERT_STRING_EQUAL(topic, "bar|1m|A|");
    CU_ASSERT_EQUAL(bar.seq, 1);
    CU_ASSERT_EQUAL(bar.bar.v[KR_VOLUME], 3);
    CU_ASSERT_EQUAL(bar.bar.rev, 0);
    ep = bar.ep;
    CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
    CU_ASSERT_STRING_EQUAL(topic, "bar|5m|B|");
    CU_ASSERT_EQUAL(bar.seq, 1);
    CU_ASSERT_EQUAL(bar.ep, ep);
    CU_ASSERT_EQUAL(bar.bar.t_ns, INT64_C(1704067200000000001));
    CU_ASSERT_FALSE(bar.final);
    CU_ASSERT_TRUE(bar.bar.synthetic);
    CU_ASSERT_EQUAL(bar.bar.rev, 4);
    CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
    CU_ASSERT_EQUAL(bar.seq, 9);
    CU_ASSERT_EQUAL(bar.ep, 5);
    CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
    CU_ASSERT_EQUAL(bar.seq, 10);
    CU_ASSERT_EQUAL(bar.ep, ep);
    /* the last line need not end */
    kt_write(&feed, "{\"t\":1704067500000000000,\"o\":1,\"h\":2,\"l\":0.5,\"c\":1.5}");
    kt_close_input(&feed);
    CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
    CU_ASSERT_EQUAL(bar.seq, 2);
    run = kt_finish(&feed);
    KT_CHECK(run.status == 0, "%s", run.err);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "sent 5 bars"));
    kt_run_free(&run);
    zmq_close(socket);
}

static void bad_lines(void)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        {"{\"t\":1,\"o\":1,\"h\":2,\"l\":0.5}", "c: expected a number, found none"},
        {"{\"t\":1.5,\"o\":1,\"h\":2,\"l\":0.5,\"c\":1}", "t: expected an integer"},
        {"{\"o\":1,\"h\":2,\"l\":0.5,\"c\":1}", "t: expected nanoseconds since 1970, found none"},
        {"{\"t\":1,\"o\":\"1\",\"h\":2,\"l\":0.5,\"c\":1}", "o: expected a number"},
        {"{\"t\":1,\"t\":2,\"o\":1,\"h\":2,\"l\":0.5,\"c\":1}", "expected JSON"},
        {"{\"t\":1,\"o\":1,\"h\":2,\"l\":0.5,\"c\":1,\"sym\":\"a b\"}", "sym: expected"},
        {"{\"t\":1,\"o\":1,\"h\":2,\"l\":0.5,\"c\":1,\"iv\":\"5\"}", "iv: expected"},
        {"{\"t\":1,\"o\":1,\"h\":2,\"l\":0.5,\"c\":1,\"fin\":1}", "fin: expected true or false"},
        {"[1]", "expected an object"},
        {"nonsense", "expected JSON"},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        const char *to = endpoint("bad");
        void *socket = subscriber(to, "bar|", false);
        struct kt_child feed =
            KT_START("feed", "--stdin", "--symbol", "B", "--interval", "5m", "--to", to);
        char topic[KW_TOPIC_MAX + 1];
        struct kw_bar bar;
        struct kt_run run;

        kt_write(&feed, "{\"t\":1704067500000000000,\"o\":1,\"h\":2,\"l\":0.5,\"c\":1.5}\n");
        kt_write(&feed, cases[i].line);
        kt_write(&feed, "\n");
        /* what stood before it is sent all the same */
        CU_ASSERT_TRUE(receive(socket, &bar, topic));
        run = kt_finish(&feed);
        KT_CHECK(run.status == 65, "status %d: %s", run.status, run.err);
        CU_ASSERT_TRUE(kt_one_line(run.err));
        KT_CHECK(strstr(run.err, "stdin: line 2: ") && strstr(run.err, cases[i].words), "%s",
                 run.err);
        kt_run_free(&run);
        zmq_close(socket);
    }
}

static void long_line(void)
{
    const char *to = endpoint("long");
    void *socket = subscriber(to, "bar|", false);
    struct kt_child feed =
        KT_START("feed", "--stdin", "--symbol", "B", "--interval", "5m", "--to", to);
    char *text = malloc(70001);
    struct kt_run run;

    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    memset(text, 'x', 70000);
    text[70000] = '\0';
    kt_write(&feed, text);
    free(text);
    run = kt_finish(&feed);
    CU_ASSERT_EQUAL(run.status, 65);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.err, "line 1: expected at most 65536 bytes"));
    kt_run_free(&run);
    zmq_close(socket);
}

/* History */

static void history(void)
{
    const char *file = simulated("3000", "4"), *to = endpoint("bars"), *where = endpoint("history");
    void *socket = subscriber(to, "bar|", false);
    struct kt_child feed = KT_START("feed", file, "--symbol", "H", "--interval", "1m", "--to", to,
                                    "--history", where, "--stay");
    const int64_t minute = INT64_C(60000000000), t0 = INT64_C(1704067200000000000);
    struct kronosd_control *control = NULL;
    const msgpack_object *reply;
    struct kronosd_bars bars = {0};
    struct kr_error error = {""};
    char topic[KW_TOPIC_MAX + 1];
    struct kw_bar bar, third = {.seq = 0};
    struct kt_run run;
    size_t wrong = 0;

    for (int i = 0; i < 3000; i++) {
        CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
        if (i == 2)
            third = bar;
    }
    CU_ASSERT_EQUAL_FATAL(kronosd_control_open(context, where, &control, &error), 0);
    /* page after page, from a time between two bars */
    KT_CHECK(kronosd_history(control, "H", "1m", t0 + 1, 5000, PATIENCE_MS, &bars, &error) == 0,
             "%s", error.text);
    CU_ASSERT_EQUAL_FATAL(bars.n, 2999);
    for (size_t i = 0; i < bars.n; i++)
        wrong += bars.t_ns[i] != t0 + (int64_t)(i + 1) * minute;
    CU_ASSERT_EQUAL(wrong, 0);
    CU_ASSERT_EQUAL(bars.v[1][KR_CLOSE], third.bar.v[KR_CLOSE]);
    CU_ASSERT_EQUAL(bars.v[1][KR_AMOUNT], third.bar.v[KR_AMOUNT]);
    kronosd_bars_free(&bars);
    CU_ASSERT_EQUAL(
        kronosd_history(control, "H", "1m", KRONOSD_LAST, 10, PATIENCE_MS, &bars, &error), 0);
    CU_ASSERT_EQUAL_FATAL(bars.n, 10);
    CU_ASSERT_EQUAL(bars.t_ns[9], t0 + 2999 * minute);
    kronosd_bars_free(&bars);
    CU_ASSERT_EQUAL(
        kronosd_history(control, "H", "1m", t0 + 3000 * minute, 10, PATIENCE_MS, &bars, &error), 0);
    CU_ASSERT_EQUAL(bars.n, 0);
    kronosd_bars_free(&bars);
    CU_ASSERT_EQUAL(
        kronosd_history(control, "other", "1m", KRONOSD_LAST, 10, PATIENCE_MS, &bars, &error),
        -EREMOTEIO);
    CU_ASSERT_STRING_EQUAL(kronosd_control_code(control), "not_found");
    kronosd_request_begin(control, "ping", 0);
    CU_ASSERT_EQUAL(kronosd_request(control, PATIENCE_MS, &reply, &error), 0);
    kronosd_request_begin(control, "status", 0);
    CU_ASSERT_EQUAL(kronosd_request(control, PATIENCE_MS, &reply, &error), -EREMOTEIO);
    CU_ASSERT_STRING_EQUAL(kronosd_control_code(control), "unknown_op");
    kronosd_control_close(&control);
    CU_ASSERT_FALSE(kt_ended(&feed, 0));
    kill(feed.pid, SIGTERM);
    run = kt_finish(&feed);
    CU_ASSERT_EQUAL(run.status, 0);
    kt_run_free(&run);
    zmq_close(socket);
}

/* Bars in any order, again, and more than are kept. */
static void history_order(void)
{
    struct kc_history history = {0};
    double v[KR_COLUMNS] = {0};
    msgpack_sbuffer buffer;
    msgpack_packer packer;

    for (int64_t t = 10; t > 0; t--) {
        v[KR_CLOSE] = (double)t;
        CU_ASSERT_EQUAL(kc_history_add(&history, t * 100, v), 0);
    }
    v[KR_CLOSE] = 77;
    CU_ASSERT_EQUAL(kc_history_add(&history, 500, v), 0);
    CU_ASSERT_EQUAL_FATAL(history.n, 10);
    for (size_t i = 0; i < 10; i++) {
        CU_ASSERT_EQUAL(history.bars[i].t_ns, (int64_t)(i + 1) * 100);
        CU_ASSERT_EQUAL(history.bars[i].v[KR_CLOSE], i == 4 ? 77 : (double)(i + 1));
    }
    for (int64_t t = 11; t <= KC_HISTORY_BARS + 1; t++)
        if (kc_history_add(&history, t * 100, v) != 0)
            CU_FAIL_FATAL("no room");
    CU_ASSERT_EQUAL(history.n, KC_HISTORY_BARS * 3 / 4 + 1);
    CU_ASSERT_EQUAL(history.bars[history.n - 1].t_ns, (KC_HISTORY_BARS + 1) * INT64_C(100));
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    kc_history_pack(&history, true, INT64_MIN, SIZE_MAX, &packer); /* a page, no more */
    CU_ASSERT_TRUE(buffer.size > KC_HISTORY_PAGE * 56 && buffer.size < KC_HISTORY_PAGE * 56 + 64);
    msgpack_sbuffer_destroy(&buffer);
    kc_history_free(&history);
}

/* A REQ's empty delimiter comes back; what is no request is answered as such, or not at all. */
static void history_frames(void)
{
    static const unsigned char ping[] = "\x82\xa2op\xa4ping\xa2id\x07", nonsense[] = "\xc1";
    const char *to = endpoint("frames"), *where = endpoint("frames-history");
    void *socket = subscriber(to, "bar|", false), *req = zmq_socket(context, ZMQ_REQ);
    void *dealer = zmq_socket(context, ZMQ_DEALER);
    struct kt_child feed = KT_START("feed", "--stdin", "--symbol", "H", "--interval", "1m", "--to",
                                    to, "--history", where);
    int patience = PATIENCE_MS, none = 0;
    char reply[256];
    struct kt_run run;
    int n;

    zmq_setsockopt(req, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(dealer, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(req, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(dealer, ZMQ_LINGER, &none, sizeof(none));
    CU_ASSERT_EQUAL_FATAL(zmq_connect(req, where), 0);
    CU_ASSERT_EQUAL_FATAL(zmq_connect(dealer, where), 0);
    zmq_send(req, ping, sizeof(ping) - 1, 0);
    n = zmq_recv(req, reply, sizeof(reply), 0);
    if (n != 9) {
        kt_note("a reply of %d bytes: %s", n, n < 0 ? zmq_strerror(errno) : "");
        run = kt_finish(&feed);
        kt_note("feed: status %d, %s", run.status, run.err);
        CU_FAIL_FATAL("no reply");
    }
    CU_ASSERT_EQUAL(memcmp(reply, "\x82\xa2ok\xc3\xa2id\x07", 9), 0);
    for (int i = 0; i < 5; i++) /* more frames than a request has: dropped whole */
        zmq_send(dealer, "x", 1, i < 4 ? ZMQ_SNDMORE : 0);
    zmq_send(dealer, nonsense, 1, 0);
    n = zmq_recv(dealer, reply, sizeof(reply) - 1, 0);
    CU_ASSERT_FATAL(n > 0);
    reply[n] = '\0';
    CU_ASSERT_PTR_NOT_NULL(memmem(reply, (size_t)n, "bad_request", 11));
    run = kt_finish(&feed);
    CU_ASSERT_EQUAL(run.status, 0);
    kt_run_free(&run);
    zmq_close(req);
    zmq_close(dealer);
    zmq_close(socket);
}

/* Several markets as one feed, bar by bar beside each other. */
static void simulated_feed(void)
{
    const char *to = endpoint("simulate");
    void *socket = subscriber(to, "bar|", false);
    struct kt_child feed = KT_START("simulate", "--symbols", "3", "--bars", "50", "--seed", "9",
                                    "--interval", "5m", "--to", to, "--speed", "1e9");
    struct kt_run files = KT_RUN("simulate", "--bars", "1", "--seed", "9", "--interval", "5m"), run;
    char topic[KW_TOPIC_MAX + 1], expected[KW_TOPIC_MAX + 1];
    double open = NAN;
    struct kw_bar bar;

    CU_ASSERT_EQUAL(sscanf(files.out, "%*[^\n]\n%*[^,],%lf", &open), 1);
    for (int i = 0; i < 150; i++) {
        CU_ASSERT_TRUE_FATAL(receive(socket, &bar, topic));
        snprintf(expected, sizeof(expected), "bar|5m|SIM%03d|", i % 3 + 1);
        CU_ASSERT_STRING_EQUAL(topic, expected);
        CU_ASSERT_EQUAL(bar.seq, (uint64_t)(i / 3 + 1));
        if (i == 0) /* the same as in a file */
            CU_ASSERT_EQUAL(bar.bar.v[KR_OPEN], open);
    }
    run = kt_finish(&feed);
    CU_ASSERT_EQUAL(run.status, 0);
    kt_run_free(&run);
    kt_run_free(&files);
    zmq_close(socket);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"a slow subscriber loses nothing", slow_subscriber},
        {"bars as they stand, stamps of both kinds", content},
        {"connecting to a bound subscriber", connecting},
        {"no subscriber: status 75", nobody},
        {"an address in use: status 69", address_in_use},
        {"a subscriber that leaves and returns", subscriber_returns},
        {"JSON lines", json_lines},
        {"bad lines are named", bad_lines},
        {"a line without an end", long_line},
        {"history in pages", history},
        {"history in order", history_order},
        {"history frames", history_frames},
        {"an interrupted feed: status 130", interrupted},
        {"simulated markets as a feed", simulated_feed},
    };
    int status;

    context = zmq_ctx_new();
    status = kt_main("feed", tests, KR_ARRAY_LENGTH(tests));
    if (status == 0) /* a failed test may have left a socket open */
        zmq_ctx_term(context);
    return status;
}
