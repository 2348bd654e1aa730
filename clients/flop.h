/* SPDX-License-Identifier: MIT */
/* Floating-point operations of the model's parts, counted from its shapes.
 *
 * A multiplication with an addition counts two. Counted are the products (rows times weights) and attention,
 * 4 d_model for each row that a row sees: scores and weighted sum. Norms, rotation, activations, softmax and
 * drawing are not: they are what keeps a program from its peak. Nothing here depends on how a forecast is
 * computed; what a program does twice counts once.
 *
 * Rows are numbered from the start of their window; row i sees i + 1 rows, itself included, or the last
 * `window` of them where the model has an attention window. Pure functions; any thread. */
#ifndef KC_FLOP_H
#define KC_FLOP_H

#include "core/model.h"

struct kc_flop_shape {
    struct kr_model_shape model;
    size_t window; /* 0: every row sees all before it */
};

/* Shape of a model that is loaded. */
struct kc_flop_shape kc_flop_shape_of(const struct kr_model *model);

/* Rows [first, first + n) through the tokenizer's encoder, up to the token ids. */
uint64_t kc_flop_encode(const struct kc_flop_shape *shape, size_t first, size_t n);
/* Through the predictor's trunk, from token ids to hidden rows. */
uint64_t kc_flop_trunk(const struct kc_flop_shape *shape, size_t first, size_t n);
/* K and V of the dependency layer for n hidden rows. */
uint64_t kc_flop_dependency(const struct kc_flop_shape *shape, size_t n);
/* s1 logits of n hidden rows; and s2 logits of n drawn s1 whose queries see `visible` rows each. */
uint64_t kc_flop_s1(const struct kc_flop_shape *shape, size_t n);
uint64_t kc_flop_s2(const struct kc_flop_shape *shape, size_t n, size_t visible);
/* Through the tokenizer's decoder, from token ids to normalised bars. */
uint64_t kc_flop_decode(const struct kc_flop_shape *shape, size_t first, size_t n);

/* Trunk and dependency layer over a window of n rows. */
uint64_t kc_flop_prefill(const struct kc_flop_shape *shape, size_t n);
/* `paths` paths of `horizon` steps behind a window of `len` rows whose K and V are there: each step one row
 * of every path through trunk, dependency layer and both heads. The first step's row, which all paths share,
 * is counted for each of them, as the published figures do. */
uint64_t kc_flop_sample(const struct kc_flop_shape *shape, size_t len, size_t paths,
                        size_t horizon);
/* The generated tokens of all paths to bars, behind a window of `len` decoded rows. */
uint64_t kc_flop_bars(const struct kc_flop_shape *shape, size_t len, size_t paths, size_t horizon);
/* One bar, row `row` of its window, into all four caches. */
uint64_t kc_flop_append(const struct kc_flop_shape *shape, size_t row);
/* Weights that this reads at least once; what an append has to fetch. */
uint64_t kc_append_weights(const struct kc_flop_shape *shape);

#endif
