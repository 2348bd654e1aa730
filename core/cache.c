/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "core/cache.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HUGE_PAGE ((size_t)2 << 20)

/* Zeroed floats; where they fill huge pages, on those, if the system lends them: K and V are read from end to end
 * at every step. Not rounded up: a cache takes what kr_cache_size_bytes() says. */
static float *alloc_floats(size_t n)
{
    size_t bytes = n * sizeof(float);
    void *memory;

    if (n > SIZE_MAX / sizeof(float) || bytes < HUGE_PAGE)
        return kr_alloc(n, sizeof(float));
    if (posix_memalign(&memory, HUGE_PAGE, bytes) != 0)
        return NULL;
    (void)madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    memset(memory, 0, bytes);
    return memory;
}

/* Floats of K and of V, or false on overflow. */
static bool cache_floats(const struct kr_cache_shape *shape, size_t capacity, size_t *ret_k,
                         size_t *ret_v)
{
    size_t row, padded = kr_round_up(capacity, KR_LANES);

    return padded >= capacity && kr_multiply(shape->n_layers, shape->n_heads, &row) &&
           kr_multiply(row, shape->head_dim, &row) && kr_multiply(row, padded, ret_k) &&
           kr_multiply(row, capacity, ret_v);
}

size_t kr_cache_size_bytes(const struct kr_cache_shape *shape, size_t capacity)
{
    size_t k, v, total;

    if (!cache_floats(shape, capacity, &k, &v) || !kr_add(k, v, &total) ||
        !kr_multiply(total, sizeof(float), &total))
        return 0;
    return total;
}

/* One row's numbers of one head: where the first stands, and floats from each to the next. */
static float *key_of(const struct kr_cache *cache, size_t layer, size_t head, size_t slot,
                     size_t *ret_step)
{
    size_t dim = cache->shape.head_dim;

    *ret_step = cache->lanes ? KR_FORK_GROUP * cache->lanes : KR_LANES;
    if (cache->lanes)
        return cache->k + kr_cache_fork_keys(cache, layer, head, slot);
    return (float *)kr_cache_keys(cache, layer, head) + slot / KR_LANES * KR_LANES * dim +
           slot % KR_LANES;
}

static float *value_of(const struct kr_cache *cache, size_t layer, size_t head, size_t slot,
                       size_t *ret_step)
{
    *ret_step = cache->lanes ? cache->lanes : 1;
    if (cache->lanes)
        return cache->v + kr_cache_fork_values(cache, layer, head, slot);
    return (float *)kr_cache_values(cache, layer, head) + slot * cache->shape.head_dim;
}

/* Rows that nothing may read hold nan in a debug build: one that slips into a sum shows at once. */
static void poison(struct kr_cache *cache, size_t first, size_t end)
{
#ifdef KR_DEBUG_CHECKS
    size_t heads = cache->shape.n_layers * cache->shape.n_heads, k_step, v_step;

    for (size_t head = 0; head < heads; head++)
        for (size_t row = first; row < end; row++) {
            float *key = key_of(cache, 0, head, row, &k_step);
            float *value = value_of(cache, 0, head, row, &v_step);

            for (size_t d = 0; d < cache->shape.head_dim; d++)
                key[d * k_step] = value[d * v_step] = NAN;
        }
#else
    (void)cache, (void)first, (void)end;
#endif
}

int kr_cache_init(struct kr_cache *cache, const struct kr_cache_shape *shape, size_t capacity)
{
    size_t k, v;

    memset(cache, 0, sizeof(*cache));
    if (!shape->n_heads || !shape->head_dim || !capacity) /* a stack may have no block */
        return -EINVAL;
    if (!cache_floats(shape, capacity, &k, &v))
        return -EOVERFLOW;
    cache->shape = *shape;
    cache->capacity = capacity;
    cache->k = alloc_floats(k);
    cache->v = alloc_floats(v);
    if (!cache->k || !cache->v) {
        kr_cache_free(cache);
        return -ENOMEM;
    }
    poison(cache, 0, capacity);
    return 0;
}

size_t kr_cache_ring_slots(size_t window)
{
    return kr_round_up(window + KR_RING_SLACK,
                       KR_LANES); /* a slot's lane is the row's, absolutely */
}

int kr_cache_init_ring(struct kr_cache *cache, const struct kr_cache_shape *shape, size_t window)
{
    int r;

    if (!window || window > SIZE_MAX / 2) {
        memset(cache, 0, sizeof(*cache));
        return -EINVAL;
    }
    r = kr_cache_init(cache, shape, kr_cache_ring_slots(window));
    if (r < 0)
        return r;
    cache->window = window;
    cache->ring = true;
    return 0;
}

void kr_cache_free(struct kr_cache *cache)
{
    free(cache->k);
    free(cache->v);
    memset(cache, 0, sizeof(*cache));
}

static size_t fork_lanes(size_t n)
{
    return n < KR_FORKS_TOGETHER ? 0 : kr_round_up(n, KR_LANES);
}

/* Floats of K and of V of all forks that lie side by side, or false on overflow. */
static bool fork_floats(const struct kr_cache_shape *shape, size_t n, size_t capacity,
                        size_t *ret_k, size_t *ret_v)
{
    size_t row, padded = kr_round_up(capacity, KR_FORK_GROUP);

    return padded >= capacity && kr_multiply(shape->n_layers, shape->n_heads, &row) &&
           kr_multiply(row, shape->head_dim, &row) && kr_multiply(row, fork_lanes(n), &row) &&
           kr_multiply(row, padded, ret_k) && kr_multiply(row, capacity, ret_v);
}

size_t kr_cache_forks_size_bytes(const struct kr_cache_shape *shape, size_t n, size_t capacity)
{
    size_t k, v, total = 0;

    if (!fork_lanes(n))
        return kr_multiply(n, kr_cache_size_bytes(shape, capacity), &total) ? total : 0;
    if (!fork_floats(shape, n, capacity, &k, &v) || !kr_add(k, v, &total) ||
        !kr_multiply(total, sizeof(float), &total))
        return 0;
    return total;
}

static int init_together(struct kr_cache *forks, size_t n, const struct kr_cache_shape *shape,
                         size_t capacity)
{
    size_t n_k, n_v;
    float *k, *v;

    if (!shape->n_heads || !shape->head_dim || !capacity)
        return -EINVAL;
    if (!fork_floats(shape, n, capacity, &n_k, &n_v))
        return -EOVERFLOW;
    k = alloc_floats(n_k);
    v = alloc_floats(n_v);
    if (!k || !v) {
        free(k);
        free(v);
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        forks[i] = (struct kr_cache){.shape = *shape,
                                     .capacity = capacity,
                                     .k = k + i,
                                     .v = v + i,
                                     .lanes = fork_lanes(n),
                                     .lane = i};
        poison(&forks[i], 0, capacity);
    }
    return 0;
}

int kr_cache_init_forks(struct kr_cache *forks, size_t n, const struct kr_cache_shape *shape,
                        size_t capacity, size_t window, bool ring)
{
    int r = 0;

    memset(forks, 0, n * sizeof(*forks));
    if (ring && (!window || window > SIZE_MAX / 2))
        return -EINVAL;
    if (ring)
        capacity = kr_cache_ring_slots(window);
    if (fork_lanes(n))
        r = init_together(forks, n, shape, capacity);
    for (size_t i = 0; i < n && r == 0 && !fork_lanes(n); i++)
        r = kr_cache_init(&forks[i], shape, capacity);
    if (r < 0) {
        kr_cache_free_forks(forks, n);
        return r;
    }
    for (size_t i = 0; i < n; i++) {
        forks[i].window = window;
        forks[i].ring = ring;
    }
    return 0;
}

void kr_cache_free_forks(struct kr_cache *forks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (forks[i].lane > 0) /* of the first one's memory */
            forks[i].k = forks[i].v = NULL;
        kr_cache_free(&forks[i]);
    }
}

void kr_cache_reset(struct kr_cache *cache, int64_t first)
{
    size_t end = KR_MIN(cache->len, cache->capacity);

    cache->len = 0;
    cache->first = first;
    poison(cache, 0, end);
}

void kr_cache_write(struct kr_cache *cache, size_t layer, size_t row, const float *k,
                    const float *v)
{
    size_t dim = cache->shape.head_dim, slot = kr_cache_slot(cache, row);

    assert(layer < cache->shape.n_layers && row >= cache->len);
    assert(cache->ring ? row - cache->len <= KR_RING_SLACK : row < cache->capacity);
    for (size_t head = 0; head < cache->shape.n_heads; head++) {
        size_t k_step, v_step;
        float *key = key_of(cache, layer, head, slot, &k_step);
        float *value = value_of(cache, layer, head, slot, &v_step);

        for (size_t d = 0; d < dim; d++)
            key[d * k_step] = k[head * dim + d];
        if (v_step == 1)
            memcpy(value, v + head * dim, dim * sizeof(float));
        else
            for (size_t d = 0; d < dim; d++)
                value[d * v_step] = v[head * dim + d];
    }
}

void kr_cache_read(const struct kr_cache *cache, size_t layer, size_t row, float *ret_k,
                   float *ret_v)
{
    size_t dim = cache->shape.head_dim, slot = kr_cache_slot(cache, row);

    assert(layer < cache->shape.n_layers && slot < cache->capacity);
    for (size_t head = 0; head < cache->shape.n_heads; head++) {
        size_t k_step, v_step;
        const float *key = key_of(cache, layer, head, slot, &k_step);
        const float *value = value_of(cache, layer, head, slot, &v_step);

        for (size_t d = 0; d < dim; d++) {
            ret_k[head * dim + d] = key[d * k_step];
            ret_v[head * dim + d] = value[d * v_step];
        }
    }
}

int kr_cache_append(struct kr_cache *cache, size_t n)
{
    if (cache->ring ? n > KR_RING_SLACK + 1 : n > cache->capacity - cache->len)
        return -ENOSPC;
    cache->len += n;
    return 0;
}

int kr_cache_truncate(struct kr_cache *cache, size_t len)
{
    size_t end = cache->len;

    if (len > cache->len || (cache->ring && end - len > KR_RING_SLACK + 1))
        return -ERANGE;
    cache->len = len;
    if (!cache->ring) /* a ring's dropped slots are read by nobody until they are written */
        poison(cache, len, end);
    return 0;
}

int kr_cache_copy(struct kr_cache *to, const struct kr_cache *from)
{
    size_t dim = from->shape.head_dim, end = to->len;

    assert(memcmp(&to->shape, &from->shape, sizeof(to->shape)) == 0 && !to->ring && !from->ring &&
           !to->lanes && !from->lanes);
    if (from->len > to->capacity)
        return -ENOSPC;
    for (size_t layer = 0; layer < from->shape.n_layers; layer++)
        for (size_t head = 0; head < from->shape.n_heads; head++) {
            memcpy((float *)kr_cache_keys(to, layer, head), kr_cache_keys(from, layer, head),
                   kr_round_up(from->len, KR_LANES) * dim * sizeof(float));
            memcpy((float *)kr_cache_values(to, layer, head), kr_cache_values(from, layer, head),
                   from->len * dim * sizeof(float));
        }
    to->len = from->len;
    if (end > to->len)
        poison(to, to->len, end);
    return 0;
}
