/* SPDX-License-Identifier: MIT */
/* The one product interface: rows of activations against a weight matrix.
 *
 * Native products are ours: weights packed once into panels, and each element of the result one FMA chain
 * over the columns of x in ascending order, begun at the bias. A row's result is therefore that of the row
 * alone wherever it stands and whatever stands beside it, and AVX2 and AVX-512 give the same bits. OpenBLAS
 * serves every other processor, and is the oracle in tests: it runs in blocks of 8 rows, which keeps it
 * row-pure as well, with bits of its own.
 *
 * With precision bf16 weights, when packed, and activations, in each product, are rounded to bfloat16, and
 * their products summed in f32 in an order fixed by the column: row-pure too. AVX512_BF16 and AMX each have an
 * order of their own, so their bits differ. */
#ifndef KR_PRODUCT_H
#define KR_PRODUCT_H

#include "core/base.h"

/* [model] matmul and precision. */
enum kr_matmul { KR_MATMUL_AUTO, KR_MATMUL_NATIVE, KR_MATMUL_OPENBLAS };
enum kr_precision { KR_F32_PRODUCTS, KR_BF16_PRODUCTS };
extern const char *const kr_matmul_names[];    /* "auto", "native", "openblas", NULL */
extern const char *const kr_precision_names[]; /* "f32", "bf16", NULL */

struct kr_products;

/* y = x W^T + b. W [n_out][n_in] row-major as stored, or packed; b [n_out] or NULL. All is borrowed. */
struct kr_linear {
    size_t n_out, n_in;
    const float *weight; /* NULL if packed */
    const float *bias;
    const struct kr_products *products; /* how to compute it; NULL: OpenBLAS over `weight` */
    const void *packed;                 /* what kr_linear_pack() wrote; NULL with OpenBLAS */
};

/* One implementation. Constant; any thread. */
struct kr_products {
    const char *name; /* "openblas", "avx2", "avx512"; "avx512_bf16", "amx_bf16" */
    enum kr_precision precision;
    /* The packed form: panels [ceil(n_out / panel)] of [n_in rounded up to `depth`][panel] weights, the last
     * panel as narrow as its columns rounded up to `lanes` allow, zeros where there is none. With a depth
     * above 1 two neighbouring weights of a column lie together: [n_in / 2][panel][2]. 0 with OpenBLAS. */
    size_t panel, lanes, depth;
    /* The products of n_rows rows x with several matrices of this form and one n_in, each ys[i]
     * [n_rows][y_stride] = (add ? ys[i] : 0) + product. NULL with OpenBLAS. */
    void (*run)(const struct kr_linear *const *linears, float *const *ys, size_t n_linears,
                const float *x, size_t x_stride, size_t y_stride, size_t n_rows, bool add);
};

/* Rows that OpenBLAS runs at once. It sums a row in one order whatever its neighbours only when the block
 * is always the same size; 8 is clean on every kernel of 0.3.21 (rules). */
#define KR_BLOCK_ROWS 8

/* y [n_rows][y_stride], x [n_rows][x_stride]; strides in floats, >= n_out, n_in. Both buffers hold n_rows
 * rounded up to KR_BLOCK_ROWS: OpenBLAS zeroes rows of x past n_rows and leaves those of y undefined;
 * native products touch neither. y must not overlap x. Any thread. */
void kr_product(const struct kr_linear *linear, float *x, size_t x_stride, float *y,
                size_t y_stride, size_t n_rows);
/* y += x W^T + b: the product is rounded, then the sum, as if they had been computed one after the other.
 * scratch is as large as y and shares its stride; what is left in it is undefined. */
void kr_product_add(const struct kr_linear *linear, float *x, size_t x_stride, float *y,
                    size_t y_stride, float *scratch, size_t n_rows);
/* The products of the same rows with several matrices as one: ys[i] = x W_i^T + b_i, each [n_rows][y_stride].
 * The linears share n_in and their implementation. */
void kr_product_several(const struct kr_linear *const *linears, float *const *ys, size_t n_linears,
                        float *x, size_t x_stride, size_t y_stride, size_t n_rows);

/* Choose. Return: 0, or -ENOTSUP with a line that says what this processor lacks. */
int kr_products_choose(enum kr_matmul matmul, enum kr_precision precision,
                       const struct kr_products **ret, struct kr_error *error) kr_must_check;
/* By name, for tests; NULL if this build or processor has none of that name. */
const struct kr_products *kr_products_named(const char *name);

/* Bytes of a packed matrix, a multiple of KR_ALIGNMENT. 0 if it overflows. */
size_t kr_linear_packed_bytes(const struct kr_linear *linear, const struct kr_products *products);
/* Pack `weight` [n_out][n_in] into `place` (KR_ALIGNMENT-aligned, zeroed) and let the linear use it:
 * `products` is not OpenBLAS. */
void kr_linear_pack(struct kr_linear *linear, const struct kr_products *products,
                    const float *weight, void *place);
/* The weights [n_out][n_in] as products use them, whatever their form: with bf16, rounded to it. */
void kr_linear_weights(const struct kr_linear *linear, float *ret);

/* Round to the nearest bfloat16, ties to even. x is finite. */
static inline uint16_t kr_bf16(float x)
{
    union {
        float value;
        uint32_t bits;
    } u = {x};

    return (uint16_t)((u.bits + 0x7fff + (u.bits >> 16 & 1)) >> 16);
}

/* Set up OpenBLAS once per process, before other threads use it: one thread inside a call, and as many
 * callers at once as it stands. Return: its kernel's name. */
const char *kr_product_init(void);

#endif
