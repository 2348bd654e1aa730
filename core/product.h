/* SPDX-License-Identifier: MIT */
/* The one product interface: rows of activations against a weight matrix. */
#ifndef KR_PRODUCT_H
#define KR_PRODUCT_H

#include "core/base.h"

/* y = x W^T + b. W [n_out][n_in] row-major as stored; b [n_out] or NULL. Weights are borrowed. */
struct kr_linear {
    size_t n_out, n_in;
    const float *weight;
    const float *bias;
};

/* Rows a product runs at once. OpenBLAS sums a row in one order whatever its neighbours only when the
 * block is always the same size; 8 is clean on every kernel of 0.3.21 (rules). */
#define KR_BLOCK_ROWS 8

/* y [n_rows][y_stride], x [n_rows][x_stride]; strides in floats, >= n_out, n_in. Both buffers hold n_rows
 * rounded up to KR_BLOCK_ROWS: rows of x past n_rows are zeroed here, those of y are undefined. y must
 * not overlap x. Any thread. */
void kr_product(const struct kr_linear *linear, float *x, size_t x_stride, float *y,
                size_t y_stride, size_t n_rows);

/* Set up the library once per process, before other threads use it: one thread inside a call, and as many
 * callers at once as it stands. Return: OpenBLAS's kernel name. */
const char *kr_product_init(void);

#endif
