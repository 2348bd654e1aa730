/* SPDX-License-Identifier: MIT */
/* The few SVG elements that a chart needs, written one by one. Coordinates in pixels, y downwards, two
 * decimals; text is escaped. Errors are the stream's: look at ferror() in the end. */
#ifndef KC_SVG_H
#define KC_SVG_H

#include "core/base.h"

#include <stdio.h>

/* Colours are "#rrggbb"; NULL: none. */
struct kc_pen {
    const char *fill, *stroke;
    double width;     /* of the stroke */
    double opacity;   /* 0: opaque */
    const char *dash; /* "4 3"; NULL: solid */
};

struct kc_font {
    const char *colour;
    double size;
    const char *anchor; /* "start", "middle", "end"; NULL: start */
    bool bold;
    bool upwards; /* turned by 90 degrees, read from below */
};

/* The head, a white ground and the title that readers show; kc_svg_end() closes it. */
void kc_svg_begin(FILE *stream, double width, double height, const char *title);
void kc_svg_end(FILE *stream);

void kc_svg_rect(FILE *stream, double x, double y, double width, double height,
                 const struct kc_pen *pen);
void kc_svg_line(FILE *stream, double x1, double y1, double x2, double y2,
                 const struct kc_pen *pen);
void kc_svg_circle(FILE *stream, double x, double y, double radius, const struct kc_pen *pen);
/* Through n points; not finite ones break it. */
void kc_svg_curve(FILE *stream, const double *x, const double *y, size_t n,
                  const struct kc_pen *pen);
/* Between two curves over the same x; all finite. */
void kc_svg_area(FILE *stream, const double *x, const double *low, const double *high, size_t n,
                 const struct kc_pen *pen);
void kc_svg_text(FILE *stream, double x, double y, const struct kc_font *font, const char *format,
                 ...) kr_printf(5, 6);

#endif
