/* SPDX-License-Identifier: MIT */
#include "clients/flop.h"

/* One of the three stacks. */
struct stack {
    uint64_t d_model, ff, blocks;
};

static struct stack encoder_of(const struct kr_model_shape *model)
{
    return (struct stack){model->tok_d_model, model->tok_ff, model->enc_blocks};
}

static struct stack decoder_of(const struct kr_model_shape *model)
{
    return (struct stack){model->tok_d_model, model->tok_ff, model->dec_blocks};
}

static struct stack trunk_of(const struct kr_model_shape *model)
{
    return (struct stack){model->d_model, model->ff, model->layers};
}

struct kc_flop_shape kc_flop_shape_of(const struct kr_model *model)
{
    const struct kr_tokenizer *tokenizer = &model->tokenizer;
    const struct kr_predictor *predictor = &model->predictor;

    return (struct kc_flop_shape){
        .model = {.s1_bits = tokenizer->s1_bits,
                  .tok_d_model = tokenizer->d_model,
                  .tok_heads = tokenizer->encoder.n_heads,
                  .tok_ff = tokenizer->encoder.ff,
                  .enc_blocks = tokenizer->encoder.n_layers,
                  .dec_blocks = tokenizer->decoder.n_layers,
                  .d_model = predictor->d_model,
                  .heads = predictor->trunk.n_heads,
                  .ff = predictor->trunk.ff,
                  .layers = predictor->trunk.n_layers},
        .window = model->attention_window,
    };
}

static uint64_t visible_from(const struct kc_flop_shape *shape, size_t row)
{
    size_t seen = row + 1;

    return shape->window ? KR_MIN(seen, shape->window) : seen;
}

/* Weights of a stack's blocks: q, k, v, out, and w1, w2, w3. */
static uint64_t stack_weights(const struct stack *stack)
{
    return stack->blocks * (4 * stack->d_model * stack->d_model + 3 * stack->d_model * stack->ff);
}

static uint64_t stack_flop(const struct kc_flop_shape *shape, const struct stack *stack,
                           size_t first, size_t n)
{
    uint64_t seen = 0;

    for (size_t row = first; row < first + n; row++)
        seen += visible_from(shape, row);
    return 2 * stack_weights(stack) * n + 4 * stack->d_model * stack->blocks * seen;
}

static uint64_t encode_weights(const struct kr_model_shape *model)
{
    return (uint64_t)model->tok_d_model * (6 + 2 * model->s1_bits); /* embed, quant_embed */
}

static uint64_t decode_weights(const struct kr_model_shape *model)
{
    return (uint64_t)model->tok_d_model * (2 * model->s1_bits + 6); /* post_quant_embed, head */
}

uint64_t kc_flop_encode(const struct kc_flop_shape *shape, size_t first, size_t n)
{
    struct stack stack = encoder_of(&shape->model);

    return stack_flop(shape, &stack, first, n) + 2 * encode_weights(&shape->model) * n;
}

uint64_t kc_flop_decode(const struct kc_flop_shape *shape, size_t first, size_t n)
{
    struct stack stack = decoder_of(&shape->model);

    return stack_flop(shape, &stack, first, n) + 2 * decode_weights(&shape->model) * n;
}

/* One d_model -> d_model matrix. */
static uint64_t square(const struct kc_flop_shape *shape)
{
    return (uint64_t)shape->model.d_model * shape->model.d_model;
}

uint64_t kc_flop_trunk(const struct kc_flop_shape *shape, size_t first, size_t n)
{
    struct stack stack = trunk_of(&shape->model);

    /* fusion: 2 d_model -> d_model */
    return stack_flop(shape, &stack, first, n) + 2 * 2 * square(shape) * n;
}

uint64_t kc_flop_dependency(const struct kc_flop_shape *shape, size_t n)
{
    return 2 * 2 * square(shape) * n;
}

uint64_t kc_flop_s1(const struct kc_flop_shape *shape, size_t n)
{
    return 2 * ((uint64_t)shape->model.d_model << shape->model.s1_bits) * n;
}

uint64_t kc_flop_s2(const struct kc_flop_shape *shape, size_t n, size_t visible)
{
    /* q_proj and out_proj, attention, the head */
    return 2 * 2 * square(shape) * n + 4 * (uint64_t)shape->model.d_model * visible * n +
           kc_flop_s1(shape, n);
}

uint64_t kc_flop_prefill(const struct kc_flop_shape *shape, size_t n)
{
    return kc_flop_trunk(shape, 0, n) + kc_flop_dependency(shape, n);
}

uint64_t kc_flop_sample(const struct kc_flop_shape *shape, size_t len, size_t paths, size_t horizon)
{
    uint64_t path = 0;

    for (size_t step = 0; step < horizon; step++) {
        size_t row = len - 1 + step; /* the last one there is: the next token hangs on it */

        path += kc_flop_trunk(shape, row, 1) + kc_flop_dependency(shape, 1) + kc_flop_s1(shape, 1) +
                kc_flop_s2(shape, 1, visible_from(shape, row));
    }
    return path * paths;
}

uint64_t kc_flop_bars(const struct kc_flop_shape *shape, size_t len, size_t paths, size_t horizon)
{
    return kc_flop_decode(shape, len, horizon) * paths;
}

uint64_t kc_flop_append(const struct kc_flop_shape *shape, size_t row)
{
    return kc_flop_encode(shape, row, 1) + kc_flop_trunk(shape, row, 1) +
           kc_flop_dependency(shape, 1) + kc_flop_decode(shape, row, 1);
}

uint64_t kc_append_weights(const struct kc_flop_shape *shape)
{
    struct stack encoder = encoder_of(&shape->model), decoder = decoder_of(&shape->model),
                 trunk = trunk_of(&shape->model);

    return stack_weights(&encoder) + encode_weights(&shape->model) + stack_weights(&trunk) +
           4 * square(shape) + stack_weights(&decoder) + decode_weights(&shape->model);
}
