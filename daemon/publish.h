/* SPDX-License-Identifier: MIT */
/* The XPUB socket: topics with their numbers and last values, and who subscribed to what.
 *
 * Sending never blocks: a subscriber that does not read loses messages and sees it in `seq`. Whoever
 * subscribes gets the last value of every matching topic again, with its original (ep, seq), at a bounded
 * pace; subscribers that have it already drop it. Topics and prefixes are bounded. Main thread only. */
#ifndef KD_PUBLISH_H
#define KD_PUBLISH_H

#include "clients/wire.h"
#include "daemon/config.h"
#include "daemon/loop.h"

/* Prefixes remembered; beyond them everything counts as wanted. */
#define KD_MAX_PREFIXES 16384

/* One topic of ours. Lives as long as the publisher. */
struct kd_topic {
    char name[KW_TOPIC_MAX + 1];
    size_t length;
    uint64_t seq; /* of the last message; the next one is seq + 1 */
    char *last;   /* the message that is kept, NULL if none */
    size_t last_bytes, last_capacity;
    bool resend; /* waits in the queue of last values */
    struct kd_topic *next_resend;
    struct kd_topic *next_in_slot;
};

struct kd_prefix {
    size_t length;
    struct kd_prefix *next_in_slot;
    char text[KW_TOPIC_MAX];
};

struct kd_publish {
    void *socket;
    struct kd_loop *loop;
    int source, timer;
    size_t pace;                 /* last values per second */
    struct kd_topic **topics;    /* [n_slots] */
    struct kd_prefix **prefixes; /* [n_slots] */
    size_t n_slots, n_topics, max_topics, n_prefixes;
    bool all_wanted; /* more prefixes than are remembered */
    struct kd_topic *resend_first, *resend_last;
    uint64_t n_sent, n_resent;
    /* A subscription came (prefix of `length` bytes, not terminated); may be NULL. */
    void (*subscribed)(void *context, const char *prefix, size_t length);
    void *context;
};

/* Create and bind; `subscribed`, `context` are set. `max_topics`: how many topics there will be.
 * Return: 0, -ENOMEM, or a negative errno with a line that names the endpoint; then close it as usual. */
int kd_publish_open(struct kd_publish *publish, void *zmq_context, struct kd_loop *loop,
                    const struct kd_config *config, size_t max_topics,
                    struct kr_error *error) kr_must_check;
void kd_publish_close(struct kd_publish *publish, int linger_ms);

/* The topic of that kind and stream, made at the first call. Return: NULL if there are too many. */
struct kd_topic *kd_publish_topic(struct kd_publish *publish, const char *kind,
                                  const char *interval, const char *symbol);

/* The same if it was made already, else NULL. */
struct kd_topic *kd_publish_find(const struct kd_publish *publish, const char *kind,
                                 const char *interval, const char *symbol);

/* Send a message, which carries the number seq; `keep`: as the topic's last value. */
void kd_publish_send(struct kd_publish *publish, struct kd_topic *topic, uint64_t seq,
                     const void *data, size_t n_bytes, bool keep);
/* Forget a last value. */
void kd_publish_forget(struct kd_publish *publish, struct kd_topic *topic);

/* Does any subscription match the topic? */
bool kd_publish_wanted(const struct kd_publish *publish, const struct kd_topic *topic);

#endif
