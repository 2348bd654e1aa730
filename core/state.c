/* SPDX-License-Identifier: MIT */
#include "core/state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct kr_cache_shape stack_shape(const struct kr_stack *stack)
{
    return (struct kr_cache_shape){stack->n_layers, stack->n_heads, stack->head_dim};
}

struct kr_cache_shape kr_cache_shape_of(const struct kr_model *model, int cache)
{
    switch (cache) {
    case KR_CACHE_ENCODER:
        return stack_shape(&model->tokenizer.encoder);
    case KR_CACHE_TRUNK:
        return stack_shape(&model->predictor.trunk);
    case KR_CACHE_DECODER:
        return stack_shape(&model->tokenizer.decoder);
    default:
        return (struct kr_cache_shape){1, KR_DEP_HEADS, model->predictor.d_model / KR_DEP_HEADS};
    }
}

/* What the caller's sizes mean for this model. */
struct sizes {
    size_t capacity, encoder_capacity;
};

static struct sizes sizes_of(const struct kr_model *model, size_t capacity, size_t encoder_capacity)
{
    size_t slots = model->attention_window ? kr_cache_ring_slots(model->attention_window) : 0;

    return slots ? (struct sizes){slots, slots} : (struct sizes){capacity, encoder_capacity};
}

static size_t rows_of(int cache, const struct sizes *sizes)
{
    return cache == KR_CACHE_ENCODER ? sizes->encoder_capacity : sizes->capacity;
}

size_t kr_state_size_bytes(const struct kr_model *model, size_t capacity, size_t encoder_capacity)
{
    struct sizes sizes = sizes_of(model, capacity, encoder_capacity);
    size_t total = 0;

    for (int c = 0; c < KR_CACHES; c++) {
        struct kr_cache_shape shape = kr_cache_shape_of(model, c);

        total += kr_cache_size_bytes(&shape, rows_of(c, &sizes));
    }
    return total + sizes.capacity * (2 * sizeof(uint16_t) + sizeof(struct kr_stamp)) +
           model->predictor.d_model * sizeof(float);
}

int kr_state_init(struct kr_state *state, const struct kr_model *model, size_t capacity,
                  size_t encoder_capacity)
{
    struct sizes sizes = sizes_of(model, capacity, encoder_capacity);
    int r = 0;

    memset(state, 0, sizeof(*state));
    if (!capacity || encoder_capacity < capacity)
        return -EINVAL;
    state->rolling = model->attention_window > 0;
    for (int c = 0; c < KR_CACHES && r == 0; c++) {
        struct kr_cache_shape shape = kr_cache_shape_of(model, c);

        r = state->rolling ? kr_cache_init_ring(&state->caches[c], &shape, model->attention_window)
                           : kr_cache_init(&state->caches[c], &shape, rows_of(c, &sizes));
    }
    state->model = model;
    state->capacity = sizes.capacity;
    state->encoder_capacity = sizes.encoder_capacity;
    state->s1 = kr_alloc(sizes.capacity, sizeof(*state->s1));
    state->s2 = kr_alloc(sizes.capacity, sizeof(*state->s2));
    state->stamps = kr_alloc(sizes.capacity, sizeof(*state->stamps));
    state->h = kr_alloc(model->predictor.d_model, sizeof(*state->h));
    if (r == 0 && (!state->s1 || !state->s2 || !state->stamps || !state->h))
        r = -ENOMEM;
    if (r < 0)
        kr_state_free(state);
    return r;
}

void kr_state_free(struct kr_state *state)
{
    for (int c = 0; c < KR_CACHES; c++)
        kr_cache_free(&state->caches[c]);
    free(state->s1);
    free(state->s2);
    free(state->stamps);
    free(state->h);
    memset(state, 0, sizeof(*state));
}

static void reset(struct kr_state *state, int64_t first, size_t n_skipped)
{
    for (int c = 0; c < KR_CACHES; c++)
        kr_cache_reset(&state->caches[c], first);
    state->len = 0;
    state->first = first;
    state->n_skipped = n_skipped;
    state->last_valid = false;
}

void kr_state_reset(struct kr_state *state, const struct kr_normaliser *normaliser,
                    size_t n_skipped)
{
    assert(!state->rolling);
    reset(state, 0, n_skipped);
    state->normaliser = *normaliser;
}

void kr_state_reset_rolling(struct kr_state *state, int64_t first)
{
    assert(state->rolling);
    reset(state, first, 0);
}

/* Views of n rows appended to a cache. */
static struct kr_view *append_views(struct kr_engine *engine, struct kr_cache *cache, size_t n)
{
    for (size_t i = 0; i < n; i++)
        engine->views[i] = (struct kr_view){.own = cache,
                                            .index = cache->len + i,
                                            .position = cache->first + (int64_t)(cache->len + i)};
    return engine->views;
}

static void advance(struct kr_cache *cache, size_t n)
{
    if (kr_cache_append(cache, n) < 0)
        assert(false); /* room was checked for the whole call */
}

/* The predictor's and the decoder's part of n rows. */
static void append_tokens(struct kr_state *state, struct kr_engine *engine, const uint16_t *s1,
                          const uint16_t *s2, const struct kr_stamp *stamps, size_t n)
{
    struct kr_cache *trunk = &state->caches[KR_CACHE_TRUNK];
    struct kr_cache *dependency = &state->caches[KR_CACHE_DEPENDENCY];
    struct kr_cache *decoder = &state->caches[KR_CACHE_DECODER];
    size_t at = state->rolling ? 0 : state->len;
    float y[KR_ENGINE_ROWS * KR_COLUMNS];

    memcpy(state->s1 + at, s1, n * sizeof(*s1));
    memcpy(state->s2 + at, s2, n * sizeof(*s2));
    memcpy(state->stamps + at, stamps, n * sizeof(*stamps));
    kr_predict_rows(engine, append_views(engine, trunk, n), s1, s2, stamps, n);
    memcpy(state->h, engine->normed + (n - 1) * engine->width,
           state->model->predictor.d_model * sizeof(float));
    kr_dependency_rows(engine, append_views(engine, dependency, n), n);
    kr_decode_rows(engine, append_views(engine, decoder, n), s1, s2, n, y);
    memcpy(state->decoded, y + (n - 1) * KR_COLUMNS, sizeof(state->decoded));
    advance(trunk, n);
    advance(dependency, n);
    advance(decoder, n);
    state->len += n;
    state->last_valid = true;
}

/* Is there room for n more bars, the first `skipping` of which the predictor does not see? */
static bool fits(const struct kr_state *state, size_t n, size_t skipping)
{
    const struct kr_cache *encoder = &state->caches[KR_CACHE_ENCODER];

    if (state->rolling)
        return true;
    return n <= encoder->capacity - encoder->len &&
           (n <= skipping || n - skipping <= state->capacity - state->len);
}

int kr_state_append_normalised(struct kr_state *state, struct kr_engine *engine, const float *x,
                               const struct kr_stamp *stamps, size_t n)
{
    struct kr_cache *encoder = &state->caches[KR_CACHE_ENCODER];
    size_t skipping = state->n_skipped > encoder->len ? state->n_skipped - encoder->len : 0;
    size_t block = state->rolling ? KR_RING_SLACK : KR_ENGINE_ROWS; /* a ring's slack bounds it */

    if (!fits(state, n, skipping))
        return -ENOSPC;
    for (size_t done = 0, rows; done < n; done += rows) {
        uint16_t s1[KR_ENGINE_ROWS], s2[KR_ENGINE_ROWS];

        rows = KR_MIN(n - done, block);
        if (skipping > 0)
            rows = KR_MIN(rows, skipping);
        kr_encode_rows(engine, append_views(engine, encoder, rows), x + done * KR_COLUMNS, rows, s1,
                       s2, NULL);
        advance(encoder, rows);
        if (skipping > 0)
            skipping -= rows;
        else
            append_tokens(state, engine, s1, s2, stamps + done, rows);
    }
    return 0;
}

int kr_state_append(struct kr_state *state, struct kr_engine *engine, const struct kr_bar *bars,
                    size_t n)
{
    bool clipped = false;
    size_t done = 0;
    int r;

    while (done < n) {
        size_t rows = KR_MIN(n - done, (size_t)KR_ENGINE_ROWS);
        float x[KR_ENGINE_ROWS * KR_COLUMNS];
        struct kr_stamp stamps[KR_ENGINE_ROWS];

        for (size_t i = 0; i < rows; i++) {
            clipped |= kr_normaliser_apply(&state->normaliser, &bars[done + i], x + i * KR_COLUMNS);
            stamps[i] = bars[done + i].stamp;
        }
        r = kr_state_append_normalised(state, engine, x, stamps, rows);
        if (r < 0)
            return r;
        done += rows;
    }
    return clipped;
}

int kr_state_truncate(struct kr_state *state, size_t len)
{
    size_t dropped = state->len - len;

    if (len > state->len || (state->rolling && dropped > KR_RING_SLACK + 1))
        return -ERANGE;
    for (int c = 0; c < KR_CACHES; c++)
        if (kr_cache_truncate(&state->caches[c], state->caches[c].len - dropped) < 0)
            assert(false);
    state->len = len;
    if (dropped)
        state->last_valid = false;
    return 0;
}

int kr_state_copy(struct kr_state *to, const struct kr_state *from)
{
    if (from->len > to->capacity)
        return -ENOSPC;
    for (int c = 0; c < KR_CACHES; c++) {
        int r = kr_cache_copy(&to->caches[c], &from->caches[c]);

        if (r < 0)
            return r;
    }
    to->len = from->len;
    to->n_skipped = from->n_skipped;
    memcpy(to->s1, from->s1, from->len * sizeof(*to->s1));
    memcpy(to->s2, from->s2, from->len * sizeof(*to->s2));
    memcpy(to->stamps, from->stamps, from->len * sizeof(*to->stamps));
    memcpy(to->h, from->h, from->model->predictor.d_model * sizeof(*to->h));
    memcpy(to->decoded, from->decoded, sizeof(to->decoded));
    to->normaliser = from->normaliser;
    to->last_valid = from->last_valid;
    return 0;
}

int kr_state_check(const struct kr_state *state, struct kr_error *error)
{
    static const char *const names[KR_CACHES] = {"encoder", "trunk", "dependency layer", "decoder"};

    for (int c = 0; c < KR_CACHES; c++) {
        const struct kr_cache *cache = &state->caches[c];
        struct kr_cache_shape shape = kr_cache_shape_of(state->model, c);
        struct sizes sizes = {state->capacity, state->encoder_capacity};
        size_t rows = rows_of(c, &sizes);
        size_t skipped = c == KR_CACHE_ENCODER ? state->n_skipped : 0;

        if (memcmp(&shape, &cache->shape, sizeof(shape)) != 0 || cache->capacity != rows)
            return kr_error_set(error, -EUCLEAN,
                                "%s cache: expected the model's shape and %zu rows", names[c],
                                rows);
        if (state->len > 0 && cache->len != state->len + skipped)
            return kr_error_set(error, -EUCLEAN, "%s cache: expected cursor %zu, found %zu",
                                names[c], state->len + skipped, cache->len);
    }
    return 0;
}
