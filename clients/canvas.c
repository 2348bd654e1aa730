/* SPDX-License-Identifier: MIT */
#include "clients/canvas.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Red, green, blue and the nearest of xterm's 256. Middle tones: they read on dark and on light. */
static const struct {
    uint8_t r, g, b, xterm;
    bool bold;
} inks[KC_INKS] = {
    [KC_INK_DIM] = {128, 134, 150, 245, false},  [KC_INK_BRIGHT] = {0, 0, 0, 0, true},
    [KC_INK_TITLE] = {86, 182, 224, 74, true},   [KC_INK_UP] = {46, 184, 122, 36, false},
    [KC_INK_DOWN] = {232, 88, 90, 203, false},   [KC_INK_WARN] = {222, 160, 60, 179, false},
    [KC_INK_LINE] = {244, 190, 80, 215, false},  [KC_INK_LINE2] = {198, 150, 74, 173, false},
    [KC_INK_LINE3] = {150, 118, 76, 137, false}, [KC_INK_MEDIAN] = {236, 248, 255, 195, false},
    [KC_INK_FAN1] = {26, 62, 98, 24, false},     [KC_INK_FAN2] = {36, 94, 146, 25, false},
    [KC_INK_FAN3] = {54, 132, 196, 32, false},
};

/* Growing text */

static bool reserve(struct kc_text *text, size_t more)
{
    size_t capacity = KR_MAX(text->capacity, (size_t)1024);
    char *data;

    if (text->failed)
        return false;
    while (capacity - text->len <= more) {
        if (capacity > SIZE_MAX / 2)
            return !(text->failed = true);
        capacity *= 2;
    }
    if (capacity == text->capacity)
        return true;
    data = realloc(text->data, capacity);
    if (!data)
        return !(text->failed = true);
    text->data = data;
    text->capacity = capacity;
    return true;
}

void kc_text_bytes(struct kc_text *text, const char *bytes, size_t n)
{
    if (!reserve(text, n))
        return;
    memcpy(text->data + text->len, bytes, n);
    text->len += n;
    text->data[text->len] = '\0';
}

void kc_text_add(struct kc_text *text, const char *format, ...)
{
    va_list arguments, again;
    int length;

    va_start(arguments, format);
    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, arguments);
    if (length >= 0 && reserve(text, (size_t)length)) {
        vsnprintf(text->data + text->len, (size_t)length + 1, format, again);
        text->len += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

void kc_text_free(struct kc_text *text)
{
    free(text->data);
    *text = (struct kc_text){0};
}

size_t kc_text_cells(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* The grid */

int kc_canvas_resize(struct kc_canvas *canvas, int width, int height)
{
    kc_canvas_free(canvas);
    if (width <= 0 || height <= 0)
        return 0;
    canvas->cells = calloc((size_t)width * (size_t)height, sizeof(*canvas->cells));
    if (!canvas->cells)
        return -ENOMEM;
    canvas->width = width;
    canvas->height = height;
    return 0;
}

void kc_canvas_clear(struct kc_canvas *canvas)
{
    if (canvas->cells)
        memset(canvas->cells, 0,
               (size_t)canvas->width * (size_t)canvas->height * sizeof(*canvas->cells));
}

void kc_canvas_free(struct kc_canvas *canvas)
{
    free(canvas->cells);
    *canvas = (struct kc_canvas){0};
}

static struct kc_cell *cell_at(const struct kc_canvas *canvas, int x, int y)
{
    if (x < 0 || y < 0 || x >= canvas->width || y >= canvas->height)
        return NULL;
    return &canvas->cells[y * canvas->width + x];
}

static void put(struct kc_canvas *canvas, int x, int y, enum kc_ink ink, const char *glyph,
                size_t n)
{
    struct kc_cell *cell = cell_at(canvas, x, y);

    if (!cell || n >= sizeof(cell->glyph))
        return;
    memset(cell->glyph, 0, sizeof(cell->glyph));
    if (n != 1 || *glyph != ' ')
        memcpy(cell->glyph, glyph, n);
    cell->ink = (uint8_t)ink;
    cell->dots = 0;
}

int kc_canvas_text(struct kc_canvas *canvas, int x, int y, enum kc_ink ink, int room,
                   const char *text)
{
    while (*text && room > 0) {
        size_t n = 1;

        while (((unsigned char)text[n] & 0xc0) == 0x80)
            n++;
        /* Text from the wire is shown, never obeyed: no control character reaches the terminal. */
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            put(canvas, x, y, ink, "?", 1);
        else
            put(canvas, x, y, ink, text, n);
        text += n;
        x++;
        room--;
    }
    return x;
}

int kc_canvas_printf(struct kc_canvas *canvas, int x, int y, enum kc_ink ink, int room,
                     const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return kc_canvas_text(canvas, x, y, ink, room, text);
}

void kc_canvas_frame(struct kc_canvas *canvas, int x, int y, int w, int h, enum kc_ink ink)
{
    for (int i = 1; i < w - 1; i++) {
        kc_canvas_text(canvas, x + i, y, ink, 1, "─");
        kc_canvas_text(canvas, x + i, y + h - 1, ink, 1, "─");
    }
    for (int j = 1; j < h - 1; j++) {
        kc_canvas_text(canvas, x, y + j, ink, 1, "│");
        kc_canvas_text(canvas, x + w - 1, y + j, ink, 1, "│");
    }
    kc_canvas_text(canvas, x, y, ink, 1, "╭");
    kc_canvas_text(canvas, x + w - 1, y, ink, 1, "╮");
    kc_canvas_text(canvas, x, y + h - 1, ink, 1, "╰");
    kc_canvas_text(canvas, x + w - 1, y + h - 1, ink, 1, "╯");
}

void kc_canvas_fill(struct kc_canvas *canvas, int x, int y, int top, int bottom, enum kc_ink ink)
{
    top = KR_MAX(top, -8 * y);
    bottom = KR_MIN(bottom, 8 * (canvas->height - y));
    for (int e = top; e < bottom; e++) {
        struct kc_cell *cell = cell_at(canvas, x, (8 * y + e) / 8);

        if (cell)
            cell->ground[(8 * y + e) % 8] = (uint8_t)ink;
    }
}

static void dot(struct kc_canvas *canvas, int x, int y, enum kc_ink ink, int clip_top,
                int clip_bottom)
{
    static const uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    struct kc_cell *cell;

    if (x < 0 || y < 4 * clip_top || y >= 4 * (clip_bottom + 1))
        return;
    cell = cell_at(canvas, x / 2, y / 4);
    if (!cell)
        return;
    cell->dots |= bits[y % 4][x % 2];
    cell->dots_ink = (uint8_t)ink;
    cell->glyph[0] = '\0';
}

void kc_canvas_line(struct kc_canvas *canvas, int x0, int y0, int x1, int y1, enum kc_ink ink,
                    int clip_top, int clip_bottom)
{
    int dx = abs(x1 - x0), dy = abs(y1 - y0), n = KR_MAX(dx, dy);

    for (int i = 0; i <= n; i++) {
        int x = n ? x0 + (2 * i * (x1 - x0) + (x1 > x0 ? n : -n)) / (2 * n) : x0;
        int y = n ? y0 + (2 * i * (y1 - y0) + (y1 > y0 ? n : -n)) / (2 * n) : y0;

        dot(canvas, x, y, ink, clip_top, clip_bottom);
    }
}

/* To the screen */

struct look {
    uint8_t ink, ground;
    bool reverse;
};

static void encode_colour(struct kc_text *ret, enum kc_depth depth, uint8_t ink, bool ground)
{
    if (depth == KC_TRUE)
        kc_text_add(ret, ";%d;2;%u;%u;%u", ground ? 48 : 38, inks[ink].r, inks[ink].g, inks[ink].b);
    else
        kc_text_add(ret, ";%d;5;%u", ground ? 48 : 38, inks[ink].xterm);
}

static void set_look(struct kc_text *ret, enum kc_depth depth, const struct look *look)
{
    kc_text_add(ret, "\033[0");
    if (inks[look->ink].bold)
        kc_text_add(ret, ";1");
    if (look->reverse)
        kc_text_add(ret, ";7");
    if (look->ink != KC_INK_PLAIN && look->ink != KC_INK_BRIGHT)
        encode_colour(ret, depth, look->ink, false);
    if (look->ground != KC_INK_PLAIN)
        encode_colour(ret, depth, look->ground, true);
    kc_text_add(ret, "m");
}

/* The ink that most eighths of [from, to) have. */
static uint8_t majority(const uint8_t ground[8], int from, int to)
{
    uint8_t best = KC_INK_PLAIN;
    int most = -1;

    for (int i = from; i < to; i++) {
        int n = 0;

        for (int j = from; j < to; j++)
            n += ground[j] == ground[i];
        if (n > most) {
            most = n;
            best = ground[i];
        }
    }
    return best;
}

/* One glyph can show two grounds, one above the other: the split that leaves the fewest eighths wrong. */
static const char *split_ground(const uint8_t ground[8], struct look *ret)
{
    static const char *const lower[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇"};
    int best = 0, most = -1;

    for (int k = 0; k < 8; k++) { /* the lower k eighths have an ink of their own */
        uint8_t above = majority(ground, 0, 8 - k), below = k ? majority(ground, 8 - k, 8) : above;
        int right = 0;

        for (int i = 0; i < 8; i++)
            right += ground[i] == (i < 8 - k ? above : below);
        if (right > most) {
            most = right;
            best = k;
        }
    }
    *ret = (struct look){.ground = majority(ground, 0, 8 - best)};
    if (best == 0)
        return lower[0];
    ret->ink = majority(ground, 8 - best, 8);
    if (ret->ink == KC_INK_PLAIN) { /* no ink is the terminal's ground: reverse shows that below */
        ret->ink = ret->ground;
        ret->ground = KC_INK_PLAIN;
        ret->reverse = true;
    }
    return lower[best];
}

static const char *shade(uint8_t ink)
{
    return ink == KC_INK_FAN1 ? "░" : ink == KC_INK_FAN2 ? "▒" : ink == KC_INK_FAN3 ? "▓" : " ";
}

/* What one cell shows: glyph [<= 4 bytes] and look. */
static void resolve(const struct kc_cell *cell, enum kc_depth depth, char glyph[5],
                    struct look *ret)
{
    uint8_t ground = majority(cell->ground, 0, 8);

    *ret = (struct look){.ink = cell->ink, .ground = ground};
    if (cell->dots) {
        unsigned code = 0x2800u + cell->dots;

        glyph[0] = (char)(0xe0 | code >> 12);
        glyph[1] = (char)(0x80 | (code >> 6 & 0x3f));
        glyph[2] = (char)(0x80 | (code & 0x3f));
        glyph[3] = '\0';
        ret->ink = cell->dots_ink;
    } else if (cell->glyph[0]) {
        strcpy(glyph, cell->glyph);
    } else if (depth == KC_MONO) {
        strcpy(glyph, shade(ground));
    } else {
        strcpy(glyph, split_ground(cell->ground, ret));
    }
}

int kc_canvas_row(const struct kc_canvas *canvas, int y, enum kc_depth depth, struct kc_text *ret)
{
    struct look current = {0}, look;
    int blanks = 0;
    bool changed = false;

    for (int x = 0; x < canvas->width; x++) {
        char glyph[5] = "";

        resolve(&canvas->cells[y * canvas->width + x], depth, glyph, &look);
        if (glyph[0] == ' ' && look.ground == KC_INK_PLAIN && !look.reverse) {
            blanks++;
            continue;
        }
        if (blanks && (current.ground != KC_INK_PLAIN || current.reverse)) {
            current = (struct look){0};
            set_look(ret, depth, &current);
        }
        kc_text_add(ret, "%*s", blanks, "");
        blanks = 0;
        if (depth != KC_MONO && memcmp(&current, &look, sizeof(look)) != 0) {
            set_look(ret, depth, &look);
            current = look;
            changed = true;
        }
        kc_text_add(ret, "%s", glyph);
    }
    if (changed)
        kc_text_add(ret, "\033[0m");
    return canvas->width - blanks;
}

void kc_canvas_write(const struct kc_canvas *canvas, enum kc_depth depth, struct kc_text *ret)
{
    for (int y = 0; y < canvas->height; y++) {
        kc_canvas_row(canvas, y, depth, ret);
        kc_text_add(ret, "\n");
    }
}
