/* SPDX-License-Identifier: MIT */
/* The encoded window of one stream: four caches under one cursor, the tokens and the calendar.
 *
 * encoder, trunk, dependency layer and decoder hold the same rows. Only a window whose lookback exceeds
 * max_context differs: its first `n_skipped` bars are seen by the encoder alone, as in the reference.
 * For a model with an attention window the caches are rings and the window has no end: rows are appended
 * for ever, in constant memory, and rotated by their absolute numbers (mode `rolling`).
 * All memory is taken by kr_state_init(). One thread at a time. */
#ifndef KR_STATE_H
#define KR_STATE_H

#include "core/cache.h"
#include "core/engine.h"
#include "core/model.h"
#include "core/normaliser.h"

enum { KR_CACHE_ENCODER, KR_CACHE_TRUNK, KR_CACHE_DEPENDENCY, KR_CACHE_DECODER, KR_CACHES };

struct kr_state {
    const struct kr_model *model;
    struct kr_cache caches[KR_CACHES];
    size_t len;                        /* rows of the predictor's window */
    size_t n_skipped;                  /* rows that only the encoder saw */
    size_t capacity, encoder_capacity; /* rolling: slots of a ring */
    bool rolling;
    int64_t first;     /* absolute number of the first row; 0 unless rolling */
    uint16_t *s1, *s2; /* [capacity] of the window's rows; rolling: of the block appended last */
    struct kr_stamp *stamps; /* [capacity] likewise */
    struct kr_normaliser normaliser;
    float *h;                  /* [d_model] of the last row */
    float decoded[KR_COLUMNS]; /* the decoder's reading of the last row, normalised */
    bool last_valid;           /* h and decoded are of the last row (not after a truncation) */
};

/* Shape of one of the four caches. */
struct kr_cache_shape kr_cache_shape_of(const struct kr_model *model, int cache);

/* `capacity`: rows of the window; `encoder_capacity` >= capacity: bars of the lookback. A model with an
 * attention window takes rings, whatever these two say. */
size_t kr_state_size_bytes(const struct kr_model *model, size_t capacity, size_t encoder_capacity);
/* Return: 0, -EINVAL, -EOVERFLOW, -ENOMEM. */
int kr_state_init(struct kr_state *state, const struct kr_model *model, size_t capacity,
                  size_t encoder_capacity) kr_must_check;
void kr_state_free(struct kr_state *state);

/* Empty the caches and start a window whose first `n_skipped` bars only the encoder will see. */
void kr_state_reset(struct kr_state *state, const struct kr_normaliser *normaliser,
                    size_t n_skipped);

/* Empty the rings of a model with an attention window; the next row's number is `first`. */
void kr_state_reset_rolling(struct kr_state *state, int64_t first);

/* Encode bars [n] behind the last row, in blocks. Return: 0, -ENOSPC (nothing appended), positive 1 if a
 * value was clipped (appended). */
int kr_state_append(struct kr_state *state, struct kr_engine *engine, const struct kr_bar *bars,
                    size_t n) kr_must_check;
/* The same from normalised rows x [n][6]. */
int kr_state_append_normalised(struct kr_state *state, struct kr_engine *engine, const float *x,
                               const struct kr_stamp *stamps, size_t n) kr_must_check;

/* Drop rows of the window from `len` on, in all four caches. Return: 0, -ERANGE (unchanged): beyond the
 * last row, or rolling and more than KR_RING_SLACK + 1 rows (the caller replays). */
int kr_state_truncate(struct kr_state *state, size_t len) kr_must_check;

/* Make `to` hold the window of `from`, same model. Return: 0, -ENOSPC (contents undefined: reset it). */
int kr_state_copy(struct kr_state *to, const struct kr_state *from) kr_must_check;

/* Cheap, always on: shapes, capacities, one cursor. Return: 0, or -EUCLEAN with a line. */
int kr_state_check(const struct kr_state *state, struct kr_error *error) kr_must_check;

#endif
