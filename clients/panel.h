/* SPDX-License-Identifier: MIT */
/* One stream drawn in a frame of terminal cells: recent closes as a line, the forecast as a fan. */
#ifndef KC_PANEL_H
#define KC_PANEL_H

#include "clients/canvas.h"
#include "core/bar.h"

#define KC_PANEL_MIN_WIDTH  40
#define KC_PANEL_MIN_HEIGHT 7
#define KC_MAX_LEVELS       32

/* What a panel shows. Everything is borrowed. */
struct kc_panel {
    const char *symbol, *interval;
    int64_t interval_ns;
    const double *closes; /* [n_closes], oldest first, up to and including the last bar's */
    size_t n_closes;
    int64_t last_t_ns; /* open time of the last bar */
    /* The forecast; n_steps 0: none yet. */
    size_t n_steps, n_levels;
    int64_t end_t_ns;               /* open time of its last bar */
    const double *levels;           /* [n_levels], rising */
    const double *q;                /* [n_levels][n_steps] of close */
    double p_up, sd;                /* at the last step; sd of the log-return */
    double var;                     /* value at risk, a positive log-return; NAN: not known */
    const char *mode, *cal, *flags; /* flags: words with blanks between */
    uint64_t epoch;
    size_t bars;
    uint64_t total_us;
    uint64_t lost; /* messages that never came */
    bool stale;
};

/* The price range on screen, kept between drawings so that it does not tremble. */
struct kc_range {
    double low, high; /* both 0: none yet */
};

/* Draw into w x h cells from (x, y). Smaller than the least size: nothing. */
void kc_panel_draw(struct kc_canvas *canvas, int x, int y, int w, int h,
                   const struct kc_panel *panel, struct kc_range *range);

/* Bars of the past that a panel of this width shows at most. */
size_t kc_panel_past(int w, size_t n_steps);

/* "2024-01-31 09:30" UTC, without the time of day for intervals of days. */
void kc_panel_time(char ret[24], int64_t t_ns, int64_t interval_ns);

#endif
