/* SPDX-License-Identifier: MIT */
/* Listening to the real daemon in a test, and asking it. */
#ifndef KT_LISTEN_H
#define KT_LISTEN_H

#include "clients/client.h"
#include "tests/daemon/harness.h"

/* Subscribed, that is: the daemon knows. Close it with kronosd_subscriber_close(). */
struct kronosd_subscriber *kt_subscribe(struct kt_daemon *daemon, const char *topic);
/* The next message; false after KT_WAIT_MS. */
bool kt_receive(struct kronosd_subscriber *subscriber, struct kronosd_message *ret);
struct kronosd_control *kt_control(struct kt_daemon *daemon);

/* Listen to `status` until `received` has come to n and nothing waits. The counts are then stable. */
struct kt_status {
    uint64_t received, accepted, rejected, duplicates, forming, forecasts, skipped, backlog;
    uint64_t reasons[KW_REASONS];
    uint64_t live, stale, faulted, reanchoring;
};
bool kt_settled(struct kt_daemon *daemon, uint64_t received, struct kt_status *ret);
/* received = accepted + rejected + duplicates + forming. */
bool kt_balanced(const struct kt_status *status);

/* Read events of a subscriber to "event|" until one of this kind and reason has come to `count`. */
bool kt_event(struct kronosd_subscriber *subscriber, const char *kind, const char *reason,
              uint64_t count);

/* One request without parameters but `sym` and `iv` (NULL: none). *ret is borrowed until the next. Return: as
 * kronosd_request(). */
int kt_ask(struct kronosd_control *control, const char *op, const char *symbol,
           const char *interval, const msgpack_object **ret);

/* Is the text among the strings of an array? */
bool kt_holds(const msgpack_object *array, const char *text);

#endif
