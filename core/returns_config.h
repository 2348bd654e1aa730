/* SPDX-License-Identifier: MIT */
/* The constants of the normaliser `returns` in a tokenizer's config.json: norm_bars, norm_decay, norm_fast,
 * norm_slow, norm_unit, norm_floor, norm_clip, norm_cap, norm_volume; all of them, so that a checkpoint is
 * complete. */
#ifndef KR_RETURNS_CONFIG_H
#define KR_RETURNS_CONFIG_H

#include "core/returns.h"

#include <jansson.h>

/* `path` only names the file in errors. Return: 0, or -EBADMSG naming the constant that is missing, no number
 * or out of range (ret untouched). */
int kr_returns_read(const char *path, const json_t *json, struct kr_returns *ret,
                    struct kr_error *error) kr_must_check;

#endif
