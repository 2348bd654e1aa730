/* SPDX-License-Identifier: MIT */
/* Sends bars to whoever subscribed, and loses none: an XPUB socket that waits for slow subscribers instead
 * of dropping (ZMQ_XPUB_NODROP), holds while nobody listens, numbers what it sends (`ep`, `seq`) and
 * lingers until everything is on its way. Beside it, if wanted, a ROUTER that answers `history`.
 * One thread. */
#ifndef KC_PUBLISHER_H
#define KC_PUBLISHER_H

#include "clients/wire.h"

struct kc_publisher_config {
    const char *endpoint;
    bool connect;        /* rather than bind */
    const char *history; /* endpoint of the ROUTER, NULL: none */
    const char *scope;   /* topic or prefix of topics that this run sends: "bar|5m|X|", "bar|" */
    int64_t wait_ns;     /* how long to hold without a subscriber; below 0: for ever */
};

struct kc_publisher;

/* Return: 0, -ENOMEM, or what ZeroMQ says (an address in use, an endpoint that cannot be), with a line. */
int kc_publisher_open(const struct kc_publisher_config *config, struct kc_publisher **ret,
                      struct kr_error *error) kr_must_check;

/* Hold until somebody subscribed to something within the scope. Return: 0, -ETIMEDOUT, -EINTR. */
int kc_publisher_wait(struct kc_publisher *publisher) kr_must_check;

/* Send one bar, waiting for subscribers as long as it takes (for none: as kc_publisher_wait()). `seq` and
 * `ep` are given here unless the bar brings its own. Final bars enter the history.
 * Return: 0, -ETIMEDOUT, -EINTR (nothing was sent), -ENOMEM, or what ZeroMQ says. */
int kc_publisher_send(struct kc_publisher *publisher, struct kw_bar *bar) kr_must_check;

/* Answer history and notice subscribers until that time of kc_now_ns(), or until `fd` (-1: none) can be
 * read. Return: 1 if fd can be read, 0 at the time, -EINTR. */
int kc_publisher_idle(struct kc_publisher *publisher, int64_t until_ns, int fd) kr_must_check;

/* Close; with `flush` not before everything sent has left. Accepts NULL. */
void kc_publisher_close(struct kc_publisher **publisher, bool flush);

/* The error line and exit status for what wait, send or idle returned. */
int kc_publisher_failed(int code, const char *endpoint);

/* SIGINT and SIGTERM make the calls above return -EINTR from now on, instead of ending the process. */
void kc_publisher_catch_signals(void);

/* Pace of a replay: one bar an interval, `speed` times as fast; 0: as fast as possible. */
struct kc_pace {
    double speed;
    int64_t interval_ns, start_ns;
};
/* "max", "realtime" or a number above 0. Return: false. */
bool kc_pace_read(const char *text, double *ret_speed) kr_must_check;
/* When bar n is due, on the clock of kc_now_ns(); start_ns is set by the first call. */
int64_t kc_pace_due(struct kc_pace *pace, uint64_t n);

#endif
