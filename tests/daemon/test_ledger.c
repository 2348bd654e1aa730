/* SPDX-License-Identifier: MIT */
#include "daemon/ledger.h"
#include "tests/tap.h"

#include <string.h>

#define MINUTE KR_NS_PER_S * 60
#define HOUR   KR_NS_PER_S * 3600
#define DAY    KR_NS_PER_S * 86400
/* 2026-03-02T00:00Z, a Monday */
static const int64_t t0 = INT64_C(1772409600) * KR_NS_PER_S;

struct market {
    struct kr_zone *zone;
    struct kr_calendar *calendar;
    struct kd_ledger ledger;
};

static void open_market(struct market *market, const char *zone, const char *sessions,
                        const char *weekdays, const char *interval, enum kr_stamp_kind stamp,
                        enum kd_gap gap, size_t max_fill, size_t capacity)
{
    struct kd_ledger_config config = {.stamp = stamp, .gap = gap, .max_fill = max_fill};
    struct kr_error error = {""};

    memset(market, 0, sizeof(*market));
    KT_CHECK(kr_zone_open(zone, &market->zone, &error) == 0, "%s", error.text);
    KT_CHECK(kr_calendar_new(market->zone, sessions, weekdays, NULL, &market->calendar, &error) ==
                 0,
             "%s", error.text);
    CU_ASSERT_EQUAL_FATAL(kr_interval_parse(interval, &config.interval), 0);
    config.calendar = market->calendar;
    CU_ASSERT_EQUAL_FATAL(kd_ledger_init(&market->ledger, &config, capacity), 0);
}

static void open_24x7(struct market *market, const char *interval, enum kd_gap gap)
{
    open_market(market, "UTC", NULL, NULL, interval, KR_STAMP_OPEN, gap, 4, 8);
}

static void close_market(struct market *market)
{
    kd_ledger_free(&market->ledger);
    kr_calendar_free(&market->calendar);
    kr_zone_free(&market->zone);
}

static struct kr_bar bar_at(int64_t t_ns, double close)
{
    return (struct kr_bar){.t_ns = t_ns, .v = {close, close + 1, close - 1, close, 10, 1000}};
}

static struct kd_verdict offer_bar(struct market *market, const struct kr_bar *bar)
{
    struct kd_verdict verdict;

    kd_ledger_offer(&market->ledger, bar, INT64_MAX, false, &verdict);
    return verdict;
}

static struct kd_verdict offer(struct market *market, int64_t t_ns, double close)
{
    struct kr_bar bar = bar_at(t_ns, close);

    return offer_bar(market, &bar);
}

static void in_order(void)
{
    struct market market;
    struct kd_verdict verdict;

    open_24x7(&market, "5m", KD_GAP_HOLD);
    verdict = offer(&market, t0, 100);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.n_missing, 0);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_NONE);
    verdict = offer(&market, t0 + 5 * MINUTE, 101);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.n_missing, 0);
    CU_ASSERT_EQUAL(verdict.bar.stamp.minute, 5);
    CU_ASSERT_EQUAL(verdict.bar.stamp.weekday, 0);
    CU_ASSERT_EQUAL(market.ledger.series.len, 2);
    CU_ASSERT_EQUAL(kr_series_last(&market.ledger.series)->v[KR_CLOSE], 101);
    close_market(&market);
}

static void duplicates(void)
{
    struct market market;
    struct kr_bar bar = bar_at(t0 + MINUTE, 101);
    struct kd_verdict verdict;

    open_24x7(&market, "1m", KD_GAP_HOLD);
    offer(&market, t0, 100);
    bar.rev = 2;
    CU_ASSERT_EQUAL(offer_bar(&market, &bar).outcome, KD_NEXT);
    verdict = offer_bar(&market, &bar);
    CU_ASSERT_EQUAL(verdict.outcome, KD_DUPLICATE);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_DUPLICATE_SAME);
    /* an older revision, whatever it says */
    bar.rev = 1;
    bar.v[KR_CLOSE] = 101.5;
    verdict = offer_bar(&market, &bar);
    CU_ASSERT_EQUAL(verdict.outcome, KD_DUPLICATE);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_DUPLICATE_OLDER_REV);
    CU_ASSERT_EQUAL(kr_series_last(&market.ledger.series)->v[KR_CLOSE], 101);
    CU_ASSERT_EQUAL(kr_series_last(&market.ledger.series)->rev, 2);
    /* an old one again */
    CU_ASSERT_EQUAL(offer(&market, t0, 100).note, KD_NOTE_DUPLICATE_SAME);
    CU_ASSERT_EQUAL(market.ledger.series.len, 2);
    close_market(&market);
}

static void revisions(void)
{
    struct market market;
    struct kr_bar bar;
    struct kd_verdict verdict;

    open_24x7(&market, "1m", KD_GAP_HOLD);
    offer(&market, t0, 100);
    offer(&market, t0 + MINUTE, 101);
    offer(&market, t0 + 2 * MINUTE, 102);
    /* same rev, other content */
    verdict = offer(&market, t0 + 2 * MINUTE, 103);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REVISED_LAST);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_REVISED_BY_ARRIVAL);
    CU_ASSERT_EQUAL(kr_series_last(&market.ledger.series)->v[KR_CLOSE], 103);
    /* volume alone is content too */
    bar = bar_at(t0 + 2 * MINUTE, 103);
    bar.v[KR_VOLUME] = 11;
    CU_ASSERT_EQUAL(offer_bar(&market, &bar).outcome, KD_REVISED_LAST);
    /* a higher rev, even with the same content: the forecast names it */
    bar.rev = 1;
    verdict = offer_bar(&market, &bar);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REVISED_LAST);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_REVISED_HIGHER_REV);
    CU_ASSERT_EQUAL(kr_series_last(&market.ledger.series)->rev, 1);
    /* deeper */
    bar = bar_at(t0 + MINUTE, 99);
    bar.rev = 1;
    verdict = offer_bar(&market, &bar);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REVISED_DEEP);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_REVISED_HIGHER_REV);
    CU_ASSERT_EQUAL(market.ledger.series.bars[1].v[KR_CLOSE], 99);
    CU_ASSERT_EQUAL(market.ledger.series.len, 3);
    close_market(&market);
}

static void synthetic_bars(void)
{
    struct market market;
    struct kr_bar real = bar_at(t0 + MINUTE, 101), made = bar_at(t0 + MINUTE, 100);
    struct kd_verdict verdict;

    open_24x7(&market, "1m", KD_GAP_HOLD);
    offer(&market, t0, 100);
    made.synthetic = true;
    made.rev = 3;
    CU_ASSERT_EQUAL(offer_bar(&market, &made).outcome, KD_NEXT);
    /* the real bar wins whatever its rev */
    verdict = offer_bar(&market, &real);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REVISED_LAST);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_REVISED_WAS_SYNTHETIC);
    /* and stays */
    made.rev = 0;
    verdict = offer_bar(&market, &made);
    CU_ASSERT_EQUAL(verdict.outcome, KD_DUPLICATE);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_DUPLICATE_SYNTHETIC);
    made.rev = 1;
    CU_ASSERT_EQUAL(offer_bar(&market, &made).outcome, KD_REVISED_LAST);
    close_market(&market);
}

static void late_bars(void)
{
    struct market market;
    struct kd_verdict verdict;

    open_24x7(&market, "1m", KD_GAP_HOLD);
    offer(&market, t0 + 2 * MINUTE, 102);
    offer(&market, t0 + 4 * MINUTE, 104);
    verdict = offer(&market, t0 + 3 * MINUTE, 103);
    CU_ASSERT_EQUAL(verdict.outcome, KD_LATE);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_LATE);
    CU_ASSERT_EQUAL(market.ledger.series.bars[1].v[KR_CLOSE], 103);
    /* before all others, while there is room */
    CU_ASSERT_EQUAL(offer(&market, t0, 100).outcome, KD_LATE);
    CU_ASSERT_EQUAL(market.ledger.series.bars[0].v[KR_CLOSE], 100);
    for (int i = 5; i < 9; i++)
        offer(&market, t0 + i * MINUTE, 100 + i);
    CU_ASSERT_EQUAL(market.ledger.series.len, 8);
    /* full, and older than all that is kept */
    verdict = offer(&market, t0 - MINUTE, 99);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REJECTED);
    CU_ASSERT_EQUAL(verdict.reason, KW_TOO_OLD);
    /* full, between kept ones: the oldest makes room */
    CU_ASSERT_EQUAL(offer(&market, t0 + MINUTE, 101).outcome, KD_LATE);
    CU_ASSERT_EQUAL(market.ledger.series.len, 8);
    CU_ASSERT_EQUAL(market.ledger.series.bars[0].t_ns, t0 + MINUTE);
    close_market(&market);
}

static void gap_hold(void)
{
    struct market market;
    struct kd_verdict verdict;

    open_24x7(&market, "1m", KD_GAP_HOLD);
    offer(&market, t0, 100);
    verdict = offer(&market, t0 + 6 * MINUTE, 106);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.n_missing, 5);
    CU_ASSERT_EQUAL(verdict.n_filled, 0);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_GAP_HELD);
    CU_ASSERT_EQUAL(market.ledger.series.len, 2);
    close_market(&market);
}

static void gap_fill(void)
{
    struct market market;
    struct kd_verdict verdict;
    const struct kr_bar *made;

    open_24x7(&market, "1m", KD_GAP_FILL);
    offer(&market, t0, 100);
    verdict = offer(&market, t0 + 3 * MINUTE, 103);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.n_missing, 2);
    CU_ASSERT_EQUAL(verdict.n_filled, 2);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_GAP_FILLED);
    CU_ASSERT_EQUAL(market.ledger.series.len, 4);
    made = &market.ledger.series.bars[2];
    CU_ASSERT_EQUAL(made->t_ns, t0 + 2 * MINUTE);
    CU_ASSERT_TRUE(made->synthetic);
    CU_ASSERT_EQUAL(made->v[KR_OPEN], 100);
    CU_ASSERT_EQUAL(made->v[KR_HIGH], 100);
    CU_ASSERT_EQUAL(made->v[KR_LOW], 100);
    CU_ASSERT_EQUAL(made->v[KR_CLOSE], 100);
    CU_ASSERT_EQUAL(made->v[KR_VOLUME], 0);
    CU_ASSERT_EQUAL(made->v[KR_AMOUNT], 0);
    CU_ASSERT_EQUAL(made->stamp.minute, 2);
    CU_ASSERT_EQUAL(market.ledger.fill[1].t_ns, t0 + 2 * MINUTE);
    /* a real bar for one of them */
    verdict = offer(&market, t0 + 2 * MINUTE, 102);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REVISED_DEEP);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_REVISED_WAS_SYNTHETIC);
    /* max_fill is 4: four are filled, five reanchor */
    CU_ASSERT_EQUAL(offer(&market, t0 + 8 * MINUTE, 108).n_filled, 4);
    verdict = offer(&market, t0 + 14 * MINUTE, 114);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REANCHOR);
    CU_ASSERT_EQUAL(verdict.n_missing, 5);
    CU_ASSERT_EQUAL(verdict.n_filled, 0);
    CU_ASSERT_EQUAL(verdict.note, KD_NOTE_GAP_REANCHORED);
    close_market(&market);
}

static void gap_reanchor(void)
{
    struct market market;
    struct kr_bar bar = bar_at(t0 + 10 * MINUTE, 110);
    struct kd_verdict verdict;

    open_24x7(&market, "1m", KD_GAP_REANCHOR);
    offer(&market, t0, 100);
    verdict = offer(&market, t0 + 2 * MINUTE, 102);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REANCHOR);
    CU_ASSERT_EQUAL(verdict.n_missing, 1);
    /* loaded history reanchors nothing */
    kd_ledger_offer(&market.ledger, &bar, INT64_MAX, true, &verdict);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.n_missing, 7);
    close_market(&market);
}

static void long_gap(void)
{
    struct market market;

    open_24x7(&market, "1m", KD_GAP_HOLD);
    offer(&market, t0, 100);
    CU_ASSERT_EQUAL(offer(&market, t0 + 365 * DAY, 100).n_missing, KD_MAX_MISSING);
    close_market(&market);
}

static void sessions(void)
{
    struct market market;
    struct kd_verdict verdict;

    /* Shanghai, UTC+8: 09:30 is 01:30Z, 13:00 is 05:00Z */
    open_market(&market, "Asia/Shanghai", "09:30-11:30,13:00-15:00", "mon-fri", "1h", KR_STAMP_OPEN,
                KD_GAP_REANCHOR, 4, 32);
    CU_ASSERT_EQUAL(offer(&market, t0 + 90 * MINUTE, 1e3).outcome, KD_NEXT);
    CU_ASSERT_EQUAL(offer(&market, t0 + 150 * MINUTE, 1e3).outcome, KD_NEXT);
    /* the next session has another phase; the break is no gap */
    verdict = offer(&market, t0 + 5 * HOUR, 1e3);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.n_missing, 0);
    CU_ASSERT_EQUAL(verdict.bar.stamp.hour, 13);
    CU_ASSERT_EQUAL(offer(&market, t0 + 6 * HOUR, 1e3).outcome, KD_NEXT);
    /* nor is the night */
    verdict = offer(&market, t0 + DAY + 90 * MINUTE, 1e3);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.n_missing, 0);
    /* from Tuesday's first bar to Friday's: 3 + 4 + 4 missing */
    verdict = offer(&market, t0 + 4 * DAY + 90 * MINUTE, 1e3);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REANCHOR);
    CU_ASSERT_EQUAL(verdict.n_missing, 11);
    /* the weekend: Friday's last to Monday's first */
    CU_ASSERT_EQUAL(offer(&market, t0 + 4 * DAY + 6 * HOUR, 1e3).outcome, KD_REANCHOR);
    verdict = offer(&market, t0 + 7 * DAY + 90 * MINUTE, 1e3);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.n_missing, 0);
    /* no slot of either session */
    verdict = offer(&market, t0 + 7 * DAY + 100 * MINUTE, 1e3);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REJECTED);
    CU_ASSERT_EQUAL(verdict.reason, KW_OFF_GRID);
    /* a late bar of the other phase */
    CU_ASSERT_EQUAL(offer(&market, t0 + DAY + 5 * HOUR, 1e3).outcome, KD_LATE);
    /* older than all, of either phase */
    CU_ASSERT_EQUAL(offer(&market, t0 - 3 * DAY + 5 * HOUR, 1e3).outcome, KD_LATE);
    CU_ASSERT_EQUAL(offer(&market, t0 - 3 * DAY + 90 * MINUTE, 1e3).outcome, KD_LATE);
    close_market(&market);
}

static void grid(void)
{
    struct market market;
    struct kd_verdict verdict;

    open_24x7(&market, "5m", KD_GAP_HOLD);
    /* the first bar opens on a whole minute */
    verdict = offer(&market, t0 + 17 * KR_NS_PER_S, 100);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REJECTED);
    CU_ASSERT_EQUAL(verdict.reason, KW_OFF_GRID);
    CU_ASSERT_EQUAL(market.ledger.series.len, 0);
    /* and defines the grid */
    CU_ASSERT_EQUAL(offer(&market, t0 + MINUTE, 100).outcome, KD_NEXT);
    CU_ASSERT_EQUAL(offer(&market, t0 + 5 * MINUTE, 100).reason, KW_OFF_GRID);
    CU_ASSERT_EQUAL(offer(&market, t0 + 6 * MINUTE + 1, 100).reason, KW_OFF_GRID);
    CU_ASSERT_EQUAL(offer(&market, t0 + 6 * MINUTE, 100).outcome, KD_NEXT);
    CU_ASSERT_EQUAL(offer(&market, t0 + 3 * MINUTE, 100).reason, KW_OFF_GRID);
    CU_ASSERT_EQUAL(offer(&market, t0 - 3 * MINUTE, 100).reason, KW_OFF_GRID);
    CU_ASSERT_EQUAL(offer(&market, t0 - 4 * MINUTE, 100).outcome, KD_LATE);
    /* times that no arithmetic shall meet */
    CU_ASSERT_EQUAL(offer(&market, INT64_MAX, 100).reason, KW_OFF_GRID);
    CU_ASSERT_EQUAL(offer(&market, INT64_MIN, 100).reason, KW_OFF_GRID);
    close_market(&market);
    open_24x7(&market, "15s", KD_GAP_HOLD);
    CU_ASSERT_EQUAL(offer(&market, t0 + 1, 100).reason, KW_OFF_GRID);
    CU_ASSERT_EQUAL(offer(&market, t0 + 15 * KR_NS_PER_S, 100).outcome, KD_NEXT);
    close_market(&market);
}

/* Days in New York across the change of 2026-03-08: 23 hours long. */
static void local_days(void)
{
    struct market market;
    struct kr_bar bar = bar_at(t0 + 5 * DAY + 5 * HOUR, 100); /* Saturday's midnight, 05:00Z */
    struct kd_verdict verdict;

    open_market(&market, "America/New_York", NULL, NULL, "1d", KR_STAMP_OPEN, KD_GAP_HOLD, 4, 8);
    CU_ASSERT_EQUAL(offer_bar(&market, &bar).outcome, KD_NEXT);
    CU_ASSERT_EQUAL(offer(&market, t0 + 6 * DAY + 5 * HOUR, 100).outcome, KD_NEXT);
    verdict = offer(&market, t0 + 7 * DAY + 4 * HOUR, 100);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.n_missing, 0);
    CU_ASSERT_EQUAL(verdict.bar.stamp.hour, 0);
    CU_ASSERT_EQUAL(offer(&market, t0 + 8 * DAY + 6 * HOUR, 100).reason, KW_OFF_GRID);
    close_market(&market);
    /* delivered by the close: the same days */
    open_market(&market, "America/New_York", NULL, NULL, "1d", KR_STAMP_CLOSE, KD_GAP_HOLD, 4, 8);
    verdict = offer(&market, t0 + 6 * DAY + 5 * HOUR, 100);
    CU_ASSERT_EQUAL(verdict.bar.t_ns, t0 + 5 * DAY + 5 * HOUR);
    CU_ASSERT_EQUAL(verdict.bar.stamp.weekday, 6); /* of the stamp as delivered */
    verdict = offer(&market, t0 + 7 * DAY + 4 * HOUR, 100);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.bar.t_ns, t0 + 6 * DAY + 5 * HOUR);
    CU_ASSERT_EQUAL(verdict.n_missing, 0);
    close_market(&market);
}

static void close_stamps(void)
{
    struct market market;
    struct kd_verdict verdict;

    open_market(&market, "UTC", NULL, NULL, "5m", KR_STAMP_CLOSE, KD_GAP_FILL, 4, 8);
    verdict = offer(&market, t0 + 5 * MINUTE, 100);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.bar.t_ns, t0);
    CU_ASSERT_EQUAL(verdict.bar.stamp.minute, 5);
    verdict = offer(&market, t0 + 15 * MINUTE, 101);
    CU_ASSERT_EQUAL(verdict.bar.t_ns, t0 + 10 * MINUTE);
    CU_ASSERT_EQUAL(verdict.n_filled, 1);
    CU_ASSERT_EQUAL(market.ledger.fill[0].t_ns, t0 + 5 * MINUTE);
    CU_ASSERT_EQUAL(market.ledger.fill[0].stamp.minute, 10);
    close_market(&market);
    /* A session of six and a half hours in bars of one: the last is cut short at 16:00 New York. */
    open_market(&market, "America/New_York", "09:30-16:00", "mon-fri", "1h", KR_STAMP_CLOSE,
                KD_GAP_HOLD, 4, 8);
    verdict = offer(&market, t0 + 19 * HOUR + 30 * MINUTE, 100); /* closes 14:30 */
    CU_ASSERT_EQUAL(verdict.bar.t_ns, t0 + 18 * HOUR + 30 * MINUTE);
    CU_ASSERT_EQUAL(offer(&market, t0 + 20 * HOUR + 30 * MINUTE, 100).outcome, KD_NEXT);
    verdict = offer(&market, t0 + 21 * HOUR, 100);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    CU_ASSERT_EQUAL(verdict.bar.t_ns, t0 + 20 * HOUR + 30 * MINUTE);
    CU_ASSERT_EQUAL(verdict.bar.stamp.hour, 16);
    CU_ASSERT_EQUAL(verdict.bar.stamp.minute, 0);
    CU_ASSERT_EQUAL(verdict.n_missing, 0);
    close_market(&market);
}

static void future(void)
{
    struct market market;
    struct kr_bar bar = bar_at(t0, 100);
    struct kd_verdict verdict;

    open_24x7(&market, "1m", KD_GAP_HOLD);
    kd_ledger_offer(&market.ledger, &bar, t0 - 1, false, &verdict);
    CU_ASSERT_EQUAL(verdict.outcome, KD_REJECTED);
    CU_ASSERT_EQUAL(verdict.reason, KW_FUTURE);
    kd_ledger_offer(&market.ledger, &bar, t0, false, &verdict);
    CU_ASSERT_EQUAL(verdict.outcome, KD_NEXT);
    bar.t_ns = INT64_MAX;
    kd_ledger_offer(&market.ledger, &bar, t0 + DAY, false, &verdict);
    CU_ASSERT_EQUAL(verdict.reason, KW_FUTURE);
    CU_ASSERT_EQUAL(market.ledger.series.len, 1);
    close_market(&market);
}

static void forming(void)
{
    struct market market;
    struct kr_bar bar = bar_at(t0 + 2 * MINUTE, 100);

    open_market(&market, "UTC", NULL, NULL, "1m", KR_STAMP_CLOSE, KD_GAP_HOLD, 4, 8);
    offer(&market, t0 + MINUTE, 100);
    CU_ASSERT_EQUAL(kd_ledger_place(&market.ledger, &bar, INT64_MAX), KW_ACCEPTED);
    CU_ASSERT_EQUAL(bar.t_ns, t0 + MINUTE);
    CU_ASSERT_EQUAL(bar.stamp.minute, 2);
    CU_ASSERT_EQUAL(market.ledger.series.len, 1);
    bar.t_ns = t0 + 2 * MINUTE + 30 * KR_NS_PER_S;
    CU_ASSERT_EQUAL(kd_ledger_place(&market.ledger, &bar, INT64_MAX), KW_OFF_GRID);
    close_market(&market);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"bars in order", in_order},
        {"duplicates, older revisions", duplicates},
        {"revisions of the last and of older bars", revisions},
        {"real and synthetic bars of one time", synthetic_bars},
        {"late bars, bars too old", late_bars},
        {"gap = hold", gap_hold},
        {"gap = fill", gap_fill},
        {"gap = reanchor, and history", gap_reanchor},
        {"the length of a gap is bounded", long_gap},
        {"sessions: breaks, nights, weekends, phases", sessions},
        {"off the grid", grid},
        {"days across daylight saving", local_days},
        {"stamp = close", close_stamps},
        {"bars from the future", future},
        {"forming bars find their place", forming},
    };

    return kt_main("ledger", tests, KR_ARRAY_LENGTH(tests));
}
