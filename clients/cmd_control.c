/* SPDX-License-Identifier: MIT */
/* kronosctl ping, version, reload, drain, reset: operations whose reply is printed as it is. */
#include "clients/ask.h"
#include "clients/packed_json.h"

#include <string.h>

static const char *doc_of(const char *op)
{
    static const struct {
        const char *op, *doc;
    } docs[] = {
        {"ping", "See whether the daemon answers; prints how long it took."},
        {"version", "Print the daemon's reply about its version and model as JSON."},
        {"reload", "Ask the daemon to read its configuration again; prints its reply as JSON."},
        {"drain", "Ask the daemon to finish its work and stop; prints its reply as JSON."},
        {"reset", "Make the daemon forget a stream's bars and state; prints its reply as JSON."},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(docs); i++)
        if (strcmp(docs[i].op, op) == 0)
            return docs[i].doc;
    return NULL;
}

static int request(struct kc_ask *ask, const char *op, const char *symbol, const char *interval)
{
    int64_t start = kc_now_ns();
    const msgpack_object *reply;
    struct kr_error error;
    msgpack_packer *packer = kronosd_request_begin(ask->control, op, symbol ? 2 : 0);
    int r;

    if (symbol) {
        kronosd_pack_string(packer, "sym", symbol);
        kronosd_pack_string(packer, "iv", interval);
    }
    r = kronosd_request(ask->control, kc_ask_ms(ask), &reply, &error);
    if (r < 0)
        return kc_ask_failed(ask, r, &error);
    if (strcmp(op, "ping") == 0)
        printf("%s: %.1f ms\n", ask->endpoint, (double)(kc_now_ns() - start) / 1e6);
    else if (kc_json_object(stdout, reply) < 0)
        return kc_fail(KC_OUTPUT, "stdout: cannot be written");
    return 0;
}

int kc_cmd_control(int argc, char **argv)
{
    const char *op = strrchr(argv[0], ' ') + 1, *symbol = NULL;
    bool stream = strcmp(op, "reset") == 0;
    struct kc_ask ask = KC_ASK_DEFAULT;
    struct kr_interval interval = {"", 0};
    const struct kc_option options[] = {
        KC_ASK_OPTIONS(ask),
        {"interval", "IV", "of the stream", KC_INTERVAL, &interval, 0, 0, NULL, NULL},
    };
    const struct kc_usage usage = {.arguments = stream ? "SYMBOL" : NULL,
                                   .doc = doc_of(op),
                                   .options = options,
                                   .n_options = KR_ARRAY_LENGTH(options) - (stream ? 0 : 1),
                                   .min_arguments = stream,
                                   .max_arguments = stream};
    int status;

    kc_parse(argc, argv, &usage, &symbol, NULL);
    if (stream && !interval.text[0])
        return kc_usage_error(argv, "expected --interval IV, found none");
    status = stream ? kc_check_symbol(argv, symbol) : 0;
    if (!status)
        status = kc_ask_open(&ask);
    if (!status)
        status = request(&ask, op, symbol, interval.text);
    kc_ask_close(&ask);
    return status;
}
