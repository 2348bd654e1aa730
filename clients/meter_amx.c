/* SPDX-License-Identifier: MIT */
/* The bf16 loop of AMX, the matrix unit of some processors: 16 rows by 16 columns by 32 products an instruction. Six
 * sums of the eight tiles hide its latency (52 cycles, one in 16). */
#include "clients/meter.h"

#if defined(__AMX_BF16__) || defined(__AMXBF16__) /* clang's name, up to 14 */
#include <immintrin.h>

#define SUMS 6

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};

double kc_meter_amx(size_t rounds)
{
    struct tile_config config = {.palette = 1};
    uint16_t values[16 * 32];

    for (int tile = 0; tile < 8; tile++) {
        config.row_bytes[tile] = 64;
        config.n_rows[tile] = 16;
    }
    for (size_t i = 0; i < KR_ARRAY_LENGTH(values); i++)
        values[i] = 0x3580; /* 2^-20 */
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&config);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_loadd(6, values, 64);
    _tile_loadd(7, values, 64);
    for (size_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
        _tile_dpbf16ps(4, 6, 7);
        _tile_dpbf16ps(5, 6, 7);
    }
    _tile_release();
    return 2.0 * SUMS * 16 * 16 * 32 * (double)rounds;
}

#else
double kc_meter_amx(size_t rounds)
{
    (void)rounds;
    return 0; /* no such processor: kc_meter_has_amx() says so */
}
#endif
