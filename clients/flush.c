/* SPDX-License-Identifier: MIT */
#include "clients/flush.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#define MONITOR_ENDPOINT "inproc://flush"
#define LOOK_AGAIN_MS    5

int kc_flush_watch(struct kc_flush *flush, void *context, void *socket)
{
    const int events = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED;

    if (zmq_socket_monitor(socket, MONITOR_ENDPOINT, events) != 0)
        return -errno;
    flush->monitor = zmq_socket(context, ZMQ_PAIR);
    if (!flush->monitor || zmq_connect(flush->monitor, MONITOR_ENDPOINT) != 0)
        return -errno;
    return 0;
}

static void forget(struct kc_flush *flush, int fd)
{
    for (size_t i = 0; i < flush->n; i++)
        if (flush->fds[i] == fd)
            flush->fds[i--] = flush->fds[--flush->n];
}

static void take_events(struct kc_flush *flush)
{
    unsigned char
        event[6]; /* its number in 16 bits, its value in 32; the address follows as a frame */
    uint16_t number;
    int32_t fd;

    while (zmq_recv(flush->monitor, event, sizeof(event), ZMQ_DONTWAIT) == (int)sizeof(event)) {
        memcpy(&number, event, sizeof(number));
        memcpy(&fd, event + sizeof(number), sizeof(fd));
        zmq_recv(flush->monitor, event, 0, 0);
        forget(flush, fd);
        if (number != ZMQ_EVENT_DISCONNECTED && flush->n < KC_FLUSH_PEERS)
            flush->fds[flush->n++] = fd;
    }
}

void kc_flush_hold(struct kc_flush *flush, void *socket, bool hold)
{
    const int none = 0;

    if (!flush->monitor)
        return;
    take_events(flush);
    if (!hold)
        flush->n = 0;
    for (size_t i = 0; i < flush->n; i++)
        flush->fds[i] = fcntl(flush->fds[i], F_DUPFD_CLOEXEC, 0);
    if (socket)
        zmq_socket_monitor(socket, NULL, 0);
    zmq_setsockopt(flush->monitor, ZMQ_LINGER, &none, sizeof(none));
    zmq_close(flush->monitor);
    flush->monitor = NULL;
}

void kc_flush_finish(struct kc_flush *flush, const volatile sig_atomic_t *interrupted)
{
    char unread[512];

    for (size_t i = 0; i < flush->n; i++) {
        struct pollfd item = {flush->fds[i], 0, 0};
        int waiting = 0;

        while (!*interrupted && ioctl(item.fd, SIOCOUTQ, &waiting) == 0 && waiting > 0)
            if (poll(&item, 1, LOOK_AGAIN_MS) > 0) /* it hung up */
                break;
        /* Closing with unread input would reset the connection under the reader. */
        while (recv(item.fd, unread, sizeof(unread), MSG_DONTWAIT) > 0)
            ;
        if (item.fd >= 0)
            close(item.fd);
    }
    flush->n = 0;
}
