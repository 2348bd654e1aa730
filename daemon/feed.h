/* SPDX-License-Identifier: MIT */
/* The feed: one SUB socket, connected and bound to any number of endpoints.
 *
 * It is drained in turns of a bounded number of messages and time, and only while bars are wanted: a paused
 * feed leaves its messages to libzmq and TCP. No ZMTP heartbeats: with a finite queue and a slow reader they
 * abort the process (libzmq 4767). Main thread only. */
#ifndef KD_FEED_H
#define KD_FEED_H

#include "clients/link.h"
#include "daemon/config.h"
#include "daemon/loop.h"

struct kd_feed {
    void *socket;
    struct kd_loop *loop;
    int source;
    struct kw_link link; /* what it connects to */
    int link_timer;
    size_t message_bytes; /* longer ones are handed on as too large */
    bool paused;
    /* One message: the payload (NULL, 0 if it is not two frames, or too large as `too_large` says), valid
     * during the call. */
    void (*take)(void *context, const void *data, size_t n_bytes, bool too_large);
    /* After each turn. */
    void (*rest)(void *context);
    void *context;
};

/* Create, subscribe, bind and connect; `take`, `rest`, `context` are set. A message above [limits]
 * message_bytes is counted as too_large; one far above it costs its sender the connection, which is made
 * anew after a second.
 * Return: 0, or a negative errno with a line that names the endpoint; then close it as usual. */
int kd_feed_open(struct kd_feed *feed, void *zmq_context, struct kd_loop *loop,
                 const struct kd_config *config, struct kr_error *error) kr_must_check;
void kd_feed_close(struct kd_feed *feed);

void kd_feed_pause(struct kd_feed *feed, bool paused);

#endif
