/* SPDX-License-Identifier: MIT */
/* kronosctl symbols: the daemon's streams. */
#include "clients/ask.h"
#include "clients/packed_json.h"
#include "clients/stamp.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int print_json(struct kc_ask *ask)
{
    const msgpack_object *reply, *list;
    struct kr_error error;
    int r;

    kronosd_request_begin(ask->control, "symbols", 0);
    r = kronosd_request(ask->control, kc_ask_ms(ask), &reply, &error);
    if (r < 0)
        return kc_ask_failed(ask, r, &error);
    list = kronosd_get(reply, "symbols");
    if (!list)
        return kc_fail(KC_UNAVAILABLE, "%s: symbols: expected an array, found none", ask->endpoint);
    return kc_json_object(stdout, list) < 0 ? kc_fail(KC_OUTPUT, "stdout: cannot be written") : 0;
}

static int print_table(struct kc_ask *ask)
{
    struct kronosd_symbol *symbols;
    struct kr_error error;
    size_t n;
    int r = kronosd_symbols(ask->control, kc_ask_ms(ask), &symbols, &n, &error);

    if (r < 0)
        return kc_ask_failed(ask, r, &error);
    printf("%-16s %-8s %-12s %-10s %10s %8s  %-20s %14s  %s\n", "SYMBOL", "INTERVAL", "STATE",
           "MODE", "ROW", "EPOCH", "LAST", "CLOSE", "CALIBRATION");
    for (size_t i = 0; i < n; i++) {
        const struct kronosd_symbol *s = &symbols[i];
        char time[KC_STAMP_LENGTH] = "-", close[KC_NUMBER_TEXT] = "-";

        if (s->has_last) {
            kc_stamp_format(s->last_t_ns, time);
            kc_write_number(close, s->last_close);
        }
        printf("%-16s %-8s %-12s %-10s %10" PRId64 " %8" PRIu64 "  %-20s %14s  %s\n", s->symbol,
               s->interval, s->state, s->mode, s->row, s->epoch, time, close, s->cal);
    }
    free(symbols);
    return 0;
}

int kc_cmd_symbols(int argc, char **argv)
{
    struct kc_ask ask = KC_ASK_DEFAULT;
    bool json = false;
    const struct kc_option options[] = {
        {"json", NULL, "an array of objects on one line", KC_FLAG, &json, 0, 0, NULL, NULL},
        KC_ASK_OPTIONS(ask),
    };
    const struct kc_usage usage = {.doc = "List the daemon's streams.",
                                   .options = options,
                                   .n_options = KR_ARRAY_LENGTH(options)};
    int status;

    kc_parse(argc, argv, &usage, NULL, NULL);
    status = kc_ask_open(&ask);
    if (!status)
        status = json ? print_json(&ask) : print_table(&ask);
    kc_ask_close(&ask);
    return status;
}
