/* SPDX-License-Identifier: MIT */
/* A kronosd of cardboard: publishes what a test hands it, and answers requests from a table, over real
 * sockets. */
#ifndef KT_DAEMON_H
#define KT_DAEMON_H

#include "clients/wire.h"
#include "tests/clients/run.h"

/* One answer: to this op, these packed pairs besides `id` and `ok`. code: refuse with it instead. */
struct kt_answer {
    const char *op;
    const char *code;
    size_t n_pairs;
    void (*pack)(msgpack_packer *packer, const msgpack_object *request); /* NULL: none */
};

struct kt_daemon {
    void *context, *xpub, *router;
    char from[256], control[256]; /* endpoints */
    const struct kt_answer *answers;
    size_t n_answers;
    size_t n_requests;
    bool silent;         /* answers nothing */
    char topics[16][80]; /* subscriptions seen */
    size_t n_topics;
};

void kt_daemon_open(struct kt_daemon *daemon);
void kt_daemon_close(struct kt_daemon *daemon);

/* Serve until the child has ended, or somebody has subscribed to `topic` (NULL: until the end).
 * Return: false if neither came within 20 s. */
bool kt_daemon_serve(struct kt_daemon *daemon, const struct kt_child *child, const char *topic);

/* Serve what has come, without waiting. */
void kt_daemon_poll(struct kt_daemon *daemon);

/* Publish a forecast of H = 4 whose median stands at close + 1, and a status. */
void kt_daemon_forecast(struct kt_daemon *daemon, const char *symbol, const char *interval,
                        uint64_t ep, uint64_t seq, int64_t t_ns, double close);
void kt_daemon_status(struct kt_daemon *daemon, uint64_t seq);
void kt_daemon_event(struct kt_daemon *daemon, uint64_t seq);
/* The forecast as a packed map. */
void kt_pack_forecast(msgpack_sbuffer *out, const char *symbol, const char *interval, uint64_t ep,
                      uint64_t seq, int64_t t_ns, double close);

#endif
