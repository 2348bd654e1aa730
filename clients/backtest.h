/* SPDX-License-Identifier: MIT */
/* Walk-forward over a file of bars, by the code that serves a live stream: every bar is scored against
 * the forecasts that wait for it, teaches the calibration, enters the model's state, and behind every
 * K-th one a forecast is made. Forecasts within the history only teach, as a daemon that has been up
 * for as long has learned. Draws are independent ones. */
#ifndef KC_BACKTEST_H
#define KC_BACKTEST_H

#include "clients/source.h"
#include "core/live.h"
#include "core/trust.h"

#include <jansson.h>
#include <stdio.h>

struct kc_backtest_config {
    const char *symbol, *interval; /* address of the draws */
    size_t lookback;               /* bars of history before the first forecast, and the model's */
    size_t horizon, paths, max_context;
    size_t every; /* bars from one forecast to the next */
    /* Bars between forecasts made during the history: they teach the calibration and count in
     * nothing that is reported. 0: none. */
    size_t learn_every;
    enum kr_mode mode;
    double drift_limit; /* of anchored epochs; 0: as live, INFINITY: none end early */
    struct kr_sampling sampling;
    uint64_t seed;
    bool raw;                                /* no scale, join, repair, flat answers */
    void (*progress)(void *context, size_t); /* bars done; may be NULL */
    void *context;
};

/* Bars before the first forecast of the history, as a stream's default. */
#define KC_BACKTEST_MIN_BARS 64

/* Levels 0.05, 0.10, .. 0.95; bands 0 .. 8 are central ones of 10 %, 20 %, .. 90 %. */
#define KC_BACKTEST_LEVELS 19
#define KC_BACKTEST_BANDS  9
extern const double kc_backtest_levels[KC_BACKTEST_LEVELS];

/* What came of one horizon. "cal" counts forecasts that said of themselves to be calibrated. */
struct kc_backtest_horizon {
    struct kr_tally tally; /* of all outcomes */
    uint64_t n_cal;
    uint64_t inside[KC_BACKTEST_BANDS];     /* raw quantiles, bounds included; of tally.n */
    uint64_t inside_cal[KC_BACKTEST_BANDS]; /* calibrated ones; of n_cal */
    uint64_t pit_cal[KR_PIT_BINS];          /* of n_cal */
    double *lead,
        *lead_cal; /* [tally.n] CRPS minus the walk's, raw and calibrated, in time order */
    double *median,
        *width; /* [n_origins] of the return as sampled; width: 95 % less 5 % quantile */
};

/* The last forecast. Quantiles are log-returns from last_close, [horizon][KC_BACKTEST_LEVELS]. */
struct kc_backtest_last {
    size_t index; /* of the bar it was made behind */
    enum kr_trust_status status;
    int64_t *t_ns; /* [horizon] */
    double *raw, *cal;
};

struct kc_backtest {
    enum kr_mode mode; /* resolved */
    size_t n_steps;
    uint64_t n_origins, n_calibrated;     /* forecasts; of which calibrated when they were made */
    uint64_t n_unscored;                  /* steps whose bar never came */
    uint64_t n_epochs, n_drifted;         /* anchored: epochs, and those that drift began */
    double *drift;                        /* [n_origins], kr_live_drift() */
    double join_error;                    /* mean |ln(mean open of the first step / last close)| */
    struct kc_backtest_horizon *horizons; /* [n_steps] */
    struct kc_backtest_last last;
};

/* Origins are the bars lookback - 1, + every, .. that at least `horizon` bars follow; there is one at
 * least. Return: 0; -EBADMSG (too few bars, a calendar that ends) with a line that names the file,
 * -EINVAL (mode and sizes that do not fit the model), -EDOM, -ENOMEM. kc_backtest_free() whatever is
 * returned. */
int kc_backtest_run(struct kc_backtest *backtest, const struct kr_model *model,
                    const struct kc_backtest_config *config, const struct kc_source *source,
                    struct kr_error *error) kr_must_check;
void kc_backtest_free(struct kc_backtest *backtest);

/* Share of outcomes inside a central band, NaN without outcomes. */
double kc_backtest_cover(const struct kc_backtest_horizon *horizon, size_t band, bool calibrated);

/* Two modes over the same file, with the same draws: how far their medians are apart. */
struct kc_backtest_distance {
    double median, worst; /* over origins, of |difference of medians| / width; width: the mean of
                             both, 95 % less 5 % quantile; origins without width do not count */
    double by_drift[3];   /* median over origins of little, middling and large drift: NaN if there
                             are none */
    uint64_t n;
};
/* Bounds of by_drift: below the first, the second, above. */
extern const double kc_backtest_drifts[2];
/* At a step that both have. `other` is the anchored one, or whose drift counts. Return: 0, -EINVAL (not of
 * the same origins), -ENOMEM. */
int kc_backtest_distance(const struct kc_backtest *backtest, const struct kc_backtest *other,
                         size_t step, struct kc_backtest_distance *ret) kr_must_check;
/* Both tables and the distances; JSON: `modes` (the two backtests' objects), `distance` [{h, median, worst,
 * by_drift}], `drift` {bounds, median, epochs, drifted}. Return: as below. */
int kc_backtest_compare_text(FILE *stream, const struct kc_backtest *backtest,
                             const struct kc_backtest *other,
                             const struct kc_backtest_config *config,
                             const char *file) kr_must_check;
int kc_backtest_compare_json(FILE *stream, const struct kc_backtest *backtest,
                             const struct kc_backtest *other, const char *file) kr_must_check;

/* The table for a person, horizons 1, 6, 12, 24 first; and one line of JSON: file, mode, origins,
 * calibrated_origins, horizons [{h, crps, crps_rw, skill, skill_cal, cover90_raw, cover90_cal, pit_p,
 * join_error}], null where nothing was counted. Return: 0, -EIO, -ENOMEM. */
int kc_backtest_text(FILE *stream, const struct kc_backtest *backtest,
                     const struct kc_backtest_config *config, const char *file) kr_must_check;
json_t *kc_backtest_object(const struct kc_backtest *backtest,
                           const char *file); /* NULL: no memory */
int kc_backtest_json(FILE *stream, const struct kc_backtest *backtest,
                     const char *file) kr_must_check;

/* Means over files at one step: each file's own number first, then their mean; files without one do not
 * count; NaN where no file has one. */
struct kc_backtest_means {
    double skill, skill_cal, least_skill, least_skill_cal, cover90_raw, cover90_cal;
    size_t n_scored, n_cal; /* files behind skill, behind cover90_cal */
};
/* Of files [n], n >= 1, all of the same n_steps. */
void kc_backtest_mean(const struct kc_backtest *files, size_t n, size_t step,
                      struct kc_backtest_means *ret);
/* The closing table; and all of it as one line of JSON: `files`, one object each as kc_backtest_json() has
 * it, and `mean` {files, origins, calibrated_origins, horizons [{h, skill, skill_cal, least_skill,
 * least_skill_cal, cover90_raw, cover90_cal, scored_files, calibrated_files}]}. names [n]. Return: 0, -EIO,
 * -ENOMEM. */
int kc_backtest_means_text(FILE *stream, const struct kc_backtest *files, size_t n) kr_must_check;
int kc_backtest_means_json(FILE *stream, const struct kc_backtest *files, size_t n,
                           const char *const *names) kr_must_check;

/* Fan of the last forecast, coverage, PIT histogram. Return: 0, -EIO, -ENOMEM. */
int kc_backtest_plot(FILE *stream, const struct kc_backtest *backtest,
                     const struct kc_backtest_config *config, const struct kc_input *input,
                     const char *file) kr_must_check;

#endif
