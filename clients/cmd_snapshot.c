/* SPDX-License-Identifier: MIT */
/* kronosctl snapshot: the last forecast of one stream, as JSON. */
#include "clients/ask.h"
#include "clients/packed_json.h"

int kc_cmd_snapshot(int argc, char **argv)
{
    struct kc_ask ask = KC_ASK_DEFAULT;
    struct kr_interval interval = {"", 0};
    const struct kc_option options[] = {
        {"interval", "IV", "of the stream", KC_INTERVAL, &interval, 0, 0, NULL, NULL},
        KC_ASK_OPTIONS(ask),
    };
    const struct kc_usage usage = {.arguments = "SYMBOL",
                                   .doc =
                                       "Print the last forecast of a stream as one line of JSON, "
                                       "keys as on the wire.",
                                   .options = options,
                                   .n_options = KR_ARRAY_LENGTH(options),
                                   .min_arguments = 1,
                                   .max_arguments = 1};
    const msgpack_object *forecast;
    const char *symbol;
    struct kr_error error;
    int status, r;

    kc_parse(argc, argv, &usage, &symbol, NULL);
    if (!interval.text[0])
        return kc_usage_error(argv, "expected --interval IV, found none");
    status = kc_check_symbol(argv, symbol);
    if (!status)
        status = kc_ask_open(&ask);
    if (!status) {
        r = kronosd_snapshot(ask.control, symbol, interval.text, kc_ask_ms(&ask), &forecast,
                             &error);
        if (r < 0)
            status = kc_ask_failed(&ask, r, &error);
        else if (kc_json_object(stdout, forecast) < 0)
            status = kc_fail(KC_OUTPUT, "stdout: cannot be written");
    }
    kc_ask_close(&ask);
    return status;
}
