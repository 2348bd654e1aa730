/* SPDX-License-Identifier: MIT */
/* How fast the weight products of the public shapes run: GFLOP/s of all workers together for each matrix and
 * number of rows, and the share of this machine's peak, measured in the same run. Each worker multiplies rows of
 * its own; the weights are shared, and come from the caches or each time from memory. Everything is measured
 * in turn, several times over, and the least time of each counts: on a shared machine only that says anything.
 * A program to look at, not a test.
 * Usage: bench_products [PASSES [WORKERS [NAME...]]], names as in kr_products_named(). */
#include "clients/meter.h"
#include "core/kernels.h"
#include "core/product.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t shapes[][2] = {
    {256, 256}, {512, 256},  {256, 512},  {1024, 256}, /* mini: q, k, v, out; w1, w3; w2; heads */
    {512, 512}, {1024, 512}, {512, 1024},              /* small, with its heads */
    {832, 832}, {2048, 832}, {832, 2048}, {832, 1664}, /* base */
};
static const size_t counts[] = {1, 2, 4, 6, 8, 16, 32, 64, 400};
enum { SHAPES = KR_ARRAY_LENGTH(shapes), COUNTS = KR_ARRAY_LENGTH(counts) };
enum { MOST_ROWS = 400, MOST_WIDTH = 2048, MOST_WORKERS = 64 };

#define ROOM         ((size_t)1 << 30) /* what copies of a matrix may take: few caches hold it */
#define CELL_SECONDS 0.0008
#define GUESS        200e9 /* operations a second: how often a cell runs at first */

static void die(const char *what)
{
    fprintf(stderr, "bench_products: %s\n", what);
    exit(1);
}

/* One implementation, and what was measured of it. */
struct bench {
    const struct kr_products *products;
    double seconds[2][SHAPES][COUNTS]; /* of one product: in cache, from memory */
    double peak;                       /* GFLOP/s */
};

static char *room; /* [ROOM] small finite numbers, whether read as f32 or as bf16 */
static float *rows[MOST_WORKERS], *results[MOST_WORKERS], *bias;

/* What all workers do at once. */
struct cell {
    const struct kr_products *products;
    size_t n_out, n_in, n, rounds;
    size_t bytes, copies, first; /* of the matrix; the copy that the next round takes */
};

static void work(void *context, size_t index)
{
    const struct cell *cell = context;
    struct kr_linear linear = {cell->n_out, cell->n_in, NULL, bias, NULL, NULL};

    for (size_t round = 0; round < cell->rounds; round++) {
        const void *weights = room + (cell->first + round) % cell->copies * cell->bytes;

        linear.weight = weights;
        if (cell->products->panel > 0) {
            linear.products = cell->products;
            linear.packed = weights;
        }
        kr_product(&linear, rows[index], cell->n_in, results[index], cell->n_out, cell->n);
    }
}

static double flop_of(size_t shape, size_t count)
{
    return 2.0 * (double)(shapes[shape][0] * shapes[shape][1] * counts[count]);
}

static void measure(struct bench *bench, struct kc_gang *gang, size_t s, size_t c, bool far)
{
    static size_t next;
    double *least = &bench->seconds[far][s][c];
    double expected = isfinite(*least) ? *least : flop_of(s, c) / GUESS, seconds;
    struct cell cell = {bench->products, shapes[s][0], shapes[s][1], counts[c], 1, 0, 1, next};
    struct kr_linear linear = {cell.n_out, cell.n_in, NULL, NULL, NULL, NULL};

    cell.bytes = bench->products->panel > 0 ? kr_linear_packed_bytes(&linear, bench->products)
                                            : cell.n_out * cell.n_in * sizeof(float);
    if (far)
        cell.copies = ROOM / cell.bytes;
    else
        kc_gang_run(gang, work, &cell); /* into the caches */
    cell.rounds = (size_t)fmax(2, CELL_SECONDS / expected);
    seconds = kc_gang_run(gang, work, &cell) / (double)cell.rounds;
    next += cell.rounds;
    *least = fmin(*least, seconds);
}

/* Of the unit that these products run on. */
static double peak_of(const struct kr_products *products, struct kc_gang *gang)
{
    if (products->precision != KR_BF16_PRODUCTS)
        return kc_meter_f32(gang, 1);
    return strcmp(products->name, "amx_bf16") == 0 ? kc_meter_bf16(gang, 1)
                                                   : kc_meter_bf16_vector(gang, 1);
}

static void pass(struct bench *bench, struct kc_gang *gang)
{
    for (int far = 0; far < 2; far++)
        for (size_t s = 0; s < SHAPES; s++) {
            double peak = peak_of(bench->products, gang);

            bench->peak = fmax(bench->peak, peak);
            for (size_t c = 0; c < COUNTS; c++)
                measure(bench, gang, s, c, far);
        }
}

static void print(const struct bench *bench, size_t n_workers)
{
    static const char *const where[] = {"in cache", "from memory"};

    printf("\n%s, %s: peak %.1f GFLOP/s; GFLOP/s by rows of each worker\n", bench->products->name,
           kr_precision_names[bench->products->precision], bench->peak);
    for (int far = 0; far < 2; far++) {
        double logs[COUNTS] = {0};

        printf("weights %-11s", where[far]);
        for (size_t c = 0; c < COUNTS; c++)
            printf("%8zu", counts[c]);
        for (size_t s = 0; s < SHAPES; s++) {
            printf("\n%8zu x %-8zu", shapes[s][0], shapes[s][1]);
            for (size_t c = 0; c < COUNTS; c++) {
                double rate = (double)n_workers * flop_of(s, c) / bench->seconds[far][s][c] * 1e-9;

                printf("%8.1f", rate);
                logs[c] += log(rate / bench->peak) / SHAPES;
            }
        }
        printf("\n%-19s", "share of peak");
        for (size_t c = 0; c < COUNTS; c++)
            printf("%7.1f%%", 100 * exp(logs[c]));
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"openblas", "avx2", "avx512", "avx512_bf16", "amx_bf16"};
    static struct bench benches[16];
    size_t n = 0, passes = argc > 1 ? (size_t)atoi(argv[1]) : 10;
    size_t n_workers = argc > 2 ? (size_t)atoi(argv[2]) : kc_gang_processors();
    size_t n_names = argc > 3 ? (size_t)argc - 3 : KR_ARRAY_LENGTH(usual);
    struct kc_gang *gang;

    if (n_workers < 1 || n_workers > MOST_WORKERS || kc_gang_new(n_workers, &gang) < 0)
        die("expected 1 to 64 workers");
    room = kr_alloc_huge(ROOM);
    bias = kr_alloc(MOST_WIDTH, sizeof(float));
    if (!room || !bias)
        die("no memory");
    for (size_t i = 0; i < ROOM / sizeof(uint32_t); i++)
        ((uint32_t *)(void *)room)[i] = 0x3c003c00u + (uint32_t)(i % 29);
    for (size_t w = 0; w < n_workers; w++) {
        rows[w] = kr_alloc((MOST_ROWS + KR_BLOCK_ROWS) * MOST_WIDTH, sizeof(float));
        results[w] = kr_alloc((MOST_ROWS + KR_BLOCK_ROWS) * MOST_WIDTH, sizeof(float));
        if (!rows[w] || !results[w])
            die("no memory");
        for (size_t i = 0; i < MOST_ROWS * MOST_WIDTH; i++)
            rows[w][i] = (float)(i % 17) * 0.0625f;
    }
    printf("OpenBLAS %s, kernels %s; %zu workers\n", kr_product_init(), kr_kernels()->name,
           n_workers);
    for (size_t i = 0; i < n_names && n < KR_ARRAY_LENGTH(benches); i++) {
        const char *name = argc > 3 ? argv[i + 3] : usual[i];
        const struct kr_products *products = kr_products_named(name);

        if (!products) {
            printf("%s: not here\n", name);
            continue;
        }
        benches[n].products = products;
        for (size_t k = 0; k < 2 * SHAPES * COUNTS; k++)
            (&benches[n].seconds[0][0][0])[k] = INFINITY;
        n++;
    }
    for (size_t p = 0; p < passes; p++)
        for (size_t i = 0; i < n; i++)
            pass(&benches[i], gang);
    for (size_t i = 0; i < n; i++)
        print(&benches[i], n_workers);
    kc_gang_free(&gang);
    for (size_t w = 0; w < n_workers; w++) {
        free(rows[w]);
        free(results[w]);
    }
    free(room);
    free(bias);
    return 0;
}
