/* SPDX-License-Identifier: MIT */
#include "core/draw.h"

#include <Random123/philox.h>
#include <assert.h>
#include <stdio.h>
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

double kr_draw(uint64_t key, int64_t as_of_ns, uint32_t path, uint32_t step, uint32_t head)
{
    uint64_t t = (uint64_t)as_of_ns;
    const uint32_t words[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    const uint32_t counter[4] = {(uint32_t)t, (uint32_t)(t >> 32), path, 2 * step + head};
    uint32_t w[4];

    kr_philox(counter, words, w);
    return (double)(((uint64_t)w[1] << 32 | w[0]) >> 11) * 0x1p-53;
}

double kr_draw_pit(uint64_t key, int64_t as_of_ns, uint32_t step)
{
    return kr_draw(key, as_of_ns, KR_DRAW_PIT_PATH, step, 2);
}
