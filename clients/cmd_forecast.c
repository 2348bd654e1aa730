/* SPDX-License-Identifier: MIT */
/* kronosctl forecast: a forecast with parameters of one's own, computed by the daemon now. */
#include "clients/ask.h"
#include "clients/packed_json.h"

#include <math.h>
#include <string.h>

/* What was given on the line, and so goes into the request. */
struct wish {
    size_t horizon, paths, lookback, top_k;
    double temperature, top_p;
    uint64_t seed;
    bool has_horizon, has_paths, has_lookback, has_top_k, has_temperature, has_top_p, has_seed;
};

static void pack_uint(msgpack_packer *packer, const char *key, uint64_t value)
{
    msgpack_pack_str(packer, strlen(key));
    msgpack_pack_str_body(packer, key, strlen(key));
    msgpack_pack_uint64(packer, value);
}

static void pack_wish(msgpack_packer *packer, const struct wish *wish)
{
    if (wish->has_horizon)
        pack_uint(packer, "horizon", wish->horizon);
    if (wish->has_paths)
        pack_uint(packer, "paths", wish->paths);
    if (wish->has_lookback)
        pack_uint(packer, "lookback", wish->lookback);
    if (wish->has_top_k)
        pack_uint(packer, "top_k", wish->top_k);
    if (wish->has_seed)
        pack_uint(packer, "seed", wish->seed);
    if (wish->has_temperature)
        kronosd_pack_real(packer, "T", wish->temperature);
    if (wish->has_top_p)
        kronosd_pack_real(packer, "top_p", wish->top_p);
}

static int request(struct kc_ask *ask, const char *symbol, const struct kr_interval *interval,
                   const struct wish *wish)
{
    size_t n = (size_t)wish->has_horizon + wish->has_paths + wish->has_lookback + wish->has_top_k +
               wish->has_seed + wish->has_temperature + wish->has_top_p;
    msgpack_packer *packer = kronosd_request_begin(ask->control, "forecast", 2 + n);
    const msgpack_object *reply, *forecast;
    struct kr_error error;
    int r;

    kronosd_pack_string(packer, "sym", symbol);
    kronosd_pack_string(packer, "iv", interval->text);
    pack_wish(packer, wish);
    r = kronosd_request(ask->control, kc_ask_ms(ask), &reply, &error);
    if (r < 0)
        return kc_ask_failed(ask, r, &error);
    forecast = kronosd_get(reply, "forecast");
    if (!forecast)
        return kc_fail(KC_UNAVAILABLE, "%s: forecast: expected a map, found none", ask->endpoint);
    return kc_json_object(stdout, forecast) < 0 ? kc_fail(KC_OUTPUT, "stdout: cannot be written")
                                                : KC_OK;
}

int kc_cmd_forecast(int argc, char **argv)
{
    struct kc_ask ask = KC_ASK_DEFAULT;
    struct kr_interval interval = {"", 0};
    struct wish wish = {.horizon = 0};
    const struct kc_option options[] = {
        {"interval", "IV", "of the stream", KC_INTERVAL, &interval, 0, 0, NULL, NULL},
        {"horizon", "H", "bars to forecast", KC_COUNT, &wish.horizon, 1, 1e6, NULL,
         &wish.has_horizon},
        {"paths", "S", "sampled paths", KC_COUNT, &wish.paths, 1, 65536, NULL, &wish.has_paths},
        {"lookback", "N", "last bars that the model sees", KC_COUNT, &wish.lookback, 1, 1e7, NULL,
         &wish.has_lookback},
        {"temperature", "T", "above 0", KC_NUMBER, &wish.temperature, -INFINITY, INFINITY, NULL,
         &wish.has_temperature},
        {"top-k", "K", "keep the K likeliest tokens; 0: all", KC_COUNT, &wish.top_k, 0, 1e9, NULL,
         &wish.has_top_k},
        {"top-p", "P", "keep the likeliest tokens up to this probability", KC_NUMBER, &wish.top_p,
         -INFINITY, INFINITY, NULL, &wish.has_top_p},
        {"seed", "N", "of the draws", KC_SEED, &wish.seed, 0, 0, NULL, &wish.has_seed},
        KC_ASK_OPTIONS(ask),
    };
    const struct kc_usage usage = {.arguments = "SYMBOL",
                                   .doc =
                                       "Ask the daemon for a forecast behind a stream's last bar, "
                                       "with parameters of your own; what is not given is as the "
                                       "stream has it. Prints one line of JSON.",
                                   .options = options,
                                   .n_options = KR_ARRAY_LENGTH(options),
                                   .min_arguments = 1,
                                   .max_arguments = 1};
    const char *symbol;
    int status;

    kc_parse(argc, argv, &usage, &symbol, NULL);
    if (!interval.text[0])
        return kc_usage_error(argv, "expected --interval IV, found none");
    status = kc_check_symbol(argv, symbol);
    if (!status)
        status = kc_ask_open(&ask);
    if (!status)
        status = request(&ask, symbol, &interval, &wish);
    kc_ask_close(&ask);
    return status;
}
