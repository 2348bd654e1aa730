/* SPDX-License-Identifier: MIT */
#include "clients/forecast_output.h"

#include "clients/ctl.h"
#include "clients/packed_json.h"
#include "clients/stamp.h"
#include "core/safetensors.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* "q05", "q50", "q975": the digits behind the point, at least two. */
static void level_name(char ret[KC_NUMBER_TEXT + 2], double level)
{
    char text[KC_NUMBER_TEXT];

    kc_write_number(text, level);
    snprintf(ret, KC_NUMBER_TEXT + 2, "q%s%s", text + 2, text[3] ? "" : "0");
}

static void write_cell(FILE *stream, double value)
{
    char text[KC_NUMBER_TEXT];

    kc_write_number(text, value);
    fprintf(stream, ",%s", text);
}

int kc_output_csv(FILE *stream, const int64_t *t_ns, const struct kr_summary *summary)
{
    fputs("t,column,mean,std", stream);
    for (size_t l = 0; l < summary->n_levels; l++) {
        char name[KC_NUMBER_TEXT + 2];

        level_name(name, summary->levels[l]);
        fprintf(stream, ",%s", name);
    }
    putc('\n', stream);
    for (size_t i = 0; i < summary->n_steps && !ferror(stream); i++) {
        char time[KC_STAMP_LENGTH];

        kc_stamp_format(t_ns[i], time);
        for (int c = 0; c < KR_COLUMNS; c++) {
            const struct kr_band *band = &summary->columns[c];

            fprintf(stream, "%s,%s", time, kr_column_names[c]);
            write_cell(stream, band->mean[i]);
            write_cell(stream, band->std[i]);
            for (size_t l = 0; l < summary->n_levels; l++)
                write_cell(stream, band->q[l * summary->n_steps + i]);
            putc('\n', stream);
        }
    }
    return ferror(stream) ? -EIO : 0;
}

int kc_output_json(FILE *stream, const struct kw_forecast *forecast)
{
    msgpack_sbuffer buffer;
    int r;

    msgpack_sbuffer_init(&buffer);
    r = kw_encode_forecast(&buffer, forecast);
    if (r == 0)
        r = kc_json_packed(stream, buffer.data, buffer.size);
    msgpack_sbuffer_destroy(&buffer);
    return r;
}

/* Double sums over paths in ascending order, as the statistics have them. */
static float *mean_of(const struct kr_paths *paths)
{
    size_t n = paths->n_steps * KR_COLUMNS;
    float *mean = calloc(n, sizeof(*mean));

    for (size_t i = 0; mean && i < n; i++) {
        double sum = 0;

        for (size_t path = 0; path < paths->n_paths; path++)
            sum += (double)paths->bars[path * n + i];
        mean[i] = (float)(sum / (double)paths->n_paths);
    }
    return mean;
}

static int64_t *widen(const uint16_t *ids, size_t n)
{
    int64_t *wide = calloc(n, sizeof(*wide));

    for (size_t i = 0; wide && i < n; i++)
        wide[i] = ids[i];
    return wide;
}

static struct kr_tensor tensor(const char *name, enum kr_dtype dtype, const void *data, size_t rank,
                               const size_t *shape)
{
    struct kr_tensor t = {.name = name, .dtype = dtype, .rank = rank, .n_items = 1, .data = data};

    for (size_t i = 0; i < rank; i++) {
        t.shape[i] = shape[i];
        t.n_items *= shape[i];
    }
    t.n_bytes = t.n_items * kr_dtype_bytes(dtype);
    return t;
}

int kc_output_safetensors(FILE *stream, const struct kr_paths *paths, const int64_t *t_ns)
{
    size_t n = paths->n_paths * paths->n_steps;
    const size_t shape[3] = {paths->n_paths, paths->n_steps, KR_COLUMNS};
    float *mean = mean_of(paths);
    int64_t *s1 = widen(paths->s1, n), *s2 = widen(paths->s2, n);
    int r = -ENOMEM;

    if (mean && s1 && s2) {
        const struct kr_tensor tensors[] = {
            tensor("paths", KR_F32, paths->bars, 3, shape),
            tensor("mean", KR_F32, mean, 2, shape + 1),
            tensor("s1", KR_I64, s1, 2, shape),
            tensor("s2", KR_I64, s2, 2, shape),
            tensor("t", KR_I64, t_ns, 1, shape + 1),
        };

        r = kr_safetensors_write(stream, tensors, KR_ARRAY_LENGTH(tensors));
    }
    free(mean);
    free(s1);
    free(s2);
    return r;
}
