/* SPDX-License-Identifier: MIT */
/* The last bars of one stream in ascending time, in one contiguous piece of fixed memory. */
#ifndef KR_SERIES_H
#define KR_SERIES_H

#include "core/bar.h"

struct kr_series {
    size_t capacity; /* bars kept */
    size_t len;
    struct kr_bar *bars; /* bars[0 .. len - 1], ascending t_ns; moves only inside its memory */
    struct kr_bar *memory;
    int64_t next_row; /* row number of the bar that comes next: 0 at the stream's first */
};

size_t kr_series_size_bytes(size_t capacity);
int kr_series_init(struct kr_series *series, size_t capacity) kr_must_check;
void kr_series_free(struct kr_series *series);

/* Last bar, NULL if none. */
const struct kr_bar *kr_series_last(const struct kr_series *series);
/* Index of the first bar that opens at t_ns or later; len if there is none. */
size_t kr_series_lower_bound(const struct kr_series *series, int64_t t_ns);
/* Index of the bar that opens at t_ns; -ENOENT if there is none. */
ptrdiff_t kr_series_find(const struct kr_series *series, int64_t t_ns);

/* Behind the last bar (later than it: asserted); the oldest leaves when full. */
void kr_series_push(struct kr_series *series, const struct kr_bar *bar);
/* Take the last bar away again. */
void kr_series_pop(struct kr_series *series);
/* Overwrite the bar with the same t_ns. Return: 0, -ENOENT. */
int kr_series_replace(struct kr_series *series, const struct kr_bar *bar) kr_must_check;
/* Between older bars, keeping order; the oldest leaves when full. The bars behind it are renumbered; history in
 * front of row 0 renumbers the history before it instead, and one in front of all others takes the number
 * before theirs, which may be negative.
 * Return: 0, -EEXIST (same time), -ERANGE (older than all that is kept while full). */
int kr_series_insert(struct kr_series *series, const struct kr_bar *bar) kr_must_check;
void kr_series_clear(struct kr_series *series);

#endif
