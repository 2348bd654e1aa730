/* SPDX-License-Identifier: MIT */
/* What happens by the clock: status messages, stale streams, the watchdog, held-back log lines. Main thread
 * only. */
#ifndef KD_STATUS_H
#define KD_STATUS_H

#include "daemon/daemon.h"

/* Encode the status as of now, with the number `seq`. Return: 0, -ENOMEM. */
int kd_status_encode(const struct kd_daemon *daemon, uint64_t seq,
                     msgpack_sbuffer *out) kr_must_check;

/* For the loop's timers, each sets its own again: a status message; the second hand (stale streams, the
 * manager's line, the log); the watchdog. */
void kd_status_publish(void *daemon);
void kd_status_second(void *daemon);
void kd_status_watchdog(void *daemon);

#endif
