/* SPDX-License-Identifier: MIT */
/* The daemon's state on disk as a whole: opened at the start, watched each second, completed at the
 * end. Main thread only. Without [state] directory everything here does nothing. */
#ifndef KD_KEEPER_H
#define KD_KEEPER_H

#include "clients/wire.h"

struct kd_daemon;

/* Before any thread is there: a child reads the file first. Return: 0, or a negative errno with a
 * line. */
int kd_keeper_open(struct kd_daemon *daemon, struct kr_error *error) kr_must_check;
/* Begin to commit. Return: 0, or a negative errno with a line. */
int kd_keeper_start(struct kd_daemon *daemon, struct kr_error *error) kr_must_check;

/* Once a second: say that writing fails, or works again; let streams whose changes were not taken
 * or not committed try again, while it fails every KD_KEEPER_RETRY_NS only. */
void kd_keeper_second(struct kd_daemon *daemon, int64_t now_ns);
#define KD_KEEPER_RETRY_NS INT64_C(2000000000)

/* When the workers have ended: what is left of every stream, then the end of the store's thread, at
 * most until end_ns (monotonic). Return: true, or false if it has not ended. */
bool kd_keeper_finish(struct kd_daemon *daemon, int64_t end_ns);

/* What status messages tell of it. Return: how many of ret, 0 where nothing is kept. */
#define KD_KEEPER_COUNTS 12
size_t kd_keeper_counts(const struct kd_daemon *daemon, struct kw_count ret[KD_KEEPER_COUNTS]);

#endif
