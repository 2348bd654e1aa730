/* SPDX-License-Identifier: MIT */
/* What the service manager is told: sd_notify(3). Without one (no NOTIFY_SOCKET) every call does
 * nothing. Main thread only. */
#ifndef KD_NOTIFY_H
#define KD_NOTIFY_H

#include "core/base.h"

/* READY=1 with STATUS=, also at the end of a reload, failed or not. */
void kd_notify_ready(const char *format, ...) kr_printf(1, 2);
/* STATUS=: the phase of the start, later the state in one line. */
void kd_notify_status(const char *format, ...) kr_printf(1, 2);
/* RELOADING=1 with MONOTONIC_USEC= of now. */
void kd_notify_reloading(void);
/* STOPPING=1 with STATUS=. */
void kd_notify_stopping(const char *format, ...) kr_printf(1, 2);
/* EXTEND_TIMEOUT_USEC=: before a step of the start or the end that may take that long. */
void kd_notify_extend(int64_t timeout_ns);
/* WATCHDOG=1: to be sent only while every worker is idle or has moved. */
void kd_notify_watchdog(void);

/* How often to ping: half of what the manager allows, in ns. Return: true, or false if it watches
 * nothing (ret untouched). */
bool kd_notify_watchdog_interval(int64_t *ret_ns);

#endif
