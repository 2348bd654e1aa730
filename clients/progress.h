/* SPDX-License-Identifier: MIT */
/* A progress bar on stderr, for work that takes longer than a moment; silent unless stderr is a
 * terminal. */
#ifndef KC_PROGRESS_H
#define KC_PROGRESS_H

#include "core/base.h"

struct kc_progress {
    const char *label, *unit; /* borrowed; unit: "bars" */
    uint64_t total;           /* 0: not known */
    bool active;
    bool drawn; /* there is a line to wipe */
    int64_t start_ns, last_ns;
};

void kc_progress_start(struct kc_progress *progress, const char *label, const char *unit,
                       uint64_t total);
/* Draws at most ten times a second; the first time after a fifth of a second, so that short work shows
 * nothing. */
void kc_progress_update(struct kc_progress *progress, uint64_t done);
/* Wipes the line. May be called twice. */
void kc_progress_end(struct kc_progress *progress);

/* The line itself into ret, for `columns` of a terminal: label, bar, share, count, rate, time left.
 * Return: its length in bytes. */
#define KC_PROGRESS_TEXT 512
size_t kc_progress_line(char ret[KC_PROGRESS_TEXT], const struct kc_progress *progress,
                        uint64_t done, int64_t elapsed_ns, size_t columns);

#endif
