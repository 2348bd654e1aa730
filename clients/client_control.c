/* SPDX-License-Identifier: MIT */
/* One question at a time to a daemon's control socket. */
#include "clients/client.h"
#include "clients/client_socket.h"
#include "clients/encoder.h"
#include "clients/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Plenty for a handshake across the world. */
#define CONNECT_MS 3000
#define QUEUE      64

struct kronosd_control {
    void *zmq_context;
    void *socket;       /* NULL only when one could not be had again */
    char endpoint[256]; /* for messages */
    uint64_t id;        /* of the last request */
    msgpack_sbuffer request;
    struct kw_encoder encoder;
    bool begun;
    zmq_msg_t frames[2]; /* of the last reply: perhaps an empty delimiter, the map */
    msgpack_unpacked unpacked;
    char code[64]; /* error.code of the last reply */
};

/* A new connection, in place of one that there may be. */
static int reconnect(struct kronosd_control *control, struct kr_error *error)
{
    int code;

    kronosd_socket_close(&control->socket);
    code = kronosd_socket_open(control->zmq_context, ZMQ_DEALER, QUEUE, QUEUE,
                               KRONOSD_MESSAGE_BYTES, &control->socket, error);
    if (code == 0)
        code = kronosd_socket_connect(control->socket, control->endpoint, error);
    if (code != 0)
        kronosd_socket_close(&control->socket);
    return code;
}

int kronosd_control_open(void *zmq_context, const char *endpoint, struct kronosd_control **ret,
                         struct kr_error *error)
{
    struct kronosd_control *control = calloc(1, sizeof(*control));
    int code;

    if (!control)
        return kr_error_set(error, -ENOMEM, "control: no memory");
    msgpack_sbuffer_init(&control->request);
    msgpack_unpacked_init(&control->unpacked);
    zmq_msg_init(&control->frames[0]);
    zmq_msg_init(&control->frames[1]);
    control->zmq_context = zmq_context;
    if (strlen(endpoint) < sizeof(control->endpoint)) {
        strcpy(control->endpoint, endpoint);
        code = reconnect(control, error);
    } else {
        code = kr_error_set(error, -EINVAL, "endpoint: expected less than %zu bytes",
                            sizeof(control->endpoint));
    }
    if (code == 0)
        *ret = control;
    else
        kronosd_control_close(&control);
    return code;
}

void kronosd_control_close(struct kronosd_control **control)
{
    struct kronosd_control *c = *control;

    if (!c)
        return;
    kronosd_socket_close(&c->socket);
    msgpack_unpacked_destroy(&c->unpacked);
    msgpack_sbuffer_destroy(&c->request);
    zmq_msg_close(&c->frames[0]);
    zmq_msg_close(&c->frames[1]);
    free(c);
    *control = NULL;
}

const char *kronosd_control_code(const struct kronosd_control *control)
{
    return control->code;
}

msgpack_packer *kronosd_request_begin(struct kronosd_control *control, const char *op,
                                      size_t n_more)
{
    msgpack_sbuffer_clear(&control->request);
    control->begun = true;
    control->id++;
    kw_begin(&control->encoder, &control->request, 2 + n_more);
    kw_put_text(&control->encoder, "op", op);
    kw_put_uint(&control->encoder, "id", control->id);
    return &control->encoder.packer;
}

static void pack_text(msgpack_packer *packer, const char *text)
{
    size_t n = strlen(text);

    msgpack_pack_str(packer, n);
    msgpack_pack_str_body(packer, text, n);
}

void kronosd_pack_string(msgpack_packer *packer, const char *key, const char *value)
{
    pack_text(packer, key);
    pack_text(packer, value);
}

void kronosd_pack_int(msgpack_packer *packer, const char *key, int64_t value)
{
    pack_text(packer, key);
    msgpack_pack_int64(packer, value);
}

void kronosd_pack_real(msgpack_packer *packer, const char *key, double value)
{
    pack_text(packer, key);
    msgpack_pack_double(packer, value);
}

/* Send what was begun. Return: 0, -ENOMEM, -EINVAL, -EHOSTUNREACH, -EINTR or what ZeroMQ says. */
static int send_request(struct kronosd_control *control, int64_t deadline, struct kr_error *error)
{
    int64_t connect_deadline = kronosd_deadline_ms(CONNECT_MS);
    int code;

    if (!control->begun)
        return kr_error_set(error, -EINVAL, "request: expected one that was begun");
    control->begun = false;
    code = control->socket ? 0 : reconnect(control, error);
    if (code != 0)
        return code;
    if (kw_end(&control->encoder) != 0)
        return kr_error_set(error, -ENOMEM, "request: no memory");
    if (kw_check(control->request.data, control->request.size, KRONOSD_DEPTH) != 0)
        return kr_error_set(error, -EINVAL, "request: not the pairs that were announced");
    if (deadline >= 0)
        connect_deadline = KR_MIN(connect_deadline, deadline);
    /* the socket takes a message only when a connection is up (ZMQ_IMMEDIATE) */
    code = kronosd_socket_wait(control->socket, ZMQ_POLLOUT, NULL, connect_deadline);
    if (code == 0 &&
        zmq_send(control->socket, control->request.data, control->request.size, ZMQ_DONTWAIT) < 0)
        code = zmq_errno() == EAGAIN ? -ETIMEDOUT : -zmq_errno();
    if (code == -ETIMEDOUT)
        return kr_error_set(error, -EHOSTUNREACH, "%s: no daemon listens there", control->endpoint);
    if (code != 0)
        return kr_error_set(error, code, "%s: %s", control->endpoint, zmq_strerror(-code));
    return 0;
}

/* Wait for the next message, and unpack it. Errors as kronosd_request(), without a line. */
static int receive_reply(struct kronosd_control *control, int64_t deadline)
{
    zmq_msg_t *payload = &control->frames[0];
    size_t n_frames;
    int code = kronosd_socket_receive(control->socket, control->frames, 2, &n_frames);

    while (code == -EAGAIN) {
        code = kronosd_socket_wait(control->socket, ZMQ_POLLIN, NULL, deadline);
        if (code == 0)
            code = kronosd_socket_receive(control->socket, control->frames, 2, &n_frames);
    }
    if (code != 0)
        return code;
    if (n_frames == 2 && zmq_msg_size(payload) == 0)
        payload = &control->frames[1]; /* behind a delimiter */
    else if (n_frames != 1)
        return -EBADMSG;
    code = kronosd_unpack(zmq_msg_data(payload), zmq_msg_size(payload), &control->unpacked);
    if (code == 0 && control->unpacked.data.type != MSGPACK_OBJECT_MAP)
        code = -EBADMSG;
    return code;
}

/* Does the reply answer the request under way? One without an id does if it is an error: then the
 * daemon could not read so far. */
static bool is_answer(const struct kronosd_control *control)
{
    const msgpack_object *reply = &control->unpacked.data;

    if (!kronosd_get(reply, "id"))
        return !kronosd_get_bool(reply, "ok", false);
    return kronosd_get_uint(reply, "id", 0) == control->id;
}

static int judge_reply(struct kronosd_control *control, const msgpack_object **ret,
                       struct kr_error *error)
{
    const msgpack_object *reply = &control->unpacked.data;
    const msgpack_object *ok = kronosd_get(reply, "ok"), *why = kronosd_get(reply, "error");
    char text[400];

    if (!ok || ok->type != MSGPACK_OBJECT_BOOLEAN)
        return kr_error_set(error, -EBADMSG, "%s: reply: expected `ok`", control->endpoint);
    if (ok->via.boolean) {
        *ret = reply;
        return 0;
    }
    kronosd_get_string(why, "code", control->code, sizeof(control->code));
    kronosd_get_string(why, "msg", text, sizeof(text));
    return kr_error_set(error, -EREMOTEIO, "%s%s%s",
                        control->code[0] ? control->code : "refused without a reason",
                        text[0] ? ": " : "", text);
}

/* Send, and wait for the answer. Return: as kronosd_request(). */
static int exchange(struct kronosd_control *control, int timeout_ms, struct kr_error *error)
{
    int64_t deadline = kronosd_deadline_ms(timeout_ms);
    int code = send_request(control, deadline, error);

    if (code != 0)
        return code;
    do
        code = receive_reply(control, deadline);
    while (code == 0 && !is_answer(control));
    if (code == -ETIMEDOUT)
        return kr_error_set(error, code, "%s: no reply within %d ms", control->endpoint,
                            timeout_ms);
    if (code == -EBADMSG)
        return kr_error_set(error, code, "%s: reply: expected one MessagePack map",
                            control->endpoint);
    if (code != 0)
        return kr_error_set(error, code, "%s: %s", control->endpoint, zmq_strerror(-code));
    return 0;
}

int kronosd_request(struct kronosd_control *control, int timeout_ms, const msgpack_object **ret,
                    struct kr_error *error)
{
    int code;

    control->code[0] = '\0';
    code = exchange(control, timeout_ms, error);
    /* ZeroMQ gives up an endpoint after a fault of the protocol: never wait on a dead one twice */
    if (code == -ETIMEDOUT || code == -EHOSTUNREACH)
        reconnect(control, NULL); /* if that fails the next request tries again */
    return code ? code : judge_reply(control, ret, error);
}
