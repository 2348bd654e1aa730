/* SPDX-License-Identifier: MIT */
/* A grid of terminal cells to draw on, and its way to the screen.
 *
 * Text, boxes, areas filled with an accuracy of an eighth of a cell, and lines in braille dots (2 x 4 a
 * cell) over them. Inks are names; what colour they become, or none, is decided when the canvas is
 * written. Everything outside the grid is clipped. */
#ifndef KC_CANVAS_H
#define KC_CANVAS_H

#include "core/base.h"

enum kc_ink {
    KC_INK_PLAIN, /* the terminal's own */
    KC_INK_DIM,
    KC_INK_BRIGHT,
    KC_INK_TITLE,
    KC_INK_UP,
    KC_INK_DOWN,
    KC_INK_WARN,
    KC_INK_LINE,  /* closes */
    KC_INK_LINE2, /* older closes */
    KC_INK_LINE3, /* still older */
    KC_INK_MEDIAN,
    KC_INK_FAN1, /* outermost band */
    KC_INK_FAN2,
    KC_INK_FAN3, /* innermost */
    KC_INKS
};

/* How much a terminal can show. */
enum kc_depth {
    KC_MONO, /* characters alone; areas become shades */
    KC_256,  /* the palette of xterm */
    KC_TRUE, /* 24 bits */
};

/* Growing text. After a failed allocation `failed` is set and the text stays as it was. */
struct kc_text {
    char *data; /* NUL-terminated, or NULL while empty */
    size_t len, capacity;
    bool failed;
};
void kc_text_add(struct kc_text *text, const char *format, ...) kr_printf(2, 3);
void kc_text_bytes(struct kc_text *text, const char *bytes, size_t n);
void kc_text_free(struct kc_text *text);

/* Cells that UTF-8 text takes, one a code point: what is drawn here has no wide characters. */
size_t kc_text_cells(const char *text);

struct kc_cell {
    char glyph[5]; /* UTF-8; empty: a blank */
    uint8_t ink;
    uint8_t ground[8]; /* ink of each eighth, from the top; KC_INK_PLAIN: none */
    uint8_t dots;      /* braille pattern, drawn over the ground */
    uint8_t dots_ink;
};

struct kc_canvas {
    int width, height;
    struct kc_cell *cells; /* [height][width] */
};

/* Blank, of the given size; an old grid is freed. Return: 0, -ENOMEM (the canvas is empty). */
int kc_canvas_resize(struct kc_canvas *canvas, int width, int height) kr_must_check;
void kc_canvas_clear(struct kc_canvas *canvas);
void kc_canvas_free(struct kc_canvas *canvas);

/* Text from (x, y) to the right, at most `room` cells of it. Return: the x behind it. */
int kc_canvas_text(struct kc_canvas *canvas, int x, int y, enum kc_ink ink, int room,
                   const char *text);
int kc_canvas_printf(struct kc_canvas *canvas, int x, int y, enum kc_ink ink, int room,
                     const char *format, ...) kr_printf(6, 7);
/* A frame with rounded corners, w x h cells outside. */
void kc_canvas_frame(struct kc_canvas *canvas, int x, int y, int w, int h, enum kc_ink ink);

/* Fill the ground of one column of cells, `top` <= eighths of rows < `bottom` counted from row `y`. */
void kc_canvas_fill(struct kc_canvas *canvas, int x, int y, int top, int bottom, enum kc_ink ink);

/* A straight line of dots from (x0, y0) to (x1, y1) in dot units: 2 a cell to the right, 4 down. `clip`:
 * first and last row of cells that may be touched. */
void kc_canvas_line(struct kc_canvas *canvas, int x0, int y0, int x1, int y1, enum kc_ink ink,
                    int clip_top, int clip_bottom);

/* Append one row as terminal text: escape sequences only where an ink changes, all attributes off at its
 * end, trailing blanks kept out. No newline. Return: the cells written. */
int kc_canvas_row(const struct kc_canvas *canvas, int y, enum kc_depth depth, struct kc_text *ret);
/* All rows as lines, for files and tests. */
void kc_canvas_write(const struct kc_canvas *canvas, enum kc_depth depth, struct kc_text *ret);

#endif
