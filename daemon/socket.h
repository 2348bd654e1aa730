/* SPDX-License-Identifier: MIT */
/* What the three sockets share: every option set before bind and connect, errors that name the endpoint. */
#ifndef KD_SOCKET_H
#define KD_SOCKET_H

#include "daemon/config.h"

/* A socket with the common options: no linger past `linger_ms`, TCP keepalive, IPv6, bounded handshakes,
 * MAXMSGSIZE. Return: 0, or a negative errno with a line. */
int kd_socket_open(void *zmq_context, int type, const char *name, size_t max_message_bytes,
                   void **ret, struct kr_error *error) kr_must_check;
/* An option of int. Return: 0, or a negative errno with a line. */
int kd_socket_set(void *socket, const char *name, int option, int value,
                  struct kr_error *error) kr_must_check;
/* Return: 0, or a negative errno with a line like `[publish] bind: tcp://...: Address in use`. */
int kd_socket_bind(void *socket, const char *name, const struct kd_list *endpoints,
                   struct kr_error *error) kr_must_check;
/* Close, giving up unsent messages after linger_ms. NULL is nothing. */
void kd_socket_close(void **socket, int linger_ms);

#endif
