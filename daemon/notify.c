/* SPDX-License-Identifier: MIT */
#include "daemon/notify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#define MAX_STATUS 256

/* `prefix` and STATUS= with the text, whose line ends would begin another assignment. Failures are
 * not ours to handle: without a manager there is nobody to tell. */
static void kr_printf(2, 0) send_status(const char *prefix, const char *format, va_list arguments)
{
    char status[MAX_STATUS];

    vsnprintf(status, sizeof(status), format, arguments);
    for (char *c = status; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' ';
    sd_notifyf(0, "%sSTATUS=%s", prefix, status);
}

void kd_notify_ready(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    send_status("READY=1\n", format, arguments);
    va_end(arguments);
}

void kd_notify_status(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    send_status("", format, arguments);
    va_end(arguments);
}

void kd_notify_stopping(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    send_status("STOPPING=1\n", format, arguments);
    va_end(arguments);
}

void kd_notify_reloading(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\nSTATUS=reloading the configuration",
               (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
}

void kd_notify_extend(int64_t timeout_ns)
{
    sd_notifyf(0, "EXTEND_TIMEOUT_USEC=%" PRId64, timeout_ns / 1000);
}

void kd_notify_watchdog(void)
{
    sd_notify(0, "WATCHDOG=1");
}

bool kd_notify_watchdog_interval(int64_t *ret_ns)
{
    uint64_t timeout_us;

    if (sd_watchdog_enabled(0, &timeout_us) <= 0 || timeout_us > INT64_MAX / 1000)
        return false;
    *ret_ns = (int64_t)timeout_us * 1000 / 2;
    return true;
}
