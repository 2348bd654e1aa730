/* SPDX-License-Identifier: MIT */
#include "core/model.h"

#include "core/draw.h"
#include "core/model_config.h"
#include "core/model_layout.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int kr_model_shape_named(const char *name, struct kr_model_shape *ret)
{
    static const struct {
        const char *name;
        struct kr_model_shape shape;
    } shapes[] = {
        {"mini", {10, 256, 4, 512, 3, 3, 256, 4, 512, 4}},
        {"small", {10, 256, 4, 512, 3, 3, 512, 8, 1024, 8}},
        {"base", {10, 256, 4, 512, 3, 3, 832, 16, 2048, 12}},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(shapes); i++)
        if (strcmp(name, shapes[i].name) == 0) {
            *ret = shapes[i].shape;
            return 0;
        }
    return -EINVAL;
}

struct drawing {
    struct kr_model *model;
    uint32_t key[2];
    uint32_t n_drawn; /* weights so far: each has a counter of its own */
};

/* Uniform in ±1/sqrt(n_in); norms in [0.5, 1.5), so that leaving one out shows. */
static int draw_weight(void *context, const struct kr_weight *weight)
{
    struct drawing *drawing = context;
    float *place = kr_layout_place(drawing->model, weight);
    bool is_norm = weight->kind == KR_WEIGHT_NORM;
    float half = is_norm ? 0.5f : 1 / sqrtf((float)weight->n_in);
    float centre = is_norm ? 1 : 0;

    for (size_t i = 0; i < weight->n_items; i += 4) {
        const uint32_t counter[4] = {(uint32_t)(i / 4), 0, drawing->n_drawn, 0};
        uint32_t words[4];

        kr_philox(counter, drawing->key, words);
        for (size_t j = 0; j < KR_MIN(weight->n_items - i, (size_t)4); j++)
            place[i + j] = centre + half * ((float)(words[j] >> 8) * 0x1p-23f - 1);
    }
    kr_layout_placed(drawing->model, weight);
    drawing->n_drawn++;
    return 0;
}

int kr_model_random_as(const struct kr_model_shape *shape, uint64_t seed,
                       const struct kr_products *products, struct kr_model **ret,
                       struct kr_error *error)
{
    kr_cleanup(kr_model_free) struct kr_model *model = NULL;
    struct drawing drawing = {.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}};
    int code = kr_model_shape_check(shape, error);

    if (code == 0 && !products)
        code = kr_products_choose(KR_MATMUL_AUTO, KR_F32_PRODUCTS, &products, error);
    if (code < 0)
        return code;
    if (kr_layout_new(shape, products, &model) < 0 || kr_layout_reserve(model) < 0)
        return kr_error_set(error, -ENOMEM, "no memory for random weights");
    drawing.model = model;
    code = kr_layout_predictor(model, true, draw_weight, &drawing);
    if (code == 0)
        code = kr_layout_tokenizer(model, draw_weight, &drawing);
    kr_layout_finish(model);
    if (code < 0)
        return code;
    strcpy(model->name, "random");
    memset(model->sha256, '0', sizeof(model->sha256) - 1);
    *ret = model;
    model = NULL;
    return 0;
}

int kr_model_random(const struct kr_model_shape *shape, uint64_t seed, struct kr_model **ret,
                    struct kr_error *error)
{
    return kr_model_random_as(shape, seed, NULL, ret, error);
}
