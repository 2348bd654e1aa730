/* SPDX-License-Identifier: MIT */
#include "core/calibrate.h"
#include "core/summary.h"
#include "tests/core/market.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define N_LEVELS 3
#define N_STEPS  5
#define MEMBERS  16

static const double levels[N_LEVELS] = {0.05, 0.5, 0.95};
static unsigned char record[4096], other[4096];

#define CLOSE_TO(found, expected, tolerance)                                                       \
    KT_CHECK(fabs((found) - (expected)) <= (tolerance), "line %d: expected %.17g, found %.17g",    \
             __LINE__, (double)(expected), (double)(found))

static void open_calibrator(struct kr_calibrator *calibrator, uint64_t id)
{
    CU_ASSERT_EQUAL_FATAL(kr_calibrator_init(calibrator, N_STEPS, levels, N_LEVELS, NULL, id, NULL),
                          0);
}

/* n outcomes of each horizon, too wide by half. */
static void teach(struct kr_calibrator *calibrator, struct kt_random *random, int64_t from,
                  int64_t to)
{
    for (int64_t row = from; row < to; row++) {
        for (size_t step = 0; step < N_STEPS; step++) {
            double members[MEMBERS], q[N_LEVELS], u = 0.01 * sqrt((double)(step + 1));
            struct kr_ensemble ensemble = {
                .step = step, .sorted = members, .m = MEMBERS, .sigma = 0.01};
            struct kr_map map;

            for (size_t i = 0; i < MEMBERS; i++)
                members[i] = 1.5 * u * kt_normal(random);
            kr_sort(members, MEMBERS);
            kr_calibrate(calibrator, &ensemble, &map, q);
            kr_calibrator_learn(calibrator, &ensemble, u * kt_normal(random), q, row, row + 1);
        }
        kr_calibrator_settle(calibrator);
    }
}

static size_t pack(const struct kr_calibrator *calibrator, unsigned char *bytes)
{
    size_t length = 0;

    CU_ASSERT_EQUAL_FATAL(kr_calibrator_pack(calibrator, bytes, sizeof(record), &length), 0);
    CU_ASSERT_EQUAL(length, kr_calibrator_record_bytes(calibrator));
    return length;
}

static void init(void)
{
    static const double falling[2] = {0.5, 0.4}, one[2] = {0.5, 1}, not_one[2] = {0.5, NAN};
    static const double *const bad[3] = {falling, one, not_one};
    struct kr_calibrator calibrator = {.n_steps = 99};
    struct kr_prior prior = kr_prior_identity;
    struct kr_error error;

    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(kr_calibrator_init(&calibrator, 1, bad[i], 2, NULL, 1, &error), -EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(error.text, "levels"));
    }
    CU_ASSERT_EQUAL(kr_calibrator_init(&calibrator, 0, levels, 3, NULL, 1, NULL), -EINVAL);
    CU_ASSERT_EQUAL(kr_calibrator_init(&calibrator, 1, levels, 0, NULL, 1, NULL), -EINVAL);
    CU_ASSERT_EQUAL(kr_calibrator_init(&calibrator, SIZE_MAX / 8, levels, 3, NULL, 1, NULL),
                    -ENOMEM);
    prior.scale[2] = 9;
    CU_ASSERT_EQUAL(kr_calibrator_init(&calibrator, 1, levels, 3, &prior, 1, &error), -EINVAL);
    CU_ASSERT_STRING_EQUAL(error.text, "prior: scale: expected 0.125 to 8, number 3 is not");
    CU_ASSERT_EQUAL(calibrator.n_steps, 99);
    CU_ASSERT_EQUAL(kr_calibrator_size_bytes(SIZE_MAX / 8, 3), 0);
    CU_ASSERT_EQUAL(kr_calibrator_size_bytes(1, SIZE_MAX / 2), 0);
    CU_ASSERT_EQUAL(kr_calibrator_size_bytes(24, 7),
                    kr_round_up(8 * (7 + 24 * (3 + 7 + 3 + 7 + 2 * 7)), KR_ALIGNMENT));

    calibrator = (struct kr_calibrator){0};
    kr_calibrator_free(&calibrator);
    open_calibrator(&calibrator, 1);
    kr_calibrator_free(&calibrator);
    kr_calibrator_free(&calibrator);
}

static void priors(void)
{
    const struct kr_prior identity = kr_prior_identity;
    struct kr_prior prior = {.scale = {1, 0.9, 0.7, 0.5},
                             .shift = {0, 0.1, 0.2, 0.4},
                             .follow = {1, 0.5, 0.25, 0},
                             .scale_weight = 10,
                             .shift_weight = 50,
                             .follow_weight = 16};
    struct kr_calibrator calibrator;
    double *const numbers[6] = {&prior.scale[0],     &prior.shift[3],     &prior.follow[1],
                                &prior.scale_weight, &prior.shift_weight, &prior.follow_weight};
    static const double too_much[6] = {8.1, 4.1, 1.1, 1e7, 1e7, 1e7};

    CU_ASSERT_EQUAL(kr_prior_check(&identity, NULL), 0);
    CU_ASSERT_EQUAL(kr_prior_check(&prior, NULL), 0);
    for (size_t i = 0; i < 6; i++) {
        double kept = *numbers[i];

        *numbers[i] = too_much[i];
        CU_ASSERT_EQUAL(kr_prior_check(&prior, NULL), -EINVAL);
        *numbers[i] = -5;
        CU_ASSERT_EQUAL(kr_prior_check(&prior, NULL), -EINVAL);
        *numbers[i] = NAN;
        CU_ASSERT_EQUAL(kr_prior_check(&prior, NULL), -EINVAL);
        *numbers[i] = kept;
    }
    prior.scale_weight = 0;
    CU_ASSERT_EQUAL(kr_prior_check(&prior, NULL), -EINVAL);
    prior.scale_weight = 10;

    CLOSE_TO(kr_prior_at(prior.scale, 0), 1, 1e-15);     /* h = 1 */
    CLOSE_TO(kr_prior_at(prior.scale, 1), 0.95, 1e-15);  /* 2, half way to 4 */
    CLOSE_TO(kr_prior_at(prior.scale, 3), 0.9, 1e-15);   /* 4 */
    CLOSE_TO(kr_prior_at(prior.scale, 31), 0.6, 1e-15);  /* 32 */
    CLOSE_TO(kr_prior_at(prior.scale, 63), 0.5, 1e-15);  /* 64 */
    CLOSE_TO(kr_prior_at(prior.scale, 511), 0.5, 1e-15); /* 512 */

    /* what a fresh calibrator is in force with */
    CU_ASSERT_EQUAL_FATAL(kr_calibrator_init(&calibrator, 24, levels, 3, &prior, 1, NULL), 0);
    CLOSE_TO(calibrator.estimate[3].scale, 0.9, 1e-12);
    CLOSE_TO(calibrator.estimate[3].shift, 0.1, 1e-12);
    CLOSE_TO(calibrator.estimate[3].follow, 0.5, 1e-12);
    kr_calibrator_free(&calibrator);
}

static void pooled_priors(void)
{
    const struct kr_calibrator *both[2];
    struct kr_calibrator a, b;
    struct kr_prior pooled;

    open_calibrator(&a, 1);
    open_calibrator(&b, 1);
    for (size_t step = 0; step < N_STEPS; step++) {
        a.estimate[step] = (struct kr_estimate){.scale = 0.5, .shift = 0.1, .follow = 0.25};
        b.estimate[step] = (struct kr_estimate){.scale = 2, .shift = 0.3, .follow = 0.75};
    }
    a.estimate[3].scale = 1; /* h = 4 */
    a.estimate[4].scale = 4; /* the last one stands for 16 and 64 */
    both[0] = &a;
    both[1] = &b;
    pooled = kr_prior_pool(both, 2, &kr_prior_identity);
    CLOSE_TO(pooled.scale[0], 1, 1e-12);
    CLOSE_TO(pooled.scale[1], sqrt(2), 1e-12);
    CLOSE_TO(pooled.scale[2], sqrt(8), 1e-12);
    CLOSE_TO(pooled.scale[3], sqrt(8), 1e-12);
    CLOSE_TO(pooled.shift[2], 0.2, 1e-12);
    CLOSE_TO(pooled.follow[2], 0.5, 1e-12);
    CU_ASSERT_EQUAL(pooled.scale_weight, kr_prior_identity.scale_weight);
    CU_ASSERT_EQUAL(kr_prior_check(&pooled, NULL), 0);
    kr_calibrator_free(&a);
    kr_calibrator_free(&b);
}

/* A prior that was right all along is worth the first origins. */
static void a_prior_helps(void)
{
    struct kt_random one = {.seed = 21}, two = {.seed = 21};
    struct kr_prior knows = kr_prior_identity;
    struct kr_calibrator informed, naive;

    for (size_t i = 0; i < KR_PRIOR_KNOTS; i++)
        knows.scale[i] = 1 / 1.5;
    CU_ASSERT_EQUAL_FATAL(kr_calibrator_init(&informed, N_STEPS, levels, N_LEVELS, &knows, 1, NULL),
                          0);
    open_calibrator(&naive, 1);
    teach(&informed, &one, 0, 3);
    teach(&naive, &two, 0, 3);
    CU_ASSERT(fabs(informed.estimate[4].scale * 1.5 - 1) < 0.2);
    CU_ASSERT(naive.estimate[4].scale * 1.5 > 1.2);
    teach(&informed, &one, 3, 400);
    teach(&naive, &two, 3, 400);
    CLOSE_TO(naive.estimate[4].scale / informed.estimate[4].scale, 1, 0.1);
    kr_calibrator_free(&informed);
    kr_calibrator_free(&naive);
}

static void identity(void)
{
    const struct kr_calibration_key key = {.model_sha256 = "ab",
                                           .mode = "rolling",
                                           .temperature = 1,
                                           .top_p = 1,
                                           .n_paths = 32,
                                           .scale = true,
                                           .join = true,
                                           .repair = true};
    struct kr_calibration_key keys[10];
    uint64_t ids[10];

    for (size_t i = 0; i < 10; i++)
        keys[i] = key;
    keys[0].model_sha256 = "ac";
    keys[1].mode = "exact";
    keys[2].temperature = 1.0000000001;
    keys[3].top_p = 0.9;
    keys[4].top_k = 5;
    keys[5].n_paths = 33;
    keys[6].scale = false;
    keys[7].join = false;
    keys[8].repair = false;
    keys[9].stratified = true;
    for (size_t i = 0; i < 10; i++) {
        ids[i] = kr_calibration_id(&keys[i]);
        CU_ASSERT_NOT_EQUAL(ids[i], kr_calibration_id(&key));
        for (size_t j = 0; j < i; j++)
            CU_ASSERT_NOT_EQUAL(ids[i], ids[j]);
    }
}

static void reset(void)
{
    struct kt_random random = {.seed = 22};
    struct kr_calibrator calibrator, fresh;
    size_t length;

    open_calibrator(&calibrator, 1);
    open_calibrator(&fresh, 2);
    teach(&calibrator, &random, 0, 30);
    kr_calibrator_reset(&calibrator, 2);
    CU_ASSERT_EQUAL(kr_calibrator_n(&calibrator), 0);
    CU_ASSERT_EQUAL(calibrator.estimate[0].scale, 1);
    length = pack(&calibrator, record);
    CU_ASSERT_EQUAL(pack(&fresh, other), length);
    CU_ASSERT_EQUAL(memcmp(record, other, length), 0);
    kr_calibrator_free(&calibrator);
    kr_calibrator_free(&fresh);
}

/* Kept, restored, continued: to the last byte as if nothing had happened. */
static void round_trip(void)
{
    struct kt_random random = {.seed = 23}, again;
    struct kr_calibrator calibrator, back;
    size_t length;

    open_calibrator(&calibrator, 1);
    open_calibrator(&back, 1);
    teach(&calibrator, &random, -30, 100);
    length = pack(&calibrator, record);
    CU_ASSERT_EQUAL_FATAL(kr_calibrator_unpack(&back, record, length), 0);
    CU_ASSERT_EQUAL(
        memcmp(calibrator.estimate, back.estimate, N_STEPS * sizeof(struct kr_estimate)), 0);
    again = random;
    teach(&calibrator, &random, 100, 200);
    teach(&back, &again, 100, 200);
    pack(&calibrator, record);
    pack(&back, other);
    CU_ASSERT_EQUAL(memcmp(record, other, length), 0);
    CU_ASSERT_EQUAL(kr_calibrator_pack(&back, other, length - 1, NULL), -ENOBUFS);
    kr_calibrator_free(&calibrator);
    kr_calibrator_free(&back);
}

static void damage(void)
{
    struct kt_random random = {.seed = 24};
    struct kr_calibrator calibrator, back;
    size_t length, length_before;

    open_calibrator(&calibrator, 1);
    open_calibrator(&back, 1);
    teach(&calibrator, &random, 0, 40);
    teach(&back, &random, 0, 3);
    length = pack(&calibrator, record);
    length_before = pack(&back, other);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        record[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CU_ASSERT_EQUAL(kr_calibrator_unpack(&back, record, length), -EBADMSG);
        record[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t n = 0; n < length; n++)
        CU_ASSERT_EQUAL(kr_calibrator_unpack(&back, record, n), -EBADMSG);
    pack(&back, record);
    CU_ASSERT_EQUAL(memcmp(record, other, length_before), 0); /* unchanged by all that */
    kr_calibrator_free(&calibrator);
    kr_calibrator_free(&back);
}

static void of_another(void)
{
    static const double other_levels[N_LEVELS] = {0.05, 0.5, 0.9};
    struct kt_random random = {.seed = 25};
    struct kr_calibrator calibrator, model, horizon, level, fewer;
    size_t length;

    open_calibrator(&calibrator, 1);
    teach(&calibrator, &random, 0, 40);
    length = pack(&calibrator, record);
    open_calibrator(&model, 2);
    CU_ASSERT_EQUAL_FATAL(kr_calibrator_init(&horizon, 4, levels, N_LEVELS, NULL, 1, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(
        kr_calibrator_init(&level, N_STEPS, other_levels, N_LEVELS, NULL, 1, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(kr_calibrator_init(&fewer, N_STEPS, levels, 2, NULL, 1, NULL), 0);
    CU_ASSERT_EQUAL(kr_calibrator_unpack(&model, record, length), -ESTALE);
    CU_ASSERT_EQUAL(kr_calibrator_unpack(&horizon, record, length), -ESTALE);
    CU_ASSERT_EQUAL(kr_calibrator_unpack(&level, record, length), -ESTALE);
    CU_ASSERT_EQUAL(kr_calibrator_unpack(&fewer, record, length), -ESTALE);
    CU_ASSERT_EQUAL(kr_calibrator_n(&model), 0);
    kr_calibrator_free(&calibrator);
    kr_calibrator_free(&model);
    kr_calibrator_free(&horizon);
    kr_calibrator_free(&level);
    kr_calibrator_free(&fewer);
}

static void sign(unsigned char *bytes, size_t length)
{
    uint32_t crc = kr_crc32(bytes, length - 4);

    for (size_t i = 0; i < 4; i++)
        bytes[length - 4 + i] = (unsigned char)(crc >> 8 * i);
}

/* Whoever can write the database can make the CRC fit. Fields: n_learned 48, last_row 56, then the
 * first horizon: n 64, weight 72, origin_row 80, sums 88 .. 143, alpha and offset of the first
 * level 144, 152. */
static void hostile(void)
{
    static const unsigned char nan_bytes[8] = {0, 0, 0, 0, 0, 0, 0xf8, 0x7f};
    static const unsigned char huge[8] = {0, 0, 0, 0, 0, 0, 0xe0, 0x7f};
    static const unsigned char minus[8] = {0, 0, 0, 0, 0, 0, 0xf0, 0xbf};
    static const unsigned char five[8] = {0, 0, 0, 0, 0, 0, 0x14, 0x40};
    static const unsigned char ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    static const struct {
        size_t at;
        const unsigned char *bytes;
    } cases[] = {
        {48, ones},       {64, ones},  {72, nan_bytes}, {72, huge},   {72, minus},
        {88, nan_bytes},  {88, huge},  {88, minus},     {96, minus},  {104, huge},
        {112, minus},     {136, huge}, {144, five},     {144, minus}, {144, nan_bytes},
        {152, nan_bytes}, {152, five},
    };
    struct kt_random random = {.seed = 26};
    struct kr_calibrator calibrator, back;
    size_t length, accepted = 0;

    open_calibrator(&calibrator, 1);
    open_calibrator(&back, 1);
    teach(&calibrator, &random, 0, 40);
    length = pack(&calibrator, record);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        memcpy(other, record, length);
        memcpy(other + cases[i].at, cases[i].bytes, 8);
        sign(other, length);
        KT_CHECK(kr_calibrator_unpack(&back, other, length) == -EBADMSG, "case %zu", i);
    }
    CU_ASSERT_EQUAL(kr_calibrator_n(&back), 0);
    memcpy(other, record, length);
    other[4] = 9; /* the version */
    sign(other, length);
    CU_ASSERT_EQUAL(kr_calibrator_unpack(&back, other, length), -EPROTO);

    /* rows may be anything; any byte may be: what is accepted works */
    memcpy(other, record, length);
    memset(other + 56, 0x80, 8);
    memset(other + 80, 0x7f, 8);
    sign(other, length);
    CU_ASSERT_EQUAL(kr_calibrator_unpack(&back, other, length), 0);
    teach(&back, &random, 0, 2);
    (void)kr_calibrator_status(&back, INT64_MIN);
    for (size_t trial = 0; trial < 3000; trial++) {
        memcpy(other, record, length);
        for (size_t i = 0; i < 1 + trial % 3; i++)
            other[8 + (size_t)((double)(length - 12) * kt_uniform(&random))] =
                (unsigned char)(256 * kt_uniform(&random));
        sign(other, length);
        if (kr_calibrator_unpack(&back, other, length) < 0)
            continue;
        accepted++;
        teach(&back, &random, 100, 101);
        for (size_t step = 0; step < N_STEPS; step++)
            CU_ASSERT(isfinite(back.estimate[step].scale) && isfinite(back.estimate[step].shift) &&
                      isfinite(back.estimate[step].follow));
    }
    kt_note("%zu of 3000 changed records accepted", accepted);
    kr_calibrator_free(&calibrator);
    kr_calibrator_free(&back);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"init", init},
        {"priors", priors},
        {"pooled priors", pooled_priors},
        {"a prior helps", a_prior_helps},
        {"identity", identity},
        {"reset", reset},
        {"records: round trip", round_trip},
        {"records: damage", damage},
        {"records: of another", of_another},
        {"records: hostile", hostile},
    };

    return kt_main("calibrate_state", tests, KR_ARRAY_LENGTH(tests));
}
