/* SPDX-License-Identifier: MIT */
#include "clients/backtest.h"

#include "clients/ctl.h"
#include "clients/json.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#define BAND90 (KC_BACKTEST_BANDS - 1)

static double mean_of(double sum, uint64_t n)
{
    return n > 0 ? sum / (double)n : NAN;
}

static double skill_of(const struct kc_backtest_horizon *horizon, bool calibrated)
{
    const struct kr_tally *tally = &horizon->tally;

    return tally->n > 0 ? kr_skill(calibrated ? tally->crps_cal : tally->crps, tally->crps_rw)
                        : NAN;
}

static double pit_p(const struct kc_backtest_horizon *horizon)
{
    double statistic;

    return horizon->tally.n > 0 ? kr_uniform_p(horizon->tally.pit, KR_PIT_BINS, &statistic) : NAN;
}

/* JSON */

static json_t *horizon_json(const struct kc_backtest *backtest, size_t step)
{
    const struct kc_backtest_horizon *horizon = &backtest->horizons[step];
    const struct kr_tally *tally = &horizon->tally;

    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "h", (json_int_t)step + 1,
                     "crps", kj_real(mean_of(tally->crps, tally->n)), "crps_rw",
                     kj_real(mean_of(tally->crps_rw, tally->n)), "skill",
                     kj_real(skill_of(horizon, false)), "skill_cal",
                     kj_real(skill_of(horizon, true)), "cover90_raw",
                     kj_real(kc_backtest_cover(horizon, BAND90, false)), "cover90_cal",
                     kj_real(kc_backtest_cover(horizon, BAND90, true)), "pit_p",
                     kj_real(pit_p(horizon)), "join_error", kj_real(backtest->join_error));
}

json_t *kc_backtest_object(const struct kc_backtest *backtest, const char *file)
{
    json_t *horizons = json_array(), *object = NULL;
    bool whole = horizons;

    for (size_t step = 0; step < backtest->n_steps && whole; step++)
        whole = json_array_append_new(horizons, horizon_json(backtest, step)) == 0;
    if (whole)
        object = json_pack("{s:s%, s:s, s:I, s:I, s:O}", "file", file, strlen(file), "mode",
                           kr_mode_names[backtest->mode], "origins",
                           (json_int_t)backtest->n_origins, "calibrated_origins",
                           (json_int_t)backtest->n_calibrated, "horizons", horizons);
    json_decref(horizons);
    return object;
}

int kc_backtest_json(FILE *stream, const struct kc_backtest *backtest, const char *file)
{
    json_t *object = kc_backtest_object(backtest, file);
    int r = object ? kj_write_line(stream, object) : -ENOMEM;

    json_decref(object);
    return r;
}

/* Text */

#define CELL 24

/* "-" for what was not counted. */
static const char *cell(char ret[CELL], int decimals, double value)
{
    if (isfinite(value))
        snprintf(ret, CELL, "%.*f", decimals, value);
    else
        snprintf(ret, CELL, "-");
    return ret;
}

/* The same with its sign. */
static const char *signed_cell(char ret[CELL], int decimals, double value)
{
    if (isfinite(value))
        snprintf(ret, CELL, "%+.*f", decimals, value);
    else
        snprintf(ret, CELL, "-");
    return ret;
}

/* Diebold and Mariano's statistic and probability; NAN where there is too little. */
static struct kr_comparison compare(const double *lead, uint64_t n, size_t step, size_t every)
{
    struct kr_comparison comparison;

    if (kr_compare(lead, (size_t)n, step / every + 1, &comparison) < 0)
        comparison = (struct kr_comparison){NAN, NAN, NAN};
    return comparison;
}

static void write_head(FILE *stream)
{
    fprintf(stream, "       CRPS, 1e-4           skill          90 %% band holds         PIT"
                    "        against the walk (DM)\n"
                    "   h    model     walk      raw      cal     raw    cal      n        p"
                    "    raw      p     cal      p\n");
}

static void write_row(FILE *stream, const struct kc_backtest *backtest, size_t step, size_t every)
{
    const struct kc_backtest_horizon *horizon = &backtest->horizons[step];
    const struct kr_tally *tally = &horizon->tally;
    struct kr_comparison raw = compare(horizon->lead, tally->n, step, every);
    struct kr_comparison cal = compare(horizon->lead_cal, tally->n, step, every);
    char text[11][CELL];

    fprintf(stream, "%4zu %8s %8s %8s %8s %7s %6s %6" PRIu64 " %8s %6s %6s %7s %6s\n", step + 1,
            cell(text[0], 3, mean_of(tally->crps, tally->n) * 1e4),
            cell(text[1], 3, mean_of(tally->crps_rw, tally->n) * 1e4),
            signed_cell(text[2], 4, skill_of(horizon, false)),
            signed_cell(text[3], 4, skill_of(horizon, true)),
            cell(text[4], 3, kc_backtest_cover(horizon, BAND90, false)),
            cell(text[5], 3, kc_backtest_cover(horizon, BAND90, true)), horizon->n_cal,
            cell(text[6], 4, pit_p(horizon)), signed_cell(text[7], 2, raw.statistic),
            cell(text[8], 3, raw.p), signed_cell(text[9], 2, cal.statistic),
            cell(text[10], 3, cal.p));
}

int kc_backtest_text(FILE *stream, const struct kc_backtest *backtest,
                     const struct kc_backtest_config *config, const char *file)
{
    static const size_t chosen[] = {1, 6, 12, 24};

    fprintf(stream,
            "%s: mode %s, %" PRIu64 " origins, one every %zu bars behind %zu of history, %" PRIu64
            " of them calibrated; %zu paths\n",
            file, kr_mode_names[backtest->mode], backtest->n_origins, config->every,
            config->lookback, backtest->n_calibrated, config->paths);
    fprintf(stream, "join error %.2e; %" PRIu64 " of %" PRIu64 " steps unscored: no bar came\n\n",
            backtest->join_error, backtest->n_unscored, backtest->n_origins * backtest->n_steps);
    write_head(stream);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(chosen); i++)
        if (chosen[i] <= backtest->n_steps)
            write_row(stream, backtest, chosen[i] - 1, config->every);
    fprintf(stream, "\nall horizons\n");
    write_head(stream);
    for (size_t step = 0; step < backtest->n_steps; step++)
        write_row(stream, backtest, step, config->every);
    fprintf(stream,
            "\nCRPS of the log-return from the last close, mean over origins; skill 1 - model / "
            "walk (EWMA\nrandom walk); raw as sampled, cal as calibrated online; band: raw of all "
            "origins, cal of the n that\nwere calibrated when made; PIT p: chi-square, 10 bins, "
            "raw; DM: Diebold-Mariano statistic, below 0\nfavours the model, and its two-sided "
            "p. Join error: mean |ln(mean first open / last close)|.\n");
    return ferror(stream) ? -EIO : 0;
}
