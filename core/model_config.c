/* SPDX-License-Identifier: MIT */
#include "core/model_config.h"

#include "core/bar.h"
#include "core/file.h"
#include "core/json.h"
#include "core/prior_config.h"
#include "core/returns_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CONFIG_BYTES ((size_t)256 << 10)
#define MAX_WINDOW       ((size_t)1 << 24)

/* What stands in one config.json; of the two kinds of checkpoint each has keys of its own. */
struct checkpoint {
    char *path;
    json_t *json;
    size_t d_in, d_model, n_heads, ff_dim, s1_bits, s2_bits;
    size_t n_enc_layers, n_dec_layers; /* tokenizer */
    size_t n_layers;                   /* predictor */
    enum kr_normaliser_kind normaliser;
    size_t attention_window;
};

struct key {
    const char *name;
    size_t offset, min, max;
};

#define KEY(member, low, high)                                                                     \
    {                                                                                              \
#member, offsetof(struct checkpoint, member), low, high                                    \
    }

static const struct key tokenizer_keys[] = {
    KEY(d_in, 1, KR_MAX_WIDTH),          KEY(d_model, 2, KR_MAX_WIDTH),
    KEY(n_heads, 1, KR_MAX_HEADS),       KEY(ff_dim, 1, KR_MAX_FF),
    KEY(n_enc_layers, 1, KR_MAX_BLOCKS), KEY(n_dec_layers, 1, KR_MAX_BLOCKS),
    KEY(s1_bits, 1, KR_MAX_BITS),        KEY(s2_bits, 1, KR_MAX_BITS),
};

static const struct key predictor_keys[] = {
    KEY(s1_bits, 1, KR_MAX_BITS),  KEY(s2_bits, 1, KR_MAX_BITS),  KEY(n_layers, 1, KR_MAX_BLOCKS),
    KEY(d_model, 4, KR_MAX_WIDTH), KEY(n_heads, 1, KR_MAX_HEADS), KEY(ff_dim, 1, KR_MAX_FF),
};

static const char *const normaliser_names[] = {[KR_LEVELS] = "levels", [KR_RETURNS] = "returns"};

char *kr_path_join(const char *folder, const char *name)
{
    char *path;

    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

static void close_checkpoint(struct checkpoint *checkpoint)
{
    json_decref(checkpoint->json);
    free(checkpoint->path);
}

static int read_json(const char *folder, struct checkpoint *checkpoint, struct kr_error *error)
{
    kr_cleanup(kr_freep) char *text = NULL;
    size_t n_bytes;
    int code;

    checkpoint->path = kr_path_join(folder, "config.json");
    if (!checkpoint->path)
        return kr_error_set(error, -ENOMEM, "%s: no memory", folder);
    code = kr_file_read(checkpoint->path, MAX_CONFIG_BYTES, &text, &n_bytes, error);
    if (code < 0)
        return code;
    return kr_json_parse(checkpoint->path, text, n_bytes, &checkpoint->json, error);
}

static int read_size(struct checkpoint *checkpoint, const struct key *key, struct kr_error *error)
{
    const json_t *value = json_object_get(checkpoint->json, key->name);
    size_t n;

    if (!kr_json_size(value, &n) || n < key->min || n > key->max)
        return kr_error_set(
            error, -EBADMSG, "%s: %s: expected an integer from %zu to %zu, found %s",
            checkpoint->path, key->name, key->min, key->max, kr_json_describe(value).text);
    memcpy((char *)checkpoint + key->offset, &n, sizeof(n));
    return 0;
}

/* Keys of our own checkpoints, absent in public ones. */
static int read_extensions(struct checkpoint *checkpoint, struct kr_error *error)
{
    const json_t *normaliser = json_object_get(checkpoint->json, "normaliser");
    const json_t *window = json_object_get(checkpoint->json, "attention_window");
    size_t kind = KR_LEVELS;

    if (normaliser) {
        const char *name = json_string_value(normaliser);

        while (name && kind < KR_ARRAY_LENGTH(normaliser_names) &&
               strcmp(name, normaliser_names[kind]) != 0)
            kind++;
        if (!name || kind == KR_ARRAY_LENGTH(normaliser_names))
            return kr_error_set(error, -EBADMSG,
                                "%s: normaliser: expected \"levels\" or \"returns\", found %s",
                                checkpoint->path, kr_json_describe(normaliser).text);
    }
    checkpoint->normaliser = (enum kr_normaliser_kind)kind;
    if (window && (!kr_json_size(window, &checkpoint->attention_window) ||
                   checkpoint->attention_window > MAX_WINDOW))
        return kr_error_set(error, -EBADMSG,
                            "%s: attention_window: expected an integer from 0 to %zu, found %s",
                            checkpoint->path, MAX_WINDOW, kr_json_describe(window).text);
    return 0;
}

/* Rotation turns pairs within a head. */
static int check_heads(const struct checkpoint *checkpoint, struct kr_error *error)
{
    if (checkpoint->d_model % checkpoint->n_heads || checkpoint->d_model / checkpoint->n_heads % 2)
        return kr_error_set(
            error, -EBADMSG,
            "%s: n_heads: expected heads of equal and even width in d_model %zu, found %zu",
            checkpoint->path, checkpoint->d_model, checkpoint->n_heads);
    return 0;
}

static int check_bits(const struct checkpoint *checkpoint, struct kr_error *error)
{
    if (checkpoint->s1_bits != checkpoint->s2_bits)
        return kr_error_set(error, -ENOTSUP, "%s: s2_bits: expected %zu as in s1_bits, found %zu",
                            checkpoint->path, checkpoint->s1_bits, checkpoint->s2_bits);
    return 0;
}

static int read_checkpoint(const char *folder, const struct key *keys, size_t n_keys,
                           struct checkpoint *checkpoint, struct kr_error *error)
{
    int code = read_json(folder, checkpoint, error);

    for (size_t i = 0; code == 0 && i < n_keys; i++)
        code = read_size(checkpoint, &keys[i], error);
    if (code == 0)
        code = check_bits(checkpoint, error);
    if (code == 0)
        code = check_heads(checkpoint, error);
    if (code == 0)
        code = read_extensions(checkpoint, error);
    return code;
}

static int read_predictor(const char *folder, struct checkpoint *predictor, bool *learn_te,
                          struct kr_error *error)
{
    const json_t *flag;
    int code =
        read_checkpoint(folder, predictor_keys, KR_ARRAY_LENGTH(predictor_keys), predictor, error);

    if (code < 0)
        return code;
    flag = json_object_get(predictor->json, "learn_te");
    if (!json_is_boolean(flag))
        return kr_error_set(error, -EBADMSG, "%s: learn_te: expected true or false, found %s",
                            predictor->path, kr_json_describe(flag).text);
    if (predictor->d_model % KR_DEP_HEADS)
        return kr_error_set(error, -EBADMSG, "%s: d_model: expected a multiple of %d, found %zu",
                            predictor->path, KR_DEP_HEADS, predictor->d_model);
    *learn_te = json_is_true(flag);
    return 0;
}

static int read_tokenizer(const char *folder, struct checkpoint *tokenizer, struct kr_error *error)
{
    int code =
        read_checkpoint(folder, tokenizer_keys, KR_ARRAY_LENGTH(tokenizer_keys), tokenizer, error);

    if (code < 0)
        return code;
    if (tokenizer->d_in != KR_COLUMNS)
        return kr_error_set(error, -ENOTSUP, "%s: d_in: expected %d, found %zu", tokenizer->path,
                            KR_COLUMNS, tokenizer->d_in);
    return 0;
}

/* The predictor speaks the tokenizer's language, and both see the past alike. */
static int check_agreement(const struct checkpoint *predictor, const struct checkpoint *tokenizer,
                           struct kr_error *error)
{
    if (predictor->s1_bits != tokenizer->s1_bits)
        return kr_error_set(
            error, -EBADMSG, "%s: s1_bits, s2_bits: expected %zu as in %s, found %zu",
            predictor->path, tokenizer->s1_bits, tokenizer->path, predictor->s1_bits);
    if (predictor->normaliser != tokenizer->normaliser)
        return kr_error_set(error, -EBADMSG,
                            "%s: normaliser: expected \"%s\" as in %s, found \"%s\"",
                            predictor->path, normaliser_names[tokenizer->normaliser],
                            tokenizer->path, normaliser_names[predictor->normaliser]);
    if (predictor->attention_window != tokenizer->attention_window)
        return kr_error_set(error, -EBADMSG,
                            "%s: attention_window: expected %zu as in %s, found %zu",
                            predictor->path, tokenizer->attention_window, tokenizer->path,
                            predictor->attention_window);
    return 0;
}

int kr_model_config_read(const char *predictor_folder, const char *tokenizer_folder,
                         struct kr_model_config *ret, struct kr_error *error)
{
    struct checkpoint predictor = {.path = NULL}, tokenizer = {.path = NULL};
    struct kr_returns returns = {0};
    struct kr_prior prior = kr_prior_identity;
    bool learn_te = false;
    int code = read_predictor(predictor_folder, &predictor, &learn_te, error);

    if (code == 0)
        code = read_tokenizer(tokenizer_folder, &tokenizer, error);
    if (code == 0)
        code = check_agreement(&predictor, &tokenizer, error);
    if (code == 0 && tokenizer.normaliser == KR_RETURNS)
        code = kr_returns_read(tokenizer.path, tokenizer.json, &returns, error);
    if (code == 0)
        code = kr_prior_read(predictor.path, json_object_get(predictor.json, "calibration_prior"),
                             &prior, error);
    if (code == 0)
        *ret = (struct kr_model_config){
            .shape = {.s1_bits = tokenizer.s1_bits,
                      .tok_d_model = tokenizer.d_model,
                      .tok_heads = tokenizer.n_heads,
                      .tok_ff = tokenizer.ff_dim,
                      /* the reference builds one block less than its configuration says */
                      .enc_blocks = tokenizer.n_enc_layers - 1,
                      .dec_blocks = tokenizer.n_dec_layers - 1,
                      .d_model = predictor.d_model,
                      .heads = predictor.n_heads,
                      .ff = predictor.ff_dim,
                      .layers = predictor.n_layers},
            .learn_te = learn_te,
            .normaliser = tokenizer.normaliser,
            .attention_window = tokenizer.attention_window,
            .returns = returns,
            .prior = prior,
        };
    close_checkpoint(&predictor);
    close_checkpoint(&tokenizer);
    return code;
}

int kr_model_shape_check(const struct kr_model_shape *shape, struct kr_error *error)
{
    const struct {
        const char *name;
        size_t value, min, max;
    } members[] = {
        {"s1_bits", shape->s1_bits, 1, KR_MAX_BITS},
        {"tok_d_model", shape->tok_d_model, 2, KR_MAX_WIDTH},
        {"tok_heads", shape->tok_heads, 1, KR_MAX_HEADS},
        {"tok_ff", shape->tok_ff, 1, KR_MAX_FF},
        {"enc_blocks", shape->enc_blocks, 0, KR_MAX_BLOCKS},
        {"dec_blocks", shape->dec_blocks, 0, KR_MAX_BLOCKS},
        {"d_model", shape->d_model, 4, KR_MAX_WIDTH},
        {"heads", shape->heads, 1, KR_MAX_HEADS},
        {"ff", shape->ff, 1, KR_MAX_FF},
        {"layers", shape->layers, 1, KR_MAX_BLOCKS},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(members); i++)
        if (members[i].value < members[i].min || members[i].value > members[i].max)
            return kr_error_set(error, -EINVAL, "shape: %s: expected %zu to %zu, found %zu",
                                members[i].name, members[i].min, members[i].max, members[i].value);
    if (shape->tok_d_model % shape->tok_heads || shape->tok_d_model / shape->tok_heads % 2)
        return kr_error_set(error, -EINVAL,
                            "shape: tok_heads: expected even heads in %zu, found %zu",
                            shape->tok_d_model, shape->tok_heads);
    if (shape->d_model % shape->heads || shape->d_model / shape->heads % 2)
        return kr_error_set(error, -EINVAL, "shape: heads: expected even heads in %zu, found %zu",
                            shape->d_model, shape->heads);
    if (shape->d_model % KR_DEP_HEADS)
        return kr_error_set(error, -EINVAL, "shape: d_model: expected a multiple of %d, found %zu",
                            KR_DEP_HEADS, shape->d_model);
    return 0;
}
