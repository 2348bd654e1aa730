/* SPDX-License-Identifier: MIT */
#include "tests/daemon/twin.h"

#include "core/draw.h"
#include "daemon/scoring.h"
#include "tests/tap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double levels[KT_TWIN_LEVELS] = {0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95};

static void make_trust(struct kt_twin *twin)
{
    const struct kd_settings settings = {
        .horizon = twin->horizon, .paths = KT_TWIN_PATHS, .n_levels = KT_TWIN_LEVELS};
    const struct kr_trust_config config = {
        .size = kd_scoring_size(&settings, &twin->spacing), .levels = levels, .id = 1};

    CU_ASSERT_EQUAL_FATAL(kr_trust_init(&twin->trust, &config, NULL), 0);
    twin->next_row = 0;
}

void kt_twin_begin_horizon(struct kt_twin *twin, const char *more, size_t horizon)
{
    char settings[1024];

    *twin = (struct kt_twin){.symbol = "AAA", .horizon = horizon};
    snprintf(settings, sizeof(settings), KT_TWIN_SETTINGS "%s", more);
    CU_ASSERT_TRUE_FATAL(kt_daemon_begin(&twin->daemon, settings));
    make_trust(twin);
    twin->forecasts = kt_subscribe(&twin->daemon, "forecast|");
    twin->paths = kt_subscribe(&twin->daemon, "paths|");
    twin->scores = kt_subscribe(&twin->daemon, "score|");
    twin->events = kt_subscribe(&twin->daemon, "event|");
    twin->control = kt_control(&twin->daemon);
    twin->feed = kt_feed_open(&twin->daemon);
}

void kt_twin_begin(struct kt_twin *twin, const char *more)
{
    kt_twin_begin_horizon(twin, more, KT_TWIN_HORIZON);
}

void kt_twin_end(struct kt_twin *twin)
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

void kt_twin_forget(struct kt_twin *twin)
{
    kr_trust_free(&twin->trust);
    make_trust(twin);
    twin->n_forgotten = twin->n_scores;
}

void kt_twin_expect_scores(struct kt_twin *twin, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct kronosd_message message;
        struct kw_score expected = {.symbol = twin->symbol,
                                    .interval = "1m",
                                    .seq = ++twin->n_scores,
                                    .score = &twin->trust.scores[i],
                                    .levels = levels,
                                    .n_levels = KT_TWIN_LEVELS};
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

void kt_twin_expect_forecast(struct kt_twin *twin, bool final)
{
    struct kronosd_message forecast, paths;
    struct kr_pending_entry *entry;
    const msgpack_object *cal, *t, *data;
    struct kr_published published;
    static float bars[KT_TWIN_PATHS * KT_TWIN_STEPS * KR_COLUMNS];
    int64_t due_ns[KT_TWIN_STEPS];
    char status[16];
    bool remember;

    CU_ASSERT_TRUE_FATAL(kt_receive(twin->forecasts, &forecast));
    CU_ASSERT_TRUE_FATAL(kt_receive(twin->paths, &paths));
    CU_ASSERT_EQUAL(forecast.seq, paths.seq);
    t = kronosd_get(paths.root, "t");
    data = kronosd_get(paths.root, "data");
    CU_ASSERT_EQUAL_FATAL(kronosd_length(t), twin->horizon);
    CU_ASSERT_EQUAL_FATAL(data->via.bin.size,
                          KT_TWIN_PATHS * twin->horizon * KR_COLUMNS * sizeof(float));
    for (size_t i = 0; i < twin->horizon; i++)
        due_ns[i] = t->via.array.ptr[i].via.i64;
    memcpy(bars, data->via.bin.ptr, data->via.bin.size);
    published = (struct kr_published){
        .as_of_ns = kronosd_get_int(forecast.root, "as_of", 0),
        .as_of_row = twin->next_row - final,
        .key = kr_draw_key(0, "1m", twin->symbol),
        .last_close = kronosd_get_real(kronosd_get(forecast.root, "last"), "c", 0),
        .n_steps = twin->horizon,
        .n_paths = KT_TWIN_PATHS,
        .due_ns = due_ns,
        .paths = bars};
    remember = final && published.as_of_row % (int64_t)twin->spacing == 0;
    CU_ASSERT_EQUAL_FATAL(remember ? kr_trust_forecast(&twin->trust, &published, &entry)
                                   : kr_trust_read(&twin->trust, &published, &entry),
                          0);
    cal = kronosd_get(forecast.root, "cal");
    CU_ASSERT_TRUE(kronosd_get_string(cal, "status", status, sizeof(status)));
    CU_ASSERT_STRING_EQUAL(status, kr_trust_names[entry->status]);
    CU_ASSERT_EQUAL(kronosd_get_uint(cal, "n", 99), kr_calibrator_n(&twin->trust.calibrator));
    twin->seen[entry->status] = true;
    twin->n_forecasts++;
    for (size_t level = 0; level < KT_TWIN_LEVELS; level++)
        for (size_t step = 0; step < twin->horizon; step++) {
            double q = kronosd_at_real(&kronosd_get(cal, "q")->via.array.ptr[level], step);

            KT_CHECK(q == published.last_close * exp(entry->q[step * KT_TWIN_LEVELS + level]),
                     "level %zu, step %zu: %.17g", level, step, q);
        }
}

void kt_twin_feed(struct kt_twin *twin, const struct kw_bar *bar)
{
    size_t n = kr_trust_bar(&twin->trust, bar->bar.t_ns, twin->next_row++, bar->bar.v[KR_CLOSE]);

    kt_feed_bar(twin->feed, bar);
    twin->n_received++;
    kt_twin_expect_scores(twin, n);
    if (twin->next_row >= KT_TWIN_MIN_BARS)
        kt_twin_expect_forecast(twin, true);
}

void kt_twin_feed_range(struct kt_twin *twin, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        struct kw_bar bar = kt_bar(twin->symbol, "1m", i);

        kt_twin_feed(twin, &bar);
    }
}

void kt_twin_revise(struct kt_twin *twin, size_t i, size_t n_scores)
{
    struct kw_bar bar = kt_bar(twin->symbol, "1m", i);
    size_t n;

    bar.bar.rev = 1;
    bar.bar.v[KR_CLOSE] *= 1.0001;
    bar.bar.v[KR_HIGH] *= 1.0002;
    n = kr_trust_revised(&twin->trust, bar.bar.t_ns, bar.bar.v[KR_CLOSE]);
    CU_ASSERT_EQUAL(n, n_scores);
    kt_feed_bar(twin->feed, &bar);
    twin->n_received++;
    kt_twin_expect_scores(twin, n);
    kt_twin_expect_forecast(twin, true);
}

void kt_twin_expect_standing(struct kt_twin *twin)
{
    struct kr_standing standing = kr_trust_standing(&twin->trust);
    const msgpack_object *reply, *entry, *trust;
    struct kt_status status;
    char text[16];

    CU_ASSERT_TRUE(kt_settled(&twin->daemon, twin->n_received, &status));
    CU_ASSERT_EQUAL_FATAL(kt_ask(twin->control, "symbols", NULL, NULL, &reply), 0);
    entry = &kronosd_get(reply, "symbols")->via.array.ptr[0];
    CU_ASSERT_TRUE(kronosd_get_string(entry, "cal", text, sizeof(text)));
    CU_ASSERT_STRING_EQUAL(text, kr_trust_names[standing.status]);
    trust = kronosd_get(entry, "trust");
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "n", 0), standing.n);
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "scored", 0), standing.n_scored);
    CU_ASSERT_EQUAL(kronosd_get_uint(trust, "scored", 0), twin->n_scores - twin->n_forgotten);
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
