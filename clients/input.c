/* SPDX-License-Identifier: MIT */
#include "clients/input.h"

#include "clients/csv.h"
#include "clients/stamp.h"
#include "core/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kc_time_units[] = {"s", "ms", "us", "ns", NULL};

void kc_input_free(struct kc_input *input)
{
    free(input->bars);
    free(input->future_ns);
    *input = (struct kc_input){0};
}

/* Safetensors */

static const struct kr_tensor *find(const struct kr_safetensors *file, const char *name,
                                    size_t rank, size_t columns, struct kr_error *error)
{
    const struct kr_tensor *tensor = kr_safetensors_find(file, name);

    if (!tensor)
        kr_error_set(error, -EBADMSG, "%s: %s: expected a tensor, found none",
                     kr_safetensors_path(file), name);
    else if (tensor->rank != rank || tensor->shape[0] == 0 ||
             (rank == 2 && columns && tensor->shape[1] != columns))
        kr_error_set(error, -EBADMSG, "%s: %s: expected shape %s, found rank %zu of %zu rows",
                     kr_safetensors_path(file), name, rank == 2 ? "[n,6]" : "[n]", tensor->rank,
                     tensor->rank ? tensor->shape[0] : 0);
    else
        return tensor;
    return NULL;
}

/* Integers of a tensor, for free(); NULL with a line. */
static int64_t *integers(const struct kr_safetensors *file, const struct kr_tensor *tensor,
                         struct kr_error *error)
{
    int64_t *values = calloc(tensor->n_items, sizeof(*values));

    if (!values) {
        kr_error_set(error, -ENOMEM, "out of memory");
    } else if (kr_tensor_to_i64(tensor, values) < 0) {
        kr_error_set(error, -EBADMSG, "%s: %s: expected I64, found %s", kr_safetensors_path(file),
                     tensor->name, kr_dtype_name(tensor->dtype));
        free(values);
        values = NULL;
    }
    return values;
}

static int check_bar(const struct kr_safetensors *file, const struct kr_bar *bars, size_t i,
                     struct kr_error *error)
{
    static const char *const faults[] = {
        [KR_BAR_NOT_FINITE] = "finite numbers",
        [KR_BAR_PRICE_NOT_POSITIVE] = "prices above 0",
        [KR_BAR_HIGH_LOW] = "high and low that enclose open and close",
    };
    enum kr_bar_fault fault = kr_bar_check(bars[i].v);

    if (fault != KR_BAR_OK)
        return kr_error_set(error, -EBADMSG, "%s: bars: row %zu: expected %s, found others",
                            kr_safetensors_path(file), i, faults[fault]);
    if (i > 0 && bars[i].t_ns <= bars[i - 1].t_ns)
        return kr_error_set(error, -EBADMSG,
                            "%s: ts_ns: row %zu: expected a later time than the row before, found "
                            "%" PRId64,
                            kr_safetensors_path(file), i, bars[i].t_ns);
    return 0;
}

static int fill_bars(const struct kr_safetensors *file, const struct kc_input_config *config,
                     const float *values, const int64_t *stamps, struct kc_input *input,
                     struct kr_error *error)
{
    for (size_t i = 0; i < input->n; i++) {
        struct kr_bar *bar = &input->bars[i];
        int r;

        for (int c = 0; c < KR_COLUMNS; c++)
            bar->v[c] = (double)values[i * KR_COLUMNS + c];
        bar->t_ns = stamps[i];
        kr_zone_stamp(config->zone, stamps[i], &bar->stamp);
        r = check_bar(file, input->bars, i, error);
        if (r < 0)
            return r;
        kr_bar_fill(bar->v);
    }
    return 0;
}

/* What of `future_ts_ns` lies behind the last bar. */
static int read_future(const struct kr_safetensors *file, struct kc_input *input,
                       struct kr_error *error)
{
    const struct kr_tensor *tensor;
    int64_t last_ns = input->bars[input->n - 1].t_ns, *values;
    size_t first = 0;

    if (!kr_safetensors_find(file, "future_ts_ns"))
        return 0;
    tensor = find(file, "future_ts_ns", 1, 0, error);
    if (!tensor)
        return -EBADMSG;
    values = integers(file, tensor, error);
    if (!values)
        return -EBADMSG;
    while (first < tensor->n_items && values[first] <= last_ns)
        first++;
    input->future_ns = values;
    input->n_future = tensor->n_items - first;
    memmove(values, values + first, input->n_future * sizeof(*values));
    for (size_t i = 1; i < input->n_future; i++)
        if (values[i] <= values[i - 1])
            return kr_error_set(error, -EBADMSG,
                                "%s: future_ts_ns: expected rising times, found "
                                "others",
                                kr_safetensors_path(file));
    return 0;
}

/* From stamps as delivered to open times, once the interval is known. */
static int settle(const struct kc_input_config *config, const int64_t *stamps,
                  struct kc_input *input, struct kr_error *error)
{
    int r = 0;

    if (config->interval)
        input->interval = *config->interval;
    else
        r = kc_csv_infer_interval(config->zone, stamps, input->n, &input->interval);
    if (r == -EINVAL && input->future_ns && config->stamp == KR_STAMP_OPEN)
        r = kr_interval_parse("1m", &input->interval); /* the file says all that it would be for */
    if (r == -ENOMEM)
        return kr_error_set(error, r, "out of memory");
    for (size_t i = 0; i < input->n && r == 0 && config->stamp == KR_STAMP_CLOSE; i++)
        r = kr_interval_shift(config->zone, &input->interval, stamps[i], -1, &input->bars[i].t_ns);
    if (r < 0)
        return kr_error_set(error, -EBADMSG,
                            "%s: ts_ns: expected evenly spaced times (or --interval), found others",
                            config->path);
    return 0;
}

static int read_tensors(const struct kr_safetensors *file, const struct kc_input_config *config,
                        struct kc_input *input, struct kr_error *error)
{
    const struct kr_tensor *bars = find(file, "bars", 2, KR_COLUMNS, error), *times;
    int64_t *stamps;
    float *values;
    int r;

    if (!bars)
        return -EBADMSG;
    times = find(file, "ts_ns", 1, 0, error);
    if (!times)
        return -EBADMSG;
    if (times->n_items != bars->shape[0])
        return kr_error_set(error, -EBADMSG, "%s: ts_ns: expected %zu times, found %zu",
                            kr_safetensors_path(file), bars->shape[0], times->n_items);
    stamps = integers(file, times, error);
    if (!stamps)
        return -EBADMSG;
    input->n = bars->shape[0];
    input->bars = calloc(input->n, sizeof(*input->bars));
    values = calloc(bars->n_items, sizeof(*values));
    if (!input->bars || !values)
        r = kr_error_set(error, -ENOMEM, "out of memory");
    else if (kr_tensor_to_f32(bars, values) < 0)
        r = kr_error_set(error, -EBADMSG, "%s: bars: expected F32, found %s",
                         kr_safetensors_path(file), kr_dtype_name(bars->dtype));
    else
        r = fill_bars(file, config, values, stamps, input, error);
    if (r == 0)
        r = read_future(file, input, error);
    if (r == 0)
        r = settle(config, stamps, input, error);
    free(values);
    free(stamps);
    return r;
}

static int read_safetensors(const struct kc_input_config *config, struct kc_input *input,
                            struct kr_error *error)
{
    struct kr_safetensors *file;
    int r = kr_safetensors_open(config->path, &file, error);

    if (r < 0)
        return r;
    input->tensors = true;
    r = read_tensors(file, config, input, error);
    kr_safetensors_close(&file);
    return r;
}

int kc_input_uniforms(const char *path, double **ret, size_t *ret_paths, size_t *ret_horizon,
                      struct kr_error *error)
{
    const struct kr_tensor *tensor;
    struct kr_safetensors *file;
    double *values;
    int r = kr_safetensors_open(path, &file, error);

    if (r < 0)
        return r;
    tensor = kr_safetensors_find(file, "uniforms");
    if (!tensor || tensor->dtype != KR_F64 || tensor->rank != 2 || !tensor->n_items ||
        tensor->shape[1] % 2) {
        r = kr_error_set(error, -EBADMSG, "%s: uniforms: expected F64 [paths, 2 horizon], found %s",
                         path, tensor ? kr_dtype_name(tensor->dtype) : "none");
        kr_safetensors_close(&file);
        return r;
    }
    values = calloc(tensor->n_items, sizeof(*values));
    if (values)
        memcpy(values, tensor->data, tensor->n_bytes);
    for (size_t i = 0; values && i < tensor->n_items && r == 0; i++)
        if (!(values[i] >= 0 && values[i] <= 1))
            r = kr_error_set(error, -EBADMSG, "%s: uniforms: expected numbers 0 to 1, found %g",
                             path, values[i]);
    if (!values)
        r = kr_error_set(error, -ENOMEM, "out of memory");
    if (r == 0) {
        *ret = values;
        *ret_paths = tensor->shape[0];
        *ret_horizon = tensor->shape[1] / 2;
    } else {
        free(values);
    }
    kr_safetensors_close(&file);
    return r;
}

/* Either */

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), n = strlen(end);

    return length >= n && strcmp(text + length - n, end) == 0;
}

static int read_csv(const struct kc_input_config *config, struct kc_input *input,
                    struct kr_error *error)
{
    struct kc_csv_options options = {
        .zone = config->zone, .stamp = config->stamp, .interval = config->interval};
    struct kc_bars bars = {0};
    int r = config->time_unit ? kc_time_unit_parse(config->time_unit, &options.unit_ns) : 0;

    if (r == 0)
        r = kc_csv_read(config->path, &options, &bars, error);
    if (r < 0)
        return r;
    input->bars = bars.bars; /* handed over */
    input->n = bars.n;
    input->interval = bars.interval;
    return 0;
}

int kc_input_read(const struct kc_input_config *config, struct kc_input *ret,
                  struct kr_error *error)
{
    *ret = (struct kc_input){0};
    return ends_with(config->path, ".safetensors") ? read_safetensors(config, ret, error)
                                                   : read_csv(config, ret, error);
}
