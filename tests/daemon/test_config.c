/* SPDX-License-Identifier: MIT */
#include "daemon/config.h"
#include "daemon/config_internal.h"
#include "tests/daemon/config_files.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

static void defaults(void)
{
    struct kd_config *config = NULL;
    struct kd_settings s;

    CU_ASSERT_EQUAL_FATAL(kd_config_load(NULL, &config, NULL), 0);
    CU_ASSERT_STRING_EQUAL(config->path, "");
    CU_ASSERT_STRING_EQUAL(config->model.predictor, "");
    CU_ASSERT_EQUAL(config->model.max_context, 512);
    CU_ASSERT_EQUAL(config->feed.connect.n, 1);
    CU_ASSERT_STRING_EQUAL(config->feed.connect.items[0], "tcp://127.0.0.1:7410");
    CU_ASSERT_EQUAL(config->feed.bind.n, 0);
    CU_ASSERT_STRING_EQUAL(config->feed.topics.items[0], "bar|");
    CU_ASSERT_STRING_EQUAL(config->publish.bind.items[0], "tcp://127.0.0.1:7411");
    CU_ASSERT_STRING_EQUAL(config->control.bind.items[0], "tcp://127.0.0.1:7412");
    CU_ASSERT_EQUAL(config->publish.status_ns, 1000000000);
    CU_ASSERT_EQUAL(config->limits.symbols, 1000);
    CU_ASSERT_EQUAL(config->limits.message_bytes, 4096);
    CU_ASSERT_EQUAL(config->limits.memory_bytes, 0);
    CU_ASSERT_EQUAL(config->limits.workers, 0);
    CU_ASSERT_EQUAL(config->limits.request_bytes, 4 << 20);
    CU_ASSERT_EQUAL(config->log.level, LOG_INFO);
    CU_ASSERT_EQUAL_FATAL(kd_config_stream(config, "BTCUSDT", "5m", &s, NULL), 0);
    CU_ASSERT_EQUAL(s.mode, KR_MODE_AUTO);
    CU_ASSERT_EQUAL(s.lookback, 400);
    CU_ASSERT_EQUAL(s.min_bars, 64);
    CU_ASSERT_EQUAL(s.growth, 0);
    CU_ASSERT_EQUAL(s.horizon, 24);
    CU_ASSERT_EQUAL(s.paths, 32);
    CU_ASSERT_EQUAL(s.sampling.temperature, 1.0);
    CU_ASSERT_EQUAL(s.sampling.top_k, 0);
    CU_ASSERT_EQUAL(s.sampling.top_p, 1.0);
    CU_ASSERT_EQUAL(s.n_levels, 7);
    CU_ASSERT_EQUAL(s.levels[0], 0.05);
    CU_ASSERT_EQUAL(s.levels[6], 0.95);
    CU_ASSERT_EQUAL(s.backlog, KD_BACKLOG_LATEST);
    CU_ASSERT_TRUE(s.repair && s.join && s.scale && s.allow);
    CU_ASSERT_FALSE(s.publish_paths);
    CU_ASSERT_EQUAL(s.every, 1);
    CU_ASSERT_EQUAL(s.max_fill, 16);
    CU_ASSERT_STRING_EQUAL(s.calendar->name, "24x7");
    CU_ASSERT_STRING_EQUAL(s.calendar->timezone, "UTC");
    kd_config_free(&config);
    CU_ASSERT_PTR_NULL(config);
    CU_ASSERT_STRING_EQUAL(s.calendar->name, "24x7"); /* the stream's own reference */
    kd_settings_free(&s);
    CU_ASSERT_PTR_NULL(s.calendar);
    kd_config_free(&config);
}

static void every_type(void)
{
    struct kd_config *config = kt_config_load("\xef\xbb\xbf[model]\r\n"
                                              "predictor = models/p ; a comment\r\n"
                                              "tokenizer: /opt/t\n"
                                              "[ limits ] ; comment\n"
                                              "memory=3G\n"
                                              "message_bytes = 8K\n"
                                              "workers = 3\n"
                                              "stop_timeout = 1500ms\n"
                                              "[forecast]\n"
                                              "seed = 18446744073709551615\n"
                                              "temperature = 1.25e0\n"
                                              "levels = 0.1, 0.5,\n"
                                              "\t0.9\n"
                                              "mode = exact\n"
                                              "[feed]\n"
                                              "bind =\n"
                                              "  tcp://127.0.0.1:5000\n"
                                              "\n"
                                              "  # a comment between\n"
                                              "  ipc:///run/k.sock inproc://x tcp://[::1]:*\n"
                                              "allow = BTC*, ETH*|5m\n"
                                              "clock = wall\n"
                                              "[log]\n"
                                              "level = debug\n"
                                              "[control]\n"
                                              "bind =\n");
    struct kd_settings s;
    char folder[1024];

    if (!config)
        return;
    snprintf(folder, sizeof(folder), "%s/models/p", kt_tmp());
    CU_ASSERT_STRING_EQUAL(config->model.predictor, folder);
    CU_ASSERT_STRING_EQUAL(config->model.tokenizer, "/opt/t");
    CU_ASSERT_EQUAL(config->limits.memory_bytes, (size_t)3 << 30);
    CU_ASSERT_EQUAL(config->limits.message_bytes, 8192);
    CU_ASSERT_EQUAL(config->limits.workers, 3);
    CU_ASSERT_EQUAL(config->limits.stop_ns, 1500000000);
    CU_ASSERT_EQUAL(config->feed.clock, KD_CLOCK_WALL);
    CU_ASSERT_EQUAL(config->log.level, LOG_DEBUG);
    CU_ASSERT_EQUAL(config->control.bind.n, 0);
    CU_ASSERT_EQUAL(config->feed.bind.n, 4);
    CU_ASSERT_STRING_EQUAL(config->feed.bind.items[1], "ipc:///run/k.sock");
    CU_ASSERT_EQUAL(config->feed.connect.n, 0); /* bind without connect: publishers come to us */
    CU_ASSERT_TRUE(kd_config_is_set(config, "limits", "workers"));
    CU_ASSERT_FALSE(kd_config_is_set(config, "limits", "symbols"));
    CU_ASSERT_EQUAL_FATAL(kd_config_stream(config, "BTCUSDT", "1h", &s, NULL), 0);
    CU_ASSERT_EQUAL(s.seed, UINT64_MAX);
    CU_ASSERT_EQUAL(s.sampling.temperature, 1.25);
    CU_ASSERT_EQUAL(s.n_levels, 3);
    CU_ASSERT_EQUAL(s.levels[2], 0.9);
    CU_ASSERT_EQUAL(s.mode, KR_MODE_EXACT);
    CU_ASSERT_TRUE(s.allow);
    kd_settings_free(&s);
    CU_ASSERT_EQUAL_FATAL(kd_config_stream(config, "ETHUSDT", "1h", &s, NULL), 0);
    CU_ASSERT_FALSE(s.allow);
    kd_settings_free(&s);
    CU_ASSERT_EQUAL_FATAL(kd_config_stream(config, "ETHUSDT", "5m", &s, NULL), 0);
    CU_ASSERT_TRUE(s.allow);
    kd_settings_free(&s);
    kd_config_free(&config);
}

static void overrides(void)
{
    struct kd_config *config = kt_config_load("[forecast]\n"
                                              "horizon = 12\n"
                                              "calendar = weekdays\n"
                                              "[feed]\n"
                                              "allow = BTC*\n"
                                              "[stream *|5m]\n"
                                              "horizon = 48\n"
                                              "every = 5\n"
                                              "calendar = shanghai\n"
                                              "[stream [BE]T[CH]*]\n"
                                              "paths = 64\n"
                                              "levels = 0.25 0.75\n"
                                              "timezone = Europe/Berlin\n"
                                              "[stream ETHUSDT|5m]\n"
                                              "horizon = 6\n"
                                              "allow = yes\n"
                                              "[calendar shanghai]\n"
                                              "timezone = Asia/Shanghai\n"
                                              "sessions = 09:30-11:30,\n"
                                              "    13:00-15:00\n"
                                              "weekdays = mon-fri\n");
    struct kd_settings s, copy;

    if (!config)
        return;
    CU_ASSERT_EQUAL_FATAL(kd_config_stream(config, "BTCUSDT", "1m", &s, NULL), 0);
    CU_ASSERT_EQUAL(s.horizon, 12);
    CU_ASSERT_EQUAL(s.paths, 64);
    CU_ASSERT_EQUAL(s.n_levels, 2);
    CU_ASSERT_EQUAL(s.every, 1);
    CU_ASSERT_TRUE(s.allow);
    CU_ASSERT_STRING_EQUAL(s.calendar->name, "weekdays");
    CU_ASSERT_STRING_EQUAL(s.calendar->timezone, "Europe/Berlin");
    CU_ASSERT_STRING_EQUAL(s.calendar->weekdays, "mon-fri");
    kd_settings_free(&s);
    CU_ASSERT_EQUAL_FATAL(kd_config_stream(config, "ETHUSDT", "5m", &s, NULL), 0);
    CU_ASSERT_EQUAL(s.horizon, 6);
    CU_ASSERT_EQUAL(s.paths, 64);
    CU_ASSERT_EQUAL(s.every, 5);
    CU_ASSERT_TRUE(s.allow); /* [stream] allow stands above [feed] allow */
    CU_ASSERT_STRING_EQUAL(s.calendar->name, "shanghai");
    CU_ASSERT_STRING_EQUAL(s.calendar->timezone, "Europe/Berlin");
    CU_ASSERT_STRING_EQUAL(s.calendar->sessions, "09:30-11:30,13:00-15:00");
    kd_settings_copy(&copy, &s);
    CU_ASSERT_PTR_EQUAL(copy.calendar, s.calendar);
    kd_settings_free(&s);
    CU_ASSERT_STRING_EQUAL(copy.calendar->name, "shanghai");
    kd_settings_free(&copy);
    CU_ASSERT_EQUAL_FATAL(kd_config_stream(config, "600977", "5m", &s, NULL), 0);
    CU_ASSERT_EQUAL(s.horizon, 48);
    CU_ASSERT_EQUAL(s.paths, 32);
    CU_ASSERT_FALSE(s.allow);
    CU_ASSERT_STRING_EQUAL(s.calendar->timezone, "Asia/Shanghai");
    CU_ASSERT_PTR_NOT_NULL(s.calendar->calendar);
    kd_settings_free(&s);
    kd_config_free(&config);
}

/* Sections that are sound alone but not together: the stream is refused, not the configuration. */
static void contradiction(void)
{
    struct kd_config *config = kt_config_load("[stream A*]\nmin_bars = 300\n"
                                              "[stream *B]\nlookback = 200\n");
    struct kd_settings s = {0};
    struct kr_error error = {""};

    if (!config)
        return;
    CU_ASSERT_EQUAL(kd_config_stream(config, "AB", "1m", &s, &error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error.text,
                           "AB|1m: min_bars: 300, expected at most lookback, which is 200");
    CU_ASSERT_EQUAL(kd_config_stream(config, "A", "1m", &s, &error), 0);
    kd_settings_free(&s);
    kd_config_free(&config);
}

static void variants(void)
{
    struct kd_config *config = kt_config_load("[forecast]\npaths = 8\n"
                                              "[stream A]\nhorizon = 7\n[stream B]\npaths = 9\n");
    struct kd_settings s;
    const char *pattern;
    size_t line;

    if (!config)
        return;
    CU_ASSERT_TRUE(kd_config_variant(config, 0, &s, &line, &pattern));
    CU_ASSERT_TRUE(s.horizon == 24 && s.paths == 8 && line == 0 && !*pattern);
    CU_ASSERT_TRUE(kd_config_variant(config, 1, &s, &line, &pattern));
    CU_ASSERT_TRUE(s.horizon == 7 && s.paths == 8 && line == 3);
    CU_ASSERT_STRING_EQUAL(pattern, "A");
    CU_ASSERT_TRUE(kd_config_variant(config, 2, &s, &line, &pattern));
    CU_ASSERT_TRUE(s.horizon == 24 && s.paths == 9 && line == 5);
    CU_ASSERT_FALSE(kd_config_variant(config, 3, &s, &line, &pattern));
    kd_config_free(&config);
}

/* Where the unit gives a folder and the file says nothing, it is taken. */
static void state_directory(void)
{
    struct kd_config *config;

    unsetenv("STATE_DIRECTORY");
    config = kt_config_load("[state]\nsync = off\n");
    CU_ASSERT_STRING_EQUAL(config->state.directory, "");
    CU_ASSERT_EQUAL(config->state.sync, KD_SYNC_OFF);
    kd_config_free(&config);
    setenv("STATE_DIRECTORY", "/var/lib/a:/var/lib/b", 1);
    config = kt_config_load("");
    CU_ASSERT_STRING_EQUAL(config->state.directory, "/var/lib/a");
    CU_ASSERT_EQUAL(config->state.sync, KD_SYNC_INTERVAL);
    kd_config_free(&config);
    config = kt_config_load("[state]\ndirectory = /mine\nsync = always\n");
    CU_ASSERT_STRING_EQUAL(config->state.directory, "/mine");
    CU_ASSERT_EQUAL(config->state.sync, KD_SYNC_ALWAYS);
    kd_config_free(&config);
    config = kt_config_load("[state]\ndirectory =\n"); /* not wanted */
    CU_ASSERT_STRING_EQUAL(config->state.directory, "");
    kd_config_free(&config);
    unsetenv("STATE_DIRECTORY");
}

static void globs(void)
{
    CU_ASSERT_TRUE(kd_glob("BTC*", "BTCUSDT", "5m"));
    CU_ASSERT_TRUE(kd_glob("*", "BTC/USDT:perp", "5m"));
    CU_ASSERT_TRUE(kd_glob("*|5m", "BTC/USDT", "5m"));
    CU_ASSERT_FALSE(kd_glob("*|5m", "BTC/USDT", "15m"));
    CU_ASSERT_TRUE(kd_glob("*|*5m", "BTC/USDT", "15m"));
    CU_ASSERT_FALSE(kd_glob("BTC", "BTCUSDT", "5m"));
    CU_ASSERT_TRUE(kd_glob("[AB]??|1[hm]", "BXY", "1h"));
    CU_ASSERT_FALSE(kd_glob("5m", "X", "5m"));
}

static char *print(const struct kd_config *config)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    CU_ASSERT_EQUAL(kd_config_print(config, out), 0);
    fclose(out);
    return text;
}

/* Whatever is printed loads to the same, and is printed the same again. */
static void round_trip(void)
{
    static const char *const texts[] = {
        "",
        "[model]\npredictor = /a\n[forecast]\ngrowth = 30\nseed = 7\ntemperature = 0.1\n"
        "levels = 0.1 0.30000000000000004 0.9\n[feed]\nbind = tcp://127.0.0.1:1 tcp://127.0.0.1:2\n"
        "connect =\n[publish]\nstatus = 250ms\n[limits]\nmemory = 1025K\nstop_timeout = 1m\n"
        "[log]\nburst = 0\n",
        "[stream *]\ncalendar = a\nholidays = "
        "2026-01-01,2026-01-02,2026-01-03,2026-01-04,2026-01-05,\n"
        "  "
        "2026-01-06,2026-01-07,2026-01-08,2026-01-09,2026-01-10,2026-01-11,2026-01-12,2026-01-13\n"
        "[calendar a]\ntimezone = America/New_York\nsessions = 22:00-06:00\n"
        "[stream X|1d]\nallow = no\ngap = fill\n[calendar b]\n",
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(texts); i++) {
        struct kd_config *first = kt_config_load(texts[i]), *second;
        struct kd_changes changes;
        char *once, *twice;

        if (!first)
            continue;
        once = print(first);
        second = kt_config_load(once);
        if (second) {
            twice = print(second);
            CU_ASSERT_STRING_EQUAL(once, twice);
            free(twice);
            kd_config_reload(&first, &second, &changes);
            KT_CHECK(changes.n_applied == 0 && changes.n_restart == 0, "changed: %s %s",
                     changes.applied, changes.restart);
        }
        free(once);
        kd_config_free(&first);
        kd_config_free(&second);
    }
}

static void reload(void)
{
    struct kd_config *running = kt_config_load("[forecast]\nseed = 1\nhorizon = 12\n"
                                               "[stream A]\nhorizon = 6\ntop_k = 3\n"
                                               "[stream B]\npaths = 4\n");
    struct kd_config *fresh;
    struct kd_changes changes;
    struct kd_settings s;

    if (!running)
        return;
    running->limits.symbols = 10; /* a plan lowered the default */
    fresh = kt_config_load("[forecast]\nseed = 2\nhorizon = 13\n[limits]\nworkers = 7\n"
                           "[publish]\nbind = tcp://127.0.0.1:9\nstatus = 2s\n"
                           "[stream A]\nhorizon = 7\ntop_k = 4\n[stream C]\ntop_k = 9\n"
                           "[stream *]\ncalendar = c\n[calendar c]\ntimezone = Asia/Tokyo\n");
    CU_ASSERT_PTR_NOT_NULL_FATAL(fresh);
    kd_config_reload(&running, &fresh, &changes);
    CU_ASSERT_PTR_NULL(fresh);
    CU_ASSERT_STRING_EQUAL(changes.applied,
                           "forecast.seed, publish.status, stream A.top_k, stream C.top_k");
    CU_ASSERT_STRING_EQUAL(changes.restart,
                           "forecast.horizon, publish.bind, limits.workers, calendar c.timezone, "
                           "stream A.horizon, stream *.calendar, stream B.paths");
    CU_ASSERT_EQUAL(changes.n_applied, 4);
    CU_ASSERT_EQUAL(changes.n_restart, 7);
    CU_ASSERT_EQUAL(running->limits.symbols, 10);
    CU_ASSERT_EQUAL(running->limits.workers, 0);
    CU_ASSERT_EQUAL(running->publish.status_ns, 2000000000);
    CU_ASSERT_STRING_EQUAL(running->publish.bind.items[0], "tcp://127.0.0.1:7411");
    CU_ASSERT_EQUAL(kd_config_stream(running, "A", "1m", &s, NULL), 0);
    CU_ASSERT_TRUE(s.seed == 2 && s.horizon == 6 && s.sampling.top_k == 4);
    CU_ASSERT_STRING_EQUAL(s.calendar->name, "24x7");
    kd_settings_free(&s);
    CU_ASSERT_EQUAL(kd_config_stream(running, "B", "1m", &s, NULL), 0);
    CU_ASSERT_TRUE(s.paths == 4 && s.horizon == 12);
    kd_settings_free(&s);

    /* a second one is compared with what runs, and what waits for a restart is told again */
    fresh = kt_config_load("[forecast]\nseed = 2\nhorizon = 13\n[stream B]\npaths = 4\n"
                           "[stream A]\nhorizon = 6\n");
    CU_ASSERT_PTR_NOT_NULL_FATAL(fresh);
    kd_config_reload(&running, &fresh, &changes);
    CU_ASSERT_STRING_EQUAL(changes.applied, "publish.status, stream A.top_k, stream C.top_k");
    CU_ASSERT_STRING_EQUAL(changes.restart, "forecast.horizon, stream.order");
    CU_ASSERT_EQUAL(kd_config_stream(running, "A", "1m", &s, NULL), 0);
    CU_ASSERT_TRUE(s.horizon == 6 && s.sampling.top_k == 0);
    kd_settings_free(&s);
    kd_config_free(&running);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"defaults", defaults},
        {"every type of value", every_type},
        {"stream sections over the defaults", overrides},
        {"sections that contradict each other", contradiction},
        {"variants for the memory plan", variants},
        {"systemd's folder", state_directory},
        {"patterns", globs},
        {"printed and loaded again", round_trip},
        {"reload", reload},
    };

    return kt_main("config", tests, KR_ARRAY_LENGTH(tests));
}
