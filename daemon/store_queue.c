/* SPDX-License-Identifier: MIT */
/* Changes that wait, and the thread that commits them. */
#include "core/record.h"
#include "daemon/clock.h"
#include "daemon/store_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum kind { PUT, KEEP, DROP, LOST };

/* One operation; its key and value, or the two times, follow. The next begins aligned behind them. */
struct operation {
    size_t bytes; /* with all that */
    size_t key_bytes, value_bytes;
    enum kind kind;
    enum kd_table table;
    atomic_bool *lost; /* of LOST: to be set if the group fails */
};

static size_t operation_bytes(size_t key_bytes, size_t value_bytes)
{
    return kr_round_up(sizeof(struct operation) + key_bytes + value_bytes,
                       _Alignof(struct operation));
}

size_t kd_store_put_bytes(size_t key_bytes, size_t value_bytes)
{
    return operation_bytes(key_bytes, value_bytes);
}
_Static_assert(sizeof(struct operation) + KD_STORE_MAX_KEY + 2 * sizeof(int64_t) + 16 <=
                   KD_STORE_KEEP_BYTES,
               "raise KD_STORE_KEEP_BYTES");
_Static_assert(sizeof(struct operation) + KD_STORE_MAX_KEY + KR_RECORD_FRAME + 8 + 16 <=
                   KD_STORE_STREAM_BYTES,
               "raise KD_STORE_STREAM_BYTES");

int kd_queues_init(struct kd_store *store)
{
    pthread_condattr_t attributes;

    pthread_mutex_init(&store->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&store->wake, &attributes);
    pthread_cond_init(&store->room, &attributes);
    pthread_condattr_destroy(&attributes);
    for (int i = 0; i < 2; i++) {
        store->queues[i].size = store->config.queue_bytes;
        store->queues[i].bytes = malloc(store->config.queue_bytes);
    }
    store->front = &store->queues[0];
    return store->queues[0].bytes && store->queues[1].bytes ? kd_crew_init(&store->crew, 1)
                                                            : -ENOMEM;
}

void kd_queues_free(struct kd_store *store)
{
    kd_crew_free(&store->crew);
    free(store->queues[0].bytes);
    free(store->queues[1].bytes);
    pthread_cond_destroy(&store->room);
    pthread_cond_destroy(&store->wake);
    pthread_mutex_destroy(&store->lock);
}

/* Filling */

static bool wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t end_ns)
{
    const struct timespec until = {.tv_sec = end_ns / INT64_C(1000000000),
                                   .tv_nsec = end_ns % INT64_C(1000000000)};

    return pthread_cond_timedwait(condition, lock, &until) == 0;
}

/* The end of a batch is one operation more: whom to tell. */
#define TAIL operation_bytes(0, 0)

bool kd_store_begin(struct kd_store *store, size_t bytes, int64_t end_ns, struct kd_batch *ret)
{
    struct kd_queue *queue;
    bool fits;

    bytes += TAIL;
    pthread_mutex_lock(&store->lock);
    do
        fits = store->front->size - store->front->used >= bytes;
    while (!fits && end_ns && bytes <= store->front->size &&
           wait_until(&store->room, &store->lock, end_ns));
    queue = store->front;
    if (fits) {
        ret->store = store;
        ret->queue = queue;
        ret->at = queue->bytes + queue->used;
        ret->end = ret->at + bytes;
        queue->used += bytes;
        queue->n_open++;
    }
    pthread_mutex_unlock(&store->lock);
    if (!fits)
        atomic_fetch_add(&store->counts.refused, 1);
    return fits;
}

static struct operation *begin(struct kd_batch *batch, enum kind kind, enum kd_table table,
                               size_t key_bytes, size_t value_bytes)
{
    struct operation *operation = (struct operation *)(void *)batch->at;
    size_t bytes = operation_bytes(key_bytes, value_bytes);

    assert(bytes <= (size_t)(batch->end - batch->at));
    *operation = (struct operation){.bytes = bytes,
                                    .key_bytes = key_bytes,
                                    .value_bytes = value_bytes,
                                    .kind = kind,
                                    .table = table};
    batch->at += bytes;
    return operation;
}

void *kd_batch_put(struct kd_batch *batch, enum kd_table table, const void *key, size_t key_bytes,
                   size_t value_bytes)
{
    struct operation *operation = begin(batch, PUT, table, key_bytes, value_bytes);
    unsigned char *at = (unsigned char *)(operation + 1);

    memcpy(at, key, key_bytes);
    return at + key_bytes;
}

void kd_batch_keep(struct kd_batch *batch, enum kd_table table, const void *prefix,
                   size_t prefix_bytes, int64_t from_ns, int64_t to_ns)
{
    const int64_t range[2] = {from_ns, to_ns};
    struct operation *operation = begin(batch, KEEP, table, prefix_bytes, sizeof(range));
    unsigned char *at = (unsigned char *)(operation + 1);

    memcpy(at, prefix, prefix_bytes);
    memcpy(at + prefix_bytes, range, sizeof(range));
}

void kd_batch_drop(struct kd_batch *batch, const void *key, size_t key_bytes)
{
    memcpy(begin(batch, DROP, KD_TABLES, key_bytes, 0) + 1, key, key_bytes);
}

void kd_batch_stream(struct kd_batch *batch, const void *key, size_t key_bytes, int64_t wall_ns)
{
    const size_t n = KR_RECORD_FRAME + 8;
    void *value = kd_batch_put(batch, KD_TABLE_STREAMS, key, key_bytes, n);
    struct kr_writer writer = kr_record_begin(value, n, KD_STREAM_MAGIC, KD_STREAM_VERSION);
    size_t written;
    int status;

    kr_write_i64(&writer, wall_ns);
    status = kr_record_end(&writer, &written);
    assert(status == 0 && written == n);
    (void)status;
}

void kd_store_submit(struct kd_batch *batch, atomic_bool *lost)
{
    struct kd_store *store = batch->store;
    struct kd_queue *queue = batch->queue;
    struct operation *tail = begin(batch, LOST, KD_TABLES, 0, 0);

    tail->lost = lost;
    tail->bytes += (size_t)(batch->end - batch->at); /* what was not used */
    atomic_fetch_add(&store->counts.submitted, 1);
    pthread_mutex_lock(&store->lock);
    if (queue->n_batches++ == 0)
        store->first_ns = kd_mono_ns();
    queue->n_open--;
    pthread_cond_signal(&store->wake);
    pthread_mutex_unlock(&store->lock);
}

/* Committing, in the store's own thread */

/* Rows of a prefix whose time, the 8 bytes behind it, is outside of the range. */
static int keep(MDB_txn *txn, MDB_dbi table, const unsigned char *prefix, size_t n_bytes,
                const int64_t range[2])
{
    MDB_val key = {n_bytes, (void *)(uintptr_t)prefix}, value;
    MDB_cursor *cursor;
    int code = mdb_cursor_open(txn, table, &cursor);

    if (code)
        return code;
    code = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (code == 0 && key.mv_size == n_bytes + 8 && !memcmp(key.mv_data, prefix, n_bytes)) {
        const unsigned char *at = (const unsigned char *)key.mv_data + n_bytes;
        uint64_t t = 0;

        for (int i = 0; i < 8; i++)
            t = t << 8 | at[i];
        t ^= UINT64_C(1) << 63;
        if ((int64_t)t >= range[0] && (int64_t)t <= range[1]) {
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
            continue;
        }
        code = mdb_cursor_del(cursor, 0);
        if (code == 0) /* it stands where the next row is now */
            code = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
    }
    mdb_cursor_close(cursor);
    return code == MDB_NOTFOUND ? 0 : code;
}

static int apply(struct kd_store *store, MDB_txn *txn, const struct operation *operation)
{
    unsigned char *at = (unsigned char *)(uintptr_t)(operation + 1);
    MDB_val key = {operation->key_bytes, at};
    MDB_val value = {operation->value_bytes, at + operation->key_bytes};
    int64_t range[2];
    int code = 0;

    switch (operation->kind) {
    case PUT:
        return mdb_put(txn, store->tables[operation->table], &key, &value, 0);
    case KEEP:
        memcpy(range, value.mv_data, sizeof(range));
        return keep(txn, store->tables[operation->table], at, operation->key_bytes, range);
    case DROP:
        for (int table = 0; table < KD_TABLES && code == 0; table++)
            code = kd_store_drop(txn, store->tables[table], at, operation->key_bytes);
        return code;
    case LOST:
        break;
    }
    return 0;
}

#define FOR_EACH(operation, queue)                                                                 \
    for (const struct operation *operation = (void *)(queue)->bytes;                               \
         (const unsigned char *)operation < (queue)->bytes + (queue)->used;                        \
         operation = (const void *)((const unsigned char *)operation + operation->bytes))

static int commit(struct kd_store *store, const struct kd_queue *queue)
{
    MDB_txn *txn;
    int code = mdb_txn_begin(store->env, NULL, 0, &txn);

    if (code)
        return code;
    FOR_EACH(operation, queue)
    {
        code = apply(store, txn, operation);
        if (code) {
            mdb_txn_abort(txn);
            return code;
        }
    }
    return mdb_txn_commit(txn);
}

/* Pages that a commit frees are there for the second one behind it; a failed one does not count.
 * Where all fail for want of pages, this is the small one that brings the freed ones back. */
static int turn(struct kd_store *store)
{
    uint64_t now = (uint64_t)kd_mono_ns();
    MDB_val key = {4, (void *)(uintptr_t) "turn"}, value = {sizeof(now), &now};
    MDB_txn *txn;
    int code = mdb_txn_begin(store->env, NULL, 0, &txn);

    if (code)
        return code;
    code = mdb_put(txn, store->meta, &key, &value, 0);
    if (code == 0)
        return mdb_txn_commit(txn);
    mdb_txn_abort(txn);
    return code;
}

static void commit_group(struct kd_store *store, struct kd_queue *queue)
{
    int code = commit(store, queue);

    if (code == MDB_MAP_FULL && turn(store) == 0 && turn(store) == 0)
        code = commit(store, queue);
    if (code == 0) {
        atomic_fetch_add(&store->counts.committed, queue->n_batches);
        atomic_fetch_add(&store->counts.commits, 1);
        return;
    }
    pthread_mutex_lock(&store->lock);
    snprintf(store->fault, sizeof(store->fault), "%s: %s", store->path,
             code == MDB_MAP_FULL ? "larger than was planned for [limits] symbols"
                                  : mdb_strerror(code));
    pthread_mutex_unlock(&store->lock);
    FOR_EACH(operation, queue)
    if (operation->kind == LOST && operation->lost)
        atomic_store(operation->lost, true);
    atomic_fetch_add(&store->counts.lost, queue->n_batches);
    atomic_fetch_add(&store->counts.failures, 1);
}

/* When the front is to be committed; INT64_MAX: nothing waits. Under the lock. */
static int64_t due_ns(const struct kd_store *store)
{
    const struct kd_queue *queue = store->front;

    if (queue->n_batches == 0)
        return INT64_MAX;
    if (store->stop || store->config.sync == KD_SYNC_ALWAYS || queue->used >= queue->size / 2)
        return 0;
    return store->first_ns + KD_STORE_INTERVAL_NS;
}

static void *work(void *argument)
{
    struct kd_store *store = argument;

    pthread_mutex_lock(&store->lock);
    for (;;) {
        struct kd_queue *queue = store->front;
        int64_t due = due_ns(store);

        if (store->stop && queue->n_batches == 0 && queue->n_open == 0)
            break;
        if (due > kd_mono_ns()) {
            if (due == INT64_MAX)
                pthread_cond_wait(&store->wake, &store->lock);
            else
                (void)wait_until(&store->wake, &store->lock, due);
            continue;
        }
        store->front = queue == &store->queues[0] ? &store->queues[1] : &store->queues[0];
        pthread_cond_broadcast(&store->room);
        while (queue->n_open > 0) /* packing, which waits for nothing */
            pthread_cond_wait(&store->wake, &store->lock);
        pthread_mutex_unlock(&store->lock);
        commit_group(store, queue);
        pthread_mutex_lock(&store->lock);
        queue->used = queue->n_batches = 0;
    }
    pthread_mutex_unlock(&store->lock);
    if (store->config.sync == KD_SYNC_OFF)
        (void)mdb_env_sync(store->env, 1); /* an orderly end is no power loss */
    kd_crew_leave(&store->crew);
    return NULL;
}

int kd_store_start(struct kd_store *store)
{
    return kd_crew_start(&store->crew, work, store);
}

bool kd_store_stop(struct kd_store *store, int64_t end_ns)
{
    pthread_mutex_lock(&store->lock);
    store->stop = true;
    pthread_cond_broadcast(&store->wake);
    pthread_mutex_unlock(&store->lock);
    return kd_crew_join(&store->crew, end_ns);
}

void kd_store_fault(struct kd_store *store, char *ret, size_t size)
{
    pthread_mutex_lock(&store->lock);
    snprintf(ret, size, "%s", store->fault);
    pthread_mutex_unlock(&store->lock);
}
