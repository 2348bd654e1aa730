/* SPDX-License-Identifier: MIT */
#include "daemon/plan.h"

#include "core/series.h"
#include "core/summary.h"
#include "daemon/scoring.h"

#include <errno.h>
#include <glib.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* One waiting bar with its times, as the allocator rounds it. */
#define JOB_BYTES 192
/* A stream's own fields, names and buffers that are not counted one by one. */
#define STREAM_BYTES 4096
/* Code, libraries, stacks and sockets. */
#define PROCESS_BYTES ((size_t)32 << 20)
/* A MessagePack float or time with its type. */
#define NUMBER_BYTES 9

/* A sum of sizes that remembers an overflow. */
struct sum {
    size_t bytes;
    bool overflow;
};

static void add(struct sum *sum, size_t count, size_t size)
{
    size_t product = 0;

    if (!kr_multiply(count, size, &product) || !kr_add(sum->bytes, product, &sum->bytes))
        sum->overflow = true;
}

static size_t total(const struct sum *sum)
{
    return sum->overflow ? 0 : sum->bytes;
}

size_t kd_plan_cpus(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 1;
    return (size_t)KR_MAX(CPU_COUNT(&set), 1);
}

int kd_plan_live(const struct kd_config *config, const struct kd_settings *settings,
                 const struct kr_model *model, const char *interval, const char *symbol,
                 struct kr_live_config *ret, struct kr_error *error)
{
    struct kr_live_config live = {
        .mode = settings->mode,
        .lookback = settings->lookback,
        .min_bars = settings->min_bars,
        .horizon = settings->horizon,
        .max_context = config->model.max_context,
        .growth = settings->growth,
        .scale = settings->scale,
        .join = settings->join,
        .repair = settings->repair,
    };
    int result = kr_live_resolve(&live, model, interval, symbol, error);

    if (result == 0)
        *ret = live;
    return result;
}

/* The same with the growth as configured: the most that any stream's shortening leaves. */
static int widest(const struct kd_config *config, const struct kd_settings *settings,
                  const struct kr_model *model, struct kr_live_config *ret, struct kr_error *error)
{
    size_t taken = settings->lookback + settings->horizon;
    int result = kd_plan_live(config, settings, model, "", "", ret, error);

    if (result < 0 || ret->mode != KR_MODE_ANCHORED)
        return result;
    ret->growth = settings->growth;
    if (ret->growth == 0)
        ret->growth = KR_MIN(config->model.max_context - taken, settings->lookback / 2);
    return 0;
}

/* ---- sizes ---- */

size_t kd_plan_forecast_message(size_t horizon, size_t n_levels)
{
    struct sum sum = {2048, false}; /* keys, names, params, lat, topic */

    /* six columns and `ret`: mean, std and the levels; then t, p_up and cal's levels */
    add(&sum, 7, 64);
    add(&sum, horizon, 7 * 2 * NUMBER_BYTES);
    add(&sum, horizon, 2 * NUMBER_BYTES);
    for (int band = 0; band < 8 && !sum.overflow; band++) {
        struct sum levels = {0, false};

        add(&levels, n_levels, 5);
        add(&levels, n_levels * NUMBER_BYTES, horizon);
        sum.overflow = levels.overflow;
        add(&sum, 1, levels.bytes);
    }
    add(&sum, n_levels, 4 * NUMBER_BYTES); /* levels, vol, mdd */
    return total(&sum);
}

size_t kd_plan_paths_message(size_t horizon, size_t paths)
{
    struct sum sum = {2048, false};
    size_t values;

    if (!kr_multiply(horizon, paths, &values))
        return 0;
    add(&sum, values, KR_COLUMNS * sizeof(float));
    add(&sum, horizon, NUMBER_BYTES);
    return total(&sum);
}

size_t kd_plan_stream_bytes(const struct kd_config *config, const struct kd_settings *settings,
                            const struct kr_model *model, const struct kr_live_config *live)
{
    struct sum sum = {STREAM_BYTES, false};

    add(&sum, 1, kr_live_size_bytes(model, live));
    add(&sum, 1, kr_series_size_bytes(config->limits.bars));
    add(&sum, 1, kd_scoring_bytes(settings));
    sum.overflow |= kd_scoring_bytes(settings) == 0;
    /* the last value, and one on its way to the main thread */
    add(&sum, 2, kd_plan_forecast_message(settings->horizon, settings->n_levels));
    if (settings->publish_paths)
        add(&sum, 2, kd_plan_paths_message(settings->horizon, settings->paths));
    return total(&sum);
}

/* What forecasting takes beside the stream itself. */
static size_t compute_bytes(const struct kr_model *model, const struct kr_generator_size *size,
                            size_t n_levels, size_t visible)
{
    struct sum sum = {0, false};

    add(&sum, 1, kr_engine_size_bytes(model, visible));
    add(&sum, 1, kr_generator_size_bytes(model, size));
    add(&sum, 1, kr_paths_size_bytes(size->max_paths, size->max_horizon));
    add(&sum, 1, kr_summary_size_bytes(size->max_horizon, size->max_paths, n_levels));
    add(&sum, 1, kd_plan_forecast_message(size->max_horizon, n_levels));
    add(&sum, size->max_horizon, sizeof(int64_t) + sizeof(struct kr_stamp));
    add(&sum, size->max_horizon, n_levels * sizeof(double));
    return total(&sum);
}

size_t kd_plan_request_bytes(const struct kr_model *model, const struct kr_live_config *live,
                             const struct kr_generator_size *size, size_t n_levels)
{
    struct sum sum = {0, false};
    size_t visible = KR_MAX(size->max_context, live->lookback);

    add(&sum, 1, kr_live_size_bytes(model, live));
    add(&sum, 1, compute_bytes(model, size, n_levels, visible));
    return total(&sum);
}

void kd_plan_generator(struct kd_config *config, const struct kr_model *model,
                       struct kr_generator_size *ret, size_t *ret_levels, size_t *ret_visible)
{
    struct kr_generator_size size = {.max_context = config->model.max_context,
                                     .min_window = config->model.max_context};
    size_t n_levels = 1, visible = size.max_context, line;
    struct kd_settings settings;
    const char *pattern;

    for (size_t i = 0; kd_config_variant(config, i, &settings, &line, &pattern); i++) {
        struct kr_generator_size one;
        struct kr_live_config live;

        if (widest(config, &settings, model, &live, NULL) < 0)
            continue; /* kd_plan_make() refuses it */
        one = kr_live_generator_size(&live, settings.paths);
        size.max_paths = KR_MAX(size.max_paths, one.max_paths);
        size.max_horizon = KR_MAX(size.max_horizon, one.max_horizon);
        size.min_window = KR_MIN(size.min_window, one.min_window);
        size.max_window = KR_MAX(size.max_window, one.max_window);
        n_levels = KR_MAX(n_levels, settings.n_levels);
        visible = KR_MAX(visible, settings.lookback);
    }
    *ret = size;
    *ret_levels = n_levels;
    *ret_visible = visible;
}

/* ---- the plan ---- */

static int refuse(const struct kd_config *config, size_t line, const char *pattern,
                  const struct kr_error *inner, struct kr_error *error)
{
    if (line == 0)
        return kr_error_set(error, -EINVAL, "%s: %s", config->path, inner->text);
    return kr_error_set(error, -EINVAL, "%s:%zu: [stream %s]: %s", config->path, line, pattern,
                        inner->text);
}

/* Remember the stream whose records are largest. Return: false if they are larger than any memory. */
static bool more_to_keep(const struct kd_settings *settings, struct kd_plan *plan)
{
    const struct kr_pending_size pending = kd_scoring_size(settings, NULL);
    struct kd_keep_plan keep, most = {0};

    if (plan->pending.max_steps && !kd_keep_plan(&plan->pending, 1, &most))
        return false;
    if (!kd_keep_plan(&pending, 1, &keep))
        return false;
    if (keep.map_bytes > most.map_bytes)
        plan->pending = pending;
    return true;
}

/* What does not depend on the number of streams; ret_growth: the least of an anchored variant, 0 if
 * none is. */
static int measure(struct kd_config *config, const struct kr_model *model, struct kd_plan *plan,
                   size_t *ret_growth, struct kr_error *error)
{
    struct kr_generator_size size;
    struct kd_settings settings;
    struct kr_error inner;
    size_t line, n_levels, visible;
    const char *pattern;
    struct sum queues = {PROCESS_BYTES, false};

    *ret_growth = 0;
    for (size_t i = 0; kd_config_variant(config, i, &settings, &line, &pattern); i++) {
        struct kr_live_config live;
        size_t bytes;

        if (widest(config, &settings, model, &live, &inner) < 0)
            return refuse(config, line, pattern, &inner, error);
        bytes = kd_plan_stream_bytes(config, &settings, model, &live);
        if (bytes == 0)
            return kr_error_set(error, -E2BIG, "%s: a stream would be larger than any memory",
                                config->path);
        plan->stream_bytes = KR_MAX(plan->stream_bytes, bytes);
        if (!more_to_keep(&settings, plan))
            return kr_error_set(error, -E2BIG,
                                "%s: a stream's calibration would be larger than any memory",
                                config->path);
        if (live.mode != KR_MODE_ANCHORED)
            continue;
        *ret_growth = *ret_growth ? KR_MIN(*ret_growth, live.growth) : live.growth;
        plan->spare_rows = KR_MAX(plan->spare_rows, kr_live_max_window(&live));
    }
    kd_plan_generator(config, model, &size, &n_levels, &visible);
    plan->worker_bytes = compute_bytes(model, &size, n_levels, visible);
    add(&queues, config->limits.pending, JOB_BYTES);
    add(&queues, config->limits.control_pending, config->limits.message_bytes);
    add(&queues, 2, config->limits.request_bytes);
    add(&queues, 2, config->limits.reply_bytes);
    plan->queue_bytes = total(&queues);
    plan->weight_bytes = model->n_weight_bytes;
    plan->n_workers = config->limits.workers ? config->limits.workers : kd_plan_cpus();
    if (plan->worker_bytes == 0 || plan->queue_bytes == 0)
        return kr_error_set(error, -E2BIG, "%s: a worker would be larger than any memory",
                            config->path);
    return 0;
}

/* Add up for `n_symbols` streams. Return: false on overflow. */
static bool add_up(const struct kd_config *config, const struct kr_model *model, size_t growth,
                   size_t n_symbols, struct kd_plan *plan)
{
    struct sum sum = {0, false}, control = {0, false};

    plan->n_symbols = n_symbols;
    plan->n_spares = config->limits.spares;
    if (growth == 0)
        plan->n_spares = 0;
    else if (plan->n_spares == 0) /* streams hold one for 8 of the bars between two epochs; the
                                     shortening leaves three quarters of the growth, drift half */
        plan->n_spares = n_symbols * KR_EPOCH_DELAY * 8 / (growth * 3) + 1;
    plan->n_spares = KR_MIN(plan->n_spares, n_symbols);
    plan->spare_bytes =
        plan->n_spares ? kr_pool_size_bytes(model, plan->n_spares, plan->spare_rows) : 0;
    add(&control, config->limits.control_jobs, plan->worker_bytes);
    add(&control, config->limits.control_jobs, plan->stream_bytes);
    plan->control_bytes = control.bytes;
    add(&sum, 1, plan->weight_bytes);
    add(&sum, n_symbols, plan->stream_bytes);
    add(&sum, plan->n_workers, plan->worker_bytes);
    add(&sum, 1, plan->spare_bytes);
    add(&sum, 1, plan->control_bytes);
    add(&sum, 1, plan->queue_bytes);
    if (*config->state.directory && !kd_keep_plan(&plan->pending, n_symbols, &plan->keep))
        return false;
    plan->state_bytes = 0;
    if (!kr_multiply(plan->keep.queue_bytes, 3, &plan->state_bytes))
        return false;
    add(&sum, 1, plan->state_bytes);
    plan->total_bytes = sum.bytes;
    return !sum.overflow && !control.overflow;
}

static bool fits(const struct kd_config *config, const struct kr_model *model, size_t growth,
                 size_t n_symbols, struct kd_plan *plan)
{
    return add_up(config, model, growth, n_symbols, plan) &&
           (plan->limit_bytes == 0 || plan->total_bytes <= plan->limit_bytes);
}

/* "12.3 MiB" */
static const char *shown(size_t bytes, char ret[32])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;
    char number[24];

    while (value >= 1024 && unit + 1 < KR_ARRAY_LENGTH(units)) {
        value /= 1024;
        unit++;
    }
    g_ascii_formatd(number, sizeof(number), "%.1f", value);
    g_snprintf(ret, 32, "%s %s", number, units[unit]);
    return ret;
}

static int over(const struct kd_config *config, const struct kd_plan *plan, struct kr_error *error)
{
    char text[9][32];

    return kr_error_set(
        error, -E2BIG,
        "%s: memory plan: %zu streams of %s + %zu workers of %s + %zu spare sets %s + control %s + "
        "weights %s + queues %s + state %s = %s, expected at most %s (%s): lower [limits] symbols "
        "or pending, "
        "or "
        "[forecast] lookback, horizon or paths",
        config->path, plan->n_symbols, shown(plan->stream_bytes, text[0]), plan->n_workers,
        shown(plan->worker_bytes, text[1]), plan->n_spares, shown(plan->spare_bytes, text[2]),
        shown(plan->control_bytes, text[3]), shown(plan->weight_bytes, text[4]),
        shown(plan->queue_bytes, text[5]), shown(plan->state_bytes, text[6]),
        shown(plan->total_bytes, text[7]), shown(plan->limit_bytes, text[8]), plan->limit_source);
}

int kd_plan_make(struct kd_config *config, const struct kr_model *model, size_t system_limit,
                 const char *system_source, struct kd_plan *ret, struct kr_error *error)
{
    struct kd_plan plan = {0};
    size_t growth, most = config->limits.symbols, least = 0;
    int result = measure(config, model, &plan, &growth, error);

    if (result < 0)
        return result;
    plan.limit_bytes = config->limits.memory_bytes;
    plan.limit_source = "[limits] memory";
    if (plan.limit_bytes == 0) {
        plan.limit_bytes = system_limit;
        plan.limit_source = system_limit ? system_source : "no limit";
    }
    if (!fits(config, model, growth, most, &plan)) {
        /* the largest number that fits: least does, most does not */
        while (!kd_config_is_set(config, "limits", "symbols") && least + 1 < most) {
            size_t middle = least + (most - least) / 2;

            if (fits(config, model, growth, middle, &plan))
                least = middle;
            else
                most = middle;
        }
        if (least == 0) {
            add_up(config, model, growth, most, &plan);
            *ret = plan;
            return over(config, &plan, error);
        }
        add_up(config, model, growth, least, &plan);
        config->limits.symbols = least;
        plan.lowered = true;
    }
    *ret = plan;
    return 0;
}

int kd_plan_print(const struct kd_plan *plan, FILE *out)
{
    char text[32];

    fprintf(out, "# Memory plan\n");
    fprintf(out, "# weights %36s\n", shown(plan->weight_bytes, text));
    fprintf(out, "# %zu streams of %s%s\n", plan->n_symbols, shown(plan->stream_bytes, text),
            plan->lowered ? " (as many as fit; [limits] symbols is not set)" : "");
    fprintf(out, "# %zu workers of %s\n", plan->n_workers, shown(plan->worker_bytes, text));
    fprintf(out, "# %zu spare cache sets, together %s\n", plan->n_spares,
            shown(plan->spare_bytes, text));
    fprintf(out, "# control forecasts %s\n", shown(plan->control_bytes, text));
    fprintf(out, "# queues and the process itself %s\n", shown(plan->queue_bytes, text));
    if (plan->state_bytes) {
        fprintf(out, "# state on its way to the disk %s\n", shown(plan->state_bytes, text));
        fprintf(out, "# (the state's file: at most %s on the disk)\n",
                shown(plan->keep.map_bytes, text));
    }
    fprintf(out, "# total %s", shown(plan->total_bytes, text));
    if (plan->limit_bytes)
        fprintf(out, " of %s (%s)\n", shown(plan->limit_bytes, text), plan->limit_source);
    else
        fprintf(out, ", no limit known\n");
    if (fflush(out) != 0 || ferror(out))
        return errno ? -errno : -EIO;
    return 0;
}
