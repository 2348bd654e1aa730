/* SPDX-License-Identifier: MIT */
/* All streams, by symbol and interval: look-up, admission, settings. Streams stay until the end. Main thread
 * only. */
#ifndef KD_STREAMS_H
#define KD_STREAMS_H

#include "daemon/stream.h"

struct kd_streams {
    struct kd_stream **all; /* [n] in order of admission */
    size_t n, max;
    struct kd_stream **slots; /* [n_slots] chained */
    size_t n_slots;
};

int kd_streams_init(struct kd_streams *streams, size_t max) kr_must_check;
void kd_streams_free(struct kd_streams *streams);

/* NULL if there is none. */
struct kd_stream *kd_streams_find(const struct kd_streams *streams, const char *symbol,
                                  const char *interval);

/* What admits a stream. */
struct kd_admission {
    struct kd_config *config;
    const struct kr_model *model;
    struct kd_publish *publish; /* its topics are made there */
    struct kr_pool *spares;     /* of every window; may be NULL */
    struct kd_store *store;     /* NULL: nothing is kept */
};

/* A new stream; it must not exist. Return: KW_ACCEPTED; KW_NOT_ALLOWED; KW_TOO_MANY_SYMBOLS (the limit, or no
 * memory: the line says so). */
enum kw_reason kd_streams_admit(struct kd_streams *streams, const struct kd_admission *admission,
                                const char *symbol, const struct kr_interval *interval,
                                struct kd_stream **ret, struct kr_error *error);

#endif
