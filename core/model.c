/* SPDX-License-Identifier: MIT */
#include "core/model.h"

#include "core/model_config.h"
#include "core/model_layout.h"
#include "core/safetensors.h"

#include <errno.h>
#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Context of the visits. */
struct loading {
    struct kr_model *model;
    const struct kr_safetensors *file;
    struct kr_error *error;
};

/* "[64, 32]" */
struct shape_text {
    char text[KR_MAX_RANK * 22 + 3];
};

static struct shape_text describe_shape(const size_t *shape, size_t rank)
{
    struct shape_text d = {"["};
    size_t at = 1;

    for (size_t i = 0; i < rank; i++)
        at += (size_t)snprintf(d.text + at, sizeof(d.text) - at, i ? ", %zu" : "%zu", shape[i]);
    d.text[at] = ']';
    return d;
}

static bool same_shape(const struct kr_weight *weight, const struct kr_tensor *tensor)
{
    if (weight->rank != tensor->rank)
        return false;
    for (size_t i = 0; i < weight->rank; i++)
        if (weight->shape[i] != tensor->shape[i])
            return false;
    return true;
}

static int check_weight(void *context, const struct kr_weight *weight)
{
    const struct loading *loading = context;
    const char *path = kr_safetensors_path(loading->file);
    const struct kr_tensor *tensor = kr_safetensors_find(loading->file, weight->name);
    const struct shape_text shape = describe_shape(weight->shape, weight->rank);

    if (!tensor)
        return kr_error_set(loading->error, -EBADMSG,
                            "%s: %s: expected shape %s, found no such tensor", path, weight->name,
                            shape.text);
    if (!same_shape(weight, tensor))
        return kr_error_set(loading->error, -EBADMSG, "%s: %s: expected shape %s, found %s", path,
                            weight->name, shape.text,
                            describe_shape(tensor->shape, tensor->rank).text);
    if (tensor->dtype != KR_F32 && tensor->dtype != KR_F16 && tensor->dtype != KR_BF16)
        return kr_error_set(loading->error, -EBADMSG, "%s: %s: expected F32, F16 or BF16, found %s",
                            path, weight->name, kr_dtype_name(tensor->dtype));
    return 0;
}

static int place_weight(void *context, const struct kr_weight *weight)
{
    const struct loading *loading = context;
    const struct kr_tensor *tensor = kr_safetensors_find(loading->file, weight->name);
    float *place = kr_layout_place(loading->model, weight);
    int code = kr_tensor_to_f32(tensor, place);

    if (code < 0)
        return code;
    for (size_t i = 0; i < weight->n_items; i++)
        if (!isfinite(place[i]))
            return kr_error_set(loading->error, -EBADMSG,
                                "%s: %s: expected finite weights, found %s at item %zu",
                                kr_safetensors_path(loading->file), weight->name,
                                isnan(place[i]) ? "nan" : "infinity", i);
    kr_layout_placed(loading->model, weight);
    return 0;
}

static int open_weights(const char *folder, struct kr_safetensors **ret, struct kr_error *error)
{
    kr_cleanup(kr_freep) char *path = kr_path_join(folder, "model.safetensors");

    if (!path)
        return kr_error_set(error, -ENOMEM, "%s: no memory", folder);
    return kr_safetensors_open(path, ret, error);
}

static int hash(const struct kr_safetensors *predictor, const struct kr_safetensors *tokenizer,
                char ret[65])
{
    const struct kr_safetensors *const files[] = {predictor, tokenizer};
    GChecksum *checksum = g_checksum_new(G_CHECKSUM_SHA256);

    if (!checksum)
        return -ENOMEM;
    for (size_t i = 0; i < KR_ARRAY_LENGTH(files); i++) {
        size_t n_bytes;
        const void *bytes = kr_safetensors_bytes(files[i], &n_bytes);

        g_checksum_update(checksum, bytes, (gssize)n_bytes);
    }
    memcpy(ret, g_checksum_get_string(checksum), 65);
    g_checksum_free(checksum);
    return 0;
}

/* The last component that tells models apart: "predictor" does not. Return: its length, 0 if
 * none. */
static size_t telling_component(const char *path, const char **ret)
{
    size_t end = strlen(path);

    for (;;) {
        size_t begin;

        while (end > 0 && path[end - 1] == '/')
            end--;
        for (begin = end; begin > 0 && path[begin - 1] != '/';)
            begin--;
        *ret = path + begin;
        if (end - begin != strlen("predictor") ||
            memcmp(path + begin, "predictor", end - begin) != 0)
            break;
        end = begin;
    }
    if (*ret[0] == '.' && strspn(*ret, "./") >= (size_t)(path + end - *ret))
        return 0;
    return (size_t)(path + end - *ret);
}

/* A name that is UTF-8 without control characters, from a folder that may be called anything. */
static void name_model(const char *folder, char *ret, size_t size)
{
    kr_cleanup(kr_freep) char *resolved = NULL;
    const char *component;
    const char *end;
    size_t length = telling_component(folder, &component);

    if (length == 0 && (resolved = realpath(folder, NULL))) /* ".", "predictor" */
        length = telling_component(resolved, &component);
    length = KR_MIN(length, size - 1);
    g_utf8_validate(component, (gssize)length, &end);
    length = (size_t)(end - component);
    memcpy(ret, component, length);
    ret[length] = '\0';
    for (char *c = ret; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    if (length == 0)
        strcpy(ret, "model");
}

/* Both files are checked against the layout before anything is allocated for the weights, so
 * that what a configuration claims never asks for more memory than its files justify. */
static int load(struct kr_model *model, bool learn_te, const struct kr_safetensors *predictor,
                const struct kr_safetensors *tokenizer, struct kr_error *error)
{
    struct loading of_predictor = {model, predictor, error};
    struct loading of_tokenizer = {model, tokenizer, error};
    int code = kr_layout_predictor(model, learn_te, check_weight, &of_predictor);

    if (code == 0)
        code = kr_layout_tokenizer(model, check_weight, &of_tokenizer);
    if (code < 0)
        return code;
    if (kr_layout_reserve(model) < 0 || hash(predictor, tokenizer, model->sha256) < 0)
        return kr_error_set(error, -ENOMEM, "%s: no memory for the weights",
                            kr_safetensors_path(predictor));
    code = kr_layout_predictor(model, learn_te, place_weight, &of_predictor);
    if (code == 0)
        code = kr_layout_tokenizer(model, place_weight, &of_tokenizer);
    kr_layout_finish(model);
    return code;
}

int kr_model_load_as(const char *predictor_folder, const char *tokenizer_folder,
                     const struct kr_products *products, struct kr_model **ret,
                     struct kr_error *error)
{
    kr_cleanup(kr_model_free) struct kr_model *model = NULL;
    kr_cleanup(kr_safetensors_close) struct kr_safetensors *predictor = NULL;
    kr_cleanup(kr_safetensors_close) struct kr_safetensors *tokenizer = NULL;
    struct kr_model_config config;
    int code = kr_model_config_read(predictor_folder, tokenizer_folder, &config, error);

    if (code == 0)
        code = open_weights(predictor_folder, &predictor, error);
    if (code == 0)
        code = open_weights(tokenizer_folder, &tokenizer, error);
    if (code == 0 && !products)
        code = kr_products_choose(KR_MATMUL_AUTO, KR_F32_PRODUCTS, &products, error);
    if (code < 0)
        return code;
    if (kr_layout_new(&config.shape, products, &model) < 0)
        return kr_error_set(error, -ENOMEM, "%s: no memory", predictor_folder);
    code = load(model, config.learn_te, predictor, tokenizer, error);
    if (code < 0)
        return code;
    model->normaliser = config.normaliser;
    model->attention_window = config.attention_window;
    model->returns = config.returns;
    model->prior = config.prior;
    name_model(predictor_folder, model->name, sizeof(model->name));
    *ret = model;
    model = NULL;
    return 0;
}

int kr_model_load(const char *predictor_folder, const char *tokenizer_folder, struct kr_model **ret,
                  struct kr_error *error)
{
    return kr_model_load_as(predictor_folder, tokenizer_folder, NULL, ret, error);
}
