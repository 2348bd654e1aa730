/* SPDX-License-Identifier: MIT */
#include "core/draw.h"
#include "core/filter.h"
#include "core/safetensors.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define N_MAX 1024

static float p[N_MAX];
static uint32_t order[N_MAX];

static void filter(double temperature, size_t top_k, double top_p, const float *logits, size_t n)
{
    struct kr_sampling sampling = {temperature, top_k, top_p, false};

    memset(p, 0xff, sizeof(p));
    kr_filter(&sampling, logits, n, p, order);
}

static void check(void)
{
    static const struct {
        struct kr_sampling sampling;
        int result;
    } cases[] = {
        {{1, 0, 1, false}, 0},
        {{1e-300, 5, 1e-300, false}, 0},
        {{1e300, 0, 0.5, false}, 0},
        {{0, 0, 1, false}, -EINVAL},
        {{-1, 0, 1, false}, -EINVAL},
        {{NAN, 0, 1, false}, -EINVAL},
        {{INFINITY, 0, 1, false}, -EINVAL},
        {{1, 0, 0, false}, -EINVAL},
        {{1, 0, -0.5, false}, -EINVAL},
        {{1, 0, 1.0000001, false}, -EINVAL},
        {{1, 0, NAN, false}, -EINVAL},
        {{1, 3, 2, false}, -EINVAL}, /* ignored by top_k, wrong all the same */
    };

    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        struct kr_error error = {""};

        CU_ASSERT_EQUAL(kr_sampling_check(&cases[i].sampling, NULL), cases[i].result);
        CU_ASSERT_EQUAL(kr_sampling_check(&cases[i].sampling, &error), cases[i].result);
        CU_ASSERT_EQUAL(error.text[0] != '\0', cases[i].result != 0);
    }
}

static void softmax(void)
{
    /* exp(0), exp(-ln 3), exp(-ln 3): 3/5, 1/5, 1/5 */
    float logits[3] = {7, 7 - logf(3), 7 - logf(3)};

    filter(1, 0, 1, logits, 3);
    CU_ASSERT_DOUBLE_EQUAL(p[0], 0.6, 2e-7);
    CU_ASSERT_DOUBLE_EQUAL(p[1], 0.2, 2e-7);
    CU_ASSERT_EQUAL(p[1], p[2]);
    filter(0.5, 0, 1, logits, 3); /* squares: 9, 1, 1 */
    CU_ASSERT_DOUBLE_EQUAL(p[0], 9 / 11.0, 2e-7);
    filter(1, 0, 1, logits, 1);
    CU_ASSERT_EQUAL(p[0], 1);
}

static void extremes_of_temperature(void)
{
    static const float logits[4] = {1, 3, -2, 3};
    static const float large[3] = {3e38f, -3e38f, 3e38f};

    filter(1e-300, 0, 1, logits, 4);
    CU_ASSERT_EQUAL(p[0], 0);
    CU_ASSERT_EQUAL(p[1], 0.5f);
    CU_ASSERT_EQUAL(p[2], 0);
    CU_ASSERT_EQUAL(p[3], 0.5f);
    filter(1e300, 0, 1, logits, 4);
    for (size_t i = 0; i < 4; i++)
        CU_ASSERT_EQUAL(p[i], 0.25f);
    filter(1, 0, 1, large, 3); /* the difference overflows */
    CU_ASSERT_EQUAL(p[0], 0.5f);
    CU_ASSERT_EQUAL(p[1], 0);
}

static void impossible_is_zero(void)
{
    static const float logits[6] = {-200, -87.5f, 0, -86.5f, -86.7f, -500};
    struct kr_sampling sampling = {1, 0, 1, false};

    filter(1, 0, 1, logits, 6);
    CU_ASSERT_EQUAL(p[0], 0);
    CU_ASSERT_EQUAL(p[1], 0);
    CU_ASSERT_EQUAL(p[2], 1);
    CU_ASSERT_TRUE(p[3] > 0); /* exp(-86.5) > 2^-125 > exp(-86.7) */
    CU_ASSERT_EQUAL(p[4], 0);
    CU_ASSERT_EQUAL(p[5], 0);
    CU_ASSERT_EQUAL(kr_sample(&sampling, logits, 6, 0, p, order), 2);
}

static void top_k(void)
{
    static const float logits[8] = {2, 5, 3, 5, 3, 1, 3, 0};
    static const struct {
        size_t k;
        unsigned kept; /* bit i: id i */
    } cases[] = {
        {1, 0x0a}, {2, 0x0a}, {3, 0x5e}, {4, 0x5e},        {5, 0x5e}, {6, 0x5f},
        {7, 0x7f}, {8, 0xff}, {9, 0xff}, {SIZE_MAX, 0xff}, {0, 0xff},
    };

    for (size_t c = 0; c < KR_ARRAY_LENGTH(cases); c++) {
        filter(1, cases[c].k, 1, logits, 8);
        for (size_t i = 0; i < 8; i++)
            KT_CHECK((p[i] > 0) == (cases[c].kept >> i & 1), "top_k %zu, id %zu", cases[c].k, i);
        CU_ASSERT_EQUAL(p[1], p[3]);
    }
    filter(1, 3, 0.01, logits, 8); /* top_p is ignored */
    CU_ASSERT_TRUE(p[6] > 0);
}

static void top_p(void)
{
    /* Four ids of exactly 1/4: ties go to the lower id, and reaching top_p is not exceeding it. */
    static const float equal[4] = {-1, -1, -1, -1};
    /* 1/2, 1/4, 1/4 in the order of ids 2, 0, 1 */
    float halves[3] = {0, 0, logf(2)};
    static const struct {
        double top_p;
        size_t kept;
    } cases[] = {{1e-300, 1}, {0.2499, 1}, {0.25, 2}, {0.5, 3}, {0.74, 3}, {0.75, 4}, {0.9999, 4}};

    for (size_t c = 0; c < KR_ARRAY_LENGTH(cases); c++) {
        filter(1, 0, cases[c].top_p, equal, 4);
        for (size_t i = 0; i < 4; i++)
            KT_CHECK(p[i] == (i < cases[c].kept ? (float)(1.0 / (double)cases[c].kept) : 0),
                     "top_p %g, id %zu: %g", cases[c].top_p, i, (double)p[i]);
    }
    filter(1, 0, 0.6, halves, 3);
    CU_ASSERT_DOUBLE_EQUAL(p[0], 1 / 3.0, 1e-7);
    CU_ASSERT_EQUAL(p[1], 0);
    CU_ASSERT_DOUBLE_EQUAL(p[2], 2 / 3.0, 1e-7);
}

/* Ids by a plain full sort, in the order of top_p. */
static void sort_ids(const float *logits, size_t n, size_t *ids)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = i;

        for (; at > 0 && logits[i] > logits[ids[at - 1]]; at--)
            ids[at] = ids[at - 1];
        ids[at] = i; /* behind its equals, which have lower ids */
    }
}

static void fill_random(float *logits, size_t n, uint32_t round, bool coarse)
{
    for (size_t i = 0; i < n; i++) {
        double u = kr_draw(77, 0, round, (uint32_t)i, 0);

        logits[i] = (float)(coarse ? floor(u * 9) - 4 : 12 * u - 6);
    }
}

static void against_full_sort(void)
{
    static const size_t sizes[] = {1, 2, 3, 16, 31, 64, 257, 1024};
    static const double levels[] = {0.01, 0.3, 0.5, 0.9, 0.95, 0.99, 0.999999, 0.99999999};
    static float logits[N_MAX], whole[N_MAX];
    static size_t ids[N_MAX];

    for (uint32_t round = 0; round < 8 * 8 * 4; round++) {
        size_t n = sizes[round % 8], kept = 0, k = 1 + round * 7 % n;
        double level = levels[round / 8 % 8], cumulative = 0, sum = 0;

        fill_random(logits, n, round, round & 1);
        sort_ids(logits, n, ids);
        filter(0.8, 0, 1, logits, n);
        memcpy(whole, p, sizeof(whole));
        while (kept < n && cumulative <= level)
            cumulative += (double)whole[ids[kept++]];
        filter(0.8, 0, level, logits, n);
        for (size_t i = 0; i < n; i++)
            sum += (double)p[i];
        CU_ASSERT_DOUBLE_EQUAL(sum, 1, 1e-6);
        for (size_t i = 0; i < n; i++) {
            double expected = i < kept ? (double)whole[ids[i]] / cumulative : 0;

            KT_CHECK(fabs((double)p[ids[i]] - expected) <= 1e-6 && (p[ids[i]] > 0) == (i < kept),
                     "round %u, n %zu, top_p %g, rank %zu", round, n, level, i);
        }
        filter(0.8, k, 1, logits, n);
        for (size_t i = 0; i < n; i++)
            KT_CHECK((p[i] > 0) == (logits[i] >= logits[ids[k - 1]]), "round %u, n %zu, top_k %zu",
                     round, n, k);
    }
}

/* top_p at, just below and just above every kind of partial sum: the set that stays is the one that adding up
 * in sorted order gives, to the last bit; with many ties, narrow and wide logits. */
static void edges_of_top_p(void)
{
    static const size_t sizes[] = {2, 17, 64, 300, 1024};
    static const double spreads[] = {1e-3, 0.5, 6, 40, 200};
    static float logits[N_MAX], whole[N_MAX];
    static size_t ids[N_MAX];
    size_t n_checked = 0;

    for (uint32_t round = 0; round < 5 * 5 * 4; round++) {
        size_t n = sizes[round % 5];
        double cumulative = 0;

        fill_random(logits, n, round + 5000, round & 1);
        for (size_t i = 0; i < n; i++)
            logits[i] = (float)(logits[i] * spreads[round / 5 % 5] / 6);
        sort_ids(logits, n, ids);
        filter(1, 0, 1, logits, n);
        memcpy(whole, p, sizeof(whole));
        for (size_t rank = 0; rank < n; rank++) {
            cumulative += (double)whole[ids[rank]];
            if (rank % (1 + n / 13) != round % (1 + n / 13) || cumulative >= 1)
                continue;
            for (int side = -1; side <= 1; side++) {
                double level = side ? nextafter(cumulative, side) : cumulative, sum = 0;
                size_t kept = 0;
                bool equal = true;

                if (level <= 0)
                    continue;
                while (kept < n && sum <= level)
                    sum += (double)whole[ids[kept++]];
                filter(1, 0, level, logits, n);
                for (size_t i = 0; i < n; i++)
                    equal &= (p[ids[i]] > 0) == (i < kept && whole[ids[i]] > 0);
                KT_CHECK(equal, "round %u, n %zu, rank %zu, side %d", round, n, rank, side);
                n_checked++;
            }
        }
    }
    kt_note("%zu levels", n_checked);
}

static void pick(void)
{
    static const float quarters[6] = {0, 0.25f, 0, 0.25f, 0.5f, 0};
    static const float short_of_one[3] = {0.5f, 0.25f, 0}; /* what rounding may leave */
    static const float one[1] = {1};

    CU_ASSERT_EQUAL(kr_pick(quarters, 6, 0), 1);
    CU_ASSERT_EQUAL(kr_pick(quarters, 6, 0.25 - 1e-16), 1);
    CU_ASSERT_EQUAL(kr_pick(quarters, 6, 0.25), 3);
    CU_ASSERT_EQUAL(kr_pick(quarters, 6, 0.49), 3);
    CU_ASSERT_EQUAL(kr_pick(quarters, 6, 0.5), 4);
    CU_ASSERT_EQUAL(kr_pick(quarters, 6, 1 - 0x1p-53), 4);
    CU_ASSERT_EQUAL(kr_pick(quarters, 6, 1), 4);
    CU_ASSERT_EQUAL(kr_pick(short_of_one, 3, 0.75), 1);
    CU_ASSERT_EQUAL(kr_pick(short_of_one, 3, 0.99), 1);
    CU_ASSERT_EQUAL(kr_pick(one, 1, 1 - 0x1p-53), 0);
}

static void pick_sums_in_double(void)
{
    /* In f32 a sum that has reached 1 stays there; in double 2^12 of 2^-30 add up to 2^-18. */
    static float many[4097];

    many[0] = 0.5f;
    for (size_t i = 1; i < 4097; i++)
        many[i] = 0x1p-30f;
    CU_ASSERT_EQUAL(kr_pick(many, 4097, 0.5), 1);
    CU_ASSERT_EQUAL(kr_pick(many, 4097, 0.5 + 0x1p-20), 1025);
}

/* Drawing in one go gives the id that the probabilities give. */
static void sample_is_filter_and_pick(void)
{
    static const struct kr_sampling samplings[] = {
        {1, 0, 1, false}, {0.7, 0, 0.9, false}, {1.3, 20, 1, false}};
    static float logits[257], scratch[257];

    for (uint32_t round = 0; round < 300; round++) {
        const struct kr_sampling *sampling = &samplings[round % 3];
        double u = kr_draw(78, 0, round, 0, 1);

        fill_random(logits, 257, round, round & 1);
        kr_filter(sampling, logits, 257, p, order);
        CU_ASSERT_EQUAL(kr_sample(sampling, logits, 257, u, scratch, order), kr_pick(p, 257, u));
    }
}

static void greedy(void)
{
    static const float logits[5] = {1, 4, -1, 4, 0};
    struct kr_sampling sampling = {1, 1, 1, false};

    CU_ASSERT_EQUAL(kr_sample(&sampling, logits, 5, 0, p, order), 1);
    CU_ASSERT_EQUAL(kr_sample(&sampling, logits, 5, 0.999, p, order), 1);
    sampling.top_k = 2;
    CU_ASSERT_EQUAL(kr_sample(&sampling, logits, 5, 0.499, p, order), 1);
    CU_ASSERT_EQUAL(kr_sample(&sampling, logits, 5, 0.501, p, order), 3);
}

static void not_finite_stays_inside(void)
{
    static const float bad[4][5] = {
        {NAN, NAN, NAN, NAN, NAN},
        {0, NAN, 1, NAN, 2},
        {INFINITY, 1, INFINITY, 0, -INFINITY},
        {-INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY},
    };
    static const struct kr_sampling samplings[] = {
        {1, 0, 1, false}, {1, 1, 1, false}, {1, 3, 1, false}, {1, 0, 0.5, false}};

    for (size_t i = 0; i < 4; i++)
        for (size_t s = 0; s < KR_ARRAY_LENGTH(samplings); s++)
            CU_ASSERT_TRUE(kr_sample(&samplings[s], bad[i], 5, 0.7, p, order) < 5);
}

static void golden_of(const char *path)
{
    static double params[60][3];
    static float logits[64], expected[60 * 64];
    struct kr_safetensors *file = NULL;
    const struct kr_tensor *tensor;
    double worst = 0;
    size_t n;

    CU_ASSERT_EQUAL_FATAL(kr_safetensors_open(path, &file, NULL), 0);
    tensor = kr_safetensors_find(file, "logits");
    n = tensor->n_items;
    CU_ASSERT_TRUE_FATAL(n >= 32 && n <= 64);
    CU_ASSERT_EQUAL_FATAL(kr_tensor_to_f32(tensor, logits), 0);
    tensor = kr_safetensors_find(file, "params");
    CU_ASSERT_TRUE_FATAL(tensor->dtype == KR_F64 && tensor->n_bytes == sizeof(params));
    memcpy(params, tensor->data, sizeof(params));
    tensor = kr_safetensors_find(file, "probs");
    CU_ASSERT_EQUAL_FATAL(tensor->n_items, 60 * n);
    CU_ASSERT_EQUAL_FATAL(kr_tensor_to_f32(tensor, expected), 0);
    kr_safetensors_close(&file);

    for (size_t row = 0; row < 60; row++) {
        filter(params[row][0], (size_t)params[row][1], params[row][2], logits, n);
        for (size_t i = 0; i < n; i++) {
            double difference = fabs((double)p[i] - (double)expected[row * n + i]);

            worst = fmax(worst, difference);
            KT_CHECK(difference <= 2e-5 && (p[i] == 0) == (expected[row * n + i] == 0),
                     "row %zu, id %zu: expected %.9g, found %.9g", row, i,
                     (double)expected[row * n + i], (double)p[i]);
        }
    }
    kt_note("%s: probs differ by at most %.3g", path, worst);
}

static void golden(void)
{
    golden_of(kt_source("golden/pico/filters.safetensors"));
    golden_of(kt_source("golden/odd/filters.safetensors"));
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"sampling parameters", check},
        {"softmax", softmax},
        {"extreme temperatures and logits", extremes_of_temperature},
        {"an impossible id has probability 0", impossible_is_zero},
        {"top_k keeps ties", top_k},
        {"top_p, ties by lower id", top_p},
        {"selection equals a full sort", against_full_sort},
        {"top_p at the edges", edges_of_top_p},
        {"inverse CDF and its end", pick},
        {"cumulative sums in double", pick_sums_in_double},
        {"sampling is filtering and picking", sample_is_filter_and_pick},
        {"greedy", greedy},
        {"logits that are not finite", not_finite_stays_inside},
        {"golden filter tables", golden},
    };

    return kt_main("filter", tests, KR_ARRAY_LENGTH(tests));
}
