/* SPDX-License-Identifier: MIT */
/* The live window of one stream: which bars are encoded under which statistics, and when that changes.
 *
 * Mode `exact`: statistics and window as the reference would choose for this bar; re-encoded for each
 * forecast. Mode `anchored`: mean and std are frozen for an epoch and a bar costs one row; at growth left
 * = 8, or on drift, the next epoch's statistics freeze over the last `lookback` bars, and it is swapped in
 * 8 bars later whatever happened meanwhile (rules, "anchored"). What happens depends on the bars alone,
 * never on time or load. Below `lookback` bars a forecast is `exact` on what there is. Mode `rolling`, for
 * models made for streams: see rolling.h; `exact` then replays the receptive field, to the same bytes.
 * All memory is taken by kr_live_init(). One thread at a time; different streams in different threads. */
#ifndef KR_LIVE_H
#define KR_LIVE_H

#include "core/generate.h"
#include "core/pool.h"
#include "core/series.h"

enum kr_mode { KR_MODE_AUTO, KR_MODE_EXACT, KR_MODE_ANCHORED, KR_MODE_ROLLING };
extern const char *const kr_mode_names[]; /* "auto", "exact", "anchored", "rolling" */

struct kr_live_config {
    enum kr_mode mode; /* EXACT, ANCHORED or ROLLING: see kr_live_resolve() */
    size_t lookback, min_bars, horizon, max_context;
    size_t growth; /* rows an anchored window grows by; of this stream, shortened already */
    bool scale, join,
        repair; /* honest paths, and flat answers to flat windows; all off under --raw */
    /* Offline: mean and std of an exact window cover its first `anchor` bars, as an epoch's do that
     * began with them. 0: all of them. */
    size_t anchor;
    double drift_limit;   /* of kr_live_drift(), beyond which an epoch ends; 0: KR_DRIFT_LIMIT */
    struct kr_pool *pool; /* spare cache sets for epoch changes; NULL: none. Borrowed */
};

/* An anchored forecast's drift beyond which the next epoch is begun early: at a lookback of 400 an epoch then
 * lasts some 37 bars, and costs 11 rows a bar where one forecast takes hundreds (tests/clients/test_drift). */
#define KR_DRIFT_LIMIT 0.25

/* Bars from a freeze to its swap. */
#define KR_EPOCH_DELAY 8
/* Least growth of an anchored window: the delay, the shortening and a bar of life. */
#define KR_MIN_GROWTH 24

/* Settle mode `auto` and growth (0: auto = min(max_context - lookback - horizon, lookback / 2)) for one
 * stream; growth is shortened by fnv1a64("iv|sym") mod (growth / 4) so that streams do not turn together.
 * `auto` takes rolling where the model can, else anchored where the context leaves KR_MIN_GROWTH, else exact.
 * `model` NULL: one with normaliser `levels` and full attention.
 * Return: 0, or -EINVAL with a line naming keys and values (a mode that cannot be exact, sizes that do not
 * fit). */
int kr_live_resolve(struct kr_live_config *config, const struct kr_model *model,
                    const char *interval, const char *symbol, struct kr_error *error) kr_must_check;

enum kr_change {
    KR_NEXT,     /* a bar later than all others */
    KR_REVISED,  /* other content for the bar of that time, the last or an older one */
    KR_LATE,     /* an older bar never seen: enters at the next epoch */
    KR_REANCHOR, /* a bar later than all others, behind a gap that wants a new epoch */
    KR_HISTORY,  /* like KR_NEXT, but nothing will be forecast before more comes: no encoding yet */
};

struct kr_live {
    struct kr_live_config config;
    const struct kr_model *model;
    struct kr_series series;
    struct kr_state state; /* anchored: the epoch's; exact: the last forecast's */
    bool has_epoch;        /* anchored, rolling: the state's last row is the last bar */
    bool clipped;          /* a value of that epoch was clipped */
    uint64_t epoch;        /* number of the current epoch, 1 for the first; 0: none yet */
    int64_t window_t0_ns;  /* open time of its first bar */
    unsigned pending_left; /* bars until the frozen next epoch is swapped in; 0: none pending */
    struct kr_normaliser pending; /* its statistics */
    struct kr_state *spare;       /* borrowed from the pool while pending; NULL if none was free */
    bool spare_clipped;
    uint64_t n_drifted;    /* epochs begun early by drift */
    uint64_t n_reanchored; /* epochs begun at once: deep revisions, gaps */
    uint64_t n_waited;     /* swaps that had to encode the window because no spare was free */
};

/* Rows of the longest window of one stream, and the generator that serves it. */
size_t kr_live_max_window(const struct kr_live_config *config);
struct kr_generator_size kr_live_generator_size(const struct kr_live_config *config, size_t paths);

size_t kr_live_size_bytes(const struct kr_model *model, const struct kr_live_config *config);
int kr_live_init(struct kr_live *live, const struct kr_model *model,
                 const struct kr_live_config *config, struct kr_error *error) kr_must_check;
void kr_live_free(struct kr_live *live);

/* Take one accepted bar into the state. Return: 0, -ENOENT (a revision of a bar no longer kept: ignored),
 * -EEXIST, -ERANGE likewise for a late bar; the state is sound after any of them. */
int kr_live_apply(struct kr_live *live, struct kr_engine *engine, enum kr_change change,
                  const struct kr_bar *bar) kr_must_check;

/* True once min_bars bars are there. */
bool kr_live_ready(const struct kr_live *live);

/* How far an epoch's frozen statistics are from those of the last `lookback` bars: over the price columns,
 * the largest distance of the means in frozen standard deviations, and the largest doubling or halving
 * |log2| of the standard deviation; infinite where the last bar lies where inputs are clipped. A function of
 * bars alone. 0 in other modes and without an epoch. */
double kr_live_drift(const struct kr_live *live);

/* How a forecast came about. */
struct kr_live_report {
    enum kr_mode mode; /* EXACT, ANCHORED or ROLLING */
    uint64_t epoch;    /* 0 in exact mode */
    size_t bars;       /* window length */
    int64_t win_t0_ns;
    size_t anchor_n; /* bars that mean and std cover */
    bool flat, clipped, joined, window_slid;
    unsigned n_repaired; /* values */
};

/* Forecast behind the last bar, or, with `overlay` not NULL, behind a forming bar laid over the state and
 * taken off again. request->key, horizon (at most the configured one), paths, sampling, future,
 * as_of_ns, uniforms and keep_going are the caller's; the rest is set here.
 * Return: 0, -EAGAIN (fewer than min_bars bars), -EINVAL, -ECANCELED; the state is sound after any. */
int kr_live_forecast(struct kr_live *live, struct kr_engine *engine, struct kr_generator *generator,
                     const struct kr_request *request, const struct kr_bar *overlay,
                     struct kr_paths *ret, struct kr_live_report *ret_report,
                     struct kr_error *error) kr_must_check;

#endif
