/* SPDX-License-Identifier: MIT */
#include "clients/input.h"

#include "core/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DAY_S INT64_C(86400)

const char *const kc_time_units[] = {"s", "ms", "us", "ns", NULL};
const int64_t kc_time_units_ns[] = {1000000000, 1000000, 1000, 1};

void kc_input_free(struct kc_input *input)
{
    free(input->bars);
    free(input->future_ns);
    *input = (struct kc_input){0};
}

/* Interval */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Of sorted values [n], n >= 1; the smallest of equally frequent ones. */
static int64_t most_frequent(const int64_t *values, size_t n)
{
    int64_t best = values[0];
    size_t most = 0, run = 0;

    for (size_t i = 0; i < n; i++) {
        run = i > 0 && values[i] == values[i - 1] ? run + 1 : 1;
        if (run > most) {
            most = run;
            best = values[i];
        }
    }
    return best;
}

/* The largest unit that divides it. */
static bool interval_from(int64_t ns, struct kr_interval *ret)
{
    static const struct {
        int64_t seconds;
        char unit;
    } units[] = {{7 * DAY_S, 'w'}, {DAY_S, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    int64_t seconds = ns / 1000000000;
    char text[32];

    if (ns <= 0 || ns % 1000000000)
        return false;
    for (size_t i = 0; i < KR_ARRAY_LENGTH(units); i++) {
        if (seconds % units[i].seconds)
            continue;
        snprintf(text, sizeof(text), "%" PRId64 "%c", seconds / units[i].seconds, units[i].unit);
        return kr_interval_parse(text, ret) == 0;
    }
    return false;
}

bool kc_input_interval(const struct kr_bar *bars, size_t n, struct kr_interval *ret)
{
    int64_t *spacing;
    bool found;

    if (n < 2)
        return false;
    spacing = calloc(n - 1, sizeof(*spacing));
    if (!spacing)
        return false;
    for (size_t i = 0; i + 1 < n; i++)
        spacing[i] = bars[i + 1].t_ns - bars[i].t_ns;
    qsort(spacing, n - 1, sizeof(*spacing), by_value);
    found = interval_from(most_frequent(spacing, n - 1), ret);
    free(spacing);
    return found;
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
            return kr_error_set(error, -EBADMSG, "%s: future_ts_ns: expected rising times, found "
                                                 "others", kr_safetensors_path(file));
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
    free(values);
    free(stamps);
    return r == 0 ? read_future(file, input, error) : r;
}

/* From stamps as delivered to open times, once the interval is known. */
static int settle(const struct kc_input_config *config, struct kc_input *input,
                  struct kr_error *error)
{
    if (config->interval)
        input->interval = *config->interval;
    else if (!kc_input_interval(input->bars, input->n, &input->interval))
        return kr_error_set(error, -EBADMSG, "%s: ts_ns: expected times whose spacing is an "
                                             "interval (or --interval), found others",
                            config->path);
    if (input->tensors && config->stamp == KR_STAMP_CLOSE)
        for (size_t i = 0; i < input->n; i++)
            input->bars[i].t_ns -= input->interval.ns;
    return 0;
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
    return r == 0 ? settle(config, input, error) : r;
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

static int read_csv(const struct kc_input_config *config, struct kc_input *input, struct kr_error *error)
{
    (void)config; (void)input;
    return kr_error_set(error, -EBADMSG, "csv");
}

int kc_input_read(const struct kc_input_config *config, struct kc_input *ret, struct kr_error *error)
{
    *ret = (struct kc_input){0};
    return ends_with(config->path, ".safetensors") ? read_safetensors(config, ret, error)
                                                   : read_csv(config, ret, error);
}
