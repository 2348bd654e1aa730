/* SPDX-License-Identifier: MIT */
/* kronosctl feed: bars of a file, or JSON lines, as messages to the daemon. */
#include "clients/ctl.h"
#include "clients/input.h"
#include "clients/json_bars.h"
#include "clients/progress.h"
#include "clients/publisher.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static const char *const stamps[] = {"open", "close", NULL};

struct settings {
    const char *file, *symbol, *timezone, *speed_text, *history;
    struct kr_interval interval; /* text empty: not given */
    const char *endpoint;
    bool connect, from_stdin, unit_given, stay;
    size_t stamp, send_stamp, unit;
    int64_t wait_ns;
    double speed;
};

struct sent {
    uint64_t n;
    int64_t start_ns;
};

static int send_file(const struct settings *settings, const struct kc_input *input,
                     struct kc_publisher *publisher, struct sent *sent)
{
    struct kc_pace pace = {settings->speed, settings->interval.ns, 0};
    struct kc_progress progress;
    int r = 0;

    kc_progress_start(&progress, "feeding", "bars", input->n);
    for (size_t i = 0; i < input->n && r >= 0; i++) {
        struct kw_bar bar = {.interval = settings->interval, .bar = input->bars[i], .final = true};

        memcpy(bar.symbol, settings->symbol, strlen(settings->symbol) + 1);
        if (settings->send_stamp)
            bar.bar.t_ns += settings->interval.ns;
        if (pace.speed > 0)
            r = kc_publisher_idle(publisher, kc_pace_due(&pace, i), -1);
        if (r >= 0)
            r = kc_publisher_send(publisher, &bar);
        sent->n += r == 0;
        kc_progress_update(&progress, i + 1);
    }
    kc_progress_end(&progress);
    return r;
}

/* Return: 0 at the end of input, a negative errno of the publisher, or 1 after an error line. */
static int send_lines(const struct settings *settings, struct kc_publisher *publisher,
                      struct sent *sent, int *ret_status)
{
    const struct kw_bar defaults = {.interval = settings->interval, .final = true};
    struct kc_lines lines = {.fd = STDIN_FILENO};
    struct kc_pace pace = {settings->speed, 0, 0};
    struct kc_progress progress;
    struct kr_error error;
    struct kw_bar bar;
    char *line;
    int r = 0;

    kc_progress_start(&progress, "feeding", "bars", 0);
    for (;;) {
        r = kc_lines_next(&lines, &line);
        if (r == -EAGAIN) {
            r = kc_publisher_idle(publisher, INT64_MAX, STDIN_FILENO);
            if (r < 0)
                break;
            continue;
        }
        if (r <= 0)
            break;
        bar = defaults;
        if (settings->symbol)
            memcpy(bar.symbol, settings->symbol, strlen(settings->symbol) + 1);
        if (kc_json_bar(line, &bar, &error) < 0) {
            *ret_status = kc_fail(KC_DATA, "stdin: line %" PRIu64 ": %s", lines.n, error.text);
            r = 1;
            break;
        }
        pace.interval_ns = bar.interval.ns;
        r = pace.speed > 0 ? kc_publisher_idle(publisher, kc_pace_due(&pace, sent->n), -1) : 0;
        if (r >= 0)
            r = kc_publisher_send(publisher, &bar);
        if (r < 0)
            break;
        kc_progress_update(&progress, ++sent->n);
    }
    kc_progress_end(&progress);
    kc_lines_free(&lines);
    if (r == -EMSGSIZE) {
        *ret_status =
            kc_fail(KC_DATA, "stdin: line %" PRIu64 ": expected at most %d bytes, found more",
                    lines.n + 1, KC_LINE_BYTES);
        r = 1;
    }
    return r;
}

static int publish(const struct settings *settings, const struct kc_input *input)
{
    char topic[KW_TOPIC_MAX + 1] = "bar|";
    struct kc_publisher_config config = {.endpoint = settings->endpoint,
                                         .connect = settings->connect,
                                         .history = settings->history,
                                         .scope = topic,
                                         .wait_ns = settings->wait_ns};
    struct kc_publisher *publisher = NULL;
    struct sent sent = {0, 0};
    struct kr_error error;
    int status = KC_OK, r;
    double seconds;

    if (!settings->from_stdin)
        kw_topic(topic, "bar", settings->interval.text, settings->symbol);
    kc_publisher_catch_signals();
    r = kc_publisher_open(&config, &publisher, &error);
    if (r < 0)
        return kc_fail(KC_UNAVAILABLE, "%s", error.text);
    r = kc_publisher_wait(publisher);
    sent.start_ns = kc_now_ns();
    if (r == 0)
        r = settings->from_stdin ? send_lines(settings, publisher, &sent, &status)
                                 : send_file(settings, input, publisher, &sent);
    while (r >= 0 && settings->stay) /* until a signal */
        r = kc_publisher_idle(publisher, kc_now_ns() + INT64_C(1000000000), -1);
    if (r == -EINTR && settings->stay)
        r = 0;
    kc_publisher_close(&publisher, r >= 0);
    if (r < 0)
        return kc_publisher_failed(r, settings->endpoint);
    seconds = (double)(kc_now_ns() - sent.start_ns) / 1e9;
    printf("sent %" PRIu64 " bars in %.1f s\n", sent.n, seconds);
    return status;
}

static int feed_file(const struct settings *settings)
{
    struct kc_input_config config = {
        .path = settings->file,
        .stamp = settings->stamp ? KR_STAMP_CLOSE : KR_STAMP_OPEN,
        .interval = &settings->interval,
        .time_unit = settings->unit_given ? kc_time_units[settings->unit] : NULL};
    struct kc_input input = {0};
    struct kr_zone *zone = NULL;
    struct kr_error error;
    int status, r;

    if (kr_zone_open(settings->timezone, &zone, &error) < 0)
        return kc_fail(KC_USAGE, "--timezone: %s", error.text);
    config.zone = zone;
    r = kc_input_read(&config, &input, &error);
    status = r < 0 ? kc_fail(kc_status_of(r), "%s", error.text) : publish(settings, &input);
    kc_input_free(&input);
    kr_zone_free(&zone);
    return status;
}

static int check(char **argv, struct settings *settings, size_t n_files)
{
    if (settings->from_stdin == (n_files > 0))
        return kc_usage_error(argv, "expected FILE or --stdin, found %s",
                              n_files ? "both" : "neither");
    if (!settings->from_stdin && (!settings->symbol || !settings->interval.text[0]))
        return kc_usage_error(argv, "expected --symbol S and --interval IV, found %s",
                              settings->symbol ? "no --interval" : "no --symbol");
    if (settings->stay && !settings->history)
        return kc_usage_error(argv, "--stay: expected --history ENDPOINT beside it, found none");
    if (!kc_pace_read(settings->speed_text, &settings->speed))
        return kc_usage_error(argv,
                              "--speed: expected max, realtime or a number above 0, found "
                              "\"%s\"",
                              settings->speed_text);
    return 0;
}

int kc_cmd_feed(int argc, char **argv)
{
    struct settings settings = {.endpoint = KC_FEED_ENDPOINT,
                                .timezone = "UTC",
                                .speed_text = "max",
                                .wait_ns = INT64_C(10000000000)};
    const struct kc_option options[] = {
        {"symbol", "S", "of the stream; with --stdin for lines that name none", KC_SYMBOL,
         &settings.symbol, 0, 0, NULL, NULL},
        {"interval", "IV", "of the stream; with --stdin for lines that name none", KC_INTERVAL,
         &settings.interval, 0, 0, NULL, NULL},
        {"to", "ENDPOINT", "where to publish, bound (" KC_FEED_ENDPOINT ")", KC_ENDPOINT,
         &settings.endpoint, 0, 0, NULL, NULL},
        {"connect", NULL, "connect to ENDPOINT rather than bind it", KC_FLAG, &settings.connect, 0,
         0, NULL, NULL},
        {"speed", "max|realtime|N",
         "bars follow each other N times faster than their interval "
         "(max)",
         KC_TEXT, &settings.speed_text, 0, 0, NULL, NULL},
        {"wait", "TIME", "hold this long for a subscriber, then end with status 75 (10s)",
         KC_DURATION, &settings.wait_ns, 0, 0, NULL, NULL},
        {"timezone", "TZ", "of stamps that name none (UTC)", KC_TEXT, &settings.timezone, 0, 0,
         NULL, NULL},
        {"stamp", "open|close", "what the file's stamps mark (open)", KC_CHOICE, &settings.stamp, 0,
         0, stamps, NULL},
        {"send-stamp", "open|close",
         "what the times that are sent mark, as [feed] stamp of the "
         "daemon (open)",
         KC_CHOICE, &settings.send_stamp, 0, 0, stamps, NULL},
        {"time-unit", "s|ms|us|ns", "of stamps that are integers", KC_CHOICE, &settings.unit, 0, 0,
         kc_time_units, &settings.unit_given},
        {"stdin", NULL, "read bars from stdin: one JSON object a line, keys as on the wire",
         KC_FLAG, &settings.from_stdin, 0, 0, NULL, NULL},
        {"history", "ENDPOINT", "answer `history` there, about the bars sent so far", KC_ENDPOINT,
         &settings.history, 0, 0, NULL, NULL},
        {"stay", NULL, "with --history: go on answering after the last bar", KC_FLAG,
         &settings.stay, 0, 0, NULL, NULL},
    };
    const struct kc_usage usage = {
        .arguments = "[FILE]",
        .doc = "Replay a file of bars as a feed. Waits for a subscriber, loses none to a slow one, "
               "and ends when all have left.",
        .options = options,
        .n_options = KR_ARRAY_LENGTH(options),
        .max_arguments = 1};
    size_t n_files;
    int status;

    kc_parse(argc, argv, &usage, &settings.file, &n_files);
    status = check(argv, &settings, n_files);
    if (status)
        return status;
    return settings.from_stdin ? publish(&settings, NULL) : feed_file(&settings);
}
