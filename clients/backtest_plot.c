/* SPDX-License-Identifier: MIT */
#include "clients/backtest.h"

#include "clients/plot.h"
#include "clients/stamp.h"
#include "clients/svg.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH  1120
#define HEIGHT 830

/* Closes shown in front of the fan, in horizons. */
#define PAST_HORIZONS 2
#define LEAST_PAST    48

static const size_t bands[KC_FAN_BANDS] = {8, 7, 4}; /* 90, 80, 50 % */
static const char *const shares[KC_FAN_BANDS] = {"90 %", "80 %", "50 %"};

/* Prices of one fan, in one piece of memory. */
struct prices {
    double *past, *actual, *low[KC_FAN_BANDS], *high[KC_FAN_BANDS], *median, *raw_low, *raw_high;
    size_t n_past;
    double *memory;
};

static int take_memory(struct prices *prices, const struct kc_backtest *backtest)
{
    size_t n = backtest->n_steps;
    double *at;

    prices->n_past = KR_MIN(backtest->last.index + 1, KR_MAX(PAST_HORIZONS * n, LEAST_PAST) + 1);
    at = prices->memory = calloc(prices->n_past + (4 + 2 * KC_FAN_BANDS) * n, sizeof(double));
    if (!at)
        return -ENOMEM;
    prices->past = at;
    prices->actual = at += prices->n_past;
    prices->median = at += n;
    prices->raw_low = at += n;
    prices->raw_high = at += n;
    for (size_t band = 0; band < KC_FAN_BANDS; band++) {
        prices->low[band] = at += n;
        prices->high[band] = at += n;
    }
    return 0;
}

/* The close of the bar that opens at t_ns, among those from index `from`; NaN if there is none. */
static double close_at(const struct kc_input *input, size_t from, int64_t t_ns)
{
    for (size_t i = from; i < input->n && input->bars[i].t_ns <= t_ns; i++)
        if (input->bars[i].t_ns == t_ns)
            return input->bars[i].v[KR_CLOSE];
    return NAN;
}

static void fill(struct prices *prices, const struct kc_backtest *backtest,
                 const struct kc_input *input)
{
    const struct kc_backtest_last *last = &backtest->last;
    double close = input->bars[last->index].v[KR_CLOSE];
    size_t middle = KC_BACKTEST_LEVELS / 2;

    for (size_t i = 0; i < prices->n_past; i++)
        prices->past[i] = input->bars[last->index + 1 - prices->n_past + i].v[KR_CLOSE];
    for (size_t step = 0; step < backtest->n_steps; step++) {
        const double *cal = &last->cal[step * KC_BACKTEST_LEVELS];
        const double *raw = &last->raw[step * KC_BACKTEST_LEVELS];

        prices->actual[step] = close_at(input, last->index + 1, last->t_ns[step]);
        prices->median[step] = close * exp(cal[middle]);
        prices->raw_low[step] = close * exp(raw[0]);
        prices->raw_high[step] = close * exp(raw[KC_BACKTEST_LEVELS - 1]);
        for (size_t band = 0; band < KC_FAN_BANDS; band++) {
            prices->low[band][step] = close * exp(cal[middle - 1 - bands[band]]);
            prices->high[band][step] = close * exp(cal[middle + 1 + bands[band]]);
        }
    }
}

/* The file's name without its folders. */
static const char *name_of(const char *file)
{
    const char *slash = strrchr(file, '/');

    return slash ? slash + 1 : file;
}

static int draw_fan(FILE *stream, const struct kc_backtest *backtest, const struct kc_input *input)
{
    const struct kc_frame frame = {16, 46, WIDTH - 32, 420};
    struct kc_fan fan = {
        .n_steps = backtest->n_steps, .name = "calibrated", .other_name = "90 % as sampled"};
    struct prices prices;
    char title[200], unit[64], time[KC_STAMP_LENGTH];
    int r = take_memory(&prices, backtest);

    if (r < 0)
        return r;
    fill(&prices, backtest, input);
    kc_stamp_format(input->bars[backtest->last.index].t_ns, time);
    snprintf(title, sizeof(title), "Last forecast, behind the bar of %s (%s when made)", time,
             kr_trust_names[backtest->last.status]);
    snprintf(unit, sizeof(unit), "bars of %s, 0 is the last close", input->interval.text);
    fan.title = title;
    fan.unit = unit;
    fan.past = prices.past;
    fan.n_past = prices.n_past;
    fan.actual = prices.actual;
    fan.median = prices.median;
    fan.other_low = prices.raw_low;
    fan.other_high = prices.raw_high;
    for (size_t band = 0; band < KC_FAN_BANDS; band++) {
        fan.low[band] = prices.low[band];
        fan.high[band] = prices.high[band];
        fan.share[band] = shares[band];
    }
    r = kc_plot_fan(stream, &frame, &fan);
    free(prices.memory);
    return r;
}

/* Counts of all horizons as shares. */
static void to_shares(const uint64_t *counts, size_t n, uint64_t total, double *ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = total > 0 ? (double)counts[i] / (double)total : 0;
}

static void draw_trust(FILE *stream, const struct kc_backtest *backtest)
{
    const struct kc_frame left = {16, 470, WIDTH / 2 - 24, 344};
    const struct kc_frame right = {WIDTH / 2 + 8, 470, WIDTH / 2 - 24, 344};
    uint64_t inside[KC_BACKTEST_BANDS] = {0}, inside_cal[KC_BACKTEST_BANDS] = {0};
    uint64_t pit[KR_PIT_BINS] = {0}, pit_cal[KR_PIT_BINS] = {0};
    double raw[KR_PIT_BINS], cal[KR_PIT_BINS];
    struct kc_plot_pair pair = {
        .title = "Coverage of central bands, all horizons", .raw = raw, .n = KC_BACKTEST_BANDS};

    for (size_t step = 0; step < backtest->n_steps; step++) {
        const struct kc_backtest_horizon *horizon = &backtest->horizons[step];

        pair.n_raw += horizon->tally.n;
        pair.n_cal += horizon->n_cal;
        for (size_t band = 0; band < KC_BACKTEST_BANDS; band++) {
            inside[band] += horizon->inside[band];
            inside_cal[band] += horizon->inside_cal[band];
        }
        for (size_t bin = 0; bin < KR_PIT_BINS; bin++) {
            pit[bin] += horizon->tally.pit[bin];
            pit_cal[bin] += horizon->pit_cal[bin];
        }
    }
    pair.cal = pair.n_cal > 0 ? cal : NULL;
    to_shares(inside, KC_BACKTEST_BANDS, pair.n_raw, raw);
    to_shares(inside_cal, KC_BACKTEST_BANDS, pair.n_cal, cal);
    kc_plot_coverage(stream, &left, &pair);
    pair.title = "PIT histogram, all horizons";
    pair.n = KR_PIT_BINS;
    to_shares(pit, KR_PIT_BINS, pair.n_raw, raw);
    to_shares(pit_cal, KR_PIT_BINS, pair.n_cal, cal);
    kc_plot_pit(stream, &right, &pair);
}

int kc_backtest_plot(FILE *stream, const struct kc_backtest *backtest,
                     const struct kc_backtest_config *config, const struct kc_input *input,
                     const char *file)
{
    const struct kc_font head = {.colour = "#1f2937", .size = 18, .bold = true};
    const struct kc_font sub = {.colour = "#6b7280", .size = 12, .anchor = "end"};
    char title[200];
    int r;

    snprintf(title, sizeof(title), "Backtest of %.120s", name_of(file));
    kc_svg_begin(stream, WIDTH, HEIGHT, title);
    kc_svg_text(stream, 24, 34, &head, "%s", title);
    kc_svg_text(stream, WIDTH - 32, 34, &sub,
                "mode %s, %" PRIu64 " forecasts, one every %zu bars, %zu paths",
                kr_mode_names[backtest->mode], backtest->n_origins, config->every, config->paths);
    r = draw_fan(stream, backtest, input);
    if (r < 0)
        return r;
    draw_trust(stream, backtest);
    kc_svg_end(stream);
    return ferror(stream) ? -EIO : 0;
}
