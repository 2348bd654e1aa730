/* SPDX-License-Identifier: MIT */
/* The life of the real daemon: streams, joiners, restarts, reloads, ends. */
#include "tests/daemon/harness.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define N_STREAMS 3
#define N_BARS    500
#define WARM      31 /* bars before the first forecast: min_bars - 1 */
static const char *const symbols[N_STREAMS] = {"AAA", "BBB", "CCC"};

static void feed_range(void *feed, const char *symbol, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        struct kw_bar bar = kt_bar(symbol, "1m", i);

        kt_feed_bar(feed, &bar);
    }
}

static void end(struct kt_daemon *daemon)
{
    CU_ASSERT_EQUAL(kt_daemon_stop(daemon), 0);
    kt_daemon_end(daemon);
}

/* Medians of the last step's close, [stream][forecast]. */
static void run_streams(const char *more, double medians[N_STREAMS][N_BARS])
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *subscriber;
    struct kronosd_message message;
    struct kt_status status = {0};
    uint64_t n[N_STREAMS] = {0};
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, more));
    subscriber = kt_subscribe(&daemon, "forecast|1m|");
    feed = kt_feed_open(&daemon);
    for (size_t i = 0; i < N_BARS; i++)
        for (size_t s = 0; s < N_STREAMS; s++)
            feed_range(feed, symbols[s], i, i + 1);
    for (size_t k = 0; k < N_STREAMS * (N_BARS - WARM) && kt_receive(subscriber, &message); k++) {
        for (size_t s = 0; s < N_STREAMS; s++) {
            const msgpack_object *q = kronosd_get(kronosd_get(message.root, "close"), "q");
            struct kw_bar bar;

            if (strcmp(message.symbol, symbols[s]))
                continue;
            medians[s][n[s]] = kronosd_at_real(&q->via.array.ptr[3], 3);
            bar = kt_bar(symbols[s], "1m", WARM + n[s]++);
            KT_CHECK(message.seq == n[s], "%s: seq %llu, expected %llu", symbols[s],
                     (unsigned long long)message.seq, (unsigned long long)n[s]);
            CU_ASSERT_EQUAL(kronosd_get_int(message.root, "as_of", 0), bar.bar.t_ns);
            CU_ASSERT_EQUAL(kronosd_get_real(kronosd_get(message.root, "last"), "c", 0),
                            bar.bar.v[KR_CLOSE]);
        }
    }
    for (size_t s = 0; s < N_STREAMS; s++)
        CU_ASSERT_EQUAL(n[s], N_BARS - WARM);
    CU_ASSERT_TRUE(kt_settled(&daemon, N_STREAMS * N_BARS, &status));
    CU_ASSERT_EQUAL(status.received, N_STREAMS * N_BARS);
    CU_ASSERT_EQUAL(status.accepted, N_STREAMS * N_BARS);
    CU_ASSERT_EQUAL(status.forecasts, N_STREAMS * (N_BARS - WARM));
    CU_ASSERT_EQUAL(status.skipped, 0);
    CU_ASSERT_EQUAL(status.live, N_STREAMS);
    kt_feed_close(&feed);
    kronosd_subscriber_close(&subscriber);
    end(&daemon);
}

/* Three streams of 500 bars: a forecast behind every bar once warm, in order, without a hole; and the same
 * numbers whatever the workers do. */
static void three_streams(void)
{
    static double two[N_STREAMS][N_BARS], one[N_STREAMS][N_BARS];

    run_streams("", two);
    run_streams("[limits] workers = 1\n[limits] spares = 1\n", one);
    CU_ASSERT_EQUAL(memcmp(one, two, sizeof(one)), 0);
    CU_ASSERT_TRUE(one[0][0] > 0 && one[0][0] != one[1][0]);
}

static void late_joiner(void)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *first, *second, *status;
    struct kronosd_message message;
    struct kt_status counts;
    uint64_t ep = 0;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, ""));
    first = kt_subscribe(&daemon, "forecast|");
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 40);
    feed_range(feed, "BBB", 0, 33);
    for (size_t i = 0; i < 9 + 2; i++) {
        CU_ASSERT_TRUE(kt_receive(first, &message));
        ep = message.ep;
    }
    CU_ASSERT_TRUE(kt_settled(&daemon, 73, &counts));
    /* one stream exactly */
    second = kt_subscribe(&daemon, "forecast|1m|AAA|");
    CU_ASSERT_TRUE(kt_receive(second, &message));
    CU_ASSERT_STRING_EQUAL(message.topic, "forecast|1m|AAA|");
    CU_ASSERT_EQUAL(message.ep, ep);
    CU_ASSERT_EQUAL(message.seq, 9);
    kronosd_subscriber_close(&second);
    /* all of an interval, and the status */
    second = kt_subscribe(&daemon, "forecast|1m|");
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_TRUE(kt_receive(second, &message));
        CU_ASSERT_EQUAL(message.seq, strcmp(message.symbol, "AAA") ? 2 : 9);
    }
    status = kt_subscribe(&daemon, "status|");
    CU_ASSERT_TRUE(kt_receive(status, &message));
    CU_ASSERT_STRING_EQUAL(message.topic, "status|||");
    /* what was sent again reached the first subscriber too, which had it: it sees the next ones only */
    feed_range(feed, "AAA", 40, 41);
    CU_ASSERT_TRUE(kt_receive(first, &message));
    CU_ASSERT_EQUAL(message.seq, 10);
    CU_ASSERT_TRUE(kronosd_subscriber_counts(first)->duplicates >= 1);
    CU_ASSERT_EQUAL(kronosd_subscriber_counts(first)->gaps, 0);
    kronosd_subscriber_close(&first);
    kronosd_subscriber_close(&second);
    kronosd_subscriber_close(&status);
    kt_feed_close(&feed);
    end(&daemon);
}

/* A subscriber process, which says each forecast with a byte. */
static void subscriber_process(struct kt_daemon *daemon, int go, int heard)
{
    struct kronosd_subscriber *subscriber;
    struct kronosd_message message;
    char byte;

    if (read(go, &byte, 1) != 1)
        _exit(1);
    daemon->zmq = zmq_ctx_new(); /* one of its own */
    subscriber = kt_subscribe(daemon, "forecast|");
    while (kt_receive(subscriber, &message))
        if (write(heard, "x", 1) < 0)
            break;
    _exit(0);
}

/* It is killed, and another takes its place. */
static void subscriber_killed(void)
{
    struct kt_daemon daemon = {0};
    struct kronosd_subscriber *subscriber;
    struct kronosd_message message;
    struct kt_status counts;
    int go[2], heard[2];
    char byte;
    pid_t child;
    void *feed;

    kt_daemon_configure(&daemon, "");
    CU_ASSERT_EQUAL_FATAL(pipe(go), 0);
    CU_ASSERT_EQUAL_FATAL(pipe(heard), 0);
    fflush(stdout);
    child = fork(); /* while this process has no other thread */
    if (child == 0)
        subscriber_process(&daemon, go[0], heard[1]);
    close(go[0]);
    close(heard[1]);
    CU_ASSERT_TRUE_FATAL(kt_daemon_start(&daemon));
    CU_ASSERT_EQUAL(write(go[1], "x", 1), 1);
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 40);
    CU_ASSERT_EQUAL(read(heard[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    feed_range(feed, "AAA", 40, 50);
    CU_ASSERT_TRUE(kt_settled(&daemon, 50, &counts));
    CU_ASSERT_EQUAL(counts.accepted, 50);
    subscriber = kt_subscribe(&daemon, "forecast|");
    CU_ASSERT_TRUE(kt_receive(subscriber, &message));
    CU_ASSERT_EQUAL(message.seq, 50 - WARM);
    feed_range(feed, "AAA", 50, 51);
    CU_ASSERT_TRUE(kt_receive(subscriber, &message));
    CU_ASSERT_EQUAL(message.seq, 51 - WARM);
    close(go[1]);
    close(heard[0]);
    kronosd_subscriber_close(&subscriber);
    kt_feed_close(&feed);
    end(&daemon);
}

static void numbered(void *feed, size_t i, uint64_t ep, uint64_t seq)
{
    struct kw_bar bar = kt_bar("AAA", "1m", i);

    bar.has_ep = bar.has_seq = true;
    bar.ep = ep;
    bar.seq = seq;
    kt_feed_bar(feed, &bar);
}

/* A publisher that loses messages, and one that starts anew and repeats itself. */
static void feed_restarted(void)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *events;
    struct kt_status counts;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, ""));
    events = kt_subscribe(&daemon, "event|");
    feed = kt_feed_open(&daemon);
    for (size_t i = 0; i < 35; i++)
        numbered(feed, i, 7, i + 1);
    numbered(feed, 37, 7, 38); /* two messages and two bars are missing */
    CU_ASSERT_TRUE(kt_event(events, "gap", "lost", 2));
    CU_ASSERT_TRUE(kt_event(events, "gap", "held", 1));
    kt_feed_close(&feed);
    feed = kt_feed_open(&daemon);
    for (size_t i = 30; i < 45; i++) /* overlaps; brings the two as well */
        numbered(feed, i, 8, i - 29);
    CU_ASSERT_TRUE(kt_event(events, "resumed", "feed_restarted", 1));
    CU_ASSERT_TRUE(kt_event(events, "duplicate", "same", 5));
    CU_ASSERT_TRUE(kt_event(events, "late", "late", 2));
    CU_ASSERT_TRUE(kt_event(events, "duplicate", "same", 6));
    CU_ASSERT_TRUE(kt_settled(&daemon, 36 + 15, &counts));
    CU_ASSERT_EQUAL(counts.accepted, 45);
    CU_ASSERT_EQUAL(counts.duplicates, 6);
    kronosd_subscriber_close(&events);
    kt_feed_close(&feed);
    end(&daemon);
}

static void reload(void)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *subscriber;
    struct kronosd_message message;
    const msgpack_object *params;
    struct kt_status counts;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, ""));
    subscriber = kt_subscribe(&daemon, "forecast|");
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 32);
    CU_ASSERT_TRUE(kt_receive(subscriber, &message));
    CU_ASSERT_EQUAL(kronosd_get_uint(kronosd_get(message.root, "params"), "seed", 9), 0);
    /* what a reload can change, and one thing that it cannot */
    kt_daemon_configure(&daemon,
                        "[forecast] seed = 77\n[forecast] top_k = 5\n[forecast] horizon = 6\n");
    kill(daemon.pid, SIGHUP);
    CU_ASSERT_TRUE(kt_daemon_notified(&daemon, "RELOADING=1"));
    CU_ASSERT_TRUE(kt_daemon_notified(&daemon, "READY=1"));
    feed_range(feed, "AAA", 32, 33);
    CU_ASSERT_TRUE(kt_receive(subscriber, &message));
    params = kronosd_get(message.root, "params");
    CU_ASSERT_EQUAL(kronosd_get_uint(params, "seed", 0), 77);
    CU_ASSERT_EQUAL(kronosd_get_uint(params, "top_k", 0), 5);
    CU_ASSERT_EQUAL(kronosd_get_uint(params, "horizon", 0), 4);
    /* a file that is wrong changes nothing */
    kt_daemon_configure(&daemon, "[forecast] seed = 78\n[forecast] top_p = 7\n");
    kill(daemon.pid, SIGHUP);
    CU_ASSERT_TRUE(kt_daemon_notified(&daemon, "RELOADING=1"));
    CU_ASSERT_TRUE(kt_daemon_notified(&daemon, "READY=1"));
    feed_range(feed, "AAA", 33, 34);
    feed_range(feed, "BBB", 0, 1); /* admitted by the configuration in force */
    CU_ASSERT_TRUE(kt_receive(subscriber, &message));
    CU_ASSERT_EQUAL(kronosd_get_uint(kronosd_get(message.root, "params"), "seed", 0), 77);
    CU_ASSERT_EQUAL(message.seq, 3);
    CU_ASSERT_TRUE(kt_settled(&daemon, 35, &counts));
    CU_ASSERT_EQUAL(counts.accepted, 35);
    kronosd_subscriber_close(&subscriber);
    kt_feed_close(&feed);
    end(&daemon);
}

/* SIGTERM while much waits and a long control forecast runs: status 0 within 5 s. */
static void terminated_busy(void)
{
    struct kt_daemon daemon;
    struct kronosd_control *control;
    struct kr_error error;
    const msgpack_object *reply;
    msgpack_packer *packer;
    struct kt_status counts;
    void *feed;

    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(
        &daemon, "[forecast] paths = 64\n[forecast] horizon = 24\n[limits] stop_timeout = 1s\n"));
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 64);
    CU_ASSERT_TRUE(kt_settled(&daemon, 64, &counts));
    control = kt_control(&daemon);
    packer = kronosd_request_begin(control, "forecast", 4);
    kronosd_pack_string(packer, "sym", "AAA");
    kronosd_pack_string(packer, "iv", "1m");
    kronosd_pack_int(packer, "horizon", 5000);
    kronosd_pack_int(packer, "paths", 64);
    CU_ASSERT_EQUAL(kronosd_request(control, 100, &reply, &error), -ETIMEDOUT); /* it runs */
    for (size_t s = 0; s < N_STREAMS; s++)
        feed_range(feed, symbols[s], 64, 3000);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    kronosd_control_close(&control);
    kt_feed_close(&feed);
    kt_daemon_end(&daemon);
}

/* The service manager's side: the watchdog is pinged while idle and while busy, the end is announced. */
static void manager(void)
{
    struct kt_daemon daemon;
    void *feed;

    setenv("WATCHDOG_USEC", "200000", 1);
    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&daemon, ""));
    unsetenv("WATCHDOG_USEC");
    CU_ASSERT_TRUE(kt_daemon_notified(&daemon, "WATCHDOG=1"));
    feed = kt_feed_open(&daemon);
    feed_range(feed, "AAA", 0, 200);
    CU_ASSERT_TRUE(kt_daemon_notified(&daemon, "WATCHDOG=1"));
    CU_ASSERT_TRUE(kt_daemon_notified(&daemon, "STATUS=1 streams"));
    kill(daemon.pid, SIGINT);
    CU_ASSERT_TRUE(kt_daemon_notified(&daemon, "STOPPING=1"));
    kt_feed_close(&feed);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    kt_daemon_end(&daemon);
}

/* Exit status of the binary with these arguments; its first line of stderr. */
static int run_binary(const char *argument, const char *file, char *ret_line, size_t size)
{
    const char *build = getenv("builddir");
    char command[1024];
    FILE *pipe;
    int status, c;

    snprintf(command, sizeof(command), "%s/kronosd %s %s 2>&1 >/dev/null", build ? build : ".",
             argument, file);
    pipe = popen(command, "r");
    *ret_line = '\0';
    if (!pipe)
        return -1;
    if (!fgets(ret_line, (int)size, pipe))
        *ret_line = '\0';
    while ((c = fgetc(pipe)) != EOF)
        ;
    status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void command_line(void)
{
    struct kt_daemon daemon = {0};
    char line[1024];

    kt_daemon_configure(&daemon, "");
    CU_ASSERT_EQUAL(run_binary("--version", "", line, sizeof(line)), 0);
    CU_ASSERT_EQUAL(run_binary("--help", "", line, sizeof(line)), 0);
    CU_ASSERT_EQUAL(run_binary("--check-config --config", daemon.config, line, sizeof(line)), 0);
    CU_ASSERT_EQUAL(run_binary("--print-config --config", daemon.config, line, sizeof(line)), 0);
    CU_ASSERT_EQUAL(run_binary("--frobnicate", "", line, sizeof(line)), 64);
    CU_ASSERT_EQUAL(run_binary("surplus", "", line, sizeof(line)), 64);
    CU_ASSERT_EQUAL(run_binary("--config", "/nonexistent/kronosd.conf", line, sizeof(line)), 78);
    CU_ASSERT_PTR_NOT_NULL(strstr(line, "/nonexistent/kronosd.conf"));
    kt_daemon_configure(&daemon, "[forecast] lookback = many\n");
    CU_ASSERT_EQUAL(run_binary("--check-config --config", daemon.config, line, sizeof(line)), 78);
    CU_ASSERT_PTR_NOT_NULL(strstr(line, "lookback"));
    kt_daemon_configure(&daemon, "[model] predictor = /nonexistent/model\n");
    CU_ASSERT_EQUAL(run_binary("--check-config --config", daemon.config, line, sizeof(line)), 78);
    CU_ASSERT_PTR_NOT_NULL(strstr(line, "/nonexistent/model"));
    CU_ASSERT_EQUAL(run_binary("--config", daemon.config, line, sizeof(line)), 78);
    /* the plan is held against the limit */
    kt_daemon_configure(&daemon, "[limits] memory = 1M\n");
    CU_ASSERT_EQUAL(run_binary("--check-config --config", daemon.config, line, sizeof(line)), 78);
    CU_ASSERT_PTR_NOT_NULL(strstr(line, "memory"));
    /* a cache that cannot hold the window */
    kt_daemon_configure(&daemon, "[forecast] mode = anchored\n[forecast] growth = 61\n");
    CU_ASSERT_EQUAL(run_binary("--check-config --config", daemon.config, line, sizeof(line)), 78);
    CU_ASSERT_PTR_NOT_NULL(strstr(line, "max_context"));
    kt_daemon_end(&daemon);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"three streams of 500 bars, a forecast behind each", three_streams},
        {"a late joiner gets the last values", late_joiner},
        {"a subscriber is killed and replaced", subscriber_killed},
        {"a feed restarts with a new ep", feed_restarted},
        {"SIGHUP: applied, kept on error", reload},
        {"SIGTERM while busy", terminated_busy},
        {"notifications and watchdog", manager},
        {"command line", command_line},
    };

    return kt_main("daemon", tests, sizeof(tests) / sizeof(tests[0]));
}
