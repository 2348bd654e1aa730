/* SPDX-License-Identifier: MIT */
#include "tests/clients/daemon.h"

#include "clients/client.h"
#include "clients/ctl.h"
#include "tests/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define STEPS       4
#define PATIENCE_NS INT64_C(20000000000)

static void *bound(void *context, int type, char endpoint[256])
{
    void *socket = zmq_socket(context, type);
    size_t size = 256;
    int none = 0;

    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof(none));
    if (!socket || zmq_bind(socket, "tcp://127.0.0.1:*") != 0 ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size) != 0)
        abort();
    return socket;
}

void kt_daemon_open(struct kt_daemon *daemon)
{
    *daemon = (struct kt_daemon){.context = zmq_ctx_new()};
    daemon->xpub = bound(daemon->context, ZMQ_XPUB, daemon->from);
    daemon->router = bound(daemon->context, ZMQ_ROUTER, daemon->control);
}

void kt_daemon_close(struct kt_daemon *daemon)
{
    zmq_close(daemon->xpub);
    zmq_close(daemon->router);
    zmq_ctx_term(daemon->context);
}

static void take_subscription(struct kt_daemon *daemon)
{
    char frame[81];
    int n = zmq_recv(daemon->xpub, frame, sizeof(frame) - 1, ZMQ_DONTWAIT);

    if (n < 1 || frame[0] != 1 || daemon->n_topics == KR_ARRAY_LENGTH(daemon->topics))
        return;
    frame[KR_MIN(n, 80)] = '\0';
    snprintf(daemon->topics[daemon->n_topics++], sizeof(daemon->topics[0]), "%s", frame + 1);
}

static void pack_key(msgpack_packer *packer, const char *key)
{
    msgpack_pack_str(packer, strlen(key));
    msgpack_pack_str_body(packer, key, strlen(key));
}

static void pack_reply(struct kt_daemon *daemon, const msgpack_object *request,
                       msgpack_packer *packer)
{
    const struct kt_answer *answer = NULL;
    const msgpack_object *id = kronosd_get(request, "id");
    char op[16];

    kronosd_get_string(request, "op", op, sizeof(op));
    for (size_t i = 0; i < daemon->n_answers; i++)
        if (strcmp(daemon->answers[i].op, op) == 0)
            answer = &daemon->answers[i];
    msgpack_pack_map(packer, (id ? 1 : 0) + 1 + (answer && !answer->code ? answer->n_pairs : 1));
    if (id) {
        pack_key(packer, "id");
        msgpack_pack_object(packer, *id);
    }
    pack_key(packer, "ok");
    if (answer && !answer->code) {
        msgpack_pack_true(packer);
        if (answer->pack)
            answer->pack(packer, request);
        return;
    }
    msgpack_pack_false(packer);
    pack_key(packer, "error");
    msgpack_pack_map(packer, 2);
    kronosd_pack_string(packer, "code", answer ? answer->code : "unknown_op");
    kronosd_pack_string(packer, "msg", "the test says no");
}

static void take_request(struct kt_daemon *daemon)
{
    unsigned char identity[256], *data = malloc(1 << 20);
    int n_identity = zmq_recv(daemon->router, identity, sizeof(identity), 0), n;
    msgpack_unpacked unpacked;
    msgpack_sbuffer buffer;
    msgpack_packer packer;

    n = zmq_recv(daemon->router, data, 1 << 20, 0);
    daemon->n_requests++;
    msgpack_unpacked_init(&unpacked);
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    if (!daemon->silent && n > 0 && n_identity > 0 &&
        kronosd_unpack(data, (size_t)n, &unpacked) == 0) {
        pack_reply(daemon, &unpacked.data, &packer);
        zmq_send(daemon->router, identity, (size_t)n_identity, ZMQ_SNDMORE);
        zmq_send(daemon->router, buffer.data, buffer.size, 0);
    }
    msgpack_sbuffer_destroy(&buffer);
    msgpack_unpacked_destroy(&unpacked);
    free(data);
}

static bool has_topic(const struct kt_daemon *daemon, const char *topic)
{
    for (size_t i = 0; topic && i < daemon->n_topics; i++)
        if (strcmp(daemon->topics[i], topic) == 0)
            return true;
    return false;
}

void kt_daemon_poll(struct kt_daemon *daemon)
{
    zmq_pollitem_t items[] = {{daemon->xpub, 0, ZMQ_POLLIN, 0}, {daemon->router, 0, ZMQ_POLLIN, 0}};

    while (zmq_poll(items, 2, 0) > 0) {
        if (items[0].revents)
            take_subscription(daemon);
        if (items[1].revents)
            take_request(daemon);
    }
}

bool kt_daemon_serve(struct kt_daemon *daemon, const struct kt_child *child, const char *topic)
{
    int64_t until = kc_now_ns() + PATIENCE_NS;

    while (!has_topic(daemon, topic)) {
        zmq_pollitem_t items[] = {{daemon->xpub, 0, ZMQ_POLLIN, 0},
                                  {daemon->router, 0, ZMQ_POLLIN, 0},
                                  {NULL, child->pidfd, ZMQ_POLLIN, 0}};

        if (zmq_poll(items, 3, 1000) < 0 || kc_now_ns() > until)
            return false;
        if (items[0].revents)
            take_subscription(daemon);
        if (items[1].revents)
            take_request(daemon);
        if (items[2].revents)
            return true;
    }
    return true;
}

/* Messages */

void kt_pack_forecast(msgpack_sbuffer *out, const char *symbol, const char *interval, uint64_t ep,
                      uint64_t seq, int64_t t_ns, double close)
{
    static const double levels[] = {0.05, 0.25, 0.5, 0.75, 0.95};
    float paths[3 * STEPS * KR_COLUMNS];
    struct kr_interval parsed;
    struct kr_summary summary;
    int64_t t[STEPS];
    struct kw_forecast forecast = {.symbol = symbol,
                                   .interval = interval,
                                   .ep = ep,
                                   .seq = seq,
                                   .as_of_ns = t_ns,
                                   .last_t_ns = t_ns,
                                   .last_close = close,
                                   .mode = "anchored",
                                   .epoch = 2,
                                   .bars = 400,
                                   .model_name = "pico",
                                   .model_sha256 = "00",
                                   .isa = "generic",
                                   .precision = "f32",
                                   .paths = 3,
                                   .horizon = STEPS,
                                   .t_ns = t,
                                   .cal_status = "uncalibrated",
                                   .flags = KW_JOINED | KW_TAIL,
                                   .total_us = 1500};

    if (kr_interval_parse(interval, &parsed) < 0 ||
        kr_summary_init(&summary, STEPS, 3, levels, KR_ARRAY_LENGTH(levels), NULL) < 0)
        abort();
    for (int p = 0; p < 3; p++)
        for (int i = 0; i < STEPS * KR_COLUMNS; i++)
            paths[p * STEPS * KR_COLUMNS + i] = (float)(close + p);
    for (int i = 0; i < STEPS; i++)
        t[i] = t_ns + (i + 1) * parsed.ns;
    kr_summary_compute(&summary, paths, 3, STEPS, close);
    forecast.summary = &summary;
    if (kw_encode_forecast(out, &forecast) < 0)
        abort();
    kr_summary_free(&summary);
}

static void publish(struct kt_daemon *daemon, const char *topic, msgpack_sbuffer *buffer)
{
    zmq_send(daemon->xpub, topic, strlen(topic), ZMQ_SNDMORE);
    zmq_send(daemon->xpub, buffer->data, buffer->size, 0);
    msgpack_sbuffer_destroy(buffer);
}

void kt_daemon_forecast(struct kt_daemon *daemon, const char *symbol, const char *interval,
                        uint64_t ep, uint64_t seq, int64_t t_ns, double close)
{
    char topic[KW_TOPIC_MAX + 1];
    msgpack_sbuffer buffer;

    msgpack_sbuffer_init(&buffer);
    kt_pack_forecast(&buffer, symbol, interval, ep, seq, t_ns, close);
    kw_topic(topic, "forecast", interval, symbol);
    publish(daemon, topic, &buffer);
}

void kt_daemon_status(struct kt_daemon *daemon, uint64_t seq)
{
    const struct kw_count rejected[] = {{"off_grid", 3}, {"high_low", 1}};
    const struct kw_status status = {.ep = 1,
                                     .seq = seq,
                                     .received = 1004,
                                     .accepted = 1000,
                                     .rejected = rejected,
                                     .n_rejected = 2,
                                     .rss_bytes = 52000000,
                                     .lag_us = 700,
                                     .version = "0",
                                     .model_name = "pico",
                                     .isa = "generic"};
    msgpack_sbuffer buffer;

    msgpack_sbuffer_init(&buffer);
    if (kw_encode_status(&buffer, &status) < 0)
        abort();
    publish(daemon, "status|||", &buffer);
}

void kt_daemon_event(struct kt_daemon *daemon, uint64_t seq)
{
    const struct kw_event event = {.symbol = "AAA",
                                   .interval = "5m",
                                   .ep = 1,
                                   .seq = seq,
                                   .t_ns = 7,
                                   .kind = "gap",
                                   .reason = "held",
                                   .count = seq};
    msgpack_sbuffer buffer;

    msgpack_sbuffer_init(&buffer);
    if (kw_encode_event(&buffer, &event) < 0)
        abort();
    publish(daemon, "event|5m|AAA|", &buffer);
}
