/* SPDX-License-Identifier: MIT */
/* The model once more, plainly: every step recomputes the whole window from its tokens, with arrays of its
 * own. It shares the product and the elementwise kernels with libkronos, and no cache, view, engine or
 * generator code; rows go through the product one at a time. A model's attention window is honoured. Slow;
 * for tests of row purity. */
#ifndef KT_REFERENCE_H
#define KT_REFERENCE_H

#include "core/bar.h"
#include "core/filter.h"
#include "core/model.h"
#include "core/normaliser.h"

/* Absolute number of the first row of every window below, 0 until it is set. */
extern int64_t kt_ref_first_row;

/* K and V of every row of a stack, [layer][row][n_heads * head_dim], K rotated. */
struct kt_kv {
    size_t n_layers, n_rows, width;
    float *k, *v;
};
void kt_kv_free(struct kt_kv *kv);

/* Encoder over x [n][6] -> ids [n]; kv may be NULL. */
void kt_ref_encode(const struct kr_model *model, const float *x, size_t n, uint16_t *ret_s1,
                   uint16_t *ret_s2, struct kt_kv *ret_kv);
/* Predictor over tokens [n] -> h [n][d_model]; kv of the trunk and of the dependency layer may be NULL. */
void kt_ref_predict(const struct kr_model *model, const uint16_t *s1, const uint16_t *s2,
                    const struct kr_stamp *stamps, size_t n, float *ret_h, struct kt_kv *ret_trunk,
                    struct kt_kv *ret_dependency);
/* Decoder over tokens [n] -> y [n][6]. */
void kt_ref_decode(const struct kr_model *model, const uint16_t *s1, const uint16_t *s2, size_t n,
                   float *ret_y, struct kt_kv *ret_kv);

/* One path behind bars [n] that are normalised already: tokens [horizon] and bars [horizon][6]. */
struct kt_ref_request {
    const float *x;                /* [n][6] */
    const struct kr_stamp *stamps; /* [n] */
    const struct kr_stamp *future; /* [horizon] */
    size_t n, horizon,
        max_context; /* of a model with an attention window max_context has no meaning */
    struct kr_sampling sampling;
    uint64_t key;
    int64_t as_of_ns;
    uint32_t path;
    struct kr_normaliser normaliser;
    const struct kr_walk *walk; /* normaliser `returns`; else NULL */
};
void kt_ref_path(const struct kr_model *model, const struct kt_ref_request *request,
                 uint16_t *ret_s1, uint16_t *ret_s2, float *ret_bars);

#endif
