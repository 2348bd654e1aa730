/* SPDX-License-Identifier: MIT */
/* Where every weight of a model belongs: one walk over names and shapes, used to check a
 * checkpoint, to load it, and to draw a random one. */
#ifndef KR_MODEL_LAYOUT_H
#define KR_MODEL_LAYOUT_H

#include "core/model.h"

/* All weights in one block, in the order of use; a tensor starts at a multiple of KR_ALIGNMENT bytes. */
struct kr_model_store {
    float *floats; /* [n_floats] */
    size_t n_floats, n_used;
    float *staging; /* the largest matrix as stored, while matrices are being packed; else NULL */
};

enum kr_weight_kind { KR_WEIGHT_MATRIX, KR_WEIGHT_BIAS, KR_WEIGHT_NORM };

struct kr_weight {
    const char *name; /* as in the file; valid during the visit */
    enum kr_weight_kind kind;
    size_t rank, shape[2];
    size_t n_items;
    size_t n_in;        /* what a row of it sums over (its matrix's, for a bias) */
    const float **slot; /* the model's pointer to it; NULL behind it if the matrix is packed */
    struct kr_linear *linear; /* whose matrix this is; NULL for tables, biases and norms */
};

/* Return: 0, or a negative errno, which ends the walk. */
typedef int (*kr_weight_visit)(void *context, const struct kr_weight *weight);

/* A model of this shape, checked by the caller, without weights: every slot NULL. Return: 0,
 * -ENOMEM. */
int kr_layout_new(const struct kr_model_shape *shape, const struct kr_products *products,
                  struct kr_model **ret) kr_must_check;

/* Visit the weights of one checkpoint in a fixed order. `learn_te`: names of the calendar tables.
 * Return: 0, or what the visit returned. */
int kr_layout_predictor(struct kr_model *model, bool learn_te, kr_weight_visit visit,
                        void *context) kr_must_check;
int kr_layout_tokenizer(struct kr_model *model, kr_weight_visit visit, void *context) kr_must_check;

/* Allocate the store for both, in the form that model->products take. Return: 0, -ENOMEM. */
int kr_layout_reserve(struct kr_model *model) kr_must_check;

/* Where to write the next weight's items as stored, zeroed; then kr_layout_placed() with the same weight,
 * which sets its slot or packs it. */
float *kr_layout_place(struct kr_model *model, const struct kr_weight *weight);
void kr_layout_placed(struct kr_model *model, const struct kr_weight *weight);

/* Everything is placed. */
void kr_layout_finish(struct kr_model *model);

#endif
