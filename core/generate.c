/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "core/generate.h"

#include "core/draw.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One forecast under way: what every function below needs. */
struct run {
    struct kr_generator *generator;
    struct kr_engine *engine;
    const struct kr_state *state;
    const struct kr_request *request;
    struct kr_paths *paths;
};

static void advance(struct kr_cache *cache, size_t n)
{
    if (kr_cache_append(cache, n) < 0)
        assert(false); /* sizes were checked before the run */
}

/* Empty a cache whose next row stands at absolute row `first` of its window. */
static void empty_at(struct kr_cache *cache, int64_t first)
{
    kr_cache_reset(cache, first);
}

static void empty(struct kr_cache *cache)
{
    empty_at(cache, 0);
}

static size_t row_of(const struct run *run, size_t path, size_t step)
{
    return path * run->paths->n_steps + step;
}

/* Draws */

static double uniform(const struct run *run, size_t path, size_t step, unsigned head)
{
    const struct kr_request *request = run->request;

    if (request->uniforms)
        return request->uniforms[(path * request->horizon + step) * 2 + head];
    if (request->sampling.stratified)
        return run->generator->strata[head * run->generator->size.max_paths + path];
    return kr_draw(request->key, request->as_of_ns, (uint32_t)path, (uint32_t)step, head);
}

/* The uniforms of a step that depend on all paths at once. */
static void draw_strata(const struct run *run, size_t step)
{
    struct kr_generator *generator = run->generator;

    for (uint32_t head = 0; head < 2; head++)
        kr_draw_strata(run->request->key, run->request->as_of_ns, (uint32_t)step, head,
                       run->paths->n_paths, generator->ranks,
                       generator->strata + head * generator->size.max_paths);
}

/* Token of one head of `path` at `step` from row `row` of engine->logits. */
static uint16_t draw(const struct run *run, size_t path, size_t step, unsigned head, size_t row)
{
    struct kr_engine *engine = run->engine;
    size_t n = engine->model->predictor.vocabulary;
    const float *logits = engine->logits + row * n;
    float *kept = head == 0 ? run->request->ret_s1_logits : run->request->ret_s2_logits;
    size_t token;

    if (kept && path == 0)
        memcpy(kept + step * n, logits, n * sizeof(float));
    kr_phase(engine, KR_PHASE_SAMPLING);
    token = kr_sample(&run->request->sampling, logits, n, uniform(run, path, step, head), engine->p,
                      engine->order);
    kr_phase(engine, KR_PHASE_OTHER);
    return (uint16_t)token;
}

/* s1, then s2, of `n` paths from `first` on, whose hidden rows h [n][stride] are the last ones; the views
 * are of the dependency layer's cache. h may be engine->normed. */
static void draw_both(const struct run *run, const struct kr_view *views, size_t first, size_t n,
                      size_t step, const float *h, size_t stride)
{
    uint16_t s1[KR_ENGINE_ROWS];

    kr_s1_logits(run->engine, h, stride, n);
    for (size_t i = 0; i < n; i++)
        s1[i] = run->paths->s1[row_of(run, first + i, step)] = draw(run, first + i, step, 0, i);
    kr_s2_logits(run->engine, views, s1, h, stride, n);
    for (size_t i = 0; i < n; i++)
        run->paths->s2[row_of(run, first + i, step)] = draw(run, first + i, step, 1, i);
}

/* Steps */

/* The first step: one hidden row and one row of s1 logits for all paths; s2 logits per distinct s1. */
static void first_step(const struct run *run)
{
    struct kr_generator *generator = run->generator;
    struct kr_engine *engine = run->engine;
    const struct kr_state *state = run->state;
    size_t n_paths = run->paths->n_paths, n_distinct = 0;

    kr_s1_logits(engine, state->h, 0, 1);
    for (size_t path = 0; path < n_paths; path++) {
        uint16_t s1 = draw(run, path, 0, 0, 0);
        size_t i = 0;

        run->paths->s1[row_of(run, path, 0)] = s1;
        while (i < n_distinct && generator->distinct[i] != s1)
            i++;
        if (i == n_distinct)
            generator->distinct[n_distinct++] = s1;
        generator->which[path] = (uint32_t)i;
    }
    for (size_t first = 0; first < n_distinct; first += KR_ENGINE_ROWS) {
        size_t n = KR_MIN(n_distinct - first, (size_t)KR_ENGINE_ROWS);

        for (size_t i = 0; i < n; i++)
            engine->views[i] =
                (struct kr_view){.own = (struct kr_cache *)&state->caches[KR_CACHE_DEPENDENCY],
                                 .index = state->len - 1};
        kr_s2_logits(engine, engine->views, generator->distinct + first, state->h, 0, n);
        for (size_t path = 0; path < n_paths; path++)
            if (generator->which[path] >= first && generator->which[path] < first + n)
                run->paths->s2[row_of(run, path, 0)] =
                    draw(run, path, 0, 1, generator->which[path] - first);
    }
}

static void fork_views(const struct run *run, int cache, struct kr_cache *forks, size_t first,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct kr_cache *own = &forks[first + i];

        run->engine->views[i] = (struct kr_view){.prefix = &run->state->caches[cache],
                                                 .n_prefix = run->state->len,
                                                 .own = own,
                                                 .index = own->len,
                                                 .position = own->first + (int64_t)own->len};
    }
}

/* Like every later one while the window holds: each path appends the token drawn last. */
static void cached_step(const struct run *run, size_t step)
{
    struct kr_generator *generator = run->generator;
    struct kr_engine *engine = run->engine;

    for (size_t first = 0; first < run->paths->n_paths; first += KR_ENGINE_ROWS) {
        size_t n = KR_MIN(run->paths->n_paths - first, (size_t)KR_ENGINE_ROWS);
        uint16_t s1[KR_ENGINE_ROWS], s2[KR_ENGINE_ROWS];
        struct kr_stamp stamps[KR_ENGINE_ROWS];

        for (size_t i = 0; i < n; i++) {
            s1[i] = run->paths->s1[row_of(run, first + i, step - 1)];
            s2[i] = run->paths->s2[row_of(run, first + i, step - 1)];
            stamps[i] = run->request->future[step - 1];
        }
        fork_views(run, KR_CACHE_TRUNK, generator->trunk, first, n);
        kr_predict_rows(engine, engine->views, s1, s2, stamps, n);
        fork_views(run, KR_CACHE_DEPENDENCY, generator->dependency, first, n);
        kr_dependency_rows(engine, engine->views, n);
        draw_both(run, engine->views, first, n, step, engine->normed, engine->width);
        for (size_t i = 0; i < n; i++) {
            advance(&generator->trunk[first + i], 1);
            advance(&generator->dependency[first + i], 1);
        }
    }
}

/* Sliding window: the last max_context tokens, positions from 0 */

/* Copy the tokens of window rows [first, first + n) that `path` sees at `step`, counted from the start of
 * the state's window: below state->len they are the lookback's, behind it the path's own. */
static void window_tokens(const struct run *run, size_t path, size_t first, size_t n)
{
    struct kr_generator *generator = run->generator;
    size_t len = run->state->len;

    for (size_t i = 0; i < n; i++) {
        size_t row = first + i, step = row - len;
        bool real = row < len;

        generator->window_s1[i] =
            real ? run->state->s1[row] : run->paths->s1[row_of(run, path, step)];
        generator->window_s2[i] =
            real ? run->state->s2[row] : run->paths->s2[row_of(run, path, step)];
        generator->window_stamps[i] = real ? run->state->stamps[row] : run->request->future[step];
    }
}

/* Views of n rows behind n_prefix rows of `prefix`; own->first says where they stand. */
static void window_views(struct kr_engine *engine, const struct kr_cache *prefix, size_t n_prefix,
                         struct kr_cache *own, size_t n)
{
    for (size_t i = 0; i < n; i++)
        engine->views[i] = (struct kr_view){.prefix = prefix,
                                            .n_prefix = n_prefix,
                                            .own = own,
                                            .index = own->len + i,
                                            .position = own->first + (int64_t)(own->len + i)};
}

/* Predictor over the n rows of generator->window_*, into trunk and dependency layer, behind n_prefix rows
 * of the shared caches. Leaves the last block's rows in engine->normed; returns the last one's index. */
static size_t predict_window(const struct run *run, struct kr_cache *caches, size_t n_prefix,
                             size_t n)
{
    struct kr_generator *generator = run->generator;
    struct kr_engine *engine = run->engine;
    size_t rows = 0;

    for (size_t done = 0; done < n; done += rows) {
        rows = KR_MIN(n - done, (size_t)KR_ENGINE_ROWS);
        window_views(engine, &generator->shared[0], n_prefix, &caches[0], rows);
        kr_predict_rows(engine, engine->views, generator->window_s1 + done,
                        generator->window_s2 + done, generator->window_stamps + done, rows);
        window_views(engine, &generator->shared[1], n_prefix, &caches[1], rows);
        kr_dependency_rows(engine, engine->views, rows);
        advance(&caches[0], rows);
        advance(&caches[1], rows);
    }
    return rows - 1;
}

/* Re-encode the window for each path: the rows of the lookback once for all, then each path's own. */
static void sliding_step(const struct run *run, size_t step)
{
    struct kr_generator *generator = run->generator;
    struct kr_engine *engine = run->engine;
    size_t context = run->request->max_context, len = run->state->len;
    size_t n_own = KR_MIN(step, context), n_shared = context - n_own;
    struct kr_cache *shared = generator->shared, *own = generator->own;

    empty(&shared[0]);
    empty(&shared[1]);
    window_tokens(run, 0, len - n_shared, n_shared);
    predict_window(run, shared, 0, n_shared);
    for (size_t path = 0; path < run->paths->n_paths; path++) {
        size_t last;
        struct kr_view view = {
            .prefix = &shared[1], .n_prefix = n_shared, .own = &own[1], .index = n_own - 1};

        empty_at(&own[0], (int64_t)n_shared);
        empty_at(&own[1], (int64_t)n_shared);
        window_tokens(run, path, len + step - n_own, n_own);
        last = predict_window(run, own, n_shared, n_own);
        draw_both(run, &view, path, 1, step, engine->normed + last * engine->width, engine->width);
    }
}

/* Decoding */

/* Decode the n rows of generator->window_*, into `cache`, behind n_prefix rows of `prefix`; y [n][6] or
 * NULL, or only the last row [6] if `last_only`. */
static void decode_window(const struct run *run, const struct kr_cache *prefix, size_t n_prefix,
                          struct kr_cache *cache, size_t n, float *ret_y, bool last_only)
{
    struct kr_generator *generator = run->generator;
    struct kr_engine *engine = run->engine;
    size_t rows;

    for (size_t done = 0; done < n; done += rows) {
        float y[KR_ENGINE_ROWS * KR_COLUMNS];
        bool wanted = ret_y && (!last_only || n - done <= KR_ENGINE_ROWS);

        rows = KR_MIN(n - done, (size_t)(cache->ring ? KR_RING_SLACK : KR_ENGINE_ROWS));
        window_views(engine, prefix, n_prefix, cache, rows);
        kr_decode_rows(engine, engine->views, generator->window_s1 + done,
                       generator->window_s2 + done, rows, wanted ? y : NULL);
        advance(cache, rows);
        if (wanted && last_only)
            memcpy(ret_y, y + (rows - 1) * KR_COLUMNS, KR_COLUMNS * sizeof(float));
        else if (wanted)
            memcpy(ret_y + done * KR_COLUMNS, y, rows * KR_COLUMNS * sizeof(float));
    }
}

static float *bars_of(const struct run *run, size_t path, size_t step)
{
    return run->paths->bars + row_of(run, path, step) * KR_COLUMNS;
}

/* Steps [first, first + n) of one path into its bars, or only the last of them. */
static void decode_path(const struct run *run, size_t path, const struct kr_cache *prefix,
                        size_t n_prefix, size_t first, size_t n, bool last_only)
{
    struct kr_cache *own = run->generator->decoder;

    empty_at(own, (prefix ? prefix->first : 0) + (int64_t)n_prefix);
    window_tokens(run, path, run->state->len + first, n);
    decode_window(run, prefix, n_prefix, own, n,
                  bars_of(run, path, first + (last_only ? n - 1 : 0)), last_only);
}

/* Steps [first, first + n) of paths [path, path + n_paths), at most KR_ENGINE_ROWS, whose caches lie side by
 * side: whole steps of all of them, as many as a block takes, and so on. */
static void decode_together(const struct run *run, size_t path, size_t n_paths,
                            const struct kr_cache *prefix, size_t n_prefix, size_t first, size_t n,
                            bool last_only)
{
    struct kr_engine *engine = run->engine;
    struct kr_cache *own = run->generator->decoder + path;
    size_t block = KR_MAX(KR_ENGINE_ROWS / n_paths, (size_t)1);

    if (own->ring)
        block = KR_MIN(block, (size_t)KR_RING_SLACK);
    for (size_t i = 0; i < n_paths; i++)
        empty_at(&own[i], (prefix ? prefix->first : 0) + (int64_t)n_prefix);
    for (size_t step = first, steps; step < first + n; step += steps) {
        uint16_t s1[KR_ENGINE_ROWS], s2[KR_ENGINE_ROWS];
        float y[KR_ENGINE_ROWS * KR_COLUMNS];
        bool wanted;

        steps = KR_MIN(first + n - step, block);
        wanted = !last_only || step + steps == first + n;
        for (size_t i = 0; i < steps * n_paths; i++) {
            size_t fork = i % n_paths, index = own[fork].len + i / n_paths;
            size_t token = row_of(run, path + fork, step + i / n_paths);

            s1[i] = run->paths->s1[token];
            s2[i] = run->paths->s2[token];
            engine->views[i] = (struct kr_view){.prefix = prefix,
                                                .n_prefix = n_prefix,
                                                .own = &own[fork],
                                                .index = index,
                                                .position = own[fork].first + (int64_t)index};
        }
        kr_decode_rows(engine, engine->views, s1, s2, steps * n_paths, wanted ? y : NULL);
        for (size_t i = 0; i < n_paths; i++)
            advance(&own[i], steps);
        for (size_t i = last_only ? (steps - 1) * n_paths : 0; i < steps * n_paths && wanted; i++)
            memcpy(bars_of(run, path + i % n_paths, step + i / n_paths), y + i * KR_COLUMNS,
                   KR_COLUMNS * sizeof(float));
    }
}

/* Steps [first, first + n) of every path, in one window that starts with n_prefix rows of `prefix`; all bars, or
 * only the last step's. */
static void decode_steps(const struct run *run, const struct kr_cache *prefix, size_t n_prefix,
                         size_t first, size_t n, bool last_only)
{
    size_t n_paths = run->paths->n_paths;

    if (run->generator->decoder->lanes)
        for (size_t path = 0; path < n_paths; path += KR_ENGINE_ROWS)
            decode_together(run, path, KR_MIN(n_paths - path, (size_t)KR_ENGINE_ROWS), prefix,
                            n_prefix, first, n, last_only);
    else
        for (size_t path = 0; path < n_paths; path++)
            decode_path(run, path, prefix, n_prefix, first, n, last_only);
}

/* The lookback's last n rows at positions from 0, into generator->shared[2]. */
static void decode_lookback(const struct run *run, size_t n)
{
    struct kr_cache *shared = &run->generator->shared[2];

    empty(shared);
    window_tokens(run, 0, run->state->len - n, n);
    decode_window(run, NULL, 0, shared, n, NULL, false);
}

/* A row whose window of max_context tokens ends with itself (horizons beyond max_context). */
static void decode_sliding(const struct run *run, size_t step)
{
    size_t context = run->request->max_context;
    size_t n_own = KR_MIN(step + 1, context), n_shared = context - n_own;

    decode_lookback(run, n_shared);
    decode_steps(run, &run->generator->shared[2], n_shared, step + 1 - n_own, n_own, true);
}

static bool keep_going(const struct run *run, size_t step)
{
    return !run->request->keep_going || run->request->keep_going(run->request->context, step);
}

/* All steps to normalised bars (rules, "H <= max_context"). */
static int decode(const struct run *run)
{
    size_t context = run->request->max_context, horizon = run->paths->n_steps;
    size_t len = run->state->len, fitting;
    const struct kr_cache *prefix = &run->state->caches[KR_CACHE_DECODER];

    if (run->state->rolling || len + horizon <= context) {
        decode_steps(run, prefix, len, 0, horizon, false);
        return 0;
    }
    if (horizon <= context) {
        decode_lookback(run, context - horizon);
        decode_steps(run, &run->generator->shared[2], context - horizon, 0, horizon, false);
        return 0;
    }
    /* Rows before the last window: while everything fits, one growing window; then one each. */
    fitting = KR_MIN(context - len, horizon - context);
    if (fitting)
        decode_steps(run, prefix, len, 0, fitting, false);
    for (size_t step = fitting; step < horizon - context; step++) {
        decode_sliding(run, step);
        if (!keep_going(run, step))
            return -ECANCELED;
    }
    decode_steps(run, NULL, 0, horizon - context, context, false);
    return 0;
}

/* Levels: `join` shifts a path to start from the last close. */
static void invert_path(const struct run *run, float *bars)
{
    float shift = 0;

    if (run->request->join)
        shift = run->request->last_close - run->state->decoded[KR_CLOSE];
    for (size_t step = 0; step < run->paths->n_steps; step++) {
        float *row = bars + step * KR_COLUMNS, y[KR_COLUMNS];

        memcpy(y, row, sizeof(y));
        for (int c = KR_OPEN; c <= KR_CLOSE; c++)
            y[c] += shift;
        kr_normaliser_invert(&run->state->normaliser, y, row);
    }
}

/* Returns: walk on from the last bar. */
static void walk_path(const struct run *run, float *bars)
{
    struct kr_walk walk = *run->request->walk;

    for (size_t step = 0; step < run->paths->n_steps; step++) {
        double v[KR_COLUMNS];

        kr_walk_step(&walk, &run->generator->model->returns, bars + step * KR_COLUMNS, v);
        for (int c = 0; c < KR_COLUMNS; c++)
            bars[step * KR_COLUMNS + c] = (float)v[c];
    }
}

/* Normalised rows to prices, in place. False if a value is not finite: finite weights may be absurd. */
static bool denormalise(const struct run *run)
{
    size_t n = run->paths->n_paths * run->paths->n_steps * KR_COLUMNS;

    for (size_t path = 0; path < run->paths->n_paths; path++)
        (run->request->walk ? walk_path : invert_path)(run, bars_of(run, path, 0));
    for (size_t i = 0; i < n; i++)
        if (!isfinite(run->paths->bars[i]))
            return false;
    return true;
}

static int check_request(const struct kr_generator *generator, const struct kr_state *state,
                         const struct kr_request *request, const struct kr_paths *paths,
                         struct kr_error *error)
{
    const struct kr_generator_size *size = &generator->size;

    if (!state->len || !state->last_valid)
        return kr_error_set(error, -EINVAL, "forecast: expected an encoded bar, found none");
    if (!request->paths || request->paths > KR_MIN(size->max_paths, paths->max_paths) ||
        !request->horizon || request->horizon > KR_MIN(size->max_horizon, paths->max_horizon) ||
        (!state->rolling && (request->max_context != size->max_context ||
                             state->len < size->min_window || state->len > size->max_window)))
        return kr_error_set(
            error, -EINVAL,
            "forecast: expected at most %zu paths, %zu steps and a window of %zu..%zu in "
            "%zu, found %zu, %zu, %zu in %zu",
            size->max_paths, size->max_horizon, size->min_window, size->max_window,
            size->max_context, request->paths, request->horizon, state->len, request->max_context);
    return kr_sampling_check(&request->sampling, error);
}

int kr_generate(struct kr_generator *generator, struct kr_engine *engine,
                const struct kr_state *state, const struct kr_request *request,
                struct kr_paths *ret, struct kr_error *error)
{
    struct run run = {generator, engine, state, request, ret};
    int r = check_request(generator, state, request, ret, error);
    int64_t at;

    if (r < 0)
        return r;
    ret->n_paths = request->paths;
    ret->n_steps = request->horizon;
    at = state->first + (int64_t)state->len;
    ret->window_slid = !state->rolling && state->len + request->horizon > request->max_context;
    for (size_t path = 0; path < request->paths; path++) {
        empty_at(&generator->trunk[path], at);
        empty_at(&generator->dependency[path], at);
    }
    for (size_t step = 0; step < request->horizon; step++) {
        if (request->sampling.stratified)
            draw_strata(&run, step);
        if (step == 0)
            first_step(&run);
        else if (state->rolling || state->len + step <= request->max_context)
            cached_step(&run, step);
        else
            sliding_step(&run, step);
#ifdef KR_DEBUG_CHECKS
        for (size_t path = 1; path < request->paths; path++)
            assert(generator->trunk[path].len == generator->trunk[0].len &&
                   generator->dependency[path].len == generator->trunk[0].len);
#endif
        if (!keep_going(&run, step))
            return kr_error_set(error, -ECANCELED, "forecast: cancelled at step %zu", step);
    }
    r = decode(&run);
    if (r < 0)
        return kr_error_set(error, r, "forecast: cancelled while decoding");
    if (!denormalise(&run))
        return kr_error_set(error, -EDOM, "forecast: expected finite prices, found others");
    return 0;
}
