/* SPDX-License-Identifier: MIT */
#include "daemon/socket.h"

#include "daemon/log.h"

#include <errno.h>
#include <zmq.h>

int kd_socket_set(void *socket, const char *name, int option, int value, struct kr_error *error)
{
    if (zmq_setsockopt(socket, option, &value, sizeof(value)) == 0)
        return 0;
    return kr_error_set(error, -errno, "[%s] socket option %d: %s", name, option,
                        zmq_strerror(errno));
}

int kd_socket_open(void *zmq_context, int type, const char *name, size_t max_message_bytes,
                   void **ret, struct kr_error *error)
{
    static const struct {
        int option, value;
    } options[] = {
        {ZMQ_LINGER, 0},
        {ZMQ_IPV6, 1},
        {ZMQ_BACKLOG, 128},
        {ZMQ_HANDSHAKE_IVL, 10000},
        {ZMQ_TCP_KEEPALIVE, 1},
        {ZMQ_TCP_KEEPALIVE_IDLE, 30},
        {ZMQ_TCP_KEEPALIVE_INTVL, 10},
        {ZMQ_TCP_KEEPALIVE_CNT, 3},
        {ZMQ_RECONNECT_IVL, 100},
        {ZMQ_RECONNECT_IVL_MAX, 5000},
    };
    int64_t max_bytes = (int64_t)max_message_bytes;
    void *socket = zmq_socket(zmq_context, type);

    if (!socket)
        return kr_error_set(error, -errno, "[%s] socket: %s", name, zmq_strerror(errno));
    if (zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max_bytes, sizeof(max_bytes))) {
        int status =
            kr_error_set(error, -errno, "[%s] largest message: %s", name, zmq_strerror(errno));

        zmq_close(socket);
        return status;
    }
    for (size_t i = 0; i < KR_ARRAY_LENGTH(options); i++) {
        int status = kd_socket_set(socket, name, options[i].option, options[i].value, error);

        if (status) {
            zmq_close(socket);
            return status;
        }
    }
    *ret = socket;
    return 0;
}

static int attach(void *socket, const char *name, const char *verb,
                  int (*call)(void *socket, const char *endpoint), const struct kd_list *endpoints,
                  struct kr_error *error)
{
    for (size_t i = 0; i < endpoints->n; i++) {
        if (call(socket, endpoints->items[i]))
            return kr_error_set(error, -errno, "[%s] %s: %s: %s", name, verb, endpoints->items[i],
                                zmq_strerror(errno));
        kd_say(KD_MSG_SOCKET, "%s %s %s", name, verb, endpoints->items[i]);
    }
    return 0;
}

int kd_socket_bind(void *socket, const char *name, const struct kd_list *endpoints,
                   struct kr_error *error)
{
    return attach(socket, name, "bind", zmq_bind, endpoints, error);
}

void kd_socket_close(void **socket, int linger_ms)
{
    if (!*socket)
        return;
    zmq_setsockopt(*socket, ZMQ_LINGER, &linger_ms, sizeof(linger_ms));
    zmq_close(*socket);
    *socket = NULL;
}
