/* SPDX-License-Identifier: MIT */
#include "core/engine.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t max3(size_t a, size_t b, size_t c)
{
    return KR_MAX(a, KR_MAX(b, c));
}

/* Widths of the buffers that a model needs. */
struct widths {
    size_t narrow, wide, angles, vocabulary, head_dim;
};

static struct widths widths_of(const struct kr_model *model)
{
    const struct kr_tokenizer *t = &model->tokenizer;
    const struct kr_predictor *p = &model->predictor;

    return (struct widths){
        .narrow = kr_round_up(max3(t->d_model, p->d_model, KR_MAX(t->n_bits, (size_t)KR_COLUMNS)),
                              KR_LANES),
        .wide = kr_round_up(max3(t->encoder.ff, t->decoder.ff, KR_MAX(p->trunk.ff, 2 * p->d_model)),
                            KR_LANES),
        .angles = kr_round_up(
            max3(t->encoder.head_dim, t->decoder.head_dim, p->trunk.head_dim) / 2 + 1, KR_LANES),
        .vocabulary = kr_round_up(p->vocabulary, KR_LANES),
        .head_dim = KR_MAX(max3(t->encoder.head_dim, t->decoder.head_dim, p->trunk.head_dim),
                           p->d_model / KR_DEP_HEADS),
    };
}

static size_t engine_floats(const struct widths *w, size_t max_visible)
{
    return KR_ENGINE_ROWS * (5 * w->narrow + 2 * w->wide + 2 * w->angles + w->vocabulary) +
           kr_attend_scratch(max_visible, w->head_dim) + 2 * w->vocabulary;
}

size_t kr_engine_size_bytes(const struct kr_model *model, size_t max_visible)
{
    struct widths w = widths_of(model);

    max_visible = KR_MAX(max_visible, model->attention_window);
    return engine_floats(&w, max_visible) * sizeof(float) + KR_ENGINE_ROWS * sizeof(struct kr_view);
}

int kr_engine_init(struct kr_engine *engine, const struct kr_model *model, size_t max_visible)
{
    struct widths w = widths_of(model);
    float *next;

    memset(engine, 0, sizeof(*engine));
    max_visible = KR_MAX(max_visible, model->attention_window);
    next = engine->memory = kr_alloc(engine_floats(&w, max_visible), sizeof(float));
    engine->views = kr_alloc(KR_ENGINE_ROWS, sizeof(*engine->views));
    if (!engine->memory || !engine->views) {
        kr_engine_free(engine);
        return -ENOMEM;
    }
    engine->model = model;
    engine->kernels = kr_kernels();
    engine->max_visible = max_visible;
    engine->width = w.narrow;
#define TAKE(field, n) (engine->field = (void *)next, next += (n))
    TAKE(x, KR_ENGINE_ROWS * w.narrow);
    TAKE(normed, KR_ENGINE_ROWS * w.narrow);
    TAKE(q, KR_ENGINE_ROWS * w.narrow);
    TAKE(k, KR_ENGINE_ROWS * w.narrow);
    TAKE(v, KR_ENGINE_ROWS * w.narrow);
    TAKE(wide1, KR_ENGINE_ROWS * w.wide);
    TAKE(wide2, KR_ENGINE_ROWS * w.wide);
    TAKE(cosine, KR_ENGINE_ROWS * w.angles);
    TAKE(sine, KR_ENGINE_ROWS * w.angles);
    TAKE(logits, KR_ENGINE_ROWS * w.vocabulary);
    TAKE(scores, kr_attend_scratch(max_visible, w.head_dim));
    TAKE(p, w.vocabulary);
    TAKE(order, w.vocabulary);
#undef TAKE
    return 0;
}

void kr_engine_free(struct kr_engine *engine)
{
    free(engine->memory);
    free(engine->views);
    memset(engine, 0, sizeof(*engine));
}

/* Angles in double per row number: inv_freq_j = 10000^(-2j / head_dim). */
static void rotation_angles(struct kr_engine *engine, const struct kr_view *views, size_t n,
                            size_t head_dim)
{
    size_t half = head_dim / 2;

    for (size_t i = 0; i < n; i++) {
        if (i && views[i].position == views[i - 1].position) { /* paths of one step */
            memcpy(engine->cosine + i * half, engine->cosine + (i - 1) * half,
                   half * sizeof(float));
            memcpy(engine->sine + i * half, engine->sine + (i - 1) * half, half * sizeof(float));
            continue;
        }
        for (size_t j = 0; j < half; j++) {
            double frequency = pow(10000.0, -2.0 * (double)j / (double)head_dim);
            double angle = (double)views[i].position * frequency;

            engine->cosine[i * half + j] = (float)cos(angle);
            engine->sine[i * half + j] = (float)sin(angle);
        }
    }
}

static void norm_rows(struct kr_engine *engine, const float *weight, size_t n, size_t width)
{
    for (size_t i = 0; i < n; i++)
        engine->kernels->rmsnorm(engine->normed + i * engine->width, engine->x + i * engine->width,
                                 weight, width);
}

/* x += attention(norm1(x)): q, k, v of all rows first, since rows of one window see each other. */
static void attention(struct kr_engine *engine, const struct kr_stack *stack, size_t layer,
                      const struct kr_view *views, size_t n)
{
    const struct kr_block *block = &stack->blocks[layer];
    size_t width = engine->width, dim = stack->head_dim, half = dim / 2;
    float scale = (float)(1.0 / sqrt((double)dim));

    norm_rows(engine, block->norm1, n, stack->d_model);
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product_several((const struct kr_linear *const[]){&block->q, &block->k, &block->v},
                       (float *const[]){engine->q, engine->k, engine->v}, 3, engine->normed, width,
                       width, n);
    kr_phase(engine, KR_PHASE_OTHER);
    for (size_t i = 0; i < n; i++) {
        const float *cosine = engine->cosine + i * half, *sine = engine->sine + i * half;

        for (size_t head = 0; head < stack->n_heads; head++) {
            engine->kernels->rotate(engine->q + i * width + head * dim, cosine, sine, dim);
            engine->kernels->rotate(engine->k + i * width + head * dim, cosine, sine, dim);
        }
    }
    kr_attend_write(engine->kernels, views, n, layer, engine->k, engine->v, width);
    kr_phase(engine, KR_PHASE_ATTENTION);
    kr_attend_rows(engine->kernels, views, n, layer, engine->q, scale, engine->normed, width,
                   engine->scores);
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product_add(&block->out, engine->normed, width, engine->x, width, engine->k, n);
    kr_phase(engine, KR_PHASE_OTHER);
}

/* x += w2(silu(w1 n) * (w3 n)), n = norm2(x). */
static void feed_forward(struct kr_engine *engine, const struct kr_block *block, size_t d_model,
                         size_t ff, size_t n)
{
    size_t width = engine->width, wide = kr_round_up(ff, KR_LANES);

    norm_rows(engine, block->norm2, n, d_model);
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product_several((const struct kr_linear *const[]){&block->w1, &block->w3},
                       (float *const[]){engine->wide1, engine->wide2}, 2, engine->normed, width,
                       wide, n);
    kr_phase(engine, KR_PHASE_OTHER);
    for (size_t i = 0; i < n; i++)
        engine->kernels->silu_product(engine->wide1 + i * wide, engine->wide1 + i * wide,
                                      engine->wide2 + i * wide, ff);
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product_add(&block->w2, engine->wide1, wide, engine->x, width, engine->k, n);
    kr_phase(engine, KR_PHASE_OTHER);
}

/* All blocks of one stack over the rows in engine->x. */
static void run_stack(struct kr_engine *engine, const struct kr_stack *stack,
                      const struct kr_view *views, size_t n)
{
    assert(n <= KR_ENGINE_ROWS);
    for (size_t i = 0; i < n; i++)
        assert(views[i].own->window ||
               (views[i].prefix ? views[i].n_prefix : 0) + views[i].index < engine->max_visible);
    rotation_angles(engine, views, n, stack->head_dim);
    for (size_t layer = 0; layer < stack->n_layers; layer++) {
        attention(engine, stack, layer, views, n);
        feed_forward(engine, &stack->blocks[layer], stack->d_model, stack->ff, n);
    }
}

/* Ids from the signs of z [n_bits], least significant bit first, s1 then s2. */
static void bits_to_ids(const struct kr_tokenizer *tokenizer, const float *z, uint16_t *ret_s1,
                        uint16_t *ret_s2)
{
    unsigned s1 = 0, s2 = 0;

    for (size_t b = 0; b < tokenizer->s1_bits; b++) {
        s1 |= (unsigned)(z[b] > 0) << b;
        s2 |= (unsigned)(z[tokenizer->s1_bits + b] > 0) << b;
    }
    *ret_s1 = (uint16_t)s1;
    *ret_s2 = (uint16_t)s2;
}

/* z / max(|z|, 1e-12): the quantiser's input. The signs do not depend on it. */
static void unit_length(const float *z, size_t n, float *ret)
{
    double squares = 0;

    for (size_t i = 0; i < n; i++)
        squares += (double)z[i] * z[i];
    for (size_t i = 0; i < n; i++)
        ret[i] = (float)(z[i] / fmax(sqrt(squares), 1e-12));
}

void kr_encode_rows(struct kr_engine *engine, const struct kr_view *views, const float *x, size_t n,
                    uint16_t *ret_s1, uint16_t *ret_s2, float *ret_z)
{
    const struct kr_tokenizer *tokenizer = &engine->model->tokenizer;
    size_t width = engine->width;

    for (size_t i = 0; i < n; i++)
        memcpy(engine->q + i * width, x + i * KR_COLUMNS, KR_COLUMNS * sizeof(float));
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product(&tokenizer->embed, engine->q, width, engine->x, width, n);
    kr_phase(engine, KR_PHASE_OTHER);
    run_stack(engine, &tokenizer->encoder, views, n);
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product(&tokenizer->quant_embed, engine->x, width, engine->q, width, n);
    kr_phase(engine, KR_PHASE_OTHER);
    for (size_t i = 0; i < n; i++) {
        bits_to_ids(tokenizer, engine->q + i * width, &ret_s1[i], &ret_s2[i]);
        if (ret_z)
            unit_length(engine->q + i * width, tokenizer->n_bits, ret_z + i * tokenizer->n_bits);
    }
}

void kr_predict_rows(struct kr_engine *engine, const struct kr_view *views, const uint16_t *s1,
                     const uint16_t *s2, const struct kr_stamp *stamps, size_t n)
{
    const struct kr_predictor *p = &engine->model->predictor;
    const struct kr_kernels *kernels = engine->kernels;
    size_t d = p->d_model, width = engine->width, wide = kr_round_up(2 * d, KR_LANES);
    float root = (float)sqrt((double)d);

    for (size_t i = 0; i < n; i++) {
        float *pair = engine->wide1 + i * wide;

        for (size_t j = 0; j < d; j++) {
            pair[j] = p->emb_s1[s1[i] * d + j] * root;
            pair[d + j] = p->emb_s2[s2[i] * d + j] * root;
        }
    }
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product(&p->fusion, engine->wide1, wide, engine->x, width, n);
    kr_phase(engine, KR_PHASE_OTHER);
    for (size_t i = 0; i < n; i++) {
        const struct kr_stamp *stamp = &stamps[i];
        float *sum = engine->q, *row = engine->x + i * width;

        memcpy(sum, p->hour + stamp->hour * d, d * sizeof(float));
        kernels->add(sum, p->weekday + stamp->weekday * d, d);
        kernels->add(sum, p->day + stamp->day * d, d);
        kernels->add(sum, p->month + stamp->month * d, d);
        kernels->add(sum, p->minute + stamp->minute * d, d);
        kernels->add(row, sum, d);
    }
    run_stack(engine, &p->trunk, views, n);
    norm_rows(engine, p->norm, n, d);
}

void kr_dependency_rows(struct kr_engine *engine, const struct kr_view *views, size_t n)
{
    const struct kr_predictor *p = &engine->model->predictor;
    size_t width = engine->width;

    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product_several((const struct kr_linear *const[]){&p->dep_k, &p->dep_v},
                       (float *const[]){engine->k, engine->v}, 2, engine->normed, width, width, n);
    kr_phase(engine, KR_PHASE_OTHER);
    kr_attend_write(engine->kernels, views, n, 0, engine->k, engine->v, width);
}

/* Rows of h into engine->x, where padding rows may be cleared. */
static void take_rows(struct kr_engine *engine, const float *h, size_t h_stride, size_t n, size_t d)
{
    assert(n <= KR_ENGINE_ROWS);
    for (size_t i = 0; i < n; i++)
        memcpy(engine->x + i * engine->width, h + i * h_stride, d * sizeof(float));
}

void kr_s1_logits(struct kr_engine *engine, const float *h, size_t h_stride, size_t n)
{
    const struct kr_predictor *p = &engine->model->predictor;

    take_rows(engine, h, h_stride, n, p->d_model);
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product(&p->proj_s1, engine->x, engine->width, engine->logits, p->vocabulary, n);
    kr_phase(engine, KR_PHASE_OTHER);
}

void kr_s2_logits(struct kr_engine *engine, const struct kr_view *views, const uint16_t *s1,
                  const float *h, size_t h_stride, size_t n)
{
    const struct kr_predictor *p = &engine->model->predictor;
    size_t d = p->d_model, width = engine->width, dim = d / KR_DEP_HEADS;
    float scale = (float)(1.0 / sqrt((double)dim));

    take_rows(engine, h, h_stride, n, d);
    for (size_t i = 0; i < n; i++)
        memcpy(engine->v + i * width, p->emb_s1 + s1[i] * d, d * sizeof(float));
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product(&p->dep_q, engine->v, width, engine->q, width, n);
    kr_phase(engine, KR_PHASE_ATTENTION);
    kr_attend_rows(engine->kernels, views, n, 0, engine->q, scale, engine->v, width,
                   engine->scores);
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product_add(&p->dep_out, engine->v, width, engine->x, width, engine->k, n);
    kr_phase(engine, KR_PHASE_OTHER);
    norm_rows(engine, p->dep_norm, n, d);
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product(&p->proj_s2, engine->normed, width, engine->logits, p->vocabulary, n);
    kr_phase(engine, KR_PHASE_OTHER);
}

void kr_decode_rows(struct kr_engine *engine, const struct kr_view *views, const uint16_t *s1,
                    const uint16_t *s2, size_t n, float *ret_y)
{
    const struct kr_tokenizer *tokenizer = &engine->model->tokenizer;
    size_t width = engine->width, half = tokenizer->s1_bits;
    float unit = (float)(1.0 / sqrt((double)tokenizer->n_bits));

    for (size_t i = 0; i < n; i++)
        for (size_t b = 0; b < half; b++) {
            engine->q[i * width + b] = s1[i] >> b & 1 ? unit : -unit;
            engine->q[i * width + half + b] = s2[i] >> b & 1 ? unit : -unit;
        }
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product(&tokenizer->post_quant_embed, engine->q, width, engine->x, width, n);
    kr_phase(engine, KR_PHASE_OTHER);
    run_stack(engine, &tokenizer->decoder, views, n);
    if (!ret_y)
        return;
    kr_phase(engine, KR_PHASE_PRODUCTS);
    kr_product(&tokenizer->head, engine->x, width, engine->q, width, n);
    kr_phase(engine, KR_PHASE_OTHER);
    for (size_t i = 0; i < n; i++)
        memcpy(ret_y + i * KR_COLUMNS, engine->q + i * width, KR_COLUMNS * sizeof(float));
}
