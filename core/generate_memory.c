/* SPDX-License-Identifier: MIT */
/* The memory of generate.h: paths, suffix caches, the sliding window's scratch. */
#include "core/generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t kr_paths_size_bytes(size_t max_paths, size_t max_horizon)
{
    return max_paths * max_horizon * (2 * sizeof(uint16_t) + KR_COLUMNS * sizeof(float));
}

int kr_paths_init(struct kr_paths *paths, size_t max_paths, size_t max_horizon)
{
    size_t n;

    memset(paths, 0, sizeof(*paths));
    if (!max_paths || !max_horizon || !kr_multiply(max_paths, max_horizon, &n) ||
        n > SIZE_MAX / KR_COLUMNS)
        return -EINVAL;
    paths->max_paths = max_paths;
    paths->max_horizon = max_horizon;
    paths->s1 = kr_alloc(n, sizeof(*paths->s1));
    paths->s2 = kr_alloc(n, sizeof(*paths->s2));
    paths->bars = kr_alloc(n * KR_COLUMNS, sizeof(*paths->bars));
    if (!paths->s1 || !paths->s2 || !paths->bars) {
        kr_paths_free(paths);
        return -ENOMEM;
    }
    return 0;
}

void kr_paths_free(struct kr_paths *paths)
{
    free(paths->s1);
    free(paths->s2);
    free(paths->bars);
    memset(paths, 0, sizeof(*paths));
}

static bool rolling(const struct kr_model *model)
{
    return model->attention_window > 0;
}

/* Rows that a path appends before the window slides, if it does. */
static size_t needed_suffix(const struct kr_model *model, const struct kr_generator_size *size)
{
    size_t room = size->max_context - size->min_window;

    if (rolling(model))
        return size->max_horizon;
    return KR_MAX(KR_MIN(size->max_horizon, room), (size_t)1);
}

static bool may_slide(const struct kr_model *model, const struct kr_generator_size *size)
{
    return !rolling(model) && size->max_window + size->max_horizon > size->max_context;
}

/* Tokens that one decoder window may take. */
static size_t window_rows(const struct kr_model *model, const struct kr_generator_size *size)
{
    return rolling(model) ? size->max_horizon : size->max_context;
}

/* A path's rows: all of them, or, where they outgrow the attention window, a ring of the last. */
static bool suffix_is_ring(const struct kr_model *model, size_t rows)
{
    return rolling(model) && rows > kr_cache_ring_slots(model->attention_window);
}

/* Paths decoded at a time: all where their caches lie side by side, else one after the other. */
static size_t n_decoders(const struct kr_generator_size *size)
{
    return size->max_paths < KR_FORKS_TOGETHER ? 1 : size->max_paths;
}

static size_t suffixes_bytes(const struct kr_model *model, int which, size_t n, size_t rows)
{
    struct kr_cache_shape shape = kr_cache_shape_of(model, which);

    if (suffix_is_ring(model, rows))
        rows = kr_cache_ring_slots(model->attention_window);
    return kr_cache_forks_size_bytes(&shape, n, rows) + n * sizeof(struct kr_cache);
}

/* Which of a state's caches stands where in generator->shared. */
static const int shared_caches[3] = {KR_CACHE_TRUNK, KR_CACHE_DEPENDENCY, KR_CACHE_DECODER};

size_t kr_generator_size_bytes(const struct kr_model *model, const struct kr_generator_size *size)
{
    struct kr_cache_shape trunk = kr_cache_shape_of(model, KR_CACHE_TRUNK);
    struct kr_cache_shape dependency = kr_cache_shape_of(model, KR_CACHE_DEPENDENCY);
    struct kr_cache_shape decoder = kr_cache_shape_of(model, KR_CACHE_DECODER);
    size_t suffix = size->suffix_rows ? size->suffix_rows : needed_suffix(model, size);
    size_t context = size->max_context, rows = window_rows(model, size);
    size_t bytes =
        suffixes_bytes(model, KR_CACHE_TRUNK, size->max_paths, suffix) +
        suffixes_bytes(model, KR_CACHE_DEPENDENCY, size->max_paths, suffix) +
        suffixes_bytes(model, KR_CACHE_DECODER, n_decoders(size), KR_MIN(size->max_horizon, rows)) +
        size->max_paths *
            (sizeof(uint16_t) + sizeof(uint32_t) + sizeof(struct kr_rank) + 2 * sizeof(double)) +
        rows * (2 * sizeof(uint16_t) + sizeof(struct kr_stamp));

    if (may_slide(model, size))
        bytes += 2 * kr_cache_size_bytes(&trunk, context) +
                 2 * kr_cache_size_bytes(&dependency, context) +
                 kr_cache_size_bytes(&decoder, context);
    return bytes;
}

static int init_suffixes(struct kr_cache **forks, const struct kr_model *model, int which, size_t n,
                         size_t rows)
{
    struct kr_cache_shape shape = kr_cache_shape_of(model, which);

    *forks = kr_alloc(n, sizeof(**forks));
    if (!*forks)
        return -ENOMEM;
    return kr_cache_init_forks(*forks, n, &shape, rows, model->attention_window,
                               suffix_is_ring(model, rows));
}

static int init_sliding(struct kr_generator *generator)
{
    size_t context = generator->size.max_context;
    int r = 0;

    for (int i = 0; i < 3 && r == 0; i++) {
        struct kr_cache_shape shape = kr_cache_shape_of(generator->model, shared_caches[i]);

        r = kr_cache_init(&generator->shared[i], &shape, context);
        if (r == 0 && i < 2)
            r = kr_cache_init(&generator->own[i], &shape, context);
    }
    return r;
}

int kr_generator_init(struct kr_generator *generator, const struct kr_model *model,
                      const struct kr_generator_size *size, struct kr_error *error)
{
    size_t rows;
    int r;

    memset(generator, 0, sizeof(*generator));
    if (!size->max_paths || !size->max_horizon || !size->min_window ||
        size->min_window > size->max_window || size->max_window > size->max_context)
        return kr_error_set(
            error, -EINVAL,
            "generator: expected paths, horizon and 1 <= window <= max_context, found "
            "%zu, %zu, %zu..%zu and %zu",
            size->max_paths, size->max_horizon, size->min_window, size->max_window,
            size->max_context);
    generator->model = model;
    generator->size = *size;
    if (!size->suffix_rows)
        generator->size.suffix_rows = needed_suffix(model, size);
    if (generator->size.suffix_rows < needed_suffix(model, size))
        return kr_error_set(error, -EINVAL,
                            "cache of a path: expected %zu rows for min(window %zu + horizon %zu, "
                            "max_context %zu), found %zu",
                            needed_suffix(model, size), size->min_window, size->max_horizon,
                            size->max_context, size->suffix_rows);
    generator->may_slide = may_slide(model, size);
    generator->distinct = kr_alloc(size->max_paths, sizeof(*generator->distinct));
    generator->which = kr_alloc(size->max_paths, sizeof(*generator->which));
    generator->ranks = kr_alloc(size->max_paths, sizeof(*generator->ranks));
    generator->strata = kr_alloc(size->max_paths, 2 * sizeof(*generator->strata));
    rows = window_rows(model, size);
    generator->window_s1 = kr_alloc(rows, sizeof(*generator->window_s1));
    generator->window_s2 = kr_alloc(rows, sizeof(*generator->window_s2));
    generator->window_stamps = kr_alloc(rows, sizeof(*generator->window_stamps));
    r = generator->distinct && generator->which && generator->ranks && generator->strata &&
                generator->window_s1 && generator->window_s2 && generator->window_stamps
            ? 0
            : -ENOMEM;
    if (r == 0)
        r = init_suffixes(&generator->trunk, model, KR_CACHE_TRUNK, size->max_paths,
                          generator->size.suffix_rows);
    if (r == 0)
        r = init_suffixes(&generator->dependency, model, KR_CACHE_DEPENDENCY, size->max_paths,
                          generator->size.suffix_rows);
    if (r == 0)
        r = init_suffixes(&generator->decoder, model, KR_CACHE_DECODER, n_decoders(size),
                          KR_MIN(size->max_horizon, rows));
    if (r == 0 && generator->may_slide)
        r = init_sliding(generator);
    if (r < 0) {
        kr_generator_free(generator);
        kr_error_set(error, r, "caches of %zu paths: expected memory, found none", size->max_paths);
    }
    return r;
}

static void free_suffixes(struct kr_cache **forks, size_t n)
{
    if (*forks)
        kr_cache_free_forks(*forks, n);
    kr_freep(forks);
}

void kr_generator_free(struct kr_generator *generator)
{
    free_suffixes(&generator->trunk, generator->size.max_paths);
    free_suffixes(&generator->dependency, generator->size.max_paths);
    free_suffixes(&generator->decoder, n_decoders(&generator->size));
    for (int i = 0; i < 3; i++)
        kr_cache_free(&generator->shared[i]);
    for (int i = 0; i < 2; i++)
        kr_cache_free(&generator->own[i]);
    free(generator->distinct);
    free(generator->which);
    free(generator->ranks);
    free(generator->strata);
    free(generator->window_s1);
    free(generator->window_s2);
    free(generator->window_stamps);
    memset(generator, 0, sizeof(*generator));
}
