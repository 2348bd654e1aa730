/* SPDX-License-Identifier: MIT */
/* Row purity: cached = uncached = batched = truncated and appended again, byte for byte, on the K and V of
 * all four caches and on the paths, against a plain full recomputation (reference.c), under the kernels of
 * several processors. And the test can fail: a wrong position, a short prefix, another path's suffix. */
#include "core/draw.h"
#include "core/kernels.h"
#include "core/live.h"
#include "tests/core/golden.h"
#include "tests/core/reference.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BARS      37
#define HORIZON   7
#define MAX_PATHS 32

extern char **environ;

/* Mutations, through the linker's --wrap of what generate.c calls */

static enum mutation { NONE, POSITION, SHORT_PREFIX, OTHER_SUFFIX } mutation;

void __real_kr_predict_rows(struct kr_engine *engine, const struct kr_view *views,
                            const uint16_t *s1, const uint16_t *s2, const struct kr_stamp *stamps,
                            size_t n);
void __wrap_kr_predict_rows(struct kr_engine *engine, const struct kr_view *views,
                            const uint16_t *s1, const uint16_t *s2, const struct kr_stamp *stamps,
                            size_t n);

void __wrap_kr_predict_rows(struct kr_engine *engine, const struct kr_view *views,
                            const uint16_t *s1, const uint16_t *s2, const struct kr_stamp *stamps,
                            size_t n)
{
    struct kr_view changed[KR_ENGINE_ROWS];

    for (size_t i = 0; i < n; i++) {
        changed[i] = views[i];
        if (!views[i].prefix)
            continue;
        changed[i].position += mutation == POSITION;
        changed[i].n_prefix -= mutation == SHORT_PREFIX;
        if (mutation == OTHER_SUFFIX)
            changed[i].own = views[0].own;
    }
    __real_kr_predict_rows(engine, changed, s1, s2, stamps, n);
}

/* Data */

static double uniform(uint32_t i, uint32_t what)
{
    return kr_draw(20260101, 7, i, what, 0);
}

/* A random walk on a five-minute grid, calendar included. */
static void make_bars(struct kr_bar *bars, size_t n, uint32_t seed)
{
    double price = 100 + seed;

    for (size_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)i + 1000 * seed;
        double open = price, close = open * exp(0.01 * (uniform(at, 1) - 0.5));

        bars[i].t_ns = (int64_t)i * 300 * 1000000000;
        bars[i].v[KR_OPEN] = open;
        bars[i].v[KR_CLOSE] = close;
        bars[i].v[KR_HIGH] = fmax(open, close) * (1 + 0.002 * uniform(at, 2));
        bars[i].v[KR_LOW] = fmin(open, close) * (1 - 0.002 * uniform(at, 3));
        bars[i].v[KR_VOLUME] = 100 * uniform(at, 4);
        bars[i].v[KR_AMOUNT] = NAN;
        kr_bar_fill(bars[i].v);
        bars[i].stamp = (struct kr_stamp){(uint8_t)(i * 5 % 60), (uint8_t)(i / 12 % 24),
                                          (uint8_t)(i / 288 % 7), (uint8_t)(1 + i / 288 % 28), 3};
        price = close;
    }
}

struct data {
    struct kr_model *model;
    struct kr_engine engine;
    struct kr_bar bars[BARS + HORIZON];
    struct kr_stamp stamps[BARS + HORIZON];
    struct kr_normaliser normaliser;
    float x[BARS * KR_COLUMNS];
};

static void data_open(struct data *data, const char *model, uint32_t seed)
{
    memset(data, 0, sizeof(*data));
    data->model = kt_model(model);
    CU_ASSERT_PTR_NOT_NULL_FATAL(data->model);
    CU_ASSERT_EQUAL_FATAL(kr_engine_init(&data->engine, data->model, BARS + HORIZON), 0);
    make_bars(data->bars, BARS + HORIZON, seed);
    kr_normaliser_fit(&data->normaliser, data->bars, BARS, false);
    for (size_t i = 0; i < BARS + HORIZON; i++)
        data->stamps[i] = data->bars[i].stamp;
    for (size_t i = 0; i < BARS; i++)
        kr_normaliser_apply(&data->normaliser, &data->bars[i], data->x + i * KR_COLUMNS);
}

static void data_close(struct data *data)
{
    kr_engine_free(&data->engine);
    kr_model_free(&data->model);
}

/* Caches against the reference */

static bool cache_equals(const struct kr_cache *cache, const struct kt_kv *kv, size_t n)
{
    size_t width = kv->width;
    float k[1024], v[1024];

    if (cache->len != n || kv->n_rows < n || cache->shape.n_layers != kv->n_layers ||
        cache->shape.n_heads * cache->shape.head_dim != width)
        return false;
    for (size_t layer = 0; layer < kv->n_layers; layer++)
        for (size_t row = 0; row < n; row++) {
            kr_cache_read(cache, layer, row, k, v);
            if (memcmp(k, kv->k + (layer * kv->n_rows + row) * width, width * sizeof(float)) ||
                memcmp(v, kv->v + (layer * kv->n_rows + row) * width, width * sizeof(float)))
                return false;
        }
    return true;
}

/* All four caches of a state whose window is the data's first n bars. */
static bool state_equals(const struct kr_state *state, const struct data *data, size_t n)
{
    const struct kr_model *model = data->model;
    uint16_t s1[BARS], s2[BARS];
    float h[BARS * 128], y[BARS * KR_COLUMNS];
    struct kt_kv kv[KR_CACHES];
    bool equal;

    kt_ref_encode(model, data->x, n, s1, s2, &kv[KR_CACHE_ENCODER]);
    kt_ref_predict(model, s1, s2, data->stamps, n, h, &kv[KR_CACHE_TRUNK],
                   &kv[KR_CACHE_DEPENDENCY]);
    kt_ref_decode(model, s1, s2, n, y, &kv[KR_CACHE_DECODER]);
    equal = state->len == n && memcmp(state->s1, s1, n * sizeof(*s1)) == 0 &&
            memcmp(state->s2, s2, n * sizeof(*s2)) == 0 &&
            memcmp(state->h, h + (n - 1) * model->predictor.d_model,
                   model->predictor.d_model * sizeof(float)) == 0 &&
            memcmp(state->decoded, y + (n - 1) * KR_COLUMNS, sizeof(state->decoded)) == 0 &&
            kr_state_check(state, NULL) == 0;
    for (int c = 0; c < KR_CACHES; c++) {
        equal = equal && cache_equals(&state->caches[c], &kv[c], n);
        kt_kv_free(&kv[c]);
    }
    return equal;
}

static bool append_in(struct kr_state *state, struct data *data, size_t first, size_t n,
                      size_t chunk)
{
    for (size_t done = 0; done < n; done += chunk)
        if (kr_state_append(state, &data->engine, data->bars + first + done,
                            KR_MIN(chunk, n - done)) < 0)
            return false;
    return true;
}

static void caches_of(const char *name)
{
    static const size_t chunks[] = {BARS, 1, 3, 8, 13};
    struct kr_state state;
    struct data data;

    data_open(&data, name, 1);
    CU_ASSERT_EQUAL_FATAL(kr_state_init(&state, data.model, BARS, BARS), 0);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(chunks); i++) {
        kr_state_reset(&state, &data.normaliser, 0);
        CU_ASSERT_TRUE(append_in(&state, &data, 0, BARS, chunks[i]));
        KT_CHECK(state_equals(&state, &data, BARS), "%s: appended by %zu", name, chunks[i]);
        /* truncated and appended again, by another way */
        CU_ASSERT_EQUAL(kr_state_truncate(&state, 20 + i), 0);
        CU_ASSERT_TRUE(append_in(&state, &data, 20 + i, BARS - 20 - i, 1 + i));
        KT_CHECK(state_equals(&state, &data, BARS), "%s: %zu, truncated, appended", name,
                 chunks[i]);
        CU_ASSERT_EQUAL(kr_state_truncate(&state, BARS - 1), 0);
        CU_ASSERT_TRUE(append_in(&state, &data, BARS - 1, 1, 1));
        CU_ASSERT_TRUE(state_equals(&state, &data, BARS));
    }
    CU_ASSERT_EQUAL(kr_state_truncate(&state, BARS + 1), -ERANGE);
    CU_ASSERT_EQUAL(kr_state_append(&state, &data.engine, data.bars, 1), -ENOSPC);
    CU_ASSERT_TRUE(state_equals(&state, &data, BARS));
    kr_state_free(&state);
    data_close(&data);
}

static void caches(void)
{
    caches_of("pico");
    caches_of("odd");
}

/* Rows of two streams in one block, interleaved. */
static void batched(void)
{
    struct data a, b;
    struct kr_state states[2];
    struct data *data[2] = {&a, &b};
    struct kr_view views[3][KR_ENGINE_ROWS];
    float x[KR_ENGINE_ROWS * KR_COLUMNS], y[KR_ENGINE_ROWS * KR_COLUMNS];
    uint16_t s1[KR_ENGINE_ROWS], s2[KR_ENGINE_ROWS];
    struct kr_stamp stamps[KR_ENGINE_ROWS];
    static const int order[] = {0, 1, 1, 0, 0, 1, 0, 1, 1, 1, 0};
    size_t n = KR_ARRAY_LENGTH(order), count[2] = {0, 0};

    data_open(&a, "odd", 1);
    data_open(&b, "odd", 2);
    for (int s = 0; s < 2; s++) {
        size_t rows = 0;

        for (size_t i = 0; i < n; i++)
            rows += order[i] == s;
        CU_ASSERT_EQUAL_FATAL(kr_state_init(&states[s], a.model, BARS, BARS), 0);
        kr_state_reset(&states[s], &data[s]->normaliser, 0);
        CU_ASSERT_TRUE(append_in(&states[s], data[s], 0, BARS - rows, 7));
    }
    for (size_t i = 0; i < n; i++) {
        struct kr_state *state = &states[order[i]];
        size_t row = state->len + count[order[i]]++;

        for (int c = 0; c < 3; c++)
            views[c][i] = (struct kr_view){.index = row, .position = row};
        memcpy(x + i * KR_COLUMNS, data[order[i]]->x + row * KR_COLUMNS,
               KR_COLUMNS * sizeof(float));
        stamps[i] = data[order[i]]->stamps[row];
    }
    for (size_t i = 0; i < n; i++)
        views[0][i].own = &states[order[i]].caches[KR_CACHE_ENCODER];
    kr_encode_rows(&a.engine, views[0], x, n, s1, s2, NULL);
    for (size_t i = 0; i < n; i++)
        views[0][i].own = &states[order[i]].caches[KR_CACHE_TRUNK];
    kr_predict_rows(&a.engine, views[0], s1, s2, stamps, n);
    for (size_t i = 0; i < n; i++) {
        struct kr_state *state = &states[order[i]];

        memcpy(state->h, a.engine.normed + i * a.engine.width,
               a.model->predictor.d_model * sizeof(float));
        views[0][i].own = &state->caches[KR_CACHE_DEPENDENCY];
    }
    kr_dependency_rows(&a.engine, views[0], n);
    for (size_t i = 0; i < n; i++)
        views[0][i].own = &states[order[i]].caches[KR_CACHE_DECODER];
    kr_decode_rows(&a.engine, views[0], s1, s2, n, y);
    for (size_t i = 0; i < n; i++) {
        struct kr_state *state = &states[order[i]];

        memcpy(state->decoded, y + i * KR_COLUMNS, sizeof(state->decoded));
        state->s1[state->len] = s1[i];
        state->s2[state->len] = s2[i];
        state->len++;
        for (int c = 0; c < KR_CACHES; c++)
            CU_ASSERT_EQUAL(kr_cache_append(&state->caches[c], 1), 0);
    }
    for (int s = 0; s < 2; s++) {
        KT_CHECK(state_equals(&states[s], data[s], BARS), "stream %d in a mixed block", s);
        kr_state_free(&states[s]);
    }
    data_close(&a);
    data_close(&b);
}

/* Paths against the reference */

struct outcome {
    uint16_t s1[MAX_PATHS * HORIZON], s2[MAX_PATHS * HORIZON];
    float bars[MAX_PATHS * HORIZON * KR_COLUMNS];
};

static void reference_outcome(const struct data *data, size_t n, size_t max_context, size_t n_paths,
                              struct outcome *ret)
{
    for (size_t path = 0; path < n_paths; path++) {
        struct kt_ref_request request = {.x = data->x,
                                         .stamps = data->stamps,
                                         .future = data->stamps + n,
                                         .n = n,
                                         .horizon = HORIZON,
                                         .max_context = max_context,
                                         .sampling = {1.0, 0, 1.0, false},
                                         .key = 99,
                                         .as_of_ns = 1234567890123,
                                         .path = (uint32_t)path,
                                         .normaliser = data->normaliser};

        kt_ref_path(data->model, &request, ret->s1 + path * HORIZON, ret->s2 + path * HORIZON,
                    ret->bars + path * HORIZON * KR_COLUMNS);
    }
}

/* Forecast behind the first n bars, appended by `chunk`. */
static bool forecast_equals(struct data *data, size_t n, size_t max_context, size_t n_paths,
                            size_t chunk, const struct outcome *expected)
{
    struct kr_generator_size size = {.max_paths = n_paths,
                                     .max_horizon = HORIZON,
                                     .max_context = max_context,
                                     .min_window = KR_MIN(n, max_context),
                                     .max_window = KR_MIN(n, max_context)};
    struct kr_request request = {.horizon = HORIZON,
                                 .paths = n_paths,
                                 .max_context = max_context,
                                 .sampling = {1.0, 0, 1.0, false},
                                 .key = 99,
                                 .as_of_ns = 1234567890123,
                                 .future = data->stamps + n};
    struct kr_generator generator;
    struct kr_state state;
    struct kr_paths paths;
    bool equal;

    CU_ASSERT_EQUAL_FATAL(kr_generator_init(&generator, data->model, &size, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(kr_paths_init(&paths, n_paths, HORIZON), 0);
    CU_ASSERT_EQUAL_FATAL(kr_state_init(&state, data->model, KR_MIN(n, max_context), n), 0);
    kr_state_reset(&state, &data->normaliser, n > max_context ? n - max_context : 0);
    CU_ASSERT_TRUE(append_in(&state, data, 0, n, chunk));
    CU_ASSERT_EQUAL(kr_generate(&generator, &data->engine, &state, &request, &paths, NULL), 0);
    equal = memcmp(paths.s1, expected->s1, n_paths * HORIZON * sizeof(*paths.s1)) == 0 &&
            memcmp(paths.s2, expected->s2, n_paths * HORIZON * sizeof(*paths.s2)) == 0 &&
            memcmp(paths.bars, expected->bars, n_paths * HORIZON * KR_COLUMNS * sizeof(float)) == 0;
    kr_state_free(&state);
    kr_paths_free(&paths);
    kr_generator_free(&generator);
    return equal;
}

static const size_t path_counts[] = {1, 2, 7, 32};

static void paths_of(const char *name)
{
    static struct outcome expected;
    struct data data;

    data_open(&data, name, 3);
    reference_outcome(&data, BARS, BARS + HORIZON, MAX_PATHS, &expected);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(path_counts); i++) {
        KT_CHECK(forecast_equals(&data, BARS, BARS + HORIZON, path_counts[i], BARS, &expected),
                 "%s: %zu paths, prefilled", name, path_counts[i]);
        KT_CHECK(forecast_equals(&data, BARS, BARS + HORIZON, path_counts[i], 1, &expected),
                 "%s: %zu paths, appended", name, path_counts[i]);
    }
    data_close(&data);
}

static void paths(void)
{
    paths_of("pico");
    paths_of("odd");
}

/* Few paths have caches by themselves, more lie side by side. */
static const size_t both_ways[] = {7, 9};

/* The window slides: early, from the first step on, and with a horizon longer than the context. */
static void sliding_of(size_t n_paths)
{
    static const size_t contexts[] = {BARS + 4, BARS, BARS - 10, HORIZON, HORIZON - 4};
    static struct outcome expected;
    struct data data;

    data_open(&data, "pico", 4);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(contexts); i++) {
        reference_outcome(&data, BARS, contexts[i], n_paths, &expected);
        KT_CHECK(forecast_equals(&data, BARS, contexts[i], n_paths, 5, &expected),
                 "max_context %zu", contexts[i]);
    }
    /* a short window that grows past the context while the horizon is longer than it */
    kr_normaliser_fit(&data.normaliser, data.bars, 3, false);
    for (size_t i = 0; i < 3; i++)
        kr_normaliser_apply(&data.normaliser, &data.bars[i], data.x + i * KR_COLUMNS);
    for (size_t context = 3; context < 9; context++) {
        reference_outcome(&data, 3, context, n_paths, &expected);
        KT_CHECK(forecast_equals(&data, 3, context, n_paths, 3, &expected),
                 "3 bars, max_context %zu", context);
    }
    data_close(&data);
}

static void sliding(void)
{
    for (size_t i = 0; i < KR_ARRAY_LENGTH(both_ways); i++)
        sliding_of(both_ways[i]);
}

/* Each mutation turns the test red; without one it is green again. */
static void mutations_of(size_t n_paths)
{
    static const char *const names[] = {"none", "position + 1", "prefix one row short",
                                        "another path's suffix"};
    static struct outcome expected;
    struct data data;

    data_open(&data, "pico", 3);
    reference_outcome(&data, BARS, BARS + HORIZON, n_paths, &expected);
    for (int m = OTHER_SUFFIX; m >= NONE; m--) {
        bool equal;

        mutation = (enum mutation)m;
        equal = forecast_equals(&data, BARS, BARS + HORIZON, n_paths, BARS, &expected);
        kt_note("%zu paths, mutation %s: %s", n_paths, names[m], equal ? "equal" : "differs");
        KT_CHECK(equal == (m == NONE), "mutation %s went unnoticed", names[m]);
    }
    data_close(&data);
}

static void mutations(void)
{
    for (size_t i = 0; i < KR_ARRAY_LENGTH(both_ways); i++)
        mutations_of(both_ways[i]);
}

/* Products: a row is the same at every position of a block and in every batch size. */
static void positions(void)
{
    static const size_t shapes[][2] = {{32, 32},   {64, 32},   {104, 140},  {10, 36},
                                       {256, 256}, {512, 256}, {256, 512},  {1024, 256},
                                       {832, 832}, {6, 36},    {2048, 832}, {36, 6}};
    const size_t n_rows = 40;
    const struct kr_products *products = kt_products;

    if (!products)
        CU_ASSERT_EQUAL_FATAL(kr_products_choose(KR_MATMUL_AUTO, KR_F32_PRODUCTS, &products, NULL),
                              0);
    for (size_t s = 0; s < KR_ARRAY_LENGTH(shapes); s++) {
        size_t n_out = shapes[s][0], n_in = shapes[s][1];
        float *w = kr_alloc(n_out * n_in, sizeof(float)), *bias = kr_alloc(n_out, sizeof(float));
        float *x = kr_alloc(n_rows * n_in, sizeof(float)),
              *y = kr_alloc(n_rows * n_out, sizeof(float));
        float *alone = kr_alloc(KR_BLOCK_ROWS * n_out, sizeof(float));
        float *one = kr_alloc(KR_BLOCK_ROWS * n_in, sizeof(float));
        struct kr_linear linear = {n_out, n_in, w, bias, NULL, NULL};
        void *packed = NULL;
        size_t wrong = 0;

        for (size_t i = 0; i < n_out * n_in; i++)
            w[i] = (float)(uniform((uint32_t)i, 10) - 0.5);
        for (size_t i = 0; i < n_out; i++)
            bias[i] = (float)(uniform((uint32_t)i, 11) - 0.5);
        for (size_t i = 0; i < n_rows * n_in; i++)
            x[i] = (float)(uniform((uint32_t)i, 12) - 0.5);
        if (products->panel > 0) {
            packed = kr_alloc(1, kr_linear_packed_bytes(&linear, products));
            kr_linear_pack(&linear, products, w, packed);
        }
        memcpy(one, x, n_in * sizeof(float));
        kr_product(&linear, one, n_in, alone, n_out, 1);
        for (size_t at = 0; at < 16; at++)
            for (size_t n = at + 1; n <= 33; n += 4) {
                float *in = kr_alloc(n_rows * n_in, sizeof(float));

                memcpy(in, x, n_rows * n_in * sizeof(float));
                memcpy(in + at * n_in, x, n_in * sizeof(float));
                kr_product(&linear, in, n_in, y, n_out, n);
                wrong += memcmp(y + at * n_out, alone, n_out * sizeof(float)) != 0;
                free(in);
            }
        KT_CHECK(wrong == 0, "%zu x %zu: %zu positions or batches differ", n_out, n_in, wrong);
        free(w);
        free(packed);
        free(bias);
        free(x);
        free(y);
        free(alone);
        free(one);
    }
}

static const struct kt_test tests[] = {
    {"product: every position of a block", positions},
    {"K and V of all four caches", caches},
    {"batched with another stream", batched},
    {"1, 2, 7, 32 paths", paths},
    {"sliding windows", sliding},
    {"mutations turn the test red", mutations},
};

/* What follows runs with these products. */
static void use(const char *name)
{
    kt_products = kr_products_named(name);
    if (!kt_products)
        kt_skip("no %s: this processor, or its system, does not offer it", name);
}

static void use_openblas(void)
{
    use("openblas");
}

static void use_avx512_bf16(void)
{
    use("avx512_bf16");
}

static void use_amx_bf16(void)
{
    use("amx_bf16");
}

/* Again under the kernels of other processors: OpenBLAS reads its choice at start, so in a child. */

static void under(const char *core, const char *needs)
{
    char self[512], variable[64], *arguments[] = {self, (char *)"--child", NULL};
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *environment[512];
    size_t n = 0;
    int status = -1;
    pid_t child;

    if (!kr_kernels_named(needs)) {
        kt_skip("this processor has no %s", needs);
        return;
    }
    CU_ASSERT_FATAL(length > 0);
    self[length] = '\0';
    snprintf(variable, sizeof(variable), "OPENBLAS_CORETYPE=%s", core);
    environment[n++] = variable;
    for (char **e = environ; *e && n + 1 < KR_ARRAY_LENGTH(environment); e++)
        if (strncmp(*e, "OPENBLAS_CORETYPE=", 18) != 0)
            environment[n++] = *e;
    environment[n] = NULL;
    fflush(stdout);
    CU_ASSERT_EQUAL_FATAL(posix_spawn(&child, self, NULL, NULL, arguments, environment), 0);
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    KT_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "under %s: status %#x", core,
             (unsigned)status);
}

static void haswell(void)
{
    under("Haswell", "avx2");
}

static void skylakex(void)
{
    under("SkylakeX", "avx512");
}

static void sandybridge(void)
{
    under("Sandybridge", "avx2");
}

static void prescott(void)
{
    under("Prescott", "generic");
}

/* The child's lines must not count as this program's tests: they become diagnostics. */
static int run_child(void)
{
    const char *wanted = getenv("OPENBLAS_CORETYPE");
    const char *found = kr_product_init();
    unsigned failures;

    printf("# OPENBLAS_CORETYPE=%s: OpenBLAS says %s, kernels %s\n", wanted, found,
           kr_kernels()->name);
    if (!wanted || strcasecmp(wanted, found) != 0)
        return 2;
    use_openblas();
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 3;
    CU_pSuite suite = CU_add_suite("purity", NULL, NULL);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(tests); i++)
        CU_add_test(suite, tests[i].name, tests[i].run);
    CU_run_all_tests();
    for (CU_pFailureRecord r = CU_get_failure_list(); r; r = r->pNext)
        printf("# %s:%u: %s\n", r->strFileName, r->uiLineNumber, r->strCondition);
    failures = CU_get_number_of_failures();
    printf("# %s: %u assertions, %u failed\n", wanted, CU_get_number_of_asserts(), failures);
    CU_cleanup_registry();
    return failures ? 1 : 0;
}

int main(int argc, char **argv)
{
    static const struct kt_test others[] = {
        {"under OPENBLAS_CORETYPE=Haswell", haswell},
        {"under OPENBLAS_CORETYPE=SkylakeX", skylakex},
        {"under OPENBLAS_CORETYPE=Sandybridge", sandybridge},
        {"under OPENBLAS_CORETYPE=Prescott", prescott},
    };
    static const struct kt_test again[] = {
        {"again with OpenBLAS's products", use_openblas},
        {"again with bf16's products (AVX-512)", use_avx512_bf16},
        {"again with bf16's products (AMX)", use_amx_bf16},
    };
    struct kt_test all[KR_ARRAY_LENGTH(tests) * (KR_ARRAY_LENGTH(again) + 1) +
                       KR_ARRAY_LENGTH(again) + KR_ARRAY_LENGTH(others)];
    size_t n = KR_ARRAY_LENGTH(tests);
    const struct kr_products *usual = NULL;

    if (argc > 1 && strcmp(argv[1], "--child") == 0)
        return run_child();
    memcpy(all, tests, sizeof(tests));
    for (size_t i = 0; i < KR_ARRAY_LENGTH(again); i++) {
        all[n++] = again[i];
        memcpy(all + n, tests, sizeof(tests));
        n += KR_ARRAY_LENGTH(tests);
    }
    memcpy(all + n, others, sizeof(others));
    n += KR_ARRAY_LENGTH(others);
    if (kr_products_choose(KR_MATMUL_AUTO, KR_F32_PRODUCTS, &usual, NULL) == 0)
        printf("# products by %s, then OpenBLAS %s; kernels: %s\n", usual->name, kr_product_init(),
               kr_kernels()->name);
    return kt_main("purity", all, n);
}
