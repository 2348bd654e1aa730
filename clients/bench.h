/* SPDX-License-Identifier: MIT */
/* Measurements of this machine and of what the model costs on it: the cases of kronosctl bench, chosen by name,
 * run, and put beside the peaks measured in the same run.
 *
 * A case is `MODEL-PRECISION-KIND`. Every worker computes as in the daemon, alone on streams of its own, in an
 * engine of its own: no forecast is split. All workers do the same at once, so `seconds` are the machine's:
 * the time of a round of one unit per worker, divided by the workers. One unit alone takes `latency_seconds`
 * while the others work too. The figure is the best of several rounds. */
#ifndef KC_BENCH_H
#define KC_BENCH_H

#include "clients/flop.h"
#include "clients/gang.h"
#include "core/engine.h"

#include <stdio.h>

enum kc_bench_model { KC_BENCH_MINI, KC_BENCH_SMALL, KC_BENCH_BASE, KC_BENCH_BUILTIN };
enum kc_bench_precision { KC_BENCH_F32, KC_BENCH_BF16 };
enum kc_bench_kind {
    KC_BENCH_COLD,       /* predict: encode the lookback, sample, decode */
    KC_BENCH_BAR,        /* a bar arrives: append, sample, decode; anchored or rolling */
    KC_BENCH_APPEND,     /* the append alone */
    KC_BENCH_APPEND64,   /* one bar for each of 64 streams; a bar's share */
    KC_BENCH_STEP32,     /* one step of 32 paths behind the prefix: trunk and s1 logits */
    KC_BENCH_PREFILL400, /* trunk and dependency layer over a window of 400 rows */
    KC_BENCH_HERD200,    /* a bar for each of 200 streams at once, until the last forecast */
};
enum { KC_BENCH_MODELS = 4, KC_BENCH_PRECISIONS = 2, KC_BENCH_KINDS = 7 };
enum { KC_BENCH_CASES = KC_BENCH_MODELS * KC_BENCH_PRECISIONS * KC_BENCH_KINDS };

#define KC_BENCH_LOOKBACK 400
#define KC_BENCH_PATHS    32

struct kc_bench_case {
    enum kc_bench_model model;
    enum kc_bench_precision precision;
    enum kc_bench_kind kind;
};

/* The cases in the order they are run: all of one model together. */
struct kc_bench_case kc_bench_case_at(size_t index);
#define KC_BENCH_NAME 32
void kc_bench_name(size_t index, char ret[KC_BENCH_NAME]);

/* Cases of a list of names and globs ("small-f32-*,builtin-*"), NULL: a selection of a minute or two.
 * Return: 0, or -EINVAL with a line: a word that no case answers to. */
int kc_bench_select(const char *list, bool ret_chosen[KC_BENCH_CASES],
                    struct kr_error *error) kr_must_check;

struct kc_bench_result {
    const char *skipped; /* why it was not run; NULL: it was, and all below is set */
    char isa[64];        /* what its products and kernels ran on, as forecasts say it */
    double gflop;        /* of a unit (append64: of a bar); set where it is skipped, too */
    double seconds, latency_seconds;
    double
        cpu_seconds; /* as `seconds`, of processor time: what a machine of our own would have taken */
    double split[KR_PHASES]; /* shares of the workers' time, 1 in all */
    unsigned rounds;         /* that the best is of */
    double peak_beside;      /* GFLOP/s just before and after, the better: how quiet it was */
    double weight_bytes;     /* append: weights that it reads; else 0 */
    /* herd: until the first forecast; what the blocks took, divided by the workers */
    double first_seconds, blocks_seconds;
};

struct kc_bench_config {
    size_t workers;
    double budget; /* seconds for the rounds of a case; one is run whatever it takes */
    bool chosen[KC_BENCH_CASES];
    /* Called between rounds: `index` is the case, `done` of those chosen have ended. */
    void (*progress)(void *context, size_t index, size_t done);
    void *context;
};

struct kc_bench {
    const char *kernels, *meter; /* instruction sets of the product and of the peaks; static text */
    size_t workers;
    double peak_f32, peak_f32_least;   /* GFLOP/s of all workers: best and worst of the run */
    double peak_bf16, peak_bf16_least; /* AMX's or the vectors'; 0: none on this processor */
    double peak_bf16_vector;           /* best of the vectors alone */
    bool amx;
    double dram_gbps;
    size_t dram_bytes; /* read for it */
    bool chosen[KC_BENCH_CASES];
    struct kc_bench_result results[KC_BENCH_CASES];
};

/* Return: 0; -ENOMEM, -ENOENT and the like (no built-in model), with a line. */
int kc_bench_run(struct kc_bench *bench, const struct kc_bench_config *config,
                 struct kr_error *error) kr_must_check;

/* Peak that a case is measured by: of its precision. */
double kc_bench_peak(const struct kc_bench *bench, size_t index);

/* Write what was found. Return: 0, -ENOMEM, -EIO. */
int kc_bench_json(FILE *stream, const struct kc_bench *bench) kr_must_check;
int kc_bench_text(FILE *stream, const struct kc_bench *bench) kr_must_check;

#endif
