/* SPDX-License-Identifier: MIT */
/* A stream's calibration through the database: what comes back is what was there, to the byte; what
 * is another's or damaged begins anew and is told. */
#include "daemon/keep.h"

#include "core/bar.h"
#include "daemon/clock.h"
#include "daemon/scoring.h"
#include "tests/core/market.h"
#include "tests/daemon/damage.h"
#include "tests/tap.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_LEVELS 3
#define STEPS    4
#define PATHS    16
#define MINUTE   INT64_C(60000000000)
#define FAR      INT64_C(60000000000)

static const double levels[N_LEVELS] = {0.1, 0.5, 0.9};

static int64_t soon(void)
{
    return kd_mono_ns() + FAR;
}

static struct kr_pending_size size_of(void)
{
    return (struct kr_pending_size){.max_steps = STEPS, .max_paths = PATHS, .n_levels = N_LEVELS};
}

static struct kd_store_config config_of(void)
{
    static char directory[512];
    static int n;

    snprintf(directory, sizeof(directory), "%s/keep%d", kt_tmp(), n++);
    return (struct kd_store_config){.directory = directory,
                                    .sync = KD_SYNC_ALWAYS,
                                    .map_bytes = (size_t)64 << 20,
                                    .queue_bytes = (size_t)1 << 20,
                                    .max_streams = 100};
}

static struct kd_store *open_store(const struct kd_store_config *config)
{
    struct kd_store *store = NULL;
    struct kr_error error = {""};

    KT_CHECK(kd_store_open(config, &store, &error) == 0, "%s", error.text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    CU_ASSERT_EQUAL_FATAL(kd_store_start(store), 0);
    return store;
}

static void close_store(struct kd_store **store)
{
    CU_ASSERT_TRUE_FATAL(kd_store_stop(*store, soon()));
    kd_store_close(store);
}

static void settle(struct kd_store *store)
{
    const struct kd_store_counts *counts = kd_store_counts(store);
    int64_t end_ns = soon();

    while (counts->committed + counts->lost < counts->submitted && kd_mono_ns() < end_ns)
        sched_yield();
    CU_ASSERT_EQUAL(counts->committed + counts->lost, counts->submitted);
}

/* A market, and what trusts it. */
struct stream {
    struct kr_trust trust;
    struct kd_keep keep;
    struct kt_market market;
    struct kt_random random;
    int64_t row; /* of the next bar */
};

static void open_trust(struct stream *stream, uint64_t id)
{
    const struct kr_trust_config config = {.size = size_of(), .levels = levels, .id = id};

    CU_ASSERT_EQUAL_FATAL(kr_trust_init(&stream->trust, &config, NULL), 0);
}

static void open_stream(struct stream *stream, struct kd_store *store, const char *symbol)
{
    *stream = (struct stream){.market = kt_market(), .random = {.seed = 5}};
    open_trust(stream, 7);
    kd_keep_init(&stream->keep, store, "1m", symbol);
}

static void step(struct stream *stream, size_t n)
{
    static float paths[PATHS * STEPS * KR_COLUMNS];
    int64_t due_ns[STEPS];

    for (; n > 0; n--) {
        double close = kt_market_step(&stream->market, &stream->random);
        int64_t row = stream->row++;
        const struct kr_published published = {.as_of_ns = row * MINUTE,
                                               .as_of_row = row,
                                               .key = 99,
                                               .last_close = close,
                                               .n_steps = STEPS,
                                               .n_paths = PATHS,
                                               .due_ns = due_ns,
                                               .paths = paths};
        struct kr_pending_entry *entry;

        for (int64_t i = 0; i < STEPS; i++)
            due_ns[i] = (row + 1 + i) * MINUTE;
        kr_trust_bar(&stream->trust, row * MINUTE, row, close);
        kt_market_paths(&stream->market, &stream->random, PATHS, STEPS, 1.3, 0.1, paths);
        CU_ASSERT_EQUAL_FATAL(kr_trust_forecast(&stream->trust, &published, &entry), 0);
        kd_keep_changed(&stream->keep);
        if (stream->keep.store)
            CU_ASSERT_TRUE(kd_keep_save(&stream->keep, &stream->trust, soon()));
    }
}

/* All of a trust as bytes; free() it. */
static unsigned char *bytes_of(const struct kr_trust *trust, size_t *ret_n)
{
    const struct kr_pending *pending = &trust->pending;
    size_t n = kr_trust_record_bytes(trust) + kr_pending_state_record_bytes(pending), at, written;
    unsigned char *bytes;

    for (size_t i = 0; i < pending->n; i++)
        n += kr_pending_entry_record_bytes(pending, kr_pending_at(pending, i));
    bytes = malloc(n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    CU_ASSERT_EQUAL(kr_trust_pack(trust, bytes, n, &at), 0);
    CU_ASSERT_EQUAL(kr_pending_pack_state(pending, bytes + at, n - at, &written), 0);
    at += written;
    for (size_t i = 0; i < pending->n; i++) {
        CU_ASSERT_EQUAL(
            kr_pending_pack_entry(pending, kr_pending_at(pending, i), bytes + at, n - at, &written),
            0);
        at += written;
    }
    CU_ASSERT_EQUAL(at, n);
    *ret_n = n;
    return bytes;
}

/* Such bytes of `like` into a trust of the same sizes. */
static void load(struct kr_trust *trust, const unsigned char *bytes, const struct kr_trust *like)
{
    const struct kr_pending *pending = &like->pending;
    size_t n = kr_trust_record_bytes(like), n_state = kr_pending_state_record_bytes(pending);
    const unsigned char *at = bytes + n + n_state;

    CU_ASSERT_EQUAL(kr_trust_unpack(trust, bytes, n), 0);
    for (size_t i = 0; i < pending->n; i++) {
        size_t n_entry = kr_pending_entry_record_bytes(pending, kr_pending_at(pending, i));

        CU_ASSERT_EQUAL(kr_pending_unpack_entry(&trust->pending, at, n_entry), 0);
        at += n_entry;
    }
    CU_ASSERT_EQUAL(kr_pending_unpack_state(&trust->pending, bytes + n, n_state), 0);
}

static bool equal(const struct kr_trust *a, const struct kr_trust *b)
{
    size_t n_a, n_b;
    unsigned char *in_a = bytes_of(a, &n_a), *in_b = bytes_of(b, &n_b);
    bool same = n_a == n_b && !memcmp(in_a, in_b, n_a);

    free(in_a);
    free(in_b);
    return same;
}

/* The same stream behind an end of the daemon. */
static struct kd_restored reopen(struct stream *stream, struct kd_store *store, const char *symbol,
                                 uint64_t id)
{
    struct kd_restored restored;

    kr_trust_free(&stream->trust);
    open_trust(stream, id);
    kd_keep_init(&stream->keep, store, "1m", symbol);
    kd_keep_restore(&stream->keep, &stream->trust, &restored);
    return restored;
}

static int count_row(void *context, const void *value, size_t value_bytes)
{
    (void)value;
    (void)value_bytes;
    ++*(size_t *)context;
    return 0;
}

static size_t rows_of(struct kd_store *store, const char *symbol)
{
    unsigned char key[KD_STORE_MAX_KEY];
    size_t n_key = kd_store_key("1m", symbol, key), n = 0;
    struct kd_view view;

    settle(store);
    CU_ASSERT_EQUAL_FATAL(kd_view_begin(store, &view), 0);
    CU_ASSERT_EQUAL(kd_view_each(&view, KD_TABLE_PENDING, key, n_key, count_row, &n), 0);
    kd_view_end(&view);
    return n;
}

/* Stopped and started at some bars, against never stopped. */
static void restarts(void)
{
    static const size_t stops[] = {1, 2, 9, 150, 151, 260};
    struct kd_store_config config = config_of();
    struct kd_store *store = open_store(&config);
    struct stream stream, other, whole;
    size_t at = 0;

    open_stream(&stream, store, "A");
    open_stream(&other, store, "AB"); /* whose rows are not A's */
    open_stream(&whole, NULL, "A");
    step(&other, 20);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(stops); i++) {
        struct kd_restored restored;

        step(&stream, stops[i] - at);
        step(&whole, stops[i] - at);
        at = stops[i];
        CU_ASSERT_EQUAL(rows_of(store, "A"), stream.trust.pending.n);
        close_store(&store);
        store = open_store(&config);
        restored = reopen(&stream, store, "A", 7);
        CU_ASSERT_EQUAL(restored.what, KD_KEPT_RESTORED);
        CU_ASSERT_EQUAL(restored.n_forecasts, whole.trust.pending.n);
        CU_ASSERT_EQUAL(restored.n_unread, 0);
        CU_ASSERT_FALSE(kd_keep_wants(&stream.keep));
        KT_CHECK(equal(&stream.trust, &whole.trust), "stopped behind bar %zu", at);
    }
    step(&stream, 100);
    step(&whole, 100);
    CU_ASSERT_TRUE(equal(&stream.trust, &whole.trust));
    CU_ASSERT_EQUAL(kr_calibrator_status(&stream.trust.calibrator, stream.trust.row),
                    KR_CALIBRATED);
    CU_ASSERT_EQUAL(rows_of(store, "AB"), other.trust.pending.n);
    kr_trust_free(&stream.trust);
    kr_trust_free(&other.trust);
    kr_trust_free(&whole.trust);
    close_store(&store);
}

/* A new stream, one of other parameters, one reset: nothing of the old is left in the file. */
static void stale(void)
{
    struct kd_store_config config = config_of();
    struct kd_store *store = open_store(&config);
    struct stream stream;

    open_stream(&stream, store, "A");
    CU_ASSERT_EQUAL(reopen(&stream, store, "A", 7).what, KD_KEPT_NOTHING);
    CU_ASSERT_FALSE(kd_keep_wants(&stream.keep));
    step(&stream, 50);
    settle(store);
    CU_ASSERT_EQUAL(reopen(&stream, store, "A", 8).what, KD_KEPT_STALE);
    CU_ASSERT_EQUAL(stream.trust.calibrator.n_learned, 0);
    CU_ASSERT_EQUAL(stream.trust.pending.n, 0);
    CU_ASSERT_TRUE(kd_keep_wants(&stream.keep));
    CU_ASSERT_TRUE(kd_keep_save(&stream.keep, &stream.trust, soon()));
    CU_ASSERT_EQUAL(rows_of(store, "A"), 0);
    step(&stream, 3);
    CU_ASSERT_EQUAL(rows_of(store, "A"), 3);
    CU_ASSERT_EQUAL(reopen(&stream, store, "A", 8).n_forecasts, 3);
    kr_trust_reset(&stream.trust, 9); /* a reload */
    kd_keep_changed(&stream.keep);
    CU_ASSERT_TRUE(kd_keep_save(&stream.keep, &stream.trust, soon()));
    CU_ASSERT_EQUAL(rows_of(store, "A"), 0);
    CU_ASSERT_EQUAL(reopen(&stream, store, "A", 9).what, KD_KEPT_RESTORED);
    CU_ASSERT_TRUE(stream.trust.walk.close > 0);
    kr_trust_free(&stream.trust);
    close_store(&store);
}

/* Reset by hand: nothing is left in the file, nothing is restored, and the stream begins anew. */
static void forgotten(void)
{
    struct kd_store_config config = config_of();
    struct kd_store *store = open_store(&config);
    struct stream stream;
    struct kd_restored restored;

    open_stream(&stream, store, "A");
    step(&stream, 50);
    kd_keep_forget(&stream.keep);
    CU_ASSERT_TRUE(kd_keep_wants(&stream.keep));
    CU_ASSERT_TRUE(kd_keep_save(&stream.keep, NULL, soon()));
    CU_ASSERT_FALSE(kd_keep_wants(&stream.keep));
    CU_ASSERT_EQUAL(rows_of(store, "A"), 0);
    CU_ASSERT_EQUAL(kd_store_streams(store), 0);
    kr_trust_free(&stream.trust);
    open_trust(&stream, 7);
    kd_keep_restore(&stream.keep, &stream.trust, &restored);
    CU_ASSERT_EQUAL(restored.what, KD_KEPT_NOTHING);
    step(&stream, 3);
    /* and where bars came at once: what was there goes with the same group */
    kd_keep_forget(&stream.keep);
    kr_trust_reset(&stream.trust, 7);
    step(&stream, 2);
    CU_ASSERT_EQUAL(rows_of(store, "A"), 2);
    CU_ASSERT_EQUAL(kd_store_streams(store), 1);
    /* not committed: again */
    kd_keep_forget(&stream.keep);
    CU_ASSERT_TRUE(kd_keep_save(&stream.keep, NULL, soon()));
    settle(store);
    atomic_store(&stream.keep.lost, true);
    CU_ASSERT_TRUE(kd_keep_save(&stream.keep, NULL, soon()));
    CU_ASSERT_FALSE(kd_keep_wants(&stream.keep));
    CU_ASSERT_EQUAL(rows_of(store, "A"), 0);
    kr_trust_free(&stream.trust);
    close_store(&store);
}

/* A forecast that takes the place of the one before it is written again. */
static void replaced(void)
{
    struct kd_store_config config = config_of();
    struct kd_store *store = open_store(&config);
    struct stream stream, before;

    open_stream(&stream, store, "A");
    open_stream(&before, NULL, "A");
    step(&stream, 30);
    step(&before, 30);
    stream.row = before.row = 29; /* another close, other paths */
    step(&stream, 1);
    step(&before, 1);
    CU_ASSERT_EQUAL(before.trust.pending.counts.replaced, 1);
    settle(store);
    CU_ASSERT_EQUAL(reopen(&stream, store, "A", 7).what, KD_KEPT_RESTORED);
    CU_ASSERT_TRUE(equal(&stream.trust, &before.trust));
    kr_trust_free(&stream.trust);
    kr_trust_free(&before.trust);
    close_store(&store);
}

/* No room, then room; and a group that was not committed: everything is submitted again. */
static void again(void)
{
    struct kd_store_config config = config_of();
    struct kd_store *store = open_store(&config), *empty;
    struct kd_store_config other = config_of();
    struct stream stream;
    char directory[512];

    snprintf(directory, sizeof(directory), "%s/other", kt_tmp());
    other.directory = directory;
    other.queue_bytes = 4096; /* too small */
    empty = open_store(&other);
    open_stream(&stream, store, "A");
    step(&stream, 40);
    stream.keep.store = empty;
    CU_ASSERT_FALSE(kd_keep_wants(&stream.keep));
    CU_ASSERT_TRUE(kd_keep_save(&stream.keep, &stream.trust, 0)); /* nothing to do */
    CU_ASSERT_EQUAL(kd_store_counts(empty)->submitted, 0);
    atomic_store(&stream.keep.lost, true);
    CU_ASSERT_TRUE(kd_keep_wants(&stream.keep));
    CU_ASSERT_FALSE(kd_keep_save(&stream.keep, &stream.trust, 0));
    CU_ASSERT_TRUE(stream.keep.waits && kd_keep_wants(&stream.keep));
    close_store(&empty);
    other.queue_bytes = (size_t)1 << 20;
    empty = open_store(&other);
    stream.keep.store = empty;
    CU_ASSERT_TRUE(kd_keep_save(&stream.keep, &stream.trust, 0));
    CU_ASSERT_FALSE(stream.keep.waits || kd_keep_wants(&stream.keep));
    CU_ASSERT_EQUAL(rows_of(empty, "A"), stream.trust.pending.n);
    CU_ASSERT_EQUAL(reopen(&stream, empty, "A", 7).what, KD_KEPT_RESTORED);
    kr_trust_free(&stream.trust);
    close_store(&store);
    close_store(&empty);
}

static void damaged(void)
{
    static const struct {
        const char *table;
        int which;
        enum kd_kept what;
        size_t n_lost; /* waiting forecasts */
    } cases[] = {
        {"calibration", 0, KD_KEPT_DAMAGED, 4},
        {"pending", 1, KD_KEPT_RESTORED, 1},
        {"pending_state", 0, KD_KEPT_RESTORED, 4},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kd_store_config config = config_of();
        struct kd_store *store = open_store(&config);
        struct stream stream;
        struct kd_restored restored;
        size_t n_unscored;

        open_stream(&stream, store, "A");
        step(&stream, 60);
        CU_ASSERT_EQUAL(stream.trust.pending.n, 4); /* 1 + 2 + 3 + 4 steps wait */
        n_unscored = stream.trust.pending.counts.unscored;
        close_store(&store);
        kt_damage_row(config.directory, cases[i].table, cases[i].which);
        store = open_store(&config);
        restored = reopen(&stream, store, "A", 7);
        CU_ASSERT_EQUAL(restored.what, cases[i].what);
        CU_ASSERT_EQUAL(restored.n_unread, 1);
        CU_ASSERT_EQUAL(restored.n_forecasts, 4 - cases[i].n_lost);
        CU_ASSERT_EQUAL(stream.trust.pending.n, 4 - cases[i].n_lost);
        if (cases[i].what == KD_KEPT_RESTORED) {
            CU_ASSERT_TRUE(stream.trust.pending.counts.unscored > n_unscored);
            CU_ASSERT_TRUE(stream.trust.calibrator.n_learned > 0);
        } else {
            CU_ASSERT_EQUAL(stream.trust.calibrator.n_learned, 0);
        }
        /* whole again with the next save */
        CU_ASSERT_TRUE(kd_keep_wants(&stream.keep));
        step(&stream, 1);
        CU_ASSERT_EQUAL(rows_of(store, "A"), stream.trust.pending.n);
        CU_ASSERT_EQUAL(reopen(&stream, store, "A", 7).n_unread, 0);
        kr_trust_free(&stream.trust);
        close_store(&store);
    }
}

/* The history again, bars that the walk has seen: nothing is scored, learned or counted twice. */
static void history_again(void)
{
    struct kd_store_config config = config_of();
    struct kd_store *store = open_store(&config);
    struct stream stream, whole;
    double closes[150];
    struct kt_market market = kt_market();
    struct kt_random random = {.seed = 5};

    open_stream(&stream, store, "A");
    open_stream(&whole, NULL, "A");
    for (size_t i = 0; i < KR_ARRAY_LENGTH(closes); i++) {
        static float unused[PATHS * STEPS * KR_COLUMNS];

        closes[i] = kt_market_step(&market, &random);
        kt_market_paths(&market, &random, PATHS, STEPS, 1.3, 0.1, unused);
    }
    step(&stream, 150);
    step(&whole, 150);
    CU_ASSERT_EQUAL(whole.market.close, closes[149]);
    settle(store);
    CU_ASSERT_EQUAL(reopen(&stream, store, "A", 7).what, KD_KEPT_RESTORED);
    for (int64_t i = 0; i < 150; i++)
        CU_ASSERT_EQUAL(kr_trust_late(&stream.trust, i * MINUTE, closes[i]), 0);
    CU_ASSERT_TRUE(equal(&stream.trust, &whole.trust));
    kr_trust_free(&stream.trust);
    kr_trust_free(&whole.trust);
    close_store(&store);
}

/* Behind a restart the window numbers its bars anew; the trust's rows go on. */
static void rows_go_on(void)
{
    /* first bar of the history that comes again, its row in the window */
    static const struct {
        int64_t bar, row;
    } cases[] = {{0, 0}, {130, 0}, {130, 1000}, {130, -2000}, {150, 0}, {153, 7}, {153, 4000}};
    static float paths[180][PATHS * STEPS * KR_COLUMNS];
    double closes[180];
    struct kt_market market = kt_market();
    struct kt_random random = {.seed = 6};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(closes); i++) {
        closes[i] = kt_market_step(&market, &random);
        kt_market_paths(&market, &random, PATHS, STEPS, 1.3, 0.1, paths[i]);
    }
    for (size_t c = 0; c < KR_ARRAY_LENGTH(cases); c++) {
        struct kd_scoring whole = {.made = true, .spacing = 1, .aligned = true}, again = whole;
        const struct kd_scored whose = {"A", "1m", 1};
        const struct kr_trust_config config = {.size = size_of(), .levels = levels, .id = 7};

        CU_ASSERT_EQUAL_FATAL(kr_trust_init(&whole.trust, &config, NULL), 0);
        CU_ASSERT_EQUAL_FATAL(kr_trust_init(&again.trust, &config, NULL), 0);
        for (int64_t i = 0; i < 180; i++) {
            bool before = i < 150, second = i >= cases[c].bar;
            int64_t row = i, due_ns[STEPS];
            struct kd_job job = {.change = KR_NEXT, .bar = {.t_ns = i * MINUTE}};
            struct kr_published published = {.as_of_ns = i * MINUTE,
                                             .key = 99,
                                             .last_close = closes[i],
                                             .n_steps = STEPS,
                                             .n_paths = PATHS,
                                             .due_ns = due_ns,
                                             .paths = paths[i]};
            const struct kr_pending_entry *entry;

            job.bar.v[KR_CLOSE] = closes[i];
            for (int64_t h = 0; h < STEPS; h++)
                due_ns[h] = (i + 1 + h) * MINUTE;
            if (i == 150) { /* the same state in both */
                unsigned char *bytes;
                size_t n;
                int64_t t = cases[c].bar;

                bytes = bytes_of(&whole.trust, &n);
                load(&again.trust, bytes, &whole.trust);
                free(bytes);
                kd_scoring_resumed(&again);
                for (; t < 150; t++) { /* the history again */
                    struct kd_job known = {.change = KR_NEXT, .bar = {.t_ns = t * MINUTE}};
                    struct kr_published older = published;
                    int64_t due[STEPS];

                    known.bar.v[KR_CLOSE] = closes[t];
                    kd_scoring_bar(&again, &whose, &known, cases[c].row + t - cases[c].bar);
                    for (int64_t h = 0; h < STEPS; h++)
                        due[h] = (t + 1 + h) * MINUTE;
                    older.as_of_ns = t * MINUTE;
                    older.as_of_row = cases[c].row + t - cases[c].bar;
                    older.last_close = closes[t];
                    older.due_ns = due;
                    older.paths = paths[t];
                    if (t < 149) /* the last would take its own place, and count */
                        CU_ASSERT_EQUAL(kd_scoring_forecast(&again, &older, true, &entry), 0);
                }
                CU_ASSERT_EQUAL(again.messages.size, 0);
                CU_ASSERT_TRUE(equal(&whole.trust, &again.trust));
            }
            if (!before && !second)
                continue; /* bars that never came: no rows either */
            row = before ? i : 150 + i - KR_MAX(cases[c].bar, 150);
            published.as_of_row = row;
            kd_scoring_bar(&whole, &whose, &job, row);
            CU_ASSERT_EQUAL(kd_scoring_forecast(&whole, &published, true, &entry), 0);
            if (before)
                continue;
            published.as_of_row = cases[c].row + i - cases[c].bar;
            kd_scoring_bar(&again, &whose, &job, published.as_of_row);
            CU_ASSERT_EQUAL(kd_scoring_forecast(&again, &published, true, &entry), 0);
            KT_CHECK(equal(&whole.trust, &again.trust), "case %zu, bar %d", c, (int)i);
        }
        kd_scoring_free(&whole);
        kd_scoring_free(&again);
    }
}

/* The plan's sizes are those of real records, the queue holds a whole stream, and the map holds as
 * many streams as it was planned for however often they are written. */
static void plan(void)
{
    const struct kr_pending_size size = size_of();
    struct kd_keep_plan planned, more;
    struct kd_store_config config = config_of();
    struct kd_store *store;
    struct stream streams[12];
    size_t n_bytes;

    CU_ASSERT_TRUE_FATAL(kd_keep_plan(&size, 6, &planned));
    CU_ASSERT_TRUE(kd_keep_plan(&size, 1000000, &more));
    CU_ASSERT_TRUE(more.queue_bytes == (size_t)8 << 20 && more.map_bytes > planned.map_bytes);
    config.map_bytes = planned.map_bytes - ((size_t)16 << 20) + 20 * 4096;
    config.queue_bytes = planned.queue_bytes;
    store = open_store(&config);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(streams); i++) {
        char symbol[16];

        snprintf(symbol, sizeof(symbol), "S%zu", i);
        open_stream(&streams[i], store, symbol);
    }
    for (size_t round = 0; round < 40; round++)
        for (size_t i = 0; i < KR_ARRAY_LENGTH(streams); i++) {
            /* its ring full: no bar comes, and everything is submitted */
            step(&streams[i], 1);
            atomic_store(&streams[i].keep.lost, true);
            CU_ASSERT_TRUE(kd_keep_save(&streams[i].keep, &streams[i].trust, soon()));
        }
    settle(store);
    CU_ASSERT_EQUAL(kd_store_counts(store)->lost, 0);
    kt_note("map %zu, used %llu", config.map_bytes, (unsigned long long)kd_store_used_bytes(store));
    CU_ASSERT_EQUAL(planned.trust_bytes, kr_trust_record_bytes(&streams[0].trust));
    CU_ASSERT_EQUAL(planned.entry_bytes,
                    kr_pending_entry_record_bytes(&streams[0].trust.pending,
                                                  kr_pending_at(&streams[0].trust.pending, 0)));
    n_bytes = kr_pending_state_record_bytes(&streams[0].trust.pending);
    CU_ASSERT_TRUE(planned.state_bytes > n_bytes && planned.state_bytes < 5 * n_bytes);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(streams); i++)
        kr_trust_free(&streams[i].trust);
    close_store(&store);
    CU_ASSERT_FALSE(kd_keep_plan(&(struct kr_pending_size){SIZE_MAX / 2, 2, 2, 0}, 6, &planned));
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"stopped against never stopped", restarts},
        {"other parameters, and reset", stale},
        {"forgotten", forgotten},
        {"a forecast replaced", replaced},
        {"no room, and lost", again},
        {"damaged records", damaged},
        {"the history again", history_again},
        {"rows go on", rows_go_on},
        {"the plan", plan},
    };

    return kt_main("keep", tests, KR_ARRAY_LENGTH(tests));
}
