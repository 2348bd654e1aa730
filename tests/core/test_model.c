/* SPDX-License-Identifier: MIT */
#include "core/model.h"

#include "core/model_layout.h"
#include "core/safetensors.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Copies of the golden pico checkpoint below the temporary folder, to be changed one at a time. */
enum part { PREDICTOR, TOKENIZER, N_PARTS };
static const char *const part_names[] = {"predictor", "tokenizer"};

static const char *golden(const char *model, enum part part, const char *file)
{
    char relative[96];

    snprintf(relative, sizeof(relative), "golden/%s/%s%s", model, part_names[part], file);
    return kt_source(relative);
}

/* The same string at each call: loops hold on to it. */
static const char *copied(enum part part, const char *file)
{
    static char paths[N_PARTS][3][256];
    char *path = paths[part][file[0] == '\0' ? 0 : file[1] == 'c' ? 1 : 2];

    snprintf(path, sizeof(paths[0][0]), "%s/pico/%s%s", kt_tmp(), part_names[part], file);
    return path;
}

static void restore(enum part part, const char *file)
{
    size_t n_bytes;
    char *bytes = kt_get(golden("pico", part, file), &n_bytes);

    kt_put(copied(part, file), bytes, n_bytes);
    free(bytes);
}

static void restore_all(void)
{
    for (enum part part = PREDICTOR; part < N_PARTS; part++) {
        char relative[32];

        snprintf(relative, sizeof(relative), "pico/%s", part_names[part]);
        kt_make_folder(relative);
        restore(part, "/config.json");
        restore(part, "/model.safetensors");
    }
}

static int load_copy(struct kr_model **ret, struct kr_error *error)
{
    return kr_model_load(copied(PREDICTOR, ""), copied(TOKENIZER, ""), ret, error);
}

/* The copies load, as they are now. */
static struct kr_model *loads(void)
{
    struct kr_model *model = NULL;
    struct kr_error error = {""};
    int code = load_copy(&model, &error);

    KT_CHECK(code == 0, "%d %s", code, error.text);
    return model;
}

static bool refuses(int code, const char *part)
{
    struct kr_model *const sentinel = (struct kr_model *)(uintptr_t)64;
    struct kr_model *model = sentinel;
    struct kr_error error = {""};
    int got = load_copy(&model, &error);
    bool ok = got == code && model == sentinel && strstr(error.text, part) &&
              !strchr(error.text, '\n') && strncmp(error.text, kt_tmp(), strlen(kt_tmp())) == 0;

    KT_CHECK(ok, "%d, expected %d ...%s...: %s", got, code, part, error.text);
    return ok && load_copy(&model, NULL) == code;
}

/* A checkpoint's tensors, to be edited and written again. */
struct edit {
    struct kr_safetensors *file;
    struct kr_tensor tensors[160];
    size_t n;
};

static void edit_open(struct edit *edit, const char *path)
{
    struct kr_error error = {""};

    if (kr_safetensors_open(path, &edit->file, &error) < 0) {
        kt_note("%s", error.text);
        abort();
    }
    edit->n = kr_safetensors_count(edit->file);
    for (size_t i = 0; i < edit->n; i++)
        edit->tensors[i] = *kr_safetensors_at(edit->file, i);
}

static struct kr_tensor *edit_find(struct edit *edit, const char *name)
{
    for (size_t i = 0; i < edit->n; i++)
        if (strcmp(edit->tensors[i].name, name) == 0)
            return &edit->tensors[i];
    abort();
}

static void write_tensors(const char *path, const struct kr_tensor *tensors, size_t n)
{
    FILE *stream = fopen(path, "we");

    CU_ASSERT_EQUAL(kr_safetensors_write(stream, tensors, n), 0);
    fclose(stream);
}

/* Every weight of a model against the tensors of the two files, converted by the reader. */
struct comparison {
    const struct kr_safetensors *file;
    size_t n_tensors, n_items, n_wrong;
};

static int compare(void *context, const struct kr_weight *weight)
{
    struct comparison *c = context;
    const struct kr_tensor *tensor = kr_safetensors_find(c->file, weight->name);
    const float *place = *weight->slot;
    float *expected = malloc(weight->n_items * sizeof(float));

    if (!tensor || tensor->n_items != weight->n_items || kr_tensor_to_f32(tensor, expected) < 0 ||
        memcmp(place, expected, weight->n_items * sizeof(float)) != 0 ||
        (uintptr_t)place % KR_ALIGNMENT != 0)
        c->n_wrong++;
    for (size_t i = weight->n_items; i < kr_round_up(weight->n_items, 16); i++)
        c->n_wrong += place[i] != 0;
    c->n_tensors++;
    c->n_items += weight->n_items;
    free(expected);
    return 0;
}

static struct comparison compare_part(struct kr_model *model, enum part part, bool learn_te,
                                      const char *path)
{
    struct comparison c = {NULL, 0, 0, 0};
    struct kr_safetensors *file = NULL;

    CU_ASSERT_EQUAL_FATAL(kr_safetensors_open(path, &file, NULL), 0);
    c.file = file;
    if (part == PREDICTOR)
        CU_ASSERT_EQUAL(kr_layout_predictor(model, learn_te, compare, &c), 0);
    if (part == TOKENIZER)
        CU_ASSERT_EQUAL(kr_layout_tokenizer(model, compare, &c), 0);
    kr_safetensors_close(&file);
    return c;
}

static struct kr_model *load_golden(const char *name)
{
    struct kr_model *model = NULL;
    struct kr_error error = {""};
    int code =
        kr_model_load(golden(name, PREDICTOR, ""), golden(name, TOKENIZER, ""), &model, &error);

    KT_CHECK(code == 0, "%d %s", code, error.text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    return model;
}

static bool linear_is(const struct kr_linear *linear, size_t n_in, size_t n_out, bool bias)
{
    return linear->n_in == n_in && linear->n_out == n_out && linear->weight &&
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
    CU_ASSERT_EQUAL(p->trunk.blocks[1].w2.weight[0], 0x1.4dda300000000p-6f);
    CU_ASSERT_EQUAL(p->trunk.blocks[1].w2.weight[32 * 64 - 1], 0x1.77b7840000000p-2f);
    CU_ASSERT_EQUAL(p->proj_s2.bias[63], -0x1.e3af800000000p-5f);
    CU_ASSERT_EQUAL(t->encoder.blocks[1].w2.weight[0], 0x1.9015080000000p-5f);
    CU_ASSERT_EQUAL(t->decoder.blocks[0].k.bias[31], -0x1.c19eaa0000000p-7f);
    CU_ASSERT_EQUAL(t->embed.weight[32 * 6 - 1], -0x1.1083be0000000p-2f);
    CU_ASSERT_EQUAL(t->head.bias[5], -0x1.0165560000000p-3f);

    c = compare_part(model, PREDICTOR, true, golden("pico", PREDICTOR, "/model.safetensors"));
    CU_ASSERT_EQUAL(c.n_tensors, 62);
    CU_ASSERT_EQUAL(c.n_wrong, 0);
    c = compare_part(model, TOKENIZER, true, golden("pico", TOKENIZER, "/model.safetensors"));
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
    CU_ASSERT_EQUAL(
        compare_part(model, PREDICTOR, false, golden("odd", PREDICTOR, "/model.safetensors"))
            .n_wrong,
        0);
    CU_ASSERT_EQUAL(
        compare_part(model, TOKENIZER, false, golden("odd", TOKENIZER, "/model.safetensors"))
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
    restore_all();
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        const char *folder = kt_path(cases[i].folder);
        struct kr_model *model = NULL;
        struct kr_error error = {""};

        if (access(folder, F_OK) < 0 && symlink(copied(PREDICTOR, ""), folder) < 0) {
            KT_CHECK(false, "no symlink %s", folder);
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(kr_model_load(folder, copied(TOKENIZER, ""), &model, &error), 0);
        KT_CHECK(strcmp(model->name, cases[i].name) == 0, "%s: %s", folder, model->name);
        kr_model_free(&model);
    }
}

static void replace(enum part part, const char *from, const char *to)
{
    const char *path = copied(part, "/config.json");
    size_t n_bytes;
    char *text = kt_get(path, &n_bytes);
    char *at = strstr(text, from);
    FILE *stream;

    KT_CHECK(at != NULL, "no %s in %s", from, path);
    stream = fopen(path, "we");
    if (at)
        fprintf(stream, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    fclose(stream);
    free(text);
}

static void configurations(void)
{
    static const struct {
        enum part part;
        const char *from, *to;
        int code;
        const char *found;
    } cases[] = {
        {TOKENIZER, "\"d_in\": 6", "\"d_in\": 12", -ENOTSUP,
         "tokenizer/config.json: d_in: expected 6, found 12"},
        {TOKENIZER, "\"d_in\": 6", "\"d_in\": 20", -ENOTSUP, "d_in: expected 6, found 20"},
        {TOKENIZER, "\"d_in\": 6,", "", -EBADMSG,
         "d_in: expected an integer from 1 to 16384, found nothing"},
        {TOKENIZER, "\"s2_bits\": 6", "\"s2_bits\": 5", -ENOTSUP,
         "tokenizer/config.json: s2_bits: expected 6 as in s1_bits, found 5"},
        {PREDICTOR, "\"s2_bits\": 6", "\"s2_bits\": 5", -ENOTSUP,
         "predictor/config.json: s2_bits: expected 6 as in s1_bits, found 5"},
        {PREDICTOR, "\"s1_bits\": 6,\n  \"s2_bits\": 6", "\"s1_bits\": 7,\n  \"s2_bits\": 7",
         -EBADMSG, "predictor/config.json: s1_bits, s2_bits: expected 6 as in "},
        {PREDICTOR, "\"s1_bits\": 6", "\"s1_bits\": 17", -EBADMSG,
         "s1_bits: expected an integer from 1 to 16, found 17"},
        {PREDICTOR, "\"s1_bits\": 6", "\"s1_bits\": 0", -EBADMSG,
         "s1_bits: expected an integer from 1 to 16, found 0"},
        {PREDICTOR, "\"n_heads\"", "\"n_headz\"", -EBADMSG,
         "predictor/config.json: n_heads: expected an integer from 1 to 1024, found nothing"},
        {PREDICTOR, "\"n_heads\": 2", "\"n_heads\": 3", -EBADMSG,
         "n_heads: expected heads of equal and even width in d_model 32, found 3"},
        {TOKENIZER, "\"n_heads\": 2", "\"n_heads\": 32", -EBADMSG,
         "n_heads: expected heads of equal and even width in d_model 32, found 32"},
        {TOKENIZER, "\"n_heads\": 2", "\"n_heads\": 0", -EBADMSG,
         "n_heads: expected an integer from 1"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": 32.0", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found 32.0"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": \"32\"", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found \"32\""},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": null", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found null"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": [32]", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found a list of 1"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": -32", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found -32"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": 16388", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found 16388"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": 9223372036854775807", -EBADMSG,
         "found 9223372036854775807"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": 9223372036854775808", -EBADMSG,
         "line 3: expected JSON, found too big integer"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": 1e999", -EBADMSG,
         "expected JSON, found real number overflow"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": 34, \"n_layers\": 3", -EBADMSG, "duplicate"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": 36", -EBADMSG,
         "embedding.emb_s1.weight: expected shape [64, 36], found [64, 32]"},
        {PREDICTOR, "\"d_model\": 32", "\"d_model\": 16384", -EBADMSG,
         "embedding.emb_s1.weight: expected shape [64, 16384], found [64, 32]"},
        {PREDICTOR, "\"ff_dim\": 64", "\"ff_dim\": 65537", -EBADMSG,
         "ff_dim: expected an integer from 1 to 65536, found 65537"},
        {PREDICTOR, "\"ff_dim\": 64", "\"ff_dim\": 65", -EBADMSG,
         "transformer.0.ffn.w1.weight: expected shape [65, 32], found [64, 32]"},
        {PREDICTOR, "\"n_layers\": 3", "\"n_layers\": 257", -EBADMSG,
         "n_layers: expected an integer from 1 to 256, found 257"},
        {PREDICTOR, "\"n_layers\": 3", "\"n_layers\": 4", -EBADMSG,
         "model.safetensors: transformer.3.norm1.weight: expected shape [32], found no such "
         "tensor"},
        {TOKENIZER, "\"n_enc_layers\": 3", "\"n_enc_layers\": 0", -EBADMSG,
         "n_enc_layers: expected an integer from 1 to 256, found 0"},
        {TOKENIZER, "\"n_enc_layers\": 3", "\"n_enc_layers\": 4", -EBADMSG,
         "encoder.2.norm1.weight: expected shape [32], found no such tensor"},
        {TOKENIZER, "\"n_dec_layers\": 3", "\"n_dec_layers\": 256", -EBADMSG,
         "decoder.2.norm1.weight: expected shape [32], found no such tensor"},
        {PREDICTOR, "\"learn_te\": true", "\"learn_te\": false", -EBADMSG,
         "time_emb.minute_embed.emb.weight: expected shape [60, 32], found no such tensor"},
        {PREDICTOR, "\"learn_te\": true", "\"learn_te\": 1", -EBADMSG,
         "learn_te: expected true or false, found 1"},
        {PREDICTOR, "\"learn_te\": true,", "", -EBADMSG,
         "learn_te: expected true or false, found nothing"},
        {TOKENIZER, "{", "{\"normaliser\": \"zscore\",", -EBADMSG,
         "normaliser: expected \"levels\" or \"returns\", found \"zscore\""},
        {PREDICTOR, "{", "{\"normaliser\": 3,", -EBADMSG,
         "normaliser: expected \"levels\" or \"returns\", found 3"},
        {TOKENIZER, "{", "{\"normaliser\": \"returns\",", -EBADMSG,
         "normaliser: expected \"returns\" as in "},
        {PREDICTOR, "{", "{\"normaliser\": \"returns\",", -EBADMSG,
         "normaliser: expected \"levels\" as in "},
        {TOKENIZER, "{", "{\"attention_window\": 20,", -EBADMSG,
         "attention_window: expected 20 as in "},
        {TOKENIZER, "{", "{\"attention_window\": -1,", -EBADMSG,
         "attention_window: expected an integer from 0 to 16777216, found -1"},
        {TOKENIZER, "{", "{\"attention_window\": 2.5,", -EBADMSG,
         "attention_window: expected an integer from 0"},
        {TOKENIZER, "{", "{\"attention_window\": null,", -EBADMSG,
         "attention_window: expected an integer from 0"},
        {TOKENIZER, "{", "{\"attention_window\": 16777217,", -EBADMSG,
         "attention_window: expected an integer from 0"},
    };

    restore_all();
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        replace(cases[i].part, cases[i].from, cases[i].to);
        CU_ASSERT(refuses(cases[i].code, cases[i].found));
        restore(cases[i].part, "/config.json");
    }

    replace(PREDICTOR, "\"d_model\": 32", "\"d_model\": 34");
    replace(PREDICTOR, "\"n_heads\": 2", "\"n_heads\": 17");
    CU_ASSERT(
        refuses(-EBADMSG, "predictor/config.json: d_model: expected a multiple of 4, found 34"));
    restore(PREDICTOR, "/config.json");
}

/* Extensions which both checkpoints carry: named, not run by this build; and defaults written out. */
static void extensions(void)
{
    static const char window[] = "{\"attention_window\": 20,";
    static const char returns[] = "{\"normaliser\": \"returns\",";
    static const char defaults[] =
        "{\"normaliser\": \"levels\", \"attention_window\": 0, \"beta2\": [1, 2],";
    struct kr_model *model;

    restore_all();
    replace(PREDICTOR, "{", returns);
    replace(TOKENIZER, "{", returns);
    CU_ASSERT(refuses(-ENOTSUP, "normaliser: expected \"levels\", found \"returns\""));
    restore_all();
    replace(PREDICTOR, "{", window);
    replace(TOKENIZER, "{", window);
    CU_ASSERT(refuses(-ENOTSUP, "attention_window: expected 0, found 20"));

    restore_all();
    replace(PREDICTOR, "{", defaults);
    model = loads();
    kr_model_free(&model);
    replace(TOKENIZER, "{", defaults);
    model = loads();
    kr_model_free(&model);
}

/* The stacks may be shorter than the file is; none at all is a stack too. */
static void fewer_blocks(void)
{
    struct kr_model *model;

    restore_all();
    replace(PREDICTOR, "\"n_layers\": 3", "\"n_layers\": 1");
    replace(TOKENIZER, "\"n_enc_layers\": 3", "\"n_enc_layers\": 1");
    model = loads();
    if (model) {
        CU_ASSERT_EQUAL(model->predictor.trunk.n_layers, 1);
        CU_ASSERT_EQUAL(model->tokenizer.encoder.n_layers, 0);
        CU_ASSERT_EQUAL(model->tokenizer.decoder.n_layers, 2);
    }
    kr_model_free(&model);
}

static void not_json(void)
{
    static const struct {
        const char *text, *found;
    } cases[] = {
        {"", "expected JSON"},
        {"{", "expected JSON"},
        {"\xff\xfe", "expected JSON"},
        {"{} x", "expected JSON"},
        {"not json\nat all", "expected JSON"},
        {"{\"s1_bits\": 6, \"s1_bits\": 6}", "duplicate"},
        {"[1, 2]", "expected a JSON object, found a list of 2"},
        {"7", "expected a JSON object, found 7"},
        {"null", "expected a JSON object, found null"},
        {"\"s\"", "expected a JSON object, found \"s\""},
        {"{}", "s1_bits: expected an integer from 1 to 16, found nothing"},
        {"{\"s1_bits\": "
         "\"0123456789012345678901234567890123456789012345678901234567890123456789\"}",
         "s1_bits: expected an integer from 1 to 16, found a string of 70 bytes"},
    };
    size_t n = 300000;
    char *text = malloc(n);

    restore_all();
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        kt_put(copied(PREDICTOR, "/config.json"), cases[i].text, strlen(cases[i].text));
        CU_ASSERT(refuses(-EBADMSG, cases[i].found));
    }
    memset(text, '[', n);
    kt_put(copied(PREDICTOR, "/config.json"), text, 100000);
    CU_ASSERT(refuses(-EBADMSG, "expected JSON, found maximum parsing depth"));
    memset(text, ' ', n);
    kt_put(copied(PREDICTOR, "/config.json"), text, n);
    CU_ASSERT(refuses(-EBADMSG, "expected at most 262144 bytes, found 300000"));
    free(text);
}

static void missing_files(void)
{
    struct kr_model *model = NULL;
    struct kr_error error = {""};

    restore_all();
    CU_ASSERT_EQUAL(kr_model_load(kt_path("nowhere"), copied(TOKENIZER, ""), &model, &error),
                    -ENOENT);
    CU_ASSERT(strstr(error.text, "nowhere/config.json: expected a file") != NULL);
    CU_ASSERT_EQUAL(
        kr_model_load(copied(PREDICTOR, "/config.json"), copied(TOKENIZER, ""), &model, &error),
        -ENOENT);
    for (enum part part = PREDICTOR; part < N_PARTS; part++) {
        unlink(copied(part, "/model.safetensors"));
        CU_ASSERT(refuses(-ENOENT, "model.safetensors: expected a file"));
        restore(part, "/model.safetensors");
        unlink(copied(part, "/config.json"));
        CU_ASSERT(refuses(-ENOENT, "config.json: expected a file"));
        restore(part, "/config.json");
    }
    unlink(copied(PREDICTOR, "/model.safetensors"));
    kt_make_folder("pico/predictor/model.safetensors");
    CU_ASSERT(refuses(-EBADMSG, "model.safetensors: expected a regular file, found a folder"));
    rmdir(copied(PREDICTOR, "/model.safetensors"));

    restore_all();
    CU_ASSERT_EQUAL(kr_model_load(copied(TOKENIZER, ""), copied(PREDICTOR, ""), &model, &error),
                    -EBADMSG);
    CU_ASSERT(strstr(error.text, "n_layers: expected an integer from 1 to 256, found nothing") !=
              NULL);
    CU_ASSERT_EQUAL(
        kr_model_load(golden("odd", PREDICTOR, ""), copied(TOKENIZER, ""), &model, &error),
        -EBADMSG);
    CU_ASSERT(strstr(error.text, "s1_bits, s2_bits: expected 6 as in ") != NULL);
    CU_ASSERT(strstr(error.text, "found 5") != NULL);
    CU_ASSERT_PTR_NULL(model);
}

static bool is_buffer(const char *name)
{
    return strstr(name, "rotary.inv_freq") || strncmp(name, "tokenizer.bsq.", 14) == 0 ||
           strncmp(name, "post_quant_embed_pre.", 21) == 0;
}

/* The loader's message about a tensor of this shape, found otherwise. */
static bool refuses_shape(const struct kr_tensor *expected, const struct kr_tensor *found)
{
    char shapes[2][96] = {"", "no such tensor"}, message[320];
    const struct kr_tensor *const both[2] = {expected, found};

    for (size_t i = 0; i < 2 && both[i]; i++) {
        int at = snprintf(shapes[i], sizeof(shapes[i]), "[%zu", both[i]->shape[0]);

        for (size_t r = 1; r < both[i]->rank; r++)
            at += snprintf(shapes[i] + at, sizeof(shapes[i]) - (size_t)at, ", %zu",
                           both[i]->shape[r]);
        snprintf(shapes[i] + at, sizeof(shapes[i]) - (size_t)at, "]");
    }
    snprintf(message, sizeof(message), "model.safetensors: %s: expected shape %s, found %s",
             expected->name, shapes[0], shapes[1]);
    return refuses(-EBADMSG, message);
}

/* Without any one tensor, or with any one of another shape or type, loading fails and names it, unless
 * it is a buffer. */
static void each_tensor(void)
{
    size_t n_needed[N_PARTS] = {0, 0}, n_buffers = 0;

    restore_all();
    for (enum part part = PREDICTOR; part < N_PARTS; part++) {
        const char *path = copied(part, "/model.safetensors");
        struct edit edit;

        edit_open(&edit, golden("pico", part, "/model.safetensors"));
        for (size_t i = 0; i < edit.n; i++) {
            struct kr_tensor *tensor = &edit.tensors[i];
            const struct kr_tensor whole = *tensor;
            char message[160];

            *tensor = edit.tensors[edit.n - 1]; /* the last in its place: another order, one less */
            write_tensors(path, edit.tensors, edit.n - 1);
            *tensor = whole;
            if (is_buffer(whole.name)) {
                struct kr_model *model = loads();

                kr_model_free(&model);
                n_buffers++;
                continue;
            }
            n_needed[part]++;
            CU_ASSERT(refuses_shape(&whole, NULL));

            tensor->shape[0]--;
            write_tensors(path, edit.tensors, edit.n);
            CU_ASSERT(refuses_shape(&whole, tensor));
            *tensor = whole;
            tensor->shape[tensor->rank++] = 1;
            write_tensors(path, edit.tensors, edit.n);
            CU_ASSERT(refuses_shape(&whole, tensor));

            *tensor = whole;
            tensor->dtype = KR_I32;
            write_tensors(path, edit.tensors, edit.n);
            snprintf(message, sizeof(message), "%s: expected F32, F16 or BF16, found I32",
                     whole.name);
            CU_ASSERT(refuses(-EBADMSG, message));
            *tensor = whole;
        }
        kr_safetensors_close(&edit.file);
        restore(part, "/model.safetensors");
    }
    CU_ASSERT_EQUAL(n_needed[PREDICTOR], 62);
    CU_ASSERT_EQUAL(n_needed[TOKENIZER], 60);
    CU_ASSERT_EQUAL(n_buffers, 3 + 1 + 4 + 2 + 2);
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

    for (size_t i = 0; i < narrow->n; i++)
        if (strcmp(narrow->tensors[i].name, weight->name) == 0)
            halves = narrow->tensors[i].data;
    for (size_t i = 0; i < weight->n_items; i++) {
        double value = halves ? narrow->value(halves[i]) : NAN;

        narrow->n_wrong += !((double)(*weight->slot)[i] == value);
        narrow->n_subnormal += fabs(value) > 0 && fabs(value) < 0x1p-14;
        narrow->n_items++;
    }
    return 0;
}

/* The whole checkpoint in a 16-bit format loads as what those 16 bits say. */
static void loads_narrow(enum kr_dtype dtype, uint16_t (*round)(float), double (*value)(uint16_t))
{
    struct kr_model *model;

    restore_all();
    for (enum part part = PREDICTOR; part < N_PARTS; part++) {
        static const float special[] = {0x1p-24f, -0x1p-24f, 1023 * 0x1p-24f,
                                        0x1p-14f, -0.0f,     HALF_MAX};
        const char *path = copied(part, "/model.safetensors");
        uint16_t *halves, *next;
        struct narrow narrow;
        struct edit edit;
        int code;

        edit_open(&edit, golden("pico", part, "/model.safetensors"));
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
        write_tensors(path, edit.tensors, edit.n);
        model = loads();
        CU_ASSERT_PTR_NOT_NULL_FATAL(model);
        narrow = (struct narrow){edit.tensors, edit.n, value, 0, 0, 0};
        code = part == PREDICTOR ? kr_layout_predictor(model, true, compare_narrow, &narrow)
                                 : kr_layout_tokenizer(model, compare_narrow, &narrow);
        CU_ASSERT_EQUAL(code, 0);
        kt_note("%s: %zu items, %zu of them subnormal", part_names[part], narrow.n_items,
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

/* Infinities and nans of each format, in the first, a middle and the last tensor of each file. */
static void not_finite(void)
{
    static const char *const tensor_names[N_PARTS][3] = {
        {"embedding.emb_s1.weight", "transformer.1.ffn.w2.weight", "head.proj_s2.bias"},
        {"embed.weight", "encoder.1.self_attn.k_proj.bias", "post_quant_embed.bias"},
    };
    static const struct {
        enum kr_dtype dtype;
        uint32_t bits;
        const char *found;
    } cases[] = {
        {KR_F32, 0x7f800000, "found infinity"}, {KR_F32, 0xff800000, "found infinity"},
        {KR_F32, 0x7fc00000, "found nan"},      {KR_F16, 0x7c00, "found infinity"},
        {KR_F16, 0x7c01, "found nan"},          {KR_BF16, 0xff80, "found infinity"},
        {KR_BF16, 0x7f81, "found nan"},
    };

    restore_all();
    for (enum part part = PREDICTOR; part < N_PARTS; part++) {
        struct edit edit;

        edit_open(&edit, golden("pico", part, "/model.safetensors"));
        for (size_t i = 0; i < 3 * KR_ARRAY_LENGTH(cases); i++) {
            const char *name = tensor_names[part][i % 3];
            enum kr_dtype dtype = cases[i / 3].dtype;
            struct kr_tensor *tensor = edit_find(&edit, name);
            struct kr_tensor whole = *tensor;
            size_t size = kr_dtype_bytes(dtype), at = tensor->n_items - 1 - i % 2;
            unsigned char *data = calloc(tensor->n_items, size);
            char message[160];

            memcpy(data + at * size, &cases[i / 3].bits, size);
            tensor->dtype = dtype;
            tensor->data = data;
            write_tensors(copied(part, "/model.safetensors"), edit.tensors, edit.n);
            snprintf(message, sizeof(message), "%s: expected finite weights, %s at item %zu", name,
                     cases[i / 3].found, at);
            CU_ASSERT(refuses(-EBADMSG, message));
            *tensor = whole;
            free(data);
        }
        kr_safetensors_close(&edit.file);
        restore(part, "/model.safetensors");
    }
}

/* What is loaded does not hang on the files: a mapping would raise SIGBUS here. */
static void files_go_away(void)
{
    struct kr_model *model;
    struct comparison c;

    restore_all();
    model = loads();
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    CU_ASSERT_EQUAL(truncate(copied(PREDICTOR, "/model.safetensors"), 0), 0);
    CU_ASSERT_EQUAL(truncate(copied(TOKENIZER, "/model.safetensors"), 0), 0);
    c = compare_part(model, PREDICTOR, true, golden("pico", PREDICTOR, "/model.safetensors"));
    CU_ASSERT_EQUAL(c.n_wrong, 0);
    c = compare_part(model, TOKENIZER, true, golden("pico", TOKENIZER, "/model.safetensors"));
    CU_ASSERT_EQUAL(c.n_wrong, 0);
    kr_model_free(&model);
    CU_ASSERT(refuses(-EBADMSG, "expected a header of at least 8 bytes, found 0"));
}

static void truncated(void)
{
    for (enum part part = PREDICTOR; part < N_PARTS; part++) {
        const char *path = copied(part, "/model.safetensors");
        size_t n_bytes;

        restore_all();
        free(kt_get(path, &n_bytes));
        for (size_t n = n_bytes; n-- > 0;) {
            if (n + 8 < n_bytes && n % 1009 != 0 && n > 16)
                continue;
            CU_ASSERT_EQUAL_FATAL(truncate(path, (off_t)n), 0);
            CU_ASSERT(refuses(-EBADMSG, "model.safetensors: "));
        }
    }
}

/* A bit of each byte of `path`'s first n: an error with a line, or a model that can be freed. */
static void flip_each(const char *path, size_t n, int n_bits, size_t counts[2])
{
    size_t n_bytes;
    char *bytes = kt_get(path, &n_bytes);

    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < n_bits; j++) {
            int bit = n_bits == 8 ? j : (int)(i % 8);
            struct kr_model *model = NULL;
            struct kr_error error = {""};
            int code;

            kt_poke(path, i, (unsigned char)(bytes[i] ^ 1 << bit));
            code = load_copy(&model, &error);
            counts[code < 0]++;
            if (code == 0 ? !model
                          : (code != -EBADMSG && code != -ENOTSUP) || model || !error.text[0])
                KT_CHECK(false, "byte %zu bit %d: %d %s", i, bit, code, error.text);
            kr_model_free(&model);
            kt_poke(path, i, (unsigned char)bytes[i]);
        }
    free(bytes);
}

static void flipped(void)
{
    size_t counts[2] = {0, 0};

    restore_all();
    for (enum part part = PREDICTOR; part < N_PARTS; part++) {
        const char *path = copied(part, "/model.safetensors");
        uint64_t length;
        size_t n_bytes;
        char *bytes = kt_get(path, &n_bytes);

        memcpy(&length, bytes, 8);
        free(bytes);
        flip_each(path, 8 + (size_t)length, 1, counts);
        free(kt_get(copied(part, "/config.json"), &n_bytes));
        flip_each(copied(part, "/config.json"), n_bytes, 8, counts);
    }
    kt_note("%zu loaded, %zu refused", counts[0], counts[1]);
    CU_ASSERT(counts[0] > 100); /* names of buffers and training keys */
    CU_ASSERT(counts[1] > 8 * counts[0] / 2);
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
        CU_ASSERT_EQUAL_FATAL(kr_layout_new(&shape, &model), 0);
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

    for (size_t i = 0; i < weight->n_items; i++) {
        double u = ((double)(*weight->slot)[i] - centre) / half;

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
    return 0;
}

static void random_weights(void)
{
    static const struct kr_model_shape shape = {5, 36, 3, 50, 3, 1, 104, 2, 140, 2};
    struct kr_model *a = NULL, *b = NULL, *c = NULL;
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
    CU_ASSERT_EQUAL(a->n_weight_bytes, 1253376); /* as odd, which has this shape */
    CU_ASSERT_EQUAL(memcmp(a->store->floats, b->store->floats, a->n_weight_bytes), 0);
    CU_ASSERT_NOT_EQUAL(memcmp(a->store->floats, c->store->floats, a->n_weight_bytes), 0);
    CU_ASSERT_EQUAL(kr_layout_predictor(a, true, check_drawn, &n_wrong), 0);
    CU_ASSERT_EQUAL(kr_layout_tokenizer(a, check_drawn, &n_wrong), 0);
    CU_ASSERT_EQUAL(n_wrong, 0);
    /* tensors of one shape do not repeat each other */
    CU_ASSERT_NOT_EQUAL(a->predictor.emb_s1[0], a->predictor.emb_s2[0]);
    CU_ASSERT_NOT_EQUAL(a->predictor.trunk.blocks[0].q.weight[7],
                        a->predictor.trunk.blocks[1].q.weight[7]);
    CU_ASSERT_NOT_EQUAL(a->predictor.trunk.blocks[0].q.weight[7],
                        a->predictor.trunk.blocks[0].q.weight[11]);
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
        {"configurations", configurations},
        {"extensions", extensions},
        {"fewer blocks", fewer_blocks},
        {"configurations that are not", not_json},
        {"missing and exchanged files", missing_files},
        {"each tensor missing, misshapen, mistyped", each_tensor},
        {"F16 weights", loads_f16},
        {"BF16 weights", loads_bf16},
        {"weights that are not finite", not_finite},
        {"files truncated after loading", files_go_away},
        {"truncated anywhere", truncated},
        {"every byte of header and configuration flipped", flipped},
        {"public shapes", public_shapes},
        {"random weights", random_weights},
        {"impossible shapes", impossible_shapes},
    };

    return kt_main("model", tests, KR_ARRAY_LENGTH(tests));
}
