/* SPDX-License-Identifier: MIT */
/* kronosctl backtest: walk-forward over a file, by the code that serves a live stream. */
#include "clients/backtest.h"
#include "clients/ctl.h"
#include "clients/progress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum format { TEXT, JSON };
static const char *const formats[] = {"text", "json", NULL};
static const char *const stamps[] = {"open", "close", NULL};
static const char *const modes[] = {"auto", "exact", "anchored", "rolling", NULL};

#define MOST_HORIZON 10000
#define MOST_FILES   1024

struct settings {
    const char *predictor, *tokenizer, *plot, *output;
    struct kc_source_config source;
    struct kr_interval interval;
    bool interval_given, unit_given;
    size_t mode, other_mode, stamp, format, time_unit, matmul, precision;
    bool compares; /* other_mode is given */
    struct kc_backtest_config backtest;
};

/* Everything that is freed in the end. */
struct command {
    struct settings settings;
    const char *files[MOST_FILES + 1]; /* [n_files], --bars first */
    size_t n_files;
    struct kr_model *model;
    struct kc_source source;      /* of the file at work; in the end the last one's */
    struct kc_backtest *backtest; /* [n_files] */
    struct kc_backtest other;     /* of --compare */
    struct kc_progress progress;
    char label[64];
};

static int load_model(struct command *command)
{
    const struct kr_products *products;
    struct kr_error error;
    int r;

    kr_product_init();
    r = kr_products_choose((enum kr_matmul)command->settings.matmul,
                           (enum kr_precision)command->settings.precision, &products, &error);
    if (r < 0)
        return kc_fail(KC_CONFIG, "%s", error.text);
    r = kr_model_load_or_builtin(command->settings.predictor, command->settings.tokenizer, products,
                                 &command->model, &error);
    return r < 0 ? kc_fail(kc_status_of(r), "%s", error.text) : 0;
}

static int open_source(struct command *command, const char *file)
{
    struct settings *settings = &command->settings;

    kc_source_close(&command->source);
    settings->source.bars = file;
    settings->source.stamp = settings->stamp ? KR_STAMP_CLOSE : KR_STAMP_OPEN;
    settings->source.interval = settings->interval_given ? &settings->interval : NULL;
    settings->source.time_unit = settings->unit_given ? kc_time_units[settings->time_unit] : NULL;
    return kc_source_open(&command->source, &settings->source);
}

static void on_bar(void *context, size_t done)
{
    kc_progress_update(context, done);
}

static int run_mode(struct command *command, size_t mode, struct kc_backtest *ret)
{
    struct kc_backtest_config *config = &command->settings.backtest;
    struct kr_error error;
    int r;

    if (!config->every)
        config->every = config->horizon;
    config->mode = (enum kr_mode)mode;
    config->interval = command->settings.interval.text;
    config->progress = on_bar;
    config->context = &command->progress;
    kc_progress_start(&command->progress, command->label, "bars", command->source.input.n);
    r = kc_backtest_run(ret, command->model, config, &command->source, &error);
    kc_progress_end(&command->progress);
    return r == -EINVAL ? kc_fail(KC_CONFIG, "%s", error.text)
           : r < 0      ? kc_fail(kc_status_of(r), "%s", error.text)
                        : 0;
}

static int run_file(struct command *command, size_t i)
{
    int status = open_source(command, command->files[i]);

    if (command->n_files > 1)
        snprintf(command->label, sizeof(command->label), "backtest %zu/%zu", i + 1,
                 command->n_files);
    else
        snprintf(command->label, sizeof(command->label), "backtest");
    if (!status)
        status = run_mode(command, command->settings.mode, &command->backtest[i]);
    if (!status && command->settings.compares)
        status = run_mode(command, command->settings.other_mode, &command->other);
    return status;
}

static int run(struct command *command)
{
    int status = 0;

    command->backtest = calloc(command->n_files, sizeof(*command->backtest));
    if (!command->backtest)
        return kc_fail(KC_SYSTEM, "out of memory");
    for (size_t i = 0; i < command->n_files && !status; i++)
        status = run_file(command, i);
    return status;
}

/* Output */

static int write_one(const struct command *command, FILE *stream)
{
    const struct settings *settings = &command->settings;
    const char *file = command->files[0];

    if (settings->compares)
        return settings->format == JSON
                   ? kc_backtest_compare_json(stream, command->backtest, &command->other, file)
                   : kc_backtest_compare_text(stream, command->backtest, &command->other,
                                              &settings->backtest, file);
    return settings->format == JSON
               ? kc_backtest_json(stream, command->backtest, file)
               : kc_backtest_text(stream, command->backtest, &settings->backtest, file);
}

static int write_tables(const struct command *command, FILE *stream)
{
    const struct settings *settings = &command->settings;
    int r = 0;

    if (command->n_files == 1)
        return write_one(command, stream);
    if (settings->format == JSON)
        return kc_backtest_means_json(stream, command->backtest, command->n_files, command->files);
    for (size_t i = 0; i < command->n_files && r == 0; i++) {
        r = kc_backtest_text(stream, &command->backtest[i], &settings->backtest, command->files[i]);
        fputc('\n', stream);
    }
    return r < 0 ? r : kc_backtest_means_text(stream, command->backtest, command->n_files);
}

static int write_numbers(const struct command *command)
{
    const struct settings *settings = &command->settings;
    FILE *stream;
    int status = kc_open_output(settings->output, &stream), r;

    if (status)
        return status;
    r = write_tables(command, stream);
    status = kc_close_output(settings->output, &stream);
    return r == -ENOMEM && !status ? kc_fail(KC_SYSTEM, "out of memory") : status;
}

static int write_plot(const struct command *command)
{
    const struct settings *settings = &command->settings;
    FILE *stream;
    int status, r;

    if (!settings->plot)
        return 0;
    status = kc_open_output(settings->plot, &stream);
    if (status)
        return status;
    r = kc_backtest_plot(stream, command->backtest, &settings->backtest, &command->source.input,
                         command->files[0]);
    status = kc_close_output(settings->plot, &stream);
    return r == -ENOMEM && !status ? kc_fail(KC_SYSTEM, "out of memory") : status;
}

/* The command line */

static int check(char **argv, const struct command *command)
{
    const struct settings *settings = &command->settings;
    struct kr_error error;

    if (!settings->predictor != !settings->tokenizer)
        return kc_usage_error(argv, "expected --predictor DIR and --tokenizer DIR, found %s",
                              settings->predictor ? "no --tokenizer" : "no --predictor");
    if (command->n_files == 0)
        return kc_usage_error(argv, "expected --bars FILE, found none");
    if (command->n_files > 1 && (settings->plot || settings->compares))
        return kc_usage_error(argv, "--%s: expected one file of bars, found %zu",
                              settings->plot ? "plot" : "compare", command->n_files);
    if (kr_sampling_check(&settings->backtest.sampling, &error) < 0)
        return kc_usage_error(argv, "%s", error.text);
    return 0;
}

static int backtest_all(struct command *command)
{
    int status = load_model(command);

    if (!status)
        status = run(command);
    if (!status)
        status = write_numbers(command);
    return status ? status : write_plot(command);
}

static void close_all(struct command *command)
{
    for (size_t i = 0; command->backtest && i < command->n_files; i++)
        kc_backtest_free(&command->backtest[i]);
    free(command->backtest);
    kc_backtest_free(&command->other);
    kc_source_close(&command->source);
    kr_model_free(&command->model);
}

int kc_cmd_backtest(int argc, char **argv)
{
    struct command command = {
        .settings = {.source = {.timezone = "UTC", .calendar = "infer", .config = KC_CONFIG_FILE},
                     .interval = {"1m", INT64_C(60000000000)},
                     .backtest = {.symbol = "X",
                                  .lookback = 400,
                                  .horizon = 24,
                                  .paths = 32,
                                  .learn_every = 3,
                                  .max_context = 512,
                                  .sampling = {.temperature = 1, .top_p = 1}}}};
    struct settings *s = &command.settings;
    struct kc_backtest_config *b = &s->backtest;
    const struct kc_option options[] = {
        {"predictor", "DIR", "the predictor checkpoint (the built-in model)", KC_TEXT,
         &s->predictor, 0, 0, NULL, NULL},
        {"tokenizer", "DIR", "the tokenizer checkpoint (the built-in model)", KC_TEXT,
         &s->tokenizer, 0, 0, NULL, NULL},
        {"bars", "FILE", "bars: CSV, or .safetensors with bars and ts_ns", KC_TEXT, &s->source.bars,
         0, 0, NULL, NULL},
        {"symbol", "S", "of the market; addresses the draws (X)", KC_SYMBOL, &b->symbol, 0, 0, NULL,
         NULL},
        {"interval", "IV", "of the bars (as the file is spaced; for the draws 1m)", KC_INTERVAL,
         &s->interval, 0, 0, NULL, &s->interval_given},
        {"lookback", "N", "bars of history before the first forecast (400)", KC_COUNT, &b->lookback,
         1, 1e7, NULL, NULL},
        {"horizon", "H", "bars to forecast (24)", KC_COUNT, &b->horizon, 1, MOST_HORIZON, NULL,
         NULL},
        {"paths", "S", "sampled paths (32)", KC_COUNT, &b->paths, 1, 65536, NULL, NULL},
        {"every", "K", "bars from one forecast to the next (the horizon)", KC_COUNT, &b->every, 1,
         1e7, NULL, NULL},
        {"learn-every", "K",
         "forecast behind every K-th bar of the history to learn calibration; 0: none (3)",
         KC_COUNT, &b->learn_every, 0, 1e7, NULL, NULL},
        {"temperature", "T", "above 0 (1)", KC_NUMBER, &b->sampling.temperature, -INFINITY,
         INFINITY, NULL, NULL},
        {"top-k", "K", "keep the K likeliest tokens; 0: all; 1: greedy (0)", KC_COUNT,
         &b->sampling.top_k, 0, 1e9, NULL, NULL},
        {"top-p", "P", "keep the likeliest tokens up to this probability; 1: all (1)", KC_NUMBER,
         &b->sampling.top_p, -INFINITY, INFINITY, NULL, NULL},
        {"max-context", "C", "rows that the model may see (512)", KC_COUNT, &b->max_context, 1, 1e6,
         NULL, NULL},
        {"mode", "MODE", "auto, exact, anchored or rolling (auto)", KC_CHOICE, &s->mode, 0, 0,
         modes, NULL},
        {"compare", "MODE",
         "walk again in this mode, with the same draws, and set both side by side", KC_CHOICE,
         &s->other_mode, 0, 0, modes, &s->compares},
        {"drift", "D", "end an anchored epoch beyond this drift, 1e9: never early (as live)",
         KC_NUMBER, &b->drift_limit, 1e-6, 1e9, NULL, NULL},
        {"matmul", "NAME", "weight products: auto, native or openblas (auto)", KC_CHOICE,
         &s->matmul, 0, 0, kr_matmul_names, NULL},
        {"precision", "NAME", "of weight products: f32 or bf16 (f32)", KC_CHOICE, &s->precision, 0,
         0, kr_precision_names, NULL},
        {"seed", "N", "of the draws (0)", KC_SEED, &b->seed, 0, 0, NULL, NULL},
        {"timezone", "TZ", "of the exchange, and of stamps that name none (UTC)", KC_TEXT,
         &s->source.timezone, 0, 0, NULL, &s->source.timezone_given},
        {"stamp", "open|close", "what the file's stamps mark (open)", KC_CHOICE, &s->stamp, 0, 0,
         stamps, NULL},
        {"time-unit", "s|ms|us|ns", "of stamps that are integers", KC_CHOICE, &s->time_unit, 0, 0,
         kc_time_units, &s->unit_given},
        {"calendar", "NAME",
         "when bars open: infer, 24x7, weekdays, or a [calendar NAME] of --config (infer)", KC_TEXT,
         &s->source.calendar, 0, 0, NULL, NULL},
        {"config", "FILE", "where calendars stand (" KC_CONFIG_FILE ")", KC_TEXT, &s->source.config,
         0, 0, NULL, NULL},
        {"raw", NULL, "the public model as it is: no scale, join, repair, flat answers", KC_FLAG,
         &b->raw, 0, 0, NULL, NULL},
        {"format", "text|json", "a table, or one object (text)", KC_CHOICE, &s->format, 0, 0,
         formats, NULL},
        {"output", "FILE", "where to (stdout)", KC_TEXT, &s->output, 0, 0, NULL, NULL},
        {"plot", "FILE", "draw the last forecast, coverage and PIT as SVG", KC_TEXT, &s->plot, 0, 0,
         NULL, NULL},
    };
    const struct kc_usage usage = {
        .arguments = "[FILE...]",
        .doc = "Walk forward over files of bars: forecast, score, calibrate, as live. With more "
               "than one file, the means over files close the output.",
        .options = options,
        .n_options = KR_ARRAY_LENGTH(options),
        .max_arguments = MOST_FILES};
    int status;

    kc_parse(argc, argv, &usage, command.files + 1, &command.n_files);
    if (s->source.bars) {
        command.files[0] = s->source.bars;
        command.n_files++;
    } else {
        memmove(command.files, command.files + 1, command.n_files * sizeof(*command.files));
    }
    status = check(argv, &command);
    if (!status)
        status = backtest_all(&command);
    close_all(&command);
    return status;
}
