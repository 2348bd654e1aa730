/* SPDX-License-Identifier: MIT */
/* kronosctl bench, the real program: which cases, what it prints, that its arithmetic is the model's. No time is
 * judged: only that what was measured is there and consistent. */
#include "config.h"
#include "clients/bench.h"
#include "clients/bench_work.h"
#include "clients/meter.h"
#include "tests/clients/run.h"
#include "tests/tap.h"

#include <jansson.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Names */

static size_t index_of(const char *name)
{
    char found[KC_BENCH_NAME];

    for (size_t i = 0; i < KC_BENCH_CASES; i++) {
        kc_bench_name(i, found);
        if (strcmp(found, name) == 0)
            return i;
    }
    CU_FAIL_FATAL("no such case");
    return 0;
}

static size_t count(const bool *chosen)
{
    size_t n = 0;

    for (size_t i = 0; i < KC_BENCH_CASES; i++)
        n += chosen[i];
    return n;
}

static void selection(void)
{
    static const struct {
        const char *list;
        size_t n;
        const char *one; /* that is among them */
    } lists[] = {
        {"mini-f32-cold", 1, "mini-f32-cold"},
        {"base-bf16-herd200,small-f32-step32", 2, "small-f32-step32"},
        {"*", KC_BENCH_CASES, "builtin-bf16-prefill400"},
        {"small-*", 14, "small-bf16-append64"},
        {"*-f32-append", 4, "base-f32-append"},
        {"*-f32-append*", 8, "mini-f32-append64"},
        {"{mini,small}-f32-bar", 0, NULL}, /* globs have no braces, and the comma ends a word */
        {"mini-f32-cold,", 0, NULL},
        {"mini-f32-col", 0, NULL},
        {"MINI-f32-cold", 0, NULL},
        {"", 0, NULL},
        {"mini-f32-cold,no-such-case", 0, NULL},
        {"mini-f32-colddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd", 0,
         NULL},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(lists); i++) {
        bool chosen[KC_BENCH_CASES] = {false};
        struct kr_error error = {""};
        int r = kc_bench_select(lists[i].list, chosen, &error);

        KT_CHECK((r == 0) == (lists[i].n > 0), "%s: %d", lists[i].list, r);
        KT_CHECK(count(chosen) == lists[i].n, "%s: %zu cases", lists[i].list, count(chosen));
        KT_CHECK(!lists[i].one || chosen[index_of(lists[i].one)], "%s: without %s", lists[i].list,
                 lists[i].one);
        KT_CHECK((r == 0) == !error.text[0], "%s: %s", lists[i].list, error.text);
    }
}

/* Without a list: every kind of case, nothing that this build cannot do, nothing that takes too long. */
static void usual_cases(void)
{
    bool chosen[KC_BENCH_CASES];
    unsigned kinds = 0;

    CU_ASSERT_EQUAL_FATAL(kc_bench_select(NULL, chosen, NULL), 0);
    for (size_t i = 0; i < KC_BENCH_CASES; i++) {
        struct kc_bench_case which = kc_bench_case_at(i);

        if (!chosen[i])
            continue;
        kinds |= 1u << which.kind;
        CU_ASSERT_PTR_NULL(kc_work_unable(which.precision));
        CU_ASSERT_NOT_EQUAL(which.model, KC_BENCH_BASE);
    }
    CU_ASSERT_EQUAL(kinds, (1u << KC_BENCH_KINDS) - 1);
    CU_ASSERT_TRUE(chosen[index_of("small-f32-bar")]);
    CU_ASSERT_TRUE(chosen[index_of("mini-f32-bar")]);
}

static void refusals(void)
{
    static const struct {
        const char *arguments[5];
        const char *words;
    } cases[] = {
        {{"bench", "--cases", "mini-f32-nosuch"}, "found \"mini-f32-nosuch\""},
        {{"bench", "--cases", "mini-f32-bar,x"}, "found \"x\""},
        {{"bench", "--cases", ""}, "found \"\""},
        {{"bench", "--workers", "0"}, "--workers: expected a whole number 1 to"},
        {{"bench", "--budget", "-1"}, "--budget"},
        {{"bench", "--format", "csv"}, "--format: expected text|json"},
        {{"bench", "mini"}, "unexpected argument \"mini\""},
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kt_run run = kt_run(NULL, cases[i].arguments);

        KT_CHECK(run.status == 64, "case %zu: status %d: %s", i, run.status, run.err);
        KT_CHECK(kt_one_line(run.err), "case %zu: more than a line: %s", i, run.err);
        KT_CHECK(strstr(run.err, cases[i].words) != NULL, "expected \"%s\" in: %s", cases[i].words,
                 run.err);
        CU_ASSERT_STRING_EQUAL(run.out, "");
        kt_run_free(&run);
    }
}

/* Output */

static double number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);

    KT_CHECK(json_is_number(value), "%s is no number", key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static json_t *run_json(const char *cases, const char *workers)
{
    struct kt_run run = KT_RUN("bench", "--cases", cases, "--workers", workers, "--budget", "0.001",
                               "--format", "json");
    json_t *json;

    KT_CHECK(run.status == 0, "status %d: %s", run.status, run.err);
    CU_ASSERT_STRING_EQUAL(run.err, ""); /* no terminal: no progress */
    CU_ASSERT_TRUE(kt_one_line(run.out));
    json = json_loads(run.out, JSON_REJECT_DUPLICATES, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    kt_run_free(&run);
    return json;
}

static const json_t *case_named(const json_t *json, const char *name)
{
    const json_t *cases = json_object_get(json, "cases"), *one;
    size_t i;

    json_array_foreach((json_t *)cases, i,
                       one) if (strcmp(json_string_value(json_object_get(one, "name")), name) ==
                                0) return one;
    KT_CHECK(false, "no case %s", name);
    return NULL;
}

/* What follows from what, whatever the times are. */
static void check_case(const json_t *json, const char *name, double gflop, double units)
{
    static const char *const parts[] = {"products", "attention", "sampling", "other"};
    const json_t *one = case_named(json, name), *split;
    double workers = number(json, "workers"), seconds, total = 0;
    double peak = number(json, strstr(name, "-bf16-") ? "peak_bf16_gflops" : "peak_f32_gflops");

    if (!one)
        return;
    seconds = number(one, "seconds");
    KT_CHECK(seconds > 0, "%s: %g s", name, seconds);
    KT_CHECK(fabs(number(one, "gflop") / gflop - 1) < 1e-12, "%s: expected %.9g GFLOP, found %.9g",
             name, gflop, number(one, "gflop"));
    KT_CHECK(fabs(number(one, "share_of_peak") * seconds * peak / gflop - 1) < 1e-9,
             "%s: share of peak %g", name, number(one, "share_of_peak"));
    KT_CHECK(fabs(number(one, "latency_seconds") / (seconds * workers * units) - 1) < 1e-9,
             "%s: latency %g, seconds %g", name, number(one, "latency_seconds"), seconds);
    KT_CHECK(number(one, "cpu_seconds") > 0 && number(one, "cpu_seconds") < 1.01 * seconds + 1e-6,
             "%s: %g s of processor time, %g s", name, number(one, "cpu_seconds"), seconds);
    CU_ASSERT_TRUE(number(one, "rounds") >= 1);
    CU_ASSERT_TRUE(number(one, "peak_beside_gflops") > 0);
    split = json_object_get(one, "split");
    CU_ASSERT_EQUAL(json_object_size(split), KR_ARRAY_LENGTH(parts));
    for (size_t i = 0; i < KR_ARRAY_LENGTH(parts); i++) {
        double part = number(split, parts[i]);

        KT_CHECK(part >= 0 && part <= 1, "%s: %s %g", name, parts[i], part);
        total += part;
    }
    KT_CHECK(fabs(total - 1) < 1e-9, "%s: split %g in all", name, total);
    CU_ASSERT_TRUE(number(split, "products") > 0);
    CU_ASSERT_TRUE(number(split, "attention") > 0);
    CU_ASSERT_TRUE(number(split, "other") > 0);
}

/* The built-in model's shape: card and configuration of etc/model. */
static const struct kc_flop_shape builtin = {.model = {.s1_bits = 8,
                                                       .tok_d_model = 64,
                                                       .tok_heads = 2,
                                                       .tok_ff = 192,
                                                       .enc_blocks = 1,
                                                       .dec_blocks = 1,
                                                       .d_model = 128,
                                                       .heads = 4,
                                                       .ff = 256,
                                                       .layers = 2},
                                             .window = 256};

/* Every row of a rolling stream sees 256 rows: a forecast of 32 paths and 24 steps, by hand. */
static double builtin_bar(void)
{
    double tok_row = 2 * (4 * 64 * 64 + 3 * 64 * 192 + 64 * (6 + 16)) + 4 * 64 * 256;
    double trunk_row =
        2 * (2 * (4 * 128 * 128 + 3 * 128 * 256) + 2 * 128 * 128) + 2 * 4 * 128 * 256;
    double dependency_row = 2 * 2 * 128 * 128, s1 = 2 * 128 * 256;
    double s2 = 2 * 2 * 128 * 128 + 4 * 128 * 256 + s1;

    return 1e-9 * (2 * tok_row + trunk_row + dependency_row +
                   32 * 24 * (trunk_row + dependency_row + s1 + s2 + tok_row));
}

static void keys(void)
{
    static const char *const top[] = {"peak_f32_gflops", "peak_bf16_gflops", "dram_gbps", "workers",
                                      "cases"};
    json_t *json = run_json("builtin-f32-bar", "1");
    const json_t *one, *bf16 = json_object_get(json, "peak_bf16_gflops");
    double peak = number(json, "peak_f32_gflops");

    for (size_t i = 0; i < KR_ARRAY_LENGTH(top); i++)
        KT_CHECK(json_object_get(json, top[i]) != NULL, "no %s", top[i]);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json, "workers")), 1);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(json, "cases")), 1);
    kt_note("f32 peak of one thread %.1f GFLOP/s, memory %.1f GB/s", peak,
            number(json, "dram_gbps"));
    CU_ASSERT_TRUE(peak > 0.1 && number(json, "dram_gbps") > 0.01);
    CU_ASSERT_EQUAL(json_is_null(bf16), kc_meter()->bf16 == NULL && !kc_meter_has_amx());
    CU_ASSERT_TRUE(json_is_null(bf16) || json_number_value(bf16) > 0.1);
    check_case(json, "builtin-f32-bar", builtin_bar(), 1);
    one = case_named(json, "builtin-f32-bar");
    CU_ASSERT_TRUE(number(json_object_get(one, "split"), "sampling") > 0);
    json_decref(json);
}

/* Cases that draw nothing, on two workers; and one that the build cannot do. */
static void parts(void)
{
#ifdef KR_DEBUG_CHECKS /* which fill 128 streams for half a minute; sanitizers take minutes */
    bool many = false;
#else
    bool many = getenv("KT_SANITIZED") == NULL;
#endif
    json_t *json = run_json(many ? "builtin-f32-append*,builtin-f32-step32,builtin-f32-prefill400,"
                                   "builtin-bf16-append"
                                 : "builtin-f32-append,builtin-f32-step32,builtin-f32-prefill400,"
                                   "builtin-bf16-append",
                            "2");
    double append = (double)kc_flop_append(&builtin, 5000) * 1e-9;
    double step = (double)(kc_flop_trunk(&builtin, 5000, 32) + kc_flop_s1(&builtin, 32)) * 1e-9;
    const char *unable = kc_work_unable(KC_BENCH_BF16);
    const json_t *one;

    CU_ASSERT_EQUAL(json_array_size(json_object_get(json, "cases")), many ? 5 : 4);
    check_case(json, "builtin-f32-append", append, 1);
    if (many)
        check_case(json, "builtin-f32-append64", append, 64);
    else
        kt_note("append64 is left out under costly checks and sanitizers");
    check_case(json, "builtin-f32-step32", step, 1);
    check_case(json, "builtin-f32-prefill400", (double)kc_flop_prefill(&builtin, 400) * 1e-9, 1);
    one = case_named(json, "builtin-f32-append");
    CU_ASSERT_DOUBLE_EQUAL(number(json_object_get(one, "split"), "sampling"), 0, 0);
    CU_ASSERT_DOUBLE_EQUAL(number(one, "weight_bytes"),
                           (double)(kc_append_weights(&builtin) * sizeof(float)), 0);
    CU_ASSERT_TRUE(number(one, "share_of_dram") > 0);
    one = case_named(json, "builtin-bf16-append");
    if (unable) {
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(one, "skipped")), unable);
        CU_ASSERT_TRUE(json_is_null(json_object_get(one, "seconds")));
        CU_ASSERT_TRUE(json_is_null(json_object_get(one, "share_of_peak")));
        CU_ASSERT_DOUBLE_EQUAL(number(one, "gflop"), append, 1e-12);
    } else {
        check_case(json, "builtin-bf16-append", append, 1);
        CU_ASSERT_DOUBLE_EQUAL(number(one, "weight_bytes"),
                               (double)(kc_append_weights(&builtin) * sizeof(uint16_t)), 0);
    }
    json_decref(json);
}

static void text(void)
{
    struct kt_run run = KT_RUN("bench", "--cases", "builtin-f32-append,builtin-bf16-bar",
                               "--workers", "1", "--budget", "0");

    KT_CHECK(run.status == 0, "status %d: %s", run.status, run.err);
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "1 worker, kernels "));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "\nbuiltin-f32-append "));
    CU_ASSERT_PTR_NOT_NULL(strstr(run.out, "\nbuiltin-bf16-bar "));
    CU_ASSERT_PTR_NULL(strstr(run.out, "builtin-f32-append64 "));
    if (kc_work_unable(KC_BENCH_BF16))
        CU_ASSERT_PTR_NOT_NULL(strstr(run.out, kc_work_unable(KC_BENCH_BF16)));
    kt_run_free(&run);
}

/* Threads */

struct visits {
    atomic_uint n[3];
};

static void visit(void *context, size_t index)
{
    struct visits *visits = context;

    for (size_t i = 0; i < 10000 * index; i++) /* the last one is late */
        atomic_thread_fence(memory_order_seq_cst);
    atomic_fetch_add(&visits->n[index], 1);
}

static void gang(void)
{
    struct visits visits = {0};
    struct kc_gang *three = NULL;

    CU_ASSERT_TRUE(kc_gang_processors() >= 1);
    CU_ASSERT_EQUAL_FATAL(kc_gang_new(3, &three), 0);
    CU_ASSERT_EQUAL(kc_gang_size(three), 3);
    for (unsigned run = 0; run < 100; run++) {
        CU_ASSERT_TRUE(kc_gang_run(three, visit, &visits) >= 0);
        for (size_t i = 0; i < 3; i++)
            CU_ASSERT_EQUAL(atomic_load(&visits.n[i]), run + 1);
    }
    kc_gang_free(&three);
    CU_ASSERT_PTR_NULL(three);
    kc_gang_free(&three);
}

/* The loops do what they are counted for: twice the rounds, twice the operations; all memory is read. */
static void meter(void)
{
    const struct kc_meter *meter = kc_meter();
    float *x = kr_alloc(1024, sizeof(float));

    kt_note("loops of %s", meter->name);
    CU_ASSERT_TRUE(meter->f32(1) > 0);
    CU_ASSERT_DOUBLE_EQUAL(meter->f32(20), 2 * meter->f32(10), 0);
    if (meter->bf16)
        CU_ASSERT_DOUBLE_EQUAL(meter->bf16(20), 2 * meter->bf16(10), 0);
    kt_note("AMX: %s", kc_meter_has_amx() ? "here" : "not here");
    if (kc_meter_has_amx()) {
        CU_ASSERT_TRUE(kc_meter_amx(1) > 0);
        CU_ASSERT_DOUBLE_EQUAL(kc_meter_amx(20), 2 * kc_meter_amx(10), 0);
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(x);
    for (size_t i = 0; i < 1024; i++)
        x[i] = (float)(i % 5);
    CU_ASSERT_DOUBLE_EQUAL(meter->read(x, 1024), 204 * 10 + 0 + 1 + 2 + 3, 0);
    free(x);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"names and globs", selection},
        {"the usual cases", usual_cases},
        {"what is refused", refusals},
        {"threads of a gang", gang},
        {"loops of the meter", meter},
        {"keys and arithmetic of a bar", keys},
        {"appends, step, prefill; what cannot be run", parts},
        {"the table", text},
    };

    return kt_main("bench", tests, KR_ARRAY_LENGTH(tests));
}
