/* SPDX-License-Identifier: MIT */
#include "daemon/publish.h"

#include "daemon/clock.h"
#include "daemon/socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* Subscriptions read in one turn, and the shortest step of the resend pace. */
#define TURN_SUBSCRIPTIONS 64
#define PACE_NS            INT64_C(10000000)
/* A subscription is one byte and a prefix. */
#define MAXMSGSIZE_BYTES 1024

/* Tables: chained, both of n_slots */

static size_t slot_of(const struct kd_publish *publish, const char *text, size_t length)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
    return hash & (publish->n_slots - 1);
}

static struct kd_topic *find_topic(const struct kd_publish *publish, const char *name,
                                   size_t length)
{
    struct kd_topic *topic = publish->topics[slot_of(publish, name, length)];

    while (topic && (topic->length != length || memcmp(topic->name, name, length)))
        topic = topic->next_in_slot;
    return topic;
}

/* The link that points to the prefix, or to where it would be chained. */
static struct kd_prefix **find_prefix(const struct kd_publish *publish, const char *text,
                                      size_t length)
{
    struct kd_prefix **link = &publish->prefixes[slot_of(publish, text, length)];

    while (*link && ((*link)->length != length || memcmp((*link)->text, text, length)))
        link = &(*link)->next_in_slot;
    return link;
}

struct kd_topic *kd_publish_topic(struct kd_publish *publish, const char *kind,
                                  const char *interval, const char *symbol)
{
    char name[KW_TOPIC_MAX + 1];
    size_t length = kw_topic(name, kind, interval, symbol), slot;
    struct kd_topic *topic = find_topic(publish, name, length);

    if (topic || publish->n_topics == publish->max_topics)
        return topic;
    topic = calloc(1, sizeof(*topic));
    if (!topic)
        return NULL;
    memcpy(topic->name, name, length + 1);
    topic->length = length;
    slot = slot_of(publish, name, length);
    topic->next_in_slot = publish->topics[slot];
    publish->topics[slot] = topic;
    publish->n_topics++;
    return topic;
}

struct kd_topic *kd_publish_find(const struct kd_publish *publish, const char *kind,
                                 const char *interval, const char *symbol)
{
    char name[KW_TOPIC_MAX + 1];

    return find_topic(publish, name, kw_topic(name, kind, interval, symbol));
}

bool kd_publish_wanted(const struct kd_publish *publish, const struct kd_topic *topic)
{
    if (publish->all_wanted)
        return true;
    for (size_t length = 0; length <= topic->length; length++)
        if (*find_prefix(publish, topic->name, length))
            return true;
    return false;
}

/* Sending */

static bool send_frames(struct kd_publish *publish, const struct kd_topic *topic, const void *data,
                        size_t n_bytes)
{
    if (zmq_send(publish->socket, topic->name, topic->length, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return false;
    return zmq_send(publish->socket, data, n_bytes, ZMQ_DONTWAIT) >= 0;
}

static void keep_last(struct kd_topic *topic, const void *data, size_t n_bytes)
{
    if (topic->last_capacity < n_bytes) {
        char *larger = realloc(topic->last, n_bytes + n_bytes / 8);

        if (!larger) { /* an old value would look like the last one */
            topic->last_bytes = 0;
            return;
        }
        topic->last = larger;
        topic->last_capacity = n_bytes + n_bytes / 8;
    }
    memcpy(topic->last, data, n_bytes);
    topic->last_bytes = n_bytes;
}

void kd_publish_send(struct kd_publish *publish, struct kd_topic *topic, uint64_t seq,
                     const void *data, size_t n_bytes, bool keep)
{
    topic->seq = seq;
    if (keep)
        keep_last(topic, data, n_bytes);
    publish->n_sent += send_frames(publish, topic, data, n_bytes);
}

void kd_publish_forget(struct kd_publish *publish, struct kd_topic *topic)
{
    (void)publish; /* a topic in the queue is skipped when its turn comes */
    topic->last_bytes = 0;
}

/* Last values */

static void resend_later(struct kd_publish *publish, struct kd_topic *topic)
{
    if (topic->resend || !topic->last_bytes)
        return;
    topic->resend = true;
    topic->next_resend = NULL;
    if (publish->resend_last)
        publish->resend_last->next_resend = topic;
    else
        publish->resend_first = topic;
    publish->resend_last = topic;
    if (!kd_loop_timer_armed(publish->loop, publish->timer))
        kd_loop_timer_set(publish->loop, publish->timer, kd_mono_ns());
}

static void on_pace(void *context)
{
    struct kd_publish *publish = context;
    size_t budget = KR_MAX(publish->pace / (1000000000 / PACE_NS), (size_t)1);
    int64_t wait_ns = KR_MAX(PACE_NS, 1000000000 / (int64_t)publish->pace);

    while (publish->resend_first && budget) {
        struct kd_topic *topic = publish->resend_first;

        publish->resend_first = topic->next_resend;
        if (!publish->resend_first)
            publish->resend_last = NULL;
        topic->resend = false;
        if (!topic->last_bytes)
            continue;
        publish->n_resent += send_frames(publish, topic, topic->last, topic->last_bytes);
        budget--;
    }
    if (publish->resend_first)
        kd_loop_timer_set(publish->loop, publish->timer, kd_mono_ns() + wait_ns);
}

static void resend_matching(struct kd_publish *publish, const char *prefix, size_t length)
{
    size_t bars = 0;

    for (size_t i = 0; i < length; i++)
        bars += prefix[i] == '|';
    if (bars == 3 && prefix[length - 1] == '|') { /* a whole topic */
        struct kd_topic *topic = find_topic(publish, prefix, length);

        if (topic)
            resend_later(publish, topic);
        return;
    }
    for (size_t slot = 0; slot < publish->n_slots; slot++)
        for (struct kd_topic *topic = publish->topics[slot]; topic; topic = topic->next_in_slot)
            if (topic->length >= length && memcmp(topic->name, prefix, length) == 0)
                resend_later(publish, topic);
}

/* Subscriptions */

static void add_prefix(struct kd_publish *publish, const char *text, size_t length)
{
    struct kd_prefix **link = find_prefix(publish, text, length), *prefix;

    if (*link)
        return;
    prefix = publish->n_prefixes < KD_MAX_PREFIXES ? calloc(1, sizeof(*prefix)) : NULL;
    if (!prefix) {
        publish->all_wanted = true;
        return;
    }
    memcpy(prefix->text, text, length);
    prefix->length = length;
    *link = prefix;
    publish->n_prefixes++;
}

static void remove_prefix(struct kd_publish *publish, const char *text, size_t length)
{
    struct kd_prefix **link = find_prefix(publish, text, length), *prefix = *link;

    if (!prefix)
        return;
    *link = prefix->next_in_slot;
    free(prefix);
    publish->n_prefixes--;
}

/* libzmq passes every subscription on (XPUB_VERBOSE), but the end of one only when no other subscriber has
 * the same prefix: so each prefix stands here once. */
static void take_subscription(struct kd_publish *publish, const char *message, size_t n_bytes)
{
    const char *prefix = message + 1;
    size_t length = n_bytes - 1;

    if (n_bytes < 1 || length > KW_TOPIC_MAX || (unsigned char)message[0] > 1)
        return; /* matches nothing of ours */
    if (message[0] == 0) {
        remove_prefix(publish, prefix, length);
        return;
    }
    add_prefix(publish, prefix, length);
    resend_matching(publish, prefix, length);
    if (publish->subscribed)
        publish->subscribed(publish->context, prefix, length);
}

static void on_ready(void *context)
{
    struct kd_publish *publish = context;

    for (size_t i = 0; i < TURN_SUBSCRIPTIONS; i++) {
        zmq_msg_t message;

        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, publish->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(&message);
            return;
        }
        take_subscription(publish, zmq_msg_data(&message), zmq_msg_size(&message));
        zmq_msg_close(&message);
    }
}

/* Life */

int kd_publish_open(struct kd_publish *publish, void *zmq_context, struct kd_loop *loop,
                    const struct kd_config *config, size_t max_topics, struct kr_error *error)
{
    const struct {
        int option, value;
    } options[] = {
        {ZMQ_SNDHWM, (int)config->publish.hwm},
        {ZMQ_XPUB_VERBOSE, 1},
        {ZMQ_XPUB_NODROP, 0},
        {ZMQ_HEARTBEAT_IVL, 10000},
        {ZMQ_HEARTBEAT_TIMEOUT, 30000},
        {ZMQ_HEARTBEAT_TTL, 60000},
    };
    int status;

    publish->loop = loop;
    publish->pace = config->publish.pace;
    publish->max_topics = max_topics;
    publish->n_slots = 256;
    while (publish->n_slots < max_topics)
        publish->n_slots *= 2;
    publish->topics = kr_alloc(publish->n_slots, sizeof(struct kd_topic *));
    publish->prefixes = kr_alloc(publish->n_slots, sizeof(struct kd_prefix *));
    if (!publish->topics || !publish->prefixes)
        return kr_error_set(error, -ENOMEM, "[publish] topics: no memory");
    status =
        kd_socket_open(zmq_context, ZMQ_XPUB, "publish", MAXMSGSIZE_BYTES, &publish->socket, error);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(options) && !status; i++)
        status =
            kd_socket_set(publish->socket, "publish", options[i].option, options[i].value, error);
    if (!status)
        status = kd_socket_bind(publish->socket, "publish", &config->publish.bind, error);
    if (status)
        return status;
    publish->source = kd_loop_socket(loop, publish->socket, on_ready, publish);
    publish->timer = kd_loop_timer(loop, on_pace, publish);
    return KR_MIN(KR_MIN(publish->source, publish->timer), 0);
}

void kd_publish_close(struct kd_publish *publish, int linger_ms)
{
    kd_socket_close(&publish->socket, linger_ms);
    for (size_t slot = 0; slot < publish->n_slots; slot++) {
        while (publish->topics && publish->topics[slot]) {
            struct kd_topic *topic = publish->topics[slot];

            publish->topics[slot] = topic->next_in_slot;
            free(topic->last);
            free(topic);
        }
        while (publish->prefixes && publish->prefixes[slot]) {
            struct kd_prefix *prefix = publish->prefixes[slot];

            publish->prefixes[slot] = prefix->next_in_slot;
            free(prefix);
        }
    }
    kr_freep(&publish->topics);
    kr_freep(&publish->prefixes);
}
