/* SPDX-License-Identifier: MIT */
/* What the commands that ask the daemon one question share: the connection, its options, its failures. */
#ifndef KC_ASK_H
#define KC_ASK_H

#include "clients/client.h"
#include "clients/ctl.h"

struct kc_ask {
    const char *endpoint;
    int64_t timeout_ns;
    void *context;
    struct kronosd_control *control;
};

#define KC_ASK_DEFAULT                                                                             \
    {                                                                                              \
        .endpoint = KC_CONTROL_ENDPOINT, .timeout_ns = INT64_C(10000000000)                        \
    }

/* Rows of a command's option table. */
#define KC_ASK_OPTIONS(ask)                                                                        \
    {"control",                                                                                    \
     "ENDPOINT",                                                                                   \
     "where the daemon answers (" KC_CONTROL_ENDPOINT ")",                                         \
     KC_ENDPOINT,                                                                                  \
     &(ask).endpoint,                                                                              \
     0,                                                                                            \
     0,                                                                                            \
     NULL,                                                                                         \
     NULL},                                                                                        \
    {                                                                                              \
        "timeout", "TIME", "how long to wait for a reply (10s)", KC_DURATION, &(ask).timeout_ns,   \
            0, 0, NULL, NULL                                                                       \
    }

/* Return: 0, or the exit status after the error line. */
int kc_ask_open(struct kc_ask *ask) kr_must_check;
void kc_ask_close(struct kc_ask *ask);
int kc_ask_ms(const struct kc_ask *ask);

/* The error line for what a request returned. Return: the exit status: 69 unreachable or unable, 75 no reply
 * in time; of what the daemon refused: 66 no such stream or forecast, 78 by its configuration, else 65. */
int kc_ask_failed(const struct kc_ask *ask, int code, const struct kr_error *error);

#endif
