/* SPDX-License-Identifier: MIT */
/* What watch knows: the streams it follows, their last closes and forecasts, the daemon's status; and how
 * that lies on a screen. No socket: messages come in as MessagePack, pictures go out on a canvas. */
#ifndef KC_VIEW_H
#define KC_VIEW_H

#include "clients/panel.h"

#include <msgpack.h>

#define KC_VIEW_CLOSES  512 /* kept of each stream */
#define KC_VIEW_STREAMS 4096
#define KC_VIEW_STEPS   100000 /* longest horizon taken */

struct kc_stream {
    char symbol[KR_SYMBOL_MAX + 1];
    struct kr_interval interval;
    double closes[KC_VIEW_CLOSES]; /* oldest first */
    int64_t times[KC_VIEW_CLOSES]; /* their open times */
    size_t n_closes;
    bool wants_history; /* closes are missing: ask for them */
    int64_t asked_ns;   /* when it was asked for last */
    struct kc_panel panel;
    double levels[KC_MAX_LEVELS];
    double *q; /* [n_levels][n_steps] */
    size_t q_capacity;
    char mode[16], cal[32], flags[160], model[64];
    struct kc_range range;
    uint64_t n_forecasts;
};

struct kc_view {
    struct kc_stream **streams; /* [n], by symbol, then length of interval */
    size_t n;
    const char *endpoint, *title; /* borrowed; title NULL: none */
    uint64_t n_forecasts, lost, restarts;
    bool has_status;
    uint64_t received, accepted, rejected, backlog, rss_bytes;
    int64_t lag_us;
    size_t page; /* first page 0 */
    double rate; /* forecasts a second, smoothed */
    int64_t rate_ns;
    uint64_t rate_n;
};

void kc_view_free(struct kc_view *view);

/* Take a `forecast`. *ret (may be NULL) is its stream. Return: 0, -EBADMSG (not one), -ENOSPC (more streams
 * than are followed), -ENOMEM. */
int kc_view_forecast(struct kc_view *view, const msgpack_object *root,
                     struct kc_stream **ret) kr_must_check;
void kc_view_status(struct kc_view *view, const msgpack_object *root);
/* Bars [n] of a stream, oldest first: their closes are merged with those it has. */
void kc_view_history(struct kc_stream *stream, const int64_t *t_ns, const double (*v)[KR_COLUMNS],
                     size_t n);
/* Messages of a stream were lost. */
void kc_view_lost(struct kc_view *view, const char *interval, const char *symbol, uint64_t n);

/* Draw everything. now_ns: monotonic, for rates. */
void kc_view_draw(struct kc_view *view, struct kc_canvas *canvas, int64_t now_ns);
/* Pages that the streams take on a canvas of this size; at least 1. */
size_t kc_view_pages(const struct kc_view *view, int width, int height);

/* One short line for people without a screen, no newline. Return: its length. */
size_t kc_view_line(char *ret, size_t size, const struct kc_stream *stream);

#endif
