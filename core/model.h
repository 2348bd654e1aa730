/* SPDX-License-Identifier: MIT */
/* A Kronos model: the tokenizer and predictor checkpoints, loaded, checked and ready to run.
 *
 * The arithmetic is that of the public reference (shiyu-coder/Kronos); names of tensors and of
 * configuration keys are those of its checkpoints. Immutable once loaded; any thread. */
#ifndef KR_MODEL_H
#define KR_MODEL_H

#include "core/base.h"
#include "core/calibrate.h"
#include "core/product.h"
#include "core/returns.h"

/* One pre-norm transformer block. */
struct kr_block {
    const float *norm1, *norm2;    /* [d_model] */
    struct kr_linear q, k, v, out; /* d_model -> d_model */
    struct kr_linear w1, w3;       /* d_model -> ff, no bias */
    struct kr_linear w2;           /* ff -> d_model, no bias */
};

/* The stack used three times: tokenizer encoder, predictor trunk, tokenizer decoder. */
struct kr_stack {
    size_t d_model, n_heads, head_dim, ff, n_layers; /* n_layers: blocks present */
    struct kr_block *blocks;                         /* [n_layers] */
};

struct kr_tokenizer {
    size_t d_model, n_bits, s1_bits; /* n_bits = s1_bits + s2_bits = 2 s1_bits */
    struct kr_linear embed;          /* 6 -> d_model */
    struct kr_stack encoder;
    struct kr_linear quant_embed;      /* d_model -> n_bits */
    struct kr_linear post_quant_embed; /* n_bits -> d_model */
    struct kr_stack decoder;
    struct kr_linear head; /* d_model -> 6 */
};

#define KR_DEP_HEADS 4 /* the dependency layer's, whatever n_heads is */

struct kr_predictor {
    size_t d_model, vocabulary;                         /* vocabulary = 2^s1_bits = 2^s2_bits */
    const float *emb_s1, *emb_s2;                       /* [vocabulary][d_model] */
    struct kr_linear fusion;                            /* 2 d_model -> d_model */
    const float *minute, *hour, *weekday, *day, *month; /* [60|24|7|32|13][d_model] */
    struct kr_stack trunk;
    const float *norm;                             /* [d_model] */
    struct kr_linear dep_q, dep_k, dep_v, dep_out; /* d_model -> d_model */
    const float *dep_norm;                         /* [d_model] */
    struct kr_linear proj_s1, proj_s2;             /* d_model -> vocabulary */
};

/* Extensions of our own checkpoints; the public ones have the defaults. */
enum kr_normaliser_kind { KR_LEVELS, KR_RETURNS };

struct kr_model {
    struct kr_tokenizer tokenizer;
    struct kr_predictor predictor;
    enum kr_normaliser_kind normaliser; /* "normaliser", default "levels" */
    struct kr_returns returns;          /* constants of the normaliser, if it is `returns` */
    size_t attention_window;            /* "attention_window", 0: everything before */
    struct kr_prior prior;              /* "calibration_prior", default the identity */
    char name[64];   /* last component of the predictor's folder that is not "predictor" */
    char sha256[65]; /* hex, over the predictor's model.safetensors, then the tokenizer's */
    const struct kr_products *products; /* of all its matrices */
    /* What bits depend on beside the model and its inputs: the instruction set of the kernels and of native
     * products in f32, "avx512"; with others behind it: "avx2+openblas-Haswell", "avx512+amx_bf16". */
    char isa[48];
    size_t n_weight_bytes;        /* that its memory takes */
    struct kr_model_store *store; /* owns the weights, each 64-byte aligned, zeros behind it */
};

/* Load both checkpoints: `config.json` and `model.safetensors` in each folder. F32, F16 and BF16
 * weights; every tensor checked by name and shape; unknown tensors and training-only keys
 * ignored. The files are closed again: what happens to them later does not matter. `products`:
 * from kr_products_choose(); NULL: the fastest in f32.
 * Return: 0; -ENOENT or another negative errno of open() (no such folder or file); -EBADMSG (a
 * file that is not what it claims, a weight that is not finite, checkpoints that do not belong
 * together); -ENOTSUP (d_in other than 6, s1_bits unlike s2_bits, an extension this build does
 * not run), the line naming key and value; -ENOMEM. */
int kr_model_load_as(const char *predictor_folder, const char *tokenizer_folder,
                     const struct kr_products *products, struct kr_model **ret,
                     struct kr_error *error) kr_must_check;
/* With the fastest products in f32. */
int kr_model_load(const char *predictor_folder, const char *tokenizer_folder, struct kr_model **ret,
                  struct kr_error *error) kr_must_check;
/* The same, or, with both folders NULL or empty, the built-in model: installed, or that of the source tree this
 * was built from. Return: also -EINVAL (only one of the two), with a line. */
int kr_model_load_or_builtin(const char *predictor_folder, const char *tokenizer_folder,
                             const struct kr_products *products, struct kr_model **ret,
                             struct kr_error *error) kr_must_check;
void kr_model_free(struct kr_model **model);

/* A model with random weights of the given shape, for tests and benchmarks without checkpoints.
 * Weights are Philox draws of `seed`, scaled as initialisation would (uniform, ±1/sqrt(n_in);
 * norms in [0.5, 1.5)). Its name is "random", its sha256 all zeros. */
struct kr_model_shape {
    size_t s1_bits;
    size_t tok_d_model, tok_heads, tok_ff, enc_blocks, dec_blocks; /* blocks present */
    size_t d_model, heads, ff, layers;
};
/* "mini", "small", "base": the public shapes. Return: 0, or -EINVAL for another name. */
int kr_model_shape_named(const char *name, struct kr_model_shape *ret) kr_must_check;
/* Return: 0, -EINVAL (a shape that cannot be), -ENOMEM. */
int kr_model_random_as(const struct kr_model_shape *shape, uint64_t seed,
                       const struct kr_products *products, struct kr_model **ret,
                       struct kr_error *error) kr_must_check;
int kr_model_random(const struct kr_model_shape *shape, uint64_t seed, struct kr_model **ret,
                    struct kr_error *error) kr_must_check;

#endif
