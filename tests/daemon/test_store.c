/* SPDX-License-Identifier: MIT */
/* The state's database alone: what is written is there after an end of any kind; what is not ours,
 * damaged, newer, full or in use is said and refused. */
#include "daemon/store.h"

#include "core/record.h"
#include "daemon/clock.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define FAR INT64_C(60000000000)

static int64_t soon(void)
{
    return kd_mono_ns() + FAR;
}

/* A fresh folder's name. */
static const char *folder(void)
{
    static char text[512];
    static int n;

    snprintf(text, sizeof(text), "%s/state%d", kt_tmp(), n++);
    return text;
}

static const char *file_in(const char *directory)
{
    static char text[600];

    snprintf(text, sizeof(text), "%s/" KD_STORE_FILE, directory);
    return text;
}

static struct kd_store_config config_of(const char *directory)
{
    return (struct kd_store_config){.directory = directory,
                                    .sync = KD_SYNC_ALWAYS,
                                    .map_bytes = 64 * MIB,
                                    .queue_bytes = MIB,
                                    .max_streams = 1000};
}

static struct kd_store *open_with(const struct kd_store_config *config)
{
    struct kd_store *store = NULL;
    struct kr_error error = {""};

    KT_CHECK(kd_store_open(config, &store, &error) == 0, "%s", error.text);
    if (store)
        CU_ASSERT_EQUAL(kd_store_start(store), 0);
    return store;
}

static void end(struct kd_store **store)
{
    CU_ASSERT_TRUE_FATAL(kd_store_stop(*store, soon()));
    kd_store_close(store);
    CU_ASSERT_PTR_NULL(*store);
}

/* It cannot be opened; the line names the directory and holds the text. */
static void refused(const struct kd_store_config *config, int expected, const char *text)
{
    struct kd_store *store = NULL;
    struct kr_error error = {""};
    int status = kd_store_open(config, &store, &error);

    KT_CHECK(status == expected, "%d, expected %d: %s", status, expected, error.text);
    KT_CHECK(strstr(error.text, text) && strstr(error.text, config->directory), "\"%s\" in: %s",
             text, error.text);
    CU_ASSERT_PTR_NULL(store);
    kd_store_close(&store);
}

static size_t key_of(const char *symbol, const int64_t *t_ns, unsigned char *ret)
{
    size_t n = kd_store_key("1m", symbol, ret);

    return t_ns ? kd_store_key_at(ret, n, *t_ns, ret) : n;
}

/* One row of a stream: n bytes of `c`. t_ns NULL: a row without a time. */
static bool put(struct kd_store *store, enum kd_table table, const char *symbol,
                const int64_t *t_ns, char c, size_t n, atomic_bool *lost)
{
    unsigned char key[KD_STORE_MAX_KEY];
    size_t n_key = key_of(symbol, t_ns, key);
    struct kd_batch batch;

    if (!kd_store_begin(store, kd_store_put_bytes(n_key, n), 0, &batch))
        return false;
    memset(kd_batch_put(&batch, table, key, n_key, n), c, n);
    kd_store_submit(&batch, lost);
    return true;
}

/* Wait until everything submitted is committed or lost. */
static void settle(struct kd_store *store)
{
    const struct kd_store_counts *counts = kd_store_counts(store);
    int64_t end_ns = soon();

    while (counts->committed + counts->lost < counts->submitted && kd_mono_ns() < end_ns)
        sched_yield();
    CU_ASSERT_EQUAL(counts->committed + counts->lost, counts->submitted);
}

/* Is there a row of n bytes of `c`? */
static bool has(struct kd_store *store, enum kd_table table, const char *symbol,
                const int64_t *t_ns, char c, size_t n)
{
    unsigned char key[KD_STORE_MAX_KEY];
    size_t n_key = key_of(symbol, t_ns, key), n_value = 0;
    const void *value = NULL;
    struct kd_view view;
    bool same;

    CU_ASSERT_EQUAL_FATAL(kd_view_begin(store, &view), 0);
    same = kd_view_get(&view, table, key, n_key, &value, &n_value) == 0 && n_value == n;
    for (size_t i = 0; i < n && same; i++)
        same = ((const char *)value)[i] == c;
    kd_view_end(&view);
    return same;
}

struct seen {
    char text[64]; /* first bytes of the rows met, in order */
    size_t n;
};

static int see(void *context, const void *value, size_t n_bytes)
{
    struct seen *seen = context;

    seen->text[seen->n++] = *(const char *)value;
    return seen->n >= sizeof(seen->text) - 1;
}

static struct seen rows(struct kd_store *store, const char *symbol)
{
    unsigned char prefix[KD_STORE_MAX_KEY];
    size_t n = kd_store_key("1m", symbol, prefix);
    struct seen seen = {"", 0};
    struct kd_view view;

    CU_ASSERT_EQUAL_FATAL(kd_view_begin(store, &view), 0);
    CU_ASSERT_EQUAL(kd_view_each(&view, KD_TABLE_PENDING, prefix, n, see, &seen), 0);
    kd_view_end(&view);
    return seen;
}

/* Written, ended, opened again, under each kind of sync. */
static void round_trip(void)
{
    static const enum kd_sync syncs[] = {KD_SYNC_ALWAYS, KD_SYNC_INTERVAL, KD_SYNC_OFF};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(syncs); i++) {
        char directory[512];
        struct kd_store_config config;
        struct kd_store *store;
        atomic_bool lost = false;
        const int64_t times[] = {INT64_MIN, -1, 0, 1, INT64_MAX};

        snprintf(directory, sizeof(directory), "%s", folder());
        config = config_of(directory);
        config.sync = syncs[i];
        store = open_with(&config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        CU_ASSERT_TRUE(put(store, KD_TABLE_CALIBRATION, "A", NULL, 'a', 20000, &lost));
        CU_ASSERT_TRUE(put(store, KD_TABLE_CALIBRATION, "A", NULL, 'b', 9, &lost));
        CU_ASSERT_TRUE(put(store, KD_TABLE_CALIBRATION, "AB", NULL, 'c', 1, &lost));
        /* in any order */
        for (size_t t = 0; t < KR_ARRAY_LENGTH(times); t++)
            CU_ASSERT_TRUE(put(store, KD_TABLE_PENDING, "A", &times[(2 * t + 3) % 5],
                               "vwxyz"[(2 * t + 3) % 5], 5000, &lost));
        end(&store);
        store = open_with(&config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        CU_ASSERT_TRUE(has(store, KD_TABLE_CALIBRATION, "A", NULL, 'b', 9));
        CU_ASSERT_TRUE(has(store, KD_TABLE_CALIBRATION, "AB", NULL, 'c', 1));
        CU_ASSERT_FALSE(has(store, KD_TABLE_PENDING_STATE, "A", NULL, 'b', 9));
        for (size_t t = 0; t < KR_ARRAY_LENGTH(times); t++)
            CU_ASSERT_TRUE(has(store, KD_TABLE_PENDING, "A", &times[t], "vwxyz"[t], 5000));
        CU_ASSERT_STRING_EQUAL(rows(store, "A").text, "vwxyz");
        CU_ASSERT_STRING_EQUAL(rows(store, "B").text, "");
        CU_ASSERT_FALSE(lost);
        CU_ASSERT_TRUE(kd_store_used_bytes(store) > 5 * 5000);
        end(&store);
    }
}

static bool keep(struct kd_store *store, const char *symbol, int64_t from_ns, int64_t to_ns)
{
    unsigned char prefix[KD_STORE_MAX_KEY];
    size_t n = kd_store_key("1m", symbol, prefix);
    struct kd_batch batch;

    if (!kd_store_begin(store, KD_STORE_KEEP_BYTES, 0, &batch))
        return false;
    kd_batch_keep(&batch, KD_TABLE_PENDING, prefix, n, from_ns, to_ns);
    kd_store_submit(&batch, NULL);
    settle(store);
    return true;
}

/* Rows outside of a range of times go, those of other streams stay. */
static void ranges(void)
{
    struct kd_store_config config = config_of(folder());
    struct kd_store *store = open_with(&config);

    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    for (int64_t t = 0; t < 26; t++) {
        CU_ASSERT_TRUE(put(store, KD_TABLE_PENDING, "A", &t, (char)('a' + t), 1500, NULL));
        CU_ASSERT_TRUE(put(store, KD_TABLE_PENDING, "AA", &t, (char)('A' + t), 1500, NULL));
        CU_ASSERT_TRUE(put(store, KD_TABLE_PENDING, "B", &t, (char)('A' + t), 10, NULL));
    }
    CU_ASSERT_TRUE(keep(store, "A", -5, 100));
    CU_ASSERT_STRING_EQUAL(rows(store, "A").text, "abcdefghijklmnopqrstuvwxyz");
    CU_ASSERT_TRUE(keep(store, "A", 3, 20));
    CU_ASSERT_STRING_EQUAL(rows(store, "A").text, "defghijklmnopqrstu");
    CU_ASSERT_TRUE(keep(store, "A", 20, 100));
    CU_ASSERT_STRING_EQUAL(rows(store, "A").text, "u");
    CU_ASSERT_TRUE(keep(store, "A", 1, 0));
    CU_ASSERT_STRING_EQUAL(rows(store, "A").text, "");
    CU_ASSERT_TRUE(keep(store, "A", 1, 0));
    CU_ASSERT_STRING_EQUAL(rows(store, "AA").text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    CU_ASSERT_STRING_EQUAL(rows(store, "B").text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    end(&store);
}

/* What is submitted together is there together: each look sees both rows of one number. */
static void together(void)
{
    struct kd_store_config config = config_of(folder());
    struct kd_store *store;
    unsigned char key[KD_STORE_MAX_KEY];
    size_t n_key = kd_store_key("1m", "A", key), n_seen = 0;

    config.queue_bytes = 4 << 10; /* some twenty batches */
    store = open_with(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    for (int i = 1; i <= 1000; i++) {
        size_t n = 2 * kd_store_put_bytes(n_key, sizeof(i));
        struct kd_batch batch;
        struct kd_view view;
        const void *a, *b;
        size_t n_a, n_b;

        CU_ASSERT_TRUE_FATAL(kd_store_begin(store, n, soon(), &batch));
        memcpy(kd_batch_put(&batch, KD_TABLE_CALIBRATION, key, n_key, sizeof(i)), &i, sizeof(i));
        memcpy(kd_batch_put(&batch, KD_TABLE_PENDING_STATE, key, n_key, sizeof(i)), &i, sizeof(i));
        kd_store_submit(&batch, NULL);
        CU_ASSERT_EQUAL_FATAL(kd_view_begin(store, &view), 0);
        if (kd_view_get(&view, KD_TABLE_CALIBRATION, key, n_key, &a, &n_a) == 0) {
            CU_ASSERT_EQUAL_FATAL(kd_view_get(&view, KD_TABLE_PENDING_STATE, key, n_key, &b, &n_b),
                                  0);
            CU_ASSERT_TRUE(n_a == sizeof(i) && n_b == sizeof(i) && !memcmp(a, b, sizeof(i)));
            n_seen++;
        }
        kd_view_end(&view);
    }
    CU_ASSERT_TRUE(n_seen > 0);
    settle(store);
    kt_note("%llu batches in %llu commits", (unsigned long long)kd_store_counts(store)->committed,
            (unsigned long long)kd_store_counts(store)->commits);
    end(&store);
}

/* Batches are grouped while the interval runs, and not held back when half of the queue is full. */
static void grouped(void)
{
    struct kd_store_config config = config_of(folder());
    struct kd_store *store;
    const struct kd_store_counts *counts;

    config.sync = KD_SYNC_INTERVAL;
    store = open_with(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    counts = kd_store_counts(store);
    for (int64_t t = 0; t < 100; t++)
        CU_ASSERT_TRUE(put(store, KD_TABLE_PENDING, "A", &t, 'x', 100, NULL));
    settle(store); /* by its own clock */
    KT_CHECK(counts->commits <= 10, "%llu commits", (unsigned long long)counts->commits);
    end(&store);
}

/* A queue without room refuses, and waits where it may. */
static void no_room(void)
{
    struct kd_store_config config = config_of(folder());
    struct kd_store *store = NULL;
    struct kd_batch batch;
    int n = 0;

    config.queue_bytes = 64 << 10;
    CU_ASSERT_EQUAL_FATAL(kd_store_open(&config, &store, NULL), 0);
    while (put(store, KD_TABLE_CALIBRATION, "A", NULL, (char)('a' + n), 10000, NULL))
        n++; /* nobody commits yet */
    CU_ASSERT_EQUAL(n, 6);
    CU_ASSERT_EQUAL(kd_store_counts(store)->refused, 1);
    CU_ASSERT_FALSE(kd_store_begin(store, 10000, kd_mono_ns() + 1000, &batch));
    CU_ASSERT_FALSE(kd_store_begin(store, 1 << 20, soon(), &batch)); /* never */
    CU_ASSERT_EQUAL(kd_store_start(store), 0);
    CU_ASSERT_TRUE_FATAL(kd_store_begin(store, 10000, soon(), &batch));
    kd_store_submit(&batch, NULL); /* nothing in it */
    settle(store);
    CU_ASSERT_TRUE(has(store, KD_TABLE_CALIBRATION, "A", NULL, 'f', 10000));
    end(&store);
}

/* A full map loses the group, says so, keeps what was there and goes on with what fits. */
static void full(void)
{
    struct kd_store_config config = config_of(folder());
    struct kd_store *store;
    atomic_bool lost[100] = {false};
    char fault[200] = "";
    size_t n = 0;

    config.map_bytes = 256 << 10;
    store = open_with(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    for (int64_t t = 0; t < 100; t++) {
        CU_ASSERT_TRUE(put(store, KD_TABLE_PENDING, "A", &t, 'a', 20000, &lost[t]));
        settle(store);
        CU_ASSERT_EQUAL(has(store, KD_TABLE_PENDING, "A", &t, 'a', 20000), !lost[t]);
        n += lost[t];
    }
    kd_store_fault(store, fault, sizeof(fault));
    KT_CHECK(n > 80 && n < 100 && !lost[0], "%zu lost", n);
    CU_ASSERT_EQUAL(kd_store_counts(store)->lost, n);
    CU_ASSERT_EQUAL(kd_store_counts(store)->failures, n);
    KT_CHECK(strstr(fault, "larger than was planned") && strstr(fault, config.directory), "%s",
             fault);
    CU_ASSERT_TRUE(keep(store, "A", 1, 0));
    lost[0] = false;
    CU_ASSERT_TRUE(put(store, KD_TABLE_CALIBRATION, "A", NULL, 'b', 20000, &lost[0]));
    settle(store);
    CU_ASSERT_TRUE(!lost[0] && has(store, KD_TABLE_CALIBRATION, "A", NULL, 'b', 20000));
    end(&store);
}

static void second(void)
{
    struct kd_store_config config = config_of(folder());
    struct kd_store *store = open_with(&config);

    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    refused(&config, -EBUSY, "another kronosd");
    end(&store);
    store = open_with(&config);
    end(&store);
}

static void bad_directories(void)
{
    char directory[600], below[700];
    struct kd_store_config config = config_of(directory);
    int fd;

    snprintf(directory, sizeof(directory), "%s/and/more", folder());
    refused(&config, -ENOENT, "No such file");
    snprintf(directory, sizeof(directory), "%s", folder());
    fd = open(directory, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    CU_ASSERT_TRUE_FATAL(fd >= 0);
    close(fd);
    refused(&config, -ENOTDIR, "Not a directory");
    /* read-only, to somebody who is not root */
    snprintf(directory, sizeof(directory), "%s", folder());
    CU_ASSERT_EQUAL(mkdir(directory, 0555), 0);
    CU_ASSERT_EQUAL(chmod(kt_tmp(), 0755), 0);
    if (geteuid() == 0)
        CU_ASSERT_EQUAL_FATAL(seteuid(65534), 0);
    refused(&config, -EACCES, "Permission denied");
    snprintf(below, sizeof(below), "%s/new", directory);
    config.directory = below;
    refused(&config, -EACCES, "Permission denied");
    if (getuid() == 0)
        CU_ASSERT_EQUAL(seteuid(0), 0);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "we");

    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, n, file), n);
    fclose(file);
}

/* An LMDB file made by hand. `format`: 0 for none, else that version under "meta". */
static void make_lmdb(const char *path, const char *table, uint32_t format)
{
    unsigned char record[KR_RECORD_FRAME + 8];
    struct kr_writer writer = kr_record_begin(record, sizeof(record), 0x5453444bu, format);
    MDB_val key = {6, (void *)(uintptr_t) "format"}, value = {0, record};
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;

    kr_write_i64(&writer, 0);
    CU_ASSERT_EQUAL(kr_record_end(&writer, &value.mv_size), 0);
    CU_ASSERT_EQUAL_FATAL(mdb_env_create(&env), 0);
    CU_ASSERT_EQUAL(mdb_env_set_maxdbs(env, 4), 0);
    CU_ASSERT_EQUAL_FATAL(mdb_env_open(env, path, MDB_NOSUBDIR, 0600), 0);
    CU_ASSERT_EQUAL_FATAL(mdb_txn_begin(env, NULL, 0, &txn), 0);
    CU_ASSERT_EQUAL_FATAL(mdb_dbi_open(txn, table, MDB_CREATE, &dbi), 0);
    if (format)
        CU_ASSERT_EQUAL(mdb_put(txn, dbi, &key, &value, 0), 0);
    CU_ASSERT_EQUAL(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
}

static void foreign(void)
{
    char directory[512], noise[20000];
    struct kd_store_config config = config_of(directory);
    struct kd_store *store;

    for (size_t i = 0; i < sizeof(noise); i++)
        noise[i] = (char)(i * 7919 >> 3);
    snprintf(directory, sizeof(directory), "%s", folder());
    CU_ASSERT_EQUAL(mkdir(directory, 0700), 0);
    write_file(file_in(directory), noise, sizeof(noise));
    refused(&config, -EBADMSG, "expected an LMDB file");
    write_file(file_in(directory), noise, 10);
    refused(&config, -EBADMSG, "expected an LMDB file");
    snprintf(directory, sizeof(directory), "%s", folder());
    CU_ASSERT_EQUAL(mkdir(directory, 0700), 0);
    make_lmdb(file_in(directory), "wallets", 1);
    refused(&config, -EPROTO, "another program's");
    snprintf(directory, sizeof(directory), "%s", folder());
    CU_ASSERT_EQUAL(mkdir(directory, 0700), 0);
    make_lmdb(file_in(directory), "meta", 0);
    refused(&config, -EPROTO, "found other data");
    snprintf(directory, sizeof(directory), "%s", folder());
    CU_ASSERT_EQUAL(mkdir(directory, 0700), 0);
    make_lmdb(file_in(directory), "meta", KD_STORE_FORMAT + 1);
    refused(&config, -EPROTO, "newer kronosd");
    /* the same by hand with the format that we read: fine, and so is an empty file */
    snprintf(directory, sizeof(directory), "%s", folder());
    CU_ASSERT_EQUAL(mkdir(directory, 0700), 0);
    make_lmdb(file_in(directory), "meta", KD_STORE_FORMAT);
    store = open_with(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    end(&store);
    snprintf(directory, sizeof(directory), "%s", folder());
    CU_ASSERT_EQUAL(mkdir(directory, 0700), 0);
    write_file(file_in(directory), "", 0);
    store = open_with(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    end(&store);
}

static void fill(struct kd_store *store, int n)
{
    for (int i = 0; i < n; i++) {
        char symbol[16];

        snprintf(symbol, sizeof(symbol), "S%d", i);
        for (int64_t t = 0; t < 10; t++) {
            CU_ASSERT_TRUE(put(store, KD_TABLE_PENDING, symbol, &t, 'p', 1000, NULL));
            settle(store);
        }
        CU_ASSERT_TRUE(put(store, KD_TABLE_CALIBRATION, symbol, NULL, 'c', 300, NULL));
        settle(store);
    }
}

/* Cut off at every page: refused, or opened with rows that are there; never a signal. */
static void cut(void)
{
    char directory[512];
    struct kd_store_config config = config_of(directory);
    struct kd_store *store;
    size_t refusals = 0, n = 0;
    struct stat status;

    snprintf(directory, sizeof(directory), "%s", folder());
    store = open_with(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    fill(store, 20);
    end(&store);
    CU_ASSERT_EQUAL_FATAL(stat(file_in(directory), &status), 0);
    for (off_t size = status.st_size - 4096; size > 0; size -= 4096 * (1 + size / 40960)) {
        struct kr_error error = {""};

        CU_ASSERT_EQUAL_FATAL(truncate(file_in(directory), size), 0);
        n++;
        if (kd_store_open(&config, &store, &error) == 0) {
            kd_store_close(&store);
            continue;
        }
        KT_CHECK(strstr(error.text, "damaged"), "%s", error.text);
        refusals++;
    }
    kt_note("%zu of %zu lengths refused", refusals, n);
    CU_ASSERT_TRUE(refusals > n / 2);
}

static uint32_t random_state;

static size_t below(size_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (size_t)((uint64_t)random_state * n >> 32);
}

/* Random damage: refused in one line, or opened and read to the end; never the end of us. */
static void damaged(void)
{
    char directory[512];
    struct kd_store_config config = config_of(directory);
    struct kd_store *store;
    unsigned char *good, *bad;
    size_t refusals = 0, n_bytes;
    struct stat status;
    FILE *file;

    snprintf(directory, sizeof(directory), "%s", folder());
    store = open_with(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    fill(store, 20);
    end(&store);
    CU_ASSERT_EQUAL_FATAL(stat(file_in(directory), &status), 0);
    n_bytes = (size_t)status.st_size;
    good = malloc(n_bytes);
    bad = malloc(n_bytes);
    file = fopen(file_in(directory), "re");
    CU_ASSERT_TRUE_FATAL(good && bad && file);
    CU_ASSERT_EQUAL(fread(good, 1, n_bytes, file), n_bytes);
    fclose(file);
    random_state = 1;
    for (int round = 0; round < 150; round++) {
        size_t page = 4096 * (2 + below(n_bytes / 4096 - 2)), n = round % 3 ? 8 : 4096;
        struct kr_error error = {""};

        memcpy(bad, good, n_bytes);
        for (size_t i = 0; i < n; i++)
            bad[page + below(round % 3 == 1 ? 32 : 4096)] ^= (unsigned char)(1 + below(255));
        write_file(file_in(directory), bad, n_bytes);
        if (kd_store_open(&config, &store, &error)) {
            KT_CHECK(strstr(error.text, "damaged") || strstr(error.text, "kronosd"), "%s",
                     error.text);
            refusals++;
            continue;
        }
        for (int i = 0; i < 20; i++) {
            char symbol[16];

            snprintf(symbol, sizeof(symbol), "S%d", i);
            rows(store, symbol);
        }
        kd_store_close(&store);
    }
    kt_note("%zu of 150 refused", refusals);
    CU_ASSERT_TRUE(refusals > 10);
    free(good);
    free(bad);
}

/* Streams beyond the limit go when it is opened, those written longest ago first. */
static void least_recent(void)
{
    struct kd_store_config config = config_of(folder());
    struct kd_store *store = open_with(&config);

    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    for (int i = 0; i < 50; i++) {
        unsigned char key[KD_STORE_MAX_KEY];
        char symbol[16];
        struct kd_batch batch;
        size_t n_key;

        snprintf(symbol, sizeof(symbol), "S%d", i);
        n_key = kd_store_key("1m", symbol, key);
        CU_ASSERT_TRUE_FATAL(kd_store_begin(store, KD_STORE_STREAM_BYTES, soon(), &batch));
        kd_batch_stream(&batch, key, n_key, (i * 37) % 50); /* 0 to 49, mixed */
        kd_store_submit(&batch, NULL);
    }
    fill(store, 50);
    end(&store);
    config.max_streams = 20;
    store = open_with(&config);
    CU_ASSERT_PTR_NOT_NULL_FATAL(store);
    CU_ASSERT_EQUAL(kd_store_counts(store)->dropped, 30);
    for (int i = 0; i < 50; i++) {
        bool kept = (i * 37) % 50 >= 30;
        char symbol[16];

        snprintf(symbol, sizeof(symbol), "S%d", i);
        CU_ASSERT_EQUAL(has(store, KD_TABLE_CALIBRATION, symbol, NULL, 'c', 300), kept);
        CU_ASSERT_EQUAL(rows(store, symbol).n, kept ? 10 : 0);
    }
    end(&store);
}

/* Killed again and again while it writes: it opens, and a stream's two rows agree. */
static void killed(void)
{
    char directory[512];
    struct kd_store_config config = config_of(directory);
    int last = 0;

    snprintf(directory, sizeof(directory), "%s", folder());
    config.sync = KD_SYNC_OFF;
    config.queue_bytes = 32 << 10; /* small groups */
    for (int round = 0; round < 20; round++) {
        unsigned char key[KD_STORE_MAX_KEY];
        size_t n_key = kd_store_key("1m", "A", key), n_a = 0, n_b = 0;
        const void *a = NULL, *b = NULL;
        struct kd_store *store = NULL;
        struct kd_view view;
        int ready[2], number = 0;
        char byte;
        pid_t pid;

        CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
        pid = fork();
        CU_ASSERT_TRUE_FATAL(pid >= 0);
        if (pid == 0) {
            if (kd_store_open(&config, &store, NULL) || kd_store_start(store))
                _exit(1);
            for (int i = last + 1;; i++) {
                struct kd_batch batch;

                if (!kd_store_begin(store, 2 * kd_store_put_bytes(n_key, 5000), soon(), &batch))
                    _exit(1);
                for (int table = KD_TABLE_CALIBRATION; table <= KD_TABLE_PENDING; table++) {
                    unsigned char *value = kd_batch_put(&batch, table, key, n_key, 5000);

                    memset(value, i & 255, 5000);
                    memcpy(value, &i, sizeof(i));
                }
                kd_store_submit(&batch, NULL);
                if (kd_store_counts(store)->commits >= 3 && write(ready[1], "", 1) < 0)
                    _exit(1);
            }
        }
        close(ready[1]);
        for (int i = 0; i <= round % 3; i++)
            CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        close(ready[0]);
        store = open_with(&config);
        CU_ASSERT_PTR_NOT_NULL_FATAL(store);
        CU_ASSERT_EQUAL_FATAL(kd_view_begin(store, &view), 0);
        CU_ASSERT_EQUAL(kd_view_get(&view, KD_TABLE_CALIBRATION, key, n_key, &a, &n_a), 0);
        CU_ASSERT_EQUAL(kd_view_get(&view, KD_TABLE_PENDING, key, n_key, &b, &n_b), 0);
        CU_ASSERT_TRUE_FATAL(n_a == 5000 && n_b == 5000);
        memcpy(&number, a, sizeof(number));
        CU_ASSERT_TRUE(!memcmp(a, b, 5000) && number > last);
        last = number;
        kd_view_end(&view);
        end(&store);
    }
    kt_note("%d batches over 20 kills", last);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"written, ended, opened again", round_trip},
        {"ranges of times", ranges},
        {"together or not at all", together},
        {"grouped by the interval", grouped},
        {"a queue without room", no_room},
        {"a full map", full},
        {"a second daemon", second},
        {"directories that do not do", bad_directories},
        {"files of others, and newer ones", foreign},
        {"a file that was cut off", cut},
        {"random damage", damaged},
        {"the least lately written go", least_recent},
        {"killed while it writes", killed},
    };

    return kt_main("store", tests, KR_ARRAY_LENGTH(tests));
}
