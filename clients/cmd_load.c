/* SPDX-License-Identifier: MIT */
/* kronosctl load: a stream's history towards the daemon. */
#include "clients/ask.h"
#include "clients/input.h"
#include "clients/progress.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const stamps[] = {"open", "close", NULL};

static void on_chunk(void *context, size_t done, size_t total)
{
    (void)total;
    kc_progress_update(context, done);
}

static int send_bars(struct kc_ask *ask, const char *symbol, const struct kr_interval *interval,
                     const struct kc_input *input)
{
    struct kronosd_bars bars = {.n = input->n,
                                .t_ns = calloc(input->n, sizeof(*bars.t_ns)),
                                .v = calloc(input->n, sizeof(*bars.v))};
    struct kc_progress progress;
    struct kr_error error;
    uint64_t accepted = 0;
    int r;

    if (!bars.t_ns || !bars.v) {
        kronosd_bars_free(&bars);
        return kc_fail(KC_SYSTEM, "out of memory");
    }
    for (size_t i = 0; i < input->n; i++) {
        bars.t_ns[i] = input->bars[i].t_ns;
        memcpy(bars.v[i], input->bars[i].v, sizeof(bars.v[i]));
    }
    kc_progress_start(&progress, "loading", "bars", input->n);
    r = kronosd_load(ask->control, symbol, interval->text, &bars, kc_ask_ms(ask), on_chunk,
                     &progress, &accepted, &error);
    kc_progress_end(&progress);
    kronosd_bars_free(&bars);
    if (r < 0)
        return kc_ask_failed(ask, r, &error);
    printf("loaded %" PRIu64 " of %zu bars of %s %s\n", accepted, input->n, symbol, interval->text);
    return KC_OK;
}

int kc_cmd_load(int argc, char **argv)
{
    struct kc_ask ask = KC_ASK_DEFAULT;
    struct kc_input_config config = {.stamp = KR_STAMP_OPEN};
    const char *symbol = NULL, *timezone = "UTC";
    struct kr_interval interval = {"", 0};
    size_t stamp = 0, unit = 0;
    bool unit_given = false;
    const struct kc_option options[] = {
        {"symbol", "S", "of the stream", KC_SYMBOL, &symbol, 0, 0, NULL, NULL},
        {"interval", "IV", "of the stream", KC_INTERVAL, &interval, 0, 0, NULL, NULL},
        {"timezone", "TZ", "of stamps that name none (UTC)", KC_TEXT, &timezone, 0, 0, NULL, NULL},
        {"stamp", "open|close", "what the file's stamps mark (open)", KC_CHOICE, &stamp, 0, 0,
         stamps, NULL},
        {"time-unit", "s|ms|us|ns", "of stamps that are integers", KC_CHOICE, &unit, 0, 0,
         kc_time_units, &unit_given},
        KC_ASK_OPTIONS(ask),
    };
    const struct kc_usage usage = {.arguments = "FILE",
                                   .doc = "Give the daemon a stream's history: bars of a CSV or "
                                          "safetensors file, sent with their open times.",
                                   .options = options,
                                   .n_options = KR_ARRAY_LENGTH(options),
                                   .min_arguments = 1,
                                   .max_arguments = 1};
    struct kc_input input = {0};
    struct kr_zone *zone = NULL;
    struct kr_error error;
    int status, r;

    kc_parse(argc, argv, &usage, &config.path, NULL);
    if (!symbol || !interval.text[0])
        return kc_usage_error(argv, "expected --symbol S and --interval IV, found %s",
                              symbol ? "no --interval" : "no --symbol");
    if (kr_zone_open(timezone, &zone, &error) < 0)
        return kc_usage_error(argv, "--timezone: %s", error.text);
    config.zone = zone;
    config.stamp = stamp ? KR_STAMP_CLOSE : KR_STAMP_OPEN;
    config.interval = &interval;
    config.time_unit = unit_given ? kc_time_units[unit] : NULL;
    r = kc_input_read(&config, &input, &error);
    status = r < 0 ? kc_fail(kc_status_of(r), "%s", error.text) : kc_ask_open(&ask);
    if (!status)
        status = send_bars(&ask, symbol, &interval, &input);
    kc_ask_close(&ask);
    kc_input_free(&input);
    kr_zone_free(&zone);
    return status;
}
