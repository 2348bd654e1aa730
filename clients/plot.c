/* SPDX-License-Identifier: MIT */
#include "clients/plot.h"

#include "clients/svg.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define INK    "#1f2937"
#define DIM    "#6b7280"
#define GRID   "#e5e7eb"
#define EDGE   "#9ca3af"
#define BLUE   "#1d4ed8"
#define ORANGE "#d9700a"

static const char *const band_fills[KC_FAN_BANDS] = {"#dbe7fb", "#b3cdf6", "#82abee"};

/* A frame's inner rectangle and what its sides stand for. */
struct axes {
    FILE *stream;
    double left, right, top, bottom; /* pixels */
    double x0, x1, y0, y1;           /* values */
};

static double at_x(const struct axes *axes, double x)
{
    return axes->left + (x - axes->x0) / (axes->x1 - axes->x0) * (axes->right - axes->left);
}

static double at_y(const struct axes *axes, double y)
{
    return axes->bottom - (y - axes->y0) / (axes->y1 - axes->y0) * (axes->bottom - axes->top);
}

/* 1, 2 or 5 times a power of ten that makes at most `most` steps of a span. */
static double nice_step(double span, double most)
{
    double power = pow(10, floor(log10(span / most)));

    for (int i = 0; i < 2; i++, power *= 10) {
        static const double factors[] = {1, 2, 5};

        for (size_t k = 0; k < KR_ARRAY_LENGTH(factors); k++)
            if (span / (factors[k] * power) <= most)
                return factors[k] * power;
    }
    return power;
}

static int decimals_of(double step)
{
    int decimals = (int)ceil(-log10(step) - 1e-9);

    return KR_MIN(KR_MAX(decimals, 0), 12);
}

static struct axes make_axes(FILE *stream, const struct kc_frame *frame, double margin)
{
    return (struct axes){.stream = stream,
                         .left = frame->x + margin,
                         .right = frame->x + frame->width - 16,
                         .top = frame->y + 56,
                         .bottom = frame->y + frame->height - 46};
}

static void draw_title(const struct axes *axes, const struct kc_frame *frame, const char *title)
{
    const struct kc_font font = {.colour = INK, .size = 15, .bold = true};

    kc_svg_text(axes->stream, axes->left, frame->y + 20, &font, "%s", title);
}

static void draw_names(const struct axes *axes, const struct kc_frame *frame, const char *x,
                       const char *y)
{
    const struct kc_font across = {.colour = DIM, .size = 12, .anchor = "middle"};
    const struct kc_font up = {.colour = DIM, .size = 12, .anchor = "middle", .upwards = true};

    kc_svg_text(axes->stream, (axes->left + axes->right) / 2, axes->bottom + 38, &across, "%s", x);
    kc_svg_text(axes->stream, frame->x + 14, (axes->top + axes->bottom) / 2, &up, "%s", y);
}

/* Ticks of one axis, labels of value times `factor`, and a pale line across each. */
static void draw_ticks(const struct axes *axes, bool upright, double step, double factor)
{
    const struct kc_pen line = {.stroke = GRID, .width = 1};
    const struct kc_font font = {.colour = INK, .size = 12, .anchor = upright ? "end" : "middle"};
    double from = upright ? axes->y0 : axes->x0, to = upright ? axes->y1 : axes->x1;
    int decimals = decimals_of(step * factor);

    for (double i = ceil(from / step - 1e-9); i <= floor(to / step + 1e-9); i++) {
        double value = i * step, at = upright ? at_y(axes, value) : at_x(axes, value);

        value = value == 0 ? 0 : value; /* no minus in front of zero */
        if (upright) {
            kc_svg_line(axes->stream, axes->left, at, axes->right, at, &line);
            kc_svg_text(axes->stream, axes->left - 8, at + 4, &font, "%.*f", decimals,
                        value * factor);
        } else {
            kc_svg_line(axes->stream, at, axes->top, at, axes->bottom, &line);
            kc_svg_text(axes->stream, at, axes->bottom + 18, &font, "%.*f", decimals,
                        value * factor);
        }
    }
}

static void draw_edges(const struct axes *axes)
{
    const struct kc_pen pen = {.stroke = EDGE, .width = 1};

    kc_svg_line(axes->stream, axes->left, axes->bottom, axes->right, axes->bottom, &pen);
    kc_svg_line(axes->stream, axes->left, axes->top, axes->left, axes->bottom, &pen);
}

/* One entry of a legend under the title, at *x; a line, or a box where the pen fills. */
static void draw_legend(const struct axes *axes, double *x, double y, const struct kc_pen *pen,
                        const char *text)
{
    const struct kc_font font = {.colour = INK, .size = 12};

    if (pen->fill)
        kc_svg_rect(axes->stream, *x, y - 10, 20, 11, pen);
    else
        kc_svg_line(axes->stream, *x, y - 4, *x + 20, y - 4, pen);
    kc_svg_text(axes->stream, *x + 26, y, &font, "%s", text);
    *x += 26 + 6.9 * (double)strlen(text) + 18;
}

/* Fan */

static void include(struct axes *axes, const double *values, size_t n)
{
    for (size_t i = 0; values && i < n; i++) {
        if (!isfinite(values[i]))
            continue;
        axes->y0 = fmin(axes->y0, values[i]);
        axes->y1 = fmax(axes->y1, values[i]);
    }
}

static void fan_range(struct axes *axes, const struct kc_fan *fan)
{
    double room;

    axes->x0 = fan->n_past > 1 ? 1 - (double)fan->n_past : -1;
    axes->x1 = (double)fan->n_steps;
    axes->y0 = INFINITY;
    axes->y1 = -INFINITY;
    include(axes, fan->past, fan->n_past);
    include(axes, fan->low[0], fan->n_steps);
    include(axes, fan->high[0], fan->n_steps);
    include(axes, fan->other_low, fan->n_steps);
    include(axes, fan->other_high, fan->n_steps);
    include(axes, fan->actual, fan->n_steps);
    room = (axes->y1 - axes->y0) * 0.06;
    if (!(room > 0))
        room = fmax(fabs(axes->y1) * 1e-3, 1e-9); /* nothing moved */
    axes->y0 -= room;
    axes->y1 += room;
}

/* The last close, then n_steps values, in pixels. */
static const double *from_last(const struct axes *axes, const struct kc_fan *fan,
                               const double *values, double *ret)
{
    ret[0] = at_y(axes, fan->past[fan->n_past - 1]);
    for (size_t i = 0; i < fan->n_steps; i++)
        ret[i + 1] = at_y(axes, values[i]);
    return ret;
}

static void draw_fan(const struct axes *axes, const struct kc_fan *fan, double *scratch)
{
    const struct kc_pen median = {.stroke = BLUE, .width = 2};
    const struct kc_pen other = {.stroke = ORANGE, .width = 1.4, .dash = "5 4"};
    const struct kc_pen now = {.stroke = EDGE, .width = 1, .dash = "2 3"};
    size_t n = fan->n_steps + 1;
    double *x = scratch, *low = x + n, *high = low + n;

    for (size_t i = 0; i < n; i++)
        x[i] = at_x(axes, (double)i);
    for (size_t band = 0; band < KC_FAN_BANDS; band++) {
        const struct kc_pen pen = {.fill = band_fills[band]};

        from_last(axes, fan, fan->low[band], low);
        from_last(axes, fan, fan->high[band], high);
        kc_svg_area(axes->stream, x, low, high, n, &pen);
    }
    kc_svg_line(axes->stream, x[0], axes->top, x[0], axes->bottom, &now);
    if (fan->other_name) {
        kc_svg_curve(axes->stream, x, from_last(axes, fan, fan->other_low, low), n, &other);
        kc_svg_curve(axes->stream, x, from_last(axes, fan, fan->other_high, high), n, &other);
    }
    kc_svg_curve(axes->stream, x, from_last(axes, fan, fan->median, low), n, &median);
}

static void draw_closes(const struct axes *axes, const struct kc_fan *fan, double *scratch)
{
    const struct kc_pen past = {.stroke = INK, .width = 1.5};
    const struct kc_pen actual = {.stroke = INK, .width = 1, .opacity = 0.55};
    const struct kc_pen dot = {.fill = INK};
    double *x = scratch, *y = scratch + KR_MAX(fan->n_past, fan->n_steps + 1);

    for (size_t i = 0; i < fan->n_past; i++) {
        x[i] = at_x(axes, (double)i + 1 - (double)fan->n_past);
        y[i] = at_y(axes, fan->past[i]);
    }
    kc_svg_curve(axes->stream, x, y, fan->n_past, &past);
    if (!fan->actual)
        return;
    from_last(axes, fan, fan->actual, y);
    for (size_t i = 0; i <= fan->n_steps; i++)
        x[i] = at_x(axes, (double)i);
    kc_svg_curve(axes->stream, x, y, fan->n_steps + 1, &actual);
    for (size_t i = 0; i <= fan->n_steps; i++)
        if (isfinite(y[i]))
            kc_svg_circle(axes->stream, x[i], y[i], fan->n_steps > 60 ? 1.4 : 2.4, &dot);
}

static void fan_legend(const struct axes *axes, const struct kc_frame *frame,
                       const struct kc_fan *fan)
{
    double x = axes->left, y = frame->y + 42;
    const struct kc_pen past = {.stroke = INK, .width = 1.5};
    const struct kc_pen median = {.stroke = BLUE, .width = 2};
    const struct kc_pen other = {.stroke = ORANGE, .width = 1.4, .dash = "5 4"};
    char text[64];

    draw_legend(axes, &x, y, &past, fan->actual ? "close, dots: what came" : "close");
    snprintf(text, sizeof(text), "median, %s", fan->name);
    draw_legend(axes, &x, y, &median, text);
    for (size_t band = KC_FAN_BANDS; band-- > 0;) {
        const struct kc_pen pen = {.fill = band_fills[band]};

        draw_legend(axes, &x, y, &pen, fan->share[band]);
    }
    if (fan->other_name)
        draw_legend(axes, &x, y, &other, fan->other_name);
}

int kc_plot_fan(FILE *stream, const struct kc_frame *frame, const struct kc_fan *fan)
{
    struct axes axes = make_axes(stream, frame, 92);
    double *scratch = calloc(KR_MAX(fan->n_past, fan->n_steps + 1), 3 * sizeof(*scratch));

    if (!scratch)
        return -ENOMEM;
    fan_range(&axes, fan);
    draw_title(&axes, frame, fan->title);
    draw_ticks(&axes, true, nice_step(axes.y1 - axes.y0, 7), 1);
    draw_ticks(&axes, false, fmax(nice_step(axes.x1 - axes.x0, 12), 1), 1);
    draw_fan(&axes, fan, scratch);
    draw_closes(&axes, fan, scratch);
    draw_edges(&axes);
    draw_names(&axes, frame, fan->unit, "price");
    fan_legend(&axes, frame, fan);
    free(scratch);
    return 0;
}

/* Coverage and PIT */

static void pair_legend(const struct axes *axes, const struct kc_frame *frame,
                        const struct kc_plot_pair *pair, const struct kc_pen *raw,
                        const struct kc_pen *cal)
{
    const struct kc_font font = {.colour = DIM, .size = 12};
    double x = axes->left, y = frame->y + 42;
    char text[64];

    snprintf(text, sizeof(text), "raw, n = %llu", (unsigned long long)pair->n_raw);
    draw_legend(axes, &x, y, raw, text);
    if (!pair->cal && pair->note)
        kc_svg_text(axes->stream, x, y, &font, "%s", pair->note);
    if (!pair->cal)
        return;
    snprintf(text, sizeof(text), "calibrated, n = %llu", (unsigned long long)pair->n_cal);
    draw_legend(axes, &x, y, cal, text);
}

static void draw_coverage(const struct axes *axes, const double *shares, size_t n,
                          const struct kc_pen *pen)
{
    const struct kc_pen dot = {.fill = pen->stroke};

    for (size_t i = 0; i < n; i++) {
        double step = 1 / (double)(n + 1), nominal = step * (double)(i + 1);
        double before = i > 0 ? shares[i - 1] : shares[0];

        if (i > 0)
            kc_svg_line(axes->stream, at_x(axes, nominal - step), at_y(axes, before),
                        at_x(axes, nominal), at_y(axes, shares[i]), pen);
        kc_svg_circle(axes->stream, at_x(axes, nominal), at_y(axes, shares[i]), 3.2, &dot);
    }
}

void kc_plot_coverage(FILE *stream, const struct kc_frame *frame, const struct kc_plot_pair *pair)
{
    const struct kc_pen raw = {.stroke = ORANGE, .width = 1.8};
    const struct kc_pen cal = {.stroke = BLUE, .width = 1.8};
    const struct kc_pen ideal = {.stroke = DIM, .width = 1.2, .dash = "5 4"};
    const struct kc_font note = {.colour = DIM, .size = 12, .anchor = "end"};
    struct axes axes = make_axes(stream, frame, 64);

    axes.x1 = axes.y1 = 1;
    draw_title(&axes, frame, pair->title);
    draw_ticks(&axes, true, 0.2, 100);
    draw_ticks(&axes, false, 0.2, 100);
    kc_svg_line(stream, axes.left, axes.bottom, axes.right, axes.top, &ideal);
    kc_svg_text(stream, axes.right - 6, axes.bottom - 24, &note,
                "below the dashes: bands too narrow");
    kc_svg_text(stream, axes.right - 6, axes.bottom - 8, &note, "above: too wide");
    draw_coverage(&axes, pair->raw, pair->n, &raw);
    if (pair->cal)
        draw_coverage(&axes, pair->cal, pair->n, &cal);
    draw_edges(&axes);
    draw_names(&axes, frame, "nominal share of the central band, %", "outcomes inside, %");
    pair_legend(&axes, frame, pair, &raw, &cal);
}

/* The outline of a histogram. */
static void draw_outline(const struct axes *axes, const double *shares, size_t n,
                         const struct kc_pen *pen)
{
    double before = 0;

    for (size_t i = 0; i <= n; i++) {
        double share = i < n ? shares[i] : 0, x = at_x(axes, (double)i / (double)n);

        kc_svg_line(axes->stream, x, at_y(axes, before), x, at_y(axes, share), pen);
        if (i < n)
            kc_svg_line(axes->stream, x, at_y(axes, share), at_x(axes, (double)(i + 1) / (double)n),
                        at_y(axes, share), pen);
        before = share;
    }
}

void kc_plot_pit(FILE *stream, const struct kc_frame *frame, const struct kc_plot_pair *pair)
{
    const struct kc_pen raw = {.fill = "#f6c48f"};
    const struct kc_pen cal = {.stroke = BLUE, .width = 2};
    const struct kc_pen ideal = {.stroke = DIM, .width = 1.2, .dash = "5 4"};
    struct axes axes = make_axes(stream, frame, 64);
    double even = 1 / (double)pair->n, most = even;

    for (size_t i = 0; i < pair->n; i++)
        most = fmax(most, fmax(pair->raw[i], pair->cal ? pair->cal[i] : 0));
    axes.x1 = 1;
    axes.y1 = most * 1.15;
    draw_title(&axes, frame, pair->title);
    draw_ticks(&axes, true, nice_step(axes.y1, 6), 100);
    for (size_t i = 0; i < pair->n; i++) {
        double left = at_x(&axes, (double)i * even), top = at_y(&axes, pair->raw[i]);

        kc_svg_rect(stream, left + 1.5, top, at_x(&axes, even) - axes.left - 3, axes.bottom - top,
                    &raw);
    }
    draw_ticks(&axes, false, 0.2, 1);
    if (pair->cal)
        draw_outline(&axes, pair->cal, pair->n, &cal);
    kc_svg_line(stream, axes.left, at_y(&axes, even), axes.right, at_y(&axes, even), &ideal);
    draw_edges(&axes);
    draw_names(&axes, frame, "PIT: where in its forecast an outcome fell", "outcomes, %");
    pair_legend(&axes, frame, pair, &raw, &cal);
}
