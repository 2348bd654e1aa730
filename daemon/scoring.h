/* SPDX-License-Identifier: MIT */
/* A stream's forecasts held against what came of them: the worker's side of core/trust.h.
 *
 * For every bar, before it enters the window's state: what falls due is scored and learned from, and
 * a message is made for each score. For every forecast: it is read in the light of what was learned,
 * and remembered until its bars come. Belongs to the worker that owns the stream's lane. */
#ifndef KD_SCORING_H
#define KD_SCORING_H

#include "core/live.h"
#include "core/trust.h"
#include "daemon/config.h"
#include "daemon/job.h"

#include <msgpack.h>

/* Forecasts remembered at most. Longer horizons than this allows for are scored for every n-th bar
 * only, so that memory grows with the horizon and not with its square. */
#define KD_SCORING_KEPT 64

struct kd_scoring {
    bool made; /* trust is there */
    struct kr_trust trust;
    size_t spacing;           /* forecasts behind rows that this divides are remembered */
    int64_t shift;            /* the trust's rows are the window's and this */
    bool aligned;             /* it is known; not so behind kd_scoring_resumed() */
    uint64_t seq;             /* of the last score message */
    msgpack_sbuffer messages; /* of the scores since they were last taken: kd_scoring_next() */
};

/* What the settings ask of the trust; *ret_spacing as above, may be NULL. */
struct kr_pending_size kd_scoring_size(const struct kd_settings *settings, size_t *ret_spacing);
/* Bytes for one stream: the trust, and the messages of one bar twice. 0 on overflow. */
size_t kd_scoring_bytes(const struct kd_settings *settings);

/* Return: 0, or a negative errno with a line. */
int kd_scoring_make(struct kd_scoring *scoring, const struct kr_model *model,
                    const struct kr_live_config *live, const struct kd_settings *settings,
                    struct kr_error *error) kr_must_check;
/* Forget the stream; numbers and messages go on. */
void kd_scoring_forget(struct kd_scoring *scoring);
void kd_scoring_free(struct kd_scoring *scoring);

/* Other settings. Return: true if what was learned does not hold for them: it began anew. */
bool kd_scoring_configure(struct kd_scoring *scoring, const struct kr_model *model,
                          const struct kr_live_config *live, const struct kd_settings *settings);

/* The trust is that of an earlier run, whose bars may come again: those that it has seen score only
 * what still waits for them, and forecasts behind older ones are read, not remembered. Rows go on
 * where they were. */
void kd_scoring_resumed(struct kd_scoring *scoring);

/* Whose scores they are. */
struct kd_scored {
    const char *symbol, *interval;
    uint64_t ep;
};

/* A bar, before it enters the state as number `row`. A message that finds no memory is lost, as its
 * number shows. */
void kd_scoring_bar(struct kd_scoring *scoring, const struct kd_scored *whose,
                    const struct kd_job *job, int64_t row);

/* A forecast: its calibrated reading, valid until the next call. `final`: one to be scored; not so
 * behind a bar that is still forming. Return: as kr_trust_forecast(). */
int kd_scoring_forecast(struct kd_scoring *scoring, const struct kr_published *published,
                        bool final, const struct kr_pending_entry **ret) kr_must_check;

/* The messages in a buffer that was taken, one by one: *at starts at 0. Return: the next one with
 * its number and length, NULL behind the last. */
const void *kd_scoring_next(const msgpack_sbuffer *messages, size_t *at, uint64_t *ret_seq,
                            size_t *ret_bytes);

#endif
