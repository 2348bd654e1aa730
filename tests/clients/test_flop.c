/* SPDX-License-Identifier: MIT */
/* Operations counted from shapes: published figures of whole forecasts, and parts counted by hand. */
#include "clients/bench_work.h"
#include "clients/flop.h"
#include "tests/tap.h"

#include <math.h>
#include <string.h>

enum { LOOKBACK = 400, PATHS = 32, STEPS = 30 };

static struct kc_flop_shape public(const char *name)
{
    struct kc_flop_shape shape = {.window = 0};

    CU_ASSERT_EQUAL_FATAL(kr_model_shape_named(name, &shape.model), 0);
    return shape;
}

static void expect(const char *what, uint64_t flop, double gflop, double tolerance)
{
    double found = (double)flop * 1e-9;

    kt_note("%s: %.3f GFLOP, published %.1f", what, found, gflop);
    KT_CHECK(fabs(found - gflop) <= tolerance, "%s: expected %.2f, found %.3f", what, gflop, found);
}

/* 400 rows, 32 paths of 30 steps. The published figures have one decimal; those of the decoder were rounded
 * more than once (6.8 = 1.8 + 5.0, published as 4.9). */
static void published(void)
{
    static const struct {
        const char *name;
        double prefill, sample, bar;
    } figures[] = {{"mini", 2.6, 8.8, 13.8}, {"small", 18.9, 52.6, 57.5}};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(figures); i++) {
        struct kc_flop_shape shape = public(figures[i].name);
        uint64_t sample = kc_flop_sample(&shape, LOOKBACK, PATHS, STEPS);
        uint64_t bars = kc_flop_bars(&shape, LOOKBACK, PATHS, STEPS);

        expect("prefill", kc_flop_prefill(&shape, LOOKBACK), figures[i].prefill, 0.05);
        expect("sample", sample, figures[i].sample, 0.05);
        expect("encode", kc_flop_encode(&shape, 0, LOOKBACK), 1.8, 0.05);
        expect("bars and their prefix", bars + kc_flop_decode(&shape, 0, LOOKBACK), 6.8, 0.05);
        expect("bars", bars, 4.9, 0.12);
        expect("a bar", kc_flop_append(&shape, LOOKBACK) + sample + bars, figures[i].bar, 0.25);
    }
}

/* A model so small that it can be counted by hand. */
static const struct kc_flop_shape tiny = {.model = {.s1_bits = 2,
                                                    .tok_d_model = 4,
                                                    .tok_heads = 1,
                                                    .tok_ff = 8,
                                                    .enc_blocks = 1,
                                                    .dec_blocks = 2,
                                                    .d_model = 2,
                                                    .heads = 1,
                                                    .ff = 3,
                                                    .layers = 1}};

static void by_hand(void)
{
    /* Two rows that see 1 and 2. Encoder block: 4 * 16 + 3 * 32 = 160 weights, embed and quant_embed
     * 4 * (6 + 4) = 40. */
    CU_ASSERT_EQUAL(kc_flop_encode(&tiny, 0, 2), 2 * (2 * (160 + 40)) + 4 * 4 * (1 + 2));
    CU_ASSERT_EQUAL(kc_flop_decode(&tiny, 0, 2), 2 * (2 * (320 + 40)) + 2 * 4 * 4 * (1 + 2));
    /* Trunk: 4 * 4 + 3 * 6 = 34, fusion 4 * 2 = 8; row 5 sees 6. */
    CU_ASSERT_EQUAL(kc_flop_trunk(&tiny, 5, 1), 2 * (34 + 8) + 4 * 2 * 6);
    CU_ASSERT_EQUAL(kc_flop_dependency(&tiny, 3), 3 * 2 * 8);
    CU_ASSERT_EQUAL(kc_flop_s1(&tiny, 3), 3 * 2 * 8); /* 2 -> 4 */
    CU_ASSERT_EQUAL(kc_flop_s2(&tiny, 3, 7), 3 * (2 * 8 + 4 * 2 * 7 + 2 * 8));
    CU_ASSERT_EQUAL(kc_append_weights(&tiny), (160 + 40) + (34 + 8) + 8 + (320 + 40));
}

/* Parts add up, and rows that a window hides are not counted. */
static void sums(void)
{
    struct kc_flop_shape windowed = tiny;
    uint64_t split = 0;

    for (size_t row = 0; row < 9; row++)
        split += kc_flop_trunk(&tiny, row, 1);
    CU_ASSERT_EQUAL(kc_flop_trunk(&tiny, 0, 9), split);
    windowed.window = 3;
    CU_ASSERT_EQUAL(kc_flop_trunk(&windowed, 2, 1), kc_flop_trunk(&tiny, 2, 1));
    CU_ASSERT_EQUAL(kc_flop_trunk(&windowed, 1000, 1), kc_flop_trunk(&tiny, 2, 1));
    CU_ASSERT_EQUAL(kc_flop_sample(&tiny, 5, 7, 4), 7 * kc_flop_sample(&tiny, 5, 1, 4));
}

/* The shape of a model that is loaded is the shape that it was made of. */
static void shapes(void)
{
    struct kr_model_shape odd = {5, 16, 2, 24, 1, 2, 32, 4, 40, 3};
    struct kr_model *model = NULL;
    struct kc_flop_shape found;

    CU_ASSERT_EQUAL_FATAL(kr_model_random(&odd, 1, &model, NULL), 0);
    found = kc_flop_shape_of(model);
    CU_ASSERT_EQUAL(memcmp(&found.model, &odd, sizeof(odd)), 0);
    CU_ASSERT_EQUAL(found.window, 0);
    CU_ASSERT_EQUAL(kc_work_rolling_rows(model), 0);
    kr_model_free(&model);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"the figures that were published", published},
        {"a model counted by hand", by_hand},
        {"rows add up; windows hide", sums},
        {"shapes of loaded models", shapes},
    };

    return kt_main("flop", tests, KR_ARRAY_LENGTH(tests));
}
