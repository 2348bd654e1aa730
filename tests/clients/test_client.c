/* SPDX-License-Identifier: MIT */
/* The client library against real sockets, in one thread: the other side's messages are sent before
 * they are waited for, each after the connection is known to stand. */
#include "clients/client.h"
#include "clients/client_socket.h"
#include "clients/encoder.h"
#include "clients/wire.h"
#include "tests/tap.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#define PATIENCE_MS 20000 /* for what must happen; never reached when all is well */

static void *zmq;

/* A fresh endpoint in the test's folder. */
static const char *fresh_endpoint(void)
{
    static char endpoint[128];
    static unsigned n;

    snprintf(endpoint, sizeof(endpoint), "ipc://%s/%u", kt_tmp(), n++);
    return endpoint;
}

static void *bound(int type, const char *endpoint)
{
    void *socket = zmq_socket(zmq, type);
    int patience = PATIENCE_MS, none = 0, yes = 1;

    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(socket, ZMQ_SNDTIMEO, &patience, sizeof(patience));
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
    if (type == ZMQ_XPUB)
        zmq_setsockopt(socket, ZMQ_XPUB_VERBOSE, &yes, sizeof(yes));
    CU_ASSERT_EQUAL_FATAL(zmq_bind(socket, endpoint), 0);
    return socket;
}

/* ---- Subscriptions ---- */

struct report {
    char text[1024]; /* what the callbacks said, in order */
    size_t n;
};

static void on_gap(void *context, const char *topic, uint64_t ep, uint64_t expected, uint64_t got)
{
    struct report *report = context;

    report->n +=
        (size_t)snprintf(report->text + report->n, sizeof(report->text) - report->n,
                         "gap %s %" PRIu64 " %" PRIu64 "-%" PRIu64 "; ", topic, ep, expected, got);
}

static void on_restart(void *context, const char *topic, uint64_t old_ep, uint64_t new_ep)
{
    struct report *report = context;

    report->n += (size_t)snprintf(report->text + report->n, sizeof(report->text) - report->n,
                                  "restart %s %" PRIu64 "-%" PRIu64 "; ", topic, old_ep, new_ep);
}

/* Wait until the publisher has got that many subscription messages of the kind (1: on, 0: off). */
static void await_subscription(void *xpub, int kind)
{
    char buffer[128];
    int n;

    do
        n = zmq_recv(xpub, buffer, sizeof(buffer), 0);
    while (n > 0 && buffer[0] != kind);
    CU_ASSERT_TRUE_FATAL(n > 0);
}

/* A publisher and a subscriber that is connected to it. */
static struct kronosd_subscriber *follow(void **ret_xpub, struct kronosd_subscriber_config *config)
{
    const char *endpoint = fresh_endpoint();
    struct kronosd_subscriber *subscriber = NULL;

    *ret_xpub = bound(ZMQ_XPUB, endpoint);
    config->endpoints = &endpoint;
    config->n_endpoints = 1;
    CU_ASSERT_EQUAL_FATAL(kronosd_subscriber_open(zmq, config, &subscriber, NULL), 0);
    await_subscription(*ret_xpub, 1);
    return subscriber;
}

static void publish_bytes(void *xpub, const char *topic, const void *data, size_t n)
{
    CU_ASSERT_TRUE(zmq_send(xpub, topic, strlen(topic), ZMQ_SNDMORE) >= 0);
    CU_ASSERT_TRUE(zmq_send(xpub, data, n, 0) >= 0);
}

static void publish(void *xpub, const char *topic, uint64_t ep, uint64_t seq)
{
    struct kw_encoder encoder;
    msgpack_sbuffer out;

    msgpack_sbuffer_init(&out);
    kw_begin(&encoder, &out, 3);
    kw_put_uint(&encoder, "ep", ep);
    kw_put_uint(&encoder, "seq", seq);
    kw_put_text(&encoder, "x", topic);
    CU_ASSERT_EQUAL(kw_end(&encoder), 0);
    publish_bytes(xpub, topic, out.data, out.size);
    msgpack_sbuffer_destroy(&out);
}

/* The next message must be this one. */
static void expect(struct kronosd_subscriber *subscriber, const char *topic, uint64_t ep,
                   uint64_t seq)
{
    struct kronosd_message message;
    struct kr_error error = {""};
    char x[80];

    CU_ASSERT_EQUAL_FATAL(kronosd_receive(subscriber, PATIENCE_MS, &message, &error), 0);
    KT_CHECK(strcmp(message.topic, topic) == 0 && message.ep == ep && message.seq == seq,
             "expected %s %" PRIu64 " %" PRIu64 ", found %s %" PRIu64 " %" PRIu64, topic, ep, seq,
             message.topic, message.ep, message.seq);
    CU_ASSERT_TRUE(message.numbered);
    CU_ASSERT_TRUE(kronosd_get_string(message.root, "x", x, sizeof(x)) && strcmp(x, topic) == 0);
}

#define A "forecast|5m|A|"
#define B "forecast|5m|B|"

static void duplicates_gaps_restarts(void)
{
    static const struct {
        const char *topic;
        uint64_t ep, seq;
        bool delivered;
    } sent[] = {
        {A, 1, 7, true},  {B, 1, 1, true}, {A, 1, 7, false}, {A, 1, 8, true},
        {A, 1, 11, true}, {B, 1, 2, true}, {A, 1, 9, false}, {A, 1, 11, false},
        {A, 2, 1, true},  {A, 2, 2, true}, {A, 2, 1, false}, {A, UINT64_MAX, 3, true},
        {B, 1, 2, false}, {B, 1, 4, true},
    };
    struct report report = {.n = 0};
    struct kronosd_subscriber_config config = {
        .on_gap = on_gap,
        .on_restart = on_restart,
        .context = &report,
    };
    const struct kronosd_counts *counts;
    struct kronosd_message message;
    void *xpub;
    struct kronosd_subscriber *subscriber = follow(&xpub, &config);

    for (size_t i = 0; i < KR_ARRAY_LENGTH(sent); i++)
        publish(xpub, sent[i].topic, sent[i].ep, sent[i].seq);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(sent); i++)
        if (sent[i].delivered)
            expect(subscriber, sent[i].topic, sent[i].ep, sent[i].seq);
    CU_ASSERT_EQUAL(kronosd_receive(subscriber, 0, &message, NULL), -ETIMEDOUT);
    CU_ASSERT_STRING_EQUAL(report.text, "gap " A " 1 9-11; restart " A " 1-2; restart " A
                                        " 2-18446744073709551615; gap " A
                                        " 18446744073709551615 1-3; gap " B " 1 3-4; ");
    counts = kronosd_subscriber_counts(subscriber);
    CU_ASSERT_EQUAL(counts->received, KR_ARRAY_LENGTH(sent));
    CU_ASSERT_EQUAL(counts->duplicates, 5);
    CU_ASSERT_EQUAL(counts->gaps, 3);
    CU_ASSERT_EQUAL(counts->lost, 2 + 2 + 1);
    CU_ASSERT_EQUAL(counts->restarts, 2);
    CU_ASSERT_EQUAL(counts->malformed + counts->untracked, 0);
    kronosd_subscriber_close(&subscriber);
    CU_ASSERT_PTR_NULL(subscriber);
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub);
}

static void parts_of_a_message(void)
{
    static const char data[] = "\x82\xa2"
                               "ep\x05\xa1"
                               "c\xcb\x3f\xf8\0\0\0\0\0\0"; /* no seq: not numbered */
    struct kronosd_subscriber_config config = {0};
    struct kronosd_message message;
    void *xpub;
    struct kronosd_subscriber *subscriber = follow(&xpub, &config);

    for (int i = 0; i < 2; i++)
        publish_bytes(xpub, "event|15m|BTC/USDT:perp|", data, sizeof(data) - 1);
    publish_bytes(xpub, "status|||", data, sizeof(data) - 1);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(kronosd_receive(subscriber, PATIENCE_MS, &message, NULL), 0);
        CU_ASSERT_STRING_EQUAL(message.topic, "event|15m|BTC/USDT:perp|");
        CU_ASSERT_STRING_EQUAL(message.kind, "event");
        CU_ASSERT_STRING_EQUAL(message.interval, "15m");
        CU_ASSERT_STRING_EQUAL(message.symbol, "BTC/USDT:perp");
        CU_ASSERT_FALSE(message.numbered);
        CU_ASSERT_EQUAL(message.ep, 0);
        CU_ASSERT_EQUAL_FATAL(message.n_bytes, sizeof(data) - 1);
        CU_ASSERT_EQUAL(memcmp(message.data, data, message.n_bytes), 0);
        CU_ASSERT_EQUAL(kronosd_get_real(message.root, "c", 0), 1.5);
    }
    CU_ASSERT_EQUAL_FATAL(kronosd_receive(subscriber, -1, &message, NULL), 0);
    CU_ASSERT_STRING_EQUAL(message.kind, "status");
    CU_ASSERT_STRING_EQUAL(message.interval, "");
    CU_ASSERT_STRING_EQUAL(message.symbol, "");
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub);
}

static void malformed_messages(void)
{
    static const char good[] = "\x80";
    static const struct {
        const char *topic, *data;
        size_t n;
    } bad[] = {
        {A, "\xdd\xff\xff\xff\xff", 5},
        {A, "\xdf\xff\xff\xff\xff", 5},
        {A, "\x81\xa1", 2},
        {A, "", 0},
        {A, "\x90", 1},     /* no map */
        {A, "\x80\x80", 2}, /* trailing */
        {A, "\x82\xa1x\x01\xa1x\x02", 7},
        {"", good, 1},
        {"forecast", good, 1},
        {"forecast|5m|A", good, 1},
        {"forecast|5m|A|x", good, 1},
        {"|5m|A|", good, 1},
        {"forecast|5m|A B|", good, 1},
        {"forecast|5m|A\033[2J|", good, 1},
        {"forecast|123456789|A|", good, 1},
        {"forecast|5m|012345678901234567890123456789012|", good, 1},
        {"forecast|5m|0123456789012345678901234567890123456789012345678901|", good, 1},
    };
    struct kronosd_subscriber_config config = {0};
    void *xpub;
    struct kronosd_subscriber *subscriber = follow(&xpub, &config);

    for (size_t i = 0; i < KR_ARRAY_LENGTH(bad); i++)
        publish_bytes(xpub, bad[i].topic, bad[i].data, bad[i].n);
    zmq_send(xpub, A, strlen(A), 0); /* one frame */
    zmq_send(xpub, A, strlen(A), ZMQ_SNDMORE);
    zmq_send(xpub, good, 1, ZMQ_SNDMORE);
    zmq_send(xpub, good, 1, 0); /* three */
    publish(xpub, A, 1, 1);
    expect(subscriber, A, 1, 1);
    CU_ASSERT_EQUAL(kronosd_subscriber_counts(subscriber)->malformed, KR_ARRAY_LENGTH(bad) + 2);
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub);
}

/* More topics than are remembered come through, duplicates too. */
static void too_many_topics(void)
{
    struct kronosd_subscriber_config config = {.max_topics = 2};
    void *xpub;
    struct kronosd_subscriber *subscriber = follow(&xpub, &config);
    static const char *const topics[] = {"a|||", "b|||", "c|||"};

    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < KR_ARRAY_LENGTH(topics); i++)
            publish(xpub, topics[i], 1, 1);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(topics); i++)
        expect(subscriber, topics[i], 1, 1);
    expect(subscriber, "c|||", 1, 1);
    CU_ASSERT_EQUAL(kronosd_subscriber_counts(subscriber)->untracked, 2);
    CU_ASSERT_EQUAL(kronosd_subscriber_counts(subscriber)->duplicates, 2);
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub);
}

/* Every topic keeps its own count, however many share the table. */
static void many_topics(void)
{
    struct report report = {.n = 0};
    struct kronosd_subscriber_config config = {
        .max_topics = 300, .on_gap = on_gap, .context = &report};
    void *xpub;
    struct kronosd_subscriber *subscriber = follow(&xpub, &config);
    char topic[32];

    for (unsigned round = 1; round <= 3; round++)
        for (unsigned i = 0; i < 300; i++) {
            snprintf(topic, sizeof(topic), "score|1h|S%u|", i);
            publish(xpub, topic, 1, round + (round == 3 && i == 299));
            expect(subscriber, topic, 1, round + (round == 3 && i == 299));
        }
    CU_ASSERT_STRING_EQUAL(report.text, "gap score|1h|S299| 1 3-4; ");
    CU_ASSERT_EQUAL(kronosd_subscriber_counts(subscriber)->untracked, 0);
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub);
}

/* A message beyond the limit costs the connection, which must come back: ZeroMQ gives it up. */
static void too_large_a_message(void)
{
    struct kronosd_subscriber_config config = {.max_message_bytes = 1000};
    char *large = calloc(1, 2000);
    unsigned rounds = PATIENCE_MS / 50;
    struct kronosd_message message;
    void *xpub;
    struct kronosd_subscriber *subscriber = follow(&xpub, &config);

    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    publish_bytes(xpub, A, large, 2000);
    await_subscription(xpub, 0);
    while (zmq_recv(xpub, large, 1, ZMQ_DONTWAIT) < 0 && rounds-- > 0)
        CU_ASSERT_EQUAL(kronosd_receive(subscriber, 50, &message, NULL), -ETIMEDOUT);
    CU_ASSERT_EQUAL_FATAL(large[0], 1);
    publish(xpub, A, 1, 1);
    expect(subscriber, A, 1, 1);
    CU_ASSERT_EQUAL(kronosd_subscriber_counts(subscriber)->received, 1);
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub);
    free(large);
}

/* Of two connections the one that broke comes back, whatever the other does. */
static void one_of_two_lost(void)
{
    char endpoints[2][128];
    const char *const pointers[] = {endpoints[0], endpoints[1]};
    struct kronosd_subscriber_config config = {
        .endpoints = pointers, .n_endpoints = 2, .max_message_bytes = 1000};
    struct kronosd_subscriber *subscriber = NULL;
    struct kronosd_message message;
    char *large = calloc(1, 2000);
    unsigned rounds = PATIENCE_MS / 50;
    void *xpub[2];

    for (int i = 0; i < 2; i++) {
        strcpy(endpoints[i], fresh_endpoint());
        xpub[i] = bound(ZMQ_XPUB, endpoints[i]);
    }
    CU_ASSERT_EQUAL_FATAL(kronosd_subscriber_open(zmq, &config, &subscriber, NULL), 0);
    await_subscription(xpub[0], 1);
    await_subscription(xpub[1], 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    publish_bytes(xpub[0], A, large, 2000);
    await_subscription(xpub[0], 0);
    publish(xpub[1], B, 1, 1);
    expect(subscriber, B, 1, 1);
    while (zmq_recv(xpub[0], large, 1, ZMQ_DONTWAIT) < 0 && rounds-- > 0)
        CU_ASSERT_EQUAL(kronosd_receive(subscriber, 50, &message, NULL), -ETIMEDOUT);
    CU_ASSERT_EQUAL_FATAL(large[0], 1);
    publish(xpub[0], A, 1, 1);
    expect(subscriber, A, 1, 1);
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub[0]);
    zmq_close(xpub[1]);
    free(large);
}

static void change_topics(void)
{
    static const char *const topics[] = {"forecast|5m|"};
    struct kronosd_subscriber_config config = {.topics = topics, .n_topics = 1};
    char longest[KRONOSD_TOPIC_MAX + 2];
    void *xpub;
    struct kronosd_subscriber *subscriber = follow(&xpub, &config);

    publish(xpub, "forecast|1h|A|", 1, 1);
    publish(xpub, A, 1, 1);
    expect(subscriber, A, 1, 1);
    CU_ASSERT_EQUAL(kronosd_subscribe(subscriber, "forecast|1h|", NULL), 0);
    await_subscription(xpub, 1);
    publish(xpub, "forecast|1h|A|", 1, 2);
    expect(subscriber, "forecast|1h|A|", 1, 2);
    CU_ASSERT_EQUAL(kronosd_unsubscribe(subscriber, "forecast|5m|", NULL), 0);
    await_subscription(xpub, 0);
    publish(xpub, A, 1, 2);
    publish(xpub, "forecast|1h|A|", 1, 3);
    expect(subscriber, "forecast|1h|A|", 1, 3);
    memset(longest, 'x', sizeof(longest));
    longest[KRONOSD_TOPIC_MAX + 1] = '\0';
    CU_ASSERT_EQUAL(kronosd_subscribe(subscriber, longest, NULL), -EINVAL);
    longest[KRONOSD_TOPIC_MAX] = '\0';
    CU_ASSERT_EQUAL(kronosd_subscribe(subscriber, longest, NULL), 0);
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub);
}

static int option(void *socket, int name)
{
    int value = -99;
    size_t size = sizeof(value);

    CU_ASSERT_EQUAL(zmq_getsockopt(socket, name, &value, &size), 0);
    return value;
}

/* Those that lose messages or abort processes when they are forgotten. */
static void socket_options(void)
{
    struct kronosd_subscriber_config config = {.queue = 77};
    int64_t limit = 0;
    size_t size = sizeof(limit);
    void *xpub;
    struct kronosd_subscriber *subscriber = follow(&xpub, &config);
    void *socket = kronosd_subscriber_socket(subscriber);

    CU_ASSERT_EQUAL(option(socket, ZMQ_TYPE), ZMQ_SUB);
    CU_ASSERT_EQUAL(option(socket, ZMQ_RCVHWM), 77);
    CU_ASSERT_EQUAL(option(socket, ZMQ_SNDHWM), 0);
    CU_ASSERT_EQUAL(option(socket, ZMQ_HEARTBEAT_IVL), 0);
    CU_ASSERT_EQUAL(option(socket, ZMQ_LINGER), 0);
    CU_ASSERT_EQUAL(option(socket, ZMQ_TCP_KEEPALIVE), 1);
    CU_ASSERT_EQUAL(zmq_getsockopt(socket, ZMQ_MAXMSGSIZE, &limit, &size), 0);
    CU_ASSERT_EQUAL(limit, 64 << 20);
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub);
}

static void open_errors(void)
{
    static const char *const nowhere[] = {"nowhere://x"};
    struct kronosd_subscriber_config config = {0};
    struct kronosd_subscriber *subscriber = NULL;
    struct kronosd_control *control = NULL;
    struct kr_error error;

    CU_ASSERT_EQUAL(kronosd_subscriber_open(zmq, &config, &subscriber, &error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error.text, "subscriber: expected an endpoint, found none");
    config.endpoints = nowhere;
    config.n_endpoints = 1;
    CU_ASSERT_EQUAL(kronosd_subscriber_open(zmq, &config, &subscriber, &error), -EPROTONOSUPPORT);
    CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "nowhere://x"));
    CU_ASSERT_EQUAL(kronosd_subscriber_open(NULL, &config, &subscriber, NULL), -EFAULT);
    CU_ASSERT_PTR_NULL(subscriber);
    CU_ASSERT_EQUAL(kronosd_control_open(zmq, "tcp://", &control, NULL), -EINVAL);
    CU_ASSERT_PTR_NULL(control);
}

static void on_alarm(int number)
{
    (void)number;
}

static void interrupted(void)
{
    struct sigaction action = {.sa_handler = on_alarm}, old;
    struct itimerval often = {{0, 20000}, {0, 20000}}, off = {0};
    struct kronosd_subscriber_config config = {0};
    struct kronosd_message message;
    void *xpub;
    struct kronosd_subscriber *subscriber = follow(&xpub, &config);

    sigaction(SIGALRM, &action, &old);
    setitimer(ITIMER_REAL, &often, NULL);
    CU_ASSERT_EQUAL(kronosd_receive(subscriber, -1, &message, NULL), -EINTR);
    setitimer(ITIMER_REAL, &off, NULL);
    sigaction(SIGALRM, &old, NULL);
    publish(xpub, A, 1, 1);
    expect(subscriber, A, 1, 1);
    kronosd_subscriber_close(&subscriber);
    zmq_close(xpub);
}

/* ---- Control ---- */

/* A daemon's side that talks before it listens: a DEALER, since a ROUTER cannot. */
struct daemon {
    void *socket;
    char endpoint[128];
};

static struct kronosd_control *ask(struct daemon *ret)
{
    struct kronosd_control *control = NULL;

    strcpy(ret->endpoint, fresh_endpoint());
    ret->socket = bound(ZMQ_DEALER, ret->endpoint);
    CU_ASSERT_EQUAL_FATAL(kronosd_control_open(zmq, ret->endpoint, &control, NULL), 0);
    return control;
}

static void finish(struct daemon *daemon, struct kronosd_control **control)
{
    kronosd_control_close(control);
    CU_ASSERT_PTR_NULL(*control);
    kronosd_control_close(control);
    zmq_close(daemon->socket);
}

/* A reply that will be waiting. */
static void answer(struct daemon *daemon, const char *data, size_t n)
{
    CU_ASSERT_EQUAL(zmq_send(daemon->socket, data, n, 0), (int)n);
}
#define ANSWER(daemon, bytes) answer(daemon, bytes, sizeof(bytes) - 1)

/* The request that came. Destroy `ret` and close `frame` afterwards. */
static const msgpack_object *asked(struct daemon *daemon, zmq_msg_t *frame, msgpack_unpacked *ret)
{
    zmq_msg_init(frame);
    msgpack_unpacked_init(ret);
    CU_ASSERT_TRUE_FATAL(zmq_msg_recv(frame, daemon->socket, 0) >= 0);
    CU_ASSERT_FALSE(zmq_msg_more(frame));
    CU_ASSERT_EQUAL(kw_check(zmq_msg_data(frame), zmq_msg_size(frame), KW_MAX_DEPTH), 0);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(zmq_msg_data(frame), zmq_msg_size(frame), ret), 0);
    return &ret->data;
}

/* The next request is these bytes. */
static void expect_request(struct daemon *daemon, const char *data, size_t n)
{
    zmq_msg_t frame;

    zmq_msg_init(&frame);
    CU_ASSERT_TRUE_FATAL(zmq_msg_recv(&frame, daemon->socket, 0) >= 0);
    CU_ASSERT_EQUAL_FATAL(zmq_msg_size(&frame), n);
    CU_ASSERT_EQUAL(memcmp(zmq_msg_data(&frame), data, n), 0);
    zmq_msg_close(&frame);
}
#define EXPECT_REQUEST(daemon, bytes) expect_request(daemon, bytes, sizeof(bytes) - 1)

#define OK  "\xa2ok\xc3"
#define NOT "\xa2ok\xc2"
#define ID  "\xa2id"

static int ping(struct kronosd_control *control, int timeout_ms, struct kr_error *error)
{
    const msgpack_object *reply;

    kronosd_request_begin(control, "ping", 0);
    return kronosd_request(control, timeout_ms, &reply, error);
}

static void request_and_reply(void)
{
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);
    const msgpack_object *reply;
    msgpack_packer *packer;

    ANSWER(&daemon, "\x83" ID "\x01" OK "\xa1x\x07");
    packer = kronosd_request_begin(control, "forecast", 3);
    kronosd_pack_string(packer, "sym", "A");
    kronosd_pack_int(packer, "horizon", 300);
    kronosd_pack_real(packer, "T", 0.5);
    CU_ASSERT_EQUAL_FATAL(kronosd_request(control, PATIENCE_MS, &reply, NULL), 0);
    CU_ASSERT_EQUAL(kronosd_get_uint(reply, "x", 0), 7);
    EXPECT_REQUEST(&daemon, "\x85\xa2op\xa8"
                            "forecast" ID "\x01\xa3sym\xa1"
                            "A\xa7horizon\xcd\x01\x2c\xa1T\xcb\x3f\xe0\0\0\0\0\0\0");
    /* behind an empty delimiter, as a REQ socket would be answered */
    zmq_send(daemon.socket, "", 0, ZMQ_SNDMORE);
    ANSWER(&daemon, "\x82" ID "\x02" OK);
    CU_ASSERT_EQUAL(ping(control, -1, NULL), 0);
    EXPECT_REQUEST(&daemon, "\x82\xa2op\xa4ping" ID "\x02");
    finish(&daemon, &control);
}

/* Replies that are not ours are passed over. */
static void other_replies(void)
{
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);

    ANSWER(&daemon, "\x83" ID "\x00" NOT "\xa5"
                    "error\x80");
    ANSWER(&daemon, "\x82\xa2id\xa1"
                    "1" OK);    /* an id of another kind */
    ANSWER(&daemon, "\x81" OK); /* an answer to nobody */
    ANSWER(&daemon, "\x82" ID "\x01" OK);
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, NULL), 0);
    finish(&daemon, &control);
}

static void refusals(void)
{
    static const struct {
        const char *data;
        size_t n;
        const char *code, *text;
    } cases[] = {
#define CASE(bytes, code, text) {bytes, sizeof(bytes) - 1, code, text}
        CASE("\x83" ID "\x01" NOT "\xa5"
             "error\x82\xa4"
             "code\xa4"
             "busy\xa3msg\xa5later",
             "busy", "busy: later"),
        CASE("\x82" NOT "\xa5"
             "error\x81\xa4"
             "code\xab"
             "bad_request",
             "bad_request", "bad_request"), /* no id: it could not be read */
        CASE("\x82" ID "\x03" NOT, "", "refused without a reason"),
        CASE("\x83" ID "\x04" NOT "\xa5"
             "error\x82\xa4"
             "code\x05\xa3msg\xa3"
             "a\nb",
             "", "refused without a reason: a?b"),
    };
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);
    struct kr_error error;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        answer(&daemon, cases[i].data, cases[i].n);
        CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, &error), -EREMOTEIO);
        CU_ASSERT_STRING_EQUAL(error.text, cases[i].text);
        CU_ASSERT_STRING_EQUAL(kronosd_control_code(control), cases[i].code);
    }
    ANSWER(&daemon, "\x82" ID "\x05" OK);
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, &error), 0);
    CU_ASSERT_STRING_EQUAL(kronosd_control_code(control), "");
    finish(&daemon, &control);
}

static void hostile_replies(void)
{
    static const struct {
        const char *data;
        size_t n;
    } cases[] = {
        {"\xdd\xff\xff\xff\xff", 5},     {"\xdf\xff\xff\xff\xff", 5}, {"", 0}, {"\xc0", 1},
        {"\x82\xa2ok\xc3\xa2ok\xc3", 9}, {"\x81\xa2ok\xc3\xc0", 6},
    };
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);
    uint8_t nest[155];

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        answer(&daemon, cases[i].data, cases[i].n);
        KT_CHECK(ping(control, PATIENCE_MS, NULL) == -EBADMSG, "case %zu", i);
    }
    for (size_t i = 0; i < sizeof(nest); i++)
        nest[i] = i % 5 ? 0xff : 0xdd;
    answer(&daemon, (const char *)nest, sizeof(nest));
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, NULL), -EBADMSG);
    zmq_send(daemon.socket, "x", 1, ZMQ_SNDMORE);
    ANSWER(&daemon, "\x82" ID "\x08" OK);
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, NULL), -EBADMSG);
    ANSWER(&daemon, "\x82" ID "\x09\xa2ok\x01");
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, NULL), -EBADMSG);
    finish(&daemon, &control);
}

static void wrong_requests(void)
{
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);
    const msgpack_object *reply;

    CU_ASSERT_EQUAL(kronosd_request(control, 0, &reply, NULL), -EINVAL);
    kronosd_request_begin(control, "snapshot", 2);
    CU_ASSERT_EQUAL(kronosd_request(control, 0, &reply, NULL), -EINVAL);
    kronosd_pack_int(kronosd_request_begin(control, "snapshot", 0), "x", 1);
    CU_ASSERT_EQUAL(kronosd_request(control, 0, &reply, NULL), -EINVAL);
    finish(&daemon, &control);
}

static void symbols(void)
{
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);
    struct kronosd_symbol *list = NULL;
    size_t n = 99;

    ANSWER(&daemon, "\x83" ID "\x01" OK "\xa7symbols\x92"
                    "\x88\xa3sym\xa3"
                    "BTC\xa2iv\xa2"
                    "5m\xa5state\xa4live"
                    "\xa4last\x83\xa1t\xce\x10\0\0\0\xa3rev\x02\xa1"
                    "c\xcb\x3f\xf8\0\0\0\0\0\0"
                    "\xa3row\xd0\xf0\xa4mode\xa8"
                    "anchored\xa5"
                    "epoch\x05\xa3"
                    "cal\xa7warming"
                    "\x81\xa3sym\xa1"
                    "E");
    CU_ASSERT_EQUAL_FATAL(kronosd_symbols(control, PATIENCE_MS, &list, &n, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(n, 2);
    CU_ASSERT_STRING_EQUAL(list[0].symbol, "BTC");
    CU_ASSERT_STRING_EQUAL(list[0].interval, "5m");
    CU_ASSERT_STRING_EQUAL(list[0].state, "live");
    CU_ASSERT_STRING_EQUAL(list[0].mode, "anchored");
    CU_ASSERT_STRING_EQUAL(list[0].cal, "warming");
    CU_ASSERT_TRUE(list[0].has_last);
    CU_ASSERT_EQUAL(list[0].last_t_ns, 0x10000000);
    CU_ASSERT_EQUAL(list[0].last_rev, 2);
    CU_ASSERT_EQUAL(list[0].last_close, 1.5);
    CU_ASSERT_EQUAL(list[0].row, -16);
    CU_ASSERT_EQUAL(list[0].epoch, 5);
    CU_ASSERT_STRING_EQUAL(list[1].symbol, "E");
    CU_ASSERT_STRING_EQUAL(list[1].state, "");
    CU_ASSERT_FALSE(list[1].has_last);
    EXPECT_REQUEST(&daemon, "\x82\xa2op\xa7symbols" ID "\x01");
    free(list);
    ANSWER(&daemon, "\x83" ID "\x02" OK "\xa7symbols\x90");
    CU_ASSERT_EQUAL(kronosd_symbols(control, PATIENCE_MS, &list, &n, NULL), 0);
    CU_ASSERT_EQUAL(n, 0);
    CU_ASSERT_PTR_NULL(list);
    EXPECT_REQUEST(&daemon, "\x82\xa2op\xa7symbols" ID "\x02");
    /* two pages */
    ANSWER(&daemon, "\x84" ID "\x03" OK "\xa7symbols\x92\x81\xa3sym\xa1"
                    "A\x81\xa3sym\xa1"
                    "B\xa4more\xc3");
    ANSWER(&daemon, "\x84" ID "\x04" OK "\xa7symbols\x91\x81\xa3sym\xa1"
                    "C\xa4more\xc2");
    CU_ASSERT_EQUAL_FATAL(kronosd_symbols(control, PATIENCE_MS, &list, &n, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(n, 3);
    CU_ASSERT_STRING_EQUAL(list[0].symbol, "A");
    CU_ASSERT_STRING_EQUAL(list[1].symbol, "B");
    CU_ASSERT_STRING_EQUAL(list[2].symbol, "C");
    free(list);
    EXPECT_REQUEST(&daemon, "\x82\xa2op\xa7symbols" ID "\x03");
    EXPECT_REQUEST(&daemon, "\x83\xa2op\xa7symbols" ID "\x04\xa4"
                            "from\x02");
    ANSWER(&daemon, "\x83" ID "\x05" OK "\xa7symbols\x91\x01");
    CU_ASSERT_EQUAL(kronosd_symbols(control, PATIENCE_MS, &list, &n, NULL), -EBADMSG);
    ANSWER(&daemon, "\x82" ID "\x06" OK);
    CU_ASSERT_EQUAL(kronosd_symbols(control, PATIENCE_MS, &list, &n, NULL), -EBADMSG);
    CU_ASSERT_EQUAL(n, 3);
    finish(&daemon, &control);
}

/* A page: bars t0, t0 + 10, ... with values 100 t + column. */
static void answer_page(struct daemon *daemon, uint64_t id, int64_t t0, size_t n, bool more)
{
    int64_t t[16];
    double v[16][KRONOSD_COLUMNS];
    struct kw_encoder encoder;
    msgpack_sbuffer out;

    for (size_t i = 0; i < n; i++) {
        t[i] = t0 + 10 * (int64_t)i;
        for (int c = 0; c < KRONOSD_COLUMNS; c++)
            v[i][c] = 100 * (double)t[i] + c;
    }
    msgpack_sbuffer_init(&out);
    kw_begin(&encoder, &out, 5);
    kw_put_uint(&encoder, "id", id);
    kw_put_bool(&encoder, "ok", true);
    kw_put_bytes(&encoder, "bars", v, n * sizeof(v[0]));
    kw_put_bytes(&encoder, "t", t, n * sizeof(t[0]));
    kw_put_bool(&encoder, "more", more);
    CU_ASSERT_EQUAL(kw_end(&encoder), 0);
    answer(daemon, out.data, out.size);
    msgpack_sbuffer_destroy(&out);
}

static void history(void)
{
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);
    struct kronosd_bars bars = {0};

    answer_page(&daemon, 1, 50, 3, true);
    answer_page(&daemon, 2, 80, 2, false);
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 45, 10, PATIENCE_MS, &bars, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(bars.n, 5);
    for (size_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(bars.t_ns[i], 50 + 10 * (int64_t)i);
        for (int c = 0; c < KRONOSD_COLUMNS; c++)
            CU_ASSERT_EQUAL(bars.v[i][c], 100 * (50 + 10 * (double)i) + c);
    }
    EXPECT_REQUEST(&daemon, "\x86\xa2op\xa7history" ID "\x01\xa3sym\xa1"
                            "A\xa2iv\xa2"
                            "5m\xa4"
                            "from\x2d\xa1n\x0a");
    EXPECT_REQUEST(&daemon, "\x86\xa2op\xa7history" ID "\x02\xa3sym\xa1"
                            "A\xa2iv\xa2"
                            "5m\xa4"
                            "from\x47\xa1n\x07");
    kronosd_bars_free(&bars);
    CU_ASSERT_PTR_NULL(bars.t_ns);

    /* as many as were asked for are enough, whatever else there is */
    answer_page(&daemon, 3, 50, 2, true);
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 50, 2, PATIENCE_MS, &bars, NULL), 0);
    CU_ASSERT_EQUAL(bars.n, 2);
    kronosd_bars_free(&bars);
    EXPECT_REQUEST(&daemon, "\x86\xa2op\xa7history" ID "\x03\xa3sym\xa1"
                            "A\xa2iv\xa2"
                            "5m\xa4"
                            "from\x32\xa1n\x02");
    /* the last ones: the first page without `from`, those behind it with */
    answer_page(&daemon, 4, 50, 2, true);
    answer_page(&daemon, 5, 70, 1, false);
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", KRONOSD_LAST, 9, PATIENCE_MS, &bars, NULL),
                    0);
    CU_ASSERT_EQUAL_FATAL(bars.n, 3);
    CU_ASSERT_EQUAL(bars.t_ns[2], 70);
    kronosd_bars_free(&bars);
    EXPECT_REQUEST(&daemon, "\x85\xa2op\xa7history" ID "\x04\xa3sym\xa1"
                            "A\xa2iv\xa2"
                            "5m\xa1n"
                            "\x09");
    EXPECT_REQUEST(&daemon, "\x86\xa2op\xa7history" ID "\x05\xa3sym\xa1"
                            "A\xa2iv\xa2"
                            "5m\xa4"
                            "from\x3d\xa1n\x07");
    /* none, although more are promised: no endless asking */
    answer_page(&daemon, 6, 50, 0, true);
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 50, 2, PATIENCE_MS, &bars, NULL), 0);
    CU_ASSERT_EQUAL(bars.n, 0);
    CU_ASSERT_PTR_NULL(bars.t_ns);
    finish(&daemon, &control);
}

static void hostile_history(void)
{
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);
    struct kronosd_bars bars = {.n = 77};

    answer_page(&daemon, 1, 50, 3, false); /* more than asked for */
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 50, 2, PATIENCE_MS, &bars, NULL), -EBADMSG);
    answer_page(&daemon, 2, 50, 2, false); /* earlier than asked for */
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 51, 9, PATIENCE_MS, &bars, NULL), -EBADMSG);
    answer_page(&daemon, 3, 50, 2, true); /* the same page again and again */
    answer_page(&daemon, 4, 50, 2, true);
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 50, 9, PATIENCE_MS, &bars, NULL), -EBADMSG);
    ANSWER(&daemon, "\x84" ID "\x05" OK "\xa1t\xc4\x08"
                    "01234567\xa4"
                    "bars\xc4\x08"
                    "01234567");
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 50, 9, PATIENCE_MS, &bars, NULL), -EBADMSG);
    ANSWER(&daemon, "\x84" ID "\x06" OK "\xa1t\xc4\x07"
                    "0123456\xa4"
                    "bars\xc4\x00");
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 50, 9, PATIENCE_MS, &bars, NULL), -EBADMSG);
    ANSWER(&daemon, "\x84" ID "\x07" OK "\xa1t\x90\xa4"
                    "bars\x90");
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 50, 9, PATIENCE_MS, &bars, NULL), -EBADMSG);
    ANSWER(&daemon, "\x82" ID "\x08" OK);
    CU_ASSERT_EQUAL(kronosd_history(control, "A", "5m", 50, 9, PATIENCE_MS, &bars, NULL), -EBADMSG);
    CU_ASSERT_EQUAL(bars.n, 77); /* untouched */
    finish(&daemon, &control);
}

static void on_progress(void *context, size_t done, size_t total)
{
    struct report *report = context;

    report->n += (size_t)snprintf(report->text + report->n, sizeof(report->text) - report->n,
                                  "%zu/%zu ", done, total);
}

static void load(void)
{
    enum { N = 2 * KRONOSD_CHUNK + 3 };
    static int64_t t_ns[N];
    static double v[N][KRONOSD_COLUMNS];
    const struct kronosd_bars bars = {N, t_ns, v};
    struct report report = {.n = 0};
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);
    uint64_t accepted = 99;

    for (size_t i = 0; i < N; i++) {
        t_ns[i] = (int64_t)i - 5;
        for (int c = 0; c < KRONOSD_COLUMNS; c++)
            v[i][c] = c == KRONOSD_COLUMNS - 1 ? NAN : (double)i + c;
    }
    ANSWER(&daemon, "\x83" ID "\x01" OK "\xa8"
                    "accepted\xcd\x04\x00");
    ANSWER(&daemon, "\x83" ID "\x02" OK "\xa8"
                    "accepted\x05");
    ANSWER(&daemon, "\x83" ID "\x03" OK "\xa8"
                    "accepted\x03");
    CU_ASSERT_EQUAL(
        kronosd_load(control, "A", "5m", &bars, PATIENCE_MS, on_progress, &report, &accepted, NULL),
        0);
    CU_ASSERT_EQUAL(accepted, 1024 + 5 + 3);
    CU_ASSERT_STRING_EQUAL(report.text, "1024/2051 2048/2051 2051/2051 ");
    for (size_t chunk = 0; chunk < 3; chunk++) {
        size_t first = chunk * KRONOSD_CHUNK, n = KR_MIN((size_t)N - first, KRONOSD_CHUNK);
        msgpack_unpacked unpacked;
        zmq_msg_t frame;
        const msgpack_object *request = asked(&daemon, &frame, &unpacked);
        const msgpack_object *t = kronosd_get(request, "t");
        const msgpack_object *values = kronosd_get(request, "bars");
        char op[16];

        CU_ASSERT_TRUE(kronosd_get_string(request, "op", op, sizeof(op)));
        CU_ASSERT_STRING_EQUAL(op, "load");
        CU_ASSERT_EQUAL(request->via.map.size, 7);
        CU_ASSERT_EQUAL(kronosd_get_bool(request, "more", chunk == 2), chunk < 2);
        CU_ASSERT_EQUAL_FATAL(t->via.bin.size, n * 8);
        CU_ASSERT_EQUAL_FATAL(values->via.bin.size, n * 48);
        CU_ASSERT_EQUAL(memcmp(t->via.bin.ptr, t_ns + first, n * 8), 0);
        CU_ASSERT_EQUAL(memcmp(values->via.bin.ptr, v + first, n * 48), 0);
        msgpack_unpacked_destroy(&unpacked);
        zmq_msg_close(&frame);
    }
    /* refused in the second chunk: the first counts */
    ANSWER(&daemon, "\x83" ID "\x04" OK "\xa8"
                    "accepted\x02");
    ANSWER(&daemon, "\x82" ID "\x05" NOT);
    CU_ASSERT_EQUAL(
        kronosd_load(control, "A", "5m", &bars, PATIENCE_MS, NULL, NULL, &accepted, NULL),
        -EREMOTEIO);
    CU_ASSERT_EQUAL(accepted, 2);
    finish(&daemon, &control);
}

static void snapshot_and_status(void)
{
    struct daemon daemon;
    struct kronosd_control *control = ask(&daemon);
    const msgpack_object *map;
    struct kr_error error;

    ANSWER(&daemon, "\x83" ID "\x01" OK "\xa8"
                    "forecast\x81\xa3seq\x05");
    CU_ASSERT_EQUAL_FATAL(kronosd_snapshot(control, "A", "5m", PATIENCE_MS, &map, NULL), 0);
    CU_ASSERT_EQUAL(kronosd_get_uint(map, "seq", 0), 5);
    EXPECT_REQUEST(&daemon, "\x84\xa2op\xa8snapshot" ID "\x01\xa3sym\xa1"
                            "A\xa2iv\xa2"
                            "5m");
    ANSWER(&daemon, "\x83" ID "\x02" OK "\xa6status\x81\xa3seq\x06");
    CU_ASSERT_EQUAL_FATAL(kronosd_status(control, PATIENCE_MS, &map, NULL), 0);
    CU_ASSERT_EQUAL(kronosd_get_uint(map, "seq", 0), 6);
    EXPECT_REQUEST(&daemon, "\x82\xa2op\xa6status" ID "\x02");
    ANSWER(&daemon, "\x82" ID "\x03" OK);
    CU_ASSERT_EQUAL(kronosd_status(control, PATIENCE_MS, &map, &error), -EBADMSG);
    CU_ASSERT_STRING_EQUAL(error.text, "status: reply: expected a map `status`");
    finish(&daemon, &control);
}

/* A true ROUTER, which needs to hear from us first, in a thread of its own. */
struct router {
    void *socket;
    bool moody; /* silent at request 2, too large a reply to request 4 */
    atomic_bool stop;
    pthread_t thread;
};

/* One request, which ends with its id. */
static void answer_one(struct router *router, zmq_msg_t *identity)
{
    char reply[] = "\x82" ID "\x00" OK;
    zmq_msg_t request;
    char id;

    zmq_msg_init(&request);
    if (zmq_msg_recv(&request, router->socket, 0) <= 0)
        return;
    id = ((const char *)zmq_msg_data(&request))[zmq_msg_size(&request) - 1];
    zmq_msg_close(&request);
    if (router->moody && id == 2)
        return;
    zmq_msg_send(identity, router->socket, ZMQ_SNDMORE);
    if (router->moody && id == 4) {
        zmq_msg_init_size(&request, KRONOSD_MESSAGE_BYTES + 1);
        memset(zmq_msg_data(&request), 0, KRONOSD_MESSAGE_BYTES + 1);
        zmq_msg_send(&request, router->socket, 0);
    } else {
        reply[4] = id;
        zmq_send(router->socket, reply, sizeof(reply) - 1, 0);
    }
}

static void *serve(void *argument)
{
    struct router *router = argument;
    zmq_msg_t identity;

    while (!atomic_load(&router->stop)) {
        zmq_msg_init(&identity);
        if (zmq_msg_recv(&identity, router->socket, 0) >= 0)
            answer_one(router, &identity);
        zmq_msg_close(&identity);
    }
    return NULL;
}

static void start_router(struct router *router, const char *endpoint, bool moody)
{
    int patience = 50; /* how soon it sees `stop` */

    router->socket = bound(ZMQ_ROUTER, endpoint);
    router->moody = moody;
    atomic_init(&router->stop, false);
    zmq_setsockopt(router->socket, ZMQ_RCVTIMEO, &patience, sizeof(patience));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&router->thread, NULL, serve, router), 0);
}

static void stop_router(struct router *router, const char *endpoint)
{
    atomic_store(&router->stop, true);
    pthread_join(router->thread, NULL);
    zmq_unbind(router->socket, endpoint);
    zmq_close(router->socket);
}

static void timeouts(void)
{
    const char *endpoint = fresh_endpoint();
    struct kronosd_control *control = NULL;
    struct router router;
    struct kr_error error;
    char expected[256];

    start_router(&router, endpoint, true);
    CU_ASSERT_EQUAL_FATAL(kronosd_control_open(zmq, endpoint, &control, NULL), 0);
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, NULL), 0);
    CU_ASSERT_EQUAL(ping(control, 50, &error), -ETIMEDOUT);
    snprintf(expected, sizeof(expected), "%s: no reply within 50 ms", endpoint);
    CU_ASSERT_STRING_EQUAL(error.text, expected);
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, NULL), 0);
    CU_ASSERT_EQUAL(ping(control, 50, NULL), -ETIMEDOUT);
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, NULL), 0);
    kronosd_control_close(&control);
    stop_router(&router, endpoint);
}

static void unreachable(void)
{
    const char *endpoint = fresh_endpoint();
    struct kronosd_control *control = NULL;
    unsigned rounds = PATIENCE_MS / 500;
    struct router router;
    struct kr_error error;
    char expected[256];

    CU_ASSERT_EQUAL_FATAL(kronosd_control_open(zmq, endpoint, &control, NULL), 0);
    CU_ASSERT_EQUAL(ping(control, 10, &error), -EHOSTUNREACH);
    snprintf(expected, sizeof(expected), "%s: no daemon listens there", endpoint);
    CU_ASSERT_STRING_EQUAL(error.text, expected);
    CU_ASSERT_EQUAL(ping(control, 0, NULL), -EHOSTUNREACH);
    /* then one comes */
    start_router(&router, endpoint, false);
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, NULL), 0);
    stop_router(&router, endpoint);
    /* and another one; a request into the old connection's last moment may be lost */
    start_router(&router, endpoint, false);
    while (ping(control, 500, NULL) != 0 && rounds-- > 0)
        ;
    CU_ASSERT_EQUAL(ping(control, PATIENCE_MS, NULL), 0);
    kronosd_control_close(&control);
    stop_router(&router, endpoint);
}

/* ---- Values ---- */

static void values(void)
{
    static const char data[] = "\x88\xa1i\xff\xa1u\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xa1"
                               "f\xca\x3f\xc0\0\0\xa1s\xa5"
                               "a\tbcd\xa1"
                               "b\xc3\xa1"
                               "a\x92\x01\xc0"
                               "\xa1m\x81\xa1x\x02\x05\x06";
    const msgpack_object *root;
    msgpack_unpacked unpacked;
    char text[4] = "zzz";

    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(data, sizeof(data) - 1, &unpacked), 0);
    root = &unpacked.data;
    CU_ASSERT_EQUAL(kronosd_get_int(root, "i", 0), -1);
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "i", 7), 7);
    CU_ASSERT_EQUAL(kronosd_get_real(root, "i", 0), -1);
    CU_ASSERT_EQUAL(kronosd_get_int(root, "u", 7), 7);
    CU_ASSERT_EQUAL(kronosd_get_uint(root, "u", 0), UINT64_MAX);
    CU_ASSERT_EQUAL(kronosd_get_real(root, "u", 0), 0x1p64);
    CU_ASSERT_EQUAL(kronosd_get_real(root, "f", 0), 1.5);
    CU_ASSERT_EQUAL(kronosd_get_int(root, "f", 7), 7);
    CU_ASSERT_EQUAL(kronosd_get_real(root, "s", 7), 7);
    CU_ASSERT_TRUE(kronosd_get_bool(root, "b", false));
    CU_ASSERT_TRUE(kronosd_get_bool(root, "i", true));
    CU_ASSERT_TRUE(kronosd_get_string(root, "s", text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, "a?b");
    CU_ASSERT_FALSE(kronosd_get_string(root, "i", text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, "");
    CU_ASSERT_EQUAL(kronosd_length(kronosd_get(root, "a")), 2);
    CU_ASSERT_EQUAL(kronosd_at_real(kronosd_get(root, "a"), 0), 1);
    CU_ASSERT_TRUE(isnan(kronosd_at_real(kronosd_get(root, "a"), 1)));
    CU_ASSERT_TRUE(isnan(kronosd_at_real(kronosd_get(root, "a"), 2)));
    CU_ASSERT_TRUE(isnan(kronosd_at_real(NULL, 0)));
    CU_ASSERT_EQUAL(kronosd_length(root), 0);
    CU_ASSERT_EQUAL(kronosd_get_int(kronosd_get(root, "m"), "x", 0), 2);
    CU_ASSERT_PTR_NULL(kronosd_get(kronosd_get(root, "nothing"), "x"));
    CU_ASSERT_PTR_NULL(kronosd_get(root, ""));
    msgpack_unpacked_destroy(&unpacked);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"duplicates, gaps and restarts", duplicates_gaps_restarts},
        {"parts of a message", parts_of_a_message},
        {"malformed messages", malformed_messages},
        {"more topics than are remembered", too_many_topics},
        {"many topics", many_topics},
        {"too large a message", too_large_a_message},
        {"one of two connections lost", one_of_two_lost},
        {"topics come and go", change_topics},
        {"socket options", socket_options},
        {"what cannot be opened", open_errors},
        {"a signal while waiting", interrupted},
        {"request and reply", request_and_reply},
        {"replies to others", other_replies},
        {"timeouts, and a reply too large", timeouts},
        {"nobody there, then somebody", unreachable},
        {"refusals", refusals},
        {"hostile replies", hostile_replies},
        {"wrong requests", wrong_requests},
        {"symbols", symbols},
        {"history", history},
        {"hostile history", hostile_history},
        {"load", load},
        {"snapshot and status", snapshot_and_status},
        {"values of a map", values},
    };
    int status;

    zmq = zmq_ctx_new();
    status = kt_main("client", tests, KR_ARRAY_LENGTH(tests));
    if (status == 0) /* else a test that broke off left its sockets open */
        zmq_ctx_term(zmq);
    return status;
}
