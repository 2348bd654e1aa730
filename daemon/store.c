/* SPDX-License-Identifier: MIT */
#include "core/record.h"
#include "daemon/clock.h"
#include "daemon/store_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define META         "meta"
#define FORMAT       "format"
#define FORMAT_MAGIC 0x5453444bu /* "KDST" */
/* Tables of this and of later versions. */
#define MAX_TABLES 32

static const char *const table_names[KD_TABLES] = {
    [KD_TABLE_STREAMS] = "streams",
    [KD_TABLE_CALIBRATION] = "calibration",
    [KD_TABLE_PENDING] = "pending",
    [KD_TABLE_PENDING_STATE] = "pending_state",
};

int kd_store_errno(int code)
{
    switch (code) {
    case MDB_MAP_FULL:
        return -ENOSPC;
    case MDB_NOTFOUND:
        return -ENOENT;
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_PAGE_FULL: /* we ask for nothing that gives these on sound pages */
    case MDB_CURSOR_FULL:
    case MDB_BAD_VALSIZE:
        return -EBADMSG;
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
        return -EPROTO;
    default:
        return code > 0 ? -code : -EIO;
    }
}

const char *kd_store_text(int code)
{
    return kd_store_errno(code) == -EBADMSG ? "damaged: move it away" : mdb_strerror(code);
}

/* Opening */

int kd_store_refuse(struct kr_error *error, int status, const char *path, const char *why)
{
    return kr_error_set(error, status, "[state] directory: %s: %s", path, why);
}

/* The directory, and the lock that keeps a second daemon out: it ends with the process. */
static int lock_directory(struct kd_store *store, struct kr_error *error)
{
    const char *directory = store->config.directory;

    if (mkdir(directory, 0700) < 0 && errno != EEXIST)
        return kd_store_refuse(error, -errno, directory, strerror(errno));
    store->lock_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->lock_fd < 0)
        return kd_store_refuse(error, -errno, directory, strerror(errno));
    if (flock(store->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return kd_store_refuse(error, -EBUSY, directory, "another kronosd keeps its state there");
    return kd_store_refuse(error, -errno, directory, strerror(errno));
}

static int open_environment(struct kd_store *store, struct kr_error *error)
{
    unsigned flags = MDB_NOSUBDIR | MDB_NOTLS;
    int code = mdb_env_create(&store->env);

    if (code == 0)
        code = mdb_env_set_mapsize(store->env, store->config.map_bytes);
    if (code == 0)
        code = mdb_env_set_maxdbs(store->env, MAX_TABLES);
    if (code == 0)
        code = mdb_env_set_maxreaders(store->env, KD_STORE_READERS);
    if (store->config.sync == KD_SYNC_OFF)
        flags |= MDB_NOSYNC;
    if (code == 0)
        code = mdb_env_open(store->env, store->path, flags, 0600);
    if (code == 0)
        return 0;
    if (code == MDB_INVALID)
        return kd_store_refuse(
            error, -EBADMSG, store->path,
            "expected an LMDB file, found another or a damaged one: move it away");
    if (code == MDB_VERSION_MISMATCH)
        return kd_store_refuse(error, -EPROTO, store->path,
                               "expected LMDB's format 1, found another: move it away");
    return kd_store_refuse(error, kd_store_errno(code), store->path, kd_store_text(code));
}

static int write_format(MDB_txn *txn, MDB_dbi meta)
{
    unsigned char bytes[KR_RECORD_FRAME + 8];
    struct kr_writer writer = kr_record_begin(bytes, sizeof(bytes), FORMAT_MAGIC, KD_STORE_FORMAT);
    MDB_val key = {sizeof(FORMAT) - 1, (void *)(uintptr_t)FORMAT}, value = {0, bytes};

    kr_write_i64(&writer, kd_wall_ns()); /* for whoever wonders */
    if (kr_record_end(&writer, &value.mv_size))
        return EINVAL;
    return mdb_put(txn, meta, &key, &value, 0);
}

/* Ours, of a version that we read? */
static int check_format(struct kd_store *store, MDB_txn *txn, MDB_dbi meta, struct kr_error *error)
{
    MDB_val key = {sizeof(FORMAT) - 1, (void *)(uintptr_t)FORMAT}, value;
    struct kr_reader reader;
    int code = mdb_get(txn, meta, &key, &value), status;

    if (code == MDB_NOTFOUND)
        return kd_store_refuse(error, -EPROTO, store->path,
                               "expected kronosd's state, found other data");
    if (code)
        return kd_store_refuse(error, kd_store_errno(code), store->path, kd_store_text(code));
    status = kr_record_open(value.mv_data, value.mv_size, FORMAT_MAGIC, KD_STORE_FORMAT, &reader);
    if (status == -EPROTO)
        return kd_store_refuse(error, status, store->path,
                               "written by a newer kronosd, whose format this one does not read");
    return status ? kd_store_refuse(error, status, store->path, "damaged: move it away") : 0;
}

/* The tables, made where they are missing. */
static int open_tables(struct kd_store *store, MDB_txn *txn, struct kr_error *error)
{
    MDB_dbi root, *meta = &store->meta;
    MDB_stat stat;
    int status, code = mdb_dbi_open(txn, NULL, 0, &root);

    if (code == 0)
        code = mdb_stat(txn, root, &stat);
    if (code == 0) {
        code = mdb_dbi_open(txn, META, 0, meta);
        if (code == MDB_INCOMPATIBLE || (code == MDB_NOTFOUND && stat.ms_entries > 0))
            return kd_store_refuse(error, -EPROTO, store->path,
                                   "expected kronosd's state, found another program's");
        if (code == 0) {
            status = check_format(store, txn, *meta, error);
            if (status)
                return status;
        } else if (code == MDB_NOTFOUND) {
            code = mdb_dbi_open(txn, META, MDB_CREATE, meta);
            if (code == 0)
                code = write_format(txn, *meta);
        }
    }
    for (int i = 0; i < KD_TABLES && code == 0; i++)
        code = mdb_dbi_open(txn, table_names[i], MDB_CREATE, &store->tables[i]);
    return code ? kd_store_refuse(error, kd_store_errno(code), store->path, kd_store_text(code))
                : 0;
}

static int prepare(struct kd_store *store, bool dry, struct kr_error *error)
{
    MDB_txn *txn;
    int status, code = mdb_txn_begin(store->env, NULL, 0, &txn);

    if (code)
        return kd_store_refuse(error, kd_store_errno(code), store->path, kd_store_text(code));
    status = open_tables(store, txn, error);
    if (status == 0) {
        code = kd_store_walk(store, txn);
        if (code == 0)
            code = kd_store_drop_oldest(store, txn);
        if (code == 0 && dry)
            code = kd_store_try_writing(store, txn);
        if (code == 0 && !dry) {
            code = mdb_txn_commit(txn);
            txn = NULL;
        }
        if (code)
            status = kd_store_refuse(error, kd_store_errno(code), store->path, kd_store_text(code));
    }
    if (txn)
        mdb_txn_abort(txn);
    return status;
}

int kd_store_open_file(struct kd_store *store, bool dry, struct kr_error *error)
{
    int status = open_environment(store, error);

    if (status == 0)
        status = kd_store_lengthen(store, error);
    return status ? status : prepare(store, dry, error);
}

int kd_store_open(const struct kd_store_config *config, struct kd_store **ret,
                  struct kr_error *error)
{
    struct kd_store *store = calloc(1, sizeof(*store));
    int status;

    if (!store)
        return kr_error_set(error, -ENOMEM, "[state] directory: no memory");
    store->config = *config;
    store->lock_fd = -1;
    status = kd_queues_init(store);
    if (status == 0 && asprintf(&store->path, "%s/" KD_STORE_FILE, config->directory) < 0) {
        store->path = NULL;
        status = -ENOMEM;
    }
    if (status)
        kr_error_set(error, status, "[state] directory: no memory for its queues");
    if (status == 0)
        status = lock_directory(store, error);
    if (status == 0)
        status = kd_store_inspect(store, error);
    if (status == 0)
        status = kd_store_open_file(store, false, error);
    if (status) {
        kd_store_close(&store);
        return status;
    }
    *ret = store;
    return 0;
}

void kd_store_close(struct kd_store **store)
{
    if (!*store)
        return;
    if ((*store)->env)
        mdb_env_close((*store)->env);
    if ((*store)->lock_fd >= 0)
        close((*store)->lock_fd);
    kd_queues_free(*store);
    free((*store)->path);
    kr_freep(store);
}

const struct kd_store_counts *kd_store_counts(const struct kd_store *store)
{
    return &store->counts;
}

size_t kd_store_streams(struct kd_store *store)
{
    struct kd_view view = {0};
    MDB_stat stat = {0};

    if (kd_view_begin(store, &view))
        return 0;
    if (mdb_stat(view.txn, store->tables[KD_TABLE_STREAMS], &stat))
        stat.ms_entries = 0;
    kd_view_end(&view);
    return stat.ms_entries;
}

uint64_t kd_store_used_bytes(struct kd_store *store)
{
    MDB_envinfo info;
    MDB_stat stat;

    if (mdb_env_info(store->env, &info) || mdb_env_stat(store->env, &stat))
        return 0;
    return (info.me_last_pgno + 1ULL) * stat.ms_psize;
}

/* Keys */

size_t kd_store_key(const char *interval, const char *symbol, unsigned char *ret)
{
    return (size_t)snprintf((char *)ret, KD_STORE_MAX_KEY, "%s|%s|", interval, symbol);
}

size_t kd_store_key_at(const void *key, size_t key_bytes, int64_t t_ns, unsigned char *ret)
{
    memmove(ret, key, key_bytes);
    for (int i = 0; i < 8; i++) /* big-endian; the sign turned, so that those before 0 come first */
        ret[key_bytes++] = (unsigned char)(((uint64_t)t_ns ^ UINT64_C(1) << 63) >> (56 - 8 * i));
    return key_bytes;
}

/* Views */

int kd_view_begin(struct kd_store *store, struct kd_view *ret)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(store->env, NULL, MDB_RDONLY, &txn);

    if (code)
        return kd_store_errno(code);
    *ret = (struct kd_view){.store = store, .txn = txn};
    return 0;
}

void kd_view_end(struct kd_view *view)
{
    if (view->txn)
        mdb_txn_abort(view->txn);
    view->txn = NULL;
}

int kd_view_get(const struct kd_view *view, enum kd_table table, const void *key, size_t key_bytes,
                const void **ret, size_t *ret_bytes)
{
    MDB_val at = {key_bytes, (void *)(uintptr_t)key}, value;
    int code = mdb_get(view->txn, view->store->tables[table], &at, &value);

    if (code)
        return kd_store_errno(code);
    *ret = value.mv_data;
    *ret_bytes = value.mv_size;
    return 0;
}

int kd_view_each(const struct kd_view *view, enum kd_table table, const void *prefix,
                 size_t prefix_bytes,
                 int (*take)(void *context, const void *value, size_t value_bytes), void *context)
{
    MDB_val key = {prefix_bytes, (void *)(uintptr_t)prefix}, value;
    MDB_cursor *cursor;
    int status = 0, code = mdb_cursor_open(view->txn, view->store->tables[table], &cursor);

    if (code)
        return kd_store_errno(code);
    code = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (code == 0 && status == 0 && key.mv_size >= prefix_bytes &&
           !memcmp(key.mv_data, prefix, prefix_bytes)) {
        status = take(context, value.mv_data, value.mv_size);
        if (status == 0)
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return status ? status : code == 0 || code == MDB_NOTFOUND ? 0 : kd_store_errno(code);
}
