/* SPDX-License-Identifier: MIT */
/* The real daemon scores its forecasts: what it publishes on `score` and in `cal` is, byte for byte, what a trust
 * of the test's own comes to from the published paths and the bars. */
#include "core/draw.h"
#include "core/trust.h"
#include "daemon/scoring.h"
#include "tests/clients/run.h"
#include "tests/daemon/harness.h"
#include "tests/tap.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define MIN_BARS 32
#define HORIZON  4
#define PATHS    8
#define LEVELS   7

static const double levels[LEVELS] = {0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95};

#define SETTINGS "[forecast] paths = 8\n[forecast] publish_paths = yes\n"

/* The daemon, and what the test believes of one of its streams. */
struct twin {
    struct kt_daemon daemon;
    void *feed;
    struct kronosd_subscriber *forecasts, *paths, *scores, *events;
    struct kronosd_control *control;
    const char *symbol;
    struct kr_trust trust;
    int64_t next_row;
    uint64_t n_scores;
    bool seen[KR_STALE + 1]; /* statuses that forecasts had */
};

static void begin(struct twin *twin, const char *more)
{
    const struct kr_trust_config config = {
        .size = {.max_steps = HORIZON, .max_paths = PATHS, .n_levels = LEVELS},
        .levels = levels,
        .id = 1};
    char settings[1024];

    *twin = (struct twin){.symbol = "AAA"};
    snprintf(settings, sizeof(settings), SETTINGS "%s", more);
    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&twin->daemon, settings));
    CU_ASSERT_EQUAL_FATAL(kr_trust_init(&twin->trust, &config, NULL), 0);
    twin->forecasts = kt_subscribe(&twin->daemon, "forecast|");
    twin->paths = kt_subscribe(&twin->daemon, "paths|");
    twin->scores = kt_subscribe(&twin->daemon, "score|");
    twin->events = kt_subscribe(&twin->daemon, "event|");
    twin->control = kt_control(&twin->daemon);
    twin->feed = kt_feed_open(&twin->daemon);
}

static void end(struct twin *twin)
{
    kronosd_subscriber_close(&twin->forecasts);
    kronosd_subscriber_close(&twin->paths);
    kronosd_subscriber_close(&twin->scores);
    kronosd_subscriber_close(&twin->events);
    kronosd_control_close(&twin->control);
    kt_feed_close(&twin->feed);
    CU_ASSERT_EQUAL(kt_daemon_stop(&twin->daemon), 0);
    kt_daemon_end(&twin->daemon);
    kr_trust_free(&twin->trust);
}

/* The next `n` score messages are those of the own trust's scores. */
static void expect_scores(struct twin *twin, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct kronosd_message message;
        struct kw_score expected = {.symbol = twin->symbol,
                                    .interval = "1m",
                                    .seq = ++twin->n_scores,
                                    .score = &twin->trust.scores[i],
                                    .levels = levels,
                                    .n_levels = LEVELS};
        msgpack_sbuffer bytes;

        CU_ASSERT_TRUE_FATAL(kt_receive(twin->scores, &message));
        expected.ep = message.ep;
        msgpack_sbuffer_init(&bytes);
        CU_ASSERT_EQUAL(kw_encode_score(&bytes, &expected), 0);
        KT_CHECK(message.seq == expected.seq && bytes.size == message.n_bytes &&
                     !memcmp(bytes.data, message.data, bytes.size),
                 "score %llu (number %llu) differs", (unsigned long long)expected.seq,
                 (unsigned long long)message.seq);
        msgpack_sbuffer_destroy(&bytes);
    }
}

/* The next forecast, read by the own trust. `final`: and remembered. */
static void expect_forecast(struct twin *twin, bool final)
{
    struct kronosd_message forecast, paths;
    struct kr_pending_entry *entry;
    const msgpack_object *cal, *t, *data;
    struct kr_published published;
    float bars[PATHS * HORIZON * KR_COLUMNS];
    int64_t due_ns[HORIZON];
    char status[16];

    CU_ASSERT_TRUE_FATAL(kt_receive(twin->forecasts, &forecast));
    CU_ASSERT_TRUE_FATAL(kt_receive(twin->paths, &paths));
    CU_ASSERT_EQUAL(forecast.seq, paths.seq);
    t = kronosd_get(paths.root, "t");
    data = kronosd_get(paths.root, "data");
    CU_ASSERT_EQUAL_FATAL(kronosd_length(t), HORIZON);
    CU_ASSERT_EQUAL_FATAL(data->via.bin.size, PATHS * HORIZON * KR_COLUMNS * sizeof(float));
    for (size_t i = 0; i < HORIZON; i++)
        due_ns[i] = t->via.array.ptr[i].via.i64;
    memcpy(bars, data->via.bin.ptr, sizeof(bars));
    published = (struct kr_published){
        .as_of_ns = kronosd_get_int(forecast.root, "as_of", 0),
        .as_of_row = twin->next_row - final,
        .key = kr_draw_key(0, "1m", twin->symbol),
        .last_close = kronosd_get_real(kronosd_get(forecast.root, "last"), "c", 0),
        .n_steps = HORIZON,
        .n_paths = PATHS,
        .due_ns = due_ns,
        .paths = bars};
    CU_ASSERT_EQUAL_FATAL(final ? kr_trust_forecast(&twin->trust, &published, &entry)
                                : kr_trust_read(&twin->trust, &published, &entry),
                          0);
    cal = kronosd_get(forecast.root, "cal");
    CU_ASSERT_TRUE(kronosd_get_string(cal, "status", status, sizeof(status)));
    CU_ASSERT_STRING_EQUAL(status, kr_trust_names[entry->status]);
    CU_ASSERT_EQUAL(kronosd_get_uint(cal, "n", 99), kr_calibrator_n(&twin->trust.calibrator));
    twin->seen[entry->status] = true;
    for (size_t level = 0; level < LEVELS; level++)
        for (size_t step = 0; step < HORIZON; step++) {
            double q = kronosd_at_real(&kronosd_get(cal, "q")->via.array.ptr[level], step);

            KT_CHECK(q == published.last_close * exp(entry->q[step * LEVELS + level]),
                     "level %zu, step %zu: %.17g", level, step, q);
        }
}

/* A bar that is the next one. */
static void feed(struct twin *twin, const struct kw_bar *bar)
{
    size_t n = kr_trust_bar(&twin->trust, bar->bar.t_ns, twin->next_row++, bar->bar.v[KR_CLOSE]);

    kt_feed_bar(twin->feed, bar);
    expect_scores(twin, n);
    if (twin->next_row >= MIN_BARS)
        expect_forecast(twin, true);
}

static void feed_range(struct twin *twin, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        struct kw_bar bar = kt_bar(twin->symbol, "1m", i);

        feed(twin, &bar);
    }
}

/* Other content for a bar; nothing of it becomes due. */
static void revise(struct twin *twin, size_t i, size_t n_scores)
{
    struct kw_bar bar = kt_bar(twin->symbol, "1m", i);
    size_t n;

    bar.bar.rev = 1;
    bar.bar.v[KR_CLOSE] *= 1.0001;
    bar.bar.v[KR_HIGH] *= 1.0002;
    n = kr_trust_revised(&twin->trust, bar.bar.t_ns, bar.bar.v[KR_CLOSE]);
    CU_ASSERT_EQUAL(n, n_scores);
    kt_feed_bar(twin->feed, &bar);
    expect_scores(twin, n);
    expect_forecast(twin, true);
}

/* What the daemon says of the stream agrees with the own trust. */
static void expect_standing(struct twin *twin)
{
    struct kr_standing standing = kr_trust_standing(&twin->trust);
    const msgpack_object *reply, *entry, *trust;
    struct kt_status status;
    char text[16];

    CU_ASSERT_TRUE(kt_settled(&twin->daemon, (uint64_t)twin->next_row, &status));
    CU_ASSERT_EQUAL_FATAL(kt_ask(twin->control, "symbols", NULL, NULL, &reply), 0);
    entry = &kronosd_get(reply, "symbols")->via.array.ptr[0];
    CU_ASSERT_TRUE(kronosd_get_string(entry, "cal", text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, kr_trust_names[standing.status]);
    trust = kronosd_get(entry, "trust");
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "n", 0), standing.n);
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "scored", 0), standing.n_scored);
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "scored", 0), twin->n_scores);
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "unscored", 0), standing.n_unscored);
    CU_ASSERT_EQUAL(kronosd_get_real(trust, "skill", 0), standing.skill);
    CU_ASSERT_EQUAL(kronosd_get_real(trust, "skill_cal", 0), standing.skill_cal);
    CU_ASSERT_EQUAL(kronosd_get_real(trust, "cover_cal", 0), standing.cover_cal);
    CU_ASSERT_EQUAL_FATAL(kronosd_status(twin->control, KT_WAIT_MS, &reply, NULL), 0);
    trust = kronosd_get(reply, "trust");
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, text, 0), 1);
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "scored", 0), standing.n_scored);
    CU_ASSERT_EQUAL(kronosd_get_real(trust, "skill_cal", 0), standing.skill_cal);
}

/* kronosctl plot draws what the stream has; before the first forecast it says so. */
static void expect_plot(struct twin *twin, const char *name, bool calibrated)
{
    struct kt_run run =
        KT_RUN("plot", twin->symbol, "--interval", "1m", "--control", twin->daemon.control);

    KT_CHECK(run.status == 0, "plot: %s", run.err);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "<svg"));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "</svg>"));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, name));
    CU_ASSERT_EQUAL(strstr(run.out, "widest as sampled") != NULL, calibrated);
    CU_ASSERT_PTR_NULL(strstr(run.out, "nan"));
    kt_run_free(&run);
    run = KT_RUN("plot", "NONE", "--interval", "1m", "--control", twin->daemon.control);
    CU_ASSERT_EQUAL(run.status, 66);
    CU_ASSERT_TRUE(kt_one_line(run.err));
    kt_run_free(&run);
}

/* Every status in turn; a bar that comes late, and revisions of the last, of an older and of a bar that is due
 * no more. */
static void scores(void)
{
    struct kw_bar late;
    static struct twin twin;
    size_t n;

    begin(&twin, "");
    feed_range(&twin, 0, 40);
    expect_plot(&twin, "uncalibrated, ", false);
    feed_range(&twin, 40, 60);
    feed_range(&twin, 61, 64);
    late = kt_bar(twin.symbol, "1m", 60);
    n = kr_trust_late(&twin.trust, late.bar.t_ns, late.bar.v[KR_CLOSE]);
    CU_ASSERT_EQUAL(n, HORIZON); /* the forecasts behind 56 .. 59 waited for it */
    twin.next_row++;
    kt_feed_bar(twin.feed, &late);
    expect_scores(&twin, n);
    expect_forecast(&twin, true);
    feed_range(&twin, 64, 80);
    revise(&twin, 79, 0);
    revise(&twin, 70, 0);
    feed_range(&twin, 80, 150);
    CU_ASSERT_EQUAL(twin.trust.n_revised, 1); /* what scored by bar 70 is closed and gone */
    CU_ASSERT_TRUE(twin.seen[KR_UNCALIBRATED] && twin.seen[KR_WARMING] && twin.seen[KR_CALIBRATED]);
    expect_standing(&twin);
    expect_plot(&twin, "calibrated, ", true);
    kt_note("%llu scores; skill raw %+.3f, calibrated %+.3f", (unsigned long long)twin.n_scores,
            kr_trust_standing(&twin.trust).skill, kr_trust_standing(&twin.trust).skill_cal);
    end(&twin);
}

/* A bar that was made up to fill a gap scores nothing; the real one does when it comes. */
static void synthetic(void)
{
    struct kw_bar bar;
    static struct twin twin;

    begin(&twin, "[feed] gap = fill\n");
    feed_range(&twin, 0, 60);
    bar = kt_bar(twin.symbol, "1m", 60);
    kr_trust_synthetic(&twin.trust, bar.bar.t_ns, twin.next_row++);
    feed_range(&twin, 61, 63);
    revise(&twin, 60, HORIZON);
    feed_range(&twin, 63, 70);
    expect_standing(&twin);
    end(&twin);
}

/* A bar that is still forming is read, and neither scored nor learned from. */
static void forming(void)
{
    static struct twin twin;

    begin(&twin, "[feed] forming = overlay\n");
    feed_range(&twin, 0, 60);
    for (size_t i = 60; i < 64; i++) {
        struct kw_bar bar = kt_bar(twin.symbol, "1m", i);

        bar.final = false;
        bar.bar.v[KR_CLOSE] = bar.bar.v[KR_OPEN];
        kt_feed_bar(twin.feed, &bar);
        expect_forecast(&twin, false);
        feed_range(&twin, i, i + 1);
    }
    end(&twin);
}

/* What was learned of one temperature does not hold for another. */
static void recalibrated(void)
{
    static struct twin twin;
    struct kt_status status;

    begin(&twin, "");
    feed_range(&twin, 0, 70);
    CU_ASSERT_TRUE(twin.seen[KR_WARMING]);
    CU_ASSERT_TRUE(kt_settled(&twin.daemon, 70, &status));
    kt_daemon_configure(&twin.daemon, SETTINGS "[forecast] temperature = 0.9\n");
    kill(twin.daemon.pid, SIGHUP);
    CU_ASSERT_TRUE(kt_event(twin.events, "recalibrated", "parameters", 1));
    kr_trust_reset(&twin.trust, 2);
    memset(twin.seen, 0, sizeof(twin.seen));
    feed_range(&twin, 70, 80);
    CU_ASSERT_TRUE(twin.seen[KR_UNCALIBRATED] && !twin.seen[KR_WARMING]);
    /* the same settings again: nothing begins anew */
    CU_ASSERT_TRUE(kt_settled(&twin.daemon, 80, &status));
    kill(twin.daemon.pid, SIGHUP);
    CU_ASSERT_TRUE(kt_daemon_notified(&twin.daemon, "RELOADING=1"));
    CU_ASSERT_TRUE(kt_daemon_notified(&twin.daemon, "READY=1"));
    feed_range(&twin, 80, 96);
    CU_ASSERT_TRUE(twin.seen[KR_WARMING]);
    expect_standing(&twin);
    end(&twin);
}

/* A market at rest: nothing to score by, and nothing breaks. */
static void flat(void)
{
    static struct twin twin;

    begin(&twin, "");
    for (size_t i = 0; i < 70; i++) {
        struct kw_bar bar = kt_bar(twin.symbol, "1m", i);

        for (int c = KR_OPEN; c <= KR_CLOSE; c++)
            bar.bar.v[c] = 42;
        feed(&twin, &bar);
    }
    CU_ASSERT_TRUE(twin.n_scores > 100);
    CU_ASSERT_TRUE(twin.seen[KR_UNCALIBRATED] && !twin.seen[KR_WARMING]);
    expect_standing(&twin);
    end(&twin);
}

/* Without a daemon */

/* Long horizons keep what they are allowed to, and no more. */
static void sizes(void)
{
    struct kd_settings settings = {.horizon = 24, .paths = 32, .n_levels = LEVELS};
    struct kr_pending_size size;
    size_t spacing;

    size = kd_scoring_size(&settings, &spacing);
    CU_ASSERT_EQUAL(spacing, 1);
    CU_ASSERT_EQUAL(kr_pending_capacity(&size), 33);
    for (size_t h = 40; h < 3000; h += 37) {
        settings.horizon = h;
        size = kd_scoring_size(&settings, &spacing);
        KT_CHECK(kr_pending_capacity(&size) <= KD_SCORING_KEPT + 1, "horizon %zu: %zu kept", h,
                 kr_pending_capacity(&size));
        /* what is remembered is there until its last step is due, and the grace behind it */
        KT_CHECK(kr_pending_capacity(&size) * spacing > h + KR_PENDING_GRACE,
                 "horizon %zu: %zu of every %zu", h, kr_pending_capacity(&size), spacing);
    }
    settings.horizon = SIZE_MAX / 2;
    CU_ASSERT_EQUAL(kd_scoring_bytes(&settings), 0);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"scores and readings, byte for byte", scores},
        {"made-up bars", synthetic},
        {"forming bars", forming},
        {"other parameters begin anew", recalibrated},
        {"a market at rest", flat},
        {"memory of long horizons", sizes},
    };

    return kt_main("scoring", tests, KR_ARRAY_LENGTH(tests));
}
