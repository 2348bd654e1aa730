/* SPDX-License-Identifier: MIT */
/* The memory plan: what the daemon may grow to, known before it says READY and held against a
 * limit.
 *
 * Streams are allocated when their first bar comes, up to [limits] symbols; the plan counts them
 * all, each as large as the largest settings of the configuration, and as many control forecasts of
 * that size as may run at once; larger ones must fit into what the plan leaves. Not counted:
 * libzmq's queues of slow subscribers, bounded by [publish] hwm for each; and the pages of the
 * state's file, which are the system's cache. */
#ifndef KD_PLAN_H
#define KD_PLAN_H

#include "core/engine.h"
#include "core/generate.h"
#include "core/live.h"
#include "daemon/config.h"
#include "daemon/keep.h"

struct kd_plan {
    size_t n_workers; /* settled: [limits] workers or the affinity mask */
    size_t n_symbols; /* [limits] symbols, see kd_plan_make() */
    size_t n_spares;  /* cache sets for epoch changes, of spare_rows rows each; may be 0 */
    size_t spare_rows;
    size_t weight_bytes;  /* of the model */
    size_t stream_bytes;  /* of one stream, the largest settings */
    size_t worker_bytes;  /* of one worker: engine, generator, paths, summary, message */
    size_t spare_bytes;   /* of all spare cache sets */
    size_t control_bytes; /* of the control forecasts that may run at once, each like a stream's */
    size_t queue_bytes;   /* waiting bars, requests and replies, the process itself */
    struct kr_pending_size pending; /* of the stream whose calibration takes most to keep */
    struct kd_keep_plan keep;       /* zeros where nothing is kept */
    size_t state_bytes;             /* the store's queues, and a group while LMDB commits it */
    size_t total_bytes;
    size_t limit_bytes;
    const char *limit_source; /* "[limits] memory", "the cgroup", "available memory", "no limit" */
    bool lowered;             /* fewer symbols than the default, to fit */
};

/* CPUs of the process's affinity mask, at least 1. */
size_t kd_plan_cpus(void);

/* What kr_live_init() takes for one stream of these settings: mode and growth settled.
 * Return: 0, or -EINVAL with a line that names keys and values. */
int kd_plan_live(const struct kd_config *config, const struct kd_settings *settings,
                 const struct kr_model *model, const char *interval, const char *symbol,
                 struct kr_live_config *ret, struct kr_error *error) kr_must_check;

/* Bytes that one stream takes: live window, the main thread's series, its last messages. 0 on
 * overflow. */
size_t kd_plan_stream_bytes(const struct kd_config *config, const struct kd_settings *settings,
                            const struct kr_model *model, const struct kr_live_config *live);

/* The largest forecast that a stream of this configuration may ask of a worker: what a worker's
 * generator, engine (ret_visible rows), paths and summary are made for. */
void kd_plan_generator(struct kd_config *config, const struct kr_model *model,
                       struct kr_generator_size *ret, size_t *ret_levels, size_t *ret_visible);

/* Bytes that a control forecast takes: a live window, engine, generator, paths and summary of its
 * own, and its message. 0 on overflow. */
size_t kd_plan_request_bytes(const struct kr_model *model, const struct kr_live_config *live,
                             const struct kr_generator_size *size, size_t n_levels);

/* Upper bound of an encoded forecast message, and of a paths message. 0 on overflow. */
size_t kd_plan_forecast_message(size_t horizon, size_t n_levels);
size_t kd_plan_paths_message(size_t horizon, size_t paths);

/* Check every variant of the configuration against the model, add the plan up and hold it against
 * [limits] memory (auto: `system_limit` and its `system_source` as of kd_plan_system_limit(); 0:
 * none). Where [limits] symbols is not set in the file and its default does not fit, it is lowered
 * to what does: config->limits.symbols is the number that holds. Return: 0; -EINVAL (a mode or size
 * that the model cannot do, `file:line: ...`); -E2BIG (over the limit: the line says what takes how
 * much), *ret is filled then too. */
int kd_plan_make(struct kd_config *config, const struct kr_model *model, size_t system_limit,
                 const char *system_source, struct kd_plan *ret,
                 struct kr_error *error) kr_must_check;

/* The plan as `# ...` lines, for --print-config. Return: 0 or a negative errno of the stream. */
int kd_plan_print(const struct kd_plan *plan, FILE *out) kr_must_check;

/* The smaller of the cgroup's limits (memory.max of the own cgroup v2 and of those above it) and
 * MemAvailable. `root`: folder that stands for "/", NULL: "/" (tests). Return: bytes, 0 if nothing
 * can be read; *ret_source names it. */
size_t kd_plan_system_limit(const char *root, const char **ret_source);

#endif
