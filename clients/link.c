/* SPDX-License-Identifier: MIT */
#include "clients/link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

/* Start the monitor and take its other end. */
static bool watch(struct kw_link *link, void *zmq_context)
{
    int events = ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED;
    int none = 0;
    char name[64];

    snprintf(name, sizeof(name), "inproc://kw-link-%p", link->socket);
    if (zmq_socket_monitor(link->socket, name, events) != 0)
        return false;
    link->monitor = zmq_socket(zmq_context, ZMQ_PAIR);
    /* without a limit, since the monitor would hold up ZeroMQ's own thread at it */
    return link->monitor && zmq_setsockopt(link->monitor, ZMQ_RCVHWM, &none, sizeof(none)) == 0 &&
           zmq_setsockopt(link->monitor, ZMQ_LINGER, &none, sizeof(none)) == 0 &&
           zmq_connect(link->monitor, name) == 0;
}

int kw_link_connect(void *socket, const char *endpoint)
{
    int ipv6 = strchr(endpoint, '[') != NULL;

    if (zmq_setsockopt(socket, ZMQ_IPV6, &ipv6, sizeof(ipv6)) != 0 ||
        zmq_connect(socket, endpoint) != 0)
        return zmq_errno() > 0 ? -zmq_errno() : -EIO;
    return 0;
}

int kw_link_open(struct kw_link *link, void *zmq_context, void *socket,
                 const char *const *endpoints, size_t n_endpoints, struct kr_error *error)
{
    *link = (struct kw_link){.socket = socket};
    link->endpoints = calloc(n_endpoints, sizeof(*link->endpoints));
    if (!link->endpoints)
        return kr_error_set(error, -ENOMEM, "endpoints: no memory");
    for (; link->n_endpoints < n_endpoints; link->n_endpoints++) {
        link->endpoints[link->n_endpoints] = strdup(endpoints[link->n_endpoints]);
        if (!link->endpoints[link->n_endpoints])
            return kr_error_set(error, -ENOMEM, "endpoints: no memory");
    }
    if (!watch(link, zmq_context))
        return kr_error_set(error, -zmq_errno(), "monitor: %s", zmq_strerror(zmq_errno()));
    for (size_t i = 0; i < n_endpoints; i++) {
        int code = kw_link_connect(socket, endpoints[i]);

        if (code != 0)
            return kr_error_set(error, code,
                                "%s: expected an endpoint such as tcp://127.0.0.1:7411: %s",
                                endpoints[i], zmq_strerror(-code));
    }
    return 0;
}

void kw_link_close(struct kw_link *link)
{
    if (link->socket)
        zmq_socket_monitor(link->socket, NULL, 0);
    if (link->monitor)
        zmq_close(link->monitor);
    for (size_t i = 0; i < link->n_endpoints; i++)
        free(link->endpoints[i]);
    free(link->endpoints);
    *link = (struct kw_link){0};
}

/* One event of the monitor: two frames, the first begins with the event's number. */
static void take_event(struct kw_link *link, unsigned event, const char *endpoint, int64_t now_ms)
{
    switch (event) {
    case ZMQ_EVENT_CONNECTED:
        link->n_up++;
        if (link->n_up >= link->n_endpoints)
            link->lost[0] = '\0';
        break;
    case ZMQ_EVENT_CONNECT_RETRIED:
        /* it may name the endpoint otherwise than the loss did: resolved */
        if (link->n_endpoints == 1 || strcmp(endpoint, link->lost) == 0)
            link->lost[0] = '\0';
        break;
    case ZMQ_EVENT_DISCONNECTED:
        link->n_up -= link->n_up > 0;
        if (link->lost[0]) /* an earlier loss that is still open counts */
            break;
        snprintf(link->lost, sizeof(link->lost), "%s", endpoint[0] ? endpoint : "?");
        link->lost_ms = now_ms;
        break;
    default:
        break;
    }
}

static void read_monitor(struct kw_link *link, int64_t now_ms)
{
    uint8_t head[6];
    char endpoint[sizeof(link->lost)];
    int n;

    while (zmq_recv(link->monitor, head, sizeof(head), ZMQ_DONTWAIT) == (int)sizeof(head)) {
        uint16_t event;

        memcpy(&event, head, sizeof(event));
        n = zmq_recv(link->monitor, endpoint, sizeof(endpoint) - 1, ZMQ_DONTWAIT);
        endpoint[n < 0 ? 0 : KR_MIN((size_t)n, sizeof(endpoint) - 1)] = '\0';
        take_event(link, event, endpoint, now_ms);
    }
}

int kw_link_check(struct kw_link *link, int64_t now_ms)
{
    read_monitor(link, now_ms);
    if (!link->lost[0])
        return -1;
    if (now_ms - link->lost_ms < KW_LINK_GRACE_MS)
        return (int)(link->lost_ms + KW_LINK_GRACE_MS - now_ms);
    link->n_up = 0;
    link->n_revived++;
    for (size_t i = 0; i < link->n_endpoints; i++) {
        zmq_disconnect(link->socket, link->endpoints[i]);
        if (kw_link_connect(link->socket, link->endpoints[i]) != 0) {
            link->lost_ms = now_ms; /* no memory, no descriptor: once more later */
            return KW_LINK_GRACE_MS;
        }
    }
    link->lost[0] = '\0';
    return -1;
}
