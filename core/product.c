/* SPDX-License-Identifier: MIT */
#include "core/product.h"

#include "core/kernels.h"

#include <cblas.h>
#include <string.h>

void kr_product(const struct kr_linear *linear, float *x, size_t x_stride, float *y,
                size_t y_stride, size_t n_rows)
{
    size_t whole = kr_round_up(n_rows, KR_BLOCK_ROWS);
    const struct kr_kernels *kernels = kr_kernels();

    for (size_t row = n_rows; row < whole; row++)
        memset(x + row * x_stride, 0, linear->n_in * sizeof(float));
    for (size_t row = 0; row < n_rows; row += KR_BLOCK_ROWS)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, KR_BLOCK_ROWS, (int)linear->n_out,
                    (int)linear->n_in, 1.0f, x + row * x_stride, (int)x_stride, linear->weight,
                    (int)linear->n_in, 0.0f, y + row * y_stride, (int)y_stride);
    for (size_t row = 0; linear->bias && row < n_rows; row++)
        kernels->add(y + row * y_stride, linear->bias, linear->n_out);
}

const char *kr_product_init(void)
{
    openblas_set_num_threads(1);
    return openblas_get_corename();
}
