/* SPDX-License-Identifier: MIT */
/* From a message of the feed to a job of a stream: decode, admit, order, count, report. Every message ends in
 * exactly one counter. Main thread only. */
#ifndef KD_INTAKE_H
#define KD_INTAKE_H

#include "daemon/daemon.h"

/* For struct kd_feed. */
void kd_intake_take(void *daemon, const void *data, size_t n_bytes, bool too_large);
void kd_intake_rest(void *daemon);
/* Let the feed go on if enough waiting bars are gone. */
void kd_intake_resume(void *daemon);

/* What became of loaded history. */
struct kd_loaded {
    uint64_t accepted, duplicates, rejected;
    enum kw_reason first_reason; /* of those rejected */
};

/* Bars of history, t_ns [n] open times in any order, v [n][KR_COLUMNS] (NaN: missing volume or amount). The
 * stream is admitted if it is new. `more`: others follow, so nothing is forecast yet.
 * Return: KW_ACCEPTED, or why the stream was refused. */
enum kw_reason kd_intake_load(struct kd_daemon *daemon, const char *symbol,
                              const struct kr_interval *interval, const int64_t *t_ns,
                              const double (*v)[KR_COLUMNS], size_t n, bool more,
                              struct kd_loaded *ret, struct kr_error *error);

/* Forecast behind the stream's last bar, unless that is under way. */
void kd_intake_forecast(struct kd_daemon *daemon, struct kd_stream *stream);

/* Forget the stream's bars, forecast and fault. Return: 0, -ENOMEM. */
int kd_intake_reset(struct kd_daemon *daemon, struct kd_stream *stream) kr_must_check;

#endif
