/* SPDX-License-Identifier: MIT */
#include "clients/view.h"

#include "clients/client.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kc_view_free(struct kc_view *view)
{
    for (size_t i = 0; i < view->n; i++) {
        free(view->streams[i]->q);
        free(view->streams[i]);
    }
    free(view->streams);
    *view = (struct kc_view){0};
}

/* Streams */

static int compare(const struct kc_stream *stream, const char *symbol,
                   const struct kr_interval *interval)
{
    int order = strcmp(stream->symbol, symbol);

    if (order)
        return order;
    if (stream->interval.ns != interval->ns)
        return stream->interval.ns < interval->ns ? -1 : 1;
    return strcmp(stream->interval.text, interval->text); /* 60s and 1m are two streams */
}

static struct kc_stream *find_stream(const struct kc_view *view, const char *symbol,
                                     const struct kr_interval *interval, size_t *ret_at)
{
    size_t at = 0;

    while (at < view->n && compare(view->streams[at], symbol, interval) < 0)
        at++;
    if (ret_at)
        *ret_at = at;
    return at < view->n && compare(view->streams[at], symbol, interval) == 0 ? view->streams[at]
                                                                             : NULL;
}

static int get_stream(struct kc_view *view, const char *symbol, const struct kr_interval *interval,
                      struct kc_stream **ret)
{
    struct kc_stream **streams, *stream;
    size_t at;

    *ret = find_stream(view, symbol, interval, &at);
    if (*ret)
        return 0;
    if (view->n == KC_VIEW_STREAMS)
        return -ENOSPC;
    streams = reallocarray(view->streams, view->n + 1, sizeof(struct kc_stream *));
    if (!streams)
        return -ENOMEM;
    view->streams = streams;
    stream = calloc(1, sizeof(*stream));
    if (!stream)
        return -ENOMEM;
    memmove(streams + at + 1, streams + at, (view->n - at) * sizeof(struct kc_stream *));
    streams[at] = stream;
    view->n++;
    snprintf(stream->symbol, sizeof(stream->symbol), "%s", symbol);
    stream->interval = *interval;
    stream->wants_history = true;
    *ret = stream;
    return 0;
}

/* Closes */

static void add_close(struct kc_stream *stream, int64_t t_ns, double close)
{
    size_t at = stream->n_closes;

    if (!isfinite(close) || close <= 0)
        return;
    while (at > 0 && stream->times[at - 1] > t_ns)
        at--;
    if (at > 0 && stream->times[at - 1] == t_ns) {
        stream->closes[at - 1] = close;
        return;
    }
    if (stream->n_closes == KC_VIEW_CLOSES) {
        if (at == 0)
            return; /* older than all that are kept */
        memmove(stream->closes, stream->closes + 1, (at - 1) * sizeof(*stream->closes));
        memmove(stream->times, stream->times + 1, (at - 1) * sizeof(*stream->times));
        at--;
    } else {
        memmove(stream->closes + at + 1, stream->closes + at,
                (stream->n_closes - at) * sizeof(*stream->closes));
        memmove(stream->times + at + 1, stream->times + at,
                (stream->n_closes - at) * sizeof(*stream->times));
        stream->n_closes++;
    }
    stream->closes[at] = close;
    stream->times[at] = t_ns;
}

void kc_view_history(struct kc_stream *stream, const int64_t *t_ns, const double (*v)[KR_COLUMNS],
                     size_t n)
{
    for (size_t i = n > KC_VIEW_CLOSES ? n - KC_VIEW_CLOSES : 0; i < n; i++)
        add_close(stream, t_ns[i], v[i][KR_CLOSE]);
    stream->wants_history = false;
}

/* Messages */

/* The fan: as calibrated once outcomes have taught something, as sampled before. */
static const msgpack_object *fan_of(const msgpack_object *root)
{
    const msgpack_object *cal = kronosd_get(root, "cal"), *q = kronosd_get(cal, "q");
    char status[16];

    if (q && kronosd_get_string(cal, "status", status, sizeof(status)) &&
        strcmp(status, "uncalibrated") != 0)
        return q;
    return kronosd_get(kronosd_get(root, "close"), "q");
}

static int take_quantiles(struct kc_stream *stream, const msgpack_object *root, size_t n_steps)
{
    const msgpack_object *levels = kronosd_get(root, "levels"), *q = fan_of(root);
    size_t n_levels = kronosd_length(levels);
    double *memory;

    if (n_levels == 0 || n_levels > KC_MAX_LEVELS || kronosd_length(q) != n_levels)
        return -EBADMSG;
    for (size_t l = 0; l < n_levels; l++)
        if (kronosd_length(&q->via.array.ptr[l]) != n_steps)
            return -EBADMSG;
    if (n_levels * n_steps > stream->q_capacity) {
        memory = reallocarray(stream->q, n_levels * n_steps, sizeof(*memory));
        if (!memory)
            return -ENOMEM;
        stream->q = memory;
        stream->q_capacity = n_levels * n_steps;
    }
    for (size_t l = 0; l < n_levels; l++) {
        stream->levels[l] = kronosd_at_real(levels, l);
        for (size_t i = 0; i < n_steps; i++)
            stream->q[l * n_steps + i] = kronosd_at_real(&q->via.array.ptr[l], i);
    }
    stream->panel.n_levels = n_levels;
    return 0;
}

/* Text of the wire reaches a terminal: nothing in it may be more than a letter. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            *text = '?';
}

static void take_text(const msgpack_object *map, const char *key, char *ret, size_t size)
{
    kronosd_get_string(map, key, ret, size);
    make_plain(ret);
}

static void take_flags(struct kc_stream *stream, const msgpack_object *flags)
{
    size_t length = 0;

    stream->flags[0] = '\0';
    for (size_t i = 0; i < kronosd_length(flags); i++) {
        const msgpack_object *flag = &flags->via.array.ptr[i];

        if (flag->type != MSGPACK_OBJECT_STR ||
            length + flag->via.str.size + 2 > sizeof(stream->flags))
            continue;
        length += (size_t)snprintf(stream->flags + length, sizeof(stream->flags) - length, "%s%.*s",
                                   length ? " " : "", (int)flag->via.str.size, flag->via.str.ptr);
    }
    make_plain(stream->flags);
}

/* Its status; and how far it has come while it warms up. */
static void take_calibration(struct kc_stream *stream, const msgpack_object *cal)
{
    char status[sizeof(stream->cal)];

    take_text(cal, "status", status, sizeof(status));
    if (strcmp(status, "warming") == 0)
        snprintf(stream->cal, sizeof(stream->cal), "warming %" PRIu64,
                 kronosd_get_uint(cal, "n", 0));
    else
        snprintf(stream->cal, sizeof(stream->cal), "%s", status);
}

static void take_figures(struct kc_stream *stream, const msgpack_object *root, size_t n_steps)
{
    const msgpack_object *ret = kronosd_get(root, "ret"), *t = kronosd_get(root, "t");
    const msgpack_object *end = &t->via.array.ptr[n_steps - 1];
    struct kc_panel *panel = &stream->panel;

    panel->end_t_ns = end->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? (int64_t)end->via.u64 : 0;
    panel->p_up = kronosd_at_real(kronosd_get(ret, "p_up"), n_steps - 1);
    panel->sd = kronosd_at_real(kronosd_get(ret, "std"), n_steps - 1);
    panel->var = kronosd_get_real(kronosd_get(ret, "var"), "0.95", NAN);
    panel->epoch = kronosd_get_uint(root, "epoch", 0);
    panel->bars = (size_t)kronosd_get_uint(root, "bars", 0);
    panel->total_us = kronosd_get_uint(kronosd_get(root, "lat"), "total_us", 0);
    take_text(root, "mode", stream->mode, sizeof(stream->mode));
    take_calibration(stream, kronosd_get(root, "cal"));
    take_text(kronosd_get(root, "model"), "name", stream->model, sizeof(stream->model));
    panel->stale = strcmp(stream->cal, "stale") == 0;
}

int kc_view_forecast(struct kc_view *view, const msgpack_object *root, struct kc_stream **ret)
{
    char symbol[KR_SYMBOL_MAX + 1], text[8];
    const msgpack_object *last = kronosd_get(root, "last"), *t = kronosd_get(root, "t");
    size_t n_steps = kronosd_length(t);
    struct kr_interval interval;
    struct kc_stream *stream;
    int64_t last_t;
    int r;

    if (!kronosd_get_string(root, "sym", symbol, sizeof(symbol)) ||
        !kr_symbol_valid(symbol, strlen(symbol)) ||
        !kronosd_get_string(root, "iv", text, sizeof(text)) ||
        kr_interval_parse(text, &interval) < 0 || n_steps == 0 || n_steps > KC_VIEW_STEPS)
        return -EBADMSG;
    r = get_stream(view, symbol, &interval, &stream);
    if (r == 0)
        r = take_quantiles(stream, root, n_steps);
    if (r < 0)
        return r;
    last_t = kronosd_get_int(last, "t", 0);
    if (stream->n_closes && last_t > stream->times[stream->n_closes - 1] + interval.ns)
        stream->wants_history = true; /* forecasts were skipped, their bars were not */
    add_close(stream, last_t, kronosd_get_real(last, "c", NAN));
    take_figures(stream, root, n_steps);
    take_flags(stream, kronosd_get(root, "flags"));
    stream->panel.n_steps = n_steps;
    stream->panel.last_t_ns = last_t;
    stream->n_forecasts++;
    view->n_forecasts++;
    if (ret)
        *ret = stream;
    return 0;
}

void kc_view_status(struct kc_view *view, const msgpack_object *root)
{
    const msgpack_object *rejected = kronosd_get(root, "rejected");

    view->has_status = true;
    view->received = kronosd_get_uint(root, "received", 0);
    view->accepted = kronosd_get_uint(root, "accepted", 0);
    view->backlog = kronosd_get_uint(root, "backlog", 0);
    view->rss_bytes = kronosd_get_uint(root, "rss_bytes", 0);
    view->lag_us = kronosd_get_int(root, "lag_us", 0);
    view->rejected = 0;
    for (uint32_t i = 0;
         rejected && rejected->type == MSGPACK_OBJECT_MAP && i < rejected->via.map.size; i++)
        if (rejected->via.map.ptr[i].val.type == MSGPACK_OBJECT_POSITIVE_INTEGER)
            view->rejected += rejected->via.map.ptr[i].val.via.u64;
}

void kc_view_lost(struct kc_view *view, const char *interval, const char *symbol, uint64_t n)
{
    struct kr_interval parsed;
    struct kc_stream *stream;

    view->lost += n;
    if (kr_interval_parse(interval, &parsed) < 0)
        return;
    stream = find_stream(view, symbol, &parsed, NULL);
    if (stream)
        stream->panel.lost += n;
}

/* The screen: a line on top, panels in columns, a line below if there are pages */

struct layout {
    int columns, rows; /* of panels */
    int width, height; /* of all of them */
};

#define HEADER_ROWS 1
#define GOOD_WIDTH  64
#define GOOD_HEIGHT 10

/* As few columns as leave every panel a good height; if there is no such number, pages of the most that
 * fit. */
static struct layout arrange(size_t n, int width, int height)
{
    int room = height - HEADER_ROWS, most = KR_MAX(width / GOOD_WIDTH, 1);
    struct layout layout = {most, KR_MAX(room / GOOD_HEIGHT, 1), 0, 0};

    for (int columns = 1; columns <= most; columns++) {
        int rows = (int)((n + (size_t)columns - 1) / (size_t)columns);

        if (rows > 0 && room / rows >= GOOD_HEIGHT) {
            layout = (struct layout){columns, rows, 0, 0};
            break;
        }
    }
    if ((size_t)layout.columns * (size_t)layout.rows < n)
        room--; /* for the line that says so */
    layout.width = width;
    layout.height = room;
    return layout;
}

size_t kc_view_pages(const struct kc_view *view, int width, int height)
{
    struct layout layout = arrange(view->n, width, height);
    size_t each = (size_t)layout.columns * (size_t)layout.rows;

    return KR_MAX((view->n + each - 1) / each, (size_t)1);
}

static void update_rate(struct kc_view *view, int64_t now_ns)
{
    double seconds = (double)(now_ns - view->rate_ns) / 1e9, rate;

    if (!view->rate_ns || seconds >= 1) {
        rate = view->rate_ns ? (double)(view->n_forecasts - view->rate_n) / seconds : 0;
        view->rate = view->rate > 0 ? 0.5 * view->rate + 0.5 * rate : rate;
        view->rate_ns = now_ns;
        view->rate_n = view->n_forecasts;
    }
}

/* The figures on the right, as many as there is room for. */
static void draw_figures(const struct kc_view *view, struct kc_canvas *canvas, int from)
{
    char figures[4][96];
    size_t n = 0;

    /* the least important first */
    if (view->has_status) {
        snprintf(figures[n++], sizeof(figures[0]), "lag %.1f ms  %.0f MB",
                 (double)view->lag_us / 1e3, (double)view->rss_bytes / 1e6);
        snprintf(figures[n++], sizeof(figures[0]), "%" PRIu64 " bars, %" PRIu64 " rejected",
                 view->received, view->rejected);
    }
    snprintf(figures[n++], sizeof(figures[0]), "%" PRIu64 " forecasts  %.1f/s", view->n_forecasts,
             view->rate);
    if (view->lost)
        snprintf(figures[n++], sizeof(figures[0]), "%" PRIu64 " lost", view->lost);
    for (int end = canvas->width - 1; n > 0;) {
        const char *text = figures[--n];
        int start = end - (int)strlen(text);

        if (start <= from)
            return;
        kc_canvas_text(canvas, start, 0, strstr(text, "lost") ? KC_INK_DOWN : KC_INK_DIM,
                       end - start, text);
        end = start - 2;
    }
}

static void draw_top(const struct kc_view *view, struct kc_canvas *canvas)
{
    int x = kc_canvas_text(canvas, 1, 0, KC_INK_TITLE, canvas->width, "kronosd");
    const char *model = view->n ? view->streams[0]->model : "";

    if (model[0])
        x = kc_canvas_printf(canvas, x + 2, 0, KC_INK_PLAIN, canvas->width - x - 2, "model %s",
                             model);
    if (view->title)
        x = kc_canvas_text(canvas, x + 2, 0, KC_INK_WARN, canvas->width - x - 2, view->title);
    draw_figures(view, canvas, x + 1);
}

static void draw_stream(struct kc_stream *stream, struct kc_canvas *canvas, int x, int y, int w,
                        int h)
{
    struct kc_panel *panel = &stream->panel;

    panel->symbol = stream->symbol;
    panel->interval = stream->interval.text;
    panel->interval_ns = stream->interval.ns;
    panel->closes = stream->closes;
    panel->n_closes = stream->n_closes;
    panel->levels = stream->levels;
    panel->q = stream->q;
    panel->mode = stream->mode;
    panel->cal = stream->cal;
    panel->flags = stream->flags;
    kc_panel_draw(canvas, x, y, w, h, panel, &stream->range);
}

void kc_view_draw(struct kc_view *view, struct kc_canvas *canvas, int64_t now_ns)
{
    struct layout layout = arrange(view->n, canvas->width, canvas->height);
    size_t each = (size_t)layout.columns * (size_t)layout.rows;
    size_t pages = kc_view_pages(view, canvas->width, canvas->height);

    kc_canvas_clear(canvas);
    update_rate(view, now_ns);
    draw_top(view, canvas);
    if (view->n == 0) {
        kc_canvas_printf(canvas, 1, canvas->height / 2, KC_INK_DIM, canvas->width - 2,
                         "waiting for forecasts from %s ... (q quits)", view->endpoint);
        return;
    }
    view->page = KR_MIN(view->page, pages - 1);
    for (size_t i = 0; i < each && view->page * each + i < view->n; i++) {
        int column = (int)(i % (size_t)layout.columns), row = (int)(i / (size_t)layout.columns);
        int x = layout.width * column / layout.columns, y = layout.height * row / layout.rows;

        draw_stream(view->streams[view->page * each + i], canvas, x, HEADER_ROWS + y,
                    layout.width * (column + 1) / layout.columns - x,
                    layout.height * (row + 1) / layout.rows - y);
    }
    if (pages > 1)
        kc_canvas_printf(canvas, 1, canvas->height - 1, KC_INK_DIM, canvas->width - 2,
                         "page %zu of %zu, %zu streams: n next, p previous, q quit", view->page + 1,
                         pages, view->n);
}

size_t kc_view_line(char *ret, size_t size, const struct kc_stream *stream)
{
    const struct kc_panel *panel = &stream->panel;
    size_t end = panel->n_steps - 1, top = panel->n_levels - 1;
    char time[24];
    int length;

    kc_panel_time(time, panel->last_t_ns, stream->interval.ns);
    length = snprintf(ret, size,
                      "%s %s %s  c %.10g  +%zu: q%g %.8g  q50 %.8g  q%g %.8g  p_up %.2f  sd %.3g  "
                      "%s  %s  %.1f ms%s%s",
                      time, stream->symbol, stream->interval.text,
                      stream->closes[stream->n_closes - 1], panel->n_steps, 100 * stream->levels[0],
                      stream->q[end], stream->q[(panel->n_levels / 2) * panel->n_steps + end],
                      100 * stream->levels[top], stream->q[top * panel->n_steps + end], panel->p_up,
                      panel->sd, stream->mode, stream->cal, (double)panel->total_us / 1000,
                      stream->flags[0] ? "  " : "", stream->flags);
    return length < 0 ? 0 : KR_MIN((size_t)length, size - 1);
}
