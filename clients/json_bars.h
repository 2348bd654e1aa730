/* SPDX-License-Identifier: MIT */
/* Bars as JSON lines: reading lines from a descriptor without blocking others, and one line as a bar. */
#ifndef KC_JSON_BARS_H
#define KC_JSON_BARS_H

#include "clients/wire.h"

#define KC_LINE_BYTES 65536 /* longest line */

struct kc_lines {
    int fd;
    char *buffer;
    size_t start, end; /* what of the buffer is unread */
    uint64_t n;        /* lines given so far */
    bool at_end;
};

/* The next line that is not blank, terminated, without its newline, valid until the next call. Reads at
 * most once, so it blocks only if the descriptor has nothing to read.
 * Return: 1 with a line, 0 at the end, -EAGAIN (no whole line yet: wait until fd can be read), -EMSGSIZE,
 * -ENOMEM, or what read() says. */
int kc_lines_next(struct kc_lines *lines, char **ret) kr_must_check;
void kc_lines_free(struct kc_lines *lines);

/* An object with the keys of a `bar` message: t, o, h, l, c; perhaps sym, iv, vol, amt, fin, rev, syn, seq,
 * ep. *bar brings the defaults (a symbol and an interval that are empty must be in the line). What prices
 * are worth is for the daemon to judge. Return: 0, -EINVAL with a line (*bar is undefined). */
int kc_json_bar(const char *line, struct kw_bar *bar, struct kr_error *error) kr_must_check;

#endif
