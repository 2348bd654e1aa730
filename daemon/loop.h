/* SPDX-License-Identifier: MIT */
/* The main thread's event loop: ZeroMQ sockets, file descriptors and timers, level-triggered.
 *
 * ZMQ_FD is edge-like and loses wake-ups, so everything waits in one zmq_poll(); this file alone calls it.
 * A handler does a bounded amount of work and returns; what is left makes its source ready again, after the
 * others have had their turn. Main thread only. */
#ifndef KD_LOOP_H
#define KD_LOOP_H

#include "core/base.h"

struct kd_loop;

/* Return: 0, -ENOMEM, a negative errno of timerfd. */
int kd_loop_new(struct kd_loop **ret) kr_must_check;
/* Sockets and descriptors stay open: they belong to who added them. */
void kd_loop_free(struct kd_loop **loop);

/* Call ready(context) while the socket, or the descriptor, is readable. Return: the source's number, or
 * -ENOSPC (our bug: the tables are fixed). */
int kd_loop_socket(struct kd_loop *loop, void *socket, void (*ready)(void *context),
                   void *context) kr_must_check;
int kd_loop_fd(struct kd_loop *loop, int fd, void (*ready)(void *context),
               void *context) kr_must_check;
/* Stop or go on listening to a source. */
void kd_loop_enable(struct kd_loop *loop, int source, bool enabled);

/* A timer, not yet set. Return: its number, -ENOSPC. */
int kd_loop_timer(struct kd_loop *loop, void (*ready)(void *context), void *context) kr_must_check;
/* Fire once at `due_ns` (monotonic); INT64_MAX: never. A handler sets its timer again if it wants. */
void kd_loop_timer_set(struct kd_loop *loop, int timer, int64_t due_ns);
bool kd_loop_timer_armed(const struct kd_loop *loop, int timer);

/* Until kd_loop_quit(). Return: 0, or a negative errno of zmq_poll(). */
int kd_loop_run(struct kd_loop *loop) kr_must_check;
void kd_loop_quit(struct kd_loop *loop);

#endif
