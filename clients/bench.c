/* SPDX-License-Identifier: MIT */
#include "clients/bench.h"

#include "clients/bench_work.h"
#include "clients/ctl.h"
#include "clients/meter.h"

#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const models[KC_BENCH_MODELS] = {"mini", "small", "base", "builtin"};
static const char *const precisions[KC_BENCH_PRECISIONS] = {"f32", "bf16"};
static const char *const kinds[KC_BENCH_KINDS] = {"cold",   "bar",        "append", "append64",
                                                  "step32", "prefill400", "herd200"};

/* Names */

struct kc_bench_case kc_bench_case_at(size_t index)
{
    return (struct kc_bench_case){
        .model = (enum kc_bench_model)(index / KC_BENCH_KINDS / KC_BENCH_PRECISIONS),
        .precision = (enum kc_bench_precision)(index / KC_BENCH_KINDS % KC_BENCH_PRECISIONS),
        .kind = (enum kc_bench_kind)(index % KC_BENCH_KINDS)};
}

void kc_bench_name(size_t index, char ret[KC_BENCH_NAME])
{
    struct kc_bench_case which = kc_bench_case_at(index);

    snprintf(ret, KC_BENCH_NAME, "%s-%s-%s", models[which.model], precisions[which.precision],
             kinds[which.kind]);
}

/* What a run without a list measures: no model of 400 MB, no herd that takes half a minute. */
static bool usual(const struct kc_bench_case *which)
{
    if (which->precision != KC_BENCH_F32 && kc_work_unable(which->precision))
        return false;
    return which->model != KC_BENCH_BASE &&
           (which->kind != KC_BENCH_HERD200 || which->model == KC_BENCH_BUILTIN);
}

int kc_bench_select(const char *list, bool ret_chosen[KC_BENCH_CASES], struct kr_error *error)
{
    bool chosen[KC_BENCH_CASES] = {false};

    for (size_t i = 0; !list && i < KC_BENCH_CASES; i++) {
        struct kc_bench_case which = kc_bench_case_at(i);

        chosen[i] = usual(&which);
    }
    while (list) {
        char word[64], name[KC_BENCH_NAME];
        size_t length = strcspn(list, ",");
        bool found = false;

        snprintf(word, sizeof(word), "%.*s", (int)KR_MIN(length, sizeof(word) - 1), list);
        for (size_t i = 0; i < KC_BENCH_CASES && length < sizeof(word); i++) {
            kc_bench_name(i, name);
            if (fnmatch(word, name, 0) == 0)
                found = chosen[i] = true;
        }
        if (!found)
            return kr_error_set(error, -EINVAL,
                                "expected names or globs of {mini,small,base,builtin}-{f32,bf16}-"
                                "{cold,bar,append,append64,step32,prefill400,herd200}, found "
                                "\"%s\"",
                                word);
        list = list[length] == ',' ? list + length + 1 : NULL;
    }
    memcpy(ret_chosen, chosen, sizeof(chosen));
    return 0;
}

/* A run */

struct run {
    struct kc_bench *bench;
    const struct kc_bench_config *config;
    struct kc_gang *gang;
    struct kr_model *model; /* of the case, from the one before if it was the same */
    enum kc_bench_model which;
    enum kc_bench_precision precision;
    size_t n_done;
};

#define PEAK_PASSES   4
#define DRAM_PASSES   5
#define ROUND_SECONDS 0.02 /* at least so long, so that starting threads does not show */
#define MOST_ROUNDS   1000

static void note_peak(double value, double *best, double *least)
{
    *least = *best > 0 ? fmin(*least, value) : value;
    *best = fmax(*best, value);
}

/* Peaks of this moment. Return: that of one precision. */
static double measure_peaks(struct run *run, enum kc_bench_precision precision)
{
    struct kc_bench *bench = run->bench;
    double f32 = kc_meter_f32(run->gang, PEAK_PASSES), bf16 = kc_meter_bf16(run->gang, PEAK_PASSES);

    note_peak(f32, &bench->peak_f32, &bench->peak_f32_least);
    note_peak(bf16, &bench->peak_bf16, &bench->peak_bf16_least);
    bench->peak_bf16_vector = fmax(
        bench->peak_bf16_vector, bench->amx ? kc_meter_bf16_vector(run->gang, PEAK_PASSES) : bf16);
    return precision == KC_BENCH_BF16 ? bf16 : f32;
}

static int measure_dram(struct run *run, struct kr_error *error)
{
    double gbps;
    size_t bytes;
    int r = kc_meter_dram(run->gang, DRAM_PASSES, &gbps, &bytes);

    if (r < 0)
        return kr_error_set(error, r, "bench: expected memory to read, found none");
    run->bench->dram_gbps = fmax(run->bench->dram_gbps, gbps);
    run->bench->dram_bytes = bytes;
    return 0;
}

static int take_model(struct run *run, const struct kc_bench_case *which, struct kr_error *error)
{
    const struct kr_products *products =
        NULL; /* where it cannot be run, f32 serves for its shape */
    struct kr_model_shape shape;

    if (run->model && run->which == which->model && run->precision == which->precision)
        return 0;
    kr_model_free(&run->model);
    run->which = which->model;
    run->precision = which->precision;
    if (kr_products_choose(KR_MATMUL_AUTO, kc_work_precision(which->precision), &products, NULL) <
            0 &&
        kr_products_choose(KR_MATMUL_AUTO, KR_F32_PRODUCTS, &products, error) < 0)
        return -ENOTSUP;
    if (which->model == KC_BENCH_BUILTIN)
        return kr_model_load_or_builtin(NULL, NULL, products, &run->model, error);
    if (kr_model_shape_named(models[which->model], &shape) < 0)
        return kr_error_set(error, -EINVAL, "bench: no shape named %s", models[which->model]);
    return kr_model_random_as(&shape, 1, products, &run->model, error);
}

static void tell(const struct run *run, size_t index)
{
    if (run->config->progress)
        run->config->progress(run->config->context, index, run->n_done);
}

static void keep_split(struct kc_bench_result *result, const struct kc_work_time *time)
{
    double total = 0;

    for (int p = 0; p < KR_PHASES; p++)
        total += time->split[p];
    for (int p = 0; p < KR_PHASES; p++)
        result->split[p] = total > 0 ? time->split[p] / total : 0;
}

/* Rounds of one case until its time is used up; the best is kept. */
static int run_rounds(struct run *run, size_t index, struct kc_work *work, struct kr_error *error)
{
    struct kc_bench_result *result = &run->bench->results[index];
    enum kc_bench_kind kind = kc_bench_case_at(index).kind;
    bool herd = kind == KC_BENCH_HERD200;
    double units = kind == KC_BENCH_APPEND64 ? 64 : 1, best = INFINITY, least_cpu = INFINITY,
           used = 0;
    struct kc_work_time time;
    size_t repeats = 1;
    int r = 0;

    if (!herd) { /* warm, and find out how long it takes */
        r = kc_work_run(work, run->gang, 1, false, &time, error);
        if (r == 0 && time.wall_seconds < ROUND_SECONDS)
            repeats = (size_t)(ROUND_SECONDS / fmax(time.wall_seconds, 1e-6)) + 1;
    }
    for (result->rounds = 0; r == 0 && result->rounds < MOST_ROUNDS; result->rounds++) {
        if (result->rounds > 0 && used >= run->config->budget)
            break;
        tell(run, index);
        r = kc_work_run(work, run->gang, repeats, herd, &time, error);
        if (r < 0)
            return r;
        used += time.wall_seconds;
        least_cpu = fmin(least_cpu, time.cpu_seconds);
        if (time.wall_seconds >= best)
            continue;
        best = time.wall_seconds;
        result->first_seconds = time.first_seconds;
        result->blocks_seconds = time.blocks_seconds;
        keep_split(result, &time);
    }
    if (r == 0 && !herd) {
        r = kc_work_run(work, run->gang, repeats, true, &time, error);
        keep_split(result, &time);
    }
    result->latency_seconds = best / (double)repeats;
    units *= herd ? 1 : (double)run->bench->workers * (double)repeats;
    result->seconds = best / units;
    result->cpu_seconds = least_cpu / units;
    return r;
}

static int run_case(struct run *run, size_t index, struct kr_error *error)
{
    struct kc_bench_result *result = &run->bench->results[index];
    struct kc_bench_case which = kc_bench_case_at(index);
    struct kc_flop_shape shape;
    struct kc_work *work = NULL;
    int r;

    tell(run, index);
    r = take_model(run, &which, error);
    if (r < 0)
        return r;
    shape = kc_flop_shape_of(run->model);
    result->gflop = kc_work_gflop(&shape, which.kind, kc_work_rolling_rows(run->model));
    result->skipped = kc_work_unable(which.precision);
    if (result->skipped)
        return 0;
    if (which.kind == KC_BENCH_APPEND)
        result->weight_bytes =
            (double)(kc_append_weights(&shape) *
                     (which.precision == KC_BENCH_BF16 ? sizeof(uint16_t) : sizeof(float)));
    snprintf(result->isa, sizeof(result->isa), "%s", run->model->isa);
    r = kc_work_new(run->model, which.kind, run->gang, &work, error);
    if (r == 0) {
        result->peak_beside = measure_peaks(run, which.precision);
        r = run_rounds(run, index, work, error);
        result->peak_beside = fmax(result->peak_beside, measure_peaks(run, which.precision));
    }
    kc_work_free(&work);
    return r;
}

int kc_bench_run(struct kc_bench *bench, const struct kc_bench_config *config,
                 struct kr_error *error)
{
    struct run run = {.bench = bench, .config = config};
    int r;

    *bench = (struct kc_bench){.kernels = kr_kernels()->name,
                               .meter = kc_meter()->name,
                               .amx = kc_meter_has_amx(),
                               .workers = config->workers};
    memcpy(bench->chosen, config->chosen, sizeof(bench->chosen));
    r = kc_gang_new(config->workers, &run.gang);
    if (r < 0)
        return kr_error_set(error, r, "bench: expected %zu threads, found fewer: %s",
                            config->workers, strerror(-r));
    measure_peaks(&run, KC_BENCH_F32);
    r = measure_dram(&run, error);
    for (size_t i = 0; i < KC_BENCH_CASES && r == 0; i++) {
        if (!bench->chosen[i])
            continue;
        r = run_case(&run, i, error);
        run.n_done++;
    }
    kr_model_free(&run.model);
    if (r == 0) { /* beside what came last, too */
        measure_peaks(&run, KC_BENCH_F32);
        r = measure_dram(&run, error);
    }
    kc_gang_free(&run.gang);
    return r;
}

double kc_bench_peak(const struct kc_bench *bench, size_t index)
{
    return kc_bench_case_at(index).precision == KC_BENCH_BF16 ? bench->peak_bf16 : bench->peak_f32;
}
