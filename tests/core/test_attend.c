/* SPDX-License-Identifier: MIT */
/* Attention of many rows at once is, byte for byte, that of each row alone, and both are a plain recomputation
 * from the caches' rows: over head sizes, prefix lengths, suffixes, windows, and rings at every wrap, with
 * every instruction set. In a debug build rows that nobody may see hold nan. */
#include "core/attend.h"
#include "core/draw.h"
#include "tests/tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ROWS 64
#define MAX_DIM  128
#define LAYERS   2

static const char *const names[] = {"avx512", "avx2", "generic"};

/* Numbers that any run repeats. */
static uint32_t counter;
static float next_float(void)
{
    return (float)(2 * kr_draw(31, 0, counter++, 0, 0) - 1);
}

static size_t next_below(size_t n)
{
    return (size_t)(kr_draw(32, 0, counter++, 0, 0) * (double)n);
}

/* Write and pass over n rows of random K and V. */
static void append(struct kr_cache *cache, size_t n)
{
    static float k[MAX_DIM * 4], v[MAX_DIM * 4];
    size_t width = cache->shape.n_heads * cache->shape.head_dim;

    for (size_t i = 0; i < n; i++) {
        for (size_t layer = 0; layer < LAYERS; layer++) {
            for (size_t j = 0; j < width; j++) {
                k[j] = 3 * next_float();
                v[j] = next_float();
            }
            kr_cache_write(cache, layer, cache->len, k, v);
        }
        CU_ASSERT_EQUAL_FATAL(kr_cache_append(cache, 1), 0);
    }
}

/* A row's attention from its definition: rows one by one, in order. */
static void plainly(const struct kr_kernels *kernels, const struct kr_view *view, size_t layer,
                    size_t head, const float *q, float scale, float *out)
{
    static float k[MAX_DIM * 4], v[MAX_DIM * 4], e[4096];
    size_t n_prefix = view->prefix ? view->n_prefix : 0, seen = n_prefix + view->index + 1;
    size_t dim = view->own->shape.head_dim, window = view->own->window;
    size_t first = window && seen > window ? seen - window : 0;
    float most = -INFINITY, sum = 0;

    for (size_t pass = 0; pass < 2; pass++) {
        for (size_t row = first; row < seen; row++) {
            if (row < n_prefix)
                kr_cache_read(view->prefix, layer, row, k, v);
            else
                kr_cache_read(view->own, layer, row - n_prefix, k, v);
            if (pass == 0) {
                float dot = 0;

                for (size_t d = 0; d < dim; d++)
                    dot = fmaf(q[d], k[head * dim + d], dot);
                e[row - first] = dot * scale;
                most = fmaxf(most, e[row - first]);
            } else {
                sum += e[row - first];
                for (size_t d = 0; d < dim; d++)
                    out[d] = fmaf(e[row - first], v[head * dim + d], out[d]);
            }
        }
        if (pass == 0) {
            kernels->exp_shifted(e, most, seen - first);
            memset(out, 0, dim * sizeof(float));
        }
    }
    for (size_t d = 0; d < dim; d++)
        out[d] /= sum;
}

static size_t n_compared;

/* All views at once against each alone and against the definition, with every set. */
static void check(const struct kr_view *views, size_t n, size_t max_visible, const char *what)
{
    const struct kr_cache_shape *shape = &views[0].own->shape;
    size_t dim = shape->head_dim, stride = shape->n_heads * dim + 3, layer = next_below(LAYERS);
    size_t n_scratch = kr_attend_scratch(max_visible, dim);
    float *q = kr_alloc(n * stride, sizeof(*q)), *out = kr_alloc(n * stride, sizeof(*out));
    float *scratch = malloc(n_scratch * sizeof(*scratch)), alone[MAX_DIM], plain[MAX_DIM];
    float scale = (float)(1 / sqrt((double)dim));

    for (size_t i = 0; i < n * stride; i++)
        q[i] = 2 * next_float();
    for (size_t s = 0; s < KR_ARRAY_LENGTH(names); s++) {
        const struct kr_kernels *kernels = kr_kernels_named(names[s]);

        if (!kernels)
            continue;
        for (size_t i = 0; i < n_scratch; i++)
            scratch[i] = NAN;
        for (size_t i = 0; i < n * stride; i++)
            out[i] = 7;
        kr_attend_rows(kernels, views, n, layer, q, scale, out, stride, scratch);
        for (size_t i = 0; i < n; i++) {
            for (size_t head = 0; head < shape->n_heads; head++) {
                size_t at = i * stride + head * dim;

                plainly(kernels, &views[i], layer, head, q + at, scale, plain);
                if (!views[i].own->lanes) {
                    kr_attend(kernels, &views[i], layer, head, q + at, scale, alone, scratch);
                    KT_CHECK(memcmp(alone, plain, dim * sizeof(float)) == 0,
                             "%s, %s: row %zu of %zu alone, head %zu of size %zu", names[s], what,
                             i, n, head, dim);
                }
                KT_CHECK(memcmp(out + at, plain, dim * sizeof(float)) == 0,
                         "%s, %s: row %zu of %zu, head %zu of size %zu", names[s], what, i, n, head,
                         dim);
                n_compared++;
            }
            for (size_t j = shape->n_heads * dim; j < stride; j++)
                CU_ASSERT_EQUAL(out[i * stride + j], 7);
        }
    }
    free(q);
    free(out);
    free(scratch);
}

static const size_t dims[] = {1, 2, 7, 13, 16, 26, 32, 52, 64, 104, 128};

static struct kr_cache_shape shape_of(size_t round)
{
    size_t dim = dims[round % KR_ARRAY_LENGTH(dims)];

    return (struct kr_cache_shape){LAYERS, dim > 32 ? 1 : 1 + round % 3, dim};
}

static void make(struct kr_cache *cache, const struct kr_cache_shape *shape, size_t capacity,
                 size_t window, bool ring, int64_t first)
{
    int r = ring ? kr_cache_init_ring(cache, shape, window) : kr_cache_init(cache, shape, capacity);

    CU_ASSERT_EQUAL_FATAL(r, 0);
    cache->window = window;
    kr_cache_reset(cache, first);
}

/* Prefix lengths around the group of keys. */
static size_t prefix_of(size_t round)
{
    static const size_t lengths[] = {1, 2, 15, 16, 17, 31, 32, 33, 47, 48, 49, 63, 64, 65, 79, 100};

    return lengths[round % KR_ARRAY_LENGTH(lengths)];
}

/* Write row `row` of all forks at once, and read it back. */
static void write_at_once(struct kr_cache *own, size_t n, size_t row)
{
    static float k[MAX_ROWS * (MAX_DIM + 3)], v[MAX_ROWS * (MAX_DIM + 3)];
    float read_k[MAX_DIM], read_v[MAX_DIM];
    size_t width = own->shape.n_heads * own->shape.head_dim, stride = width + 3;
    struct kr_view views[MAX_ROWS];

    for (size_t i = 0; i < n; i++)
        views[i] = (struct kr_view){.own = &own[i], .index = row};
    for (size_t layer = 0; layer < LAYERS; layer++) {
        for (size_t i = 0; i < n * stride; i++) {
            k[i] = 3 * next_float();
            v[i] = next_float();
        }
        kr_attend_write(kr_kernels(), views, n, layer, k, v, stride);
        for (size_t i = 0; i < n; i++) {
            kr_cache_read(&own[i], layer, row, read_k, read_v);
            KT_CHECK(memcmp(read_k, k + i * stride, width * sizeof(float)) == 0 &&
                         memcmp(read_v, v + i * stride, width * sizeof(float)) == 0,
                     "row %zu of fork %zu of %zu written at once", row, i, n);
        }
    }
    for (size_t i = 0; i < n; i++)
        CU_ASSERT_EQUAL_FATAL(kr_cache_append(&own[i], 1), 0);
}

/* Paths of one stream, `steps` rows of each in one block, step by step, as the generator has them. */
static void check_paths(size_t round, size_t n, size_t steps, size_t window, bool ring)
{
    struct kr_cache_shape shape = shape_of(round);
    struct kr_cache prefix, own[MAX_ROWS];
    struct kr_view views[MAX_ROWS];
    size_t length = prefix_of(round), rows = steps + next_below(30), n_views = 0, visible;
    int64_t first = (int64_t)next_below(200) - 100;
    bool own_ring = ring && rows > kr_cache_ring_slots(window);
    char what[128];

    make(&prefix, &shape, length, window, ring, first);
    append(&prefix, length);
    CU_ASSERT_EQUAL_FATAL(kr_cache_init_forks(own, n, &shape, rows, window, own_ring), 0);
    CU_ASSERT_EQUAL(own->lanes > 0, n >= KR_FORKS_TOGETHER);
    for (size_t i = 0; i < n; i++)
        kr_cache_reset(&own[i], first + (int64_t)length);
    for (size_t i = 0; i < n; i++)
        append(&own[i], rows - 1);
    write_at_once(own, n, rows - 1);
    for (size_t step = rows - steps; step < rows; step++)
        for (size_t i = 0; i < n; i++)
            views[n_views++] = (struct kr_view){
                .prefix = &prefix, .n_prefix = length, .own = &own[i], .index = step};
    visible = window ? KR_MIN(window, length + rows) : length + rows;
    snprintf(what, sizeof(what), "%zu paths x %zu, prefix %zu, %zu own rows, window %zu%s", n,
             steps, length, rows, window, ring ? ", ring" : "");
    check(views, n_views, visible, what);
    /* some of them: not from the first lane on, with one left out */
    if (n > 3) {
        views[n / 2] = views[n / 2 + 1];
        check(views + 1, n - 1, visible, what);
    }
    kr_cache_free(&prefix);
    kr_cache_free_forks(own, n);
}

static void one_step(void)
{
    for (size_t round = 0; round < 176; round++)
        check_paths(round, 1 + next_below(40), 1, 0, false);
    check_paths(3, 64, 1, 0, false);
    kt_note("%zu heads of rows compared", n_compared);
}

static void several_steps(void)
{
    for (size_t round = 0; round < 88; round++) {
        size_t n = 1 + next_below(32);

        check_paths(round, n, 1 + next_below(MAX_ROWS / n), 0, false);
    }
    kt_note("%zu heads of rows compared", n_compared);
}

static void windows(void)
{
    for (size_t round = 0; round < 88; round++) /* that begin before, at, and in the suffix */
        check_paths(round, 1 + next_below(30), 1 + next_below(2), 1 + next_below(70), false);
    kt_note("%zu heads of rows compared", n_compared);
}

static void rings(void)
{
    for (size_t round = 0; round < 88; round++)
        check_paths(round, 1 + next_below(30), 1 + next_below(2), 1 + next_below(70), true);
    for (size_t round = 0; round < 44; round++) /* suffixes that are rings themselves */
        check_paths(round, 1 + next_below(20), 1 + next_below(3), 1 + next_below(8), true);
    kt_note("%zu heads of rows compared", n_compared);
}

/* The rows of one window, each of which sees those before it, behind a prefix or not. */
static void one_window(void)
{
    for (size_t round = 0; round < 99; round++) {
        struct kr_cache_shape shape = shape_of(round);
        size_t n = 1 + next_below(MAX_ROWS), before = next_below(60), window = 0;
        struct kr_cache prefix, own;
        struct kr_view views[MAX_ROWS];
        size_t length = round % 2 ? prefix_of(round) : 0;
        char what[128];

        if (round % 3 == 2)
            window = 1 + next_below(50);
        if (length)
            make(&prefix, &shape, length, window, false, 0);
        make(&own, &shape, before + n, window, false, 0);
        if (length)
            append(&prefix, length);
        append(&own, before + n);
        for (size_t i = 0; i < n; i++)
            views[i] = (struct kr_view){.prefix = length ? &prefix : NULL,
                                        .n_prefix = length,
                                        .own = &own,
                                        .index = before + i};
        snprintf(what, sizeof(what), "window of %zu + %zu rows behind %zu, attention window %zu",
                 before, n, length, window);
        check(views, n, window ? KR_MIN(window, length + before + n) : length + before + n, what);
        if (length)
            kr_cache_free(&prefix);
        kr_cache_free(&own);
    }
    kt_note("%zu heads of rows compared", n_compared);
}

/* What a row may not see must not reach it, even where it shares a pass with rows that do: not even as 0 * nan. */
static void unseen(void)
{
    struct kr_cache_shape shape = {LAYERS, 1, 26};
    float bad[26], q[12 * 26], out[12 * 26], plain[26];
    struct kr_cache own;
    struct kr_view views[12];
    float *scratch = kr_alloc(kr_attend_scratch(32, 26), sizeof(*scratch));

    make(&own, &shape, 32, 0, false, 0);
    append(&own, 31);
    for (size_t d = 0; d < 26; d++)
        bad[d] = NAN;
    for (size_t layer = 0; layer < LAYERS; layer++)
        kr_cache_write(&own, layer, 31, bad, bad);
    for (size_t i = 0; i < 12; i++)
        views[i] = (struct kr_view){.own = &own, .index = 20 + i};
    for (size_t i = 0; i < KR_ARRAY_LENGTH(q); i++)
        q[i] = next_float();
    for (size_t s = 0; s < KR_ARRAY_LENGTH(names); s++) {
        const struct kr_kernels *kernels = kr_kernels_named(names[s]);

        if (!kernels)
            continue;
        kr_attend_rows(kernels, views, 12, 1, q, 0.5f, out, 26, scratch);
        for (size_t i = 0; i < 11; i++) {
            plainly(kernels, &views[i], 1, 0, q + i * 26, 0.5f, plain);
            KT_CHECK(memcmp(out + i * 26, plain, sizeof(plain)) == 0, "%s, row %zu", names[s], i);
        }
        CU_ASSERT_TRUE(isnan(out[11 * 26]));
    }
    kr_cache_free(&own);
    free(scratch);
}

/* Appends to a ring, at every slot of it. */
static void ring_appends(void)
{
    static const size_t some_windows[] = {1, 5, 16, 24, 40};

    for (size_t w = 0; w < KR_ARRAY_LENGTH(some_windows); w++) {
        struct kr_cache_shape shape = shape_of(w + 5);
        size_t window = some_windows[w], n;
        struct kr_cache own;
        struct kr_view views[KR_RING_SLACK];
        char what[64];

        make(&own, &shape, 0, window, true, -37);
        for (size_t row = 0; row < 130; row += n) {
            n = 1 + next_below(KR_RING_SLACK);
            append(&own, n);
            for (size_t i = 0; i < n; i++)
                views[i] = (struct kr_view){.own = &own, .index = row + i};
            snprintf(what, sizeof(what), "ring of %zu, rows %zu + %zu", window, row, n);
            check(views, n, window, what);
        }
        kr_cache_free(&own);
    }
    kt_note("%zu heads of rows compared", n_compared);
}

/* Streams, paths and windows in one block, in any order; the same row several times (first step). */
static void mixed(void)
{
    struct kr_cache_shape shape = {LAYERS, 2, 26};
    struct kr_cache streams[3], forks[6], together[9];
    struct kr_view views[MAX_ROWS];

    for (size_t i = 0; i < 3; i++) {
        make(&streams[i], &shape, 60, 0, false, 0);
        append(&streams[i], 40 + 7 * i);
    }
    for (size_t i = 0; i < 6; i++) {
        make(&forks[i], &shape, 12, 0, false, 0);
        append(&forks[i], 12);
    }
    CU_ASSERT_EQUAL_FATAL(kr_cache_init_forks(together, 9, &shape, 12, 0, false), 0);
    for (size_t i = 0; i < 9; i++)
        append(&together[i], 12);
    for (size_t round = 0; round < 40; round++) {
        for (size_t i = 0; i < MAX_ROWS; i++) {
            if (i && next_below(4)) { /* a run */
                views[i] = views[i - 1];
                if (views[i].own >= together && views[i].own < together + 8)
                    views[i].own++;
                else
                    views[i].index += views[i].index < 11 && round % 2;
                continue;
            }
            switch (next_below(4)) {
            case 0:
                views[i] = (struct kr_view){.own = &streams[next_below(3)]};
                break;
            case 1:
                views[i] = (struct kr_view){
                    .prefix = &streams[0], .n_prefix = 39, .own = &forks[next_below(6)]};
                break;
            case 2:
                views[i] = (struct kr_view){
                    .prefix = &streams[1], .n_prefix = 45, .own = &together[next_below(9)]};
                break;
            default:
                views[i] = (struct kr_view){.prefix = &streams[next_below(3)],
                                            .n_prefix = next_below(3), /* possibly none */
                                            .own = &forks[next_below(6)]};
            }
            views[i].index = next_below(12);
        }
        check(views, MAX_ROWS, 60, "mixed block");
    }
    for (size_t i = 0; i < MAX_ROWS; i++)
        views[i] = (struct kr_view){.own = &streams[2], .index = 53};
    check(views, MAX_ROWS, 54, "one row many times");
    for (size_t i = 0; i < 3; i++)
        kr_cache_free(&streams[i]);
    for (size_t i = 0; i < 6; i++)
        kr_cache_free(&forks[i]);
    kr_cache_free_forks(together, 9);
    kt_note("%zu heads of rows compared", n_compared);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"paths of one step", one_step},
        {"paths of several steps in one block", several_steps},
        {"attention windows", windows},
        {"rings", rings},
        {"rows of one window", one_window},
        {"rows that are not seen", unseen},
        {"appends to a ring, at every slot", ring_appends},
        {"a mixed block", mixed},
    };

    return kt_main("attend", tests, KR_ARRAY_LENGTH(tests));
}
