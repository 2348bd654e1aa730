/* SPDX-License-Identifier: MIT */
#include "daemon/feed.h"

#include "daemon/clock.h"
#include "daemon/log.h"
#include "daemon/socket.h"

#include <errno.h>
#include <string.h>
#include <zmq.h>

/* One turn: long enough to keep up, short enough for the other sockets. */
#define TURN_MESSAGES 256
#define TURN_NS       INT64_C(2000000)
/* A message so much larger than allowed is not worth reading to be counted. */
#define MAXMSGSIZE_FACTOR 16

/* Take the frames of one message that is there. Return: 0, or -EAGAIN when there is none. */
static int receive(struct kd_feed *feed)
{
    zmq_msg_t frames[2], excess;
    size_t n = 0;
    bool more = true, too_large;

    for (; more; n++) {
        zmq_msg_t *frame = n < 2 ? &frames[n] : &excess;

        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, feed->socket, ZMQ_DONTWAIT) < 0) {
            /* Messages arrive whole, so this is the first frame or the end of the context. */
            zmq_msg_close(frame);
            for (size_t i = 0; i < KR_MIN(n, (size_t)2); i++)
                zmq_msg_close(&frames[i]);
            return -EAGAIN;
        }
        more = zmq_msg_more(frame);
        if (n >= 2)
            zmq_msg_close(&excess);
    }
    too_large = n == 2 && zmq_msg_size(&frames[1]) > feed->message_bytes;
    if (n == 2 && !too_large)
        feed->take(feed->context, zmq_msg_data(&frames[1]), zmq_msg_size(&frames[1]), false);
    else
        feed->take(feed->context, NULL, 0, too_large);
    for (size_t i = 0; i < KR_MIN(n, (size_t)2); i++)
        zmq_msg_close(&frames[i]);
    return 0;
}

static void on_ready(void *context)
{
    struct kd_feed *feed = context;
    int64_t end_ns = kd_mono_ns() + TURN_NS;

    for (size_t i = 0; i < TURN_MESSAGES && !feed->paused; i++) {
        if (receive(feed))
            break;
        if (i % 16 == 15 && kd_mono_ns() >= end_ns)
            break;
    }
    feed->rest(feed->context);
}

/* Connections that ZeroMQ has given up are made anew. */
static void on_link(void *context)
{
    struct kd_feed *feed = context;
    int64_t now_ns = kd_mono_ns();
    int wait_ms = kw_link_check(&feed->link, now_ns / 1000000);

    kd_loop_timer_set(feed->loop, feed->link_timer,
                      wait_ms < 0 ? INT64_MAX : now_ns + wait_ms * INT64_C(1000000));
}

static int connect_feed(struct kd_feed *feed, void *zmq_context, const struct kd_list *endpoints,
                        struct kr_error *error)
{
    int status;

    if (endpoints->n == 0)
        return 0;
    status = kw_link_open(&feed->link, zmq_context, feed->socket,
                          (const char *const *)endpoints->items, endpoints->n, error);
    if (status)
        return status;
    for (size_t i = 0; i < endpoints->n; i++)
        kd_say(KD_MSG_SOCKET, "feed connect %s", endpoints->items[i]);
    feed->link_timer = kd_loop_timer(feed->loop, on_link, feed);
    status = kd_loop_socket(feed->loop, feed->link.monitor, on_link, feed);
    return KR_MIN(status, KR_MIN(feed->link_timer, 0));
}

int kd_feed_open(struct kd_feed *feed, void *zmq_context, struct kd_loop *loop,
                 const struct kd_config *config, struct kr_error *error)
{
    const struct kd_list *topics = &config->feed.topics;
    int status;

    feed->loop = loop;
    feed->message_bytes = config->limits.message_bytes;
    status = kd_socket_open(zmq_context, ZMQ_SUB, "feed", feed->message_bytes * MAXMSGSIZE_FACTOR,
                            &feed->socket, error);
    if (status)
        return status;
    /* Subscriptions are messages to the publisher and must never be dropped. Explicitly no heartbeats. */
    status = kd_socket_set(feed->socket, "feed", ZMQ_SNDHWM, 0, error);
    if (!status)
        status = kd_socket_set(feed->socket, "feed", ZMQ_HEARTBEAT_IVL, 0, error);
    if (!status)
        status = kd_socket_set(feed->socket, "feed", ZMQ_RCVHWM, 100000, error);
    if (status)
        return status;
    for (size_t i = 0; i < topics->n; i++)
        if (zmq_setsockopt(feed->socket, ZMQ_SUBSCRIBE, topics->items[i], strlen(topics->items[i])))
            return kr_error_set(error, -errno, "[feed] topics: %s: %s", topics->items[i],
                                zmq_strerror(errno));
    status = kd_socket_bind(feed->socket, "feed", &config->feed.bind, error);
    if (!status)
        status = connect_feed(feed, zmq_context, &config->feed.connect, error);
    if (status)
        return status;
    feed->source = kd_loop_socket(loop, feed->socket, on_ready, feed);
    return KR_MIN(feed->source, 0);
}

void kd_feed_close(struct kd_feed *feed)
{
    kw_link_close(&feed->link);
    kd_socket_close(&feed->socket, 0);
}

void kd_feed_pause(struct kd_feed *feed, bool paused)
{
    feed->paused = paused;
    kd_loop_enable(feed->loop, feed->source, !paused);
}
