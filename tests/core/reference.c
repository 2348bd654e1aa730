/* SPDX-License-Identifier: MIT */
#include "tests/core/reference.h"

#include "core/draw.h"
#include "core/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t kt_ref_first_row;

static float *floats(size_t n)
{
    float *memory = kr_alloc(n + KR_LANES, sizeof(float));

    if (!memory)
        abort();
    return memory;
}

void kt_kv_free(struct kt_kv *kv)
{
    free(kv->k);
    free(kv->v);
    memset(kv, 0, sizeof(*kv));
}

static void kv_init(struct kt_kv *kv, size_t n_layers, size_t n_rows, size_t width)
{
    *kv = (struct kt_kv){n_layers, n_rows, width, floats(n_layers * n_rows * width),
                         floats(n_layers * n_rows * width)};
}

/* Each row alone in its block. */
static void linear(const struct kr_linear *linear, const float *x, float *y, size_t n)
{
    float *in = floats(KR_BLOCK_ROWS * linear->n_in), *out = floats(KR_BLOCK_ROWS * linear->n_out);

    for (size_t i = 0; i < n; i++) {
        memcpy(in, x + i * linear->n_in, linear->n_in * sizeof(float));
        kr_product(linear, in, linear->n_in, out, linear->n_out, 1);
        memcpy(y + i * linear->n_out, out, linear->n_out * sizeof(float));
    }
    free(in);
    free(out);
}

/* Softmax attention of one query over n keys that lie `stride` apart. */
static void attend(const float *q, const float *k, const float *v, size_t stride, size_t n,
                   size_t dim, float *out)
{
    float *e = floats(n), scale = (float)(1.0 / sqrt((double)dim)), most, sum = 0;

    for (size_t j = 0; j < n; j++) {
        float dot = 0;

        for (size_t d = 0; d < dim; d++)
            dot = fmaf(q[d], k[j * stride + d], dot);
        e[j] = dot * scale;
    }
    most = e[0];
    for (size_t j = 1; j < n; j++)
        most = fmaxf(most, e[j]);
    kr_kernels()->exp_shifted(e, most, n);
    for (size_t d = 0; d < dim; d++)
        out[d] = 0;
    for (size_t j = 0; j < n; j++) {
        sum += e[j];
        for (size_t d = 0; d < dim; d++)
            out[d] = fmaf(e[j], v[j * stride + d], out[d]);
    }
    for (size_t d = 0; d < dim; d++)
        out[d] /= sum;
    free(e);
}

static void rotate(float *x, int64_t position, size_t n_heads, size_t dim)
{
    for (size_t head = 0; head < n_heads; head++)
        for (size_t j = 0; j < dim / 2; j++) {
            double angle = (double)position * pow(10000.0, -2.0 * (double)j / (double)dim);
            float cosine = (float)cos(angle), sine = (float)sin(angle);
            float *a = x + head * dim + j, *b = a + dim / 2, low = *a, high = *b;

            *a = fmaf(low, cosine, -(high * sine));
            *b = fmaf(high, cosine, low * sine);
        }
}

static void norm(const float *x, const float *weight, float *y, size_t n, size_t width)
{
    for (size_t i = 0; i < n; i++)
        kr_kernels()->rmsnorm(y + i * width, x + i * width, weight, width);
}

/* Rows out of n that the last one no longer sees. */
static size_t unseen(size_t window, size_t n)
{
    return window && n > window ? n - window : 0;
}

static void stack(const struct kr_stack *stack, size_t window, float *x, size_t n,
                  struct kt_kv *ret_kv)
{
    size_t d = stack->d_model, dim = stack->head_dim, ff = stack->ff;
    float *normed = floats(n * d), *q = floats(n * d), *out = floats(n * d);
    float *a = floats(n * ff), *b = floats(n * ff);
    struct kt_kv kv;

    kv_init(&kv, stack->n_layers, n, d);
    for (size_t layer = 0; layer < stack->n_layers; layer++) {
        const struct kr_block *block = &stack->blocks[layer];
        float *k = kv.k + layer * n * d, *v = kv.v + layer * n * d;

        norm(x, block->norm1, normed, n, d);
        linear(&block->q, normed, q, n);
        linear(&block->k, normed, k, n);
        linear(&block->v, normed, v, n);
        for (size_t i = 0; i < n; i++) {
            rotate(q + i * d, kt_ref_first_row + (int64_t)i, stack->n_heads, dim);
            rotate(k + i * d, kt_ref_first_row + (int64_t)i, stack->n_heads, dim);
        }
        for (size_t i = 0; i < n; i++)
            for (size_t head = 0; head < stack->n_heads; head++) {
                size_t first = unseen(window, i + 1), at = first * d + head * dim;

                attend(q + i * d + head * dim, k + at, v + at, d, i + 1 - first, dim,
                       normed + i * d + head * dim);
            }
        linear(&block->out, normed, out, n);
        for (size_t i = 0; i < n * d; i++)
            x[i] += out[i];
        norm(x, block->norm2, normed, n, d);
        linear(&block->w1, normed, a, n);
        linear(&block->w3, normed, b, n);
        kr_kernels()->silu_product(a, a, b, n * ff);
        linear(&block->w2, a, out, n);
        for (size_t i = 0; i < n * d; i++)
            x[i] += out[i];
    }
    if (ret_kv)
        *ret_kv = kv;
    else
        kt_kv_free(&kv);
    free(normed);
    free(q);
    free(out);
    free(a);
    free(b);
}

void kt_ref_encode(const struct kr_model *model, const float *x, size_t n, uint16_t *ret_s1,
                   uint16_t *ret_s2, struct kt_kv *ret_kv)
{
    const struct kr_tokenizer *t = &model->tokenizer;
    float *rows = floats(n * t->d_model), *z = floats(n * t->n_bits);

    linear(&t->embed, x, rows, n);
    stack(&t->encoder, model->attention_window, rows, n, ret_kv);
    linear(&t->quant_embed, rows, z, n);
    for (size_t i = 0; i < n; i++) {
        unsigned id[2] = {0, 0};

        for (size_t bit = 0; bit < t->n_bits; bit++)
            if (z[i * t->n_bits + bit] > 0)
                id[bit / t->s1_bits] += 1u << bit % t->s1_bits;
        ret_s1[i] = (uint16_t)id[0];
        ret_s2[i] = (uint16_t)id[1];
    }
    free(rows);
    free(z);
}

void kt_ref_predict(const struct kr_model *model, const uint16_t *s1, const uint16_t *s2,
                    const struct kr_stamp *stamps, size_t n, float *ret_h, struct kt_kv *ret_trunk,
                    struct kt_kv *ret_dependency)
{
    const struct kr_predictor *p = &model->predictor;
    size_t d = p->d_model;
    float *pairs = floats(n * 2 * d), *x = floats(n * d), root = (float)sqrt((double)d);

    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++) {
            pairs[i * 2 * d + j] = p->emb_s1[s1[i] * d + j] * root;
            pairs[i * 2 * d + d + j] = p->emb_s2[s2[i] * d + j] * root;
        }
    linear(&p->fusion, pairs, x, n);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++)
            x[i * d + j] += p->hour[stamps[i].hour * d + j] +
                            p->weekday[stamps[i].weekday * d + j] + p->day[stamps[i].day * d + j] +
                            p->month[stamps[i].month * d + j] + p->minute[stamps[i].minute * d + j];
    stack(&p->trunk, model->attention_window, x, n, ret_trunk);
    norm(x, p->norm, ret_h, n, d);
    if (ret_dependency) {
        kv_init(ret_dependency, 1, n, d);
        linear(&p->dep_k, ret_h, ret_dependency->k, n);
        linear(&p->dep_v, ret_h, ret_dependency->v, n);
    }
    free(pairs);
    free(x);
}

void kt_ref_decode(const struct kr_model *model, const uint16_t *s1, const uint16_t *s2, size_t n,
                   float *ret_y, struct kt_kv *ret_kv)
{
    const struct kr_tokenizer *t = &model->tokenizer;
    float *bits = floats(n * t->n_bits), *x = floats(n * t->d_model);
    float unit = (float)(1.0 / sqrt((double)t->n_bits));

    for (size_t i = 0; i < n; i++)
        for (size_t bit = 0; bit < t->n_bits; bit++) {
            unsigned id = bit < t->s1_bits ? s1[i] : s2[i];

            bits[i * t->n_bits + bit] = id >> bit % t->s1_bits & 1 ? unit : -unit;
        }
    linear(&t->post_quant_embed, bits, x, n);
    stack(&t->decoder, model->attention_window, x, n, ret_kv);
    linear(&t->head, x, ret_y, n);
    free(bits);
    free(x);
}

/* Both draws of one step behind window tokens [n]. */
static void draw(const struct kr_model *model, const struct kt_ref_request *request,
                 const uint16_t *s1, const uint16_t *s2, const struct kr_stamp *stamps, size_t n,
                 size_t step, uint16_t *ret_s1, uint16_t *ret_s2)
{
    const struct kr_predictor *p = &model->predictor;
    size_t d = p->d_model, v = p->vocabulary, dim = d / KR_DEP_HEADS, first;
    float *h = floats(n * d), *logits = floats(v), *q = floats(d), *mixed = floats(d),
          *x = floats(d);
    float *probabilities = floats(v);
    uint32_t *order = kr_alloc(v, sizeof(*order));
    struct kt_kv dependency;

    kt_ref_predict(model, s1, s2, stamps, n, h, NULL, &dependency);
    linear(&p->proj_s1, h + (n - 1) * d, logits, 1);
    *ret_s1 = (uint16_t)kr_sample(
        &request->sampling, logits, v,
        kr_draw(request->key, request->as_of_ns, request->path, (uint32_t)step, 0), probabilities,
        order);
    linear(&p->dep_q, p->emb_s1 + *ret_s1 * d, q, 1);
    first = unseen(model->attention_window, n);
    for (size_t head = 0; head < KR_DEP_HEADS; head++)
        attend(q + head * dim, dependency.k + first * d + head * dim,
               dependency.v + first * d + head * dim, d, n - first, dim, mixed + head * dim);
    linear(&p->dep_out, mixed, x, 1);
    for (size_t j = 0; j < d; j++)
        x[j] = h[(n - 1) * d + j] + x[j];
    norm(x, p->dep_norm, x, 1, d);
    linear(&p->proj_s2, x, logits, 1);
    *ret_s2 = (uint16_t)kr_sample(
        &request->sampling, logits, v,
        kr_draw(request->key, request->as_of_ns, request->path, (uint32_t)step, 1), probabilities,
        order);
    kt_kv_free(&dependency);
    free(h);
    free(logits);
    free(q);
    free(mixed);
    free(x);
    free(probabilities);
    free(order);
}

void kt_ref_path(const struct kr_model *model, const struct kt_ref_request *request,
                 uint16_t *ret_s1, uint16_t *ret_s2, float *ret_bars)
{
    size_t n = request->n, total = n + request->horizon;
    size_t context = model->attention_window ? SIZE_MAX : request->max_context;
    struct kr_walk walk = request->walk ? *request->walk : (struct kr_walk){0};
    uint16_t *s1 = kr_alloc(total, sizeof(*s1)), *s2 = kr_alloc(total, sizeof(*s2));
    struct kr_stamp *stamps = kr_alloc(total, sizeof(*stamps));
    float *y = floats(total * KR_COLUMNS);

    memcpy(stamps, request->stamps, n * sizeof(*stamps));
    memcpy(stamps + n, request->future, request->horizon * sizeof(*stamps));
    kt_ref_encode(model, request->x, n, s1, s2, NULL);
    for (size_t step = 0; step < request->horizon; step++) {
        size_t running = n + step, first = running > context ? running - context : 0;

        draw(model, request, s1 + first, s2 + first, stamps + first, running - first, step,
             &s1[running], &s2[running]);
    }
    for (size_t step = 0; step < request->horizon; step++) {
        /* the last max_context rows in one window; earlier ones each end a window of their own */
        bool in_last = request->horizon - step <= context;
        size_t end = in_last ? total : n + step + 1, first = end > context ? end - context : 0;

        kt_ref_decode(model, s1 + first, s2 + first, end - first, y, NULL);
        if (request->walk) {
            double v[KR_COLUMNS];

            kr_walk_step(&walk, &model->returns, y + (n + step - first) * KR_COLUMNS, v);
            for (int c = 0; c < KR_COLUMNS; c++)
                ret_bars[step * KR_COLUMNS + c] = (float)v[c];
        } else {
            kr_normaliser_invert(&request->normaliser, y + (n + step - first) * KR_COLUMNS,
                                 ret_bars + step * KR_COLUMNS);
        }
    }
    memcpy(ret_s1, s1 + n, request->horizon * sizeof(*s1));
    memcpy(ret_s2, s2 + n, request->horizon * sizeof(*s2));
    free(s1);
    free(s2);
    free(stamps);
    free(y);
}
