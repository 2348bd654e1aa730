/* SPDX-License-Identifier: MIT */
/* The control socket: a ROUTER that answers REQ and DEALER peers, one request a message.
 *
 * A request is {op, id?, ...}; a reply {id?, ok, ...} goes to its sender in the shape it came in (an empty
 * delimiter is echoed). Requests are checked before MessagePack may allocate for them, and answered by
 * control_ops.c, at once or later. Sending never blocks: a peer that does not read loses replies. Main
 * thread only. */
#ifndef KD_CONTROL_H
#define KD_CONTROL_H

#include "clients/encoder.h"
#include "daemon/config.h"
#include "daemon/loop.h"
#include "daemon/outbox.h"

struct kd_daemon;

#define KD_MAX_IDENTITY 255
#define KD_MAX_ID       64 /* bytes of a packed `id` */

/* Where a reply goes. */
struct kd_asker {
    size_t n_identity, n_id;
    bool delimiter;
    char identity[KD_MAX_IDENTITY];
    char id[KD_MAX_ID]; /* packed, as it came */
};

struct kd_control {
    void *socket;
    int source;
    struct kd_daemon *daemon;
    msgpack_sbuffer reply;
    uint64_t n_requests, n_refused;
};

/* Create and bind. With no endpoint there is no socket. Return: 0, or a negative errno with a line; then close
 * it as usual. */
int kd_control_open(struct kd_control *control, void *zmq_context, struct kd_daemon *daemon,
                    struct kr_error *error) kr_must_check;
void kd_control_close(struct kd_control *control, int linger_ms);

/* The reply to a request that was answered later: result->owner is its struct kd_asker, freed here. */
void kd_control_finish(struct kd_control *control, struct kd_result *result);

/* One request under way, for control_ops.c. */
struct kd_call {
    struct kd_daemon *daemon;
    const struct kd_asker *asker;
    const msgpack_object *request; /* a map */
    struct kw_encoder encoder;     /* into control->reply, between kd_call_begin() and _end() */
    const char *code;              /* of a refusal */
    struct kr_error error;         /* its line */
};

/* A reply of `ok` and n_more pairs, which the caller puts through call->encoder. */
void kd_call_begin(struct kd_call *call, size_t n_more);
/* Refuse. Return: -1, so that an operation can return it. */
int kd_call_refuse(struct kd_call *call, const char *code, const char *format, ...) kr_printf(3, 4);

/* Answer one request. Return: 0 (the reply is in call->encoder), 1 (it comes later), -1 (refused). */
int kd_control_operate(struct kd_call *call, const char *op);

#endif
