/* SPDX-License-Identifier: MIT */
/* What the client library's two kinds of sockets have in common. Not installed. */
#ifndef KRONOSD_CLIENT_SOCKET_H
#define KRONOSD_CLIENT_SOCKET_H

#include "core/base.h"

#include <zmq.h>

/* The largest message that a client takes if its caller does not say. */
#define KRONOSD_MESSAGE_BYTES ((size_t)64 << 20)

/* A socket with every option set that matters: no linger, bounded messages, TCP keepalive, gentle
 * reconnection; no ZMTP heartbeats, which abort a slow SUB in ZeroMQ 4.3.
 * Return: 0, or a negative errno with a line. */
int kronosd_socket_open(void *zmq_context, int type, int receive_queue, int send_queue,
                        size_t max_bytes, void **ret, struct kr_error *error) kr_must_check;
int kronosd_socket_connect(void *socket, const char *endpoint,
                           struct kr_error *error) kr_must_check;
void kronosd_socket_close(void **socket);

/* Milliseconds on a clock that nobody sets; and what remains of a deadline for zmq_poll(): -1 for
 * ever (deadline below 0), 0 when it has passed. */
int64_t kronosd_now_ms(void);
int64_t kronosd_deadline_ms(int timeout_ms);
long kronosd_remaining_ms(int64_t deadline_ms);

/* Wait for ZMQ_POLLIN or ZMQ_POLLOUT, or for input of a second socket, which may be NULL.
 * Return: 0, -ETIMEDOUT, -EINTR or what ZeroMQ says. */
int kronosd_socket_wait(void *socket, short events, void *other, int64_t deadline_ms) kr_must_check;

/* Receive one multipart message without waiting: the first `n` frames into frames[], which hold
 * messages before and after; frames beyond are dropped. *ret_n counts them all.
 * Return: 0, -EAGAIN, -EINTR or what ZeroMQ says. */
int kronosd_socket_receive(void *socket, zmq_msg_t *frames, size_t n, size_t *ret_n) kr_must_check;

#endif
