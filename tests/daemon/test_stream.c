/* SPDX-License-Identifier: MIT */
#include "daemon/stream.h"
#include "tests/tap.h"

#include <string.h>

/* Rows: states, columns: signals, in their order. */
static void transitions(void)
{
    static const enum kd_state expected[KD_STATES][KD_SIGNALS] = {
        /* bar, ready, silence, reanchor, settled, fault, reset */
        [KD_EMPTY] = {KD_WARMING, KD_LIVE, KD_EMPTY, KD_REANCHORING, KD_EMPTY, KD_FAULTED,
                      KD_EMPTY},
        [KD_WARMING] = {KD_WARMING, KD_LIVE, KD_STALE, KD_REANCHORING, KD_WARMING, KD_FAULTED,
                        KD_EMPTY},
        [KD_LIVE] = {KD_WARMING, KD_LIVE, KD_STALE, KD_REANCHORING, KD_LIVE, KD_FAULTED, KD_EMPTY},
        [KD_STALE] = {KD_WARMING, KD_LIVE, KD_STALE, KD_REANCHORING, KD_STALE, KD_FAULTED,
                      KD_EMPTY},
        [KD_REANCHORING] = {KD_REANCHORING, KD_REANCHORING, KD_REANCHORING, KD_REANCHORING, KD_LIVE,
                            KD_FAULTED, KD_EMPTY},
        [KD_FAULTED] = {KD_FAULTED, KD_FAULTED, KD_FAULTED, KD_FAULTED, KD_FAULTED, KD_FAULTED,
                        KD_EMPTY},
    };

    for (int state = 0; state < KD_STATES; state++)
        for (int signal = 0; signal < KD_SIGNALS; signal++)
            KT_CHECK(kd_state_next(state, signal) == expected[state][signal], "%s, signal %d: %s",
                     kd_state_names[state], signal, kd_state_names[kd_state_next(state, signal)]);
}

struct market {
    struct kd_config *config;
    struct kd_stream *stream;
};

static void open_market(struct market *market, const char *text)
{
    struct kr_live_config live = {
        .mode = KR_MODE_EXACT, .lookback = 64, .min_bars = 32, .horizon = 4};
    struct kd_settings settings;
    struct kr_interval interval;
    struct kr_error error = {""};
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/stream.conf", kt_tmp());
    file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fputs(text, file);
    fclose(file);
    KT_CHECK(kd_config_load(path, &market->config, &error) == 0, "%s", error.text);
    CU_ASSERT_EQUAL_FATAL(kr_interval_parse("5m", &interval), 0);
    CU_ASSERT_EQUAL_FATAL(kd_config_stream(market->config, "AAA", "5m", &settings, &error), 0);
    CU_ASSERT_EQUAL_FATAL(kd_stream_new("AAA", &interval, &settings, &live, 64, &market->stream),
                          0);
}

static void close_market(struct market *market)
{
    kd_stream_free(&market->stream);
    kd_config_free(&market->config);
}

static void silence(void)
{
    const int64_t minute = INT64_C(60000000000), now = INT64_C(1) << 50;
    /* 2026-03-02T15:00Z, a Monday */
    const int64_t monday = INT64_C(1772463600000000000);
    struct market market;

    open_market(&market, "");
    CU_ASSERT_FALSE(kd_stream_silent(market.stream, now, monday)); /* no bar yet */
    market.stream->arrived_ns = now - 15 * minute + 1;
    CU_ASSERT_FALSE(kd_stream_silent(market.stream, now, monday));
    market.stream->arrived_ns = now - 15 * minute;
    CU_ASSERT_TRUE(kd_stream_silent(market.stream, now, monday));
    close_market(&market);
    /* closed hours do not count: a session from 09:00 to 14:50, now 15:00 and the next morning */
    open_market(&market, "[forecast]\ncalendar = day\n[calendar day]\ntimezone = UTC\n"
                         "sessions = 09:00-14:50\nweekdays = mon-fri\n");
    market.stream->arrived_ns = now - 20 * minute;
    CU_ASSERT_FALSE(kd_stream_silent(market.stream, now, monday));
    market.stream->arrived_ns = now - (18 * 60 + 10 + 10 + 14) * minute; /* 14:40 to 09:14 */
    CU_ASSERT_TRUE(kd_stream_silent(market.stream, now, monday + (18 * 60 + 14) * minute));
    market.stream->arrived_ns = now - (18 * 60 + 10 + 14) * minute; /* 14:50 to 09:14 */
    CU_ASSERT_FALSE(kd_stream_silent(market.stream, now, monday + (18 * 60 + 14) * minute));
    close_market(&market);
}

static void due(void)
{
    struct market market;

    open_market(&market, "[stream AAA]\nevery = 3\nbacklog = all\n");
    CU_ASSERT_TRUE(market.stream->lane.all);
    CU_ASSERT_PTR_EQUAL(market.stream->lane.owner, market.stream);
    for (int64_t row = 1; row <= 9; row++) {
        market.stream->ledger.series.next_row = row;
        CU_ASSERT_EQUAL(kd_stream_due(market.stream), row % 3 == 0);
    }
    close_market(&market);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"every state under every signal", transitions},
        {"stale after three intervals of session time", silence},
        {"every n-th bar", due},
    };

    return kt_main("stream", tests, KR_ARRAY_LENGTH(tests));
}
