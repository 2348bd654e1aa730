/* SPDX-License-Identifier: MIT */
#include "core/draw.h"

#include <Random123/philox.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t kr_draw_key(uint64_t seed, const char *interval, const char *symbol)
{
    char stream[64];
    int length = snprintf(stream, sizeof(stream), "%s|%s", interval, symbol);

    assert(length > 0 && (size_t)length < sizeof(stream)); /* both were validated, 7 + 1 + 32 */
    (void)length;
    return seed ^ kr_fnv1a64(stream);
}

void kr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4])
{
    philox4x32_ctr_t c = {{counter[0], counter[1], counter[2], counter[3]}};
    philox4x32_key_t k = {{key[0], key[1]}};

    c = philox4x32_R(10, c, k);
    memcpy(ret, c.v, sizeof(c.v));
}

static void words_of(uint64_t key, int64_t as_of_ns, uint32_t path, uint32_t step, uint32_t head,
                     uint32_t ret[4])
{
    uint64_t t = (uint64_t)as_of_ns;
    const uint32_t words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    const uint32_t counter[4] = {(uint32_t)t, (uint32_t)(t >> 32), path, 2 * step + head};

    kr_philox(counter, words, ret);
}

static double uniform_of(const uint32_t w[4])
{
    return (double)(((uint64_t)w[1] << 32 | w[0]) >> 11) * 0x1p-53;
}

double kr_draw(uint64_t key, int64_t as_of_ns, uint32_t path, uint32_t step, uint32_t head)
{
    uint32_t w[4];

    words_of(key, as_of_ns, path, step, head, w);
    return uniform_of(w);
}

static int by_key(const void *a, const void *b)
{
    const struct kr_rank *left = a, *right = b;

    if (left->key != right->key)
        return left->key < right->key ? -1 : 1;
    return left->path < right->path ? -1 : left->path > right->path;
}

void kr_draw_strata(uint64_t key, int64_t as_of_ns, uint32_t step, uint32_t head, size_t n,
                    struct kr_rank *ranks, double *ret)
{
    for (size_t path = 0; path < n; path++) {
        uint32_t w[4];

        words_of(key, as_of_ns, (uint32_t)path, step, head, w);
        ret[path] = uniform_of(w);
        ranks[path] = (struct kr_rank){(uint64_t)w[3] << 32 | w[2], (uint32_t)path};
    }
    qsort(ranks, n, sizeof(*ranks), by_key);
    for (size_t rank = 0; rank < n; rank++) {
        double *u = &ret[ranks[rank].path];

        *u = ((double)rank + *u) / (double)n;
        if (*u >= 1)
            *u = 1 - 0x1p-53; /* rounded up */
    }
}

double kr_draw_pit(uint64_t key, int64_t as_of_ns, uint32_t step)
{
    return kr_draw(key, as_of_ns, KR_DRAW_PIT_PATH, step, 2);
}
