/* SPDX-License-Identifier: MIT */
#include "tests/daemon/listen.h"

#include "tests/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A subscription takes its time to arrive. One to the status behind it is answered at once: with that answer the
 * first is in force. What came before the answer is kept for kt_receive(). */

struct kept {
    struct kept *next;
    struct kronosd_subscriber *owner;
    struct kronosd_message message;
    char topic[KW_TOPIC_MAX + 1];
    char data[];
};

static struct kept *first_kept;
static struct kronosd_subscriber *probed[64]; /* to be spared further status messages */

static void keep(struct kronosd_subscriber *owner, const struct kronosd_message *message)
{
    struct kept *kept = malloc(sizeof(*kept) + message->n_bytes), **link = &first_kept;

    if (!kept)
        abort();
    *kept = (struct kept){.owner = owner, .message = *message};
    snprintf(kept->topic, sizeof(kept->topic), "%s", message->topic);
    memcpy(kept->data, message->data, message->n_bytes);
    while (*link)
        link = &(*link)->next;
    *link = kept;
}

/* The oldest kept message of its owner: borrowed until the next one. */
static bool take_kept(struct kronosd_subscriber *owner, struct kronosd_message *ret)
{
    static msgpack_unpacked unpacked;
    static struct kept *held;
    struct kept **link = &first_kept;

    while (*link && (*link)->owner != owner)
        link = &(*link)->next;
    if (!*link)
        return false;
    msgpack_unpacked_destroy(&unpacked);
    free(held);
    held = *link;
    *link = held->next;
    msgpack_unpacked_init(&unpacked);
    if (kronosd_unpack(held->data, held->message.n_bytes, &unpacked))
        abort();
    *ret = held->message;
    ret->topic = held->topic;
    ret->data = held->data;
    ret->root = &unpacked.data;
    return true;
}

/* The address may have been another's. */
static struct kronosd_subscriber **probe_of(struct kronosd_subscriber *subscriber)
{
    for (size_t i = 0; i < KR_ARRAY_LENGTH(probed); i++)
        if (probed[i] == subscriber)
            return &probed[i];
    return NULL;
}

static void await_subscription(struct kronosd_subscriber *subscriber)
{
    struct kronosd_message message;
    struct kronosd_subscriber **probe = probe_of(NULL);
    struct kr_error error = {""};

    if (!probe || kronosd_subscribe(subscriber, "status|", &error))
        abort();
    while (kronosd_receive(subscriber, KT_WAIT_MS, &message, &error) == 0) {
        if (strcmp(message.kind, "status") == 0)
            break;
        keep(subscriber, &message);
    }
    if (kronosd_unsubscribe(subscriber, "status|", &error))
        abort();
    *probe = subscriber;
}

struct kronosd_subscriber *kt_subscribe(struct kt_daemon *daemon, const char *topic)
{
    const char *endpoint = daemon->publish;
    const struct kronosd_subscriber_config config = {
        .endpoints = &endpoint, .n_endpoints = 1, .topics = &topic, .n_topics = 1};
    struct kronosd_subscriber *subscriber = NULL, **probe;
    struct kronosd_message message;
    struct kr_error error;

    if (kronosd_subscriber_open(daemon->zmq, &config, &subscriber, &error)) {
        kt_note("%s", error.text);
        return NULL;
    }
    while (take_kept(subscriber, &message))
        ; /* of one that was closed, at the same address */
    probe = probe_of(subscriber);
    if (probe)
        *probe = NULL;
    if (strncmp(topic, "status|", strlen(topic)) != 0)
        await_subscription(subscriber);
    return subscriber;
}

bool kt_receive(struct kronosd_subscriber *subscriber, struct kronosd_message *ret)
{
    struct kr_error error = {""};
    int status;

    if (take_kept(subscriber, ret))
        return true;
    do {
        status = kronosd_receive(subscriber, KT_WAIT_MS, ret, &error);
    } while (!status && strcmp(ret->kind, "status") == 0 && probe_of(subscriber));
    if (status)
        kt_note("no message: %s %s", strerror(-status), error.text);
    return status == 0;
}

struct kronosd_control *kt_control(struct kt_daemon *daemon)
{
    struct kronosd_control *control = NULL;
    struct kr_error error;

    if (kronosd_control_open(daemon->zmq, daemon->control, &control, &error))
        kt_note("%s", error.text);
    return control;
}

static void read_status(const msgpack_object *root, struct kt_status *ret)
{
    const msgpack_object *rejected = kronosd_get(root, "rejected");
    const msgpack_object *streams = kronosd_get(root, "streams");

    *ret = (struct kt_status){
        .received = kronosd_get_uint(root, "received", 0),
        .accepted = kronosd_get_uint(root, "accepted", 0),
        .duplicates = kronosd_get_uint(root, "duplicates", 0),
        .forming = kronosd_get_uint(root, "forming", 0),
        .forecasts = kronosd_get_uint(root, "forecasts", 0),
        .skipped = kronosd_get_uint(root, "skipped", 0),
        .backlog = kronosd_get_uint(root, "backlog", 0),
        .live = kronosd_get_uint(streams, "live", 0),
        .stale = kronosd_get_uint(streams, "stale", 0),
        .faulted = kronosd_get_uint(streams, "faulted", 0),
        .reanchoring = kronosd_get_uint(streams, "reanchoring", 0),
    };
    for (int reason = 0; reason < KW_REASONS; reason++) {
        ret->reasons[reason] = kronosd_get_uint(rejected, kw_reason_names[reason], 0);
        ret->rejected += ret->reasons[reason];
    }
}

bool kt_settled(struct kt_daemon *daemon, uint64_t received, struct kt_status *ret)
{
    struct kronosd_subscriber *subscriber = kt_subscribe(daemon, "status|");
    int64_t end_ms = kt_mono_ms() + KT_WAIT_MS;
    struct kronosd_message message;
    unsigned n_quiet = 0;

    *ret = (struct kt_status){0};

    /* The last result of a worker is published by the main thread a moment after nothing waits any more: two
     * quiet messages in a row. As long as something moves, it may take its time. */
    while (n_quiet < 2 && kt_mono_ms() < end_ms && kt_receive(subscriber, &message)) {
        struct kt_status before = *ret;

        read_status(message.root, ret);
        KT_CHECK(kt_balanced(ret), "counts do not add up in a status message");
        n_quiet = ret->received >= received && ret->backlog == 0 ? n_quiet + 1 : 0;
        if (before.received != ret->received || before.backlog != ret->backlog)
            end_ms = kt_mono_ms() + KT_WAIT_MS;
    }
    kronosd_subscriber_close(&subscriber);
    if (n_quiet < 2)
        kt_note("not settled: received %llu of %llu, backlog %llu",
                (unsigned long long)ret->received, (unsigned long long)received,
                (unsigned long long)ret->backlog);
    return n_quiet == 2;
}

bool kt_balanced(const struct kt_status *status)
{
    return status->received ==
           status->accepted + status->rejected + status->duplicates + status->forming;
}

bool kt_event(struct kronosd_subscriber *subscriber, const char *kind, const char *reason,
              uint64_t count)
{
    struct kronosd_message message;

    while (kt_receive(subscriber, &message)) {
        char found_kind[32], found_reason[32];

        kronosd_get_string(message.root, "kind", found_kind, sizeof(found_kind));
        kronosd_get_string(message.root, "reason", found_reason, sizeof(found_reason));
        if (strcmp(found_kind, kind) == 0 && strcmp(found_reason, reason) == 0 &&
            kronosd_get_uint(message.root, "count", 0) == count)
            return true;
    }
    kt_note("no event %s %s %llu", kind, reason, (unsigned long long)count);
    return false;
}

int kt_ask(struct kronosd_control *control, const char *op, const char *symbol,
           const char *interval, const msgpack_object **ret)
{
    struct kr_error error = {""};
    msgpack_packer *packer = kronosd_request_begin(control, op, symbol ? 2 : 0);
    int status;

    if (symbol) {
        kronosd_pack_string(packer, "sym", symbol);
        kronosd_pack_string(packer, "iv", interval);
    }
    status = kronosd_request(control, KT_WAIT_MS, ret, &error);
    if (status && status != -EREMOTEIO)
        kt_note("%s: %s", op, error.text);
    return status;
}

bool kt_holds(const msgpack_object *array, const char *text)
{
    for (size_t i = 0; array && i < array->via.array.size; i++) {
        const msgpack_object *item = &array->via.array.ptr[i];

        if (item->type == MSGPACK_OBJECT_STR && item->via.str.size == strlen(text) &&
            memcmp(item->via.str.ptr, text, strlen(text)) == 0)
            return true;
    }
    return false;
}
