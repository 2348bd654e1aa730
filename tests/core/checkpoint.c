/* SPDX-License-Identifier: MIT */
#include "tests/core/checkpoint.h"

#include "tests/core/files.h"
#include "tests/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kt_part_names[KT_N_PARTS] = {"predictor", "tokenizer"};

const char *kt_golden(const char *model, enum kt_part part, const char *file)
{
    char relative[96];

    snprintf(relative, sizeof(relative), "golden/%s/%s%s", model, kt_part_names[part], file);
    return kt_source(relative);
}

const char *kt_copied(enum kt_part part, const char *file)
{
    static char paths[KT_N_PARTS][3][256];
    char *path = paths[part][file[0] == '\0' ? 0 : file[1] == 'c' ? 1 : 2];

    snprintf(path, sizeof(paths[0][0]), "%s/pico/%s%s", kt_tmp(), kt_part_names[part], file);
    return path;
}

void kt_restore(enum kt_part part, const char *file)
{
    size_t n_bytes;
    char *bytes = kt_get(kt_golden("pico", part, file), &n_bytes);

    kt_put(kt_copied(part, file), bytes, n_bytes);
    free(bytes);
}

void kt_restore_all(void)
{
    for (enum kt_part part = KT_PREDICTOR; part < KT_N_PARTS; part++) {
        char relative[32];

        snprintf(relative, sizeof(relative), "pico/%s", kt_part_names[part]);
        kt_make_folder(relative);
        kt_restore(part, "/config.json");
        kt_restore(part, "/model.safetensors");
    }
}

int kt_load(struct kr_model **ret, struct kr_error *error)
{
    return kr_model_load(kt_copied(KT_PREDICTOR, ""), kt_copied(KT_TOKENIZER, ""), ret, error);
}

struct kr_model *kt_loads(void)
{
    struct kr_model *model = NULL;
    struct kr_error error = {""};
    int code = kt_load(&model, &error);

    KT_CHECK(code == 0, "%d %s", code, error.text);
    return model;
}

bool kt_refuses(int code, const char *part)
{
    struct kr_model *const sentinel = (struct kr_model *)(uintptr_t)64;
    struct kr_model *model = sentinel;
    struct kr_error error = {""};
    int got = kt_load(&model, &error);
    bool ok = got == code && model == sentinel && strstr(error.text, part) &&
              !strchr(error.text, '\n') && strncmp(error.text, kt_tmp(), strlen(kt_tmp())) == 0;

    KT_CHECK(ok, "%d, expected %d ...%s...: %s", got, code, part, error.text);
    return ok && kt_load(&model, NULL) == code;
}

void kt_edit_open(struct kt_edit *edit, const char *path)
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

struct kr_tensor *kt_edit_find(struct kt_edit *edit, const char *name)
{
    for (size_t i = 0; i < edit->n; i++)
        if (strcmp(edit->tensors[i].name, name) == 0)
            return &edit->tensors[i];
    abort();
}

void kt_write_tensors(const char *path, const struct kr_tensor *tensors, size_t n)
{
    FILE *stream = fopen(path, "we");

    CU_ASSERT_EQUAL(kr_safetensors_write(stream, tensors, n), 0);
    fclose(stream);
}

void kt_replace(enum kt_part part, const char *from, const char *to)
{
    const char *path = kt_copied(part, "/config.json");
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
