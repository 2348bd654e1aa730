/* SPDX-License-Identifier: MIT */
/* kronosctl watch, the real program against a daemon of cardboard: lines, and the screen on a
 * pseudo-terminal. */
#include "clients/client.h"
#include "clients/view.h"
#include "tests/clients/daemon.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define T0     INT64_C(1706693400000000000)
#define MINUTE INT64_C(60000000000)

/* Lines */

static void json_lines(void)
{
    struct kt_daemon daemon;
    struct kt_child watch;
    struct kt_run run;
    char *save = NULL, *line;
    size_t n = 0;

    kt_daemon_open(&daemon);
    watch = KT_START("watch", "--json", "--count", "3", "--from", daemon.from);
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &watch, "forecast|"));
    for (uint64_t seq = 1; seq <= 3; seq++)
        for (int again = 0; again < 2; again++) /* last values are sent again: once is enough */
            kt_daemon_forecast(&daemon, "AAA", "5m", UINT64_C(18446744073709551615), seq,
                               T0 + (int64_t)seq * 5 * MINUTE, 10 + (double)seq);
    CU_ASSERT_TRUE(kt_daemon_serve(&daemon, &watch, NULL));
    run = kt_finish(&watch);
    CU_ASSERT_EQUAL(run.status, 0);
    CU_ASSERT_STRING_EQUAL(run.err, "");
    /* jansson has no integers beyond 2^63: the text keeps them all the same */
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "\"ep\":18446744073709551615,\"seq\":1,"));
    for (line = strtok_r(run.out, "\n", &save); line; line = strtok_r(NULL, "\n", &save), n++) {
        json_t *json = json_loads(line, JSON_DECODE_INT_AS_REAL, NULL);

        CU_ASSERT_PTR_NOT_NULL_FATAL(json);
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(json, "sym")), "AAA");
        CU_ASSERT_EQUAL(json_number_value(json_object_get(json, "seq")), (double)(n + 1));
        CU_ASSERT_EQUAL(json_number_value(json_object_get(json_object_get(json, "last"), "c")),
                        11 + (double)n);
        CU_ASSERT_EQUAL(json_array_size(json_object_get(json, "t")), 4);
        json_decref(json);
    }
    CU_ASSERT_EQUAL(n, 3);
    kt_run_free(&run);
    kt_daemon_close(&daemon);
}

static void text_lines(void)
{
    struct kt_daemon daemon;
    struct kt_child watch;
    struct kt_run run;

    kt_daemon_open(&daemon);
    watch = KT_START("watch", "--count", "1", "--from", daemon.from);
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &watch, "forecast|"));
    kt_daemon_forecast(&daemon, "AAA", "5m", 1, 1, T0, 10.5);
    CU_ASSERT_TRUE(kt_daemon_serve(&daemon, &watch, NULL));
    run = kt_finish(&watch);
    CU_ASSERT_EQUAL(run.status, 0);
    CU_ASSERT_STRING_EQUAL(run.out,
                           "2024-01-31 09:30 AAA 5m  c 10.5  +4: q5 10.5  q50 11.5  q95 12.5  "
                           "p_up 0.75  sd 0.0712  anchored  uncalibrated  1.5 ms  joined tail\n");
    kt_run_free(&run);
    kt_daemon_close(&daemon);
}

/* With an interval the daemon sends what is wanted alone; without one the program sorts out. */
static void chosen_symbols(void)
{
    struct kt_daemon daemon;
    struct kt_child watch;
    struct kt_run run;

    kt_daemon_open(&daemon);
    watch =
        KT_START("watch", "BBB", "CCC", "--interval", "5m", "--count", "1", "--from", daemon.from);
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &watch, "forecast|5m|BBB|"));
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &watch, "forecast|5m|CCC|"));
    CU_ASSERT_EQUAL(daemon.n_topics, 2);
    kt_daemon_forecast(&daemon, "AAA", "5m", 1, 1, T0, 10);
    kt_daemon_forecast(&daemon, "CCC", "5m", 1, 1, T0, 10);
    CU_ASSERT_TRUE(kt_daemon_serve(&daemon, &watch, NULL));
    run = kt_finish(&watch);
    CU_ASSERT_EQUAL(run.status, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, " CCC 5m "));
    kt_run_free(&run);
    watch = KT_START("watch", "BBB", "--count", "2", "--from", daemon.from);
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &watch, "forecast|"));
    kt_daemon_forecast(&daemon, "AAA", "5m", 1, 2, T0, 10);
    kt_daemon_forecast(&daemon, "BBB", "1h", 1, 1, T0, 10);
    kt_daemon_forecast(&daemon, "BBB", "5m", 1, 1, T0, 10);
    CU_ASSERT_TRUE(kt_daemon_serve(&daemon, &watch, NULL));
    run = kt_finish(&watch);
    CU_ASSERT_PTR_NULL(strstr(run.out, "AAA"));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, " BBB 1h "));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, " BBB 5m "));
    kt_run_free(&run);
    kt_daemon_close(&daemon);
}

static void other_kinds(void)
{
    struct kt_daemon daemon;
    struct kt_child watch;
    struct kt_run run;

    kt_daemon_open(&daemon);
    watch = KT_START("watch", "--kind", "event", "--json", "--count", "1", "--from", daemon.from);
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &watch, "event|"));
    kt_daemon_event(&daemon, 1);
    CU_ASSERT_TRUE(kt_daemon_serve(&daemon, &watch, NULL));
    run = kt_finish(&watch);
    CU_ASSERT_STRING_EQUAL(run.out,
                           "{\"v\":1,\"sym\":\"AAA\",\"iv\":\"5m\",\"ep\":1,\"seq\":1,\"t\":7,"
                           "\"kind\":\"gap\",\"reason\":\"held\",\"count\":1}\n");
    kt_run_free(&run);
    run = KT_RUN("watch", "--json", "--timeout", "50ms", "--from", daemon.from);
    CU_ASSERT_EQUAL(run.status, 75);
    CU_ASSERT_TRUE(kt_one_line(run.err));
    kt_run_free(&run);
    kt_daemon_close(&daemon);
}

/* The screen */

struct terminal {
    struct kt_child child; /* pid and pidfd alone */
    int master;
    char *seen; /* everything that was written on it */
    size_t n;
};

static void open_terminal(struct terminal *terminal, const char *term, const char *const *arguments)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    char *argv[16] = {(char *)(uintptr_t)kt_kronosctl()};

    for (int i = 0; arguments[i] && i < 14; i++)
        argv[i + 1] = (char *)(uintptr_t)arguments[i];
    *terminal = (struct terminal){.seen = calloc(1, 1)};
    fflush(stdout);
    terminal->child.pid = forkpty(&terminal->master, NULL, NULL, &size);
    CU_ASSERT_TRUE_FATAL(terminal->child.pid >= 0);
    if (terminal->child.pid == 0) {
        setenv("TERM", term, 1);
        unsetenv("COLORTERM");
        unsetenv("NO_COLOR");
        execv(argv[0], argv);
        _exit(127);
    }
    terminal->child.input = -1;
    terminal->child.pidfd = (int)syscall(SYS_pidfd_open, terminal->child.pid, 0);
}

/* Read the terminal, serving the daemon, until `text` has been seen behind offset `from`, or the program has
 * ended (text NULL). Return: where text stands, 0 if it did not come. */
static size_t read_until(struct terminal *terminal, struct kt_daemon *daemon, const char *text,
                         size_t from)
{
    for (int turns = 0; turns < 2000; turns++) {
        struct pollfd items[] = {{terminal->master, POLLIN, 0}};
        char bytes[4096];
        const char *found = text && terminal->n > from ? strstr(terminal->seen + from, text) : NULL;
        ssize_t n;

        if (found)
            return (size_t)(found - terminal->seen) + strlen(text);
        kt_daemon_poll(daemon);
        if (poll(items, 1, 10) != 1)
            continue;
        n = read(terminal->master, bytes, sizeof(bytes));
        if (n <= 0) /* the other side is closed */
            return text ? 0 : terminal->n;
        terminal->seen = realloc(terminal->seen, terminal->n + (size_t)n + 1);
        for (ssize_t i = 0; i < n; i++)
            terminal->seen[terminal->n++] = bytes[i] ? bytes[i] : ' ';
        terminal->seen[terminal->n] = '\0';
    }
    return 0;
}

static int close_terminal(struct terminal *terminal)
{
    int status;

    waitpid(terminal->child.pid, &status, 0);
    close(terminal->child.pidfd);
    close(terminal->master);
    free(terminal->seen);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* 30 bars up to T0 as the history of any stream. */
static void pack_history(msgpack_packer *packer, const msgpack_object *request)
{
    int64_t t[30];
    double v[30][KR_COLUMNS];

    (void)request;
    for (int i = 0; i < 30; i++) {
        t[i] = T0 + (i - 29) * 5 * MINUTE;
        for (int c = 0; c < KR_COLUMNS; c++)
            v[i][c] = 9 + 0.05 * i;
    }
    msgpack_pack_str_with_body(packer, "t", 1);
    msgpack_pack_bin_with_body(packer, t, sizeof(t));
    msgpack_pack_str_with_body(packer, "bars", 4);
    msgpack_pack_bin_with_body(packer, v, sizeof(v));
    msgpack_pack_str_with_body(packer, "more", 4);
    msgpack_pack_false(packer);
}

static const struct kt_answer with_history[] = {{"history", NULL, 3, pack_history}};

static void screen(void)
{
    struct kt_daemon daemon;
    struct terminal terminal;
    struct winsize larger = {.ws_row = 40, .ws_col = 120};
    size_t at;

    kt_daemon_open(&daemon);
    daemon.answers = with_history;
    daemon.n_answers = 1;
    open_terminal(&terminal, "xterm-256color",
                  (const char *const[]){"watch", "--from", daemon.from, "--control", daemon.control,
                                        "--title", "a title", NULL});
    at = read_until(&terminal, &daemon, "\033[?1049h", 0);
    CU_ASSERT_TRUE_FATAL(at > 0);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "waiting for forecasts", 0) > 0);
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &terminal.child, "forecast|"));
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &terminal.child, "status|"));
    kt_daemon_status(&daemon, 1);
    kt_daemon_forecast(&daemon, "AAA", "5m", 1, 1, T0, 10.5);
    kt_daemon_forecast(&daemon, "BBB", "5m", 1, 1, T0, 20.5);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "╭", at) > 0);
    at = read_until(&terminal, &daemon, "BBB", at);
    CU_ASSERT_TRUE_FATAL(at > 0);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "a title", 0) > 0);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "1004 bars, 4 rejected", 0) > 0);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "uncalibrated", 0) > 0);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "48;5;", 0) > 0); /* the fan has colours */
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "08:05", 0) > 0); /* of the history */
    CU_ASSERT_TRUE(daemon.n_requests >= 2);
    /* a hole in the numbers is told */
    kt_daemon_forecast(&daemon, "AAA", "5m", 1, 4, T0 + 5 * MINUTE, 10.5);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "2 lost", 0) > 0);
    /* another size: drawn anew, right to the new edges */
    at = terminal.n;
    CU_ASSERT_EQUAL(ioctl(terminal.master, TIOCSWINSZ, &larger), 0);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "[?2026l",
                              read_until(&terminal, &daemon, "2 lost", at)) > 0);
    CU_ASSERT_EQUAL(write(terminal.master, "q", 1), 1);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, NULL, 0) > 0);
    at = read_until(&terminal, &daemon, "\033[?25h\033[?1049l", 0);
    CU_ASSERT_TRUE_FATAL(at > 0);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(terminal.seen + at, "3 forecasts of 2 streams, 2 lost on the way"));
    CU_ASSERT_PTR_NULL(strstr(terminal.seen + at, "\033["));
    CU_ASSERT_EQUAL(close_terminal(&terminal), 0);
    kt_daemon_close(&daemon);
}

/* Whatever ends it, the terminal is given back. */
static void screen_ends(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct kt_daemon daemon;
    struct terminal terminal;

    kt_daemon_open(&daemon);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(signals); i++) {
        open_terminal(&terminal, "xterm",
                      (const char *const[]){"watch", "--from", daemon.from, "--control",
                                            daemon.control, NULL});
        CU_ASSERT_TRUE(read_until(&terminal, &daemon, "waiting for forecasts", 0) > 0);
        kill(terminal.child.pid, signals[i]);
        CU_ASSERT_TRUE(read_until(&terminal, &daemon, "\033[?1049l", 0) > 0);
        read_until(&terminal, &daemon, NULL, 0);
        CU_ASSERT_EQUAL(close_terminal(&terminal), 0);
    }
    open_terminal(&terminal, "xterm",
                  (const char *const[]){"watch", "--count", "1", "--from", daemon.from, "--control",
                                        daemon.control, NULL});
    daemon.n_topics = 0;
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &terminal.child, "forecast|"));
    kt_daemon_forecast(&daemon, "AAA", "5m", 1, 1, T0, 10.5);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "1 forecasts of 1 streams", 0) > 0);
    read_until(&terminal, &daemon, NULL, 0);
    CU_ASSERT_EQUAL(close_terminal(&terminal), 0);
    kt_daemon_close(&daemon);
}

/* A terminal that can nothing gets lines. */
static void dumb_terminal(void)
{
    struct kt_daemon daemon;
    struct terminal terminal;

    kt_daemon_open(&daemon);
    open_terminal(&terminal, "dumb",
                  (const char *const[]){"watch", "--count", "1", "--from", daemon.from, NULL});
    CU_ASSERT_TRUE_FATAL(kt_daemon_serve(&daemon, &terminal.child, "forecast|"));
    kt_daemon_forecast(&daemon, "AAA", "5m", 1, 1, T0, 10.5);
    CU_ASSERT_TRUE(read_until(&terminal, &daemon, "2024-01-31 09:30 AAA 5m  c 10.5", 0) > 0);
    read_until(&terminal, &daemon, NULL, 0);
    CU_ASSERT_PTR_NULL(strchr(terminal.seen, '\033'));
    CU_ASSERT_EQUAL(close_terminal(&terminal), 0);
    kt_daemon_close(&daemon);
}

/* The view by itself */

static int take(struct kc_view *view, const msgpack_sbuffer *buffer, struct kc_stream **ret)
{
    msgpack_unpacked unpacked;
    int r;

    msgpack_unpacked_init(&unpacked);
    CU_ASSERT_EQUAL_FATAL(kronosd_unpack(buffer->data, buffer->size, &unpacked), 0);
    r = kc_view_forecast(view, &unpacked.data, ret);
    msgpack_unpacked_destroy(&unpacked);
    return r;
}

static void view_closes(void)
{
    struct kc_view view = {0};
    struct kc_stream *stream = NULL;
    msgpack_sbuffer buffer;
    int64_t t[600];
    double v[600][KR_COLUMNS] = {{0}};

    for (int i = 0; i < 3; i++) {
        msgpack_sbuffer_init(&buffer);
        kt_pack_forecast(&buffer, "AAA", "5m", 1, 1, T0 + (i == 2 ? 4 : i) * 5 * MINUTE, 10 + i);
        CU_ASSERT_EQUAL(take(&view, &buffer, &stream), 0);
        msgpack_sbuffer_destroy(&buffer);
        if (i == 0)
            stream->wants_history = false;
        /* two bars were never forecast: their closes are asked for */
        CU_ASSERT_EQUAL(stream->wants_history, i == 2);
    }
    CU_ASSERT_EQUAL(stream->n_closes, 3);
    for (int i = 0; i < 600; i++) {
        t[i] = T0 + (i - 595) * 5 * MINUTE;
        v[i][KR_CLOSE] = 1 + i;
    }
    kc_view_history(stream, t, (const double(*)[KR_COLUMNS])v, 600);
    CU_ASSERT_EQUAL(stream->n_closes, KC_VIEW_CLOSES);
    CU_ASSERT_EQUAL(stream->times[KC_VIEW_CLOSES - 1], T0 + 20 * MINUTE);
    CU_ASSERT_EQUAL(stream->closes[KC_VIEW_CLOSES - 1], 600);
    CU_ASSERT_EQUAL(stream->closes[KC_VIEW_CLOSES - 2], 599);
    CU_ASSERT_EQUAL(stream->closes[0], 600 - KC_VIEW_CLOSES + 1);
    CU_ASSERT_FALSE(stream->wants_history);
    kc_view_free(&view);
}

/* Streams in order; pages where they do not fit. */
static void view_layout(void)
{
    static const char *const symbols[] = {"C", "A", "B", "E", "D"};
    struct kc_view view = {0};
    struct kc_canvas canvas = {0};
    struct kc_text text = {0};
    msgpack_sbuffer buffer;

    view.endpoint = "tcp://127.0.0.1:7411";
    for (size_t i = 0; i < KR_ARRAY_LENGTH(symbols); i++) {
        msgpack_sbuffer_init(&buffer);
        kt_pack_forecast(&buffer, symbols[i], "5m", 1, 1, T0, 10);
        CU_ASSERT_EQUAL(take(&view, &buffer, NULL), 0);
        msgpack_sbuffer_destroy(&buffer);
    }
    for (size_t i = 0; i < view.n; i++)
        CU_ASSERT_EQUAL(view.streams[i]->symbol[0], (char)('A' + i));
    CU_ASSERT_EQUAL(kc_view_pages(&view, 80, 60), 1);
    CU_ASSERT_EQUAL(kc_view_pages(&view, 80, 24), 3);
    CU_ASSERT_EQUAL(kc_view_pages(&view, 200, 24), 1);
    CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, 80, 24), 0);
    view.page = 7; /* past the last one */
    kc_view_draw(&view, &canvas, 1);
    CU_ASSERT_EQUAL(view.page, 2);
    kc_canvas_write(&canvas, KC_MONO, &text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "─ E 5m ─"));
    CU_ASSERT_PTR_NULL(strstr(text.data, "─ A 5m ─"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "page 3 of 3, 5 streams"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text.data, "kronosd  model pico"));
    for (int size = 1; size < 40; size++) { /* never outside, however small */
        CU_ASSERT_EQUAL_FATAL(kc_canvas_resize(&canvas, size * 3, size), 0);
        kc_view_draw(&view, &canvas, 2);
    }
    kc_text_free(&text);
    kc_canvas_free(&canvas);
    kc_view_free(&view);
}

/* Messages that are none, or want to write on the terminal themselves. */
static void hostile_messages(void)
{
    struct kc_view view = {0};
    msgpack_sbuffer good, bad;
    struct kc_stream *stream = NULL;
    size_t n_taken = 0;

    msgpack_sbuffer_init(&good);
    kt_pack_forecast(&good, "AAA", "5m", 1, 1, T0, 10);
    for (size_t at = 0; at < good.size; at++)
        for (int flip = 0; flip < 3; flip++) {
            static const unsigned char masks[] = {0x01, 0x80, 0x1b};
            msgpack_unpacked unpacked;
            char line[512];

            msgpack_sbuffer_init(&bad);
            CU_ASSERT_EQUAL_FATAL(msgpack_sbuffer_write(&bad, good.data, good.size), 0);
            bad.data[at] = (char)(bad.data[at] ^ masks[flip]);
            msgpack_unpacked_init(&unpacked);
            if (kronosd_unpack(bad.data, bad.size, &unpacked) == 0 &&
                kc_view_forecast(&view, &unpacked.data, &stream) == 0 && stream->n_closes) {
                n_taken++;
                kc_view_line(line, sizeof(line), stream);
                for (const char *c = line; *c; c++)
                    CU_ASSERT_FATAL(*c >= 0x20 && *c <= 0x7e);
            }
            msgpack_unpacked_destroy(&unpacked);
            msgpack_sbuffer_destroy(&bad);
        }
    CU_ASSERT_TRUE(n_taken > 100);
    msgpack_sbuffer_destroy(&good);
    kc_view_free(&view);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"JSON lines, each forecast once", json_lines},
        {"text lines", text_lines},
        {"symbols and intervals", chosen_symbols},
        {"other kinds; nothing comes: status 75", other_kinds},
        {"the screen", screen},
        {"the terminal is given back", screen_ends},
        {"a dumb terminal gets lines", dumb_terminal},
        {"closes of forecasts and history", view_closes},
        {"order and pages", view_layout},
        {"hostile messages", hostile_messages},
    };

    return kt_main("watch", tests, KR_ARRAY_LENGTH(tests));
}
