/* SPDX-License-Identifier: MIT */
#include "core/model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool given(const char *folder)
{
    return folder && *folder;
}

int kr_model_load_or_builtin(const char *predictor_folder, const char *tokenizer_folder,
                             const struct kr_products *products, struct kr_model **ret,
                             struct kr_error *error)
{
    /* where `make install` puts it; and where it lies while nothing is installed */
    static const char *const folders[] = {KR_MODEL_INSTALLED, KR_MODEL_SOURCE};
    char predictor[1024], tokenizer[1024];

    if (given(predictor_folder) && given(tokenizer_folder))
        return kr_model_load_as(predictor_folder, tokenizer_folder, products, ret, error);
    if (given(predictor_folder) || given(tokenizer_folder))
        return kr_error_set(
            error, -EINVAL,
            "model: expected predictor and tokenizer together, or neither for the built-in "
            "model, found no %s",
            given(predictor_folder) ? "tokenizer" : "predictor");
    for (size_t i = 0; i < KR_ARRAY_LENGTH(folders); i++) {
        snprintf(predictor, sizeof(predictor), "%s/predictor", folders[i]);
        snprintf(tokenizer, sizeof(tokenizer), "%s/tokenizer", folders[i]);
        if (access(predictor, R_OK) == 0) {
            int r = kr_model_load_as(predictor, tokenizer, products, ret, error);

            if (r == 0)
                strcpy((*ret)->name, "builtin"); /* wherever it lies */
            return r;
        }
    }
    return kr_error_set(error, -ENOENT, "%s: expected the built-in model, found nothing",
                        folders[0]);
}
