/* SPDX-License-Identifier: MIT */
/* Checkpoints that are not what they claim: each must be refused by name, none may crash. */
#include "core/model.h"

#include "core/safetensors.h"
#include "tests/core/checkpoint.h"
#include "tests/core/files.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void configurations(void)
{
    static const struct {
        enum kt_part part;
        const char *from, *to;
        int code;
        const char *found;
    } cases[] = {
        {KT_TOKENIZER, "\"d_in\": 6", "\"d_in\": 12", -ENOTSUP,
         "tokenizer/config.json: d_in: expected 6, found 12"},
        {KT_TOKENIZER, "\"d_in\": 6", "\"d_in\": 20", -ENOTSUP, "d_in: expected 6, found 20"},
        {KT_TOKENIZER, "\"d_in\": 6,", "", -EBADMSG,
         "d_in: expected an integer from 1 to 16384, found nothing"},
        {KT_TOKENIZER, "\"s2_bits\": 6", "\"s2_bits\": 5", -ENOTSUP,
         "tokenizer/config.json: s2_bits: expected 6 as in s1_bits, found 5"},
        {KT_PREDICTOR, "\"s2_bits\": 6", "\"s2_bits\": 5", -ENOTSUP,
         "predictor/config.json: s2_bits: expected 6 as in s1_bits, found 5"},
        {KT_PREDICTOR, "\"s1_bits\": 6,\n  \"s2_bits\": 6", "\"s1_bits\": 7,\n  \"s2_bits\": 7",
         -EBADMSG, "predictor/config.json: s1_bits, s2_bits: expected 6 as in "},
        {KT_PREDICTOR, "\"s1_bits\": 6", "\"s1_bits\": 17", -EBADMSG,
         "s1_bits: expected an integer from 1 to 16, found 17"},
        {KT_PREDICTOR, "\"s1_bits\": 6", "\"s1_bits\": 0", -EBADMSG,
         "s1_bits: expected an integer from 1 to 16, found 0"},
        {KT_PREDICTOR, "\"n_heads\"", "\"n_headz\"", -EBADMSG,
         "predictor/config.json: n_heads: expected an integer from 1 to 1024, found nothing"},
        {KT_PREDICTOR, "\"n_heads\": 2", "\"n_heads\": 3", -EBADMSG,
         "n_heads: expected heads of equal and even width in d_model 32, found 3"},
        {KT_TOKENIZER, "\"n_heads\": 2", "\"n_heads\": 32", -EBADMSG,
         "n_heads: expected heads of equal and even width in d_model 32, found 32"},
        {KT_TOKENIZER, "\"n_heads\": 2", "\"n_heads\": 0", -EBADMSG,
         "n_heads: expected an integer from 1"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": 32.0", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found 32.0"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": \"32\"", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found \"32\""},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": null", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found null"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": [32]", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found a list of 1"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": -32", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found -32"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": 16388", -EBADMSG,
         "d_model: expected an integer from 4 to 16384, found 16388"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": 9223372036854775807", -EBADMSG,
         "found 9223372036854775807"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": 9223372036854775808", -EBADMSG,
         "line 3: expected JSON, found too big integer"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": 1e999", -EBADMSG,
         "expected JSON, found real number overflow"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": 34, \"n_layers\": 3", -EBADMSG,
         "duplicate"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": 36", -EBADMSG,
         "embedding.emb_s1.weight: expected shape [64, 36], found [64, 32]"},
        {KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": 16384", -EBADMSG,
         "embedding.emb_s1.weight: expected shape [64, 16384], found [64, 32]"},
        {KT_PREDICTOR, "\"ff_dim\": 64", "\"ff_dim\": 65537", -EBADMSG,
         "ff_dim: expected an integer from 1 to 65536, found 65537"},
        {KT_PREDICTOR, "\"ff_dim\": 64", "\"ff_dim\": 65", -EBADMSG,
         "transformer.0.ffn.w1.weight: expected shape [65, 32], found [64, 32]"},
        {KT_PREDICTOR, "\"n_layers\": 3", "\"n_layers\": 257", -EBADMSG,
         "n_layers: expected an integer from 1 to 256, found 257"},
        {KT_PREDICTOR, "\"n_layers\": 3", "\"n_layers\": 4", -EBADMSG,
         "model.safetensors: transformer.3.norm1.weight: expected shape [32], found no such "
         "tensor"},
        {KT_TOKENIZER, "\"n_enc_layers\": 3", "\"n_enc_layers\": 0", -EBADMSG,
         "n_enc_layers: expected an integer from 1 to 256, found 0"},
        {KT_TOKENIZER, "\"n_enc_layers\": 3", "\"n_enc_layers\": 4", -EBADMSG,
         "encoder.2.norm1.weight: expected shape [32], found no such tensor"},
        {KT_TOKENIZER, "\"n_dec_layers\": 3", "\"n_dec_layers\": 256", -EBADMSG,
         "decoder.2.norm1.weight: expected shape [32], found no such tensor"},
        {KT_PREDICTOR, "\"learn_te\": true", "\"learn_te\": false", -EBADMSG,
         "time_emb.minute_embed.emb.weight: expected shape [60, 32], found no such tensor"},
        {KT_PREDICTOR, "\"learn_te\": true", "\"learn_te\": 1", -EBADMSG,
         "learn_te: expected true or false, found 1"},
        {KT_PREDICTOR, "\"learn_te\": true,", "", -EBADMSG,
         "learn_te: expected true or false, found nothing"},
        {KT_TOKENIZER, "{", "{\"normaliser\": \"zscore\",", -EBADMSG,
         "normaliser: expected \"levels\" or \"returns\", found \"zscore\""},
        {KT_PREDICTOR, "{", "{\"normaliser\": 3,", -EBADMSG,
         "normaliser: expected \"levels\" or \"returns\", found 3"},
        {KT_TOKENIZER, "{", "{\"normaliser\": \"returns\",", -EBADMSG,
         "normaliser: expected \"returns\" as in "},
        {KT_PREDICTOR, "{", "{\"normaliser\": \"returns\",", -EBADMSG,
         "normaliser: expected \"levels\" as in "},
        {KT_TOKENIZER, "{", "{\"attention_window\": 20,", -EBADMSG,
         "attention_window: expected 20 as in "},
        {KT_TOKENIZER, "{", "{\"attention_window\": -1,", -EBADMSG,
         "attention_window: expected an integer from 0 to 16777216, found -1"},
        {KT_TOKENIZER, "{", "{\"attention_window\": 2.5,", -EBADMSG,
         "attention_window: expected an integer from 0"},
        {KT_TOKENIZER, "{", "{\"attention_window\": null,", -EBADMSG,
         "attention_window: expected an integer from 0"},
        {KT_TOKENIZER, "{", "{\"attention_window\": 16777217,", -EBADMSG,
         "attention_window: expected an integer from 0"},
        {KT_PREDICTOR, "{", "{\"calibration_prior\": 3,", -EBADMSG,
         "calibration_prior: expected an object, found 3"},
        {KT_PREDICTOR, "{", "{\"calibration_prior\": {\"scale\": [1, 1, 1]},", -EBADMSG,
         "calibration_prior: scale: expected 4 numbers, found a list"},
        {KT_PREDICTOR, "{", "{\"calibration_prior\": {\"scale\": [1, 1, null, 1]},", -EBADMSG,
         "calibration_prior: scale: expected a number, found null"},
        {KT_PREDICTOR, "{",
         "{\"calibration_prior\": {\"scale\": [1, 1, 1, 1], \"shift\": [0, 0, 0, 0], "
         "\"follow\": [1, 1, 1, 1], \"scale_weight\": 6, \"shift_weight\": \"x\"},",
         -EBADMSG, "calibration_prior: shift_weight: expected a number, found \"x\""},
        {KT_PREDICTOR, "{",
         "{\"calibration_prior\": {\"scale\": [1, 1, 9, 1], \"shift\": [0, 0, 0, 0], "
         "\"follow\": [1, 1, 1, 1], \"scale_weight\": 6, \"shift_weight\": 4, "
         "\"follow_weight\": 16},",
         -EBADMSG, "calibration_prior: "},
    };

    kt_restore_all();
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        kt_replace(cases[i].part, cases[i].from, cases[i].to);
        CU_ASSERT(kt_refuses(cases[i].code, cases[i].found));
        kt_restore(cases[i].part, "/config.json");
    }

    kt_replace(KT_PREDICTOR, "\"d_model\": 32", "\"d_model\": 34");
    kt_replace(KT_PREDICTOR, "\"n_heads\": 2", "\"n_heads\": 17");
    CU_ASSERT(
        kt_refuses(-EBADMSG, "predictor/config.json: d_model: expected a multiple of 4, found 34"));
    kt_restore(KT_PREDICTOR, "/config.json");
}

/* Extensions which both checkpoints carry: named, not run by this build; and defaults written
 * out. */
static void extensions(void)
{
    static const char window[] = "{\"attention_window\": 20,";
    static const char returns[] = "{\"normaliser\": \"returns\",";
    static const char constants[] =
        "{\"norm_bars\": 64, \"norm_decay\": 0.97, \"norm_fast\": 0.9, \"norm_slow\": 0.99, "
        "\"norm_unit\": 0.6, \"norm_floor\": 1e-6, \"norm_clip\": 4, \"norm_cap\": 8, "
        "\"norm_volume\": 0.02,";
    static const char prior[] =
        "{\"calibration_prior\": {\"scale\": [1, 2, 3, 4], \"shift\": [0, 1, -1, 0.5], "
        "\"follow\": [1, 0.5, 0.25, 0], \"scale_weight\": 6, \"shift_weight\": 400, "
        "\"follow_weight\": 16},";
    static const char defaults[] =
        "{\"normaliser\": \"levels\", \"attention_window\": 0, \"beta2\": [1, 2],";
    struct kr_model *model;

    /* `returns` without its constants is no checkpoint; with them it loads */
    kt_restore_all();
    kt_replace(KT_PREDICTOR, "{", returns);
    kt_replace(KT_TOKENIZER, "{", returns);
    CU_ASSERT(kt_refuses(-EBADMSG, "norm_bars"));
    kt_replace(KT_TOKENIZER, "{", constants);
    model = kt_loads();
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    CU_ASSERT_EQUAL(model->normaliser, KR_RETURNS);
    CU_ASSERT_EQUAL(model->returns.config.bars, 64);
    kr_model_free(&model);
    /* a window alone loads too: which modes are possible is settled where one is chosen */
    kt_restore_all();
    kt_replace(KT_PREDICTOR, "{", window);
    kt_replace(KT_TOKENIZER, "{", window);
    model = kt_loads();
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    CU_ASSERT_EQUAL(model->attention_window, 20);
    CU_ASSERT_EQUAL(memcmp(&model->prior, &kr_prior_identity, sizeof(model->prior)), 0);
    kr_model_free(&model);
    /* where calibration begins */
    kt_restore_all();
    kt_replace(KT_PREDICTOR, "{", prior);
    model = kt_loads();
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    CU_ASSERT_EQUAL(model->prior.scale[3], 4);
    CU_ASSERT_EQUAL(model->prior.shift[2], -1);
    CU_ASSERT_EQUAL(model->prior.follow[1], 0.5);
    CU_ASSERT_EQUAL(model->prior.scale_weight, 6);
    CU_ASSERT_EQUAL(model->prior.shift_weight, 400);
    CU_ASSERT_EQUAL(model->prior.follow_weight, 16);
    kr_model_free(&model);

    kt_restore_all();
    kt_replace(KT_PREDICTOR, "{", defaults);
    model = kt_loads();
    kr_model_free(&model);
    kt_replace(KT_TOKENIZER, "{", defaults);
    model = kt_loads();
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

    kt_restore_all();
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        kt_put(kt_copied(KT_PREDICTOR, "/config.json"), cases[i].text, strlen(cases[i].text));
        CU_ASSERT(kt_refuses(-EBADMSG, cases[i].found));
    }
    memset(text, '[', n);
    kt_put(kt_copied(KT_PREDICTOR, "/config.json"), text, 100000);
    CU_ASSERT(kt_refuses(-EBADMSG, "expected JSON, found maximum parsing depth"));
    memset(text, ' ', n);
    kt_put(kt_copied(KT_PREDICTOR, "/config.json"), text, n);
    CU_ASSERT(kt_refuses(-EBADMSG, "expected at most 262144 bytes, found 300000"));
    free(text);
}

static void missing_files(void)
{
    struct kr_model *model = NULL;
    struct kr_error error = {""};

    kt_restore_all();
    CU_ASSERT_EQUAL(kr_model_load(kt_path("nowhere"), kt_copied(KT_TOKENIZER, ""), &model, &error),
                    -ENOENT);
    CU_ASSERT(strstr(error.text, "nowhere/config.json: expected a file") != NULL);
    CU_ASSERT_EQUAL(kr_model_load(kt_copied(KT_PREDICTOR, "/config.json"),
                                  kt_copied(KT_TOKENIZER, ""), &model, &error),
                    -ENOENT);
    for (enum kt_part part = KT_PREDICTOR; part < KT_N_PARTS; part++) {
        unlink(kt_copied(part, "/model.safetensors"));
        CU_ASSERT(kt_refuses(-ENOENT, "model.safetensors: expected a file"));
        kt_restore(part, "/model.safetensors");
        unlink(kt_copied(part, "/config.json"));
        CU_ASSERT(kt_refuses(-ENOENT, "config.json: expected a file"));
        kt_restore(part, "/config.json");
    }
    unlink(kt_copied(KT_PREDICTOR, "/model.safetensors"));
    kt_make_folder("pico/predictor/model.safetensors");
    CU_ASSERT(kt_refuses(-EBADMSG, "model.safetensors: expected a regular file, found a folder"));
    rmdir(kt_copied(KT_PREDICTOR, "/model.safetensors"));

    kt_restore_all();
    CU_ASSERT_EQUAL(
        kr_model_load(kt_copied(KT_TOKENIZER, ""), kt_copied(KT_PREDICTOR, ""), &model, &error),
        -EBADMSG);
    CU_ASSERT(strstr(error.text, "n_layers: expected an integer from 1 to 256, found nothing") !=
              NULL);
    CU_ASSERT_EQUAL(kr_model_load(kt_golden("odd", KT_PREDICTOR, ""), kt_copied(KT_TOKENIZER, ""),
                                  &model, &error),
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
    return kt_refuses(-EBADMSG, message);
}

/* Without any one tensor, or with any one of another shape or type, loading fails and names it,
 * unless it is a buffer. */
static void each_tensor(void)
{
    size_t n_needed[KT_N_PARTS] = {0, 0}, n_buffers = 0;

    kt_restore_all();
    for (enum kt_part part = KT_PREDICTOR; part < KT_N_PARTS; part++) {
        const char *path = kt_copied(part, "/model.safetensors");
        struct kt_edit edit;

        kt_edit_open(&edit, kt_golden("pico", part, "/model.safetensors"));
        for (size_t i = 0; i < edit.n; i++) {
            struct kr_tensor *tensor = &edit.tensors[i];
            const struct kr_tensor whole = *tensor;
            char message[160];

            *tensor = edit.tensors[edit.n - 1]; /* the last in its place: another order, one less */
            kt_write_tensors(path, edit.tensors, edit.n - 1);
            *tensor = whole;
            if (is_buffer(whole.name)) {
                struct kr_model *model = kt_loads();

                kr_model_free(&model);
                n_buffers++;
                continue;
            }
            n_needed[part]++;
            CU_ASSERT(refuses_shape(&whole, NULL));

            tensor->shape[0]--;
            kt_write_tensors(path, edit.tensors, edit.n);
            CU_ASSERT(refuses_shape(&whole, tensor));
            *tensor = whole;
            tensor->shape[tensor->rank++] = 1;
            kt_write_tensors(path, edit.tensors, edit.n);
            CU_ASSERT(refuses_shape(&whole, tensor));

            *tensor = whole;
            tensor->dtype = KR_I32;
            kt_write_tensors(path, edit.tensors, edit.n);
            snprintf(message, sizeof(message), "%s: expected F32, F16 or BF16, found I32",
                     whole.name);
            CU_ASSERT(kt_refuses(-EBADMSG, message));
            *tensor = whole;
        }
        kr_safetensors_close(&edit.file);
        kt_restore(part, "/model.safetensors");
    }
    CU_ASSERT_EQUAL(n_needed[KT_PREDICTOR], 62);
    CU_ASSERT_EQUAL(n_needed[KT_TOKENIZER], 60);
    CU_ASSERT_EQUAL(n_buffers, 3 + 1 + 4 + 2 + 2);
}

/* Infinities and nans of each format, in the first, a middle and the last tensor of each file. */
static void not_finite(void)
{
    static const char *const tensor_names[KT_N_PARTS][3] = {
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

    kt_restore_all();
    for (enum kt_part part = KT_PREDICTOR; part < KT_N_PARTS; part++) {
        struct kt_edit edit;

        kt_edit_open(&edit, kt_golden("pico", part, "/model.safetensors"));
        for (size_t i = 0; i < 3 * KR_ARRAY_LENGTH(cases); i++) {
            const char *name = tensor_names[part][i % 3];
            enum kr_dtype dtype = cases[i / 3].dtype;
            struct kr_tensor *tensor = kt_edit_find(&edit, name);
            struct kr_tensor whole = *tensor;
            size_t size = kr_dtype_bytes(dtype), at = tensor->n_items - 1 - i % 2;
            unsigned char *data = calloc(tensor->n_items, size);
            char message[160];

            memcpy(data + at * size, &cases[i / 3].bits, size);
            tensor->dtype = dtype;
            tensor->data = data;
            kt_write_tensors(kt_copied(part, "/model.safetensors"), edit.tensors, edit.n);
            snprintf(message, sizeof(message), "%s: expected finite weights, %s at item %zu", name,
                     cases[i / 3].found, at);
            CU_ASSERT(kt_refuses(-EBADMSG, message));
            *tensor = whole;
            free(data);
        }
        kr_safetensors_close(&edit.file);
        kt_restore(part, "/model.safetensors");
    }
}

static void truncated(void)
{
    for (enum kt_part part = KT_PREDICTOR; part < KT_N_PARTS; part++) {
        const char *path = kt_copied(part, "/model.safetensors");
        size_t n_bytes;

        kt_restore_all();
        free(kt_get(path, &n_bytes));
        for (size_t n = n_bytes; n-- > 0;) {
            if (n + 8 < n_bytes && n % 1009 != 0 && n > 16)
                continue;
            CU_ASSERT_EQUAL_FATAL(truncate(path, (off_t)n), 0);
            CU_ASSERT(kt_refuses(-EBADMSG, "model.safetensors: "));
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
            code = kt_load(&model, &error);
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

    kt_restore_all();
    for (enum kt_part part = KT_PREDICTOR; part < KT_N_PARTS; part++) {
        const char *path = kt_copied(part, "/model.safetensors");
        uint64_t length;
        size_t n_bytes;
        char *bytes = kt_get(path, &n_bytes);

        memcpy(&length, bytes, 8);
        free(bytes);
        flip_each(path, 8 + (size_t)length, 1, counts);
        free(kt_get(kt_copied(part, "/config.json"), &n_bytes));
        flip_each(kt_copied(part, "/config.json"), n_bytes, 8, counts);
    }
    kt_note("%zu loaded, %zu refused", counts[0], counts[1]);
    CU_ASSERT(counts[0] > 100); /* names of buffers and training keys */
    CU_ASSERT(counts[1] > 8 * counts[0] / 2);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"configurations", configurations},
        {"extensions", extensions},
        {"configurations that are not", not_json},
        {"missing and exchanged files", missing_files},
        {"each tensor missing, misshapen, mistyped", each_tensor},
        {"weights that are not finite", not_finite},
        {"truncated anywhere", truncated},
        {"every byte of header and configuration flipped", flipped},
    };

    return kt_main("model_damage", tests, KR_ARRAY_LENGTH(tests));
}
