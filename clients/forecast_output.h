/* SPDX-License-Identifier: MIT */
/* A forecast as a file: CSV, JSON or safetensors. Rows are written one by one from the arrays they are
 * in: what a long horizon costs beyond its paths is little. */
#ifndef KC_FORECAST_OUTPUT_H
#define KC_FORECAST_OUTPUT_H

#include "clients/wire.h"
#include "core/generate.h"

#include <stdio.h>

/* t, column, mean, std and a quantile per level ("q05"); one row per step and column, `ret` and `p_up` not
 * among them. Return: 0, -EIO. */
int kc_output_csv(FILE *stream, const int64_t *t_ns,
                  const struct kr_summary *summary) kr_must_check;

/* The wire's forecast on one line. Return: 0, -EIO, -ENOMEM. */
int kc_output_json(FILE *stream, const struct kw_forecast *forecast) kr_must_check;

/* `paths` [S,H,6] f32, `mean` [H,6] f32, `s1`, `s2` [S,H] i64, `t` [H] i64. Return: 0, -EIO, -ENOMEM. */
int kc_output_safetensors(FILE *stream, const struct kr_paths *paths,
                          const int64_t *t_ns) kr_must_check;

#endif
