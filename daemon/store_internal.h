/* SPDX-License-Identifier: MIT */
/* What the store's files share: the open environment, and the queue in front of it. */
#ifndef KD_STORE_INTERNAL_H
#define KD_STORE_INTERNAL_H

#include "daemon/crew.h"
#include "daemon/store.h"

#include <lmdb.h>

/* The value in KD_TABLE_STREAMS: wall clock i64. */
#define KD_STREAM_MAGIC   0x5453444cu /* "LDST" */
#define KD_STREAM_VERSION 1

/* One of two: workers append to the one in front, the thread commits the other. */
struct kd_queue {
    unsigned char *bytes; /* [size] operations, in the order in which room was given */
    size_t size, used;
    size_t n_open;    /* begun, not submitted */
    size_t n_batches; /* submitted */
};

struct kd_store {
    struct kd_store_config config;
    char *path;
    int lock_fd; /* of the directory */
    MDB_env *env;
    MDB_dbi meta, tables[KD_TABLES];
    struct kd_store_counts counts;

    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t wake;  /* something waits, or `stop` */
    pthread_cond_t room;  /* the front is empty, or a batch was submitted */
    struct kd_queue queues[2], *front;
    int64_t first_ns; /* when the front ceased to be empty */
    bool stop;
    char fault[160];
    struct kd_crew crew;
};

/* store.c */

/* A negative errno for what LMDB returned, which is not 0. */
int kd_store_errno(int code);

/* LMDB's text, and what to do. */
const char *kd_store_text(int code);
/* Set "[state] directory: path: why". Return: status. */
int kd_store_refuse(struct kr_error *error, int status, const char *path, const char *why);
/* Open the environment and its tables, and check them. `dry`: nothing is written to them. */
int kd_store_open_file(struct kd_store *store, bool dry, struct kr_error *error) kr_must_check;

/* store_check.c; those that take a transaction return LMDB's codes. */

/* Let a child open, read and change the whole file without keeping anything; what becomes of it is
 * the answer. Return: 0, -EBADMSG with a line. */
int kd_store_inspect(struct kd_store *store, struct kr_error *error) kr_must_check;
/* Make up for a file that was cut off. Return: 0, a negative errno with a line. */
int kd_store_lengthen(struct kd_store *store, struct kr_error *error) kr_must_check;
int kd_store_walk(struct kd_store *store, MDB_txn *txn);
/* At both ends of each table; for a transaction that is not committed. */
int kd_store_try_writing(struct kd_store *store, MDB_txn *txn);
/* All rows whose keys begin with the prefix. */
int kd_store_drop(MDB_txn *txn, MDB_dbi table, const void *prefix, size_t n_bytes);
int kd_store_drop_oldest(struct kd_store *store, MDB_txn *txn);

/* store_queue.c */

int kd_queues_init(struct kd_store *store) kr_must_check;
void kd_queues_free(struct kd_store *store);

#endif
