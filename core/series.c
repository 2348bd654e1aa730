/* SPDX-License-Identifier: MIT */
#include "core/series.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Twice the bars kept: the window slides through the memory and is moved back once every `capacity`
 * bars, so that it is always one piece. */
#define SLACK 2

size_t kr_series_size_bytes(size_t capacity)
{
    return SLACK * capacity * sizeof(struct kr_bar);
}

int kr_series_init(struct kr_series *series, size_t capacity)
{
    memset(series, 0, sizeof(*series));
    if (!capacity)
        return -EINVAL;
    series->memory = kr_alloc(SLACK * capacity, sizeof(*series->memory));
    if (!series->memory)
        return -ENOMEM;
    series->capacity = capacity;
    series->bars = series->memory;
    return 0;
}

void kr_series_free(struct kr_series *series)
{
    free(series->memory);
    memset(series, 0, sizeof(*series));
}

const struct kr_bar *kr_series_last(const struct kr_series *series)
{
    return series->len ? &series->bars[series->len - 1] : NULL;
}

size_t kr_series_lower_bound(const struct kr_series *series, int64_t t_ns)
{
    size_t low = 0, high = series->len;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (series->bars[middle].t_ns < t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ptrdiff_t kr_series_find(const struct kr_series *series, int64_t t_ns)
{
    size_t i = kr_series_lower_bound(series, t_ns);

    return i < series->len && series->bars[i].t_ns == t_ns ? (ptrdiff_t)i : -ENOENT;
}

/* Room for one more behind bars[len - 1]. */
static void make_room(struct kr_series *series)
{
    if (series->len == series->capacity) {
        series->bars++;
        series->len--;
    }
    if (series->bars + series->len == series->memory + SLACK * series->capacity) {
        memmove(series->memory, series->bars, series->len * sizeof(*series->bars));
        series->bars = series->memory;
    }
}

void kr_series_push(struct kr_series *series, const struct kr_bar *bar)
{
    assert(!series->len || bar->t_ns > kr_series_last(series)->t_ns);
    make_room(series);
    series->bars[series->len++] = *bar;
    series->next_row++;
}

void kr_series_pop(struct kr_series *series)
{
    assert(series->len > 0);
    series->len--;
    series->next_row--;
}

int kr_series_replace(struct kr_series *series, const struct kr_bar *bar)
{
    ptrdiff_t i = kr_series_find(series, bar->t_ns);

    if (i < 0)
        return (int)i;
    series->bars[i] = *bar;
    return 0;
}

int kr_series_insert(struct kr_series *series, const struct kr_bar *bar)
{
    size_t i = kr_series_lower_bound(series, bar->t_ns);

    if (i < series->len && series->bars[i].t_ns == bar->t_ns)
        return -EEXIST;
    if (i == 0 && series->len == series->capacity)
        return -ERANGE;
    make_room(series);
    i = kr_series_lower_bound(series, bar->t_ns);
    memmove(series->bars + i + 1, series->bars + i, (series->len - i) * sizeof(*series->bars));
    series->bars[i] = *bar;
    series->len++;
    /* what stands behind it was row series->next_row - (len - 1 - i) */
    series->next_row += i > 0 && series->next_row > (int64_t)(series->len - 1 - i);
    return 0;
}

void kr_series_clear(struct kr_series *series)
{
    series->bars = series->memory;
    series->len = 0;
}
