/* SPDX-License-Identifier: MIT */
/* What is looked at before a state file is trusted, and what is dropped from it. */
#include "core/record.h"
#include "daemon/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds that reading through the file may take. */
#define INSPECT_S 60

/* Pages behind the end of a file that was cut off would be a signal, not an error: they become zeros,
 * which every later look finds. (A sound file may lack a last page that is in no use.) */
int kd_store_lengthen(struct kd_store *store, struct kr_error *error)
{
    struct stat status;
    MDB_envinfo info;
    MDB_stat stat;
    off_t expected;
    int fd, code = mdb_env_info(store->env, &info);

    if (code == 0)
        code = mdb_env_stat(store->env, &stat);
    if (code == 0)
        code = mdb_env_get_fd(store->env, &fd);
    if (code == 0 && fstat(fd, &status) < 0)
        code = errno;
    if (code)
        return kd_store_refuse(error, kd_store_errno(code), store->path, kd_store_text(code));
    expected = (off_t)(info.me_last_pgno + 1) * (off_t)stat.ms_psize;
    if (status.st_size < expected && ftruncate(fd, expected) < 0)
        return kd_store_refuse(error, -errno, store->path, strerror(errno));
    return 0;
}

/* Every row and its value are there and found by the key; what it is worth, its own CRC tells. */
int kd_store_walk(struct kd_store *store, MDB_txn *txn)
{
    int code = 0;

    for (int i = 0; i < KD_TABLES && code == 0; i++) {
        MDB_cursor *cursor;
        MDB_val key, value;

        code = mdb_cursor_open(txn, store->tables[i], &cursor);
        if (code)
            break;
        while ((code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
            MDB_val found;

            code = mdb_get(txn, store->tables[i], &key, &found);
            if (code == MDB_NOTFOUND || (code == 0 && found.mv_data != value.mv_data))
                code = MDB_CORRUPTED;
            if (code)
                break;
            for (size_t at = 0; at < value.mv_size; at += 4096)
                (void)((const volatile unsigned char *)value.mv_data)[at];
        }
        code = code == MDB_NOTFOUND ? 0 : code;
        mdb_cursor_close(cursor);
    }
    return code;
}

int kd_store_try_writing(struct kd_store *store, MDB_txn *txn)
{
    static const unsigned char bytes[3 * 4096];
    int code = 0;

    for (int i = 0; i < KD_TABLES && code == 0; i++) {
        MDB_val first = {1, (void *)(uintptr_t) "\x01"}, last = {1, (void *)(uintptr_t) "\x7f"};
        MDB_val value = {sizeof(bytes), (void *)(uintptr_t)bytes};

        code = mdb_put(txn, store->tables[i], &first, &value, 0);
        if (code == 0)
            code = mdb_put(txn, store->tables[i], &last, &value, 0);
    }
    return code == MDB_MAP_FULL ? 0 : code;
}

/* Streams that have not been written for long */

struct written {
    int64_t ns;
    size_t key_bytes;
    unsigned char key[KD_STORE_MAX_KEY];
};

static int by_time(const void *a, const void *b)
{
    const struct written *left = a, *right = b;

    return (left->ns > right->ns) - (left->ns < right->ns);
}

/* ret [n], of which *ret_n are ours. */
static int collect(MDB_txn *txn, MDB_dbi table, struct written *ret, size_t n, size_t *ret_n)
{
    MDB_cursor *cursor;
    MDB_val key, value;
    int code = mdb_cursor_open(txn, table, &cursor);

    *ret_n = 0;
    if (code)
        return code;
    while (*ret_n < n && (code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        struct written *one = &ret[*ret_n];
        struct kr_reader reader;

        if (key.mv_size > sizeof(one->key))
            continue; /* not one of ours */
        memcpy(one->key, key.mv_data, key.mv_size);
        one->key_bytes = key.mv_size;
        one->ns = INT64_MIN; /* unreadable ones go first */
        if (kr_record_open(value.mv_data, value.mv_size, KD_STREAM_MAGIC, KD_STREAM_VERSION,
                           &reader) == 0)
            one->ns = kr_read_i64(&reader);
        (*ret_n)++;
    }
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

int kd_store_drop(MDB_txn *txn, MDB_dbi table, const void *prefix, size_t n_bytes)
{
    MDB_val key = {n_bytes, (void *)(uintptr_t)prefix}, value;
    MDB_cursor *cursor;
    int code = mdb_cursor_open(txn, table, &cursor);

    if (code)
        return code;
    code = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (code == 0 && key.mv_size >= n_bytes && !memcmp(key.mv_data, prefix, n_bytes)) {
        code = mdb_cursor_del(cursor, 0);
        if (code == 0) /* it stands where the next row is now */
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

int kd_store_drop_oldest(struct kd_store *store, MDB_txn *txn)
{
    struct written *all;
    size_t n;
    MDB_stat stat;
    int code = mdb_stat(txn, store->tables[KD_TABLE_STREAMS], &stat);

    if (code || stat.ms_entries <= store->config.max_streams)
        return code;
    all = calloc(stat.ms_entries, sizeof(*all));
    if (!all)
        return ENOMEM;
    code = collect(txn, store->tables[KD_TABLE_STREAMS], all, stat.ms_entries, &n);
    qsort(all, n, sizeof(*all), by_time);
    for (size_t i = 0; i + store->config.max_streams < n && code == 0; i++) {
        for (int table = 0; table < KD_TABLES && code == 0; table++)
            code = kd_store_drop(txn, store->tables[table], all[i].key, all[i].key_bytes);
        atomic_fetch_add(&store->counts.dropped, 1);
    }
    free(all);
    return code;
}

/* LMDB trusts its pages: a damaged one can be the end of who reads it. So a child reads them all
 * first, where there are any, and what becomes of it is the answer. */
static void inspect(struct kd_store *store)
{
    static const struct rlimit no_core = {0, 0};
    struct kr_error error;
    sigset_t none;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (null >= 0)
        (void)dup2(null, STDERR_FILENO); /* LMDB's own last words */
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)prctl(PR_SET_DUMPABLE, 0);
    sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)alarm(INSPECT_S); /* pages in a circle */
    (void)!kd_store_open_file(store, true, &error);
    _exit(0); /* a refusal is told by the parent, who comes to the same */
}

int kd_store_inspect(struct kd_store *store, struct kr_error *error)
{
    struct stat file;
    int status = 0;
    pid_t pid;

    if (stat(store->path, &file) < 0 || file.st_size == 0)
        return 0;
    pid = fork();
    if (pid == 0)
        inspect(store);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (pid < 0 || status == 0)
        return 0; /* without a child it is opened as it is */
    return kd_store_refuse(error, -EBADMSG, store->path, kd_store_text(MDB_CORRUPTED));
}
