/* SPDX-License-Identifier: MIT */
/* What outlives the daemon: one LMDB environment, `state.mdb` in [state] directory.
 *
 * The file. Named tables of byte strings; keys begin with "iv|sym|", so that a stream's rows stand
 * together, times behind them are big-endian with the sign bit turned, so that they sort. Values are
 * records of core/record.h, each with its own magic, version and CRC. The table `meta` holds the
 * format of the whole: a newer one is refused; a table that this version does not know is left
 * alone, so that later versions add tables without another format.
 *
 * Who writes. LMDB has one writer at a time, and a commit may wait for the disk, which no worker
 * may. So workers pack their changes into a queue in memory (kd_store_begin() to
 * kd_store_submit()) and one thread of the store's own commits all that waits as one transaction:
 *   always    as soon as something waits; on the disk before the next group is begun
 *   interval  at most KD_STORE_INTERVAL_NS after the first change, or when half of the queue is
 *             full; on the disk with each commit, in the order that cannot corrupt the file
 *   off       as `interval`, but the system writes when it likes: a power loss may corrupt the file
 * What is submitted together is committed together or not at all. The end of the process alone,
 * even by SIGKILL, corrupts nothing under any of them.
 *
 * When it fails. A group that cannot be committed (no space, the map is full, an input error) is
 * lost as a whole and counted; the database keeps the state before it, and whoever submitted to it
 * finds his flag set and submits everything again later. A queue without room refuses, likewise.
 *
 * Memory: two queues of queue_bytes, taken at the open; LMDB itself takes as much again while it
 * commits. The map is of the file: its pages are the system's cache, not the process's. */
#ifndef KD_STORE_H
#define KD_STORE_H

#include "core/base.h"

#include <stdatomic.h>

#define KD_STORE_FILE        "state.mdb"
#define KD_STORE_FORMAT      1
#define KD_STORE_INTERVAL_NS INT64_C(1000000000)
#define KD_STORE_MAX_KEY     96 /* bytes */
/* Threads that may look at once. */
#define KD_STORE_READERS 126

enum kd_sync { KD_SYNC_ALWAYS, KD_SYNC_INTERVAL, KD_SYNC_OFF };

enum kd_table {
    KD_TABLE_STREAMS,       /* iv|sym| -> when it was last written */
    KD_TABLE_CALIBRATION,   /* iv|sym| -> kr_trust_pack() */
    KD_TABLE_PENDING,       /* iv|sym|as_of -> kr_pending_pack_entry() */
    KD_TABLE_PENDING_STATE, /* iv|sym| -> kr_pending_pack_state() */
    KD_TABLES
};

struct kd_store_config {
    const char *directory; /* made if it is missing and its parent is there */
    enum kd_sync sync;
    size_t map_bytes;   /* the file never grows beyond it; one that is larger already stays so */
    size_t queue_bytes; /* of each of the two queues */
    size_t max_streams; /* when it is opened, the least lately written beyond these are dropped */
};

/* Any thread may read them. */
struct kd_store_counts {
    atomic_uint_fast64_t submitted, committed, lost; /* what kd_store_submit() took */
    atomic_uint_fast64_t commits, failures;          /* groups */
    atomic_uint_fast64_t refused;                    /* by kd_store_begin() */
    atomic_uint_fast64_t dropped;                    /* streams, when it was opened */
};

struct kd_store;

/* Open the file, make it if it is missing, and lock the directory against a second daemon. A file
 * that is there is read through first, in a child: LMDB trusts its pages, and a damaged one may be
 * the end of who reads it. (Damage that only a later change meets is not found.)
 * Return: 0, or a negative errno with a line that names the directory or file: -EBUSY (another
 * daemon), -EBADMSG (damaged or cut off), -EPROTO (another program's file, or a newer format),
 * -ENOSPC, -EACCES and others of the system. Nothing is left behind but what was there, or an empty
 * file. */
int kd_store_open(const struct kd_store_config *config, struct kd_store **ret,
                  struct kr_error *error) kr_must_check;
/* The thread must have ended, or never begun: what waits still is thrown away. Accepts NULL. */
void kd_store_close(struct kd_store **store);

/* Begin to commit. Return: 0, or a negative errno. */
int kd_store_start(struct kd_store *store) kr_must_check;
/* Commit what waits, sync, and end the thread until end_ns (monotonic). Return: true, or false if
 * it has not ended. */
bool kd_store_stop(struct kd_store *store, int64_t end_ns);

const struct kd_store_counts *kd_store_counts(const struct kd_store *store);
/* Why the last failed group failed, into ret [size]; "" if none has. Any thread. */
void kd_store_fault(struct kd_store *store, char *ret, size_t size);
/* Streams in the file. */
size_t kd_store_streams(struct kd_store *store);
/* Bytes of the file that are in use. */
uint64_t kd_store_used_bytes(struct kd_store *store);

/* Changes that are committed together. Any thread; begun and submitted by the same. */

struct kd_batch {
    struct kd_store *store;
    struct kd_queue *queue;
    unsigned char *at, *end;
};

/* Queue bytes that a put of these sizes takes. */
size_t kd_store_put_bytes(size_t key_bytes, size_t value_bytes);
#define KD_STORE_KEEP_BYTES   256 /* of kd_batch_keep() */
#define KD_STORE_STREAM_BYTES 256 /* of kd_batch_stream() */
/* Room for operations of `bytes` in all. Waits for room until end_ns (monotonic), 0: not at all.
 * Return: false without (counted); kd_store_submit() follows otherwise, soon. */
bool kd_store_begin(struct kd_store *store, size_t bytes, int64_t end_ns, struct kd_batch *ret);
/* Put a record. Return: where its value is to be written now. Asserts that there is room. */
void *kd_batch_put(struct kd_batch *batch, enum kd_table table, const void *key, size_t key_bytes,
                   size_t value_bytes);
/* Delete everything of a stream. Takes KD_STORE_KEEP_BYTES. */
void kd_batch_drop(struct kd_batch *batch, const void *key, size_t key_bytes);
/* Note that the stream of this key was written at wall_ns. Takes KD_STORE_STREAM_BYTES. */
void kd_batch_stream(struct kd_batch *batch, const void *key, size_t key_bytes, int64_t wall_ns);
/* Delete the rows of a stream whose time is outside [from_ns, to_ns]; all if from_ns > to_ns. */
void kd_batch_keep(struct kd_batch *batch, enum kd_table table, const void *prefix,
                   size_t prefix_bytes, int64_t from_ns, int64_t to_ns);
/* `lost` is set, now or later, if this is not committed; NULL if nobody asks. It must outlive the
 * store's thread. */
void kd_store_submit(struct kd_batch *batch, atomic_bool *lost);

/* "iv|sym|" into ret [KD_STORE_MAX_KEY]. Return: its length. */
size_t kd_store_key(const char *interval, const char *symbol, unsigned char *ret);
/* A stream's key with a time behind it, likewise; rising times are rising keys. */
size_t kd_store_key_at(const void *key, size_t key_bytes, int64_t t_ns, unsigned char *ret);

/* Looking at what is committed. Any thread; one moment of the database from begin to end. */

struct kd_view {
    struct kd_store *store;
    struct MDB_txn *txn;
};
int kd_view_begin(struct kd_store *store, struct kd_view *ret) kr_must_check;
void kd_view_end(struct kd_view *view);
/* Return: 0 with the value, in the map, until the end; -ENOENT; -EIO. */
int kd_view_get(const struct kd_view *view, enum kd_table table, const void *key, size_t key_bytes,
                const void **ret, size_t *ret_bytes) kr_must_check;
/* Rows whose keys begin with the prefix, in rising order, until `take` returns other than 0.
 * Return: that, 0, or -EIO. */
int kd_view_each(const struct kd_view *view, enum kd_table table, const void *prefix,
                 size_t prefix_bytes,
                 int (*take)(void *context, const void *value, size_t value_bytes), void *context);

#endif
