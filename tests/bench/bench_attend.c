/* SPDX-License-Identifier: MIT */
/* What attention over a shared prefix costs: all heads of all layers for the paths of one step, or for a block of
 * a window's rows, at once against row by row, and the share of the FMA peak measured in the same run. A line
 * is printed only where both give the same bytes. A program to look at, not a test: no assertion here depends
 * on time. Usage: bench_attend [avx512|avx2|generic] */
#include "core/attend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PASSES 15

struct row {
    const char *name;
    size_t n_layers, n_heads, head_dim, prefix, suffix, rows;
    size_t window;   /* 0: none */
    bool one_window; /* rows of one window behind `prefix` of them, instead of paths */
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_attend: %s\n", what);
    exit(1);
}

static float pseudo(size_t i)
{
    return (float)sin(0.7 * (double)i + 0.3 * (double)(i % 11));
}

static void fill(struct kr_cache *cache, size_t n, size_t seed)
{
    size_t width = cache->shape.n_heads * cache->shape.head_dim;
    float *k = kr_alloc(width, sizeof(*k)), *v = kr_alloc(width, sizeof(*v));

    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < width; j++) {
            k[j] = pseudo(seed + i * width + j);
            v[j] = pseudo(7 * seed + i * width + 3 * j);
        }
        for (size_t layer = 0; layer < cache->shape.n_layers; layer++)
            kr_cache_write(cache, layer, i, k, v);
        if (kr_cache_append(cache, 1) < 0)
            die("cache is full");
    }
    free(k);
    free(v);
}

/* GFLOP/s that a core reaches on products of a size that stays in registers and first-level cache: the kernel's
 * own inner loop over one group of keys and few columns. */
static double peak_gflops(const struct kr_kernels *kernels)
{
    static float s[16 * 32], q[256 * 32], k[256 * 16];
    double best = 1e9;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(q); i++)
        q[i] = pseudo(i);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(k); i++)
        k[i] = pseudo(3 * i);
    for (int pass = 0; pass < 20; pass++) {
        double start = now();

        for (int i = 0; i < 400; i++)
            kernels->shared_scores(s, q, k, 0, 16, 128, 32, 1);
        best = fmin(best, now() - start);
    }
    return 400 * 2.0 * 16 * 32 * 128 / best / 1e9;
}

static void measure(const struct kr_kernels *kernels, const struct row *row, double peak)
{
    struct kr_cache_shape shape = {row->n_layers, row->n_heads, row->head_dim};
    size_t stride = row->n_heads * row->head_dim, n = row->rows, keys = 0;
    size_t visible = row->prefix + (row->one_window ? n : row->suffix);
    float *q = kr_alloc(n * stride, sizeof(*q)), *one = kr_alloc(n * stride, sizeof(*one));
    float *many = kr_alloc(n * stride, sizeof(*many));
    float *scratch = kr_alloc(kr_attend_scratch(visible, row->head_dim), sizeof(*scratch));
    float scale = (float)(1 / sqrt((double)row->head_dim));
    double best_one = 1e9, best_many = 1e9, flop;
    struct kr_cache prefix, own[64], apart[64];
    struct kr_view views[64], alone[64];

    if (kr_cache_init(&prefix, &shape, row->prefix + (row->one_window ? n : 0)) < 0)
        die("no memory");
    prefix.window = row->window;
    fill(&prefix, row->prefix + (row->one_window ? n : 0), 1);
    if (kr_cache_init_forks(own, n, &shape, row->suffix, row->window, false) < 0)
        die("no memory");
    for (size_t i = 0; i < n; i++) {
        if (kr_cache_init(&apart[i], &shape, row->suffix) < 0)
            die("no memory");
        apart[i].window = row->window;
        fill(&own[i], row->suffix, 2 + i);
        fill(&apart[i], row->suffix, 2 + i);
        views[i] = row->one_window
                       ? (struct kr_view){.own = &prefix, .index = row->prefix + i}
                       : (struct kr_view){&prefix, row->prefix, &own[i], row->suffix - 1, 0};
        alone[i] = views[i];
        if (!row->one_window)
            alone[i].own = &apart[i];
        visible = row->prefix + (row->one_window ? i + 1 : row->suffix);
        keys += row->window ? KR_MIN(row->window, visible) : visible;
    }
    for (size_t i = 0; i < n * stride; i++)
        q[i] = pseudo(5 * i);
    for (int pass = 0; pass < PASSES; pass++) {
        double start = now();

        for (size_t layer = 0; layer < row->n_layers; layer++)
            for (size_t i = 0; i < n; i++)
                for (size_t head = 0; head < row->n_heads; head++)
                    kr_attend(kernels, &alone[i], layer, head,
                              q + i * stride + head * row->head_dim, scale,
                              one + i * stride + head * row->head_dim, scratch);
        best_one = fmin(best_one, now() - start);
        start = now();
        for (size_t layer = 0; layer < row->n_layers; layer++)
            kr_attend_rows(kernels, views, n, layer, q, scale, many, stride, scratch);
        best_many = fmin(best_many, now() - start);
    }
    flop = 4.0 * (double)(keys * row->n_layers * row->n_heads * row->head_dim);
    if (memcmp(one, many, n * stride * sizeof(*one)) == 0)
        printf("%-34s %9.1f us %9.1f us %7.1fx %9.1f %8.0f %%\n", row->name, 1e6 * best_one,
               1e6 * best_many, best_one / best_many, flop / best_many / 1e9,
               100 * flop / best_many / 1e9 / peak);
    else
        printf("%-34s bytes differ: no speed\n", row->name);
    kr_cache_free(&prefix);
    for (size_t i = 0; i < n; i++)
        kr_cache_free(&apart[i]);
    kr_cache_free_forks(own, n);
    free(q);
    free(one);
    free(many);
    free(scratch);
}

int main(int argc, char **argv)
{
    static const struct row rows[] = {
        {"built-in trunk, 32 paths", 2, 4, 32, 256, 12, 32, 256, false},
        {"built-in decoder, 32 paths", 2, 2, 32, 256, 12, 32, 256, false},
        {"mini, 32 paths", 4, 4, 64, 400, 15, 32, 0, false},
        {"small, 8 paths", 8, 8, 64, 400, 15, 8, 0, false},
        {"small, 16 paths", 8, 8, 64, 400, 15, 16, 0, false},
        {"small, 32 paths", 8, 8, 64, 400, 15, 32, 0, false},
        {"small, 64 paths", 8, 8, 64, 400, 15, 64, 0, false},
        {"base, 32 paths", 12, 16, 52, 400, 15, 32, 0, false},
        {"small, rows 0 to 63 of a window", 8, 8, 64, 0, 1, 64, 0, true},
        {"small, rows 336 to 399", 8, 8, 64, 336, 1, 64, 0, true},
        {"built-in, 8 rows of a replay", 2, 4, 32, 300, 1, 8, 256, true},
    };
    const struct kr_kernels *kernels = argc > 1 ? kr_kernels_named(argv[1]) : kr_kernels();
    double peak;

    if (!kernels)
        die("no such instruction set here");
    peak = peak_gflops(kernels);
    printf("%s; all layers of one step, one thread; FMA peak %.0f GFLOP/s\n", kernels->name, peak);
    printf("%-34s %12s %12s %8s %9s %10s\n", "", "row by row", "at once", "ratio", "GFLOP/s",
           "of peak");
    for (size_t i = 0; i < KR_ARRAY_LENGTH(rows); i++)
        measure(kernels, &rows[i], peak);
    return 0;
}
