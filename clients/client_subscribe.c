/* SPDX-License-Identifier: MIT */
/* Following topics: receive, drop what was had, report what is missing. */
#include "clients/client.h"
#include "clients/client_socket.h"
#include "clients/link.h"
#include "clients/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TOPICS 8192
#define DEFAULT_QUEUE  10000
/* A flood of messages to drop is looked at this often whether time is up. */
#define DROPS_PER_LOOK 256

_Static_assert(KRONOSD_TOPIC_MAX == KW_TOPIC_MAX, "the installed header repeats the wire's limit");
_Static_assert(KRONOSD_COLUMNS == KR_COLUMNS, "the installed header repeats the bar's columns");

/* The last number that came for a topic. */
struct track {
    char topic[KRONOSD_TOPIC_MAX + 1]; /* "": a free slot */
    uint64_t ep, seq;
};

struct kronosd_subscriber {
    void *socket;
    struct kw_link link;
    zmq_msg_t frames[2]; /* of the message last returned: topic, map */
    msgpack_unpacked unpacked;
    char topic[KRONOSD_TOPIC_MAX + 1]; /* of that message */
    struct track *tracks;              /* [n_slots], open addressing, never more than half full */
    size_t n_slots, n_tracks, max_tracks;
    struct kronosd_counts counts;
    void (*on_gap)(void *context, const char *topic, uint64_t ep, uint64_t expected, uint64_t got);
    void (*on_restart)(void *context, const char *topic, uint64_t old_ep, uint64_t new_ep);
    void *context;
};

static int change_subscription(struct kronosd_subscriber *subscriber, int option,
                               const char *prefix, struct kr_error *error)
{
    size_t n = strlen(prefix);

    if (n > KRONOSD_TOPIC_MAX)
        return kr_error_set(error, -EINVAL, "topic: expected at most %d bytes, found %zu",
                            KRONOSD_TOPIC_MAX, n);
    if (zmq_setsockopt(subscriber->socket, option, prefix, n) != 0)
        return kr_error_set(error, -zmq_errno(), "topic %s: %s", prefix, zmq_strerror(zmq_errno()));
    return 0;
}

int kronosd_subscribe(struct kronosd_subscriber *subscriber, const char *prefix,
                      struct kr_error *error)
{
    return change_subscription(subscriber, ZMQ_SUBSCRIBE, prefix, error);
}

int kronosd_unsubscribe(struct kronosd_subscriber *subscriber, const char *prefix,
                        struct kr_error *error)
{
    return change_subscription(subscriber, ZMQ_UNSUBSCRIBE, prefix, error);
}

static int connect_all(struct kronosd_subscriber *subscriber, void *zmq_context,
                       const struct kronosd_subscriber_config *config, struct kr_error *error)
{
    int code = 0;

    if (config->n_topics == 0)
        code = kronosd_subscribe(subscriber, "", error);
    for (size_t i = 0; code == 0 && i < config->n_topics; i++)
        code = kronosd_subscribe(subscriber, config->topics[i], error);
    if (code == 0)
        code = kw_link_open(&subscriber->link, zmq_context, subscriber->socket, config->endpoints,
                            config->n_endpoints, error);
    return code;
}

int kronosd_subscriber_open(void *zmq_context, const struct kronosd_subscriber_config *config,
                            struct kronosd_subscriber **ret, struct kr_error *error)
{
    size_t max_bytes =
        config->max_message_bytes ? config->max_message_bytes : KRONOSD_MESSAGE_BYTES;
    struct kronosd_subscriber *subscriber;
    int code;

    if (config->n_endpoints == 0)
        return kr_error_set(error, -EINVAL, "subscriber: expected an endpoint, found none");
    subscriber = calloc(1, sizeof(*subscriber));
    if (!subscriber)
        return kr_error_set(error, -ENOMEM, "subscriber: no memory");
    zmq_msg_init(&subscriber->frames[0]);
    zmq_msg_init(&subscriber->frames[1]);
    msgpack_unpacked_init(&subscriber->unpacked);
    subscriber->on_gap = config->on_gap;
    subscriber->on_restart = config->on_restart;
    subscriber->context = config->context;
    subscriber->max_tracks = config->max_topics ? config->max_topics : DEFAULT_TOPICS;
    subscriber->n_slots = 16;
    while (subscriber->n_slots / 2 < subscriber->max_tracks &&
           subscriber->n_slots <= SIZE_MAX / sizeof(struct track) / 4)
        subscriber->n_slots *= 2;
    subscriber->max_tracks = KR_MIN(subscriber->max_tracks, subscriber->n_slots / 2);
    subscriber->tracks = calloc(subscriber->n_slots, sizeof(*subscriber->tracks));
    if (!subscriber->tracks)
        code = kr_error_set(error, -ENOMEM, "subscriber: no memory for %zu topics",
                            subscriber->max_tracks);
    else /* subscriptions are messages: with a bounded queue some would be lost on reconnection */
        code = kronosd_socket_open(zmq_context, ZMQ_SUB,
                                   config->queue > 0 ? config->queue : DEFAULT_QUEUE, 0, max_bytes,
                                   &subscriber->socket, error);
    if (code == 0)
        code = connect_all(subscriber, zmq_context, config, error);
    if (code == 0)
        *ret = subscriber;
    else
        kronosd_subscriber_close(&subscriber);
    return code;
}

void kronosd_subscriber_close(struct kronosd_subscriber **subscriber)
{
    struct kronosd_subscriber *s = *subscriber;

    if (!s)
        return;
    kw_link_close(&s->link);
    kronosd_socket_close(&s->socket);
    msgpack_unpacked_destroy(&s->unpacked);
    zmq_msg_close(&s->frames[0]);
    zmq_msg_close(&s->frames[1]);
    free(s->tracks);
    free(s);
    *subscriber = NULL;
}

/* Copy one part of a topic, up to its '|'. Return: what follows, NULL if it does not fit. */
static const char *split(const char *topic, char *ret, size_t size)
{
    const char *bar = topic ? strchr(topic, '|') : NULL;

    if (!bar || (size_t)(bar - topic) >= size)
        return NULL;
    memcpy(ret, topic, (size_t)(bar - topic));
    ret[bar - topic] = '\0';
    return bar + 1;
}

/* The topic's frame into the message. Return: false if it is none of ours. */
static bool read_topic(struct kronosd_subscriber *subscriber, struct kronosd_message *ret)
{
    const char *data = zmq_msg_data(&subscriber->frames[0]), *rest;
    size_t n = zmq_msg_size(&subscriber->frames[0]);

    if (n > KRONOSD_TOPIC_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (data[i] <= ' ' || data[i] > '~')
            return false;
    memcpy(subscriber->topic, data, n);
    subscriber->topic[n] = '\0';
    rest = split(subscriber->topic, ret->kind, sizeof(ret->kind));
    rest = split(rest, ret->interval, sizeof(ret->interval));
    rest = split(rest, ret->symbol, sizeof(ret->symbol));
    ret->topic = subscriber->topic;
    return rest && *rest == '\0' && ret->kind[0];
}

/* Both frames into the message. Return: 0, -EBADMSG, -ENOMEM. */
static int read_message(struct kronosd_subscriber *subscriber, size_t n_frames,
                        struct kronosd_message *ret)
{
    const msgpack_object *root = &subscriber->unpacked.data;
    const msgpack_object *ep, *seq;
    int code;

    if (n_frames != 2 || !read_topic(subscriber, ret))
        return -EBADMSG;
    ret->data = zmq_msg_data(&subscriber->frames[1]);
    ret->n_bytes = zmq_msg_size(&subscriber->frames[1]);
    code = kronosd_unpack(ret->data, ret->n_bytes, &subscriber->unpacked);
    if (code != 0)
        return code;
    if (root->type != MSGPACK_OBJECT_MAP)
        return -EBADMSG;
    ret->root = root;
    ep = kronosd_get(root, "ep");
    seq = kronosd_get(root, "seq");
    ret->numbered = ep && ep->type == MSGPACK_OBJECT_POSITIVE_INTEGER && seq &&
                    seq->type == MSGPACK_OBJECT_POSITIVE_INTEGER;
    ret->ep = ret->numbered ? ep->via.u64 : 0;
    ret->seq = ret->numbered ? seq->via.u64 : 0;
    return 0;
}

/* The topic's slot, or the free one where it belongs. */
static struct track *find_track(const struct kronosd_subscriber *subscriber, const char *topic)
{
    size_t i = kr_fnv1a64(topic) & (subscriber->n_slots - 1);

    while (subscriber->tracks[i].topic[0] && strcmp(subscriber->tracks[i].topic, topic) != 0)
        i = (i + 1) & (subscriber->n_slots - 1);
    return &subscriber->tracks[i];
}

static void report_gap(struct kronosd_subscriber *subscriber, const struct kronosd_message *message,
                       uint64_t expected)
{
    subscriber->counts.gaps++;
    subscriber->counts.lost += message->seq - expected;
    if (subscriber->on_gap)
        subscriber->on_gap(subscriber->context, message->topic, message->ep, expected,
                           message->seq);
}

/* Is the message new? Reports what lies between it and the last one. */
static bool is_new(struct kronosd_subscriber *subscriber, const struct kronosd_message *message)
{
    struct track *track = find_track(subscriber, message->topic);
    uint64_t old_ep = track->ep, expected = track->seq + 1;

    if (!track->topic[0]) {
        if (subscriber->n_tracks == subscriber->max_tracks) {
            subscriber->counts.untracked++;
            return true;
        }
        subscriber->n_tracks++;
        strcpy(track->topic, message->topic);
        expected = message->seq; /* whatever came before we did is no loss */
    } else if (old_ep != message->ep) {
        expected = 1;
        subscriber->counts.restarts++;
        if (subscriber->on_restart)
            subscriber->on_restart(subscriber->context, message->topic, old_ep, message->ep);
    } else if (message->seq <= track->seq) {
        subscriber->counts.duplicates++;
        return false;
    }
    track->ep = message->ep;
    track->seq = message->seq;
    if (message->seq > expected)
        report_gap(subscriber, message, expected);
    return true;
}

/* Wait until there is something to receive, or to know about the connections. Return: 0 (look),
 * -ETIMEDOUT, -EINTR or what ZeroMQ says. */
static int wait_more(struct kronosd_subscriber *subscriber, int64_t deadline)
{
    int check_ms = kw_link_check(&subscriber->link, kronosd_now_ms());
    int64_t until = deadline;
    int code;

    if (check_ms >= 0 && (deadline < 0 || kronosd_deadline_ms(check_ms) < deadline))
        until = kronosd_deadline_ms(check_ms);
    code = kronosd_socket_wait(subscriber->socket, ZMQ_POLLIN, subscriber->link.monitor, until);
    return code == -ETIMEDOUT && until != deadline ? 0 : code;
}

int kronosd_receive(struct kronosd_subscriber *subscriber, int timeout_ms,
                    struct kronosd_message *ret, struct kr_error *error)
{
    int64_t deadline = kronosd_deadline_ms(timeout_ms);
    struct kronosd_message message = {0};
    size_t n_frames;
    int code;

    for (unsigned dropped = 0;;) {
        code = kronosd_socket_receive(subscriber->socket, subscriber->frames, 2, &n_frames);
        if (code == -EAGAIN)
            code = wait_more(subscriber, deadline);
        else if (code == 0) {
            subscriber->counts.received++;
            code = read_message(subscriber, n_frames, &message);
            if (code == 0 && (!message.numbered || is_new(subscriber, &message)))
                break;
            if (code == -EBADMSG) {
                subscriber->counts.malformed++;
                code = 0;
            }
            if (++dropped % DROPS_PER_LOOK == 0 && kronosd_remaining_ms(deadline) == 0)
                code = -ETIMEDOUT;
        }
        if (code == -ETIMEDOUT)
            return kr_error_set(error, code, "nothing new within %d ms", timeout_ms);
        if (code != 0)
            return kr_error_set(error, code, "receive: %s", zmq_strerror(-code));
    }
    *ret = message;
    return 0;
}

const struct kronosd_counts *kronosd_subscriber_counts(const struct kronosd_subscriber *subscriber)
{
    return &subscriber->counts;
}

void *kronosd_subscriber_socket(const struct kronosd_subscriber *subscriber)
{
    return subscriber->socket;
}
