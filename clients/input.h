/* SPDX-License-Identifier: MIT */
/* Bars for offline work, from a CSV or a safetensors file, with the calendar that the model reads. */
#ifndef KC_INPUT_H
#define KC_INPUT_H

#include "core/calendar.h"

/* "s", "ms", "us", "ns", for an option; NULL-terminated. */
extern const char *const kc_time_units[];

struct kc_input_config {
    const char *path;
    const struct kr_zone *zone;         /* of naive stamps, and of the model's calendar */
    enum kr_stamp_kind stamp;           /* what the file's stamps mark */
    const struct kr_interval *interval; /* NULL: as kc_csv_infer_interval() finds it */
    const char *time_unit;              /* of a CSV's integer stamps; NULL: not said, so refused */
};

struct kc_input {
    struct kr_bar *bars; /* [n], n >= 1, rising open times, all columns resolved */
    size_t n;
    bool tensors;                /* of a safetensors file */
    struct kr_interval interval; /* given, or found */
    int64_t *future_ns; /* [n_future] stamps as delivered, later than the last bar's; NULL: none */
    size_t n_future;
};

/* CSV (clients/csv.h) or, by its name's ending, safetensors: `bars` [L,6] f32, `ts_ns` [L] i64, and
 * `future_ts_ns` if present. Return: 0, -ENOENT and the like, -EBADMSG with a line that names file and
 * tensor or line, -ENOMEM. kc_input_free() whatever is returned. */
int kc_input_read(const struct kc_input_config *config, struct kc_input *ret,
                  struct kr_error *error) kr_must_check;
void kc_input_free(struct kc_input *input);

/* `uniforms` [S,2H] f64 of a safetensors file; *ret is for free(). Return: as above. */
int kc_input_uniforms(const char *path, double **ret, size_t *ret_paths, size_t *ret_horizon,
                      struct kr_error *error) kr_must_check;

#endif
