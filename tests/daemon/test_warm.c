/* SPDX-License-Identifier: MIT */
/* A warm bar takes no memory of ours in the whole daemon: the same run with more bars allocates no more. */
#include "tests/daemon/harness.h"
#include "tests/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEW  200
#define MANY 500
/* How many results are in flight at once is a matter of timing (on a machine that hardly gets to run: 60), and
 * their buffers grow to the longest message. One allocation a bar would be MANY - FEW. */
#define IN_FLIGHT ((MANY - FEW) / 2)

/* Bars one by one, each forecast awaited. Return: allocations of the daemon from start to end. */
static size_t allocations(const char *more, size_t n_bars)
{
    struct kronosd_subscriber *subscriber;
    static struct kt_daemon daemon;
    const char *count;
    void *feed;

    CU_ASSERT_FATAL(kt_daemon_begin(&daemon, more));
    subscriber = kt_subscribe(&daemon, "forecast|");
    feed = kt_feed_open(&daemon);
    for (size_t i = 0; i < n_bars; i++) {
        struct kw_bar bar = kt_bar("AAA", "1m", i);
        struct kronosd_message message;

        kt_feed_bar(feed, &bar);
        if (i + 1 >= 32)
            CU_ASSERT_TRUE_FATAL(kt_receive(subscriber, &message));
    }
    kronosd_subscriber_close(&subscriber);
    kt_feed_close(&feed);
    CU_ASSERT_EQUAL_FATAL(kt_daemon_stop(&daemon), 0);
    count = strstr(daemon.text, "allocations: ");
    CU_ASSERT_PTR_NOT_NULL_FATAL(count);
    n_bars = strtoul(count + strlen("allocations: "), NULL, 10);
    kt_daemon_end(&daemon);
    return n_bars;
}

static void same(const char *name, const char *more)
{
    size_t few = allocations(more, FEW), many = allocations(more, MANY);

    kt_note("%s: %zu allocations in a run of %d bars, %zu in one of %d", name, few, FEW, many,
            MANY);
    KT_CHECK(many < few + IN_FLIGHT && few > 100, "%s: %zu and %zu", name, few, many);
}

/* Epochs change meanwhile. */
static void anchored(void)
{
    same("anchored", "[log] level = notice\n");
}

static void exact(void)
{
    same("exact, with paths", "[log] level = notice\n[forecast] mode = exact\n"
                              "[forecast] publish_paths = yes\n");
}

/* What is kept on disk goes through queues that were there at the start; what LMDB itself takes while it
 * commits is not ours, and not counted. */
static void kept(void)
{
    char more[1024];

    snprintf(more, sizeof(more),
             "[log] level = notice\n[state] sync = always\n[state] directory = %s/state\n",
             kt_tmp());
    same("with state", more);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"anchored", anchored},
        {"exact, with paths", exact},
        {"with state", kept},
    };
    char binary[1024];
    const char *build = getenv("builddir");

    snprintf(binary, sizeof(binary), "%s/tests/daemon/kronosd_counted", build ? build : ".");
    setenv("KT_KRONOSD", binary, 1);
    return kt_main("warm", tests, KR_ARRAY_LENGTH(tests));
}
