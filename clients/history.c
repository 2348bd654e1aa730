/* SPDX-License-Identifier: MIT */
#include "clients/history.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void kc_history_free(struct kc_history *history)
{
    free(history->bars);
    *history = (struct kc_history){0};
}

static int make_room(struct kc_history *history)
{
    size_t capacity;
    struct kc_past_bar *bars;

    if (history->n < history->capacity)
        return 0;
    if (history->n == KC_HISTORY_BARS) {
        size_t gone = KC_HISTORY_BARS / 4;

        history->n -= gone;
        memmove(history->bars, history->bars + gone, history->n * sizeof(*history->bars));
        return 0;
    }
    capacity = KR_MIN(KR_MAX(2 * history->capacity, (size_t)64), (size_t)KC_HISTORY_BARS);
    bars = reallocarray(history->bars, capacity, sizeof(*bars));
    if (!bars)
        return -ENOMEM;
    history->bars = bars;
    history->capacity = capacity;
    return 0;
}

/* Index of the first bar that opens at t_ns or later. */
static size_t find(const struct kc_history *history, int64_t t_ns)
{
    size_t low = 0, high = history->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (history->bars[middle].t_ns < t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int kc_history_add(struct kc_history *history, int64_t t_ns, const double v[KR_COLUMNS])
{
    size_t at;
    int r = make_room(history);

    if (r < 0)
        return r;
    at = find(history, t_ns);
    if (at == history->n || history->bars[at].t_ns != t_ns) {
        memmove(history->bars + at + 1, history->bars + at,
                (history->n - at) * sizeof(*history->bars));
        history->n++;
    }
    history->bars[at].t_ns = t_ns;
    memcpy(history->bars[at].v, v, sizeof(history->bars[at].v));
    return 0;
}

static void pack_key(msgpack_packer *packer, const char *key)
{
    msgpack_pack_str(packer, strlen(key));
    msgpack_pack_str_body(packer, key, strlen(key));
}

/* Little-endian, whatever this machine is. */
static void pack_word(msgpack_packer *packer, const void *word)
{
    uint64_t bits;

    memcpy(&bits, word, sizeof(bits));
    bits = htole64(bits);
    msgpack_pack_bin_body(packer, &bits, sizeof(bits));
}

void kc_history_pack(const struct kc_history *history, bool has_from, int64_t from_ns, size_t n,
                     msgpack_packer *packer)
{
    size_t first = has_from ? find(history, from_ns) : history->n - KR_MIN(n, history->n);
    size_t page = KR_MIN(KR_MIN(n, history->n - first), (size_t)KC_HISTORY_PAGE);

    if (!has_from)
        first = history->n - page; /* the last ones, whatever the page */
    pack_key(packer, "bars");
    msgpack_pack_bin(packer, page * KR_COLUMNS * 8);
    for (size_t i = 0; i < page; i++)
        for (int c = 0; c < KR_COLUMNS; c++)
            pack_word(packer, &history->bars[first + i].v[c]);
    pack_key(packer, "t");
    msgpack_pack_bin(packer, page * 8);
    for (size_t i = 0; i < page; i++)
        pack_word(packer, &history->bars[first + i].t_ns);
    pack_key(packer, "more");
    if (first + page < history->n)
        msgpack_pack_true(packer);
    else
        msgpack_pack_false(packer);
}
