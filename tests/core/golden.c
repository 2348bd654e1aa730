/* SPDX-License-Identifier: MIT */
#include "tests/core/golden.h"

#include "core/zone.h"
#include "tests/tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct kr_products *kt_products;

struct kr_model *kt_model(const char *name)
{
    char predictor[64], tokenizer[64];
    struct kr_model *model = NULL;
    struct kr_error error = {""};
    int r;

    snprintf(predictor, sizeof(predictor), "golden/%s/predictor", name);
    snprintf(tokenizer, sizeof(tokenizer), "golden/%s/tokenizer", name);
    r = kr_model_load_as(kt_source(predictor), kt_source(tokenizer), kt_products, &model, &error);
    KT_CHECK(r == 0, "%s", error.text);
    return model;
}

bool kt_golden_open(struct kt_golden *golden, const char *model, const char *name)
{
    struct kr_error error = {""};
    char relative[128];
    int r;

    memset(golden, 0, sizeof(*golden));
    snprintf(relative, sizeof(relative), "golden/%s/%s.safetensors", model, name);
    snprintf(golden->path, sizeof(golden->path), "%s/%s", model, name);
    r = kr_safetensors_open(kt_source(relative), &golden->file, &error);
    KT_CHECK(r == 0, "%s", error.text);
    return r == 0;
}

void kt_golden_close(struct kt_golden *golden)
{
    for (size_t i = 0; i < golden->n_owned; i++)
        free(golden->owned[i]);
    kr_safetensors_close(&golden->file);
}

static void *own(struct kt_golden *golden, size_t n, size_t size)
{
    void *memory = kr_alloc(n, size);

    if (!memory || golden->n_owned == KR_ARRAY_LENGTH(golden->owned))
        abort();
    return golden->owned[golden->n_owned++] = memory;
}

static const struct kr_tensor *find(struct kt_golden *golden, const char *name, size_t *ret_rows,
                                    size_t *ret_cols)
{
    const struct kr_tensor *tensor = kr_safetensors_find(golden->file, name);

    KT_CHECK(tensor != NULL, "%s: no tensor %s", golden->path, name);
    if (!tensor)
        return NULL;
    if (ret_rows)
        *ret_rows = tensor->shape[0];
    if (ret_cols)
        *ret_cols = tensor->rank > 1 ? tensor->shape[1] : 1;
    return tensor;
}

const float *kt_floats(struct kt_golden *golden, const char *name, size_t *ret_rows,
                       size_t *ret_cols)
{
    const struct kr_tensor *tensor = find(golden, name, ret_rows, ret_cols);
    float *values;

    if (!tensor)
        return NULL;
    values = own(golden, tensor->n_items, sizeof(*values));
    CU_ASSERT_EQUAL(kr_tensor_to_f32(tensor, values), 0);
    return values;
}

const double *kt_doubles(struct kt_golden *golden, const char *name, size_t *ret_rows)
{
    const struct kr_tensor *tensor = find(golden, name, ret_rows, NULL);
    double *values;

    if (!tensor)
        return NULL;
    values = own(golden, tensor->n_items, sizeof(*values));
    CU_ASSERT_EQUAL(tensor->dtype, KR_F64);
    memcpy(values, tensor->data, tensor->n_items * sizeof(*values));
    return values;
}

const int64_t *kt_ints(struct kt_golden *golden, const char *name, size_t *ret_rows,
                       size_t *ret_cols)
{
    const struct kr_tensor *tensor = find(golden, name, ret_rows, ret_cols);
    int64_t *values;

    if (!tensor)
        return NULL;
    values = own(golden, tensor->n_items, sizeof(*values));
    CU_ASSERT_EQUAL(kr_tensor_to_i64(tensor, values), 0);
    return values;
}

double kt_setting(const struct kt_golden *golden, const char *key)
{
    const char *text = kr_safetensors_metadata(golden->file, key);

    KT_CHECK(text != NULL, "%s: no metadata %s", golden->path, key);
    return text ? atof(text) : 0;
}

struct kr_stamp *kt_stamps(struct kt_golden *golden, const int64_t *ts_ns, size_t n)
{
    struct kr_stamp *stamps = own(golden, n, sizeof(*stamps));
    struct kr_zone *zone = NULL;

    CU_ASSERT_EQUAL_FATAL(kr_zone_open("UTC", &zone, NULL), 0);
    for (size_t i = 0; i < n; i++)
        kr_zone_stamp(zone, ts_ns[i], &stamps[i]);
    kr_zone_free(&zone);
    return stamps;
}

struct kr_bar *kt_bars(struct kt_golden *golden, size_t *ret_n)
{
    size_t n = 0;
    const float *values = kt_floats(golden, "bars", &n, NULL);
    const int64_t *ts_ns = kt_ints(golden, "ts_ns", NULL, NULL);
    struct kr_stamp *stamps = kt_stamps(golden, ts_ns, n);
    struct kr_bar *bars = own(golden, n, sizeof(*bars));

    for (size_t i = 0; i < n; i++) {
        bars[i] = (struct kr_bar){.t_ns = ts_ns[i], .stamp = stamps[i]};
        for (int c = 0; c < KR_COLUMNS; c++)
            bars[i].v[c] = values[i * KR_COLUMNS + c];
    }
    *ret_n = n;
    return bars;
}

double kt_max_difference(const float *a, const float *b, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++) {
        double difference = fabs((double)a[i] - b[i]);

        if (!(difference <= most))
            most = isnan(difference) ? INFINITY : difference;
    }
    return most;
}

void kt_within(const struct kt_golden *golden, const char *tensor, double difference,
               double tolerance)
{
    kt_note("%-20s %-18s largest difference %.3g (tolerance %.3g)", golden->path, tensor,
            difference, tolerance);
    KT_CHECK(difference <= tolerance, "%s %s: %g > %g", golden->path, tensor, difference,
             tolerance);
}
