/* SPDX-License-Identifier: MIT */
/* kronosctl simulate: made-up markets as CSV files, on stdout, or as a feed. */
#include "clients/ctl.h"
#include "clients/progress.h"
#include "clients/publisher.h"
#include "clients/simulate.h"
#include "clients/stamp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct settings {
    size_t n_symbols, n_bars;
    uint64_t seed;
    struct kr_interval interval;
    const char *folder, *endpoint, *speed_text;
    bool connect;
    int64_t wait_ns, start_ns;
    double speed;
};

static void write_bar(FILE *file, const struct kr_bar *bar)
{
    char text[KC_STAMP_LENGTH];

    kc_stamp_format(bar->t_ns, text);
    fputs(text, file);
    for (int c = 0; c < KR_COLUMNS; c++) {
        char number[KC_NUMBER_TEXT];

        kc_write_number(number, bar->v[c]);
        fprintf(file, ",%s", number);
    }
    putc('\n', file);
}

/* One symbol's bars as CSV. `path` NULL: stdout. */
static int write_file(const struct settings *settings, const char *symbol, const char *path,
                      struct kc_progress *progress, uint64_t done)
{
    struct kc_simulator simulator;
    struct kr_bar bar;
    FILE *file;
    int status = kc_open_output(path, &file);

    if (status)
        return status;
    kc_simulate_start(&simulator, settings->seed, symbol, &settings->interval, settings->start_ns);
    fputs("timestamp,open,high,low,close,volume,amount\n", file);
    for (size_t i = 0; i < settings->n_bars && !ferror(file); i++) {
        kc_simulate_next(&simulator, &bar);
        write_bar(file, &bar);
        kc_progress_update(progress, done + i + 1);
    }
    return kc_close_output(path, &file);
}

static int write_files(const struct settings *settings)
{
    struct kc_progress progress;
    int status = 0;

    if (mkdir(settings->folder, 0777) != 0 && errno != EEXIST)
        return kc_fail(KC_OUTPUT, "%s: cannot be made: %s", settings->folder, strerror(errno));
    kc_progress_start(&progress, "simulating", "bars", settings->n_symbols * settings->n_bars);
    for (size_t i = 0; i < settings->n_symbols && !status; i++) {
        char symbol[KR_SYMBOL_MAX + 1], path[4096];
        int length;

        kc_simulate_symbol(symbol, i);
        length = snprintf(path, sizeof(path), "%s/%s-%s.csv", settings->folder, symbol,
                          settings->interval.text);
        if (length < 0 || (size_t)length >= sizeof(path)) {
            kc_progress_end(&progress);
            return kc_fail(KC_OUTPUT, "%s: name too long", settings->folder);
        }
        status = write_file(settings, symbol, path, &progress, i * settings->n_bars);
    }
    kc_progress_end(&progress);
    return status;
}

/* All symbols' bar n, then all their bar n + 1: as markets that run beside each other. */
static int send_bars(const struct settings *settings, struct kc_simulator *simulators,
                     struct kc_publisher *publisher)
{
    struct kc_pace pace = {settings->speed, settings->interval.ns, 0};
    struct kc_progress progress;
    int r = 0;

    kc_progress_start(&progress, "feeding", "bars", settings->n_symbols * settings->n_bars);
    for (size_t n = 0; n < settings->n_bars && r >= 0; n++) {
        if (pace.speed > 0)
            r = kc_publisher_idle(publisher, kc_pace_due(&pace, n), -1);
        for (size_t i = 0; i < settings->n_symbols && r >= 0; i++) {
            struct kw_bar bar = {.interval = settings->interval, .final = true};

            kc_simulate_symbol(bar.symbol, i);
            kc_simulate_next(&simulators[i], &bar.bar);
            r = kc_publisher_send(publisher, &bar);
        }
        kc_progress_update(&progress, (n + 1) * settings->n_symbols);
    }
    kc_progress_end(&progress);
    return r;
}

static int feed(const struct settings *settings)
{
    struct kc_publisher_config config = {.endpoint = settings->endpoint,
                                         .connect = settings->connect,
                                         .scope = "bar|",
                                         .wait_ns = settings->wait_ns};
    struct kc_simulator *simulators = calloc(settings->n_symbols, sizeof(*simulators));
    struct kc_publisher *publisher = NULL;
    struct kr_error error;
    int r;

    if (!simulators)
        return kc_fail(KC_SYSTEM, "out of memory");
    for (size_t i = 0; i < settings->n_symbols; i++) {
        char symbol[KR_SYMBOL_MAX + 1];

        kc_simulate_symbol(symbol, i);
        kc_simulate_start(&simulators[i], settings->seed, symbol, &settings->interval,
                          settings->start_ns);
    }
    kc_publisher_catch_signals();
    r = kc_publisher_open(&config, &publisher, &error);
    if (r < 0) {
        free(simulators);
        return kc_fail(KC_UNAVAILABLE, "%s", error.text);
    }
    r = kc_publisher_wait(publisher);
    if (r == 0)
        r = send_bars(settings, simulators, publisher);
    kc_publisher_close(&publisher, r >= 0);
    free(simulators);
    if (r < 0)
        return kc_publisher_failed(r, settings->endpoint);
    printf("sent %zu bars of each of %zu symbols\n", settings->n_bars, settings->n_symbols);
    return KC_OK;
}

int kc_cmd_simulate(int argc, char **argv)
{
    struct settings settings = {.n_symbols = 1,
                                .n_bars = 1000,
                                .interval = {"1m", INT64_C(60000000000)},
                                .start_ns = KC_SIMULATE_T0_NS,
                                .wait_ns = INT64_C(10000000000),
                                .speed_text = "max"};
    const struct kc_option options[] = {
        {"symbols", "N", "how many markets, named SIM001, SIM002, ... (1)", KC_COUNT,
         &settings.n_symbols, 1, 10000, NULL, NULL},
        {"bars", "N", "bars of each (1000)", KC_COUNT, &settings.n_bars, 1, 1e9, NULL, NULL},
        {"seed", "N", "another seed, other markets (0)", KC_SEED, &settings.seed, 0, 0, NULL, NULL},
        {"interval", "IV", "length of a bar (1m)", KC_INTERVAL, &settings.interval, 0, 0, NULL,
         NULL},
        {"output", "DIR", "write DIR/SYMBOL-INTERVAL.csv", KC_TEXT, &settings.folder, 0, 0, NULL,
         NULL},
        {"to", "ENDPOINT", "send them as a feed instead", KC_ENDPOINT, &settings.endpoint, 0, 0,
         NULL, NULL},
        {"connect", NULL, "connect to ENDPOINT rather than bind it", KC_FLAG, &settings.connect, 0,
         0, NULL, NULL},
        {"speed", "max|realtime|N",
         "of a feed: bars follow each other N times faster than their "
         "interval (max)",
         KC_TEXT, &settings.speed_text, 0, 0, NULL, NULL},
        {"wait", "TIME", "of a feed: hold this long for a subscriber (10s)", KC_DURATION,
         &settings.wait_ns, 0, 0, NULL, NULL},
    };
    const struct kc_usage usage = {
        .doc = "Make up markets. The same seed gives the same bars, to the byte. Without --output "
               "or --to one market is written to stdout as CSV.",
        .options = options,
        .n_options = KR_ARRAY_LENGTH(options)};

    kc_parse(argc, argv, &usage, NULL, NULL);
    if (settings.folder && settings.endpoint)
        return kc_usage_error(argv, "expected --output or --to, found both");
    if (!kc_pace_read(settings.speed_text, &settings.speed))
        return kc_usage_error(argv,
                              "--speed: expected max, realtime or a number above 0, found "
                              "\"%s\"",
                              settings.speed_text);
    if (settings.endpoint)
        return feed(&settings);
    if (settings.folder)
        return write_files(&settings);
    if (settings.n_symbols > 1)
        return kc_usage_error(argv, "expected --output DIR or --to ENDPOINT for %zu symbols",
                              settings.n_symbols);
    return write_file(&settings, "SIM001", NULL, &(struct kc_progress){0}, 0);
}
