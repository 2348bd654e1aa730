/* SPDX-License-Identifier: MIT */
#include "clients/bench.h"

#include "clients/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static double gflops(const struct kc_bench_result *result)
{
    return result->gflop / result->seconds;
}

static double share_of_peak(const struct kc_bench *bench, size_t index)
{
    return gflops(&bench->results[index]) / kc_bench_peak(bench, index);
}

/* Of what reading the weights alone would take. */
static double share_of_dram(const struct kc_bench *bench, size_t index)
{
    const struct kc_bench_result *result = &bench->results[index];

    return result->weight_bytes * 1e-9 / result->seconds / bench->dram_gbps;
}

/* 1: no worker ever waited. */
static double herd_ratio(const struct kc_bench_result *result)
{
    return result->seconds / result->blocks_seconds;
}

/* JSON */

static int set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0 ? 0 : -ENOMEM;
}

static json_t *number(double value)
{
    return isfinite(value) && value > 0 ? json_real(value) : json_null();
}

static json_t *range(double least, double most)
{
    return most > 0 ? json_pack("[f, f]", least, most) : json_null();
}

static json_t *case_json(const struct kc_bench *bench, size_t index)
{
    const struct kc_bench_result *result = &bench->results[index];
    enum kc_bench_kind kind = kc_bench_case_at(index).kind;
    const double *split = result->split;
    char name[KC_BENCH_NAME];
    json_t *json;
    int r = 0;

    kc_bench_name(index, name);
    if (result->skipped)
        return json_pack("{s:s, s:n, s:f, s:n, s:n, s:s}", "name", name, "seconds", "gflop",
                         result->gflop, "share_of_peak", "split", "skipped", result->skipped);
    json = json_pack("{s:s, s:f, s:f, s:f, s:{s:f, s:f, s:f, s:f}, s:f, s:f, s:f, s:f, s:i, s:s}",
                     "name", name, "seconds", result->seconds, "gflop", result->gflop,
                     "share_of_peak", share_of_peak(bench, index), "split", "products",
                     split[KR_PHASE_PRODUCTS], "attention", split[KR_PHASE_ATTENTION], "sampling",
                     split[KR_PHASE_SAMPLING], "other", split[KR_PHASE_OTHER], "latency_seconds",
                     result->latency_seconds, "cpu_seconds", result->cpu_seconds, "gflops",
                     gflops(result), "peak_beside_gflops", result->peak_beside, "rounds",
                     (int)result->rounds, "isa", result->isa);
    if (!json)
        return NULL;
    if (kind == KC_BENCH_APPEND) {
        r = set(json, "weight_bytes", json_real(result->weight_bytes));
        if (r == 0)
            r = set(json, "share_of_dram", json_real(share_of_dram(bench, index)));
    }
    if (kind == KC_BENCH_HERD200) {
        r = set(json, "first_seconds", json_real(result->first_seconds));
        if (r == 0)
            r = set(json, "blocks_seconds", json_real(result->blocks_seconds));
    }
    if (r < 0) {
        json_decref(json);
        return NULL;
    }
    return json;
}

int kc_bench_json(FILE *stream, const struct kc_bench *bench)
{
    json_t *cases = json_array(), *all = NULL;
    int r = cases ? 0 : -ENOMEM;

    for (size_t i = 0; i < KC_BENCH_CASES && r == 0; i++)
        if (bench->chosen[i] && json_array_append_new(cases, case_json(bench, i)) != 0)
            r = -ENOMEM;
    if (r == 0)
        all = json_pack(
            "{s:f, s:o, s:f, s:I, s:O, s:o, s:o, s:o, s:b, s:I, s:s, s:s}", "peak_f32_gflops",
            bench->peak_f32, "peak_bf16_gflops", number(bench->peak_bf16), "dram_gbps",
            bench->dram_gbps, "workers", (json_int_t)bench->workers, "cases", cases,
            "peak_f32_range", range(bench->peak_f32_least, bench->peak_f32), "peak_bf16_range",
            range(bench->peak_bf16_least, bench->peak_bf16), "peak_bf16_vector_gflops",
            number(bench->peak_bf16_vector), "amx", (int)bench->amx, "dram_bytes",
            (json_int_t)bench->dram_bytes, "kernels", bench->kernels, "peak_loop", bench->meter);
    if (r == 0)
        r = all ? kj_write_line(stream, all) : -ENOMEM;
    json_decref(all);
    json_decref(cases);
    return r;
}

/* Text */

#define CELL 24

static const char *duration(char ret[CELL], double seconds)
{
    if (seconds >= 1)
        snprintf(ret, CELL, "%.2f s", seconds);
    else if (seconds >= 1e-3)
        snprintf(ret, CELL, "%.*f ms", seconds >= 0.1 ? 0 : seconds >= 0.01 ? 1 : 2, seconds * 1e3);
    else
        snprintf(ret, CELL, "%.1f us", seconds * 1e6);
    return ret;
}

static const char *digits(char ret[CELL], double value)
{
    snprintf(ret, CELL, "%.*f", value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 4, value);
    return ret;
}

/* Processor time that falls so far short of the time means that others used the machine. */
#define QUIET 0.95

/* What a kind has to say beside its row. */
static void write_remark(FILE *stream, const struct kc_bench *bench, size_t index)
{
    const struct kc_bench_result *result = &bench->results[index];
    char first[CELL], blocks[CELL];

    switch (kc_bench_case_at(index).kind) {
    case KC_BENCH_BAR:
        fprintf(stream, "  %.0f a minute", 60 / result->seconds);
        break;
    case KC_BENCH_APPEND:
        fprintf(stream, "  %.1f MB of weights, %.0f %% of what memory gives",
                result->weight_bytes * 1e-6, 100 * share_of_dram(bench, index));
        break;
    case KC_BENCH_HERD200:
        fprintf(stream, "  first after %s; %.2f of the blocks' own %s",
                duration(first, result->first_seconds), herd_ratio(result),
                duration(blocks, result->blocks_seconds));
        break;
    default:
        break;
    }
}

static void write_case(FILE *stream, const struct kc_bench *bench, size_t index)
{
    const struct kc_bench_result *result = &bench->results[index];
    const double *split = result->split;
    char name[KC_BENCH_NAME], text[4][CELL];

    kc_bench_name(index, name);
    if (result->skipped) {
        fprintf(stream, "%-22s %9s %9s %9s  not run: %s\n", name, "-", "-",
                digits(text[0], result->gflop), result->skipped);
        return;
    }
    fprintf(stream, "%-22s %9s %9s %9s %8s %6.1f %7.0f %% %7.0f %% %6.0f %% %4.0f %%", name,
            duration(text[0], result->seconds), duration(text[1], result->latency_seconds),
            digits(text[2], result->gflop), digits(text[3], gflops(result)),
            100 * share_of_peak(bench, index), 100 * split[KR_PHASE_PRODUCTS],
            100 * split[KR_PHASE_ATTENTION], 100 * split[KR_PHASE_SAMPLING],
            100 * split[KR_PHASE_OTHER]);
    write_remark(stream, bench, index);
    if (result->cpu_seconds < QUIET * result->seconds)
        fprintf(stream, "  (disturbed: %s of processor time, %.1f %% of peak)",
                duration(text[0], result->cpu_seconds),
                100 * share_of_peak(bench, index) * result->seconds / result->cpu_seconds);
    fputc('\n', stream);
}

int kc_bench_text(FILE *stream, const struct kc_bench *bench)
{
    fprintf(stream, "%zu worker%s, kernels %s\n", bench->workers, bench->workers == 1 ? "" : "s",
            bench->kernels);
    fprintf(stream, "peaks (%s): f32 %.1f GFLOP/s (worst %.1f)", bench->meter, bench->peak_f32,
            bench->peak_f32_least);
    if (bench->peak_bf16 > 0)
        fprintf(stream, ", bf16%s %.1f (worst %.1f)", bench->amx ? " on AMX" : "", bench->peak_bf16,
                bench->peak_bf16_least);
    else
        fputs(", bf16 none", stream);
    if (bench->amx)
        fprintf(stream, ", on vectors %.1f", bench->peak_bf16_vector);
    fprintf(stream, "; memory %.1f GB/s (of %zu MiB)\n\n", bench->dram_gbps,
            bench->dram_bytes >> 20);
    fprintf(stream, "%-22s %9s %9s %9s %8s %6s %9s %9s %8s %6s\n", "case", "seconds", "latency",
            "GFLOP", "GFLOP/s", "% peak", "products", "attention", "sampling", "other");
    for (size_t i = 0; i < KC_BENCH_CASES; i++)
        if (bench->chosen[i])
            write_case(stream, bench, i);
    fputs("\nseconds: of the machine, its workers each on streams of their own (a round divided by "
          "the workers);\nlatency: one unit, the others working too. append64: seconds of a bar, "
          "latency of 64. herd200: of all 200.\n",
          stream);
    return ferror(stream) ? -EIO : 0;
}
