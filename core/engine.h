/* SPDX-License-Identifier: MIT */
/* One worker's scratch, and the three things it computes: rows through the tokenizer's encoder, rows
 * through the predictor, rows through the tokenizer's decoder.
 *
 * Every function takes up to KR_ENGINE_ROWS rows that may belong to any streams and paths; a row's result
 * depends on that row and what it sees alone. All memory is taken by kr_engine_init(); an engine serves
 * one thread at a time, any number of streams. */
#ifndef KR_ENGINE_H
#define KR_ENGINE_H

#include "core/attend.h"
#include "core/bar.h"
#include "core/cache.h"
#include "core/kernels.h"
#include "core/model.h"

#define KR_ENGINE_ROWS 64 /* a multiple of KR_BLOCK_ROWS */

/* What the time of an engine goes into. */
enum kr_phase {
    KR_PHASE_OTHER, /* norms, rotation, activations, copies; whatever the caller does */
    KR_PHASE_PRODUCTS,
    KR_PHASE_ATTENTION,
    KR_PHASE_SAMPLING,
    KR_PHASES,
};

struct kr_engine {
    const struct kr_model *model;
    const struct kr_kernels *kernels;
    size_t max_visible;   /* rows that one row may see */
    float *x;             /* [rows][width]: the residual stream */
    float *normed;        /* [rows][width] */
    float *q, *k, *v;     /* [rows][width] */
    float *wide1, *wide2; /* [rows][max(ff, 2 d_model)] */
    float *cosine, *sine; /* [rows][max head_dim / 2] */
    float *scores;        /* [kr_attend_scratch()] */
    float *logits;        /* [rows][vocabulary] */
    float *p;             /* [vocabulary] */
    uint32_t *order;      /* [vocabulary] */
    size_t width;
    struct kr_view *views; /* [rows], for callers that build them */
    void *memory;
    /* For measurements, set by who makes them: called in the engine's thread where a phase begins, OTHER
     * when one ends. NULL after kr_engine_init(): libkronos itself reads no clock. */
    void (*probe)(void *context, enum kr_phase phase);
    void *probe_context;
};

/* A phase begins. One branch that is never taken where nothing is measured. */
static inline void kr_phase(const struct kr_engine *engine, enum kr_phase phase)
{
    if (__builtin_expect(engine->probe != NULL, 0))
        engine->probe(engine->probe_context, phase);
}

/* `max_visible`: rows of the longest window that a row sees; at least the model's attention window is
 * provided for. */
size_t kr_engine_size_bytes(const struct kr_model *model, size_t max_visible);
int kr_engine_init(struct kr_engine *engine, const struct kr_model *model,
                   size_t max_visible) kr_must_check;
void kr_engine_free(struct kr_engine *engine);

/* Encoder: x [n][6] normalised -> token ids [n]; z [n][n_bits] (before the sign, normalised to unit length)
 * if not NULL. K and V go to views[i].own; the caller moves the cursors. */
void kr_encode_rows(struct kr_engine *engine, const struct kr_view *views, const float *x, size_t n,
                    uint16_t *ret_s1, uint16_t *ret_s2, float *ret_z);

/* Predictor trunk: ids, calendar [n] -> h [n][d_model] in engine->normed until the next call. */
void kr_predict_rows(struct kr_engine *engine, const struct kr_view *views, const uint16_t *s1,
                     const uint16_t *s2, const struct kr_stamp *stamps, size_t n);
/* K and V of the dependency layer for the rows in engine->normed, into views[i].own. */
void kr_dependency_rows(struct kr_engine *engine, const struct kr_view *views, size_t n);

/* s1 logits of hidden rows h [n][h_stride], into engine->logits [n][vocabulary]. */
void kr_s1_logits(struct kr_engine *engine, const float *h, size_t h_stride, size_t n);
/* s2 logits given the drawn s1 [n]: views (of the dependency cache) say which rows of h are attended to,
 * h [n][h_stride] is each row's last hidden row. Into engine->logits. */
void kr_s2_logits(struct kr_engine *engine, const struct kr_view *views, const uint16_t *s1,
                  const float *h, size_t h_stride, size_t n);

/* Decoder: ids [n] -> y [n][6] normalised; y may be NULL when only K and V matter. */
void kr_decode_rows(struct kr_engine *engine, const struct kr_view *views, const uint16_t *s1,
                    const uint16_t *s2, size_t n, float *ret_y);

#endif
