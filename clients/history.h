/* SPDX-License-Identifier: MIT */
/* The bars that a publisher has sent, kept to answer `history`: what a subscriber missed it can ask for. */
#ifndef KC_HISTORY_H
#define KC_HISTORY_H

#include "core/bar.h"

#include <msgpack.h>

/* Bars kept of each stream; the oldest quarter goes when they are full. */
#define KC_HISTORY_BARS 65536
/* Bars of one reply at most. */
#define KC_HISTORY_PAGE 1024

struct kc_past_bar {
    int64_t t_ns;
    double v[KR_COLUMNS];
};

struct kc_history {
    struct kc_past_bar *bars; /* [n], rising t_ns */
    size_t n, capacity;
};

void kc_history_free(struct kc_history *history);

/* A bar of a time that is there replaces it; others are put in order. Return: 0, -ENOMEM. */
int kc_history_add(struct kc_history *history, int64_t t_ns,
                   const double v[KR_COLUMNS]) kr_must_check;

/* The reply's pairs `bars` [n,6] f64, `t` [n] i64 and `more`: up to n bars that open at from_ns or later,
 * or, with has_from false, the last n bars; a page at most. `more`: there are later ones. */
void kc_history_pack(const struct kc_history *history, bool has_from, int64_t from_ns, size_t n,
                     msgpack_packer *packer);

#endif
