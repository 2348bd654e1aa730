/* SPDX-License-Identifier: MIT */
#include "clients/svg.h"

#include <math.h>
#include <stdarg.h>

#define FONTS "'DejaVu Sans', 'Liberation Sans', Helvetica, Arial, sans-serif"

/* Bytes below a space, which XML does not allow, become spaces; the rest is taken for UTF-8. */
static void put_escaped(FILE *stream, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '&':
            fputs("&amp;", stream);
            break;
        case '"':
            fputs("&quot;", stream);
            break;
        default:
            putc((unsigned char)*text < ' ' ? ' ' : *text, stream);
        }
    }
}

void kc_svg_begin(FILE *stream, double width, double height, const char *title)
{
    const struct kc_pen ground = {.fill = "#ffffff"};

    fprintf(stream,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" font-family=\"" FONTS "\">\n<title>",
            width, height, width, height);
    put_escaped(stream, title);
    fputs("</title>\n", stream);
    kc_svg_rect(stream, 0, 0, width, height, &ground);
}

void kc_svg_end(FILE *stream)
{
    fputs("</svg>\n", stream);
}

static void put_pen(FILE *stream, const struct kc_pen *pen)
{
    fprintf(stream, " fill=\"%s\"", pen->fill ? pen->fill : "none");
    if (pen->stroke)
        fprintf(stream, " stroke=\"%s\" stroke-width=\"%.2f\" stroke-linejoin=\"round\"",
                pen->stroke, pen->width);
    if (pen->dash)
        fprintf(stream, " stroke-dasharray=\"%s\"", pen->dash);
    if (pen->opacity > 0)
        fprintf(stream, " opacity=\"%.2f\"", pen->opacity);
    fputs("/>\n", stream);
}

void kc_svg_rect(FILE *stream, double x, double y, double width, double height,
                 const struct kc_pen *pen)
{
    fprintf(stream, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", x, y, width,
            height);
    put_pen(stream, pen);
}

void kc_svg_line(FILE *stream, double x1, double y1, double x2, double y2, const struct kc_pen *pen)
{
    fprintf(stream, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"", x1, y1, x2, y2);
    put_pen(stream, pen);
}

void kc_svg_circle(FILE *stream, double x, double y, double radius, const struct kc_pen *pen)
{
    fprintf(stream, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\"", x, y, radius);
    put_pen(stream, pen);
}

void kc_svg_curve(FILE *stream, const double *x, const double *y, size_t n,
                  const struct kc_pen *pen)
{
    bool drawing = false;

    fputs("<path d=\"", stream);
    for (size_t i = 0; i < n; i++) {
        if (isfinite(x[i]) && isfinite(y[i]))
            fprintf(stream, "%c%.2f %.2f", drawing ? 'L' : 'M', x[i], y[i]);
        drawing = isfinite(x[i]) && isfinite(y[i]);
    }
    putc('"', stream);
    put_pen(stream, pen);
}

void kc_svg_area(FILE *stream, const double *x, const double *low, const double *high, size_t n,
                 const struct kc_pen *pen)
{
    fputs("<path d=\"", stream);
    for (size_t i = 0; i < n; i++)
        fprintf(stream, "%c%.2f %.2f", i > 0 ? 'L' : 'M', x[i], high[i]);
    for (size_t i = n; i > 0; i--)
        fprintf(stream, "L%.2f %.2f", x[i - 1], low[i - 1]);
    fputs("Z\"", stream);
    put_pen(stream, pen);
}

void kc_svg_text(FILE *stream, double x, double y, const struct kc_font *font, const char *format,
                 ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stream, "<text x=\"%.2f\" y=\"%.2f\" font-size=\"%.1f\" fill=\"%s\"", x, y, font->size,
            font->colour);
    if (font->anchor)
        fprintf(stream, " text-anchor=\"%s\"", font->anchor);
    if (font->bold)
        fputs(" font-weight=\"bold\"", stream);
    if (font->upwards)
        fprintf(stream, " transform=\"rotate(-90 %.2f %.2f)\"", x, y);
    putc('>', stream);
    put_escaped(stream, text);
    fputs("</text>\n", stream);
}
