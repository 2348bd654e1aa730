/* SPDX-License-Identifier: MIT */
#include "tests/daemon/harness.h"
#include "tests/tap.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#define N_STREAMS 3
static const char *const symbols[N_STREAMS] = {"AAA", "BBB", "CCC"};

/* Three streams of 500 bars: a forecast behind every bar once warm, in order, without a hole. */
static void three_streams(void)
{
    struct kt_daemon daemon;
    struct kronosd_subscriber *subscriber;
    struct kronosd_message message;
    struct kt_status status = {0};
    uint64_t n[N_STREAMS] = {0};
    void *feed;

    if (!kt_daemon_begin(&daemon, "")) {
        CU_FAIL("no daemon");
        kt_daemon_end(&daemon);
        return;
    }
    subscriber = kt_subscribe(&daemon, "forecast|1m|");
    feed = kt_feed_open(&daemon);
    for (size_t i = 0; i < 500; i++)
        for (size_t s = 0; s < N_STREAMS; s++) {
            struct kw_bar bar = kt_bar(symbols[s], "1m", i);

            kt_feed_bar(feed, &bar);
        }
    for (size_t k = 0; k < N_STREAMS * (500 - 31); k++) {
        if (!kt_receive(subscriber, &message)) {
            CU_FAIL("a forecast is missing");
            break;
        }
        for (size_t s = 0; s < N_STREAMS; s++) {
            struct kw_bar bar;

            if (strcmp(message.symbol, symbols[s]))
                continue;
            n[s]++;
            bar = kt_bar(symbols[s], "1m", 31 + n[s] - 1);
            KT_CHECK(message.seq == n[s], "%s: seq %llu, expected %llu", symbols[s],
                     (unsigned long long)message.seq, (unsigned long long)n[s]);
            CU_ASSERT_EQUAL(kronosd_get_int(message.root, "as_of", 0), bar.bar.t_ns);
            CU_ASSERT_EQUAL(kronosd_get_real(kronosd_get(message.root, "last"), "c", 0),
                            bar.bar.v[KR_CLOSE]);
        }
    }
    CU_ASSERT_TRUE(kt_settled(&daemon, 1500, &status));
    CU_ASSERT_EQUAL(status.received, 1500);
    CU_ASSERT_EQUAL(status.accepted, 1500);
    CU_ASSERT_EQUAL(status.forecasts, N_STREAMS * (500 - 31));
    CU_ASSERT_EQUAL(status.skipped, 0);
    CU_ASSERT_EQUAL(status.live, N_STREAMS);
    kt_feed_close(&feed);
    kronosd_subscriber_close(&subscriber);
    CU_ASSERT_EQUAL(kt_daemon_stop(&daemon), 0);
    kt_daemon_end(&daemon);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"three streams of 500 bars, a forecast behind each", three_streams},
    };

    return kt_main("daemon", tests, sizeof(tests) / sizeof(tests[0]));
}
