/* SPDX-License-Identifier: MIT */
/* Live scoring where streams do not simply go on: reset, reload, history, silence, bursts, long horizons. */
#include "tests/daemon/twin.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define BURST 100

static void expect_nil(const msgpack_object *map, const char *key)
{
    const msgpack_object *value = kronosd_get(map, key);

    KT_CHECK(value && value->type == MSGPACK_OBJECT_NIL, "%s: expected nil", key);
}

/* Forgotten with the stream: calibration, waiting forecasts, the walk. The numbers of scores go on. */
static void reset(void)
{
    static struct kt_twin twin;
    const msgpack_object *reply;

    kt_twin_begin(&twin, "");
    kt_twin_feed_range(&twin, 0, 70);
    CU_ASSERT_TRUE(twin.seen[KR_WARMING]);
    CU_ASSERT_EQUAL(kt_ask(twin.control, "reset", twin.symbol, "1m", &reply), 0);
    CU_ASSERT_EQUAL_FATAL(kt_ask(twin.control, "symbols", NULL, NULL, &reply), 0);
    CU_ASSERT_PTR_NULL(kronosd_get(&kronosd_get(reply, "symbols")->via.array.ptr[0], "trust"));
    kt_twin_forget(&twin);
    memset(twin.seen, 0, sizeof(twin.seen));
    kt_twin_feed_range(&twin, 70, 110);
    CU_ASSERT_TRUE(twin.seen[KR_UNCALIBRATED] && !twin.seen[KR_WARMING]);
    CU_ASSERT_TRUE(twin.n_scores > twin.n_forgotten && twin.n_forgotten > 0);
    kt_twin_expect_standing(&twin);
    kt_twin_end(&twin);
}

/* Skill and coverage are of what was learned since; there is none until the first score. */
static void nothing_yet(void)
{
    static struct kt_twin twin;
    const msgpack_object *reply, *trust;
    struct kt_status status;

    kt_twin_begin(&twin, "");
    kt_twin_feed_range(&twin, 0, 70);
    kt_twin_expect_standing(&twin);
    kt_daemon_configure(&twin.daemon, KT_TWIN_SETTINGS "[forecast] temperature = 0.9\n");
    kill(twin.daemon.pid, SIGHUP);
    CU_ASSERT_TRUE(kt_event(twin.events, "recalibrated", "parameters", 1));
    kr_trust_reset(&twin.trust, 2);
    CU_ASSERT_TRUE(kt_settled(&twin.daemon, 70, &status));
    CU_ASSERT_EQUAL_FATAL(kt_ask(twin.control, "symbols", NULL, NULL, &reply), 0);
    trust = kronosd_get(&kronosd_get(reply, "symbols")->via.array.ptr[0], "trust");
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "n", 99), 0);
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "scored", 0), twin.n_scores);
    expect_nil(trust, "skill");
    expect_nil(trust, "skill_cal");
    expect_nil(trust, "cover_cal");
    CU_ASSERT_EQUAL_FATAL(kronosd_status(twin.control, KT_WAIT_MS, &reply, NULL), 0);
    trust = kronosd_get(reply, "trust");
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "recalibrated", 0), 1);
    expect_nil(trust, "skill");
    expect_nil(trust, "skill_cal");
    kt_twin_feed_range(&twin, 70, 80);
    kt_twin_expect_standing(&twin);
    kt_twin_end(&twin);
}

/* A forecast that was asked for is neither calibrated nor remembered: it would take the place of the published
 * one behind the same bar. */
static void asked(void)
{
    static struct kt_twin twin;
    const msgpack_object *reply, *cal;
    char status[16];

    kt_twin_begin(&twin, "");
    for (size_t i = 0; i < 90; i++) {
        kt_twin_feed_range(&twin, i, i + 1);
        if (i < 60)
            continue;
        CU_ASSERT_EQUAL_FATAL(kt_ask(twin.control, "forecast", twin.symbol, "1m", &reply), 0);
        cal = kronosd_get(kronosd_get(reply, "forecast"), "cal");
        CU_ASSERT_TRUE(kronosd_get_string(cal, "status", status, sizeof(status)));
        CU_ASSERT_STRING_EQUAL(status, "uncalibrated");
        CU_ASSERT_EQUAL(kronosd_get_uint(cal, "n", 99), 0);
    }
    CU_ASSERT_TRUE(twin.seen[KR_WARMING]);
    kt_twin_expect_standing(&twin);
    CU_ASSERT_EQUAL(twin.trust.pending.counts.replaced, 0);
    kt_twin_end(&twin);
}

static void load(struct kt_twin *twin, int64_t from, size_t n)
{
    int64_t t_ns[BURST];
    double v[BURST][KRONOSD_COLUMNS];
    const struct kronosd_bars bars = {.n = n, .t_ns = t_ns, .v = v};
    int64_t t0 = kt_bar(twin->symbol, "1m", 0).bar.t_ns;
    struct kr_error error = {""};
    uint64_t accepted;

    for (size_t i = 0; i < n; i++) {
        const struct kw_bar bar = kt_bar(twin->symbol, "1m", i);

        t_ns[i] = t0 + (from + (int64_t)i) * KT_MINUTE_NS;
        memcpy(v[i], bar.bar.v, sizeof(v[i]));
    }
    KT_CHECK(kronosd_load(twin->control, twin->symbol, "1m", &bars, KT_WAIT_MS, NULL, NULL,
                          &accepted, &error) == 0,
             "%s", error.text);
    CU_ASSERT_EQUAL(accepted, n);
}

/* History feeds the walk; the forecast behind it is scored like any other. A bar older than the first one has a
 * negative row and teaches nothing; the forecast made then takes the last one's place. */
static void history(void)
{
    static struct kt_twin twin;

    kt_twin_begin(&twin, "");
    load(&twin, 0, 40);
    for (size_t i = 0; i < 40; i++) {
        const struct kw_bar bar = kt_bar(twin.symbol, "1m", i);

        CU_ASSERT_EQUAL(
            kr_trust_bar(&twin.trust, bar.bar.t_ns, twin.next_row++, bar.bar.v[KR_CLOSE]), 0);
    }
    kt_twin_expect_forecast(&twin, true);
    kt_twin_feed_range(&twin, 40, 70);
    CU_ASSERT_TRUE(twin.seen[KR_WARMING]);
    for (int64_t i = -1; i >= -5; i--) {
        load(&twin, i, 1);
        kt_twin_expect_forecast(&twin, true);
    }
    CU_ASSERT_EQUAL(twin.trust.pending.counts.replaced, 5);
    kt_twin_feed_range(&twin, 70, 90);
    kt_twin_expect_standing(&twin);
    kt_twin_end(&twin);
}

/* Bars between which no forecast has a step: nothing comes due for ten horizons, and the next ones heal it. */
static void stale(void)
{
    static struct kt_twin twin;
    uint64_t n_scores;

    kt_twin_begin(&twin, "");
    kt_twin_feed_range(&twin, 0, 60);
    n_scores = twin.n_scores;
    for (size_t i = 70; i < 70 + 10 * 45; i += 10)
        kt_twin_feed_range(&twin, i, i + 1);
    CU_ASSERT_EQUAL(twin.n_scores, n_scores);
    CU_ASSERT_TRUE(twin.seen[KR_STALE]);
    CU_ASSERT_TRUE(twin.trust.pending.counts.unscored > 100);
    kt_twin_expect_standing(&twin);
    memset(twin.seen, 0, sizeof(twin.seen));
    kt_twin_feed_range(&twin, 511, 530);
    CU_ASSERT_TRUE(twin.n_scores > n_scores);
    CU_ASSERT_TRUE(twin.seen[KR_WARMING]);
    kt_twin_expect_standing(&twin);
    kt_twin_end(&twin);
}

/* A horizon for which not every forecast can be kept: every second one is, the others are read alone. */
static void long_horizon(void)
{
    static struct kt_twin twin;

    kt_twin_begin_horizon(&twin, "[forecast] horizon = 60\n[forecast] lookback = 32\n", 60);
    CU_ASSERT_EQUAL(twin.spacing, 2);
    kt_twin_feed_range(&twin, 0, 150);
    CU_ASSERT_TRUE(twin.trust.calibrator.horizon[59].n > 20);
    CU_ASSERT_EQUAL(twin.trust.pending.counts.crowded, 0);
    CU_ASSERT_TRUE(twin.seen[KR_WARMING]);
    kt_twin_expect_standing(&twin);
    kt_twin_end(&twin);
}

/* as_of of every forecast that there is, in order; of a subscriber of its own. */
static size_t list_forecasts(struct kronosd_subscriber *subscriber, size_t n, int64_t *ret)
{
    struct kronosd_message message;

    for (size_t i = 0; i < n; i++) {
        if (!kt_receive(subscriber, &message))
            return i;
        ret[i] = kronosd_get_int(message.root, "as_of", 0);
    }
    return n;
}

/* backlog = latest: what was skipped is never scored, what there is is read and scored as if nothing else had
 * been meant, and no number is missing. The daemon finds the whole burst at once. */
static void burst(void)
{
    static struct kt_twin twin;
    struct kronosd_subscriber *ahead;
    int64_t as_of[BURST + 1];
    struct kt_status status;
    size_t n, at = 0;

    kt_twin_begin(&twin, "[forecast] backlog = latest\n");
    kt_twin_feed_range(&twin, 0, 60);
    ahead = kt_subscribe(&twin.daemon, "forecast|");
    CU_ASSERT_EQUAL(list_forecasts(ahead, 1, as_of), 1); /* the last one, sent again */
    kill(twin.daemon.pid, SIGSTOP);
    for (size_t i = 60; i < 60 + BURST; i++) {
        const struct kw_bar bar = kt_bar(twin.symbol, "1m", i);

        kt_feed_bar(twin.feed, &bar);
    }
    kill(twin.daemon.pid, SIGCONT);
    twin.n_received += BURST;
    CU_ASSERT_TRUE_FATAL(kt_settled(&twin.daemon, twin.n_received, &status));
    CU_ASSERT_EQUAL(status.forecasts + status.skipped, 60 + BURST - KT_TWIN_MIN_BARS + 1);
    CU_ASSERT_TRUE(status.skipped > 0);
    n = (size_t)(status.forecasts - twin.n_forecasts);
    CU_ASSERT_TRUE_FATAL(n >= 1 && n <= BURST);
    CU_ASSERT_EQUAL_FATAL(list_forecasts(ahead, n, as_of), n);
    for (size_t i = 60; i < 60 + BURST; i++) {
        const struct kw_bar bar = kt_bar(twin.symbol, "1m", i);

        kt_twin_expect_scores(
            &twin, kr_trust_bar(&twin.trust, bar.bar.t_ns, twin.next_row++, bar.bar.v[KR_CLOSE]));
        if (at < n && as_of[at] == bar.bar.t_ns) {
            kt_twin_expect_forecast(&twin, true);
            at++;
        }
    }
    CU_ASSERT_EQUAL(at, n);
    kt_note("%zu of %d forecasts, %llu skipped", n, BURST, (unsigned long long)status.skipped);
    kt_twin_feed_range(&twin, 60 + BURST, 70 + BURST);
    kt_twin_expect_standing(&twin);
    kronosd_subscriber_close(&ahead);
    kt_twin_end(&twin);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"a stream that is reset", reset},
        {"nothing scored since", nothing_yet},
        {"forecasts that were asked for", asked},
        {"history", history},
        {"nothing comes due", stale},
        {"a long horizon", long_horizon},
        {"a burst, the newest wins", burst},
    };

    return kt_main("scoring_more", tests, KR_ARRAY_LENGTH(tests));
}
