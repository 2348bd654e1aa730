/* SPDX-License-Identifier: MIT */
/* The real daemon scores its forecasts: what it publishes on `score` and in `cal` is, byte for byte, what a trust
 * of the test's own comes to from the published paths and the bars. */
#include "daemon/scoring.h"
#include "tests/clients/run.h"
#include "tests/daemon/twin.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* kronosctl plot draws what the stream has; before the first forecast it says so. */
static void expect_plot(struct kt_twin *twin, const char *name, bool calibrated)
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
    static struct kt_twin twin;
    size_t n;

    kt_twin_begin(&twin, "");
    kt_twin_feed_range(&twin, 0, 40);
    expect_plot(&twin, "uncalibrated, ", false);
    kt_twin_feed_range(&twin, 40, 60);
    kt_twin_feed_range(&twin, 61, 64);
    late = kt_bar(twin.symbol, "1m", 60);
    n = kr_trust_late(&twin.trust, late.bar.t_ns, late.bar.v[KR_CLOSE]);
    CU_ASSERT_EQUAL(n, KT_TWIN_HORIZON); /* the forecasts behind 56 .. 59 waited for it */
    twin.next_row++;
    kt_feed_bar(twin.feed, &late);
    twin.n_received++;
    kt_twin_expect_scores(&twin, n);
    kt_twin_expect_forecast(&twin, true);
    kt_twin_feed_range(&twin, 64, 80);
    kt_twin_revise(&twin, 79, 0);
    kt_twin_revise(&twin, 70, 0);
    kt_twin_feed_range(&twin, 80, 150);
    CU_ASSERT_EQUAL(twin.trust.n_revised, 1); /* what scored by bar 70 is closed and gone */
    CU_ASSERT_TRUE(twin.seen[KR_UNCALIBRATED] && twin.seen[KR_WARMING] && twin.seen[KR_CALIBRATED]);
    kt_twin_expect_standing(&twin);
    expect_plot(&twin, "calibrated, ", true);
    kt_note("%llu scores; skill raw %+.3f, calibrated %+.3f", (unsigned long long)twin.n_scores,
            kr_trust_standing(&twin.trust).skill, kr_trust_standing(&twin.trust).skill_cal);
    kt_twin_end(&twin);
}

/* A bar that was made up to fill a gap scores nothing; the real one does when it comes. */
static void synthetic(void)
{
    struct kw_bar bar;
    static struct kt_twin twin;

    kt_twin_begin(&twin, "[feed] gap = fill\n");
    kt_twin_feed_range(&twin, 0, 60);
    bar = kt_bar(twin.symbol, "1m", 60);
    kr_trust_synthetic(&twin.trust, bar.bar.t_ns, twin.next_row++);
    kt_twin_feed_range(&twin, 61, 63);
    kt_twin_revise(&twin, 60, KT_TWIN_HORIZON);
    kt_twin_feed_range(&twin, 63, 70);
    kt_twin_expect_standing(&twin);
    kt_twin_end(&twin);
}

/* A bar that is still forming is read, and neither scored nor learned from. */
static void forming(void)
{
    static struct kt_twin twin;

    kt_twin_begin(&twin, "[feed] forming = overlay\n");
    kt_twin_feed_range(&twin, 0, 60);
    for (size_t i = 60; i < 64; i++) {
        struct kw_bar bar = kt_bar(twin.symbol, "1m", i);

        bar.final = false;
        bar.bar.v[KR_CLOSE] = bar.bar.v[KR_OPEN];
        kt_feed_bar(twin.feed, &bar);
        twin.n_received++;
        kt_twin_expect_forecast(&twin, false);
        kt_twin_feed_range(&twin, i, i + 1);
    }
    kt_twin_end(&twin);
}

/* What was learned of one temperature does not hold for another. */
static void recalibrated(void)
{
    static struct kt_twin twin;
    struct kt_status status;

    kt_twin_begin(&twin, "");
    kt_twin_feed_range(&twin, 0, 70);
    CU_ASSERT_TRUE(twin.seen[KR_WARMING]);
    CU_ASSERT_TRUE(kt_settled(&twin.daemon, 70, &status));
    kt_daemon_configure(&twin.daemon, KT_TWIN_SETTINGS "[forecast] temperature = 0.9\n");
    kill(twin.daemon.pid, SIGHUP);
    CU_ASSERT_TRUE(kt_event(twin.events, "recalibrated", "parameters", 1));
    kr_trust_reset(&twin.trust, 2);
    memset(twin.seen, 0, sizeof(twin.seen));
    kt_twin_feed_range(&twin, 70, 80);
    CU_ASSERT_TRUE(twin.seen[KR_UNCALIBRATED] && !twin.seen[KR_WARMING]);
    /* the same settings again: nothing begins anew */
    CU_ASSERT_TRUE(kt_settled(&twin.daemon, 80, &status));
    kill(twin.daemon.pid, SIGHUP);
    CU_ASSERT_TRUE(kt_daemon_notified(&twin.daemon, "RELOADING=1"));
    CU_ASSERT_TRUE(kt_daemon_notified(&twin.daemon, "READY=1"));
    kt_twin_feed_range(&twin, 80, 96);
    CU_ASSERT_TRUE(twin.seen[KR_WARMING]);
    kt_twin_expect_standing(&twin);
    kt_twin_end(&twin);
}

/* A market at rest: nothing to score by, and nothing breaks. */
static void flat(void)
{
    static struct kt_twin twin;

    kt_twin_begin(&twin, "");
    for (size_t i = 0; i < 70; i++) {
        struct kw_bar bar = kt_bar(twin.symbol, "1m", i);

        for (int c = KR_OPEN; c <= KR_CLOSE; c++)
            bar.bar.v[c] = 42;
        kt_twin_feed(&twin, &bar);
    }
    CU_ASSERT_TRUE(twin.n_scores > 100);
    CU_ASSERT_TRUE(twin.seen[KR_UNCALIBRATED] && !twin.seen[KR_WARMING]);
    kt_twin_expect_standing(&twin);
    kt_twin_end(&twin);
}

/* Without a daemon */

/* Long horizons keep what they are allowed to, and no more. */
static void sizes(void)
{
    struct kd_settings settings = {.horizon = 24, .paths = 32, .n_levels = KT_TWIN_LEVELS};
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
