/* SPDX-License-Identifier: MIT */
/* Three charts of a forecast and of how far to trust such, on a light ground, each with axes, units and
 * legend, drawn into a frame of an SVG. */
#ifndef KC_PLOT_H
#define KC_PLOT_H

#include "core/base.h"

#include <stdio.h>

/* What a chart takes up, its labels included; pixels. */
struct kc_frame {
    double x, y, width, height;
};

/* Prices around a forecast. All arrays of the future are [n_steps]. */
#define KC_FAN_BANDS 3
struct kc_fan {
    const char *title, *unit; /* of the x axis: "5m bars from the last close" */
    const double *past;       /* [n_past] closes, the last one last; n_past >= 1 */
    size_t n_past, n_steps;
    const char *name;                                     /* of the bands: "calibrated" */
    const double *low[KC_FAN_BANDS], *high[KC_FAN_BANDS]; /* widest first */
    const char *share[KC_FAN_BANDS];                      /* "90 %" */
    const double *median;
    const char *other_name; /* of the outline; NULL: none */
    const double *other_low, *other_high;
    const double *actual; /* NaN where no bar came; NULL: not known yet */
};
/* Return: 0, -ENOMEM. */
int kc_plot_fan(FILE *stream, const struct kc_frame *frame, const struct kc_fan *fan) kr_must_check;

/* What is compared: as sampled, and as calibrated. */
struct kc_plot_pair {
    const char *title;
    const double *raw, *cal; /* [n] shares in [0, 1]; cal NULL: none */
    size_t n;
    uint64_t n_raw, n_cal; /* outcomes behind them */
    const char *note;      /* in place of cal where there is none; NULL: nothing */
};

/* Shares of outcomes inside the central bands of 100 i / (n + 1) %, i = 1 .. n. */
void kc_plot_coverage(FILE *stream, const struct kc_frame *frame, const struct kc_plot_pair *pair);
/* Shares of PIT values in n bins of [0, 1]. */
void kc_plot_pit(FILE *stream, const struct kc_frame *frame, const struct kc_plot_pair *pair);

#endif
