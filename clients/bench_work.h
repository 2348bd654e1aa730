/* SPDX-License-Identifier: MIT */
/* The work of one case: engines, streams with full windows, and units of work that leave them as they were.
 *
 * Made for one model and one kind, for the threads of a gang; afterwards nothing allocates. */
#ifndef KC_BENCH_WORK_H
#define KC_BENCH_WORK_H

#include "clients/bench.h"

struct kc_work;

/* libkronos's name for it. */
enum kr_precision kc_work_precision(enum kc_bench_precision precision);
/* Why this build cannot compute in that precision; NULL: it can. Static text. */
const char *kc_work_unable(enum kc_bench_precision precision);

/* Window lengths and counts that a kind's GFLOP follow from, for a model of that shape. `rolling_rows`: rows of
 * a rolling model's replay, 0 for others. */
double kc_work_gflop(const struct kc_flop_shape *shape, enum kc_bench_kind kind,
                     size_t rolling_rows);
size_t kc_work_rolling_rows(const struct kr_model *model);

/* Return: 0, or a negative errno with a line. */
int kc_work_new(const struct kr_model *model, enum kc_bench_kind kind, struct kc_gang *gang,
                struct kc_work **ret, struct kr_error *error) kr_must_check;
void kc_work_free(struct kc_work **work);

struct kc_work_time {
    double wall_seconds;
    double cpu_seconds;                   /* processor time, of the worker that took most */
    double split[KR_PHASES];              /* seconds of all workers, if asked for */
    double first_seconds, blocks_seconds; /* herd: as in struct kc_bench_result */
};
/* Every worker does `repeats` units (a herd is one unit of all). With `split` the phases are timed, which costs
 * a little. Return: 0, or a negative errno with a line. */
int kc_work_run(struct kc_work *work, struct kc_gang *gang, size_t repeats, bool split,
                struct kc_work_time *ret, struct kr_error *error) kr_must_check;

#endif
