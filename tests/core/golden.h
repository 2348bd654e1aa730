/* SPDX-License-Identifier: MIT */
/* Reading golden vectors: tensors of a safetensors file by name, freed together. */
#ifndef KT_GOLDEN_H
#define KT_GOLDEN_H

#include "core/bar.h"
#include "core/generate.h"
#include "core/model.h"
#include "core/safetensors.h"

/* How kt_model() lets models compute their products; NULL: kr_model_load()'s choice. */
extern const struct kr_products *kt_products;

/* The checkpoint below tests/golden/<name>, NULL after a failed assertion. */
struct kr_model *kt_model(const char *name);

struct kt_golden {
    struct kr_safetensors *file;
    char path[512];
    void *owned[32];
    size_t n_owned;
};

/* tests/golden/<model>/<name>.safetensors; asserts that it opens. */
bool kt_golden_open(struct kt_golden *golden, const char *model, const char *name);
void kt_golden_close(struct kt_golden *golden);
/* NULL after a failed assertion where the tensor is missing; shape[0..1] if the pointers are not NULL. */
const float *kt_floats(struct kt_golden *golden, const char *tensor, size_t *ret_rows,
                       size_t *ret_cols);
const double *kt_doubles(struct kt_golden *golden, const char *tensor, size_t *ret_rows);
const int64_t *kt_ints(struct kt_golden *golden, const char *tensor, size_t *ret_rows,
                       size_t *ret_cols);
/* A number of the file's metadata. */
double kt_setting(const struct kt_golden *golden, const char *key);

/* Bars [n] from `bars` [n][6] and `ts_ns` [n], stamps in UTC; and stamps of times. Freed with the file. */
struct kr_bar *kt_bars(struct kt_golden *golden, size_t *ret_n);
struct kr_stamp *kt_stamps(struct kt_golden *golden, const int64_t *ts_ns, size_t n);

/* max |a - b| over n values; nan counts as infinite. */
double kt_max_difference(const float *a, const float *b, size_t n);
/* Print the largest difference of a tensor and assert that it is within tolerance. */
void kt_within(const struct kt_golden *golden, const char *tensor, double difference,
               double tolerance);

#endif
