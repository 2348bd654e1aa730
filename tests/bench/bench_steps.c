/* SPDX-License-Identifier: MIT */
/* What the caches buy: one decoding step of the mini shape (random weights) with the window's K and V kept,
 * against the same step with the whole window computed again, at growing lookbacks. A speed is printed only
 * where the logits of every step are the same bytes. A program to look at, not a test: no assertion here
 * depends on time. Usage: bench_steps [STEPS [LOOKBACK...]] */
#include "core/generate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_STEPS 64
#define CONTEXT   2048
#define PATHS     32 /* of the third column */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Of a shared machine only the least disturbed step says anything. */
static double least(const double *values, size_t n)
{
    double least_so_far = values[0];

    for (size_t i = 1; i < n; i++)
        least_so_far = fmin(least_so_far, values[i]);
    return least_so_far;
}

static void die(const char *what)
{
    fprintf(stderr, "bench_steps: %s\n", what);
    exit(1);
}

/* Times at which each step ended. */
static double ends[MAX_STEPS];
static bool step_ended(void *context, size_t step)
{
    (void)context;
    if (step < MAX_STEPS && ends[step] == 0)
        ends[step] = now();
    return true;
}

struct setup {
    struct kr_model *model;
    struct kr_engine engine;
    struct kr_state state;
    struct kr_stamp stamps[CONTEXT];
    size_t lookback, steps;
};

static void prefill(struct setup *setup, size_t lookback)
{
    float *x = kr_alloc(lookback * KR_COLUMNS, sizeof(float));

    for (size_t i = 0; i < lookback * KR_COLUMNS; i++)
        x[i] = (float)(2 * sin((double)i * 0.37 + (double)(i % 7)));
    setup->lookback = lookback;
    if (kr_state_init(&setup->state, setup->model, lookback, lookback) < 0)
        die("no memory");
    kr_state_reset(&setup->state, &(struct kr_normaliser){.n_bars = lookback}, 0);
    if (kr_state_append_normalised(&setup->state, &setup->engine, x, setup->stamps, lookback) < 0)
        die("window does not fit");
    free(x);
}

/* Least seconds of a step after the first, with `paths` paths. */
static double cached_step(struct setup *setup, size_t paths, struct kr_paths *ret, float *s1,
                          float *s2)
{
    struct kr_generator_size size = {.max_paths = paths,
                                     .max_horizon = setup->steps,
                                     .max_context = CONTEXT,
                                     .min_window = setup->lookback,
                                     .max_window = setup->lookback};
    struct kr_request request = {.horizon = setup->steps,
                                 .paths = paths,
                                 .max_context = CONTEXT,
                                 .sampling = {1.0, 0, 1.0, false},
                                 .key = 1,
                                 .future = setup->stamps + setup->lookback,
                                 .keep_going = step_ended,
                                 .ret_s1_logits = s1,
                                 .ret_s2_logits = s2};
    struct kr_generator generator;
    double times[MAX_STEPS];

    if (kr_generator_init(&generator, setup->model, &size, NULL) < 0)
        die("no memory");
    memset(ends, 0, sizeof(ends));
    if (kr_generate(&generator, &setup->engine, &setup->state, &request, ret, NULL) < 0)
        die("cannot generate");
    for (size_t step = 1; step < setup->steps; step++)
        times[step - 1] = ends[step] - ends[step - 1];
    kr_generator_free(&generator);
    return least(times, setup->steps - 1);
}

/* Tokens of the window and of the path so far, from position 0, in blocks; nothing is kept but for the
 * rows of this one step. Checks both heads' logits of each step. */
static double uncached_step(struct setup *setup, const struct kr_paths *paths, const float *s1,
                            const float *s2, bool *ret_equal)
{
    struct kr_cache_shape trunk_shape = kr_cache_shape_of(setup->model, KR_CACHE_TRUNK);
    struct kr_cache_shape dependency_shape = kr_cache_shape_of(setup->model, KR_CACHE_DEPENDENCY);
    size_t vocabulary = setup->model->predictor.vocabulary, total = setup->lookback + setup->steps;
    struct kr_engine *engine = &setup->engine;
    struct kr_cache trunk, dependency;
    uint16_t *id1 = kr_alloc(total, sizeof(*id1)), *id2 = kr_alloc(total, sizeof(*id2));
    struct kr_view views[KR_ENGINE_ROWS];
    double times[MAX_STEPS];

    if (kr_cache_init(&trunk, &trunk_shape, total) < 0 ||
        kr_cache_init(&dependency, &dependency_shape, total) < 0)
        die("no memory");
    memcpy(id1, setup->state.s1, setup->lookback * sizeof(*id1));
    memcpy(id2, setup->state.s2, setup->lookback * sizeof(*id2));
    memcpy(id1 + setup->lookback, paths->s1, setup->steps * sizeof(*id1));
    memcpy(id2 + setup->lookback, paths->s2, setup->steps * sizeof(*id2));
    *ret_equal = true;
    for (size_t step = 0; step < setup->steps; step++) {
        size_t running = setup->lookback + step, rows = 0;
        double start = now();
        struct kr_view view;

        if (kr_cache_truncate(&trunk, 0) < 0 || kr_cache_truncate(&dependency, 0) < 0)
            die("cannot truncate");
        for (size_t done = 0; done < running; done += rows) {
            rows = KR_MIN(running - done, (size_t)KR_ENGINE_ROWS);
            for (size_t i = 0; i < rows; i++)
                views[i] = (struct kr_view){.own = &trunk, .index = done + i, .position = done + i};
            kr_predict_rows(engine, views, id1 + done, id2 + done, setup->stamps + done, rows);
            for (size_t i = 0; i < rows; i++)
                views[i].own = &dependency;
            kr_dependency_rows(engine, views, rows);
            if (kr_cache_append(&trunk, rows) < 0 || kr_cache_append(&dependency, rows) < 0)
                die("cannot append");
        }
        memmove(engine->normed, engine->normed + (rows - 1) * engine->width,
                engine->width * sizeof(float));
        kr_s1_logits(engine, engine->normed, engine->width, 1);
        if (memcmp(engine->logits, s1 + step * vocabulary, vocabulary * sizeof(float)) != 0)
            *ret_equal = false;
        view = (struct kr_view){.own = &dependency, .index = running - 1};
        kr_s2_logits(engine, &view, id1 + running, engine->normed, engine->width, 1);
        if (memcmp(engine->logits, s2 + step * vocabulary, vocabulary * sizeof(float)) != 0)
            *ret_equal = false;
        times[step] = now() - start;
    }
    kr_cache_free(&trunk);
    kr_cache_free(&dependency);
    free(id1);
    free(id2);
    return least(times, setup->steps);
}

int main(int argc, char **argv)
{
    static const size_t usual[] = {64, 128, 256, 512};
    size_t n = argc > 2 ? (size_t)argc - 2 : KR_ARRAY_LENGTH(usual);
    struct setup setup = {.steps = argc > 1 ? (size_t)atoi(argv[1]) : 30};
    struct kr_model_shape shape;
    struct kr_paths paths, many;
    double first = 0, last = 0, ratio_before = 0;
    bool rises = true, all_equal = true;
    size_t vocabulary;
    float *s1, *s2;

    printf("OpenBLAS %s, kernels %s; mini, random weights, %zu steps, f32, one thread\n",
           kr_product_init(), kr_kernels()->name, setup.steps);
    if (setup.steps < 2 || setup.steps > MAX_STEPS || kr_model_shape_named("mini", &shape) < 0 ||
        kr_model_random(&shape, 1, &setup.model, NULL) < 0 ||
        kr_engine_init(&setup.engine, setup.model, CONTEXT) < 0 ||
        kr_paths_init(&paths, 1, setup.steps) < 0 || kr_paths_init(&many, PATHS, setup.steps) < 0)
        die("cannot set up (2 to 64 steps)");
    for (size_t i = 0; i < CONTEXT; i++)
        setup.stamps[i] = (struct kr_stamp){(uint8_t)(5 * i % 60), (uint8_t)(i / 12 % 24), 1, 2, 3};
    vocabulary = setup.model->predictor.vocabulary;
    s1 = kr_alloc(setup.steps * vocabulary, sizeof(*s1));
    s2 = kr_alloc(setup.steps * vocabulary, sizeof(*s2));
    printf("%9s %12s %12s %10s %18s\n", "lookback", "cached", "uncached", "ratio",
           "cached, 32 paths");
    for (size_t i = 0; i < n; i++) {
        size_t lookback = argc > 2 ? (size_t)atoi(argv[i + 2]) : usual[i];
        double cached, uncached, thirty_two;
        bool equal;

        if (lookback < 1 || lookback + setup.steps > CONTEXT)
            die("lookback does not fit max_context 2048");
        prefill(&setup, lookback);
        cached_step(&setup, 1, &paths, s1, s2); /* warm */
        cached = cached_step(&setup, 1, &paths, s1, s2);
        uncached = uncached_step(&setup, &paths, s1, s2, &equal);
        thirty_two = cached_step(&setup, PATHS, &many, NULL, NULL);
        if (equal)
            printf("%9zu %9.3f ms %9.3f ms %9.1fx %15.3f ms\n", lookback, 1e3 * cached,
                   1e3 * uncached, uncached / cached, 1e3 * thirty_two);
        else
            printf("%9zu bytes differ: no speed\n", lookback);
        all_equal &= equal;
        rises &= uncached / cached > ratio_before;
        ratio_before = uncached / cached;
        first = i == 0 ? cached : first;
        last = cached;
        kr_state_free(&setup.state);
    }
    if (all_equal)
        printf("cached step at the last lookback / at the first: %.2f; uncached / cached %s\n",
               last / first, rises ? "rises at each" : "does not rise at each");
    free(s1);
    free(s2);
    kr_paths_free(&paths);
    kr_paths_free(&many);
    kr_engine_free(&setup.engine);
    kr_model_free(&setup.model);
    return all_equal ? 0 : 1;
}
