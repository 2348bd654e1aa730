/* SPDX-License-Identifier: MIT */
/* Sampled future paths of one encoded window: fork, step, draw, decode.
 *
 * All paths share the window's caches and own only their suffix. The first step's hidden row and s1 logits
 * are computed once. When the running length exceeds max_context the reference's sliding window is
 * re-encoded from position 0 for every step, in constant memory. Behind a rolling state nothing ever slides:
 * suffixes longer than the attention window are rings themselves. */
#ifndef KR_GENERATE_H
#define KR_GENERATE_H

#include "core/draw.h"
#include "core/filter.h"
#include "core/state.h"

/* What a generator's memory is planned for. */
struct kr_generator_size {
    size_t max_paths, max_horizon, max_context;
    size_t min_window,
        max_window;     /* rows of the windows to be forecast behind, each <= max_context */
    size_t suffix_rows; /* rows a path may append; 0: as many as the above need */
};

/* Suffix caches of all paths and the sliding window's scratch; one a worker. */
struct kr_generator {
    const struct kr_model *model;
    struct kr_generator_size size;
    struct kr_cache *trunk, *dependency; /* [max_paths] forks, size.suffix_rows each */
    struct kr_cache *decoder;            /* [max_paths] likewise; few paths share one in turn */
    bool may_slide;                      /* the three below exist */
    struct kr_cache shared[3];       /* a sliding window's rows of the lookback: trunk, dependency
                                            layer, decoder; [max_context] */
    struct kr_cache own[2];          /* and one path's generated rows: trunk, dependency layer */
    uint16_t *distinct;              /* [max_paths] first drawn s1, each once */
    uint32_t *which;                 /* [max_paths] index into it */
    struct kr_rank *ranks;           /* [max_paths], for stratified draws */
    double *strata;                  /* [2][max_paths] uniforms of one step, s1's and s2's */
    uint16_t *window_s1, *window_s2; /* [max_context] */
    struct kr_stamp *window_stamps;  /* [window_rows] */
};

struct kr_request {
    size_t horizon, paths;
    size_t max_context;
    struct kr_sampling sampling;
    uint64_t key;                  /* kr_draw_key() */
    int64_t as_of_ns;              /* open time of the last bar: addresses the draws */
    const double *uniforms;        /* [paths][2 horizon], s1 at 2h, s2 at 2h + 1; NULL: Philox */
    const struct kr_stamp *future; /* [horizon] */
    bool join;                     /* shift so that paths start from the last close */
    float last_close;              /* for join: the last bar's, normalised */
    const struct kr_walk *walk;    /* normaliser `returns`: where paths start; NULL: levels */
    /* Called after every step if not NULL; false stops with -ECANCELED. */
    bool (*keep_going)(void *context, size_t step);
    void *context;
    float *ret_s1_logits, *ret_s2_logits; /* [horizon][vocabulary] of path 0, or NULL: for tests */
};

/* Allocated once for the largest request; reused. */
struct kr_paths {
    size_t max_paths, max_horizon;
    size_t n_paths, n_steps;
    uint16_t *s1, *s2; /* [n_paths][n_steps] */
    float *bars;       /* [n_paths][n_steps][KR_COLUMNS], prices and volumes */
    bool window_slid;  /* the horizon crossed max_context */
};

size_t kr_paths_size_bytes(size_t max_paths, size_t max_horizon);
int kr_paths_init(struct kr_paths *paths, size_t max_paths, size_t max_horizon) kr_must_check;
void kr_paths_free(struct kr_paths *paths);

size_t kr_generator_size_bytes(const struct kr_model *model, const struct kr_generator_size *size);
/* Return: 0, -EINVAL (a suffix too short for min(window + horizon, max_context) rows, a zero size) with a
 * line, -ENOMEM. */
int kr_generator_init(struct kr_generator *generator, const struct kr_model *model,
                      const struct kr_generator_size *size, struct kr_error *error) kr_must_check;
void kr_generator_free(struct kr_generator *generator);

/* Sample request->paths paths behind the state's last row. The state's rows are not changed.
 * Return: 0; -EINVAL (larger than planned, or no row), -ECANCELED, -EDOM (the model's output is not
 * finite). */
int kr_generate(struct kr_generator *generator, struct kr_engine *engine,
                const struct kr_state *state, const struct kr_request *request,
                struct kr_paths *ret, struct kr_error *error) kr_must_check;

#endif
