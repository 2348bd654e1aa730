/* SPDX-License-Identifier: MIT */
/* What precision bf16 costs: the built-in model's step distributions against those in f32, both given the
 * same tokens. Their Kullback-Leibler divergence is printed, and its mean bounded. */
#include "core/engine.h"
#include "core/state.h"
#include "tests/core/golden.h"
#include "tests/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MEAN_KL 2e-3 /* nats */

/* One model over the sequence. */
struct side {
    struct kr_model *model;
    struct kr_engine engine;
    struct kr_cache caches[KR_CACHES];
    float *logits[2]; /* s1, s2 of the last row: [vocabulary] */
};

static void side_open(struct side *side, const struct kr_products *products)
{
    memset(side, 0, sizeof(*side));
    CU_ASSERT_EQUAL_FATAL(kr_model_load_as(kt_source("../etc/model/predictor"),
                                           kt_source("../etc/model/tokenizer"), products,
                                           &side->model, NULL),
                          0);
    CU_ASSERT_EQUAL_FATAL(kr_engine_init(&side->engine, side->model, 1), 0);
    for (int c = 0; c < KR_CACHES; c++) {
        struct kr_cache_shape shape = kr_cache_shape_of(side->model, c);

        CU_ASSERT_EQUAL_FATAL(
            kr_cache_init_ring(&side->caches[c], &shape, side->model->attention_window), 0);
    }
    for (int head = 0; head < 2; head++)
        side->logits[head] = kr_alloc(side->model->predictor.vocabulary, sizeof(float));
}

static void side_close(struct side *side)
{
    for (int c = 0; c < KR_CACHES; c++)
        kr_cache_free(&side->caches[c]);
    for (int head = 0; head < 2; head++)
        free(side->logits[head]);
    kr_engine_free(&side->engine);
    kr_model_free(&side->model);
}

/* Token i into the caches; logits of what follows it, s2 given the s1 that did. */
static void side_step(struct side *side, size_t i, uint16_t s1, uint16_t s2, uint16_t next,
                      const struct kr_stamp *stamp)
{
    size_t bytes = side->model->predictor.vocabulary * sizeof(float);
    size_t d = side->model->predictor.d_model;
    struct kr_engine *engine = &side->engine;
    struct kr_view trunk = {
        .own = &side->caches[KR_CACHE_TRUNK], .index = i, .position = (int64_t)i};
    struct kr_view dependency = {
        .own = &side->caches[KR_CACHE_DEPENDENCY], .index = i, .position = (int64_t)i};

    kr_predict_rows(engine, &trunk, &s1, &s2, stamp, 1);
    kr_dependency_rows(engine, &dependency, 1);
    kr_s1_logits(engine, engine->normed, d, 1);
    memcpy(side->logits[0], engine->logits, bytes);
    kr_s2_logits(engine, &dependency, &next, engine->normed, d, 1);
    memcpy(side->logits[1], engine->logits, bytes);
    CU_ASSERT_EQUAL(kr_cache_append(&side->caches[KR_CACHE_TRUNK], 1), 0);
    CU_ASSERT_EQUAL(kr_cache_append(&side->caches[KR_CACHE_DEPENDENCY], 1), 0);
}

static double log_sum(const float *logits, size_t n)
{
    double most = logits[0], sum = 0;

    for (size_t i = 1; i < n; i++)
        most = fmax(most, logits[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp(logits[i] - most);
    return most + log(sum);
}

/* KL(p || q) in nats. */
static double divergence(const float *p, const float *q, size_t n)
{
    double of_p = log_sum(p, n), of_q = log_sum(q, n), sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += exp(p[i] - of_p) * ((p[i] - of_p) - (q[i] - of_q));
    return sum;
}

static void against_f32(const char *name)
{
    const struct kr_products *products = kr_products_named(name), *usual = NULL;
    double sum[2] = {0}, most[2] = {0};
    const int64_t *s1, *s2, *calendar;
    struct side whole, narrow;
    struct kt_golden golden;
    size_t n;

    if (!products) {
        kt_skip("no %s: this processor, or its system, does not offer it", name);
        return;
    }
    if (!kt_golden_open(&golden, "builtin", "logits"))
        return;
    CU_ASSERT_EQUAL_FATAL(kr_products_choose(KR_MATMUL_AUTO, KR_F32_PRODUCTS, &usual, NULL), 0);
    side_open(&whole, usual);
    side_open(&narrow, products);
    s1 = kt_ints(&golden, "s1", &n, NULL);
    s2 = kt_ints(&golden, "s2", NULL, NULL);
    calendar = kt_ints(&golden, "stamps", NULL, NULL);
    for (size_t i = 0; i + 1 < n; i++) {
        const int64_t *t = calendar + 5 * i;
        struct kr_stamp stamp = {(uint8_t)t[0], (uint8_t)t[1], (uint8_t)t[2], (uint8_t)t[3],
                                 (uint8_t)t[4]};
        uint16_t id1 = (uint16_t)s1[i], id2 = (uint16_t)s2[i], next = (uint16_t)s1[i + 1];

        side_step(&whole, i, id1, id2, next, &stamp);
        side_step(&narrow, i, id1, id2, next, &stamp);
        for (int head = 0; head < 2; head++) {
            double kl = divergence(whole.logits[head], narrow.logits[head],
                                   whole.model->predictor.vocabulary);

            sum[head] += kl;
            most[head] = fmax(most[head], kl);
        }
    }
    for (int head = 0; head < 2; head++) {
        double mean = sum[head] / (double)(n - 1);

        kt_note("%s, s%d: %zu steps, KL mean %.3g, largest %.3g nats", name, head + 1, n - 1, mean,
                most[head]);
        KT_CHECK(mean < MEAN_KL, "mean KL %g, expected below %g", mean, MEAN_KL);
        KT_CHECK(mean > 1e-9, "mean KL %g: nothing was rounded", mean);
    }
    side_close(&whole);
    side_close(&narrow);
    kt_golden_close(&golden);
}

static void vectors(void)
{
    against_f32("avx512_bf16");
}

static void matrices(void)
{
    against_f32("amx_bf16");
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"AVX512_BF16 against f32", vectors},
        {"AMX against f32", matrices},
    };

    return kt_main("bf16", tests, KR_ARRAY_LENGTH(tests));
}
