/* SPDX-License-Identifier: MIT */
/* The two config.json of a model: read, checked against each other, and reduced to a shape. */
#ifndef KR_MODEL_CONFIG_H
#define KR_MODEL_CONFIG_H

#include "core/model.h"

/* Caps of what a checkpoint may claim: far above every model there is, low enough that no
 * product of two sizes overflows and a typo does not ask for terabytes. */
#define KR_MAX_BITS   16
#define KR_MAX_BLOCKS 256
#define KR_MAX_FF     65536
#define KR_MAX_HEADS  1024
#define KR_MAX_WIDTH  16384

struct kr_model_config {
    struct kr_model_shape shape;
    bool learn_te; /* calendar tables are learned: another name in the file */
    enum kr_normaliser_kind normaliser;
    size_t attention_window;
    struct kr_returns returns; /* if the normaliser is `returns` */
    struct kr_prior prior;     /* the identity where the model ships none */
};

/* Read `config.json` of both folders. Return: 0; -ENOENT or another negative errno of open();
 * -EBADMSG (not JSON, a key missing, of another type or out of range, the two disagree);
 * -ENOTSUP (d_in other than 6, s1_bits unlike s2_bits); -ENOMEM. The line names the file, the key and the value. */
int kr_model_config_read(const char *predictor_folder, const char *tokenizer_folder,
                         struct kr_model_config *ret, struct kr_error *error) kr_must_check;

/* The same limits for a shape made by a program. Return: 0, or -EINVAL naming the member. */
int kr_model_shape_check(const struct kr_model_shape *shape, struct kr_error *error) kr_must_check;

/* "<folder>/<name>", free() it; NULL without memory. */
char *kr_path_join(const char *folder, const char *name);

#endif
