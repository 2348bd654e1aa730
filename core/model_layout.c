/* SPDX-License-Identifier: MIT */
#include "core/model_layout.h"

#include "core/bar.h"
#include "core/kernels.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* A walk under way: the first refusal stands and silences the rest. */
struct walk {
    kr_weight_visit visit;
    void *context;
    int code;
};

static void weight_at(struct walk *walk, enum kr_weight_kind kind, size_t rows, size_t columns,
                      size_t n_in, const float **slot, struct kr_linear *linear, const char *format,
                      ...) kr_printf(8, 9);

/* columns 0: a vector of `rows`. */
static void weight_at(struct walk *walk, enum kr_weight_kind kind, size_t rows, size_t columns,
                      size_t n_in, const float **slot, struct kr_linear *linear, const char *format,
                      ...)
{
    char name[128];
    struct kr_weight weight = {
        .name = name,
        .kind = kind,
        .rank = columns ? 2 : 1,
        .shape = {rows, columns},
        .n_items = columns ? rows * columns : rows,
        .n_in = n_in,
        .slot = slot,
        .linear = linear,
    };
    va_list arguments;

    if (walk->code < 0)
        return;
    va_start(arguments, format);
    vsnprintf(name, sizeof(name), format, arguments);
    va_end(arguments);
    walk->code = walk->visit(walk->context, &weight);
}

static void matrix_at(struct walk *walk, struct kr_linear *linear, const char *prefix,
                      const char *name)
{
    weight_at(walk, KR_WEIGHT_MATRIX, linear->n_out, linear->n_in, linear->n_in, &linear->weight,
              linear, "%s%s.weight", prefix, name);
}

static void linear_at(struct walk *walk, struct kr_linear *linear, const char *prefix,
                      const char *name)
{
    matrix_at(walk, linear, prefix, name);
    weight_at(walk, KR_WEIGHT_BIAS, linear->n_out, 0, linear->n_in, &linear->bias, NULL,
              "%s%s.bias", prefix, name);
}

static void norm_at(struct walk *walk, const float **slot, size_t n, const char *prefix,
                    const char *name)
{
    weight_at(walk, KR_WEIGHT_NORM, n, 0, n, slot, NULL, "%s%s.weight", prefix, name);
}

static void stack_at(struct walk *walk, struct kr_stack *stack, const char *name)
{
    for (size_t i = 0; i < stack->n_layers; i++) {
        struct kr_block *block = &stack->blocks[i];
        char prefix[48];

        snprintf(prefix, sizeof(prefix), "%s.%zu.", name, i);
        norm_at(walk, &block->norm1, stack->d_model, prefix, "norm1");
        linear_at(walk, &block->q, prefix, "self_attn.q_proj");
        linear_at(walk, &block->k, prefix, "self_attn.k_proj");
        linear_at(walk, &block->v, prefix, "self_attn.v_proj");
        linear_at(walk, &block->out, prefix, "self_attn.out_proj");
        norm_at(walk, &block->norm2, stack->d_model, prefix, "norm2");
        matrix_at(walk, &block->w1, prefix, "ffn.w1");
        matrix_at(walk, &block->w3, prefix, "ffn.w3");
        matrix_at(walk, &block->w2, prefix, "ffn.w2");
    }
}

int kr_layout_tokenizer(struct kr_model *model, kr_weight_visit visit, void *context)
{
    struct walk walk = {visit, context, 0};
    struct kr_tokenizer *t = &model->tokenizer;

    linear_at(&walk, &t->embed, "", "embed");
    stack_at(&walk, &t->encoder, "encoder");
    linear_at(&walk, &t->quant_embed, "", "quant_embed");
    linear_at(&walk, &t->post_quant_embed, "", "post_quant_embed");
    stack_at(&walk, &t->decoder, "decoder");
    linear_at(&walk, &t->head, "", "head");
    return walk.code;
}

int kr_layout_predictor(struct kr_model *model, bool learn_te, kr_weight_visit visit, void *context)
{
    struct walk walk = {visit, context, 0};
    struct kr_predictor *p = &model->predictor;
    const struct {
        const char *name;
        const float **slot;
        size_t rows;
    } tables[] = {
        {"minute", &p->minute, 60}, {"hour", &p->hour, 24},   {"weekday", &p->weekday, 7},
        {"day", &p->day, 32},       {"month", &p->month, 13},
    };

    weight_at(&walk, KR_WEIGHT_MATRIX, p->vocabulary, p->d_model, p->d_model, &p->emb_s1, NULL,
              "embedding.emb_s1.weight");
    weight_at(&walk, KR_WEIGHT_MATRIX, p->vocabulary, p->d_model, p->d_model, &p->emb_s2, NULL,
              "embedding.emb_s2.weight");
    linear_at(&walk, &p->fusion, "embedding.", "fusion_proj");
    for (size_t i = 0; i < KR_ARRAY_LENGTH(tables); i++)
        weight_at(&walk, KR_WEIGHT_MATRIX, tables[i].rows, p->d_model, p->d_model, tables[i].slot,
                  NULL, "time_emb.%s_embed.%sweight", tables[i].name, learn_te ? "" : "emb.");
    stack_at(&walk, &p->trunk, "transformer");
    norm_at(&walk, &p->norm, p->d_model, "", "norm");
    linear_at(&walk, &p->dep_q, "dep_layer.cross_attn.", "q_proj");
    linear_at(&walk, &p->dep_k, "dep_layer.cross_attn.", "k_proj");
    linear_at(&walk, &p->dep_v, "dep_layer.cross_attn.", "v_proj");
    linear_at(&walk, &p->dep_out, "dep_layer.cross_attn.", "out_proj");
    norm_at(&walk, &p->dep_norm, p->d_model, "", "dep_layer.norm");
    linear_at(&walk, &p->proj_s1, "head.", "proj_s1");
    linear_at(&walk, &p->proj_s2, "head.", "proj_s2");
    return walk.code;
}

static struct kr_linear linear_of(size_t n_in, size_t n_out)
{
    return (struct kr_linear){.n_out = n_out, .n_in = n_in};
}

static int make_stack(struct kr_stack *stack, size_t d_model, size_t n_heads, size_t ff,
                      size_t n_layers)
{
    *stack = (struct kr_stack){
        .d_model = d_model,
        .n_heads = n_heads,
        .head_dim = d_model / n_heads,
        .ff = ff,
        .n_layers = n_layers,
        .blocks = kr_alloc(n_layers, sizeof(struct kr_block)),
    };
    if (!stack->blocks)
        return -ENOMEM;
    for (size_t i = 0; i < n_layers; i++) {
        struct kr_block *block = &stack->blocks[i];

        block->q = block->k = block->v = block->out = linear_of(d_model, d_model);
        block->w1 = block->w3 = linear_of(d_model, ff);
        block->w2 = linear_of(ff, d_model);
    }
    return 0;
}

static void name_isa(struct kr_model *model)
{
    const char *kernels = kr_kernels()->name;

    if (model->products->precision == KR_BF16_PRODUCTS)
        snprintf(model->isa, sizeof(model->isa), "%s+%s", kernels, model->products->name);
    else if (model->products->panel > 0)
        snprintf(model->isa, sizeof(model->isa), "%s", kernels);
    else
        snprintf(model->isa, sizeof(model->isa), "%s+openblas-%s", kernels, kr_product_init());
}

int kr_layout_new(const struct kr_model_shape *shape, const struct kr_products *products,
                  struct kr_model **ret)
{
    kr_cleanup(kr_model_free) struct kr_model *model = kr_alloc(1, sizeof(*model));
    size_t d = shape->tok_d_model, n_bits = 2 * shape->s1_bits,
           vocabulary = (size_t)1 << shape->s1_bits;
    struct kr_tokenizer *t;
    struct kr_predictor *p;

    if (!model || !(model->store = kr_alloc(1, sizeof(*model->store))))
        return -ENOMEM;
    model->products = products;
    name_isa(model);
    model->prior = kr_prior_identity;
    t = &model->tokenizer;
    t->d_model = d;
    t->n_bits = n_bits;
    t->s1_bits = shape->s1_bits;
    t->embed = linear_of(KR_COLUMNS, d);
    t->quant_embed = linear_of(d, n_bits);
    t->post_quant_embed = linear_of(n_bits, d);
    t->head = linear_of(d, KR_COLUMNS);

    p = &model->predictor;
    p->d_model = d = shape->d_model;
    p->vocabulary = vocabulary;
    p->fusion = linear_of(2 * d, d);
    p->dep_q = p->dep_k = p->dep_v = p->dep_out = linear_of(d, d);
    p->proj_s1 = p->proj_s2 = linear_of(d, vocabulary);
    if (make_stack(&t->encoder, t->d_model, shape->tok_heads, shape->tok_ff, shape->enc_blocks) <
            0 ||
        make_stack(&t->decoder, t->d_model, shape->tok_heads, shape->tok_ff, shape->dec_blocks) <
            0 ||
        make_stack(&p->trunk, d, shape->heads, shape->ff, shape->layers) < 0)
        return -ENOMEM;
    *ret = model;
    model = NULL;
    return 0;
}

static bool is_packed(const struct kr_model *model, const struct kr_weight *weight)
{
    return weight->linear && model->products->panel > 0;
}

/* Floats that a weight takes in the store. */
static size_t room_of(const struct kr_model *model, const struct kr_weight *weight)
{
    if (is_packed(model, weight))
        return kr_linear_packed_bytes(weight->linear, model->products) / sizeof(float);
    return kr_round_up(weight->n_items, KR_ALIGNMENT / sizeof(float));
}

struct count {
    const struct kr_model *model;
    size_t n_floats, largest; /* largest: items of a matrix that is packed */
};

static int count(void *context, const struct kr_weight *weight)
{
    struct count *count = context;

    if (is_packed(count->model, weight))
        count->largest = KR_MAX(count->largest, weight->n_items);
    return kr_add(count->n_floats, room_of(count->model, weight), &count->n_floats) ? 0 : -ENOMEM;
}

int kr_layout_reserve(struct kr_model *model)
{
    struct kr_model_store *store = model->store;
    struct count total = {model, 0, 0};
    size_t bytes;

    if (kr_layout_predictor(model, true, count, &total) < 0 ||
        kr_layout_tokenizer(model, count, &total) < 0 ||
        !kr_multiply(total.n_floats, sizeof(float), &bytes))
        return -ENOMEM;
    store->floats = kr_alloc_huge(bytes);
    if (total.largest)
        store->staging = kr_alloc(total.largest, sizeof(float));
    if (!store->floats || (total.largest && !store->staging))
        return -ENOMEM;
    store->n_floats = total.n_floats;
    model->n_weight_bytes = kr_huge_bytes(bytes);
    return 0;
}

float *kr_layout_place(struct kr_model *model, const struct kr_weight *weight)
{
    struct kr_model_store *store = model->store;

    assert(store->n_used + room_of(model, weight) <= store->n_floats);
    return is_packed(model, weight) ? store->staging : store->floats + store->n_used;
}

void kr_layout_placed(struct kr_model *model, const struct kr_weight *weight)
{
    struct kr_model_store *store = model->store;
    float *place = store->floats + store->n_used;

    if (is_packed(model, weight))
        kr_linear_pack(weight->linear, model->products, store->staging, place);
    else
        *weight->slot = place;
    store->n_used += room_of(model, weight);
}

void kr_layout_finish(struct kr_model *model)
{
    kr_freep(&model->store->staging);
}

void kr_model_free(struct kr_model **model)
{
    struct kr_model *m = *model;

    if (!m)
        return;
    free(m->tokenizer.encoder.blocks);
    free(m->tokenizer.decoder.blocks);
    free(m->predictor.trunk.blocks);
    if (m->store) {
        free(m->store->floats);
        free(m->store->staging);
    }
    free(m->store);
    free(m);
    *model = NULL;
}
