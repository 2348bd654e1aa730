/* SPDX-License-Identifier: MIT */
#include "clients/backtest.h"

#include "clients/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

#define BAND90 (KC_BACKTEST_BANDS - 1)

/* A column over files: those without a number do not count. */
struct column {
    double sum, least;
    size_t n;
};

static void add(struct column *column, double value)
{
    if (!isfinite(value))
        return;
    column->least = column->n ? fmin(column->least, value) : value;
    column->sum += value;
    column->n++;
}

static double mean_of(const struct column *column)
{
    return column->n ? column->sum / (double)column->n : NAN;
}

static double least_of(const struct column *column)
{
    return column->n ? column->least : NAN;
}

void kc_backtest_mean(const struct kc_backtest *files, size_t n, size_t step,
                      struct kc_backtest_means *ret)
{
    struct column raw = {0}, cal = {0}, cover = {0}, cover_cal = {0};

    for (size_t i = 0; i < n; i++) {
        const struct kc_backtest_horizon *horizon = &files[i].horizons[step];
        const struct kr_tally *tally = &horizon->tally;

        if (tally->n > 0) {
            add(&raw, kr_skill(tally->crps, tally->crps_rw));
            add(&cal, kr_skill(tally->crps_cal, tally->crps_rw));
        }
        add(&cover, kc_backtest_cover(horizon, BAND90, false));
        add(&cover_cal, kc_backtest_cover(horizon, BAND90, true));
    }
    *ret = (struct kc_backtest_means){.skill = mean_of(&raw),
                                      .skill_cal = mean_of(&cal),
                                      .least_skill = least_of(&raw),
                                      .least_skill_cal = least_of(&cal),
                                      .cover90_raw = mean_of(&cover),
                                      .cover90_cal = mean_of(&cover_cal),
                                      .n_scored = raw.n,
                                      .n_cal = cover_cal.n};
}

static uint64_t origins_of(const struct kc_backtest *files, size_t n, uint64_t *ret_calibrated)
{
    uint64_t origins = 0;

    *ret_calibrated = 0;
    for (size_t i = 0; i < n; i++) {
        origins += files[i].n_origins;
        *ret_calibrated += files[i].n_calibrated;
    }
    return origins;
}

/* Text */

#define CELL 24

/* "-" for what no file has. */
static const char *share_cell(char ret[CELL], double value)
{
    if (isfinite(value))
        snprintf(ret, CELL, "%.3f", value);
    else
        snprintf(ret, CELL, "-");
    return ret;
}

static const char *skill_cell(char ret[CELL], double value)
{
    if (isfinite(value))
        snprintf(ret, CELL, "%+.4f", value);
    else
        snprintf(ret, CELL, "-");
    return ret;
}

static void write_row(FILE *stream, const struct kc_backtest *files, size_t n, size_t step)
{
    struct kc_backtest_means means;
    char text[6][CELL];

    kc_backtest_mean(files, n, step, &means);
    fprintf(stream, "%4zu %8s %8s %8s %8s %8s %8s %8zu\n", step + 1,
            skill_cell(text[0], means.skill), skill_cell(text[1], means.skill_cal),
            skill_cell(text[2], means.least_skill), skill_cell(text[3], means.least_skill_cal),
            share_cell(text[4], means.cover90_raw), share_cell(text[5], means.cover90_cal),
            means.n_cal);
}

int kc_backtest_means_text(FILE *stream, const struct kc_backtest *files, size_t n)
{
    static const size_t chosen[] = {1, 6, 12, 24};
    uint64_t calibrated, origins = origins_of(files, n, &calibrated);

    fprintf(stream,
            "\nMeans over %zu files, %" PRIu64 " origins, %" PRIu64 " of them calibrated\n"
            "       mean skill        least of a file   90 %% band holds  files with\n"
            "   h      raw      cal      raw      cal      raw      cal calibrated\n",
            n, origins, calibrated);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(chosen); i++)
        if (chosen[i] <= files[0].n_steps)
            write_row(stream, files, n, chosen[i] - 1);
    return ferror(stream) ? -EIO : 0;
}

/* JSON */

static json_t *horizon_json(const struct kc_backtest *files, size_t n, size_t step)
{
    struct kc_backtest_means means;

    kc_backtest_mean(files, n, step, &means);
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I}", "h", (json_int_t)step + 1,
                     "skill", kj_real(means.skill), "skill_cal", kj_real(means.skill_cal),
                     "least_skill", kj_real(means.least_skill), "least_skill_cal",
                     kj_real(means.least_skill_cal), "cover90_raw", kj_real(means.cover90_raw),
                     "cover90_cal", kj_real(means.cover90_cal), "scored_files",
                     (json_int_t)means.n_scored, "calibrated_files", (json_int_t)means.n_cal);
}

int kc_backtest_means_json(FILE *stream, const struct kc_backtest *files, size_t n,
                           const char *const *names)
{
    json_t *list = json_array(), *horizons = json_array(), *all = NULL;
    uint64_t calibrated, origins = origins_of(files, n, &calibrated);
    bool whole = list && horizons;
    int r;

    for (size_t i = 0; i < n && whole; i++)
        whole = json_array_append_new(list, kc_backtest_object(&files[i], names[i])) == 0;
    for (size_t step = 0; step < files[0].n_steps && whole; step++)
        whole = json_array_append_new(horizons, horizon_json(files, n, step)) == 0;
    if (whole)
        all = json_pack("{s:O, s:{s:I, s:I, s:I, s:O}}", "files", list, "mean", "files",
                        (json_int_t)n, "origins", (json_int_t)origins, "calibrated_origins",
                        (json_int_t)calibrated, "horizons", horizons);
    r = all ? kj_write_line(stream, all) : -ENOMEM;
    json_decref(all);
    json_decref(list);
    json_decref(horizons);
    return r;
}
