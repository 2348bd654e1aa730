/* SPDX-License-Identifier: MIT */
#include "daemon/control.h"

#include "clients/wire.h"
#include "daemon/args.h"
#include "daemon/clock.h"
#include "daemon/daemon.h"
#include "daemon/log.h"
#include "daemon/socket.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define TURN_REQUESTS 32
#define TURN_NS       INT64_C(2000000)
/* identity, delimiter, request, and one that is too many */
#define MAX_FRAMES 4

/* Replies */

static void send_reply(struct kd_control *control, const struct kd_asker *asker)
{
    /* A peer that is gone or does not read: the message is dropped as a whole with its first frame. */
    if (zmq_send(control->socket, asker->identity, asker->n_identity, ZMQ_SNDMORE | ZMQ_DONTWAIT) <
        0)
        return;
    if (asker->delimiter && zmq_send(control->socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return;
    if (zmq_send(control->socket, control->reply.data, control->reply.size, ZMQ_DONTWAIT) < 0)
        return;
}

static void begin(struct kd_control *control, const struct kd_asker *asker,
                  struct kw_encoder *encoder, bool ok, size_t n_more)
{
    msgpack_sbuffer_clear(&control->reply);
    kw_begin(encoder, &control->reply, (asker->n_id ? 1 : 0) + 1 + n_more);
    if (asker->n_id)
        kw_put_packed(encoder, "id", asker->id, asker->n_id);
    kw_put_bool(encoder, "ok", ok);
}

static void refuse(struct kd_control *control, const struct kd_asker *asker, const char *code,
                   const char *message)
{
    struct kw_encoder encoder;

    control->n_refused++;
    begin(control, asker, &encoder, false, 1);
    kw_put_map(&encoder, "error", 2);
    kw_put_text(&encoder, "code", code);
    kw_put_text(&encoder, "msg", message);
    if (kw_end(&encoder) == 0)
        send_reply(control, asker);
}

void kd_call_begin(struct kd_call *call, size_t n_more)
{
    begin(&call->daemon->control, call->asker, &call->encoder, true, n_more);
}

int kd_call_refuse(struct kd_call *call, const char *code, const char *format, ...)
{
    va_list arguments;

    call->code = code;
    va_start(arguments, format);
    vsnprintf(call->error.text, sizeof(call->error.text), format, arguments);
    va_end(arguments);
    return -1;
}

void kd_control_finish(struct kd_control *control, struct kd_result *result)
{
    struct kd_asker *asker = result->owner;
    struct kw_encoder encoder;

    if (control->socket && !result->status && result->has_forecast) {
        begin(control, asker, &encoder, true, 1);
        kw_put_packed(&encoder, "forecast", result->forecast.data, result->forecast.size);
        if (kw_end(&encoder) == 0)
            send_reply(control, asker);
        else
            refuse(control, asker, "failed", "no memory for the reply");
    } else if (control->socket) {
        refuse(control, asker, result->status == -ECANCELED ? "draining" : "failed",
               result->error.text);
    }
    free(asker);
    result->owner = NULL;
}

/* Requests */

/* The `id` to echo. Return: false if there is one that cannot be. */
static bool copy_id(const msgpack_object *map, struct kd_asker *asker)
{
    msgpack_sbuffer packed;
    msgpack_packer packer;
    bool fits = true;

    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];

        if (pair->key.type != MSGPACK_OBJECT_STR || pair->key.via.str.size != 2 ||
            memcmp(pair->key.via.str.ptr, "id", 2))
            continue;
        if (pair->val.type == MSGPACK_OBJECT_MAP || pair->val.type == MSGPACK_OBJECT_ARRAY)
            return false;
        msgpack_sbuffer_init(&packed);
        msgpack_packer_init(&packer, &packed, msgpack_sbuffer_write);
        fits = !msgpack_pack_object(&packer, pair->val) && packed.size <= sizeof(asker->id);
        if (fits) {
            asker->n_id = packed.size;
            memcpy(asker->id, packed.data, packed.size);
        }
        msgpack_sbuffer_destroy(&packed);
    }
    return fits;
}

static void operate(struct kd_control *control, struct kd_asker *asker,
                    const msgpack_object *request)
{
    struct kd_call call = {.daemon = control->daemon, .asker = asker, .request = request};
    char op[32];

    if (request->type != MSGPACK_OBJECT_MAP) {
        refuse(control, asker, "bad_request", "expected a map");
        return;
    }
    if (!copy_id(request, asker)) {
        refuse(control, asker, "bad_request", "id: expected a short string or a number");
        return;
    }
    if (kd_args_string(request, "op", op, sizeof(op)) <= 0) {
        refuse(control, asker, "bad_request", "op: expected a string");
        return;
    }
    switch (kd_control_operate(&call, op)) {
    case 0:
        if (kw_end(&call.encoder) == 0)
            send_reply(control, asker);
        else
            refuse(control, asker, "failed", "no memory for the reply");
        break;
    case 1:
        break;
    default:
        refuse(control, asker, call.code, call.error.text);
    }
}

static void take_request(struct kd_control *control, struct kd_asker *asker, const void *data,
                         size_t n_bytes)
{
    msgpack_unpacked unpacked;
    size_t offset = 0;

    if (kw_check(data, n_bytes, KW_MAX_DEPTH)) {
        refuse(control, asker, "bad_request", "expected one MessagePack map");
        return;
    }
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, data, n_bytes, &offset) == MSGPACK_UNPACK_SUCCESS)
        operate(control, asker, &unpacked.data);
    else
        refuse(control, asker, "bad_request", "expected one MessagePack map");
    msgpack_unpacked_destroy(&unpacked);
}

/* Take one message that is there. Return: 0, -EAGAIN. */
static int receive(struct kd_control *control)
{
    struct kd_asker asker = {0};
    zmq_msg_t frames[MAX_FRAMES];
    size_t n = 0, kept;
    bool more = true;

    for (; more; n++) {
        zmq_msg_t *frame = &frames[KR_MIN(n, (size_t)MAX_FRAMES - 1)];

        if (n >= MAX_FRAMES)
            zmq_msg_close(frame);
        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, control->socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(frame);
            for (size_t i = 0; i < KR_MIN(n, (size_t)MAX_FRAMES - 1); i++)
                zmq_msg_close(&frames[i]);
            return -EAGAIN;
        }
        more = zmq_msg_more(frame);
    }
    kept = KR_MIN(n, (size_t)MAX_FRAMES);
    control->n_requests++;
    asker.n_identity = KR_MIN(zmq_msg_size(&frames[0]), sizeof(asker.identity));
    memcpy(asker.identity, zmq_msg_data(&frames[0]), asker.n_identity);
    asker.delimiter = n > 2 && zmq_msg_size(&frames[1]) == 0;
    if (n == (asker.delimiter ? 3u : 2u))
        take_request(control, &asker, zmq_msg_data(&frames[n - 1]), zmq_msg_size(&frames[n - 1]));
    else
        refuse(control, &asker, "bad_request", "expected one frame, behind an empty one or not");
    for (size_t i = 0; i < kept; i++)
        zmq_msg_close(&frames[i]);
    return 0;
}

static void on_ready(void *context)
{
    struct kd_control *control = context;
    int64_t end_ns = kd_mono_ns() + TURN_NS;

    for (size_t i = 0; i < TURN_REQUESTS; i++)
        if (receive(control) || kd_mono_ns() >= end_ns)
            return;
}

/* Life */

int kd_control_open(struct kd_control *control, void *zmq_context, struct kd_daemon *daemon,
                    struct kr_error *error)
{
    static const struct {
        int option, value;
    } options[] = {
        {ZMQ_SNDHWM, 100},          {ZMQ_RCVHWM, 100},          {ZMQ_ROUTER_MANDATORY, 0},
        {ZMQ_ROUTER_HANDOVER, 0},   {ZMQ_HEARTBEAT_IVL, 10000}, {ZMQ_HEARTBEAT_TIMEOUT, 30000},
        {ZMQ_HEARTBEAT_TTL, 60000},
    };
    const struct kd_config *config = daemon->config;
    int status;

    control->daemon = daemon;
    msgpack_sbuffer_init(&control->reply);
    if (!config->control.bind.n)
        return 0;
    status = kd_socket_open(zmq_context, ZMQ_ROUTER, "control", config->limits.request_bytes,
                            &control->socket, error);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(options) && !status; i++)
        status =
            kd_socket_set(control->socket, "control", options[i].option, options[i].value, error);
    if (!status)
        status = kd_socket_bind(control->socket, "control", &config->control.bind, error);
    if (status)
        return status;
    control->source = kd_loop_socket(daemon->loop, control->socket, on_ready, control);
    return KR_MIN(control->source, 0);
}

void kd_control_close(struct kd_control *control, int linger_ms)
{
    kd_socket_close(&control->socket, linger_ms);
    msgpack_sbuffer_destroy(&control->reply);
}
