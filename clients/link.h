/* SPDX-License-Identifier: MIT */
/* Keeping a connecting socket connected.
 *
 * ZeroMQ 4.3 reconnects after a lost connection, but not after a fault of the protocol: one message
 * beyond ZMQ_MAXMSGSIZE, and the endpoint is given up for good without a word. The socket's monitor
 * shows the difference: the loss is not followed by a retry. Then the endpoints are connected anew.
 * One thread: the socket's own. */
#ifndef KW_LINK_H
#define KW_LINK_H

#include "core/base.h"

/* From a loss without a retry until it is believed. */
#define KW_LINK_GRACE_MS 1000

/* zmq_connect(), by IPv6 if the endpoint is a numeric IPv6 address: "tcp://[::1]:7411". A name is
 * taken for IPv4, since ZeroMQ tries only the first address that a name has. Return: 0, negative
 * errno. */
int kw_link_connect(void *socket, const char *endpoint) kr_must_check;

struct kw_link {
    void *socket;     /* borrowed */
    void *monitor;    /* a PAIR to be polled for input beside the socket */
    char **endpoints; /* [n_endpoints] */
    size_t n_endpoints;
    size_t n_up;    /* connections that stand, as far as the monitor told */
    char lost[256]; /* endpoint whose loss no retry followed yet, "" if none */
    int64_t lost_ms;
    uint64_t n_revived;
};

/* Watch the socket, whose options are set, and connect it to the endpoints (copied).
 * Return: 0, -ENOMEM, or what ZeroMQ says, with a line; close the link in any case. */
int kw_link_open(struct kw_link *link, void *zmq_context, void *socket,
                 const char *const *endpoints, size_t n_endpoints,
                 struct kr_error *error) kr_must_check;
/* Before the socket is closed. */
void kw_link_close(struct kw_link *link);

/* Read what the monitor says, and connect anew where that is needed; best when there is nothing to
 * receive, since what waits in the socket is lost. now_ms: a monotonic clock.
 * Return: milliseconds until it should be asked again even if the monitor is silent, -1 if not. */
int kw_link_check(struct kw_link *link, int64_t now_ms);

#endif
