/* SPDX-License-Identifier: MIT */
#include "clients/publisher.h"

#include "clients/client.h"
#include "clients/ctl.h"
#include "clients/flush.h"
#include "clients/history.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

#define QUEUE         4096 /* bars that may wait for one subscriber before sending waits */
#define REQUEST_BYTES 65536
#define SLICE_MS      100  /* between looks at signals and requests while a subscriber is slow */
#define MAX_PREFIXES  1024 /* subscriptions remembered */
#define MAX_STREAMS   65536

struct stream {
    char topic[KW_TOPIC_MAX + 1];
    uint64_t seq;
    struct kc_history history;
};

struct kc_publisher {
    struct kc_publisher_config config;
    void *context, *xpub, *router;
    struct kc_flush flush; /* of xpub's connections */
    uint64_t ep;
    size_t n_listeners; /* live subscriptions within the scope */
    struct stream *streams;
    size_t n_streams, last_stream;
    msgpack_sbuffer buffer;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

void kc_publisher_catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART: waits end */

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Setting up */

static void *make_socket(struct kc_publisher *publisher, int type)
{
    const int linger = -1, nodrop = 1, queue = QUEUE, keepalive = 1, slice = SLICE_MS;
    const int64_t bytes = REQUEST_BYTES;
    void *socket = zmq_socket(publisher->context, type);

    if (!socket)
        return NULL;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(socket, ZMQ_SNDHWM, &queue, sizeof(queue));
    zmq_setsockopt(socket, ZMQ_RCVHWM, &queue, sizeof(queue));
    zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes, sizeof(bytes));
    zmq_setsockopt(socket, ZMQ_TCP_KEEPALIVE, &keepalive, sizeof(keepalive));
    if (type == ZMQ_XPUB) {
        zmq_setsockopt(socket, ZMQ_XPUB_NODROP, &nodrop, sizeof(nodrop));
        zmq_setsockopt(socket, ZMQ_SNDTIMEO, &slice, sizeof(slice));
    }
    return socket;
}

static int attach(void *socket, const char *endpoint, bool connect, struct kr_error *error)
{
    if ((connect ? zmq_connect(socket, endpoint) : zmq_bind(socket, endpoint)) == 0)
        return 0;
    return kr_error_set(error, -errno, "%s: cannot %s: %s", endpoint, connect ? "connect" : "bind",
                        zmq_strerror(errno));
}

static int open_sockets(struct kc_publisher *publisher, struct kr_error *error)
{
    const struct kc_publisher_config *config = &publisher->config;
    int r;

    publisher->context = zmq_ctx_new();
    if (publisher->context)
        publisher->xpub = make_socket(publisher, ZMQ_XPUB);
    if (publisher->xpub && config->history)
        publisher->router = make_socket(publisher, ZMQ_ROUTER);
    if (!publisher->xpub || (config->history && !publisher->router))
        return kr_error_set(error, -ENOMEM, "%s: no socket: %s", config->endpoint,
                            zmq_strerror(errno));
    r = kc_flush_watch(&publisher->flush, publisher->context, publisher->xpub);
    if (r < 0)
        return kr_error_set(error, r, "%s: no monitor: %s", config->endpoint, zmq_strerror(-r));
    r = attach(publisher->xpub, config->endpoint, config->connect, error);
    return r == 0 && config->history ? attach(publisher->router, config->history, false, error) : r;
}

static uint64_t random_run(void)
{
    uint64_t ep;

    if (getrandom(&ep, sizeof(ep), 0) != (ssize_t)sizeof(ep))
        ep = (uint64_t)kc_now_ns() * 0x9e3779b97f4a7c15u;
    return ep;
}

int kc_publisher_open(const struct kc_publisher_config *config, struct kc_publisher **ret,
                      struct kr_error *error)
{
    struct kc_publisher *publisher = calloc(1, sizeof(*publisher));
    int r;

    if (!publisher)
        return kr_error_set(error, -ENOMEM, "out of memory");
    publisher->config = *config;
    publisher->ep = random_run();
    msgpack_sbuffer_init(&publisher->buffer);
    r = open_sockets(publisher, error);
    if (r < 0) {
        kc_publisher_close(&publisher, false);
        return r;
    }
    *ret = publisher;
    return 0;
}

static void close_socket(void *socket, bool flush)
{
    const int none = 0;

    if (!socket)
        return;
    if (!flush)
        zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
    zmq_close(socket);
}

void kc_publisher_close(struct kc_publisher **publisher, bool flush)
{
    struct kc_publisher *old = *publisher;

    if (!old)
        return;
    *publisher = NULL;
    kc_flush_hold(&old->flush, old->xpub, flush);
    close_socket(old->router, flush);
    close_socket(old->xpub, flush);
    /* A subscriber that never reads must not keep us for ever: signals end the process again. */
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    if (old->context)
        zmq_ctx_term(old->context);
    kc_flush_finish(&old->flush, &interrupted);
    for (size_t i = 0; i < old->n_streams; i++)
        kc_history_free(&old->streams[i].history);
    free(old->streams);
    msgpack_sbuffer_destroy(&old->buffer);
    free(old);
}

/* Streams */

static struct stream *find_stream(struct kc_publisher *publisher, const char *topic)
{
    /* Bars mostly come stream after stream in one order: the next one is the likely one. */
    for (size_t i = 0; i < publisher->n_streams; i++) {
        size_t at = (publisher->last_stream + i) % publisher->n_streams;

        if (strcmp(publisher->streams[at].topic, topic) == 0) {
            publisher->last_stream = at + 1;
            return &publisher->streams[at];
        }
    }
    return NULL;
}

static struct stream *add_stream(struct kc_publisher *publisher, const char *topic)
{
    struct stream *streams;

    if (publisher->n_streams == MAX_STREAMS)
        return NULL;
    streams = reallocarray(publisher->streams, publisher->n_streams + 1, sizeof(*streams));
    if (!streams)
        return NULL;
    publisher->streams = streams;
    streams += publisher->n_streams++;
    *streams = (struct stream){.seq = 0};
    memcpy(streams->topic, topic, strlen(topic) + 1);
    publisher->last_stream = publisher->n_streams;
    return streams;
}

/* Subscribers. XPUB hands on the first subscription to a prefix and the last cancellation of it. */

static void take_subscriptions(struct kc_publisher *publisher)
{
    const char *scope = publisher->config.scope;
    unsigned char frame[1 + KW_TOPIC_MAX];
    int n;

    while ((n = zmq_recv(publisher->xpub, frame, sizeof(frame), ZMQ_DONTWAIT)) > 0) {
        size_t length = KR_MIN((size_t)n, sizeof(frame)) - 1;
        size_t common = KR_MIN(length, strlen(scope));

        if (frame[0] > 1 || memcmp(frame + 1, scope, common) != 0)
            continue;
        if (frame[0] == 1 && publisher->n_listeners < MAX_PREFIXES)
            publisher->n_listeners++;
        else if (frame[0] == 0 && publisher->n_listeners > 0)
            publisher->n_listeners--;
    }
}

/* History requests */

static void pack_key(msgpack_packer *packer, const char *key)
{
    msgpack_pack_str(packer, strlen(key));
    msgpack_pack_str_body(packer, key, strlen(key));
}

static void pack_refusal(msgpack_packer *packer, const char *code, const char *message)
{
    pack_key(packer, "ok");
    msgpack_pack_false(packer);
    pack_key(packer, "error");
    msgpack_pack_map(packer, 2);
    kronosd_pack_string(packer, "code", code);
    kronosd_pack_string(packer, "msg", message);
}

static const struct stream *asked_stream(struct kc_publisher *publisher,
                                         const msgpack_object *request)
{
    char symbol[KR_SYMBOL_MAX + 1], interval[8], topic[KW_TOPIC_MAX + 1];

    if (!kronosd_get_string(request, "sym", symbol, sizeof(symbol)) ||
        !kronosd_get_string(request, "iv", interval, sizeof(interval)))
        return NULL;
    snprintf(topic, sizeof(topic), "bar|%s|%s|", interval, symbol);
    return find_stream(publisher, topic);
}

/* What stands in a reply besides its `id`: the head of the map is packed here too. */
static void pack_reply(struct kc_publisher *publisher, const msgpack_object *request, bool has_id,
                       msgpack_packer *packer)
{
    const struct stream *stream = NULL;
    int64_t n = kronosd_get_int(request, "n", KC_HISTORY_PAGE);
    char op[16] = "";

    kronosd_get_string(request, "op", op, sizeof(op));
    if (strcmp(op, "history") == 0)
        stream = asked_stream(publisher, request);
    msgpack_pack_map(packer, (size_t)(stream ? 4 : strcmp(op, "ping") == 0 ? 1 : 2) + has_id);
    if (!stream && strcmp(op, "ping") != 0) {
        if (strcmp(op, "history") == 0)
            pack_refusal(packer, "not_found", "no bar of that stream was sent yet");
        else
            pack_refusal(packer, request ? "unknown_op" : "bad_request",
                         "op: expected history or ping");
        return;
    }
    pack_key(packer, "ok");
    msgpack_pack_true(packer);
    if (stream)
        kc_history_pack(&stream->history, kronosd_get(request, "from") != NULL,
                        kronosd_get_int(request, "from", INT64_MIN), n > 0 ? (size_t)n : 0, packer);
}

/* The reply to one request, into the publisher's buffer. */
static void answer(struct kc_publisher *publisher, const void *data, size_t n_bytes)
{
    const msgpack_object *request = NULL, *id;
    msgpack_unpacked unpacked;
    msgpack_packer packer;

    msgpack_unpacked_init(&unpacked);
    if (kronosd_unpack(data, n_bytes, &unpacked) == 0)
        request = &unpacked.data;
    id = kronosd_get(request, "id");
    msgpack_sbuffer_clear(&publisher->buffer);
    msgpack_packer_init(&packer, &publisher->buffer, msgpack_sbuffer_write);
    pack_reply(publisher, request, id != NULL, &packer);
    if (id) {
        pack_key(&packer, "id");
        msgpack_pack_object(&packer, *id);
    }
    msgpack_unpacked_destroy(&unpacked);
}

/* One request: identity, an empty delimiter if it came from a REQ, the map. */
static void serve_one(struct kc_publisher *publisher)
{
    zmq_msg_t frames[3];
    size_t n = 0;
    int more = 1;
    size_t size = sizeof(more);

    for (; n < KR_ARRAY_LENGTH(frames) && more; n++) {
        zmq_msg_init(&frames[n]);
        if (zmq_msg_recv(&frames[n], publisher->router, ZMQ_DONTWAIT) < 0)
            break;
        zmq_getsockopt(publisher->router, ZMQ_RCVMORE, &more, &size);
    }
    while (more) { /* frames that no request has */
        zmq_msg_t rest;

        zmq_msg_init(&rest);
        if (zmq_msg_recv(&rest, publisher->router, ZMQ_DONTWAIT) < 0)
            break;
        zmq_getsockopt(publisher->router, ZMQ_RCVMORE, &more, &size);
        zmq_msg_close(&rest);
    }
    if (n >= 2 && (n == 2 || zmq_msg_size(&frames[1]) == 0)) {
        answer(publisher, zmq_msg_data(&frames[n - 1]), zmq_msg_size(&frames[n - 1]));
        for (size_t i = 0; i + 1 < n; i++)
            zmq_send(publisher->router, zmq_msg_data(&frames[i]), zmq_msg_size(&frames[i]),
                     ZMQ_SNDMORE | ZMQ_DONTWAIT);
        zmq_send(publisher->router, publisher->buffer.data, publisher->buffer.size, ZMQ_DONTWAIT);
    }
    for (size_t i = 0; i < n; i++)
        zmq_msg_close(&frames[i]);
}

/* Waiting */

int kc_publisher_idle(struct kc_publisher *publisher, int64_t until_ns, int fd)
{
    for (;;) {
        zmq_pollitem_t items[3] = {{publisher->xpub, 0, ZMQ_POLLIN, 0}};
        int64_t left = until_ns - kc_now_ns();
        int n = 1, router = -1, file = -1;

        if (publisher->router) {
            router = n;
            items[n++] = (zmq_pollitem_t){publisher->router, 0, ZMQ_POLLIN, 0};
        }
        if (fd >= 0) {
            file = n;
            items[n++] = (zmq_pollitem_t){NULL, fd, ZMQ_POLLIN | ZMQ_POLLERR, 0};
        }
        if (interrupted)
            return -EINTR;
        left = left <= 0 ? 0 : KR_MIN(left / 1000000 + 1, INT64_C(1000));
        if (zmq_poll(items, n, (long)left) < 0)
            return -errno;
        if (items[0].revents)
            take_subscriptions(publisher);
        if (router >= 0 && items[router].revents)
            serve_one(publisher);
        if (file >= 0 && items[file].revents)
            return 1;
        if (until_ns <= kc_now_ns())
            return 0;
    }
}

int kc_publisher_wait(struct kc_publisher *publisher)
{
    int64_t start = kc_now_ns(), wait = publisher->config.wait_ns;

    while (publisher->n_listeners == 0) {
        int64_t now = kc_now_ns(), slice = now + SLICE_MS * INT64_C(1000000);
        int r;

        if (wait >= 0 && now - start >= wait)
            return -ETIMEDOUT;
        r = kc_publisher_idle(publisher, wait < 0 ? slice : KR_MIN(slice, start + wait), -1);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Sending */

/* Both frames, or -EAGAIN after a slice of waiting for a slow subscriber. */
static int try_send(struct kc_publisher *publisher, const char *topic)
{
    size_t length = strlen(topic);

    if (zmq_send(publisher->xpub, topic, length, ZMQ_SNDMORE) < 0)
        return -errno;
    while (zmq_send(publisher->xpub, publisher->buffer.data, publisher->buffer.size, 0) < 0)
        if (errno != EAGAIN && errno != EINTR) /* a message that was begun is finished */
            return -errno;
    return 0;
}

int kc_publisher_send(struct kc_publisher *publisher, struct kw_bar *bar)
{
    char topic[KW_TOPIC_MAX + 1];
    struct stream *stream;
    int r;

    kw_topic(topic, "bar", bar->interval.text, bar->symbol);
    stream = find_stream(publisher, topic);
    if (!stream)
        stream = add_stream(publisher, topic);
    if (!stream)
        return -ENOMEM;
    if (!bar->has_seq)
        bar->seq = stream->seq + 1;
    if (!bar->has_ep)
        bar->ep = publisher->ep;
    bar->has_seq = bar->has_ep = true;
    do {
        if (interrupted)
            return -EINTR;
        r = kc_publisher_idle(publisher, 0, -1);
        if (r >= 0)
            r = kc_publisher_wait(publisher);
        if (r < 0)
            return r;
        msgpack_sbuffer_clear(&publisher->buffer);
        r = kw_encode_bar(&publisher->buffer, bar);
        if (r == 0)
            r = try_send(publisher, topic);
    } while (r == -EAGAIN || (r == -EINTR && !interrupted));
    if (r < 0)
        return r;
    stream->seq = bar->seq;
    if (publisher->router && bar->final)
        return kc_history_add(&stream->history, bar->bar.t_ns, bar->bar.v);
    return 0;
}

int kc_publisher_failed(int code, const char *endpoint)
{
    switch (-code) {
    case ETIMEDOUT:
        return kc_fail(KC_TIMEOUT, "%s: expected a subscriber to bars, found none in time",
                       endpoint);
    case EINTR:
        return kc_fail(KC_INTERRUPTED, "%s: interrupted", endpoint);
    case ENOMEM:
        return kc_fail(KC_SYSTEM, "out of memory");
    default:
        return kc_fail(KC_UNAVAILABLE, "%s: %s", endpoint, zmq_strerror(-code));
    }
}

/* Pace */

bool kc_pace_read(const char *text, double *ret_speed)
{
    double speed;

    if (strcmp(text, "max") == 0) {
        *ret_speed = 0;
        return true;
    }
    if (strcmp(text, "realtime") == 0) {
        *ret_speed = 1;
        return true;
    }
    if (!kc_read_number(text, &speed) || speed <= 0)
        return false;
    *ret_speed = speed;
    return true;
}

int64_t kc_pace_due(struct kc_pace *pace, uint64_t n)
{
    if (pace->speed == 0)
        return 0;
    if (!pace->start_ns)
        pace->start_ns = kc_now_ns();
    return pace->start_ns + (int64_t)((double)n * ((double)pace->interval_ns / pace->speed));
}
