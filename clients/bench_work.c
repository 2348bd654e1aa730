/* SPDX-License-Identifier: MIT */
#include "clients/bench_work.h"

#include "clients/ctl.h"
#include "clients/simulate.h"
#include "core/draw.h"
#include "core/live.h"
#include "core/rolling.h"

#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOL   "BENCH"
#define INTERVAL "5m"

enum { STREAMS = 64, HERD = 200 };

/* Where the time of one engine goes. */
struct clock {
    double seconds[KR_PHASES];
    enum kr_phase phase;
    int64_t since_ns;
};

struct worker {
    struct kr_engine engine;
    struct kr_generator generator;
    struct kr_paths paths;
    struct kr_state scratch; /* prefill */
    struct clock clock;
    int status; /* of the last round */
    struct kr_error error;
    double block_seconds, first_ns; /* herd: what its blocks took; when its first ended */
};

struct kc_work {
    const struct kr_model *model;
    enum kc_bench_kind kind;
    size_t horizon, n_workers, n_streams; /* streams: each worker's own one after the other */
    struct kr_live_config config;
    struct kr_bar *bars; /* [n_bars], and the one that arrives behind them */
    size_t n_bars;
    struct kr_stamp *future; /* [horizon] */
    struct worker *workers;  /* [n_workers] */
    struct kr_live *streams; /* [n_streams] */
    size_t n_ready;          /* streams that are to be freed */
    size_t repeats;          /* of the round */
    atomic_size_t next;      /* herd: the stream that is taken next */
};

enum kr_precision kc_work_precision(enum kc_bench_precision precision)
{
    return precision == KC_BENCH_BF16 ? KR_BF16_PRODUCTS : KR_F32_PRODUCTS;
}

const char *kc_work_unable(enum kc_bench_precision precision)
{
    const struct kr_products *products;

    return kr_products_choose(KR_MATMUL_AUTO, kc_work_precision(precision), &products, NULL) < 0
               ? "no such products on this processor"
               : NULL;
}

/* Arithmetic */

static size_t horizon_of(bool rolling, enum kc_bench_kind kind)
{
    return rolling || kind == KC_BENCH_HERD200 ? 24 : 30;
}

size_t kc_work_rolling_rows(const struct kr_model *model)
{
    return kr_rolling_model(model) ? kr_rolling_bars(model) - model->returns.config.bars : 0;
}

double kc_work_gflop(const struct kc_flop_shape *shape, enum kc_bench_kind kind,
                     size_t rolling_rows)
{
    size_t len = rolling_rows ? rolling_rows : KC_BENCH_LOOKBACK, paths = KC_BENCH_PATHS;
    size_t horizon = horizon_of(rolling_rows > 0, kind);
    uint64_t bar = kc_flop_append(shape, len) + kc_flop_sample(shape, len + 1, paths, horizon) +
                   kc_flop_bars(shape, len + 1, paths, horizon);
    uint64_t flop = 0;

    switch (kind) {
    case KC_BENCH_COLD:
        flop = kc_flop_encode(shape, 0, len) + kc_flop_prefill(shape, len) +
               kc_flop_decode(shape, 0, len) + kc_flop_sample(shape, len, paths, horizon) +
               kc_flop_bars(shape, len, paths, horizon);
        break;
    case KC_BENCH_BAR:
        flop = bar;
        break;
    case KC_BENCH_APPEND:
    case KC_BENCH_APPEND64:
        flop = kc_flop_append(shape, len);
        break;
    case KC_BENCH_STEP32:
        flop = kc_flop_trunk(shape, len, 1) * paths + kc_flop_s1(shape, paths);
        break;
    case KC_BENCH_PREFILL400:
        flop = kc_flop_prefill(shape, KC_BENCH_LOOKBACK);
        break;
    case KC_BENCH_HERD200:
        flop = bar * HERD;
        break;
    }
    return (double)flop * 1e-9;
}

/* Setting up */

/* A market's bars, five minutes apart, around the clock. */
static int make_bars(struct kc_work *work)
{
    struct kc_simulator simulator;
    struct kr_interval interval;
    size_t n = work->n_bars + 1;

    work->bars = kr_alloc(n, sizeof(*work->bars));
    work->future = kr_alloc(work->horizon, sizeof(*work->future));
    if (!work->bars || !work->future)
        return -ENOMEM;
    if (kr_interval_parse(INTERVAL, &interval) < 0)
        return -EINVAL;
    kc_simulate_start(&simulator, 1, SYMBOL, &interval, KC_SIMULATE_T0_NS);
    for (size_t i = 0; i < n + work->horizon; i++) {
        struct kr_stamp stamp = {(uint8_t)(5 * i % 60), (uint8_t)(i / 12 % 24),
                                 (uint8_t)(i / 288 % 7), (uint8_t)(1 + i / 288 % 28), 1};

        if (i >= n) {
            work->future[i - n] = stamp;
            continue;
        }
        kc_simulate_next(&simulator, &work->bars[i]);
        work->bars[i].stamp = stamp;
    }
    return 0;
}

static int settle(struct kc_work *work, struct kr_error *error)
{
    const struct kr_model *model = work->model;
    bool rolling = kr_rolling_model(model);

    work->config = (struct kr_live_config){
        .mode = work->kind == KC_BENCH_COLD ? KR_MODE_EXACT : KR_MODE_AUTO,
        .lookback = KC_BENCH_LOOKBACK,
        .min_bars = KC_BENCH_LOOKBACK,
        .horizon = work->horizon,
        /* 2048 for mini; its windows here are within 512 as well */
        .max_context = 512,
        .growth = rolling || work->kind == KC_BENCH_COLD ? 0 : KR_MIN_GROWTH,
        .scale = true,
        .join = true,
        .repair = true};
    work->n_bars = rolling ? kr_rolling_bars(model) : KC_BENCH_LOOKBACK;
    return kr_live_resolve(&work->config, model, INTERVAL, SYMBOL, error);
}

static int init_worker(struct kc_work *work, struct worker *worker, struct kr_error *error)
{
    struct kr_generator_size size = kr_live_generator_size(&work->config, KC_BENCH_PATHS);
    int r = kr_engine_init(&worker->engine, work->model, work->config.max_context + 1);

    if (r == 0)
        r = kr_generator_init(&worker->generator, work->model, &size, error);
    if (r == 0)
        r = kr_paths_init(&worker->paths, KC_BENCH_PATHS, work->horizon);
    if (r == 0 && work->kind == KC_BENCH_PREFILL400)
        r = kr_state_init(&worker->scratch, work->model, KC_BENCH_LOOKBACK, KC_BENCH_LOOKBACK);
    return r < 0 ? kr_error_set(error, r, "bench: expected memory for %zu workers, found less",
                                work->n_workers)
                 : 0;
}

static struct kr_request request_of(const struct kc_work *work, const struct kr_live *live)
{
    return (struct kr_request){.horizon = work->horizon,
                               .paths = KC_BENCH_PATHS,
                               .sampling = {.temperature = 1, .top_p = 0.9},
                               .key = kr_draw_key(0, INTERVAL, SYMBOL),
                               .as_of_ns = kr_series_last(&live->series)->t_ns,
                               .future = work->future};
}

static int forecast_as(const struct kr_request *request, struct worker *worker,
                       struct kr_live *live)
{
    struct kr_live_report report;
    int r = kr_live_forecast(live, &worker->engine, &worker->generator, request, NULL,
                             &worker->paths, &report, &worker->error);

    if (r == 0 && report.flat)
        return kr_error_set(&worker->error, -EINVAL, "bench: the market does not move");
    return r;
}

static int forecast(const struct kc_work *work, struct worker *worker, struct kr_live *live)
{
    struct kr_request request = request_of(work, live);

    return forecast_as(&request, worker, live);
}

/* A stream with a full window. */
static int fill_stream(const struct kc_work *work, struct worker *worker, struct kr_live *live)
{
    struct kr_request request;
    int r = 0;

    for (size_t i = 0; i < work->n_bars && r == 0; i++)
        r = kr_live_apply(live, &worker->engine, KR_HISTORY, &work->bars[i]);
    if (r < 0)
        return r;
    request = request_of(work, live);
    request.paths = request.horizon = 1;
    return forecast_as(&request, worker, live); /* which encodes it */
}

/* The same from one that is full: all streams here see the same bars, so the caches may be copied. */
static int copy_stream(const struct kc_work *work, struct worker *worker, struct kr_live *live,
                       const struct kr_live *from)
{
    int r = 0;

    for (size_t i = 0; i < work->n_bars && r == 0; i++)
        r = kr_live_apply(live, &worker->engine, KR_HISTORY, &work->bars[i]);
    if (r == 0)
        r = kr_state_copy(&live->state, &from->state);
    live->has_epoch = from->has_epoch;
    live->epoch = from->epoch;
    live->clipped = from->clipped;
    live->window_t0_ns = from->window_t0_ns;
    return r;
}

/* A worker fills every n-th stream; rings have no copy, but small models. */
static void fill_work(void *context, size_t index)
{
    struct kc_work *work = context;
    struct worker *worker = &work->workers[index];
    struct kr_live *first = &work->streams[index];

    worker->status = 0;
    for (size_t i = index; i < work->n_streams && worker->status == 0; i += work->n_workers) {
        struct kr_live *live = &work->streams[i];

        worker->status = live == first || live->state.rolling
                             ? fill_stream(work, worker, live)
                             : copy_stream(work, worker, live, first);
    }
}

/* What a worker could not do, if any. */
static int check_workers(const struct kc_work *work, struct kr_error *error)
{
    for (size_t i = 0; i < work->n_workers; i++) {
        const struct worker *worker = &work->workers[i];

        if (worker->status < 0)
            return kr_error_set(error, worker->status, "bench: %s",
                                worker->error.text[0] ? worker->error.text
                                                      : strerror(-worker->status));
    }
    return 0;
}

static int make_streams(struct kc_work *work, struct kc_gang *gang, struct kr_error *error)
{
    work->streams = kr_alloc(work->n_streams, sizeof(*work->streams));
    if (!work->streams)
        return kr_error_set(error, -ENOMEM, "bench: no memory");
    for (; work->n_ready < work->n_streams; work->n_ready++) {
        int r = kr_live_init(&work->streams[work->n_ready], work->model, &work->config, error);

        if (r < 0)
            return r;
    }
    kc_gang_run(gang, fill_work, work);
    return check_workers(work, error);
}

int kc_work_new(const struct kr_model *model, enum kc_bench_kind kind, struct kc_gang *gang,
                struct kc_work **ret, struct kr_error *error)
{
    struct kc_work *work = calloc(1, sizeof(*work));
    size_t workers = kc_gang_size(gang);
    int r;

    if (!work)
        return kr_error_set(error, -ENOMEM, "bench: no memory");
    work->model = model;
    work->kind = kind;
    work->n_workers = workers;
    work->n_streams = kind == KC_BENCH_HERD200    ? HERD
                      : kind == KC_BENCH_APPEND64 ? STREAMS * workers
                                                  : workers;
    work->horizon = horizon_of(kr_rolling_model(model), kind);
    work->workers = calloc(workers, sizeof(*work->workers));
    r = work->workers ? settle(work, error) : kr_error_set(error, -ENOMEM, "bench: no memory");
    if (r == 0 && (r = make_bars(work)) < 0)
        kr_error_set(error, r, "bench: no memory for %zu bars", work->n_bars);
    for (size_t i = 0; i < workers && r == 0; i++)
        r = init_worker(work, &work->workers[i], error);
    if (r == 0)
        r = make_streams(work, gang, error);
    if (r < 0) {
        kc_work_free(&work);
        return r;
    }
    *ret = work;
    return 0;
}

void kc_work_free(struct kc_work **work)
{
    struct kc_work *w = *work;

    if (!w)
        return;
    for (size_t i = 0; i < w->n_ready; i++)
        kr_live_free(&w->streams[i]);
    for (size_t i = 0; w->workers && i < w->n_workers; i++) {
        kr_state_free(&w->workers[i].scratch);
        kr_paths_free(&w->workers[i].paths);
        kr_generator_free(&w->workers[i].generator);
        kr_engine_free(&w->workers[i].engine);
    }
    free(w->streams);
    free(w->workers);
    free(w->future);
    free(w->bars);
    free(w);
    *work = NULL;
}

/* Units */

static int next_bar(const struct kc_work *work, struct worker *worker, struct kr_live *live)
{
    return kr_live_apply(live, &worker->engine, KR_NEXT, &work->bars[work->n_bars]);
}

/* Take it off again, so that the next unit finds the same. Constant time. */
static int take_back(struct kr_live *live)
{
    kr_series_pop(&live->series);
    live->pending_left = 0; /* of an epoch that this bar had announced; there is no pool */
    return kr_state_truncate(&live->state, live->state.len - 1);
}

static int do_append(const struct kc_work *work, struct worker *worker, struct kr_live *live)
{
    int r = next_bar(work, worker, live);

    return r < 0 ? r : take_back(live);
}

static int do_bar(const struct kc_work *work, struct worker *worker, struct kr_live *live)
{
    int r = next_bar(work, worker, live);

    if (r == 0)
        r = forecast(work, worker, live);
    return r < 0 ? r : take_back(live);
}

/* Bars of many streams that arrived together. One by one as long as the engine appends to one stream at a
 * time; it is this function that changes when it does not. */
static int do_appends(const struct kc_work *work, struct worker *worker, struct kr_live *streams,
                      size_t n)
{
    int r = 0;

    for (size_t i = 0; i < n && r == 0; i++)
        r = do_append(work, worker, &streams[i]);
    return r;
}

/* One step of the sampling loop, up to the s1 logits; the paths' rows are not kept. */
static int do_step(const struct kc_work *work, struct worker *worker, struct kr_live *live)
{
    const struct kr_state *state = &live->state;
    const struct kr_cache *prefix = &state->caches[KR_CACHE_TRUNK];
    struct kr_engine *engine = &worker->engine;
    uint16_t s1[KC_BENCH_PATHS], s2[KC_BENCH_PATHS];
    struct kr_stamp stamps[KC_BENCH_PATHS];

    for (size_t i = 0; i < KC_BENCH_PATHS; i++) {
        struct kr_cache *own = &worker->generator.trunk[i];

        kr_cache_reset(own, prefix->first + (int64_t)state->len);
        engine->views[i] = (struct kr_view){
            .prefix = prefix, .n_prefix = state->len, .own = own, .position = own->first};
        s1[i] = (uint16_t)(37 * i % work->model->predictor.vocabulary);
        s2[i] = (uint16_t)(101 * i % work->model->predictor.vocabulary);
        stamps[i] = work->future[0];
    }
    kr_predict_rows(engine, engine->views, s1, s2, stamps, KC_BENCH_PATHS);
    kr_s1_logits(engine, engine->normed, engine->width, KC_BENCH_PATHS);
    return 0;
}

/* Trunk and dependency layer over a window, in the blocks that a state is appended to in. */
static int do_prefill(const struct kc_work *work, struct worker *worker)
{
    struct kr_cache *trunk = &worker->scratch.caches[KR_CACHE_TRUNK];
    struct kr_cache *dependency = &worker->scratch.caches[KR_CACHE_DEPENDENCY];
    size_t block = trunk->ring ? KR_RING_SLACK : KR_ENGINE_ROWS, rows;
    struct kr_view *views = worker->engine.views;
    int r = 0;

    kr_cache_reset(trunk, 0);
    kr_cache_reset(dependency, 0);
    for (size_t done = 0; done < KC_BENCH_LOOKBACK && r == 0; done += rows) {
        uint16_t s1[KR_ENGINE_ROWS], s2[KR_ENGINE_ROWS];
        struct kr_stamp stamps[KR_ENGINE_ROWS];

        rows = KR_MIN(KC_BENCH_LOOKBACK - done, block);
        for (size_t i = 0; i < rows; i++) {
            views[i] =
                (struct kr_view){.own = trunk, .index = done + i, .position = (int64_t)(done + i)};
            s1[i] = (uint16_t)(37 * (done + i) % work->model->predictor.vocabulary);
            s2[i] = (uint16_t)(101 * (done + i) % work->model->predictor.vocabulary);
            stamps[i] = work->bars[done + i].stamp;
        }
        kr_predict_rows(&worker->engine, views, s1, s2, stamps, rows);
        for (size_t i = 0; i < rows; i++)
            views[i].own = dependency;
        kr_dependency_rows(&worker->engine, views, rows);
        r = kr_cache_append(trunk, rows);
        if (r == 0)
            r = kr_cache_append(dependency, rows);
    }
    return r;
}

/* Blocks of a herd: whoever is free takes the next stream. */
static int do_herd(struct kc_work *work, struct worker *worker)
{
    size_t i;
    int r = 0;

    while (r == 0 && (i = atomic_fetch_add(&work->next, 1)) < work->n_streams) {
        int64_t start_ns = kc_now_ns(), end_ns;

        r = do_bar(work, worker, &work->streams[i]);
        end_ns = kc_now_ns();
        worker->block_seconds += (double)(end_ns - start_ns) * 1e-9;
        worker->first_ns = fmin(worker->first_ns, (double)end_ns);
    }
    return r;
}

static int do_unit(struct kc_work *work, size_t index)
{
    struct worker *worker = &work->workers[index];
    struct kr_live *live = &work->streams[index];

    switch (work->kind) {
    case KC_BENCH_COLD:
        return forecast(work, worker, live);
    case KC_BENCH_BAR:
        return do_bar(work, worker, live);
    case KC_BENCH_APPEND:
        return do_append(work, worker, live);
    case KC_BENCH_APPEND64:
        return do_appends(work, worker, work->streams + index * STREAMS, STREAMS);
    case KC_BENCH_STEP32:
        return do_step(work, worker, live);
    case KC_BENCH_PREFILL400:
        return do_prefill(work, worker);
    case KC_BENCH_HERD200:
        return do_herd(work, worker);
    }
    return -EINVAL;
}

/* Rounds */

static void change_phase(void *context, enum kr_phase phase)
{
    struct clock *clock = context;
    int64_t now_ns = kc_now_ns();

    clock->seconds[clock->phase] += (double)(now_ns - clock->since_ns) * 1e-9;
    clock->since_ns = now_ns;
    clock->phase = phase;
}

static void round_work(void *context, size_t index)
{
    struct kc_work *work = context;
    struct worker *worker = &work->workers[index];

    worker->clock.since_ns = kc_now_ns();
    worker->status = 0;
    for (size_t i = 0; i < work->repeats && worker->status == 0; i++)
        worker->status = do_unit(work, index);
    kr_phase(&worker->engine, KR_PHASE_OTHER); /* up to here */
}

int kc_work_run(struct kc_work *work, struct kc_gang *gang, size_t repeats, bool split,
                struct kc_work_time *ret, struct kr_error *error)
{
    struct kc_work_time time = {.first_seconds = INFINITY};
    double start_ns;
    int r;

    work->repeats = repeats;
    atomic_store(&work->next, 0);
    for (size_t i = 0; i < work->n_workers; i++) {
        struct worker *worker = &work->workers[i];

        worker->clock = (struct clock){.phase = KR_PHASE_OTHER};
        worker->block_seconds = 0;
        worker->first_ns = INFINITY;
        worker->error.text[0] = '\0';
        worker->engine.probe = split ? change_phase : NULL;
        worker->engine.probe_context = &worker->clock;
    }
    start_ns = (double)kc_now_ns();
    time.wall_seconds = kc_gang_run(gang, round_work, work);
    time.cpu_seconds = kc_gang_cpu(gang);
    r = check_workers(work, error);
    if (r < 0)
        return r;
    for (size_t i = 0; i < work->n_workers; i++) {
        const struct worker *worker = &work->workers[i];

        for (int p = 0; p < KR_PHASES; p++)
            time.split[p] += worker->clock.seconds[p];
        time.blocks_seconds += worker->block_seconds / (double)work->n_workers;
        time.first_seconds = fmin(time.first_seconds, (worker->first_ns - start_ns) * 1e-9);
    }
    *ret = time;
    return 0;
}
