/* SPDX-License-Identifier: MIT */
/* Copies of the golden pico checkpoint below the temporary folder, to be changed one at a time. */
#ifndef KT_CHECKPOINT_H
#define KT_CHECKPOINT_H

#include "core/model.h"
#include "core/safetensors.h"

enum kt_part { KT_PREDICTOR, KT_TOKENIZER, KT_N_PARTS };
extern const char *const kt_part_names[KT_N_PARTS];

/* A folder ("") or file ("/config.json", "/model.safetensors") of a golden checkpoint. Static
 * buffer of eight rotating entries. */
const char *kt_golden(const char *model, enum kt_part part, const char *file);
/* The same of the copy of pico: the same string at each call. */
const char *kt_copied(enum kt_part part, const char *file);
/* Make the copy, or undo what was done to it. */
void kt_restore(enum kt_part part, const char *file);
void kt_restore_all(void);

int kt_load(struct kr_model **ret, struct kr_error *error) kr_must_check;
/* The copy as it is now must load; NULL (and a failed assertion) if it does not. */
struct kr_model *kt_loads(void);
/* Loading it must return `code` and one line that holds `part`, and write no output. */
bool kt_refuses(int code, const char *part) kr_must_check;

/* Replace the first `from` of config.json. */
void kt_replace(enum kt_part part, const char *from, const char *to);

/* A checkpoint's tensors, to be edited and written again; close `file` at the end. */
struct kt_edit {
    struct kr_safetensors *file;
    struct kr_tensor tensors[160];
    size_t n;
};
void kt_edit_open(struct kt_edit *edit, const char *path);
struct kr_tensor *kt_edit_find(struct kt_edit *edit, const char *name);
void kt_write_tensors(const char *path, const struct kr_tensor *tensors, size_t n);

#endif
