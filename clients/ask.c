/* SPDX-License-Identifier: MIT */
#include "clients/ask.h"

#include <errno.h>
#include <string.h>
#include <zmq.h>

int kc_ask_open(struct kc_ask *ask)
{
    struct kr_error error;

    ask->context = zmq_ctx_new();
    if (!ask->context)
        return kc_fail(KC_SYSTEM, "out of memory");
    if (kronosd_control_open(ask->context, ask->endpoint, &ask->control, &error) < 0)
        return kc_fail_about(KC_UNAVAILABLE, ask->endpoint, error.text);
    return 0;
}

void kc_ask_close(struct kc_ask *ask)
{
    kronosd_control_close(&ask->control);
    if (ask->context)
        zmq_ctx_term(ask->context);
    ask->context = NULL;
}

int kc_ask_ms(const struct kc_ask *ask)
{
    return (int)KR_MIN(ask->timeout_ns / 1000000, INT64_C(86400000));
}

/* What a refusal's code means for whoever asked. */
static int refused(const char *code)
{
    static const struct {
        const char *code;
        int status;
    } table[] = {
        {"not_found", KC_NO_INPUT},      {"no_forecast", KC_NO_INPUT}, {"busy", KC_UNAVAILABLE},
        {"draining", KC_UNAVAILABLE},    {"failed", KC_UNAVAILABLE},   {"invalid", KC_CONFIG},
        {"too_many_symbols", KC_CONFIG}, {"not_allowed", KC_CONFIG},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(table); i++)
        if (strcmp(code, table[i].code) == 0)
            return table[i].status;
    return KC_DATA;
}

int kc_ask_failed(const struct kc_ask *ask, int code, const struct kr_error *error)
{
    switch (-code) {
    case ETIMEDOUT:
        return kc_fail_about(KC_TIMEOUT, ask->endpoint, error->text);
    case EREMOTEIO:
        return kc_fail_about(refused(kronosd_control_code(ask->control)), ask->endpoint,
                             error->text);
    case ENOMEM:
        return kc_fail(KC_SYSTEM, "out of memory");
    default:
        return kc_fail_about(KC_UNAVAILABLE, ask->endpoint, error->text);
    }
}
