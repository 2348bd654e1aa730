/* SPDX-License-Identifier: MIT */
/* kronosctl watch: forecasts as they come: drawn, as JSON lines, or as short lines of text. */
#include "clients/client.h"
#include "clients/ctl.h"
#include "clients/packed_json.h"
#include "clients/screen.h"
#include "clients/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#define FRAME_NS     INT64_C(40000000)    /* 25 pictures a second at most */
#define ASK_AGAIN_NS INT64_C(2000000000)  /* for one stream's history */
#define GIVE_UP_NS   INT64_C(10000000000) /* after a control socket that did not answer */
#define ASK_MS       500
#define MAX_SYMBOLS  256

enum kind { FORECAST, EVENT, STATUS, SCORE, PATHS };
static const char *const kinds[] = {"forecast", "event", "status", "score", "paths", NULL};

struct watch {
    const char *symbols[MAX_SYMBOLS];
    size_t n_symbols, kind;
    struct kr_interval interval; /* text empty: all */
    const char *from, *control_endpoint, *title;
    bool json;
    size_t count;       /* messages to end after; 0: none */
    int64_t timeout_ns; /* without a message; 0: none */
    void *context;
    struct kronosd_subscriber *subscriber;
    struct kronosd_control *control;
    int64_t ask_not_before_ns;
    struct kc_view view;
    size_t n_seen;
    int64_t last_ns; /* of the last message, or the start */
};

static bool wanted(const struct watch *watch, const struct kronosd_message *message)
{
    if (strcmp(message->kind, kinds[watch->kind]) != 0)
        return false;
    for (size_t i = 0; i < watch->n_symbols; i++)
        if (strcmp(watch->symbols[i], message->symbol) == 0)
            return true;
    return watch->n_symbols == 0;
}

static bool is_over(const struct watch *watch)
{
    return watch->count && watch->n_seen >= watch->count;
}

static bool timed_out(const struct watch *watch)
{
    return watch->timeout_ns && kc_now_ns() - watch->last_ns >= watch->timeout_ns;
}

static int timeout_failure(const struct watch *watch)
{
    return kc_fail(KC_TIMEOUT, "%s: expected a %s within %.3g s, found none", watch->from,
                   kinds[watch->kind], (double)watch->timeout_ns / 1e9);
}

static int wait_ms(const struct watch *watch)
{
    int64_t left;

    if (!watch->timeout_ns)
        return -1;
    left = watch->last_ns + watch->timeout_ns - kc_now_ns();
    return left <= 0 ? 0 : (int)KR_MIN(left / 1000000 + 1, INT64_C(3600000));
}

/* Lines */

static int print_message(struct watch *watch, const struct kronosd_message *message)
{
    char line[512];
    struct kc_stream *stream;

    if (watch->json) {
        if (kc_json_packed(stdout, message->data, message->n_bytes) == -EBADMSG)
            return kc_fail(KC_DATA, "%s: message: expected well-formed MessagePack",
                           message->topic);
    } else if (kc_view_forecast(&watch->view, message->root, &stream) == 0) {
        kc_view_line(line, sizeof(line), stream);
        puts(line);
    }
    if (fflush(stdout) != 0)
        return kc_fail(KC_OUTPUT, "stdout: cannot be written: %s", strerror(errno));
    return 0;
}

static int watch_lines(struct watch *watch)
{
    struct kronosd_message message;
    struct kr_error error;

    while (!is_over(watch)) {
        int status, r = kronosd_receive(watch->subscriber, wait_ms(watch), &message, &error);

        if (r == -ETIMEDOUT || (r == 0 && !wanted(watch, &message))) {
            if (timed_out(watch))
                return timeout_failure(watch);
            continue;
        }
        if (r == -EINTR)
            continue;
        if (r < 0)
            return kc_fail_about(KC_UNAVAILABLE, watch->from, error.text);
        watch->n_seen++;
        watch->last_ns = kc_now_ns();
        status = print_message(watch, &message);
        if (status)
            return status;
    }
    return KC_OK;
}

/* The screen */

static void ask_history(struct watch *watch, struct kc_stream *stream)
{
    struct kronosd_bars bars;
    int64_t now = kc_now_ns();
    int r;

    if (!watch->control || now < watch->ask_not_before_ns ||
        (stream->asked_ns && now - stream->asked_ns < ASK_AGAIN_NS))
        return;
    stream->asked_ns = now;
    r = kronosd_history(watch->control, stream->symbol, stream->interval.text, KRONOSD_LAST,
                        KC_VIEW_CLOSES, ASK_MS, &bars, NULL);
    if (r < 0) {
        if (r != -EREMOTEIO)
            watch->ask_not_before_ns = now + GIVE_UP_NS;
        return;
    }
    kc_view_history(stream, bars.t_ns, (const double(*)[KR_COLUMNS])bars.v, bars.n);
    kronosd_bars_free(&bars);
}

static void take_message(struct watch *watch, const struct kronosd_message *message)
{
    struct kc_stream *stream;

    if (strcmp(message->kind, "status") == 0) {
        kc_view_status(&watch->view, message->root);
        return;
    }
    if (!wanted(watch, message) || kc_view_forecast(&watch->view, message->root, &stream) != 0)
        return;
    watch->n_seen++;
    watch->last_ns = kc_now_ns();
    if (stream->wants_history)
        ask_history(watch, stream);
}

static void on_gap(void *context, const char *topic, uint64_t ep, uint64_t expected, uint64_t got)
{
    struct watch *watch = context;
    char interval[16], symbol[64];

    (void)ep;
    if (sscanf(topic, "forecast|%15[^|]|%63[^|]|", interval, symbol) == 2)
        kc_view_lost(&watch->view, interval, symbol, got - expected);
}

/* Take what has come, up to a picture's time of it. Return: 0, or a negative errno. */
static int drain(struct watch *watch, struct kr_error *error)
{
    int64_t until = kc_now_ns() + FRAME_NS;
    struct kronosd_message message;
    int r = 0;

    while (!is_over(watch) && kc_now_ns() < until) {
        r = kronosd_receive(watch->subscriber, 0, &message, error);
        if (r < 0)
            break;
        take_message(watch, &message);
    }
    return r == -ETIMEDOUT || r == -EINTR ? 0 : r;
}

static void turn_page(struct watch *watch, const struct kc_screen *screen, bool next)
{
    size_t pages = kc_view_pages(&watch->view, screen->canvas.width, screen->canvas.height);

    watch->view.page = (watch->view.page + (next ? 1 : pages - 1)) % pages;
}

static int follow_screen(struct watch *watch, struct kc_screen *screen, struct kr_error *error)
{
    int64_t drawn_ns = 0;
    bool changed = true;

    for (;;) {
        zmq_pollitem_t items[3] = {{kronosd_subscriber_socket(watch->subscriber), 0, ZMQ_POLLIN, 0},
                                   {NULL, screen->signals, ZMQ_POLLIN, 0},
                                   {NULL, screen->keys, ZMQ_POLLIN, 0}};
        int64_t due = changed ? drawn_ns + FRAME_NS : drawn_ns + 25 * FRAME_NS;
        int64_t left = (due - kc_now_ns()) / 1000000 + 1;
        enum kc_screen_event event;
        int r;

        if (is_over(watch))
            return 0;
        if (timed_out(watch))
            return -ETIMEDOUT;
        if (zmq_poll(items, screen->keys >= 0 ? 3 : 2, (long)KR_MAX(left, (int64_t)0)) < 0 &&
            errno != EINTR)
            return kr_error_set(error, -errno, "%s", zmq_strerror(errno));
        if (items[0].revents) {
            r = drain(watch, error);
            if (r < 0)
                return r;
            changed = true;
        }
        event = items[1].revents || items[2].revents ? kc_screen_read(screen) : KC_SCREEN_NOTHING;
        if (event == KC_SCREEN_QUIT)
            return 0;
        if (event == KC_SCREEN_NEXT || event == KC_SCREEN_PREVIOUS)
            turn_page(watch, screen, event == KC_SCREEN_NEXT);
        if (event != KC_SCREEN_NOTHING)
            drawn_ns = 0; /* at once */
        if (kc_now_ns() >= (changed ? drawn_ns + FRAME_NS : drawn_ns + 25 * FRAME_NS)) {
            drawn_ns = kc_now_ns();
            changed = false;
            kc_view_draw(&watch->view, &screen->canvas, drawn_ns);
            r = kc_screen_show(screen);
            if (r < 0)
                return kr_error_set(error, r, "terminal: cannot be drawn on");
        }
    }
}

static int watch_screen(struct watch *watch, struct kc_screen *screen)
{
    struct kr_error error = {""};
    int r = follow_screen(watch, screen, &error);

    if (r == 0) /* the last picture counts what came last */
        kc_view_draw(&watch->view, &screen->canvas, kc_now_ns());
    kc_screen_close(screen);
    if (r == -ETIMEDOUT)
        return timeout_failure(watch);
    if (r < 0)
        return kc_fail_about(KC_UNAVAILABLE, watch->from, error.text);
    printf("%" PRIu64 " forecasts of %zu streams, %" PRIu64 " lost on the way\n",
           watch->view.n_forecasts, watch->view.n, watch->view.lost);
    return KC_OK;
}

/* Setting up */

static int subscribe(struct watch *watch, bool screen)
{
    const char *topics[MAX_SYMBOLS + 1];
    char texts[MAX_SYMBOLS + 1][KRONOSD_TOPIC_MAX + 1];
    struct kronosd_subscriber_config config = {.endpoints = &watch->from,
                                               .n_endpoints = 1,
                                               .topics = topics,
                                               .on_gap = on_gap,
                                               .context = watch};
    bool exact = watch->n_symbols && watch->interval.text[0];
    struct kr_error error;
    size_t n = 0;

    /* Without an interval the symbols cannot be told by a prefix: wanted() does. */
    for (; n < (exact ? watch->n_symbols : 1); n++) {
        if (exact)
            snprintf(texts[n], sizeof(texts[n]), "%s|%s|%s|", kinds[watch->kind],
                     watch->interval.text, watch->symbols[n]);
        else if (watch->interval.text[0])
            snprintf(texts[n], sizeof(texts[n]), "%s|%s|", kinds[watch->kind],
                     watch->interval.text);
        else
            snprintf(texts[n], sizeof(texts[n]), "%s|", kinds[watch->kind]);
        topics[n] = texts[n];
    }
    if (screen)
        topics[n++] = "status|";
    config.n_topics = n;
    if (kronosd_subscriber_open(watch->context, &config, &watch->subscriber, &error) < 0)
        return kc_fail_about(KC_UNAVAILABLE, watch->from, error.text);
    if (screen &&
        kronosd_control_open(watch->context, watch->control_endpoint, &watch->control, &error) < 0)
        return kc_fail_about(KC_UNAVAILABLE, watch->control_endpoint, error.text);
    return 0;
}

static int run(struct watch *watch)
{
    struct kc_screen screen = {.signals = -1, .keys = -1};
    bool drawn = false;
    int status;

    if (!watch->json && isatty(STDOUT_FILENO)) {
        if (kc_screen_depth() != KC_MONO || getenv("NO_COLOR"))
            drawn = true;
    }
    if (drawn && kc_screen_open(&screen) < 0)
        drawn = false;
    watch->context = zmq_ctx_new();
    watch->view.endpoint = watch->from;
    watch->view.title = watch->title;
    watch->last_ns = kc_now_ns();
    status = watch->context ? subscribe(watch, drawn) : kc_fail(KC_SYSTEM, "out of memory");
    if (!status)
        status = drawn ? watch_screen(watch, &screen) : watch_lines(watch);
    kc_screen_close(&screen);
    kronosd_control_close(&watch->control);
    kronosd_subscriber_close(&watch->subscriber);
    if (watch->context)
        zmq_ctx_term(watch->context);
    kc_view_free(&watch->view);
    return status;
}

int kc_cmd_watch(int argc, char **argv)
{
    struct watch watch = {.from = KC_PUBLISH_ENDPOINT, .control_endpoint = KC_CONTROL_ENDPOINT};
    const struct kc_option options[] = {
        {"interval", "IV", "streams of this interval alone", KC_INTERVAL, &watch.interval, 0, 0,
         NULL, NULL},
        {"from", "ENDPOINT", "where the daemon publishes (" KC_PUBLISH_ENDPOINT ")", KC_ENDPOINT,
         &watch.from, 0, 0, NULL, NULL},
        {"control", "ENDPOINT", "where it answers, for past closes (" KC_CONTROL_ENDPOINT ")",
         KC_ENDPOINT, &watch.control_endpoint, 0, 0, NULL, NULL},
        {"json", NULL, "one object a line, keys as on the wire", KC_FLAG, &watch.json, 0, 0, NULL,
         NULL},
        {"kind", "KIND", "with --json: forecast, event, status, score or paths (forecast)",
         KC_CHOICE, &watch.kind, 0, 0, kinds, NULL},
        {"count", "N", "end after so many", KC_COUNT, &watch.count, 1, 1e15, NULL, NULL},
        {"timeout", "TIME", "end with status 75 when nothing came for so long", KC_DURATION,
         &watch.timeout_ns, 0, 0, NULL, NULL},
        {"title", "TEXT", "shown on the screen's first line", KC_TEXT, &watch.title, 0, 0, NULL,
         NULL},
    };
    const struct kc_usage usage = {
        .arguments = "[SYMBOL...]",
        .doc = "Follow forecasts. On a terminal each stream is drawn: its last closes, and the fan "
               "of what may come. Keys: n, p turn pages, q quits.",
        .options = options,
        .n_options = KR_ARRAY_LENGTH(options),
        .max_arguments = MAX_SYMBOLS};

    kc_parse(argc, argv, &usage, watch.symbols, &watch.n_symbols);
    for (size_t i = 0; i < watch.n_symbols; i++)
        if (kc_check_symbol(argv, watch.symbols[i]))
            return KC_USAGE;
    if (watch.kind != FORECAST && !watch.json)
        return kc_usage_error(argv, "--kind %s: expected --json beside it", kinds[watch.kind]);
    return run(&watch);
}
