/* SPDX-License-Identifier: MIT */
#include "clients/client_socket.h"
#include "clients/link.h"

#include <errno.h>
#include <time.h>

/* ZeroMQ's own error numbers lie beyond the system's; they pass through. */
static int zmq_failure(void)
{
    return zmq_errno() > 0 ? -zmq_errno() : -EIO;
}

int kronosd_socket_open(void *zmq_context, int type, int receive_queue, int send_queue,
                        size_t max_bytes, void **ret, struct kr_error *error)
{
    const struct {
        int name, value;
    } options[] = {
        {ZMQ_RCVHWM, receive_queue},
        {ZMQ_SNDHWM, send_queue},
        {ZMQ_LINGER, 0},
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_TCP_KEEPALIVE_IDLE, 30},
        {ZMQ_TCP_KEEPALIVE_INTVL, 10},
        {ZMQ_TCP_KEEPALIVE_CNT, 3},
        {ZMQ_RECONNECT_IVL, 100},
        {ZMQ_RECONNECT_IVL_MAX, 2000},
        {ZMQ_HEARTBEAT_IVL, 0},
        {ZMQ_IMMEDIATE, type == ZMQ_DEALER}, /* a request waits for a listener, not in a queue */
    };
    int64_t limit = (int64_t)max_bytes;
    void *socket = zmq_socket(zmq_context, type);
    bool ok = socket && zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &limit, sizeof(limit)) == 0;
    int code;

    for (size_t i = 0; ok && i < KR_ARRAY_LENGTH(options); i++)
        ok = zmq_setsockopt(socket, options[i].name, &options[i].value, sizeof(int)) == 0;
    if (ok) {
        *ret = socket;
        return 0;
    }
    code = zmq_failure();
    kronosd_socket_close(&socket);
    return kr_error_set(error, code, "socket: %s", zmq_strerror(-code));
}

int kronosd_socket_connect(void *socket, const char *endpoint, struct kr_error *error)
{
    int code = kw_link_connect(socket, endpoint);

    if (code == 0)
        return 0;
    return kr_error_set(error, code, "%s: expected an endpoint such as tcp://127.0.0.1:7411: %s",
                        endpoint, zmq_strerror(-code));
}

void kronosd_socket_close(void **socket)
{
    if (*socket)
        zmq_close(*socket);
    *socket = NULL;
}

int64_t kronosd_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t kronosd_deadline_ms(int timeout_ms)
{
    return timeout_ms < 0 ? -1 : kronosd_now_ms() + timeout_ms;
}

long kronosd_remaining_ms(int64_t deadline_ms)
{
    int64_t left = deadline_ms < 0 ? -1 : deadline_ms - kronosd_now_ms();

    return (long)(deadline_ms < 0 ? -1 : KR_MAX(left, 0));
}

int kronosd_socket_wait(void *socket, short events, void *other, int64_t deadline_ms)
{
    zmq_pollitem_t items[] = {
        {.socket = socket, .events = events},
        {.socket = other, .events = ZMQ_POLLIN},
    };

    for (;;) {
        int n = zmq_poll(items, other ? 2 : 1, kronosd_remaining_ms(deadline_ms));

        if (n < 0)
            return zmq_failure();
        if (n > 0)
            return 0;
        if (deadline_ms >= 0 && kronosd_remaining_ms(deadline_ms) == 0)
            return -ETIMEDOUT;
    }
}

int kronosd_socket_receive(void *socket, zmq_msg_t *frames, size_t n, size_t *ret_n)
{
    zmq_msg_t rest;
    size_t received = 0;
    int code = 0;
    bool more = true;

    zmq_msg_init(&rest);
    while (more) {
        zmq_msg_t *frame = received < n ? &frames[received] : &rest;

        /* the parts behind the first are there once it is */
        if (zmq_msg_recv(frame, socket, ZMQ_DONTWAIT) < 0) {
            code = zmq_failure();
            if (received > 0 && code == -EINTR)
                continue;
            break;
        }
        received++;
        more = zmq_msg_more(frame);
    }
    zmq_msg_close(&rest);
    if (code == 0)
        *ret_n = received;
    return code;
}
