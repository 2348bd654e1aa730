/* SPDX-License-Identifier: MIT */
/* kronosctl bench: what this machine can do, and what the model costs on it. */
#include "clients/bench.h"
#include "clients/ctl.h"
#include "clients/progress.h"

#include <errno.h>
#include <string.h>

enum format { TEXT, JSON };
static const char *const formats[] = {"text", "json", NULL};

#define MOST_WORKERS 1024

struct settings {
    const char *cases, *output;
    size_t format;
    struct kc_bench_config config;
};

/* The line under way: its label is the case. */
struct showing {
    struct kc_progress progress;
    char name[KC_BENCH_NAME];
};

static void on_round(void *context, size_t index, size_t done)
{
    struct showing *showing = context;

    kc_bench_name(index, showing->name);
    kc_progress_update(&showing->progress, done);
}

static int run(struct kc_bench *bench, struct settings *settings)
{
    struct showing showing;
    struct kr_error error = {""};
    size_t n = 0;
    int r;

    for (size_t i = 0; i < KC_BENCH_CASES; i++)
        n += settings->config.chosen[i];
    settings->config.progress = on_round;
    settings->config.context = &showing;
    kr_product_init();
    strcpy(showing.name, "bench");
    kc_progress_start(&showing.progress, showing.name, "cases", n);
    r = kc_bench_run(bench, &settings->config, &error);
    kc_progress_end(&showing.progress);
    return r < 0 ? kc_fail(r == -EAGAIN ? KC_SYSTEM : kc_status_of(r), "%s", error.text) : 0;
}

static int write_numbers(const struct kc_bench *bench, const struct settings *settings)
{
    FILE *stream;
    int status = kc_open_output(settings->output, &stream), r;

    if (status)
        return status;
    r = settings->format == JSON ? kc_bench_json(stream, bench) : kc_bench_text(stream, bench);
    status = kc_close_output(settings->output, &stream);
    return r == -ENOMEM && !status ? kc_fail(KC_SYSTEM, "out of memory") : status;
}

int kc_cmd_bench(int argc, char **argv)
{
    struct settings s = {.config = {.workers = kc_gang_processors(), .budget = 1}};
    const struct kc_option options[] = {
        {"cases", "LIST",
         "names or globs, like small-f32-bar,mini-* (all of mini, small and builtin in f32 but for "
         "the larger herds)",
         KC_TEXT, &s.cases, 0, 0, NULL, NULL},
        {"workers", "N", "threads (the processors that it may use)", KC_COUNT, &s.config.workers, 1,
         MOST_WORKERS, NULL, NULL},
        {"budget", "SECONDS", "time for the rounds of a case; one is run in any case (1)",
         KC_NUMBER, &s.config.budget, 0, 3600, NULL, NULL},
        {"format", "text|json", "a table, or one object (text)", KC_CHOICE, &s.format, 0, 0,
         formats, NULL},
        {"output", "FILE", "where to (stdout)", KC_TEXT, &s.output, 0, 0, NULL, NULL},
    };
    const struct kc_usage usage = {
        .doc = "Measure this machine's peaks and what the model costs on it, in the same run. "
               "Public shapes have random weights: nothing is downloaded.",
        .options = options,
        .n_options = KR_ARRAY_LENGTH(options)};
    struct kr_error error;
    struct kc_bench bench;
    int status;

    kc_parse(argc, argv, &usage, NULL, NULL);
    if (kc_bench_select(s.cases, s.config.chosen, &error) < 0)
        return kc_usage_error(argv, "--cases: %s", error.text);
    status = run(&bench, &s);
    return status ? status : write_numbers(&bench, &s);
}
