/* SPDX-License-Identifier: MIT */
/* Products of bfloat16 on AMX, a matrix unit of some processors that is several times as fast as their
 * vectors: 16 rows by 16 columns by 32 columns of x an instruction.
 *
 * An element's sum begins at its bias and takes x in blocks of 32 in ascending order; within a block the
 * instruction sums its even columns, its odd ones, then both: fixed by the column alone. Rows past the last
 * one are zero rows of our own buffer. */
#include "core/product_bf16.h"

#include <immintrin.h>
#include <string.h>

#define TILE_ROWS    16
#define TILE_COLUMNS 16
#define PANEL        (2 * TILE_COLUMNS)

/* The eight tile registers: sums of two blocks of rows by two of columns, rows, weights. Their numbers are
 * parts of instructions, hence macros. */
#define SUM_00    0
#define SUM_01    1
#define SUM_10    2
#define SUM_11    3
#define ROWS_0    4
#define ROWS_1    5
#define WEIGHTS_0 6
#define WEIGHTS_1 7

/* Everything is in memory before tiles are loaded from it: gcc 12's intrinsics do not say that they read. */
#define written() __asm__ volatile("" ::: "memory")

struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t n_rows[16];
};

/* Tiles of `n_rows` rows for x and the sums. */
static void configure(size_t n_rows)
{
    _Alignas(KR_ALIGNMENT) struct tile_config config = {.palette = 1};

    for (int t = 0; t < 8; t++) {
        config.row_bytes[t] = 64;
        config.n_rows[t] = (uint8_t)(t < WEIGHTS_0 ? n_rows : TILE_ROWS);
    }
    written();
    _tile_loadconfig(&config);
}

/* One pair of column blocks and one or two blocks of rows. */
struct job {
    const uint16_t *x; /* [block_rows * n_blocks][depth] */
    const uint16_t *w; /* [depth / 2][width][2] */
    size_t depth, width, block_rows, n_blocks;
    const float *bias; /* [PANEL] */
    bool second;       /* there is a second block of columns */
    /* Weights of the next pair, to bring into the second-level cache. NULL: they come already, or so few rows
     * would wait for that. */
    const uint16_t *ahead;
};

/* The weights of one step, both tiles. */
static void ask(const uint16_t *w, size_t width)
{
    for (size_t row = 0; row < TILE_ROWS; row++, w += 2 * width) {
        _mm_prefetch((const char *)w, _MM_HINT_T1);
        _mm_prefetch((const char *)(w + TILE_COLUMNS * 2), _MM_HINT_T1);
    }
}

/* sums [block_rows * n_blocks][PANEL]. */
static void multiply(const struct job *job, float *sums)
{
    size_t x_bytes = job->depth * sizeof(uint16_t), w_bytes = job->width * 2 * sizeof(uint16_t);
    size_t sum_bytes = PANEL * sizeof(float);
    const uint16_t *x = job->x, *below = x + job->block_rows * job->depth, *w = job->w;
    const uint16_t *ahead = job->ahead;
    float *sums_below = sums + job->block_rows * PANEL;
    bool two = job->n_blocks == 2, second = job->second;

    written();
    /* each row begins at the bias: a stride of 0 loads the same line again */
    _tile_loadd(SUM_00, job->bias, 0);
    _tile_loadd(SUM_01, job->bias + TILE_COLUMNS, 0);
    _tile_loadd(SUM_10, job->bias, 0);
    _tile_loadd(SUM_11, job->bias + TILE_COLUMNS, 0);
    for (size_t k = 0; k < job->depth; k += KR_BF16_DEPTH) {
        _tile_loadd(ROWS_0, x + k, x_bytes);
        _tile_loadd(WEIGHTS_0, w, w_bytes);
        _tile_dpbf16ps(SUM_00, ROWS_0, WEIGHTS_0);
        if (second) {
            _tile_loadd(WEIGHTS_1, w + TILE_COLUMNS * 2, w_bytes);
            _tile_dpbf16ps(SUM_01, ROWS_0, WEIGHTS_1);
        }
        if (two) {
            _tile_loadd(ROWS_1, below + k, x_bytes);
            _tile_dpbf16ps(SUM_10, ROWS_1, WEIGHTS_0);
            if (second)
                _tile_dpbf16ps(SUM_11, ROWS_1, WEIGHTS_1);
        }
        if (ahead) {
            ask(ahead, job->width);
            ahead += KR_BF16_DEPTH * job->width;
        }
        w += KR_BF16_DEPTH * job->width;
    }
    _tile_stored(SUM_00, sums, sum_bytes);
    _tile_stored(SUM_01, sums + TILE_COLUMNS, sum_bytes);
    if (two) {
        _tile_stored(SUM_10, sums_below, sum_bytes);
        _tile_stored(SUM_11, sums_below + TILE_COLUMNS, sum_bytes);
    }
}

/* sums [n_rows][PANEL] -> y, `n` columns of it. */
static void put(const float *sums, float *y, size_t y_stride, size_t n_rows, size_t n, bool add)
{
    __mmask16 first = (__mmask16)((1u << KR_MIN(n, (size_t)TILE_COLUMNS)) - 1);
    __mmask16 second = (__mmask16)(n > TILE_COLUMNS ? (1u << (n - TILE_COLUMNS)) - 1 : 0);

    for (size_t row = 0; row < n_rows; row++, sums += PANEL, y += y_stride) {
        __m512 a = _mm512_load_ps(sums), b = _mm512_load_ps(sums + TILE_COLUMNS);

        if (add) {
            a = _mm512_add_ps(_mm512_maskz_loadu_ps(first, y), a);
            b = _mm512_add_ps(_mm512_maskz_loadu_ps(second, y + TILE_COLUMNS), b);
        }
        _mm512_mask_storeu_ps(y, first, a);
        _mm512_mask_storeu_ps(y + TILE_COLUMNS, second, b);
    }
}

/* All columns for rounded rows x [n_rows rounded up to block_rows][depth]. */
static void run_rows(const struct kr_linear *linear, const uint16_t *x, size_t depth,
                     size_t block_rows, float *y, size_t y_stride, size_t n_rows, bool add)
{
    _Alignas(KR_ALIGNMENT) float sums[2 * TILE_ROWS * PANEL];

    for (size_t column = 0; column < linear->n_out; column += PANEL) {
        _Alignas(KR_ALIGNMENT) float bias[PANEL] = {0};
        size_t n = KR_MIN(linear->n_out - column, (size_t)PANEL);
        struct job job = {
            .w = (const uint16_t *)linear->packed + column * depth,
            .depth = depth,
            .width = kr_round_up(n, TILE_COLUMNS),
            .block_rows = block_rows,
            .bias = bias,
            .second = n > TILE_COLUMNS,
        };
        size_t rows;

        if (linear->bias)
            memcpy(bias, linear->bias + column, n * sizeof(float));
        for (size_t row = 0; row < n_rows; row += rows) {
            job.x = x + row * depth;
            job.ahead = row == 0 && n_rows > block_rows ? job.w + depth * job.width : NULL;
            job.n_blocks = n_rows - row > block_rows ? 2 : 1;
            rows = KR_MIN(job.n_blocks * block_rows, n_rows - row);
            multiply(&job, sums);
            put(sums, y + row * y_stride + column, y_stride, rows, n, add);
        }
    }
}

static void run(const struct kr_linear *const *linears, float *const *ys, size_t n_linears,
                const float *x, size_t x_stride, size_t y_stride, size_t n_rows, bool add)
{
    _Alignas(KR_ALIGNMENT) uint16_t rounded[KR_BF16_ITEMS];
    size_t n_in = linears[0]->n_in, depth = kr_round_up(n_in, KR_BF16_DEPTH), rows;
    size_t most = KR_BF16_ITEMS / depth, block_rows = KR_MIN(most, (size_t)TILE_ROWS);

    most -= most % block_rows;
    configure(block_rows);
    for (size_t row = 0; row < n_rows; row += rows) {
        size_t padding;

        rows = KR_MIN(most, n_rows - row);
        padding = (block_rows - rows % block_rows) % block_rows;
        kr_bf16_rows(x + row * x_stride, x_stride, n_in, rows, rounded);
        memset(rounded + rows * depth, 0, padding * depth * sizeof(uint16_t));
        for (size_t i = 0; i < n_linears; i++)
            run_rows(linears[i], rounded, depth, block_rows, ys[i] + row * y_stride, y_stride, rows,
                     add);
    }
    _tile_release(); /* a thread with clean tiles is cheap to switch */
}

extern const struct kr_products kr_products_amx_bf16;
const struct kr_products kr_products_amx_bf16 = {
    .name = "amx_bf16",
    .precision = KR_BF16_PRODUCTS,
    .panel = PANEL,
    .lanes = TILE_COLUMNS,
    .depth = KR_BF16_DEPTH,
    .run = run,
};
