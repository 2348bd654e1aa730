/* SPDX-License-Identifier: MIT */
/* kronosctl plot: a stream's last closes and its last forecast, drawn as SVG. */
#include "clients/ask.h"
#include "clients/client.h"
#include "clients/panel.h"
#include "clients/plot.h"
#include "clients/stamp.h"
#include "clients/svg.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH      1120
#define HEIGHT     500
#define LEAST_PAST 48
#define MOST_STEPS 10000
#define MOST_PAST  100000
#define MOST_LAG   1024 /* bars that the last forecast may be behind */

struct command {
    struct kc_ask ask;
    struct kr_interval interval;
    const char *symbol, *output;
    size_t n_past; /* asked for; 0: by the horizon */
};

/* What a forecast says of closes, out of its message. Arrays are in one piece of memory. */
struct forecast {
    size_t n_steps, n_levels;
    size_t n_bands, low[KC_FAN_BANDS], high[KC_FAN_BANDS]; /* levels of the bands, widest first */
    double levels[KC_MAX_LEVELS];
    bool calibrated; /* the fan is the calibrated reading, `raw` the widest band as sampled */
    char status[16];
    uint64_t n_outcomes;
    int64_t as_of_ns;
    double *fan[KC_MAX_LEVELS]; /* [n_steps] each */
    double *raw_low, *raw_high;
    double *memory;
};

static bool take_row(const msgpack_object *q, size_t row, size_t n_steps, double *ret)
{
    const msgpack_object *values = q && q->type == MSGPACK_OBJECT_ARRAY && row < q->via.array.size
                                       ? &q->via.array.ptr[row]
                                       : NULL;

    if (kronosd_length(values) != n_steps)
        return false;
    for (size_t i = 0; i < n_steps; i++) {
        ret[i] = kronosd_at_real(values, i);
        if (!isfinite(ret[i]))
            return false;
    }
    return true;
}

/* Central bands: a level and the one as far from the other end; the outermost two where there is none. */
static void find_bands(struct forecast *forecast)
{
    size_t n = forecast->n_levels;

    forecast->n_bands = 0;
    for (size_t low = 0; low < n && forecast->levels[low] < 0.5; low++)
        for (size_t high = n - 1; high > low && forecast->n_bands < KC_FAN_BANDS; high--)
            if (fabs(forecast->levels[low] + forecast->levels[high] - 1) < 1e-9) {
                forecast->low[forecast->n_bands] = low;
                forecast->high[forecast->n_bands++] = high;
            }
    if (forecast->n_bands == 0) {
        forecast->low[0] = 0;
        forecast->high[0] = n - 1;
        forecast->n_bands = 1;
    }
}

/* Return: 0, or KC_UNAVAILABLE, KC_SYSTEM after the error line. */
static int take_forecast(const struct command *command, const msgpack_object *root,
                         struct forecast *ret)
{
    const msgpack_object *levels = kronosd_get(root, "levels"), *cal = kronosd_get(root, "cal");
    const msgpack_object *raw = kronosd_get(kronosd_get(root, "close"), "q"), *q;
    size_t n_steps = kronosd_length(kronosd_get(root, "t")), n_levels = kronosd_length(levels);
    bool whole = true;

    if (!n_steps || n_steps > MOST_STEPS || n_levels < 2 || n_levels > KC_MAX_LEVELS)
        return kc_fail(KC_UNAVAILABLE, "%s: expected a forecast, found something else",
                       command->ask.endpoint);
    ret->n_steps = n_steps;
    ret->n_levels = n_levels;
    ret->as_of_ns = kronosd_get_int(root, "as_of", 0);
    ret->n_outcomes = kronosd_get_uint(cal, "n", 0);
    kronosd_get_string(cal, "status", ret->status, sizeof(ret->status));
    ret->calibrated = kronosd_get(cal, "q") && strcmp(ret->status, "uncalibrated") != 0;
    q = ret->calibrated ? kronosd_get(cal, "q") : raw;
    ret->memory = calloc(n_levels + 2, n_steps * sizeof(double));
    if (!ret->memory)
        return kc_fail(KC_SYSTEM, "out of memory");
    for (size_t level = 0; level < n_levels; level++) {
        ret->levels[level] = kronosd_at_real(levels, level);
        ret->fan[level] = ret->memory + level * n_steps;
        whole &= take_row(q, level, n_steps, ret->fan[level]);
    }
    find_bands(ret);
    ret->raw_low = ret->memory + n_levels * n_steps;
    ret->raw_high = ret->raw_low + n_steps;
    whole &= take_row(raw, 0, n_steps, ret->raw_low) &&
             take_row(raw, n_levels - 1, n_steps, ret->raw_high);
    return whole ? 0
                 : kc_fail(KC_UNAVAILABLE, "%s: expected quantiles of %zu steps, found others",
                           command->ask.endpoint, n_steps);
}

/* The level nearest the middle: the median, where there is one. */
static size_t middle_of(const struct forecast *forecast)
{
    size_t best = 0;

    for (size_t i = 1; i < forecast->n_levels; i++)
        if (fabs(forecast->levels[i] - 0.5) < fabs(forecast->levels[best] - 0.5))
            best = i;
    return best;
}

static size_t most_past(const struct command *command, const struct forecast *forecast)
{
    return command->n_past ? command->n_past : KR_MAX(2 * forecast->n_steps, LEAST_PAST) + 1;
}

static int draw(const struct command *command, const struct forecast *forecast,
                const struct kronosd_bars *bars, FILE *stream)
{
    const struct kc_font head = {.colour = "#1f2937", .size = 18, .bold = true};
    const struct kc_font sub = {.colour = "#6b7280", .size = 12, .anchor = "end"};
    const struct kc_frame frame = {16, 46, WIDTH - 32, HEIGHT - 62};
    char title[80], unit[64], fan_title[120], time[KC_STAMP_LENGTH], shares[KC_FAN_BANDS][16];
    struct kc_fan fan = {.title = fan_title,
                         .unit = unit,
                         .n_steps = forecast->n_steps,
                         .name = forecast->calibrated ? "calibrated" : "as sampled",
                         .median = forecast->fan[middle_of(forecast)],
                         .other_name = forecast->calibrated ? "widest as sampled" : NULL,
                         .other_low = forecast->raw_low,
                         .other_high = forecast->raw_high};
    double *past = calloc(bars->n, sizeof(*past));
    size_t n_past = 0;
    int r;

    if (!past)
        return -ENOMEM;
    for (size_t i = 0; i < bars->n; i++) /* the forecast may be older than the last bar */
        if (bars->t_ns[i] <= forecast->as_of_ns)
            past[n_past++] = bars->v[i][KR_CLOSE];
    fan.n_past = KR_MIN(n_past, most_past(command, forecast));
    fan.past = past + (n_past - fan.n_past);
    for (size_t band = 0; band < KC_FAN_BANDS; band++) {
        size_t low = forecast->low[KR_MIN(band, forecast->n_bands - 1)];
        size_t high = forecast->high[KR_MIN(band, forecast->n_bands - 1)];

        fan.low[band] = forecast->fan[low];
        fan.high[band] = forecast->fan[high];
        snprintf(shares[band], sizeof(shares[band]), "%.4g %%",
                 100 * (forecast->levels[high] - forecast->levels[low]));
        fan.share[band] = shares[band];
    }
    snprintf(title, sizeof(title), "%s %s", command->symbol, command->interval.text);
    snprintf(unit, sizeof(unit), "bars of %s, 0 is the last close", command->interval.text);
    kc_stamp_format(forecast->as_of_ns, time);
    snprintf(fan_title, sizeof(fan_title), "Behind the bar of %s", time);
    kc_svg_begin(stream, WIDTH, HEIGHT, title);
    kc_svg_text(stream, 24, 34, &head, "%s", title);
    kc_svg_text(stream, WIDTH - 32, 34, &sub, "%s, %" PRIu64 " outcomes at every horizon",
                forecast->status, forecast->n_outcomes);
    r = n_past ? kc_plot_fan(stream, &frame, &fan) : -ENOENT;
    kc_svg_end(stream);
    free(past);
    return r;
}

static int write_plot(const struct command *command, const struct forecast *forecast,
                      const struct kronosd_bars *bars)
{
    FILE *stream;
    int status = kc_open_output(command->output, &stream), r;

    if (status)
        return status;
    r = draw(command, forecast, bars, stream);
    status = kc_close_output(command->output, &stream);
    if (r == -ENOENT)
        return kc_fail(KC_NO_INPUT, "%s: expected the bar that was forecast behind, found none",
                       command->symbol);
    return r < 0 && !status ? kc_fail(KC_SYSTEM, "out of memory") : status;
}

/* The forecast first: its bar is among the last ones then. */
static int plot(struct command *command)
{
    const char *interval = command->interval.text;
    struct forecast forecast = {.memory = NULL};
    const msgpack_object *root;
    struct kronosd_bars bars;
    struct kr_error error;
    int status, r;

    r = kronosd_snapshot(command->ask.control, command->symbol, interval, kc_ask_ms(&command->ask),
                         &root, &error);
    if (r < 0)
        return kc_ask_failed(&command->ask, r, &error);
    status = take_forecast(command, root, &forecast);
    if (!status) {
        r = kronosd_history(command->ask.control, command->symbol, interval, KRONOSD_LAST,
                            most_past(command, &forecast) + MOST_LAG, kc_ask_ms(&command->ask),
                            &bars, &error);
        if (r < 0) {
            status = kc_ask_failed(&command->ask, r, &error);
        } else {
            status = write_plot(command, &forecast, &bars);
            kronosd_bars_free(&bars);
        }
    }
    free(forecast.memory);
    return status;
}

int kc_cmd_plot(int argc, char **argv)
{
    struct command command = {.ask = KC_ASK_DEFAULT};
    const struct kc_option options[] = {
        {"interval", "IV", "of the stream", KC_INTERVAL, &command.interval, 0, 0, NULL, NULL},
        {"output", "FILE", "where to (stdout)", KC_TEXT, &command.output, 0, 0, NULL, NULL},
        {"bars", "N", "closes in front of the forecast (twice the horizon, at least 48)", KC_COUNT,
         &command.n_past, 1, MOST_PAST, NULL, NULL},
        KC_ASK_OPTIONS(command.ask),
    };
    const struct kc_usage usage = {.arguments = "SYMBOL",
                                   .doc =
                                       "Draw a stream's last closes and its last forecast as SVG.",
                                   .options = options,
                                   .n_options = KR_ARRAY_LENGTH(options),
                                   .min_arguments = 1,
                                   .max_arguments = 1};
    int status;

    kc_parse(argc, argv, &usage, &command.symbol, NULL);
    if (!command.interval.text[0])
        return kc_usage_error(argv, "expected --interval IV, found none");
    status = kc_check_symbol(argv, command.symbol);
    if (!status)
        status = kc_ask_open(&command.ask);
    if (!status)
        status = plot(&command);
    kc_ask_close(&command.ask);
    return status;
}
