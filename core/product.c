/* SPDX-License-Identifier: MIT */
#include "core/product.h"

#include "core/kernels.h"

#include <cblas.h>
#include <pthread.h>
#include <string.h>

/* Debian's serial OpenBLAS (0.3.21) shares its work buffers between callers without a lock: two threads inside
 * sgemm at once compute wrong products now and then. Its threaded builds do not, so only the serial one is
 * kept to one caller at a time; so is any build before kr_product_init() has looked. */
static pthread_mutex_t serial = PTHREAD_MUTEX_INITIALIZER;
static bool concurrent;

static void multiply(const struct kr_linear *linear, const float *x, size_t x_stride, float *y,
                     size_t y_stride)
{
    bool locked = !concurrent;

    if (locked)
        pthread_mutex_lock(&serial);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, KR_BLOCK_ROWS, (int)linear->n_out,
                (int)linear->n_in, 1.0f, x, (int)x_stride, linear->weight, (int)linear->n_in, 0.0f,
                y, (int)y_stride);
    if (locked)
        pthread_mutex_unlock(&serial);
}

void kr_product(const struct kr_linear *linear, float *x, size_t x_stride, float *y,
                size_t y_stride, size_t n_rows)
{
    size_t whole = kr_round_up(n_rows, KR_BLOCK_ROWS);
    const struct kr_kernels *kernels = kr_kernels();

    for (size_t row = n_rows; row < whole; row++)
        memset(x + row * x_stride, 0, linear->n_in * sizeof(float));
    for (size_t row = 0; row < n_rows; row += KR_BLOCK_ROWS)
        multiply(linear, x + row * x_stride, x_stride, y + row * y_stride, y_stride);
    for (size_t row = 0; linear->bias && row < n_rows; row++)
        kernels->add(y + row * y_stride, linear->bias, linear->n_out);
}

const char *kr_product_init(void)
{
    openblas_set_num_threads(1);
    concurrent = openblas_get_parallel() != OPENBLAS_SEQUENTIAL;
    return openblas_get_corename();
}
