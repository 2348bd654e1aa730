/* SPDX-License-Identifier: MIT */
/* The whole road, with the real programs: what the daemon publishes is what `kronosctl predict` says of the
 * same window, byte for byte; and real markets through `kronosctl feed` with `watch --json` beside. */
#include "clients/json.h"
#include "tests/clients/run.h"
#include "tests/daemon/harness.h"
#include "tests/tap.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#define N_BARS    500
#define LOOKBACK  64
#define MIN_BARS  32
#define N_STREAMS 3

static const char *const symbols[N_STREAMS] = {"AAA", "BBB", "CCC"};

/* What must be the same in both, and what says when and by whom it was made. `cal` depends on what the
 * daemon has seen before (tests/daemon/test_scoring). */
static const char *const compared[] = {"v",         "sym",    "iv",     "as_of",    "rev",   "last",
                                       "mode",      "bars",   "win_t0", "anchor_n", "model", "isa",
                                       "precision", "params", "t",      "levels",   "open",  "high",
                                       "low",       "close",  "volume", "amount",   "ret"};

static struct kt_daemon daemon_;

/* Folders of the model that both run. */
static const char *predictor, *tokenizer;

static int64_t integer(const json_t *forecast, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(forecast, key));
}

/* Bars first .. last of a test stream as a file. */
static const char *write_window(const char *symbol, size_t first, size_t last)
{
    static char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/window.csv", kt_tmp());
    file = fopen(path, "w");
    if (!file)
        abort();
    fprintf(file, "time,open,high,low,close,volume,amount\n");
    for (size_t i = first; i <= last; i++) {
        struct kw_bar bar = kt_bar(symbol, "1m", i);

        fprintf(file, "%lld", (long long)bar.bar.t_ns);
        for (int c = 0; c < KR_COLUMNS; c++)
            fprintf(file, ",%.17g", bar.bar.v[c]);
        fprintf(file, "\n");
    }
    fclose(file);
    return path;
}

/* `kronosctl predict` on the window that a forecast names. */
static json_t *predict(const json_t *published, const char *symbol)
{
    int64_t first_ns = kt_bar(symbol, "1m", 0).bar.t_ns;
    size_t first = (size_t)((integer(published, "win_t0") - first_ns) / KT_MINUTE_NS);
    size_t last = (size_t)((integer(published, "as_of") - first_ns) / KT_MINUTE_NS);
    const char *mode = json_string_value(json_object_get(published, "mode"));
    bool anchored = strcmp(mode, "anchored") == 0;
    char lookback[24], anchor[24];
    json_t *predicted;
    struct kt_run run;

    if (strcmp(mode, "rolling") == 0)
        first = 0; /* rows are numbered, and averages taken, from the stream's first bar */
    snprintf(lookback, sizeof(lookback), "%zu", last - first + 1);
    snprintf(anchor, sizeof(anchor), "%lld", (long long)integer(published, "anchor_n"));
    run = KT_RUN("predict", "--predictor", predictor, "--tokenizer", tokenizer, "--bars",
                 write_window(symbol, first, last), "--time-unit", "ns", "--symbol", symbol,
                 "--interval", "1m", "--calendar", "24x7", "--lookback", lookback, "--horizon", "4",
                 "--paths", "2", "--max-context", "128", anchored ? "--anchor" : "--mode",
                 anchored ? anchor : mode, "--format", "json");
    KT_CHECK(run.status == 0, "predict: %d %s", run.status, run.err);
    predicted = json_loads(run.out, 0, NULL);
    KT_CHECK(predicted != NULL, "predict printed no JSON: %.80s", run.out);
    kt_run_free(&run);
    return predicted;
}

/* Number of compared keys that differ. */
static size_t differing(const json_t *published, const json_t *predicted)
{
    size_t wrong = 0;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(compared); i++) {
        const json_t *a = json_object_get(published, compared[i]);
        const json_t *b = json_object_get(predicted, compared[i]);

        if (a && b && json_equal(a, b))
            continue;
        wrong++;
        if (wrong <= 3) {
            char *left = json_dumps(a, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));
            char *right = json_dumps(b, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17));

            kt_note("%s: daemon %.100s, predict %.100s", compared[i], left ? left : "nothing",
                    right ? right : "nothing");
            free(left);
            free(right);
        }
    }
    return wrong;
}

static void compare_with_predict(const char *more, bool rolling)
{
    static json_t *kept[N_STREAMS][N_BARS];
    size_t n_kept[N_STREAMS] = {0}, n_compared = 0, n_anchored = 0, n_epochs = 0;
    struct kronosd_subscriber *subscriber;
    struct kt_status status;
    void *feed;

    CU_ASSERT_FATAL(kt_daemon_begin(&daemon_, more));
    subscriber = kt_subscribe(&daemon_, "forecast|");
    CU_ASSERT_PTR_NOT_NULL_FATAL(subscriber);
    feed = kt_feed_open(&daemon_);
    for (size_t i = 0; i < N_BARS; i++)
        for (size_t s = 0; s < N_STREAMS; s++) {
            struct kw_bar bar = kt_bar(symbols[s], "1m", i);

            kt_feed_bar(feed, &bar);
        }
    for (size_t i = 0; i < N_STREAMS * (N_BARS - MIN_BARS + 1); i++) {
        struct kronosd_message message;
        json_t *forecast;
        const char *symbol;

        if (!kt_receive(subscriber, &message)) {
            KT_CHECK(false, "%zu forecasts came, then none", i);
            break;
        }
        forecast = kj_from_msgpack(message.root);
        symbol = json_string_value(json_object_get(forecast, "sym"));
        for (size_t s = 0; s < N_STREAMS; s++)
            if (symbol && strcmp(symbol, symbols[s]) == 0)
                kept[s][n_kept[s]++] = forecast;
    }
    CU_ASSERT_TRUE(kt_settled(&daemon_, N_STREAMS * N_BARS, &status));
    CU_ASSERT_EQUAL(status.accepted, N_STREAMS * N_BARS);
    CU_ASSERT_EQUAL(status.forecasts, N_STREAMS * (N_BARS - MIN_BARS + 1));
    CU_ASSERT_EQUAL(status.skipped, 0);
    for (size_t s = 0; s < N_STREAMS; s++) {
        int64_t epoch = 0;

        CU_ASSERT_EQUAL(n_kept[s], N_BARS - MIN_BARS + 1);
        for (size_t i = 0; i < n_kept[s]; i++) {
            bool turned = integer(kept[s][i], "epoch") != epoch;

            CU_ASSERT_EQUAL(integer(kept[s][i], "as_of"),
                            kt_bar(symbols[s], "1m", i + MIN_BARS - 1).bar.t_ns);
            epoch = integer(kept[s][i], "epoch");
            n_epochs += turned;
            if (rolling)
                CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(kept[s][i], "mode")),
                                       "rolling");
            /* the first, each first of an epoch, and every 23rd */
            if (i == 0 || turned || i % 23 == 0) {
                json_t *predicted = predict(kept[s][i], symbols[s]);
                size_t wrong = differing(kept[s][i], predicted);

                KT_CHECK(wrong == 0, "%s bar %zu: %zu keys differ", symbols[s], i + MIN_BARS - 1,
                         wrong);
                n_compared++;
                n_anchored += epoch > 0;
                json_decref(predicted);
            }
            json_decref(kept[s][i]);
        }
    }
    kt_note("%zu of %d forecasts compared with predict, %zu of them anchored, %zu epochs",
            n_compared, N_STREAMS * (N_BARS - MIN_BARS + 1), n_anchored, n_epochs);
    if (!rolling)
        CU_ASSERT_TRUE(n_anchored > 50 && n_compared > n_anchored && n_epochs > 10);
    CU_ASSERT_TRUE(n_compared >= 60);
    kronosd_subscriber_close(&subscriber);
    kt_feed_close(&feed);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon_), 0);
    kt_daemon_end(&daemon_);
}

static void equals_predict(void)
{
    char folders[2][512];

    snprintf(folders[0], sizeof(folders[0]), "%s", kt_source("golden/pico/predictor"));
    snprintf(folders[1], sizeof(folders[1]), "%s", kt_source("golden/pico/tokenizer"));
    predictor = folders[0];
    tokenizer = folders[1];
    compare_with_predict("", false);
}

static void rolling_equals_predict(void)
{
    char folders[2][PATH_MAX], more[3 * PATH_MAX];
    struct kt_run run;

    CU_ASSERT_PTR_NOT_NULL_FATAL(realpath(kt_source("../etc/model/predictor"), folders[0]));
    CU_ASSERT_PTR_NOT_NULL_FATAL(realpath(kt_source("../etc/model/tokenizer"), folders[1]));
    predictor = folders[0];
    tokenizer = folders[1];
    snprintf(more, sizeof(more),
             "[model] predictor = %s\n[model] tokenizer = %s\n"
             "[forecast] growth = auto\n",
             predictor, tokenizer);
    compare_with_predict(more, true);
    /* what this model cannot do exactly is refused */
    run = KT_RUN("predict", "--predictor", predictor, "--tokenizer", tokenizer, "--bars",
                 write_window("AAA", 0, 70), "--time-unit", "ns", "--anchor", "10");
    CU_ASSERT_EQUAL(run.status, 78);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.err, "normaliser = returns"));
    kt_run_free(&run);
}

/* A message far beyond the limit costs its connection, and ZeroMQ itself would never connect again: the
 * daemon does, and says so by its subscription. */
static void oversized(void)
{
    char endpoint[128], more[192], subscription[KW_TOPIC_MAX];
    size_t n_bytes = 256 * 1024;
    char *message = calloc(1, n_bytes);
    int wait_ms = KT_WAIT_MS, linger_ms = 0;
    struct kw_bar bar = kt_bar("AAA", "1m", 0);
    struct kt_status status;
    void *feed;

    snprintf(endpoint, sizeof(endpoint), "ipc://%s/bound-feed", kt_tmp());
    snprintf(more, sizeof(more), "[feed] connect = %s\n", endpoint);
    CU_ASSERT_FATAL(message && kt_daemon_begin(&daemon_, more));
    feed = zmq_socket(daemon_.zmq, ZMQ_XPUB);
    zmq_setsockopt(feed, ZMQ_RCVTIMEO, &wait_ms, sizeof(wait_ms));
    zmq_setsockopt(feed, ZMQ_LINGER, &linger_ms, sizeof(linger_ms));
    CU_ASSERT_EQUAL(zmq_bind(feed, endpoint), 0);
    CU_ASSERT_TRUE(zmq_recv(feed, subscription, sizeof(subscription), 0) > 0);
    kt_feed_send(feed, "bar|1m|AAA|", message, n_bytes);
    /* unsubscribed by the loss, subscribed by the new connection */
    do {
        CU_ASSERT_TRUE_FATAL(zmq_recv(feed, subscription, sizeof(subscription), 0) > 0);
    } while (subscription[0] != 1);
    kt_feed_bar(feed, &bar);
    CU_ASSERT_TRUE(kt_settled(&daemon_, 1, &status));
    CU_ASSERT_EQUAL(status.accepted, 1);
    zmq_close(feed);
    free(message);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon_), 0);
    kt_daemon_end(&daemon_);
}

/* However many threads OpenBLAS would like to start before main(): SIGTERM is the daemon's to take. */
static void openblas_threads(void)
{
    setenv("KT_OPENBLAS_DEFAULT", "1", 1);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_FATAL(kt_daemon_begin(&daemon_, ""));
        CU_ASSERT_EQUAL(kt_daemon_stop(&daemon_), 0);
        kt_daemon_end(&daemon_);
    }
    unsetenv("KT_OPENBLAS_DEFAULT");
}

/* Real markets */

static size_t count_lines(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Rows of a CSV behind its header; under sanitizers only the first 2,500 are copied and used. */
static const char *usable(const char *path, size_t *ret_rows)
{
    static char copy[256];
    FILE *in = fopen(path, "r"), *out;
    size_t limit = getenv("KT_SANITIZED") ? 2500 : SIZE_MAX, n = 0;
    char line[512];

    if (!in)
        abort();
    snprintf(copy, sizeof(copy), "%s/real.csv", kt_tmp());
    out = fopen(copy, "w");
    for (; out && n <= limit && fgets(line, sizeof(line), in); n++)
        fputs(line, out);
    if (!out || fclose(out) != 0)
        abort();
    fclose(in);
    *ret_rows = n - 1;
    return copy;
}

/* A stream of its own gets its first forecast: whoever subscribes from now on is sent it, so that its line
 * shows that a subscription is in force. */
static void warm_up(struct kt_daemon *daemon)
{
    void *feed = kt_feed_open(daemon);
    struct kt_status status;

    for (size_t i = 0; i < MIN_BARS; i++) {
        struct kw_bar bar = kt_bar("WARM", "1m", i);

        kt_feed_bar(feed, &bar);
    }
    CU_ASSERT_TRUE(kt_settled(daemon, MIN_BARS, &status));
    CU_ASSERT_EQUAL(status.forecasts, 1);
    kt_feed_close(&feed);
}

static void wait_for_line(const struct kt_child *child)
{
    struct stat file = {.st_size = 0};

    for (int i = 0; i < KT_WAIT_MS / 10 && file.st_size == 0; i++) {
        kt_ended(child, 10);
        (void)!stat(child->out_path, &file); /* the child makes it */
    }
    CU_ASSERT_TRUE(file.st_size > 0);
}

static void real_market(const char *name, const char *interval, bool gappy)
{
    const char *shared = kt_shared(name), *file;
    struct kronosd_subscriber *events;
    char wanted[24], status_line[256];
    struct kt_child watch, feed;
    struct kt_status status;
    struct kt_run seen, fed;
    size_t rows, n_gaps = 0, n_forecasts;
    int64_t before = 0;

    if (!shared) {
        kt_skip("no %s beside the checkout", name);
        return;
    }
    file = usable(shared, &rows);
    CU_ASSERT_FATAL(kt_daemon_begin(&daemon_, "[publish] hwm = 100000\n"));
    events = kt_subscribe(&daemon_, "event|");
    CU_ASSERT_PTR_NOT_NULL_FATAL(events);
    n_forecasts = rows - MIN_BARS + 1;
    warm_up(&daemon_);
    snprintf(wanted, sizeof(wanted), "%zu", n_forecasts + 1);
    watch = KT_START("watch", "--json", "--from", daemon_.publish, "--control", daemon_.control,
                     "--count", wanted, "--timeout", "60s");
    wait_for_line(&watch);
    feed = KT_START("feed", file, "--symbol", "REAL", "--interval", interval, "--to", daemon_.feed,
                    "--connect");
    fed = kt_finish(&feed);
    KT_CHECK(fed.status == 0, "feed: %d %s", fed.status, fed.err);
    CU_ASSERT_TRUE(kt_settled(&daemon_, rows + MIN_BARS, &status));
    status.received -= MIN_BARS; /* of the other stream */
    status.accepted -= MIN_BARS;
    status.forecasts--;
    CU_ASSERT_EQUAL(status.received, rows);
    CU_ASSERT_EQUAL(status.accepted, rows);
    CU_ASSERT_TRUE(kt_balanced(&status));
    CU_ASSERT_EQUAL(status.forecasts, n_forecasts);
    CU_ASSERT_EQUAL(status.skipped, 0);
    seen = kt_finish(&watch);
    KT_CHECK(seen.status == 0, "watch: %d %s", seen.status, seen.err);
    CU_ASSERT_EQUAL(count_lines(seen.out), n_forecasts + 1);
    for (char *line = seen.out, *end; *line; line = end + 1) {
        json_error_t error;
        json_t *forecast, *mean;

        end = strchr(line, '\n');
        *end = '\0';
        forecast = json_loads(line, 0, &error);
        if (!forecast) {
            KT_CHECK(false, "watch --json: %s: %.200s", error.text, line);
            break;
        }
        if (strcmp(json_string_value(json_object_get(forecast, "sym")), "WARM") != 0) {
            CU_ASSERT_TRUE(integer(forecast, "as_of") > before);
            before = integer(forecast, "as_of");
        }
        mean = json_object_get(json_object_get(forecast, "close"), "mean");
        CU_ASSERT_EQUAL(json_array_size(mean), 4);
        for (size_t h = 0; h < json_array_size(mean); h++) {
            double close = json_real_value(json_array_get(mean, h));

            CU_ASSERT_TRUE(isfinite(close) && close > 0);
        }
        json_decref(forecast);
    }
    if (gappy) {
        struct kronosd_message message;

        while (n_gaps == 0 && kt_receive(events, &message)) {
            char kind[32];

            kronosd_get_string(message.root, "kind", kind, sizeof(kind));
            n_gaps += strcmp(kind, "gap") == 0;
        }
        CU_ASSERT_TRUE(n_gaps > 0);
    }
    snprintf(status_line, sizeof(status_line),
             "%s: received %llu = accepted %llu + rejected %llu + duplicates %llu + forming %llu",
             name, (unsigned long long)status.received, (unsigned long long)status.accepted,
             (unsigned long long)status.rejected, (unsigned long long)status.duplicates,
             (unsigned long long)status.forming);
    kt_note("%s", status_line);
    kt_note("%s: %llu forecasts of %zu warm bars, %llu skipped; gaps reported: %s", name,
            (unsigned long long)status.forecasts, n_forecasts, (unsigned long long)status.skipped,
            gappy ? "yes" : "not asked");
    kt_run_free(&seen);
    kt_run_free(&fed);
    kronosd_subscriber_close(&events);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon_), 0);
    kt_daemon_end(&daemon_);
}

static void ethbtc(void)
{
    real_market("bars/ETHBTC-5m.csv", "5m", false);
}

static void gappy(void)
{
    real_market("bars/UNITTEST-1m-gappy.csv", "1m", true);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"forecasts equal predict, byte for byte", equals_predict},
        {"rolling forecasts equal predict", rolling_equals_predict},
        {"a feed that sends too much is connected anew", oversized},
        {"SIGTERM with a threaded OpenBLAS", openblas_threads},
        {"ETHBTC through feed and watch", ethbtc},
        {"a market full of gaps", gappy},
    };

    return kt_main("accept", tests, KR_ARRAY_LENGTH(tests));
}
