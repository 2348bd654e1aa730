/* SPDX-License-Identifier: MIT */
/* kronosctl predict: one forecast from a file, without a daemon. */
#include "clients/ctl.h"
#include "clients/forecast_output.h"
#include "clients/offline.h"
#include "clients/progress.h"
#include "clients/source.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_LOOKBACK 400 /* of a CSV */

static const double default_levels[] = {0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95};

enum format { CSV, JSON, SAFETENSORS };
static const char *const formats[] = {"csv", "json", "safetensors", NULL};
static const char *const stamps[] = {"open", "close", NULL};
static const char *const modes[] = {"auto", "exact", "anchored", "rolling", NULL};

struct settings {
    const char *predictor, *tokenizer, *uniforms, *output;
    struct kc_source_config source;
    struct kr_interval interval;
    bool interval_given, horizon_given, paths_given, unit_given;
    size_t mode, stamp, format, time_unit, matmul, precision;
    int64_t first_row;
    struct kc_offline_config offline;
};

/* Everything that is freed in the end. */
struct predict {
    struct settings settings;
    struct kr_model *model;
    struct kc_source source;
    double *uniforms;
    struct kc_offline offline;
    struct kc_progress progress;
};

static void close_all(struct predict *predict)
{
    kc_offline_free(&predict->offline);
    free(predict->uniforms);
    kc_source_close(&predict->source);
    kr_model_free(&predict->model);
}

/* Sizes that depend on what the files hold. */
static int settle_sizes(struct predict *predict)
{
    struct settings *settings = &predict->settings;
    struct kc_offline_config *offline = &settings->offline;
    size_t paths, horizon;
    struct kr_error error;
    int r;

    if (!offline->lookback)
        offline->lookback = predict->source.input.tensors
                                ? predict->source.input.n
                                : KR_MIN(predict->source.input.n, (size_t)DEFAULT_LOOKBACK);
    if (!settings->uniforms)
        return 0;
    r = kc_input_uniforms(settings->uniforms, &predict->uniforms, &paths, &horizon, &error);
    if (r < 0)
        return kc_fail(kc_status_of(r), "%s", error.text);
    if (!settings->paths_given)
        offline->paths = paths;
    if (!settings->horizon_given)
        offline->horizon = horizon;
    if (offline->paths != paths || offline->horizon != horizon)
        return kc_fail(KC_DATA, "%s: uniforms: expected shape [%zu,%zu], found [%zu,%zu]",
                       settings->uniforms, offline->paths, 2 * offline->horizon, paths,
                       2 * horizon);
    offline->uniforms = predict->uniforms;
    return 0;
}

static int load_model(struct predict *predict)
{
    const struct settings *settings = &predict->settings;
    const struct kr_products *products;
    struct kr_error error;
    int r;

    kr_product_init();
    r = kr_products_choose((enum kr_matmul)settings->matmul, (enum kr_precision)settings->precision,
                           &products, &error);
    if (r < 0)
        return kc_fail(KC_CONFIG, "%s", error.text);
    r = kr_model_load_or_builtin(settings->predictor, settings->tokenizer, products,
                                 &predict->model, &error);
    return r < 0 ? kc_fail(kc_status_of(r), "%s", error.text) : 0;
}

static int open_source(struct predict *predict)
{
    struct settings *settings = &predict->settings;

    settings->source.stamp = settings->stamp ? KR_STAMP_CLOSE : KR_STAMP_OPEN;
    settings->source.interval = settings->interval_given ? &settings->interval : NULL;
    settings->source.time_unit = settings->unit_given ? kc_time_units[settings->time_unit] : NULL;
    return kc_source_open(&predict->source, &settings->source);
}

static bool on_step(void *context, size_t step)
{
    struct predict *predict = context;

    kc_progress_update(&predict->progress, step + 1);
    return true;
}

static int run(struct predict *predict)
{
    struct settings *settings = &predict->settings;
    struct kc_offline_config *offline = &settings->offline;
    struct kr_error error;
    int r;

    offline->mode = (enum kr_mode)settings->mode;
    offline->first_row = settings->first_row;
    offline->interval = settings->interval.text;
    offline->keep_going = on_step;
    offline->context = predict;
    r = kc_offline_resolve(offline, predict->model, &error);
    if (r < 0)
        return kc_fail(KC_CONFIG, "%s", error.text);
    if (settings->first_row != 0 && !predict->model->attention_window)
        return kc_fail(KC_CONFIG,
                       "first-row: expected 0 for a model whose attention has no window, "
                       "found %lld",
                       (long long)settings->first_row);
    kc_progress_start(&predict->progress, "sampling", "steps", offline->horizon);
    r = kc_offline_run(&predict->offline, predict->model, offline, &predict->source.input_config,
                       &predict->source.input, predict->source.calendar, &error);
    kc_progress_end(&predict->progress);
    return r < 0 ? kc_fail(kc_status_of(r), "%s", error.text) : 0;
}

/* Output */

static unsigned flags_of(const struct kr_live_report *report, const struct kr_summary *summary,
                         bool stratified)
{
    return (report->flat ? KW_FLAT : 0) | (report->clipped ? KW_CLIPPED : 0) |
           (report->window_slid ? KW_WINDOW_SLID : 0) | (report->n_repaired ? KW_REPAIRED : 0) |
           (report->joined ? KW_JOINED : 0) | (summary->tail ? KW_TAIL : 0) |
           (stratified ? KW_STRATIFIED : 0);
}

static int write_json(const struct predict *predict, const struct kr_summary *summary, FILE *file)
{
    const struct kr_bar *last = &predict->source.input.bars[predict->source.input.n - 1];
    const struct kc_offline_config *offline = &predict->settings.offline;
    const struct kr_live_report *report = &predict->offline.report;
    const struct kw_forecast forecast = {
        .symbol = offline->symbol,
        .interval = offline->interval,
        .seq = 1,
        .as_of_ns = last->t_ns,
        .rev = last->rev,
        .last_t_ns = last->t_ns,
        .last_close = last->v[KR_CLOSE],
        .mode = kr_mode_names[report->mode],
        .epoch = report->mode == KR_MODE_ANCHORED,
        .bars = report->bars,
        .anchor_n = report->anchor_n,
        .win_t0_ns = report->win_t0_ns,
        .model_name = predict->model->name,
        .model_sha256 = predict->model->sha256,
        .isa = predict->model->isa,
        .precision = kr_precision_names[predict->model->products->precision],
        .sampling = offline->sampling,
        .paths = offline->paths,
        .horizon = offline->horizon,
        .seed = offline->seed,
        .scale = !offline->raw,
        .join = !offline->raw,
        .repair = !offline->raw,
        .t_ns = predict->offline.t_ns,
        .summary = summary,
        .cal_status = "uncalibrated",
        .flags = flags_of(report, summary, offline->sampling.stratified),
    };

    return kc_output_json(file, &forecast);
}

static int write_summary(const struct predict *predict, FILE *file)
{
    const struct kc_offline *offline = &predict->offline;
    const struct kr_bar *last = &predict->source.input.bars[predict->source.input.n - 1];
    struct kr_summary summary;
    int r = kr_summary_init(&summary, offline->paths.n_steps, offline->paths.n_paths,
                            default_levels, KR_ARRAY_LENGTH(default_levels), NULL);

    if (r < 0)
        return r;
    kr_summary_compute(&summary, offline->paths.bars, offline->paths.n_paths,
                       offline->paths.n_steps, last->v[KR_CLOSE]);
    r = predict->settings.format == JSON ? write_json(predict, &summary, file)
                                         : kc_output_csv(file, offline->t_ns, &summary);
    kr_summary_free(&summary);
    return r;
}

static int write_output(const struct predict *predict)
{
    const char *path = predict->settings.output;
    FILE *file;
    int status = kc_open_output(path, &file), r;

    if (status)
        return status;
    r = predict->settings.format == SAFETENSORS
            ? kc_output_safetensors(file, &predict->offline.paths, predict->offline.t_ns)
            : write_summary(predict, file);
    status = kc_close_output(path, &file);
    return r == -ENOMEM && !status ? kc_fail(KC_SYSTEM, "out of memory") : status;
}

/* The command line */

static int check(char **argv, const struct settings *settings)
{
    struct kr_error error;

    if (!settings->predictor != !settings->tokenizer)
        return kc_usage_error(argv, "expected --predictor DIR and --tokenizer DIR, found %s",
                              settings->predictor ? "no --tokenizer" : "no --predictor");
    if (!settings->source.bars)
        return kc_usage_error(argv, "expected --bars FILE, found none");
    if (settings->uniforms && settings->offline.sampling.stratified)
        return kc_usage_error(argv, "expected --uniforms or --stratified, found both");
    if (kr_sampling_check(&settings->offline.sampling, &error) < 0)
        return kc_usage_error(argv, "%s", error.text);
    return 0;
}

static int predict_all(struct predict *predict)
{
    int status = load_model(predict);

    if (!status)
        status = open_source(predict);
    if (!status)
        status = settle_sizes(predict);
    if (!status)
        status = run(predict);
    return status ? status : write_output(predict);
}

int kc_cmd_predict(int argc, char **argv)
{
    struct predict predict = {
        .settings = {.source = {.timezone = "UTC", .calendar = "infer", .config = KC_CONFIG_FILE},
                     .interval = {"1m", INT64_C(60000000000)},
                     .offline = {.symbol = "X",
                                 .horizon = 24,
                                 .paths = 32,
                                 .max_context = 512,
                                 .sampling = {.temperature = 1, .top_p = 1}}}};
    struct settings *s = &predict.settings;
    struct kc_offline_config *o = &s->offline;
    const struct kc_option options[] = {
        {"predictor", "DIR", "the predictor checkpoint (the built-in model)", KC_TEXT,
         &s->predictor, 0, 0, NULL, NULL},
        {"tokenizer", "DIR", "the tokenizer checkpoint (the built-in model)", KC_TEXT,
         &s->tokenizer, 0, 0, NULL, NULL},
        {"bars", "FILE", "bars: CSV, or .safetensors with bars, ts_ns and maybe future_ts_ns",
         KC_TEXT, &s->source.bars, 0, 0, NULL, NULL},
        {"symbol", "S", "of the market; addresses the draws (X)", KC_SYMBOL, &o->symbol, 0, 0, NULL,
         NULL},
        {"interval", "IV", "of the bars (as the file is spaced; for the draws 1m)", KC_INTERVAL,
         &s->interval, 0, 0, NULL, &s->interval_given},
        {"lookback", "N", "last bars that the model sees (400 of a CSV, all of a safetensors file)",
         KC_COUNT, &o->lookback, 1, 1e7, NULL, NULL},
        {"horizon", "H", "bars to forecast (24)", KC_COUNT, &o->horizon, 1, 1e6, NULL,
         &s->horizon_given},
        {"paths", "S", "sampled paths (32)", KC_COUNT, &o->paths, 1, 65536, NULL, &s->paths_given},
        {"temperature", "T", "above 0 (1)", KC_NUMBER, &o->sampling.temperature, -INFINITY,
         INFINITY, NULL, NULL},
        {"top-k", "K", "keep the K likeliest tokens; 0: all; 1: greedy (0)", KC_COUNT,
         &o->sampling.top_k, 0, 1e9, NULL, NULL},
        {"top-p", "P", "keep the likeliest tokens up to this probability; 1: all (1)", KC_NUMBER,
         &o->sampling.top_p, -INFINITY, INFINITY, NULL, NULL},
        {"stratified", NULL, "spread each step's draws evenly over the paths", KC_FLAG,
         &o->sampling.stratified, 0, 0, NULL, NULL},
        {"max-context", "C", "rows that the model may see (512)", KC_COUNT, &o->max_context, 1, 1e6,
         NULL, NULL},
        {"mode", "MODE", "auto, exact, anchored or rolling (auto)", KC_CHOICE, &s->mode, 0, 0,
         modes, NULL},
        {"anchor", "N", "mean and std of the window's first N bars; implies anchored", KC_COUNT,
         &o->anchor, 1, 1e7, NULL, NULL},
        {"first-row", "N",
         "row number of the window's first bar, for models with an attention "
         "window (0)",
         KC_INTEGER, &s->first_row, 0, 0, NULL, NULL},
        {"matmul", "NAME", "weight products: auto, native or openblas (auto)", KC_CHOICE,
         &s->matmul, 0, 0, kr_matmul_names, NULL},
        {"precision", "NAME", "of weight products: f32 or bf16 (f32)", KC_CHOICE, &s->precision, 0,
         0, kr_precision_names, NULL},
        {"seed", "N", "of the draws (0)", KC_SEED, &o->seed, 0, 0, NULL, NULL},
        {"uniforms", "FILE", "draws of your own: safetensors, uniforms [S,2H]", KC_TEXT,
         &s->uniforms, 0, 0, NULL, NULL},
        {"timezone", "TZ", "of the exchange, and of stamps that name none (UTC)", KC_TEXT,
         &s->source.timezone, 0, 0, NULL, &s->source.timezone_given},
        {"stamp", "open|close", "what the file's stamps mark (open)", KC_CHOICE, &s->stamp, 0, 0,
         stamps, NULL},
        {"time-unit", "s|ms|us|ns", "of stamps that are integers", KC_CHOICE, &s->time_unit, 0, 0,
         kc_time_units, &s->unit_given},
        {"calendar", "NAME",
         "when future bars open: infer, 24x7, weekdays, or a [calendar NAME] of "
         "--config (infer)",
         KC_TEXT, &s->source.calendar, 0, 0, NULL, NULL},
        {"config", "FILE", "where calendars stand (" KC_CONFIG_FILE ")", KC_TEXT, &s->source.config,
         0, 0, NULL, NULL},
        {"raw", NULL, "the public model as it is: no scale, join, repair, flat answers", KC_FLAG,
         &o->raw, 0, 0, NULL, NULL},
        {"format", "FORMAT", "csv, json or safetensors (csv)", KC_CHOICE, &s->format, 0, 0, formats,
         NULL},
        {"output", "FILE", "where to (stdout)", KC_TEXT, &s->output, 0, 0, NULL, NULL},
    };
    const struct kc_usage usage = {.doc = "Forecast from a file of bars, without a daemon.",
                                   .options = options,
                                   .n_options = KR_ARRAY_LENGTH(options)};
    int status;

    kc_parse(argc, argv, &usage, NULL, NULL);
    status = check(argv, s);
    if (!status)
        status = predict_all(&predict);
    close_all(&predict);
    return status;
}
