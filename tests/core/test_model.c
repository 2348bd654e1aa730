/* SPDX-License-Identifier: MIT */
#include "core/model.h"

#include "core/model_layout.h"
#include "core/safetensors.h"
#include "tests/core/checkpoint.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Every weight of a model against the tensors of the two files, converted by the reader. */
struct comparison {
    const struct kr_safetensors *file;
    size_t n_tensors, n_items, n_wrong;
};

/* What stands in the model for a weight, as stored: `unpacked` [n_items] if it is packed. */
static const float *in_model(const struct kr_weight *weight, float *unpacked)
{
    if (!weight->linear || !weight->linear->packed)
        return *weight->slot;
    kr_linear_weights(weight->linear, unpacked);
    return unpacked;
}

/* Item of a linear's matrix as stored. */
static float item(const struct kr_linear *linear, size_t i)
{
    float *all = malloc(linear->n_out * linear->n_in * sizeof(float)), found;

    kr_linear_weights(linear, all);
    found = all[i];
    free(all);
    return found;
}

static int compare(void *context, const struct kr_weight *weight)
{
    struct comparison *c = context;
    const struct kr_tensor *tensor = kr_safetensors_find(c->file, weight->name);
    const float *place = *weight->slot;
    const void *start = place ? (const void *)place : weight->linear->packed;
    float *expected = malloc(weight->n_items * sizeof(float));
    float *unpacked = malloc(weight->n_items * sizeof(float));

    if (!tensor || tensor->n_items != weight->n_items || kr_tensor_to_f32(tensor, expected) < 0 ||
        memcmp(in_model(weight, unpacked), expected, weight->n_items * sizeof(float)) != 0 ||
        (uintptr_t)start % KR_ALIGNMENT != 0)
        c->n_wrong++;
    for (size_t i = weight->n_items; place && i < kr_round_up(weight->n_items, 16); i++)
        c->n_wrong += place[i] != 0;
    free(unpacked);
    c->n_tensors++;
    c->n_items += weight->n_items;
    free(expected);
    return 0;
}

static struct comparison compare_part(struct kr_model *model, enum kt_part part, bool learn_te,
                                      const char *path)
{
    struct comparison c = {NULL, 0, 0, 0};
    struct kr_safetensors *file = NULL;

    CU_ASSERT_EQUAL_FATAL(kr_safetensors_open(path, &file, NULL), 0);
    c.file = file;
    if (part == KT_PREDICTOR)
        CU_ASSERT_EQUAL(kr_layout_predictor(model, learn_te, compare, &c), 0);
    if (part == KT_TOKENIZER)
        CU_ASSERT_EQUAL(kr_layout_tokenizer(model, compare, &c), 0);
    kr_safetensors_close(&file);
    return c;
}

static struct kr_model *load_golden(const char *name)
{
    struct kr_model *model = NULL;
    struct kr_error error = {""};
    int code = kr_model_load(kt_golden(name, KT_PREDICTOR, ""), kt_golden(name, KT_TOKENIZER, ""),
                             &model, &error);

    KT_CHECK(code == 0, "%d %s", code, error.text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    return model;
}

static bool linear_is(const struct kr_linear *linear, size_t n_in, size_t n_out, bool bias)
{
    return linear->n_in == n_in && linear->n_out == n_out && (linear->weight || linear->packed) &&
           !linear->bias == !bias;
}

static bool stack_is(const struct kr_stack *stack, size_t d, size_t heads, size_t ff, size_t n)
{
    bool ok = stack->d_model == d && stack->n_heads == heads && stack->head_dim == d / heads &&
              stack->ff == ff && stack->n_layers == n;

    for (size_t i = 0; ok && i < n; i++) {
        const struct kr_block *block = &stack->blocks[i];

        ok = block->norm1 && block->norm2 && linear_is(&block->q, d, d, true) &&
             linear_is(&block->k, d, d, true) && linear_is(&block->v, d, d, true) &&
             linear_is(&block->out, d, d, true) && linear_is(&block->w1, d, ff, false) &&
             linear_is(&block->w3, d, ff, false) && linear_is(&block->w2, ff, d, false);
    }
    return ok;
}

/* First and last items as another program read them from the files. */
static void loads_pico(void)
{
    struct kr_model *model = load_golden("pico");
    const struct kr_tokenizer *t = &model->tokenizer;
    const struct kr_predictor *p = &model->predictor;
    struct comparison c;

    CU_ASSERT_STRING_EQUAL(model->name, "pico");
    CU_ASSERT_STRING_EQUAL(model->sha256,
                           "91c33f188d492a8419596686722cc2b14251647edd5d1267c7d29844b0194822");
    CU_ASSERT_EQUAL(model->normaliser, KR_LEVELS);
    CU_ASSERT_EQUAL(model->attention_window, 0);
    CU_ASSERT(t->d_model == 32 && t->n_bits == 12 && t->s1_bits == 6);
    CU_ASSERT(stack_is(&t->encoder, 32, 2, 64, 2));
    CU_ASSERT(stack_is(&t->decoder, 32, 2, 64, 2));
    CU_ASSERT(linear_is(&t->embed, 6, 32, true));
    CU_ASSERT(linear_is(&t->quant_embed, 32, 12, true));
    CU_ASSERT(linear_is(&t->post_quant_embed, 12, 32, true));
    CU_ASSERT(linear_is(&t->head, 32, 6, true));
    CU_ASSERT(p->d_model == 32 && p->vocabulary == 64);
    CU_ASSERT(stack_is(&p->trunk, 32, 2, 64, 3));
    CU_ASSERT(linear_is(&p->fusion, 64, 32, true));
    CU_ASSERT(linear_is(&p->dep_q, 32, 32, true));
    CU_ASSERT(linear_is(&p->proj_s1, 32, 64, true));
    CU_ASSERT(linear_is(&p->proj_s2, 32, 64, true));

    CU_ASSERT_EQUAL(p->emb_s1[0], 0x1.2d85200000000p-3f);
    CU_ASSERT_EQUAL(p->emb_s1[64 * 32 - 1], -0x1.5874620000000p-3f);
    CU_ASSERT_EQUAL(p->month[0], -0x1.f4b3660000000p-3f);
    CU_ASSERT_EQUAL(p->month[13 * 32 - 1], 0x1.39a6ee0000000p-6f);
    CU_ASSERT_EQUAL(item(&p->trunk.blocks[1].w2, 0), 0x1.4dda300000000p-6f);
    CU_ASSERT_EQUAL(item(&p->trunk.blocks[1].w2, 32 * 64 - 1), 0x1.77b7840000000p-2f);
    CU_ASSERT_EQUAL(p->proj_s2.bias[63], -0x1.e3af800000000p-5f);
    CU_ASSERT_EQUAL(item(&t->encoder.blocks[1].w2, 0), 0x1.9015080000000p-5f);
    CU_ASSERT_EQUAL(t->decoder.blocks[0].k.bias[31], -0x1.c19eaa0000000p-7f);
    CU_ASSERT_EQUAL(item(&t->embed, 32 * 6 - 1), -0x1.1083be0000000p-2f);
    CU_ASSERT_EQUAL(t->head.bias[5], -0x1.0165560000000p-3f);

    c = compare_part(model, KT_PREDICTOR, true,
                     kt_golden("pico", KT_PREDICTOR, "/model.safetensors"));
    CU_ASSERT_EQUAL(c.n_tensors, 62);
    CU_ASSERT_EQUAL(c.n_wrong, 0);
    c = compare_part(model, KT_TOKENIZER, true,
                     kt_golden("pico", KT_TOKENIZER, "/model.safetensors"));
    CU_ASSERT_EQUAL(c.n_tensors, 60);
    CU_ASSERT_EQUAL(c.n_wrong, 0);
    kr_model_free(&model);
    CU_ASSERT_PTR_NULL(model);
    kr_model_free(&model);
}

/* Awkward widths, encoder and decoder of different depth, learn_te false. */
static void loads_odd(void)
{
    struct kr_model *model = load_golden("odd");
    const struct kr_tokenizer *t = &model->tokenizer;
    const struct kr_predictor *p = &model->predictor;

    CU_ASSERT_STRING_EQUAL(model->name, "odd");
    CU_ASSERT_STRING_EQUAL(model->sha256,
                           "90eae231e1114ee0a654462ed0f3e06c80170fb1a1ffceaf4c31d98bb02e5c46");
    CU_ASSERT(t->d_model == 36 && t->n_bits == 10 && t->s1_bits == 5);
    CU_ASSERT(stack_is(&t->encoder, 36, 3, 50, 3));
    CU_ASSERT(stack_is(&t->decoder, 36, 3, 50, 1));
    CU_ASSERT(p->d_model == 104 && p->vocabulary == 32);
    CU_ASSERT(stack_is(&p->trunk, 104, 2, 140, 2));
    CU_ASSERT_EQUAL(p->trunk.head_dim, 52);
    CU_ASSERT_EQUAL(p->month[0], -0x1.1f47920000000p-5f);
    CU_ASSERT_EQUAL(p->month[13 * 104 - 1], 0x1.21b1aa0000000p-3f);
    CU_ASSERT_EQUAL(t->decoder.blocks[0].k.bias[35], 0x1.696aae0000000p-4f);
    CU_ASSERT_EQUAL(compare_part(model, KT_PREDICTOR, false,
                                 kt_golden("odd", KT_PREDICTOR, "/model.safetensors"))
                        .n_wrong,
                    0);
    CU_ASSERT_EQUAL(compare_part(model, KT_TOKENIZER, false,
                                 kt_golden("odd", KT_TOKENIZER, "/model.safetensors"))
                        .n_wrong,
                    0);
    kr_model_free(&model);
}

static void names(void)
{
    static const char wide[] =
        "\xe6\xa8\xa1" /* three bytes, 25 times */
        "\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1"
        "\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1"
        "\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1"
        "\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1\xe6\xa8\xa1";
    char expected[64] = "";
    const struct {
        const char *folder, *name;
    } cases[] = {
        {"pico/predictor", "pico"},
        {"pico/predictor//", "pico"},
        {"pico/./predictor", "pico"},
        {"pico/predictor/.", "pico"},
        {"pico/tokenizer/../predictor", "pico"},
        {"Kronos-small", "Kronos-small"},
        {"two\nlines", "two?lines"},
        {".hidden", ".hidden"},
        {"not\xff utf8", "not"},
        {wide, expected},
    };

    memcpy(expected, wide, 63);
    kt_restore_all();
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        const char *folder = kt_path(cases[i].folder);
        struct kr_model *model = NULL;
        struct kr_error error = {""};

        if (access(folder, F_OK) < 0 && symlink(kt_copied(KT_PREDICTOR, ""), folder) < 0) {
            KT_CHECK(false, "no symlink %s", folder);
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(kr_model_load(folder, kt_copied(KT_TOKENIZER, ""), &model, &error),
                              0);
        KT_CHECK(strcmp(model->name, cases[i].name) == 0, "%s: %s", folder, model->name);
        kr_model_free(&model);
    }
}

/* The stacks may be shorter than the file is; none at all is a stack too. */
static void fewer_blocks(void)
{
    struct kr_model *model;

    kt_restore_all();
    kt_replace(KT_PREDICTOR, "\"n_layers\": 3", "\"n_layers\": 1");
    kt_replace(KT_TOKENIZER, "\"n_enc_layers\": 3", "\"n_enc_layers\": 1");
    model = kt_loads();
    if (model) {
        CU_ASSERT_EQUAL(model->predictor.trunk.n_layers, 1);
        CU_ASSERT_EQUAL(model->tokenizer.encoder.n_layers, 0);
        CU_ASSERT_EQUAL(model->tokenizer.decoder.n_layers, 2);
    }
    kr_model_free(&model);
}

/* Largest finite half, and the least that rounds beyond it. */
#define HALF_MAX  65504.0f
#define HALF_OVER 65520.0f

/* Round to the nearest half, ties to even, by arithmetic in double. */
static uint16_t f32_to_half(float value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs((double)value);
    int exponent;
    double steps;

    if (size >= HALF_OVER)
        return sign | 0x7c00;
    frexp(size, &exponent); /* size in [2^(exponent - 1), 2^exponent) */
    exponent = KR_MAX(exponent - 1, -14);
    steps = nearbyint(ldexp(size, 10 - exponent)); /* in units of the last place, to 2048 */
    if (steps < 1024)
        return sign | (uint16_t)steps; /* subnormal: exponent is -14 */
    return sign | (uint16_t)(((exponent + 14) << 10) + (int)steps);
}

/* Round to the nearest bfloat16, ties to even. */
static uint16_t f32_to_bfloat(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double half_value(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    double size = exponent ? ldexp(1024 + mantissa, exponent - 25) : ldexp(mantissa, -24);

    return half >> 15 ? -size : size;
}

static double bfloat_value(uint16_t bfloat)
{
    int exponent = bfloat >> 7 & 255, mantissa = bfloat & 127;
    double size = exponent ? ldexp(128 + mantissa, exponent - 134) : ldexp(mantissa, -133);

    return bfloat >> 15 ? -size : size;
}

struct narrow {
    const struct kr_tensor *tensors;
    size_t n;
    double (*value)(uint16_t);
    size_t n_items, n_subnormal, n_wrong;
};

static int compare_narrow(void *context, const struct kr_weight *weight)
{
    struct narrow *narrow = context;
    const uint16_t *halves = NULL;
    float *unpacked = malloc(weight->n_items * sizeof(float));
    const float *place = in_model(weight, unpacked);

    for (size_t i = 0; i < narrow->n; i++)
        if (strcmp(narrow->tensors[i].name, weight->name) == 0)
            halves = narrow->tensors[i].data;
    for (size_t i = 0; i < weight->n_items; i++) {
        double value = halves ? narrow->value(halves[i]) : NAN;

        narrow->n_wrong += !((double)place[i] == value);
        narrow->n_subnormal += fabs(value) > 0 && fabs(value) < 0x1p-14;
        narrow->n_items++;
    }
    free(unpacked);
    return 0;
}

/* The whole checkpoint in a 16-bit format loads as what those 16 bits say. */
static void loads_narrow(enum kr_dtype dtype, uint16_t (*round)(float), double (*value)(uint16_t))
{
    struct kr_model *model;

    kt_restore_all();
    for (enum kt_part part = KT_PREDICTOR; part < KT_N_PARTS; part++) {
        static const float special[] = {0x1p-24f, -0x1p-24f, 1023 * 0x1p-24f,
                                        0x1p-14f, -0.0f,     HALF_MAX};
        const char *path = kt_copied(part, "/model.safetensors");
        uint16_t *halves, *next;
        struct narrow narrow;
        struct kt_edit edit;
        int code;

        kt_edit_open(&edit, kt_golden("pico", part, "/model.safetensors"));
        halves = next = malloc(400000);
        for (size_t i = 0; i < edit.n; i++) {
            struct kr_tensor *tensor = &edit.tensors[i];
            const float *wide = tensor->data;

            if (tensor->dtype != KR_F32)
                continue;
            for (size_t j = 0; j < tensor->n_items; j++) {
                float item;

                memcpy(&item, wide + j, sizeof(item));
                if (i == 0 && j < KR_ARRAY_LENGTH(special))
                    item = special[j];
                next[j] = round(item);
            }
            tensor->dtype = dtype;
            tensor->data = next;
            next += tensor->n_items;
        }
        kt_write_tensors(path, edit.tensors, edit.n);
        model = kt_loads();
        CU_ASSERT_PTR_NOT_NULL_FATAL(model);
        narrow = (struct narrow){edit.tensors, edit.n, value, 0, 0, 0};
        code = part == KT_PREDICTOR ? kr_layout_predictor(model, true, compare_narrow, &narrow)
                                    : kr_layout_tokenizer(model, compare_narrow, &narrow);
        CU_ASSERT_EQUAL(code, 0);
        kt_note("%s: %zu items, %zu of them subnormal", kt_part_names[part], narrow.n_items,
                narrow.n_subnormal);
        CU_ASSERT_EQUAL(narrow.n_wrong, 0);
        CU_ASSERT(narrow.n_items > 40000);
        CU_ASSERT(narrow.n_subnormal >= 3);
        kr_model_free(&model);
        kr_safetensors_close(&edit.file);
        free(halves);
    }
}

static void loads_f16(void)
{
    CU_ASSERT_EQUAL(f32_to_half(1), 0x3c00);
    CU_ASSERT_EQUAL(f32_to_half(1 + 0x1p-11f), 0x3c00);
    CU_ASSERT_EQUAL(f32_to_half(1 + 3 * 0x1p-11f), 0x3c02);
    CU_ASSERT_EQUAL(f32_to_half(-HALF_MAX), 0xfbff);
    CU_ASSERT_EQUAL(f32_to_half(HALF_OVER), 0x7c00);
    CU_ASSERT_EQUAL(f32_to_half(0x1p-14f), 0x0400);
    CU_ASSERT_EQUAL(f32_to_half(0x1p-25f), 0);
    loads_narrow(KR_F16, f32_to_half, half_value);
}

static void loads_bf16(void)
{
    CU_ASSERT_EQUAL(f32_to_bfloat(1), 0x3f80);
    CU_ASSERT_EQUAL(f32_to_bfloat(1 + 0x1p-8f), 0x3f80);
    CU_ASSERT_EQUAL(f32_to_bfloat(1 + 3 * 0x1p-8f), 0x3f82);
    loads_narrow(KR_BF16, f32_to_bfloat, bfloat_value);
}

/* What is loaded does not hang on the files: a mapping would raise SIGBUS here. */
static void files_go_away(void)
{
    struct kr_model *model;
    struct comparison c;

    kt_restore_all();
    model = kt_loads();
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    CU_ASSERT_EQUAL(truncate(kt_copied(KT_PREDICTOR, "/model.safetensors"), 0), 0);
    CU_ASSERT_EQUAL(truncate(kt_copied(KT_TOKENIZER, "/model.safetensors"), 0), 0);
    c = compare_part(model, KT_PREDICTOR, true,
                     kt_golden("pico", KT_PREDICTOR, "/model.safetensors"));
    CU_ASSERT_EQUAL(c.n_wrong, 0);
    c = compare_part(model, KT_TOKENIZER, true,
                     kt_golden("pico", KT_TOKENIZER, "/model.safetensors"));
    CU_ASSERT_EQUAL(c.n_wrong, 0);
    kr_model_free(&model);
    CU_ASSERT(kt_refuses(-EBADMSG, "expected a header of at least 8 bytes, found 0"));
}

static int count_items(void *context, const struct kr_weight *weight)
{
    *(size_t *)context += weight->n_items;
    return 0;
}

/* model.md's table of parameters. */
static void public_shapes(void)
{
    static const struct {
        const char *name;
        double millions;
        size_t layers, head_dim;
    } cases[] = {{"mini", 4.1, 4, 64}, {"small", 24.7, 8, 64}, {"base", 102.3, 12, 52}};
    struct kr_model_shape shape = {.s1_bits = 99};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kr_model *model = NULL;
        size_t n_predictor = 0, n_tokenizer = 0;

        CU_ASSERT_EQUAL_FATAL(kr_model_shape_named(cases[i].name, &shape), 0);
        CU_ASSERT_EQUAL_FATAL(kr_layout_new(&shape, kr_products_named("openblas"), &model), 0);
        CU_ASSERT_EQUAL(kr_layout_predictor(model, true, count_items, &n_predictor), 0);
        CU_ASSERT_EQUAL(kr_layout_tokenizer(model, count_items, &n_tokenizer), 0);
        CU_ASSERT_EQUAL(model->predictor.vocabulary, 1024);
        CU_ASSERT_EQUAL(model->predictor.trunk.n_layers, cases[i].layers);
        CU_ASSERT_EQUAL(model->predictor.trunk.head_dim, cases[i].head_dim);
        CU_ASSERT(stack_is(&model->tokenizer.encoder, 256, 4, 512, 3) ==
                  false); /* no weights yet */
        kt_note("%s: %zu + %zu parameters", cases[i].name, n_predictor, n_tokenizer);
        CU_ASSERT_DOUBLE_EQUAL((double)n_predictor / 1e6, cases[i].millions, 0.05);
        CU_ASSERT_DOUBLE_EQUAL((double)n_tokenizer / 1e6, 4.0, 0.05);
        kr_model_free(&model);
    }
    shape.s1_bits = 99;
    CU_ASSERT_EQUAL(kr_model_shape_named("huge", &shape), -EINVAL);
    CU_ASSERT_EQUAL(kr_model_shape_named("", &shape), -EINVAL);
    CU_ASSERT_EQUAL(shape.s1_bits, 99);
}

/* Means and spread of what was drawn, for a uniform of the documented range. */
static int check_drawn(void *context, const struct kr_weight *weight)
{
    size_t *n_wrong = context;
    double centre = weight->kind == KR_WEIGHT_NORM ? 1 : 0;
    double half = weight->kind == KR_WEIGHT_NORM ? 0.5 : 1 / sqrt((double)weight->n_in);
    double n = (double)weight->n_items, sum = 0, squares = 0;
    float *unpacked = malloc(weight->n_items * sizeof(float));
    const float *place = in_model(weight, unpacked);

    for (size_t i = 0; i < weight->n_items; i++) {
        double u = ((double)place[i] - centre) / half;

        *n_wrong += !(fabs(u) <= 1 + 1e-6);
        sum += u;
        squares += u * u;
    }
    /* six standard errors of the mean and of the mean square of a uniform in [-1, 1) */
    if (fabs(sum / n) > 6 * sqrt(1 / 3.0 / n) ||
        fabs(squares / n - 1 / 3.0) > 6 * sqrt(4 / 45.0 / n)) {
        kt_note("%s: mean %g, square %g", weight->name, sum / n, squares / n);
        ++*n_wrong;
    }
    free(unpacked);
    return 0;
}

static void random_weights(void)
{
    static const struct kr_model_shape shape = {5, 36, 3, 50, 3, 1, 104, 2, 140, 2};
    struct kr_model *a = NULL, *b = NULL, *c = NULL, *stored = NULL;
    struct kr_error error = {""};
    size_t n_wrong = 0;

    CU_ASSERT_EQUAL_FATAL(kr_model_random(&shape, 1, &a, &error), 0);
    CU_ASSERT_EQUAL_FATAL(kr_model_random(&shape, 1, &b, &error), 0);
    CU_ASSERT_EQUAL_FATAL(kr_model_random(&shape, 1 + (UINT64_C(1) << 32), &c, NULL), 0);
    CU_ASSERT_STRING_EQUAL(a->name, "random");
    CU_ASSERT_EQUAL(strlen(a->sha256), 64);
    CU_ASSERT(stack_is(&a->tokenizer.encoder, 36, 3, 50, 3));
    CU_ASSERT(stack_is(&a->tokenizer.decoder, 36, 3, 50, 1));
    CU_ASSERT(stack_is(&a->predictor.trunk, 104, 2, 140, 2));
    CU_ASSERT_EQUAL_FATAL(
        kr_model_random_as(&shape, 1, kr_products_named("openblas"), &stored, &error), 0);
    CU_ASSERT_EQUAL(stored->n_weight_bytes, 1253376); /* as odd, which has this shape */
    CU_ASSERT_EQUAL(item(&stored->predictor.dep_q, 104 * 104 - 1),
                    item(&a->predictor.dep_q, 104 * 104 - 1));
    /* packed: beside the columns that fill a vector up, nothing more */
    CU_ASSERT(a->n_weight_bytes >= stored->n_weight_bytes &&
              a->n_weight_bytes < stored->n_weight_bytes * 5 / 4);
    kr_model_free(&stored);
    CU_ASSERT_EQUAL(memcmp(a->store->floats, b->store->floats, a->n_weight_bytes), 0);
    CU_ASSERT_NOT_EQUAL(memcmp(a->store->floats, c->store->floats, a->n_weight_bytes), 0);
    CU_ASSERT_EQUAL(kr_layout_predictor(a, true, check_drawn, &n_wrong), 0);
    CU_ASSERT_EQUAL(kr_layout_tokenizer(a, check_drawn, &n_wrong), 0);
    CU_ASSERT_EQUAL(n_wrong, 0);
    /* tensors of one shape do not repeat each other */
    CU_ASSERT_NOT_EQUAL(a->predictor.emb_s1[0], a->predictor.emb_s2[0]);
    CU_ASSERT_NOT_EQUAL(item(&a->predictor.trunk.blocks[0].q, 7),
                        item(&a->predictor.trunk.blocks[1].q, 7));
    CU_ASSERT_NOT_EQUAL(item(&a->predictor.trunk.blocks[0].q, 7),
                        item(&a->predictor.trunk.blocks[0].q, 11));
    kr_model_free(&a);
    kr_model_free(&b);
    kr_model_free(&c);
}

static void impossible_shapes(void)
{
    static const struct {
        struct kr_model_shape shape;
        const char *found;
    } cases[] = {
        {{0, 36, 3, 50, 3, 1, 104, 2, 140, 2}, "s1_bits: expected 1 to 16, found 0"},
        {{17, 36, 3, 50, 3, 1, 104, 2, 140, 2}, "s1_bits: expected 1 to 16, found 17"},
        {{5, 36, 5, 50, 3, 1, 104, 2, 140, 2}, "tok_heads: expected even heads in 36, found 5"},
        {{5, 36, 36, 50, 3, 1, 104, 2, 140, 2}, "tok_heads: expected even heads in 36, found 36"},
        {{5, 36, 0, 50, 3, 1, 104, 2, 140, 2}, "tok_heads: expected 1 to 1024, found 0"},
        {{5, 36, 3, 50, 257, 1, 104, 2, 140, 2}, "enc_blocks: expected 0 to 256, found 257"},
        {{5, 36, 3, 50, 3, 1, 104, 3, 140, 2}, "heads: expected even heads in 104, found 3"},
        {{5, 36, 3, 50, 3, 1, 102, 3, 140, 2}, "d_model: expected a multiple of 4, found 102"},
        {{5, 36, 3, 50, 3, 1, 104, 2, 140, 0}, "layers: expected 1 to 256, found 0"},
        {{5, 36, 3, SIZE_MAX, 3, 1, 104, 2, 140, 2},
         "tok_ff: expected 1 to 65536, found 18446744073709551615"},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kr_model *model = NULL;
        struct kr_error error = {""};

        CU_ASSERT_EQUAL(kr_model_random(&cases[i].shape, 1, &model, &error), -EINVAL);
        KT_CHECK(strstr(error.text, cases[i].found) != NULL, "%s", error.text);
        CU_ASSERT_PTR_NULL(model);
    }
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"golden pico", loads_pico},
        {"golden odd", loads_odd},
        {"names of models", names},
        {"fewer blocks", fewer_blocks},
        {"F16 weights", loads_f16},
        {"BF16 weights", loads_bf16},
        {"files truncated after loading", files_go_away},
        {"public shapes", public_shapes},
        {"random weights", random_weights},
        {"impossible shapes", impossible_shapes},
    };

    return kt_main("model", tests, KR_ARRAY_LENGTH(tests));
}
