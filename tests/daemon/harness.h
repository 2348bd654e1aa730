/* SPDX-License-Identifier: MIT */
/* The real daemon in a test: started with a configuration of its own on ipc endpoints in kt_tmp(), fed,
 * asked, listened to and stopped. Nothing waits by sleeping: the start is awaited through the notification
 * socket, everything else through messages, each wait with a deadline that only a hang reaches. */
#ifndef KT_HARNESS_H
#define KT_HARNESS_H

#include "clients/wire.h"

#include <pthread.h>
#include <sys/types.h>

/* Milliseconds of a clock that only rises. */
int64_t kt_mono_ms(void);

/* Deadline of one wait. */
#define KT_WAIT_MS 60000

#define KT_MINUTE_NS INT64_C(60000000000)

struct kt_daemon {
    pid_t pid; /* 0: none */
    int notify_fd;
    pthread_t reader; /* of the notifications: their socket holds but a few */
    pthread_mutex_t lock;
    pthread_cond_t more;
    char notified[1 << 16];               /* all so far, each with a newline behind it */
    size_t n_notified, n_seen;            /* bytes; up to where kt_daemon_notified() has looked */
    void *zmq;                            /* one context for all sockets of the test */
    char config[96], notify[96], log[96]; /* files */
    char feed[96], publish[96], control[96]; /* endpoints */
    char text[8192]; /* what the daemon wrote on stderr, after kt_daemon_stop() */
};

/* Write the configuration: the pico model, max_context 128, lookback 64, min_bars 32, growth 24, horizon 4,
 * 2 paths, backlog all, 2 workers, a status message every 100 ms; then `more`, lines of "[section] key =
 * value", over it. Called by kt_daemon_begin(), and again to change the file for a reload. */
void kt_daemon_configure(struct kt_daemon *daemon, const char *more);
/* Start the binary of the build folder and wait for READY=1. Return: true, or false with notes. */
bool kt_daemon_start(struct kt_daemon *daemon);
/* configure, then start. */
bool kt_daemon_begin(struct kt_daemon *daemon, const char *more);
/* Wait for the next notification that holds the text ("READY=1"); those before it are skipped. */
bool kt_daemon_notified(struct kt_daemon *daemon, const char *text);
/* SIGTERM, wait at most 5 s. Return: the exit status, -1 if it did not end or died of a signal. */
int kt_daemon_stop(struct kt_daemon *daemon);
/* Close what kt_daemon_begin() opened; kills a daemon that is still there. */
void kt_daemon_end(struct kt_daemon *daemon);

/* A publisher of bars that connects to the daemon's feed, waits until it is subscribed to, and blocks rather
 * than dropping. */
void *kt_feed_open(struct kt_daemon *daemon);
void kt_feed_close(void **feed);
void kt_feed_send(void *feed, const char *topic, const void *data, size_t n_bytes);

/* Bar number `i` of a test stream: minute bars from 2026-03-02, a walk of its own for each symbol. */
struct kw_bar kt_bar(const char *symbol, const char *interval, size_t i);
void kt_feed_bar(void *feed, const struct kw_bar *bar);

#include "tests/daemon/listen.h"

#endif
