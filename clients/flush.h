/* SPDX-License-Identifier: MIT */
/* Seeing to it that what a publisher has sent is read before it is gone.
 *
 * A local socket that is closed tells its reader so at once, and a ZeroMQ reader whose queue is full then
 * gives up what it has not read yet. So the last messages are not safe when they have left us, only when
 * they have been read. A monitor learns the socket's connections; a second descriptor of each keeps it
 * open while ZeroMQ lingers and closes, until the other side has read all (a local socket) or has it (TCP). */
#ifndef KC_FLUSH_H
#define KC_FLUSH_H

#include "core/base.h"

#include <signal.h>

#define KC_FLUSH_PEERS                                                                             \
    256 /* connections whose end is awaited; further ones get what ZeroMQ gives */

struct kc_flush {
    void *monitor;
    int fds[KC_FLUSH_PEERS]; /* [n] ZeroMQ's own until kc_flush_hold(), then ours; -1: none */
    size_t n;
};

/* Learn of the connections of a socket that is neither bound nor connected yet; one a context.
 * Return: 0, or a negative errno. */
int kc_flush_watch(struct kc_flush *flush, void *zmq_context, void *zmq_socket) kr_must_check;

/* Before the socket is closed: with `hold` keep its connections open. Ends the watching. */
void kc_flush_hold(struct kc_flush *flush, void *zmq_socket, bool hold);

/* After the context has ended: wait until all is read, or *interrupted. Closes the connections. */
void kc_flush_finish(struct kc_flush *flush, const volatile sig_atomic_t *interrupted);

#endif
