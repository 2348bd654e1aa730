/* SPDX-License-Identifier: MIT */
#include "daemon/clock.h"
#include "daemon/notes.h"
#include "daemon/publish.h"
#include "tests/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#define MAX_TOPICS 8

/* A publisher in its loop, which ends as soon as `done` says so. */
struct house {
    void *zmq;
    struct kd_loop *loop;
    struct kd_config *config;
    struct kd_publish publish;
    char endpoint[128];
    int timer;
    size_t n_subscribed;
    void *subscriber;
    bool turned;
    bool (*done)(struct house *house);
    int64_t end_ns;
};

static void on_subscribed(void *context, const char *prefix, size_t length)
{
    struct house *house = context;

    (void)prefix;
    (void)length;
    house->n_subscribed++;
}

static void on_timer(void *context)
{
    struct house *house = context;

    if (house->done(house) || kd_mono_ns() > house->end_ns)
        kd_loop_quit(house->loop);
    kd_loop_timer_set(house->loop, house->timer, kd_mono_ns() + 1000000);
}

static void open_house(struct house *house, const char *name)
{
    struct kr_error error = {""};
    char path[256];
    FILE *file;

    memset(house, 0, sizeof(*house));
    snprintf(path, sizeof(path), "%s/%s.conf", kt_tmp(), name);
    snprintf(house->endpoint, sizeof(house->endpoint), "ipc://%s/%s", kt_tmp(), name);
    file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    fprintf(file, "[publish]\nbind = %s\npace = 200\n[log]\nlevel = err\n", house->endpoint);
    fclose(file);
    KT_CHECK(kd_config_load(path, &house->config, &error) == 0, "%s", error.text);
    CU_ASSERT_EQUAL_FATAL(kd_loop_new(&house->loop), 0);
    house->zmq = zmq_ctx_new();
    house->publish.subscribed = on_subscribed;
    house->publish.context = house;
    KT_CHECK(kd_publish_open(&house->publish, house->zmq, house->loop, house->config, MAX_TOPICS,
                             &error) == 0,
             "%s", error.text);
    house->timer = kd_loop_timer(house->loop, on_timer, house);
}

static void close_house(struct house *house)
{
    kd_publish_close(&house->publish, 0);
    zmq_ctx_term(house->zmq);
    kd_loop_free(&house->loop);
    kd_config_free(&house->config);
}

/* Run the loop until it is so; once a house. */
static void run_until(struct house *house, bool (*done)(struct house *house))
{
    house->done = done;
    house->end_ns = kd_mono_ns() + INT64_C(20000000000);
    kd_loop_timer_set(house->loop, house->timer, kd_mono_ns());
    CU_ASSERT_EQUAL(kd_loop_run(house->loop), 0);
    CU_ASSERT_TRUE(done(house));
}

static void *subscribe(struct house *house, const char *prefix)
{
    void *socket = zmq_socket(house->zmq, ZMQ_SUB);
    int linger = 0;

    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, prefix, strlen(prefix));
    CU_ASSERT_EQUAL(zmq_connect(socket, house->endpoint), 0);
    return socket;
}

static bool one_prefix(struct house *house)
{
    return house->publish.n_prefixes == 1;
}

/* With the first subscription seen, the subscriber turns to another topic. */
static bool turned(struct house *house)
{
    if (house->n_subscribed == 1 && !house->turned) {
        house->turned = true;
        zmq_setsockopt(house->subscriber, ZMQ_UNSUBSCRIBE, "forecast|1m|AAA|", 16);
        zmq_setsockopt(house->subscriber, ZMQ_SUBSCRIBE, "forecast|1m|BBB|", 16);
    }
    return house->n_subscribed == 2 && house->publish.n_prefixes == 1;
}

static bool three_resent(struct house *house)
{
    return house->publish.n_resent == 3;
}

static void last_values(void)
{
    struct house house;
    struct kd_topic *topics[4];
    void *socket;
    char text[65];
    int n, wait = 20000;

    open_house(&house, "last");
    for (int i = 0; i < 4; i++) {
        char symbol[8];

        snprintf(symbol, sizeof(symbol), "S%d", i);
        topics[i] = kd_publish_topic(&house.publish, "forecast", i < 3 ? "1m" : "5m", symbol);
        kd_publish_send(&house.publish, topics[i], 7, symbol, 2, true);
    }
    CU_ASSERT_PTR_EQUAL(topics[0], kd_publish_topic(&house.publish, "forecast", "1m", "S0"));
    CU_ASSERT_PTR_EQUAL(topics[0], kd_publish_find(&house.publish, "forecast", "1m", "S0"));
    CU_ASSERT_PTR_NULL(kd_publish_find(&house.publish, "forecast", "1m", "S9"));
    CU_ASSERT_EQUAL(topics[0]->seq, 7);
    /* not to be kept: the one before stays */
    kd_publish_send(&house.publish, topics[0], 8, "xx", 2, false);
    CU_ASSERT_EQUAL(topics[0]->seq, 8);
    CU_ASSERT_FALSE(kd_publish_wanted(&house.publish, topics[0]));
    socket = subscribe(&house, "forecast|1m|");
    run_until(&house, three_resent);
    CU_ASSERT_EQUAL(house.n_subscribed, 1);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait, sizeof(wait));
    for (int i = 0; i < 3; i++) {
        n = zmq_recv(socket, text, sizeof(text), 0);
        CU_ASSERT_EQUAL(n, 15);
        n = zmq_recv(socket, text + 16, 40, 0);
        CU_ASSERT_EQUAL(n, 2);
        CU_ASSERT_EQUAL(memcmp(text + 16, text + 12, 2), 0); /* the symbol of its topic */
    }
    CU_ASSERT_TRUE(kd_publish_wanted(&house.publish, topics[0]));
    CU_ASSERT_FALSE(kd_publish_wanted(&house.publish, topics[3]));
    zmq_close(socket);
    close_house(&house);
}

static void prefixes(void)
{
    struct house house;
    struct kd_topic *topic;
    void *socket;

    open_house(&house, "prefixes");
    topic = kd_publish_topic(&house.publish, "forecast", "1m", "AAA");
    socket = subscribe(&house, "");
    run_until(&house, one_prefix);
    CU_ASSERT_TRUE(kd_publish_wanted(&house.publish, topic));
    zmq_close(socket);
    close_house(&house); /* with the prefix still there: nothing leaks */
}

static void unsubscribed(void)
{
    struct house house;
    struct kd_topic *topic, *other;

    open_house(&house, "gone");
    topic = kd_publish_topic(&house.publish, "forecast", "1m", "AAA");
    other = kd_publish_topic(&house.publish, "forecast", "1m", "BBB");
    house.subscriber = subscribe(&house, "forecast|1m|AAA|");
    run_until(&house, turned);
    CU_ASSERT_FALSE(kd_publish_wanted(&house.publish, topic));
    CU_ASSERT_TRUE(kd_publish_wanted(&house.publish, other));
    zmq_close(house.subscriber);
    close_house(&house);
}

static void bounds(void)
{
    struct house house;
    char symbol[8];

    open_house(&house, "bounds");
    for (int i = 0; i < MAX_TOPICS; i++) {
        snprintf(symbol, sizeof(symbol), "S%d", i);
        CU_ASSERT_PTR_NOT_NULL(kd_publish_topic(&house.publish, "event", "1m", symbol));
    }
    CU_ASSERT_PTR_NULL(kd_publish_topic(&house.publish, "event", "1m", "more"));
    CU_ASSERT_PTR_NOT_NULL(kd_publish_topic(&house.publish, "event", "1m", "S0"));
    close_house(&house);
}

/* Events of streams that were not admitted: so many topics, then one for all. */
static void strangers(void)
{
    struct house house;
    struct kd_notes notes;
    struct kd_tally tally = {.topic = NULL};
    char symbol[8];

    open_house(&house, "strangers");
    notes = (struct kd_notes){.publish = &house.publish, .ep = 1, .max_strangers = 3};
    for (int i = 0; i < 10; i++) {
        snprintf(symbol, sizeof(symbol), "S%d", i);
        kd_note(&notes, NULL, "1m", symbol, KD_NOTE_REFUSED_NOT_ALLOWED, 0, 1);
        kd_note(&notes, NULL, "1m", symbol, KD_NOTE_REFUSED_NOT_ALLOWED, 0, 1);
    }
    CU_ASSERT_EQUAL(house.publish.n_topics, 4);
    CU_ASSERT_EQUAL(kd_publish_find(&house.publish, "event", "1m", "S2")->seq, 2);
    CU_ASSERT_EQUAL(kd_publish_find(&house.publish, "event", "", "")->seq, 14);
    CU_ASSERT_EQUAL(notes.strangers.counts[KD_NOTE_REFUSED_NOT_ALLOWED], 20);
    CU_ASSERT_EQUAL(notes.n_published, 20);
    kd_note(&notes, &tally, "1m", "known", KD_NOTE_QUARANTINED + KW_OFF_GRID, 0, 5);
    CU_ASSERT_EQUAL(tally.counts[KD_NOTE_QUARANTINED + KW_OFF_GRID], 5);
    CU_ASSERT_STRING_EQUAL(tally.topic->name, "event|1m|known|");
    close_house(&house);
}

static void buckets(void)
{
    struct kd_bucket bucket = {0};
    int64_t now = 1;
    int n = 0;

    while (kd_bucket_take(&bucket, 10, 2, now))
        n++;
    CU_ASSERT_EQUAL(n, 10);
    now += INT64_C(1600000000); /* 3.2 more */
    for (n = 0; kd_bucket_take(&bucket, 10, 2, now);)
        n++;
    CU_ASSERT_EQUAL(n, 3);
    now += INT64_C(100000000000);
    for (n = 0; kd_bucket_take(&bucket, 10, 2, now);)
        n++;
    CU_ASSERT_EQUAL(n, 10);
}

static void names(void)
{
    for (int note = KD_NOTE_NONE + 1; note < KD_NOTES; note++) {
        CU_ASSERT_PTR_NOT_NULL_FATAL(kd_note_kind(note));
        CU_ASSERT_PTR_NOT_NULL_FATAL(kd_note_reason(note));
        CU_ASSERT_TRUE(*kd_note_kind(note) && *kd_note_reason(note));
    }
    CU_ASSERT_STRING_EQUAL(kd_note_kind(KD_NOTE_QUARANTINED + KW_HIGH_LOW), "quarantined");
    CU_ASSERT_STRING_EQUAL(kd_note_reason(KD_NOTE_QUARANTINED + KW_HIGH_LOW), "high_low");
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"last values on subscription", last_values},
        {"prefixes are known", prefixes},
        {"and forgotten", unsubscribed},
        {"topics are bounded", bounds},
        {"events of streams not admitted", strangers},
        {"token buckets", buckets},
        {"kinds and reasons", names},
    };

    return kt_main("publish", tests, sizeof(tests) / sizeof(tests[0]));
}
