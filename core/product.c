/* SPDX-License-Identifier: MIT */
#include "config.h"
#include "core/product.h"

#include "core/kernels.h"

#include <assert.h>
#include <cblas.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#ifdef KR_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

const char *const kr_matmul_names[] = {"auto", "native", "openblas", NULL};
const char *const kr_precision_names[] = {"f32", "bf16", NULL};

/* ---- OpenBLAS ---- */

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

static void openblas(const struct kr_linear *linear, float *x, size_t x_stride, float *y,
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

/* ---- all of them ---- */

void kr_product(const struct kr_linear *linear, float *x, size_t x_stride, float *y,
                size_t y_stride, size_t n_rows)
{
    kr_product_several(&linear, &y, 1, x, x_stride, y_stride, n_rows);
}

void kr_product_add(const struct kr_linear *linear, float *x, size_t x_stride, float *y,
                    size_t y_stride, float *scratch, size_t n_rows)
{
    const struct kr_kernels *kernels = kr_kernels();

    if (linear->packed) {
        linear->products->run(&linear, &y, 1, x, x_stride, y_stride, n_rows, true);
        return;
    }
    openblas(linear, x, x_stride, scratch, y_stride, n_rows);
    for (size_t row = 0; row < n_rows; row++)
        kernels->add(y + row * y_stride, scratch + row * y_stride, linear->n_out);
}

void kr_product_several(const struct kr_linear *const *linears, float *const *ys, size_t n_linears,
                        float *x, size_t x_stride, size_t y_stride, size_t n_rows)
{
    if (linears[0]->packed) {
        linears[0]->products->run(linears, ys, n_linears, x, x_stride, y_stride, n_rows, false);
        return;
    }
    for (size_t i = 0; i < n_linears; i++)
        openblas(linears[i], x, x_stride, ys[i], y_stride, n_rows);
}

static const struct kr_products products_openblas = {.name = "openblas",
                                                     .precision = KR_F32_PRODUCTS};
#ifdef KR_X86
extern const struct kr_products kr_products_avx2, kr_products_avx512, kr_products_avx512_bf16,
    kr_products_amx_bf16;

static bool has_bf16(void)
{
    return kr_kernels_named("avx512") && __builtin_cpu_supports("avx512bf16");
}

/* AMX-TILE and AMX-BF16, and the system's leave: Linux lends the tiles' registers to whoever asks for them,
 * for the whole process. */
static bool has_amx(void)
{
    enum { LEAF = 7, TILE = 1u << 24, BF16 = 1u << 22, REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;

    return __get_cpuid_count(LEAF, 0, &a, &b, &c, &d) && (d & TILE) && (d & BF16) &&
           syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
}
#endif

const struct kr_products *kr_products_named(const char *name)
{
#ifdef KR_X86
    if (strcmp(name, "amx_bf16") == 0 && has_bf16() && has_amx())
        return &kr_products_amx_bf16;
    if (strcmp(name, "avx512_bf16") == 0 && has_bf16())
        return &kr_products_avx512_bf16;
    /* the same conditions as the kernels' */
    if (strcmp(name, "avx512") == 0 && kr_kernels_named(name))
        return &kr_products_avx512;
    if (strcmp(name, "avx2") == 0 && kr_kernels_named(name))
        return &kr_products_avx2;
#endif
    return strcmp(name, "openblas") == 0 ? &products_openblas : NULL;
}

int kr_products_choose(enum kr_matmul matmul, enum kr_precision precision,
                       const struct kr_products **ret, struct kr_error *error)
{
    static const char *const natives[][2] = {{"avx512", "avx2"}, {"amx_bf16", "avx512_bf16"}};
    const struct kr_products *products;

    for (size_t i = 0; matmul != KR_MATMUL_OPENBLAS && i < KR_ARRAY_LENGTH(natives[0]); i++)
        if ((products = kr_products_named(natives[precision][i]))) {
            *ret = products;
            return 0;
        }
    if (precision == KR_BF16_PRODUCTS && matmul == KR_MATMUL_OPENBLAS)
        return kr_error_set(error, -ENOTSUP,
                            "precision: bf16, expected f32 with matmul = openblas");
    if (precision == KR_BF16_PRODUCTS)
        return kr_error_set(error, -ENOTSUP,
                            "precision: bf16, expected f32 on a processor without AVX512_BF16");
    if (matmul == KR_MATMUL_NATIVE)
        return kr_error_set(
            error, -ENOTSUP,
            "matmul: native, expected a processor with AVX2 and FMA or AVX-512, found none");
    *ret = &products_openblas;
    return 0;
}

/* ---- packing ---- */

/* One panel of a packed matrix. */
struct panel {
    size_t n_columns, width; /* width: with the padding */
    size_t start;            /* item at which it begins */
};

static struct panel panel_at(const struct kr_linear *linear, const struct kr_products *products,
                             size_t first)
{
    size_t n_columns = KR_MIN(linear->n_out - first, products->panel);

    return (struct panel){n_columns, kr_round_up(n_columns, products->lanes),
                          first * kr_round_up(linear->n_in, products->depth)};
}

/* Item of weight `in` of a panel's column. */
static size_t item_of(const struct panel *panel, size_t depth, size_t column, size_t in)
{
    if (depth == 1)
        return panel->start + in * panel->width + column;
    return panel->start + (in / 2 * panel->width + column) * 2 + in % 2;
}

size_t kr_linear_packed_bytes(const struct kr_linear *linear, const struct kr_products *products)
{
    size_t item = products->precision == KR_BF16_PRODUCTS ? sizeof(uint16_t) : sizeof(float);
    size_t depth = kr_round_up(linear->n_in, products->depth), bytes;

    if (!kr_multiply(kr_round_up(linear->n_out, products->lanes), depth, &bytes) ||
        !kr_multiply(bytes, item, &bytes) || bytes > SIZE_MAX - KR_ALIGNMENT)
        return 0;
    return kr_round_up(bytes, KR_ALIGNMENT);
}

void kr_linear_pack(struct kr_linear *linear, const struct kr_products *products,
                    const float *weight, void *place)
{
    uint16_t *narrow = place;
    float *whole = place;

    assert(products->panel > 0);
    for (size_t first = 0; first < linear->n_out; first += products->panel) {
        struct panel panel = panel_at(linear, products, first);

        for (size_t column = 0; column < panel.n_columns; column++)
            for (size_t in = 0; in < linear->n_in; in++) {
                size_t item = item_of(&panel, products->depth, column, in);
                float w = weight[(first + column) * linear->n_in + in];

                if (products->precision == KR_BF16_PRODUCTS)
                    narrow[item] = kr_bf16(w);
                else
                    whole[item] = w;
            }
    }
    linear->products = products;
    linear->packed = place;
    linear->weight = NULL;
}

void kr_linear_weights(const struct kr_linear *linear, float *ret)
{
    const struct kr_products *products = linear->products;
    const uint16_t *narrow = linear->packed;
    const float *whole = linear->packed;

    if (!linear->packed) {
        memcpy(ret, linear->weight, linear->n_out * linear->n_in * sizeof(float));
        return;
    }
    for (size_t first = 0; first < linear->n_out; first += products->panel) {
        struct panel panel = panel_at(linear, products, first);

        for (size_t column = 0; column < panel.n_columns; column++)
            for (size_t in = 0; in < linear->n_in; in++) {
                size_t item = item_of(&panel, products->depth, column, in);
                float *w = &ret[(first + column) * linear->n_in + in];

                if (products->precision == KR_BF16_PRODUCTS) {
                    uint32_t bits = (uint32_t)narrow[item] << 16;

                    memcpy(w, &bits, sizeof(bits));
                } else {
                    *w = whole[item];
                }
            }
    }
}
