/* SPDX-License-Identifier: MIT */
#include "clients/panel.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DAY_NS INT64_C(86400000000000)

/* Where things are: the plot inside the frame, x in cells from its left, y from its top. */
struct plot {
    struct kc_canvas *canvas;
    int x, y, w, h; /* cells */
    int now;        /* column of the last bar */
    double step;    /* cells a bar */
    double low, high;
    int decimals;
};

void kc_panel_time(char ret[24], int64_t t_ns, int64_t interval_ns)
{
    time_t seconds = (time_t)(t_ns / 1000000000 - (t_ns % 1000000000 < 0));
    struct tm tm;

    ret[0] = '\0';
    if (!gmtime_r(&seconds, &tm))
        return;
    if (interval_ns >= DAY_NS)
        strftime(ret, 24, "%Y-%m-%d", &tm);
    else if (interval_ns < 60 * INT64_C(1000000000))
        strftime(ret, 24, "%Y-%m-%d %H:%M:%S", &tm);
    else
        strftime(ret, 24, "%Y-%m-%d %H:%M", &tm);
}

/* The time axis has room for the changing part alone. */
static const char *short_time(const char *text, int64_t interval_ns)
{
    size_t length = strlen(text), skip = interval_ns >= DAY_NS ? 5 : 11;

    return length > skip ? text + skip : text;
}

/* Cells for the future: a whole number of cells a bar while it takes less than 45 % of the width. */
static int future_cells(int w, size_t n_steps, double *ret_step)
{
    static const double steps[] = {3, 2, 1, 0.5};
    double room = 0.45 * w;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(steps); i++) {
        if ((double)n_steps * steps[i] <= room) {
            *ret_step = steps[i];
            return (int)ceil((double)n_steps * steps[i]);
        }
    }
    *ret_step = room / (double)n_steps;
    return (int)room;
}

#define AXIS_CELLS 12 /* of the price labels, with a blank before them */

size_t kc_panel_past(int w, size_t n_steps)
{
    double step;
    int plot = w - 2 - AXIS_CELLS, future;

    if (plot < 4)
        return 0;
    future = future_cells(plot, n_steps, &step);
    return (size_t)((plot - future) / step) + 1;
}

/* Range */

static void cover(struct kc_range *range, double value)
{
    if (!isfinite(value))
        return;
    if (range->low == 0 && range->high == 0)
        *range = (struct kc_range){value, value};
    range->low = fmin(range->low, value);
    range->high = fmax(range->high, value);
}

/* What must be seen; a range that already shows it, and not too small, stays. */
static void settle_range(struct kc_range *range, const struct kc_panel *panel, size_t n_past)
{
    struct kc_range need = {0, 0};
    double margin;

    for (size_t i = panel->n_closes - n_past; i < panel->n_closes; i++)
        cover(&need, panel->closes[i]);
    for (size_t i = 0; i < panel->n_steps && panel->n_levels; i++) {
        cover(&need, panel->q[i]);
        cover(&need, panel->q[(panel->n_levels - 1) * panel->n_steps + i]);
    }
    if (range->low < range->high && need.low >= range->low && need.high <= range->high &&
        need.high - need.low > 0.7 * (range->high - range->low))
        return;
    margin = fmax(0.06 * (need.high - need.low), 1e-4 * fmax(fabs(need.high), 1e-300));
    *range = (struct kc_range){need.low - margin, need.high + margin};
}

/* Height above the top in units of 1/`per_cell` cells. */
static double height(const struct plot *plot, double value, int per_cell)
{
    return (plot->high - value) / (plot->high - plot->low) * plot->h * per_cell;
}

static int row_of(const struct plot *plot, double value)
{
    return KR_MIN(KR_MAX((int)floor(height(plot, value, 1)), 0), plot->h - 1);
}

/* Fan */

/* Quantile at a distance of `ahead` bars, linear between the last close and the steps. */
static double quantile_at(const struct kc_panel *panel, size_t level, double ahead)
{
    double last = panel->closes[panel->n_closes - 1];
    size_t i = (size_t)ahead;
    double before, after;

    if (i >= panel->n_steps)
        return panel->q[level * panel->n_steps + panel->n_steps - 1];
    before = i == 0 ? last : panel->q[level * panel->n_steps + i - 1];
    after = panel->q[level * panel->n_steps + i];
    return before + (ahead - (double)i) * (after - before);
}

static void draw_bands(const struct plot *plot, const struct kc_panel *panel)
{
    static const enum kc_ink inks[] = {KC_INK_FAN1, KC_INK_FAN2, KC_INK_FAN3};
    size_t n_bands = panel->n_levels / 2;

    for (int column = plot->now + 1; column < plot->w; column++) {
        double ahead = (column + 0.5 - (plot->now + 0.5)) / plot->step;

        if (ahead > (double)panel->n_steps + 0.5)
            break;
        for (size_t band = 0; band < n_bands; band++) {
            double high = quantile_at(panel, panel->n_levels - 1 - band, ahead);
            double low = quantile_at(panel, band, ahead);
            /* the innermost band takes the innermost ink, others share what is left */
            size_t ink = band + 3 >= n_bands ? band + 3 - n_bands : 0;
            int top = (int)lround(fmin(fmax(height(plot, high, 8), 0), 8.0 * plot->h));
            int bottom = (int)lround(fmin(fmax(height(plot, low, 8), 0), 8.0 * plot->h));

            if (bottom == top && band == 0) /* a line at least */
                bottom = KR_MIN(top + 1, 8 * plot->h);
            kc_canvas_fill(plot->canvas, plot->x + column, plot->y, top, bottom,
                           inks[KR_MIN(ink, (size_t)2)]);
        }
    }
}

struct dot_at {
    int x, y;
};

static struct dot_at place(const struct plot *plot, double ahead, double value)
{
    double x = 2 * (plot->x + plot->now + 0.5 + ahead * plot->step) - 0.5;
    double y = 4.0 * plot->y + fmin(fmax(height(plot, value, 4), 0), 4.0 * plot->h - 1);

    return (struct dot_at){(int)floor(x), (int)floor(y)};
}

static void draw_median(const struct plot *plot, const struct kc_panel *panel)
{
    size_t level = panel->n_levels / 2;
    struct dot_at from = place(plot, 0, panel->closes[panel->n_closes - 1]), to;

    for (size_t i = 1; i <= panel->n_steps; i++, from = to) {
        to = place(plot, (double)i, panel->q[level * panel->n_steps + i - 1]);
        to.x = KR_MIN(to.x, 2 * (plot->x + plot->w) - 1);
        kc_canvas_line(plot->canvas, from.x, from.y, to.x, to.y, KC_INK_MEDIAN, plot->y,
                       plot->y + plot->h - 1);
    }
}

static void draw_closes(const struct plot *plot, const struct kc_panel *panel, size_t n_past)
{
    const double *closes = panel->closes + panel->n_closes - n_past;
    struct dot_at from = {0, 0}, to;

    for (size_t i = 0; i < n_past; i++, from = to) {
        double age = (double)(n_past - 1 - i) * plot->step;
        enum kc_ink ink = age < plot->now * 0.4   ? KC_INK_LINE
                          : age < plot->now * 0.7 ? KC_INK_LINE2
                                                  : KC_INK_LINE3;

        to = place(plot, -(double)(n_past - 1 - i), closes[i]);
        if (i == 0)
            from = to;
        kc_canvas_line(plot->canvas, from.x, from.y, to.x, to.y, ink, plot->y,
                       plot->y + plot->h - 1);
    }
}

/* Axes */

static void price_label(const struct plot *plot, bool *taken, double value, enum kc_ink ink)
{
    int row = row_of(plot, value);

    if (!isfinite(value) || taken[row])
        return;
    taken[row] = true;
    kc_canvas_printf(plot->canvas, plot->x + plot->w, plot->y + row, ink, AXIS_CELLS, " %.*f",
                     plot->decimals, value);
}

static void draw_prices(const struct plot *plot, const struct kc_panel *panel)
{
    bool taken[1024] = {false};
    size_t end = panel->n_steps - 1, top = panel->n_levels - 1;

    if (plot->h > (int)KR_ARRAY_LENGTH(taken))
        return;
    price_label(plot, taken, panel->closes[panel->n_closes - 1], KC_INK_LINE);
    if (panel->n_steps && panel->n_levels) {
        price_label(plot, taken, panel->q[(panel->n_levels / 2) * panel->n_steps + end],
                    KC_INK_MEDIAN);
        price_label(plot, taken, panel->q[top * panel->n_steps + end], KC_INK_TITLE);
        price_label(plot, taken, panel->q[end], KC_INK_TITLE);
    }
    for (int row = 0; row < plot->h; row += KR_MAX(plot->h / 3, 2))
        price_label(plot, taken, plot->high - (row + 0.5) * (plot->high - plot->low) / plot->h,
                    KC_INK_DIM);
}

static void draw_times(const struct plot *plot, const struct kc_panel *panel, size_t n_past)
{
    char text[24];
    const char *label;
    int y = plot->y + plot->h, free_from = plot->x, at;

    kc_panel_time(text, panel->last_t_ns - (int64_t)(n_past - 1) * panel->interval_ns,
                  panel->interval_ns);
    label = short_time(text, panel->interval_ns);
    at = plot->x + plot->now - (int)((double)(n_past - 1) * plot->step);
    if (at + (int)strlen(label) + 6 < plot->x + plot->now)
        free_from = kc_canvas_text(plot->canvas, at, y, KC_INK_DIM, plot->w, label);
    kc_panel_time(text, panel->last_t_ns, panel->interval_ns);
    label = short_time(text, panel->interval_ns);
    at = KR_MAX(plot->x + plot->now - (int)strlen(label) / 2, free_from + 1);
    free_from = kc_canvas_text(plot->canvas, at, y, KC_INK_LINE, plot->w, label);
    if (!panel->n_steps)
        return;
    kc_panel_time(text, panel->end_t_ns, panel->interval_ns);
    label = short_time(text, panel->interval_ns);
    at = plot->x + plot->w - (int)strlen(label);
    if (at > free_from)
        kc_canvas_text(plot->canvas, at, y, KC_INK_DIM, plot->w, label);
}

/* The dotted line between what was and what may be. */
static void draw_now(const struct plot *plot)
{
    for (int row = 0; row < plot->h; row++) {
        struct kc_cell *cell =
            &plot->canvas->cells[(plot->y + row) * plot->canvas->width + plot->x + plot->now];

        if (!cell->dots)
            kc_canvas_text(plot->canvas, plot->x + plot->now, plot->y + row, KC_INK_DIM, 1, "┊");
    }
}

/* Words around the plot */

static int decimals_for(double step)
{
    int decimals = 1 - (int)floor(log10(fmax(step, 1e-12)));

    return KR_MIN(KR_MAX(decimals, 0), 10);
}

static void draw_gauge(char ret[64], double share)
{
    static const char *const eighths[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int filled = (int)lround(fmin(fmax(share, 0), 1) * 64);

    strcpy(ret, "▕");
    for (int i = 0; i < 8; i++)
        strcat(ret, filled >= (i + 1) * 8 ? "█" : filled <= i * 8 ? " " : eighths[filled % 8]);
    strcat(ret, "▏");
}

static int add_item(struct kc_canvas *canvas, int x, int y, int end, enum kc_ink ink,
                    const char *text)
{
    int cells = (int)kc_text_cells(text);

    if (x + cells > end)
        return x;
    return kc_canvas_text(canvas, x, y, ink, cells, text) + 3;
}

static enum kc_ink calibration_ink(const char *status)
{
    return strcmp(status, "calibrated") == 0 ? KC_INK_UP
           : strcmp(status, "stale") == 0    ? KC_INK_DOWN
                                             : KC_INK_WARN;
}

static void draw_header(struct kc_canvas *canvas, int x, int y, int end,
                        const struct kc_panel *panel)
{
    double last = panel->closes[panel->n_closes - 1];
    double before = panel->n_closes > 1 ? panel->closes[panel->n_closes - 2] : last;
    double change = before > 0 ? 100 * (last / before - 1) : 0;
    enum kc_ink way = change > 0 ? KC_INK_UP : change < 0 ? KC_INK_DOWN : KC_INK_DIM;
    char text[160], gauge[64];

    snprintf(text, sizeof(text), "%.10g", last);
    x = add_item(canvas, x, y, end, KC_INK_BRIGHT, text) - 1;
    snprintf(text, sizeof(text), "%s %+.2f %%", change > 0 ? "▲" : change < 0 ? "▼" : "◆", change);
    x = add_item(canvas, x, y, end, way, text);
    if (!panel->n_steps)
        return;
    draw_gauge(gauge, panel->p_up);
    snprintf(text, sizeof(text), "P(up) %s %.0f %%", gauge, 100 * panel->p_up);
    x = add_item(canvas, x, y, end, panel->p_up >= 0.5 ? KC_INK_UP : KC_INK_DOWN, text);
    x = add_item(canvas, x, y, end, calibration_ink(panel->cal), panel->cal);
    snprintf(text, sizeof(text), "sd %.2f %%", 100 * panel->sd);
    x = add_item(canvas, x, y, end, KC_INK_PLAIN, text);
    if (isfinite(panel->var)) {
        snprintf(text, sizeof(text), "VaR95 %.2f %%", 100 * panel->var);
        x = add_item(canvas, x, y, end, KC_INK_PLAIN, text);
    }
    if (panel->epoch)
        snprintf(text, sizeof(text), "%s, epoch %llu, %zu bars", panel->mode,
                 (unsigned long long)panel->epoch, panel->bars);
    else
        snprintf(text, sizeof(text), "%s, %zu bars", panel->mode, panel->bars);
    add_item(canvas, x, y, end, KC_INK_DIM, text);
}

static void draw_frame(struct kc_canvas *canvas, int x, int y, int w, int h,
                       const struct kc_panel *panel)
{
    char text[128], time[24];
    int at, cells;

    kc_canvas_frame(canvas, x, y, w, h, KC_INK_DIM);
    at = kc_canvas_printf(canvas, x + 2, y, KC_INK_TITLE, w - 4, " %s", panel->symbol);
    at = kc_canvas_printf(canvas, at, y, KC_INK_DIM, x + w - 2 - at, " %s ", panel->interval);
    kc_panel_time(time, panel->last_t_ns, panel->interval_ns);
    if (panel->n_steps)
        snprintf(text, sizeof(text), " %s UTC, %zu bars ahead ", time, panel->n_steps);
    else
        snprintf(text, sizeof(text), " %s UTC ", time);
    cells = (int)strlen(text);
    if (at + cells + 2 <= x + w)
        kc_canvas_text(canvas, x + w - 2 - cells, y, KC_INK_DIM, cells, text);
    if (!panel->n_steps)
        return;
    snprintf(text, sizeof(text), " %.1f ms ", (double)panel->total_us / 1000);
    cells = (int)strlen(text);
    kc_canvas_text(canvas, x + w - 2 - cells, y + h - 1, KC_INK_DIM, cells, text);
    at = x + 2;
    if (panel->stale)
        at = kc_canvas_text(canvas, at, y + h - 1, KC_INK_DOWN, w / 2, " stale ");
    if (panel->lost)
        at = kc_canvas_printf(canvas, at, y + h - 1, KC_INK_DOWN, w / 2, " %llu lost ",
                              (unsigned long long)panel->lost);
    if (panel->flags[0])
        kc_canvas_printf(canvas, at, y + h - 1, KC_INK_WARN, x + w - 3 - cells - at, " %s ",
                         panel->flags);
}

void kc_panel_draw(struct kc_canvas *canvas, int x, int y, int w, int h,
                   const struct kc_panel *panel, struct kc_range *range)
{
    struct plot plot = {
        .canvas = canvas, .x = x + 1, .y = y + 2, .w = w - 2 - AXIS_CELLS, .h = h - 4};
    size_t n_past;
    int future;

    if (w < KC_PANEL_MIN_WIDTH || h < KC_PANEL_MIN_HEIGHT || x < 0 || y < 0 ||
        x + w > canvas->width || y + h > canvas->height)
        return;
    draw_frame(canvas, x, y, w, h, panel);
    if (!panel->n_closes)
        return;
    future = future_cells(plot.w, panel->n_steps, &plot.step);
    plot.now = plot.w - 1 - future;
    n_past = KR_MIN((size_t)(plot.now / plot.step) + 1, panel->n_closes);
    settle_range(range, panel, n_past);
    plot.low = range->low;
    plot.high = range->high;
    plot.decimals = decimals_for((plot.high - plot.low) / plot.h);
    draw_header(canvas, x + 2, y + 1, x + w - 2, panel);
    if (panel->n_steps && panel->n_levels)
        draw_bands(&plot, panel);
    draw_closes(&plot, panel, n_past);
    if (panel->n_steps && panel->n_levels)
        draw_median(&plot, panel);
    draw_now(&plot);
    draw_prices(&plot, panel);
    draw_times(&plot, panel, n_past);
}
