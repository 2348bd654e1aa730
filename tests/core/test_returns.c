/* SPDX-License-Identifier: MIT */
/* The normaliser `returns` against its numpy twin (etc/train/returns.py), and its promises. */
#include "core/returns_config.h"
#include "tests/core/golden.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct kr_returns_config usual = {.bars = 128,
                                               .decay = 0.97,
                                               .fast = 0.85,
                                               .slow = 0.995,
                                               .unit = 0.6,
                                               .floor = 1e-6,
                                               .clip = 4,
                                               .cap = 8,
                                               .volume = 0.02};
static struct kr_returns returns;

/* Series of the golden file: tensors of rank 3. */
struct series {
    struct kt_golden golden;
    size_t n, length, horizon;
    const double *bars, *sigma, *walked;
    const float *x, *y;
};

static const void *data_of(struct series *s, const char *name, size_t *ret_rows)
{
    const struct kr_tensor *tensor = kr_safetensors_find(s->golden.file, name);

    CU_ASSERT_PTR_NOT_NULL_FATAL(tensor);
    *ret_rows = tensor->shape[1];
    s->n = tensor->shape[0];
    return tensor->data; /* the writer keeps data on multiples of 4 and 8 in this file */
}

static bool open_series(struct series *s)
{
    size_t same;

    memset(s, 0, sizeof(*s));
    if (!kt_golden_open(&s->golden, "builtin", "returns"))
        return false;
    s->bars = data_of(s, "bars", &s->length);
    s->x = data_of(s, "x", &same);
    s->sigma = data_of(s, "sigma", &same);
    s->y = data_of(s, "y", &s->horizon);
    s->walked = data_of(s, "walked", &same);
    CU_ASSERT_EQUAL_FATAL((uintptr_t)s->bars % 8 | (uintptr_t)s->x % 4 | (uintptr_t)s->sigma % 8,
                          0);
    return true;
}

static void fill(const struct series *s, size_t which, struct kr_bar *ret)
{
    for (size_t i = 0; i < s->length; i++) {
        ret[i] = (struct kr_bar){.t_ns = (int64_t)i};
        memcpy(ret[i].v, s->bars + (which * s->length + i) * KR_COLUMNS, sizeof(ret[i].v));
    }
}

static void golden_inputs(void)
{
    struct series s;
    double worst = 0, worst_sigma = 0;
    size_t n_clipped = 0, n_unlike = 0;

    if (!open_series(&s))
        return;
    struct kr_bar *bars = calloc(s.length, sizeof(*bars));
    CU_ASSERT_PTR_NOT_NULL_FATAL(bars);
    for (size_t k = 0; k < s.n; k++) {
        fill(&s, k, bars);
        for (size_t i = 0; i < s.length; i++) {
            const float *expected = s.x + (k * s.length + i) * KR_COLUMNS;
            double sigma = s.sigma[k * s.length + i];
            float x[KR_COLUMNS];

            n_clipped += kr_returns_apply(&returns, bars, i + 1, x);
            for (int c = 0; c < KR_COLUMNS; c++) {
                worst = fmax(worst, fabs((double)x[c] - (double)expected[c]));
                n_unlike += x[c] != expected[c];
            }
            if (i > 0)
                worst_sigma =
                    fmax(worst_sigma, fabs(kr_returns_sigma(&returns, bars, i) / sigma - 1));
        }
    }
    /* A last-bit difference of two mathematical libraries may cross one step of the grid, rarely. */
    kt_note("inputs: largest difference %.3g, %zu unlike of %zu; sigma %.3g; %zu bars clipped",
            worst, n_unlike, s.n * s.length * KR_COLUMNS, worst_sigma, n_clipped);
    CU_ASSERT_TRUE(worst <= 1.0 / 65536);
    CU_ASSERT_TRUE(n_unlike <= 3);
    CU_ASSERT_TRUE(worst_sigma < 1e-12);
    CU_ASSERT_TRUE(n_clipped > 8 && n_clipped < s.n * s.length / 2);
    free(bars);
    kt_golden_close(&s.golden);
}

static void golden_walks(void)
{
    struct series s;
    double worst = 0;

    if (!open_series(&s))
        return;
    struct kr_bar *bars = calloc(s.length, sizeof(*bars));
    CU_ASSERT_PTR_NOT_NULL_FATAL(bars);
    for (size_t k = 0; k < s.n; k++) {
        struct kr_walk walk;

        fill(&s, k, bars);
        kr_walk_start(&walk, &returns, bars, s.length);
        for (size_t h = 0; h < s.horizon; h++) {
            const double *expected = s.walked + (k * s.horizon + h) * KR_COLUMNS;
            double v[KR_COLUMNS];

            kr_walk_step(&walk, &returns, s.y + (k * s.horizon + h) * KR_COLUMNS, v);
            for (int c = 0; c < KR_COLUMNS; c++)
                worst = fmax(worst, fabs(v[c] - expected[c]) / fmax(fabs(expected[c]), 1e-12));
        }
    }
    kt_note("walks: largest relative difference %.3g", worst);
    CU_ASSERT_TRUE(worst < 1e-10);
    free(bars);
    kt_golden_close(&s.golden);
}

/* Inputs decoded give the bar back, where nothing was clipped. */
static void inverse(void)
{
    struct series s;
    double worst = 0;
    size_t n = 0;

    if (!open_series(&s))
        return;
    struct kr_bar *bars = calloc(s.length, sizeof(*bars));
    CU_ASSERT_PTR_NOT_NULL_FATAL(bars);
    for (size_t k = 0; k < s.n; k++) {
        fill(&s, k, bars);
        for (size_t i = 150; i < s.length; i++) {
            struct kr_walk walk;
            float x[KR_COLUMNS];
            double v[KR_COLUMNS], sigma = kr_returns_sigma(&returns, bars, i);

            if (kr_returns_apply(&returns, bars, i + 1, x))
                continue;
            kr_walk_start(&walk, &returns, bars, i);
            kr_walk_step(&walk, &returns, x, v);
            /* Half a step of the grid, times the slope of sinh at the clip. */
            for (int c = KR_OPEN; c <= KR_CLOSE; c++)
                worst = fmax(worst, fabs(log(v[c] / bars[i].v[c])) / sigma);
            n++;
        }
    }
    kt_note("inverse: largest difference %.3g sigma over %zu bars", worst, n);
    CU_ASSERT_TRUE(worst < 28.0 * 2 / 65536);
    CU_ASSERT_TRUE(n > 300);
    free(bars);
    kt_golden_close(&s.golden);
}

/* Bars before the last `norm_bars` do not matter, to the bit; those inside do. */
static void finite_memory(void)
{
    struct series s;
    float all[KR_COLUMNS], some[KR_COLUMNS], less[KR_COLUMNS];
    double v[KR_COLUMNS], w[KR_COLUMNS];
    struct kr_walk walk, shorter;

    if (!open_series(&s))
        return;
    struct kr_bar *bars = calloc(s.length, sizeof(*bars));
    CU_ASSERT_PTR_NOT_NULL_FATAL(bars);
    fill(&s, 0, bars);
    kr_returns_apply(&returns, bars, 200, all);
    kr_returns_apply(&returns, bars + 71, 129, some);
    kr_returns_apply(&returns, bars + 100, 100, less);
    CU_ASSERT_EQUAL(memcmp(all, some, sizeof(all)), 0);
    CU_ASSERT_NOT_EQUAL(memcmp(all, less, sizeof(all)), 0);
    kr_walk_start(&walk, &returns, bars, 200);
    kr_walk_start(&shorter, &returns, bars + 72, 128);
    for (int h = 0; h < 10; h++) {
        kr_walk_step(&walk, &returns, s.y + h * KR_COLUMNS, v);
        kr_walk_step(&shorter, &returns, s.y + h * KR_COLUMNS, w);
        CU_ASSERT_EQUAL(memcmp(v, w, sizeof(v)), 0);
    }
    free(bars);
    kt_golden_close(&s.golden);
}

/* A path that walked is where a stream that saw the same bars is. */
static void walk_and_append(void)
{
    struct series s;
    struct kr_walk walk, again;
    double v[KR_COLUMNS], w[KR_COLUMNS];

    if (!open_series(&s))
        return;
    struct kr_bar *bars = calloc(s.length + 12, sizeof(*bars));
    CU_ASSERT_PTR_NOT_NULL_FATAL(bars);
    fill(&s, 1, bars);
    kr_walk_start(&walk, &returns, bars, s.length);
    for (size_t h = 0; h < 12; h++) {
        kr_walk_step(&walk, &returns, s.y + h * KR_COLUMNS, v);
        kr_walk_start(&again, &returns, bars, s.length + h);
        again.start = walk.start;
        again.multiplier = walk.multiplier;
        kr_walk_step(&again, &returns, s.y + h * KR_COLUMNS, w);
        CU_ASSERT_EQUAL(memcmp(v, w, sizeof(v)), 0);
        memcpy(bars[s.length + h].v, v, sizeof(v));
    }
    free(bars);
    kt_golden_close(&s.golden);
}

static void scale_prices(struct kr_bar *bars, size_t n, double factor)
{
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < KR_COLUMNS; c++)
            bars[i].v[c] *= c == KR_VOLUME ? 1 : factor;
}

static void scales(void)
{
    static const double factors[] = {0x1p20, 0x1p-20, 1e6, 1e-6};
    struct series s;
    size_t n_unlike = 0;

    if (!open_series(&s))
        return;
    struct kr_bar *bars = calloc(s.length, sizeof(*bars));
    struct kr_bar *scaled = calloc(s.length, sizeof(*scaled));
    CU_ASSERT_PTR_NOT_NULL_FATAL(bars);
    CU_ASSERT_PTR_NOT_NULL_FATAL(scaled);
    for (size_t k = 0; k < s.n; k++)
        for (size_t f = 0; f < KR_ARRAY_LENGTH(factors); f++) {
            struct kr_walk walk, other;

            fill(&s, k, bars);
            fill(&s, k, scaled);
            scale_prices(scaled, s.length, factors[f]);
            for (size_t i = 0; i < s.length; i++) {
                float a[KR_COLUMNS], b[KR_COLUMNS];

                kr_returns_apply(&returns, bars, i + 1, a);
                kr_returns_apply(&returns, scaled, i + 1, b);
                if (f < 2)
                    CU_ASSERT_EQUAL(memcmp(a, b, sizeof(a)), 0);
                n_unlike += memcmp(a, b, sizeof(a)) != 0;
            }
            kr_walk_start(&walk, &returns, bars, s.length);
            kr_walk_start(&other, &returns, scaled, s.length);
            for (int h = 0; h < 24 && f < 2; h++) {
                double v[KR_COLUMNS], w[KR_COLUMNS];

                kr_walk_step(&walk, &returns, s.y + h * KR_COLUMNS, v);
                kr_walk_step(&other, &returns, s.y + h * KR_COLUMNS, w);
                for (int c = 0; c < KR_COLUMNS; c++)
                    CU_ASSERT_EQUAL(w[c], v[c] * (c == KR_VOLUME ? 1 : factors[f]));
            }
        }
    kt_note("scaled: %zu rows unlike of %zu", n_unlike, 4 * s.n * s.length);
    CU_ASSERT_TRUE(n_unlike <= 2);
    free(bars);
    free(scaled);
    kt_golden_close(&s.golden);
}

/* By hand: two bars, so that every average is over the first alone. */
static void by_hand(void)
{
    const struct kr_bar bars[] = {{.v = {100, 102, 99, 101, 10, 1000}},
                                  {.v = {102, 104, 101, 103, 30, 3100}}};
    double own = log(102.0 / 99), sigma = 0.6 * own, second = log(104.0 / 101);
    float x[KR_COLUMNS];

    CU_ASSERT_FALSE(kr_returns_apply(&returns, bars, 1, x));
    CU_ASSERT_EQUAL(x[KR_OPEN], 0);
    CU_ASSERT_EQUAL(x[KR_CLOSE], 0);
    CU_ASSERT_DOUBLE_EQUAL(x[KR_HIGH], log1p(log(102.0 / 101) / sigma), 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(x[KR_LOW], log1p(log(100.0 / 99) / sigma), 1e-5);
    CU_ASSERT_EQUAL(x[KR_VOLUME], 0);
    CU_ASSERT_EQUAL(x[KR_AMOUNT], 0);
    CU_ASSERT_FALSE(kr_returns_apply(&returns, bars, 2, x));
    CU_ASSERT_DOUBLE_EQUAL(x[KR_OPEN], asinh(log(102.0 / 101) / sigma), 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(x[KR_CLOSE], asinh(log(103.0 / 101) / sigma), 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(x[KR_HIGH], log1p(log(104.0 / 103) / sigma), 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(x[KR_LOW], log1p(log(102.0 / 101) / sigma), 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(x[KR_VOLUME], log(3.02 / 1.02), 1e-5);
    CU_ASSERT_DOUBLE_EQUAL(
        x[KR_AMOUNT], log(((0.85 * own + second) / 1.85) / ((0.995 * own + second) / 1.995)), 1e-5);
}

/* Whatever the decoder says: a path keeps its shape, and its volatility stays below the cap. */
static void extremes(void)
{
    static const float wild[][KR_COLUMNS] = {
        {1e30f, 1e30f, 1e30f, 1e30f, 1e30f, 0},
        {-1e30f, -5, -5, -1e30f, -1e30f, 0},
        {4, 4, 4, -4, 4, 0},
        {-4, 0, 4, 4, -4, 0},
        {INFINITY, INFINITY, 0, -INFINITY, 9, 9},
    };
    struct kr_bar bars[140];
    struct kr_walk walk;
    double before;

    for (size_t i = 0; i < 140; i++)
        bars[i] = (struct kr_bar){.v = {100, 100.1, 99.9, 100, 5, 500}};
    kr_walk_start(&walk, &returns, bars, 140);
    CU_ASSERT_DOUBLE_EQUAL(walk.multiplier, 1, 1e-12);
    before = walk.close;
    for (int h = 0; h < 300; h++) {
        double v[KR_COLUMNS], limit = 8 * walk.start * sinh(4) * 1.0000001;

        kr_walk_step(&walk, &returns, wild[h % 5], v);
        for (int c = 0; c < KR_COLUMNS; c++)
            KT_CHECK(isfinite(v[c]) && v[c] >= 0, "step %d: %s %g", h, kr_column_names[c], v[c]);
        CU_ASSERT_TRUE(v[KR_LOW] > 0 && v[KR_LOW] <= fmin(v[KR_OPEN], v[KR_CLOSE]));
        CU_ASSERT_TRUE(v[KR_HIGH] >= fmax(v[KR_OPEN], v[KR_CLOSE]));
        if (h > 0)
            CU_ASSERT_TRUE(fabs(log(v[KR_CLOSE] / before)) <= limit);
        before = v[KR_CLOSE];
    }
}

/* Flat series, with and without volume. */
static void flat(void)
{
    struct kr_bar bars[150];
    float x[KR_COLUMNS];
    struct kr_walk walk;
    double v[KR_COLUMNS];
    const float zero[KR_COLUMNS] = {0};

    for (size_t i = 0; i < 150; i++)
        bars[i] = (struct kr_bar){.v = {3.3, 3.3, 3.3, 3.3, 0, 0}};
    kr_returns_apply(&returns, bars, 150, x);
    for (int c = 0; c < KR_COLUMNS; c++)
        CU_ASSERT_DOUBLE_EQUAL(x[c], c == KR_VOLUME ? log(0.02 / 1.02) : 0, 1e-5);
    CU_ASSERT_EQUAL(kr_returns_sigma(&returns, bars, 150), 1e-6);
    kr_walk_start(&walk, &returns, bars, 150);
    kr_walk_step(&walk, &returns, zero, v);
    for (int c = 0; c < KR_COLUMNS; c++)
        CU_ASSERT_DOUBLE_EQUAL(v[c], c < KR_VOLUME ? 3.3 : 0, 1e-12);
    bars[149].v[KR_VOLUME] = 7; /* the first volume there ever was */
    CU_ASSERT_TRUE(kr_returns_apply(&returns, bars, 150, x));
    CU_ASSERT_EQUAL(x[KR_VOLUME], 4);
}

static void bad_constants(void)
{
    struct kr_returns r = {.config = {.bars = 77}};
    struct kr_error error;

#define BAD(member, value, expected)                                                               \
    do {                                                                                           \
        struct kr_returns_config c = usual;                                                        \
        c.member = value;                                                                          \
        CU_ASSERT_EQUAL(kr_returns_init(&r, &c, &error), -EINVAL);                                 \
        KT_CHECK(strcmp(error.text, expected) == 0, "%s", error.text);                             \
    } while (0)
    BAD(bars, 0, "norm_bars: expected an integer from 1 to 256, found 0");
    BAD(bars, 257, "norm_bars: expected an integer from 1 to 256, found 257");
    BAD(decay, 0, "norm_decay: expected a number above 0, at most 1, found 0");
    BAD(fast, 1.5, "norm_fast: expected a number above 0, at most 1, found 1.5");
    BAD(slow, NAN, "norm_slow: expected a number above 0, at most 1, found nan");
    BAD(unit, -1, "norm_unit: expected a number above 0, found -1");
    BAD(floor, 0, "norm_floor: expected a number above 0, found 0");
    BAD(volume, INFINITY, "norm_volume: expected a number above 0, found inf");
    BAD(clip, 17, "norm_clip: expected a number above 0, at most 16, found 17");
    BAD(cap, 0.5, "norm_cap: expected a number from 1, found 0.5");
#undef BAD
    CU_ASSERT_EQUAL(r.config.bars, 77);
}

/* From the checkpoint that is shipped, and from damaged ones. */
static void from_json(void)
{
    static const struct {
        const char *key, *value, *expected;
    } bad[] = {
        {"norm_bars", "1.5", "t: norm_bars: expected an integer from 1 to 256, found 1.5"},
        {"norm_bars", "300", "t: norm_bars: expected an integer from 1 to 256, found 300"},
        {"norm_cap", "\"x\"", "t: norm_cap: expected a number, found \"x\""},
        {"norm_fast", NULL, "t: norm_fast: expected a number, found nothing"},
        {"norm_clip", "0", "t: norm_clip: expected a number above 0, at most 16, found 0"},
    };
    json_t *json = json_load_file(kt_source("../etc/model/tokenizer/config.json"), 0, NULL);
    struct kr_returns read = {.config = {.bars = 0}};
    struct kr_error error;

    CU_ASSERT_PTR_NOT_NULL_FATAL(json);
    CU_ASSERT_EQUAL(kr_returns_read("t", json, &read, &error), 0);
    CU_ASSERT_EQUAL(memcmp(&read, &returns, sizeof(read)), 0);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(bad); i++) {
        json_t *damaged = json_deep_copy(json);

        if (bad[i].value)
            json_object_set_new(damaged, bad[i].key,
                                json_loads(bad[i].value, JSON_DECODE_ANY, NULL));
        else
            json_object_del(damaged, bad[i].key);
        CU_ASSERT_EQUAL(kr_returns_read("t", damaged, &read, &error), -EBADMSG);
        KT_CHECK(strcmp(error.text, bad[i].expected) == 0, "%s", error.text);
        json_decref(damaged);
    }
    CU_ASSERT_EQUAL(read.config.bars, 128);
    json_decref(json);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"inputs as in numpy", golden_inputs},
        {"paths as in numpy", golden_walks},
        {"decoding inverts", inverse},
        {"finite memory", finite_memory},
        {"a path is where a stream would be", walk_and_append},
        {"price scales", scales},
        {"two bars by hand", by_hand},
        {"extreme rows", extremes},
        {"flat series", flat},
        {"bad constants", bad_constants},
        {"constants of a checkpoint", from_json},
    };

    if (kr_returns_init(&returns, &usual, NULL))
        return 1;
    return kt_main("returns", tests, KR_ARRAY_LENGTH(tests));
}
