/* SPDX-License-Identifier: MIT */
/* One forecast without a daemon: the window of a file, encoded and sampled by libkronos exactly as the
 * daemon would. */
#ifndef KC_OFFLINE_H
#define KC_OFFLINE_H

#include "clients/input.h"
#include "core/live.h"

struct kc_offline_config {
    const char *symbol, *interval; /* address of the draws */
    size_t lookback, horizon, paths, max_context;
    size_t anchor; /* mean and std cover so many first bars of the window; 0: as the mode says */
    enum kr_mode mode;
    int64_t first_row; /* mode rolling: row number of the first bar */
    struct kr_sampling sampling;
    uint64_t seed;
    const double *uniforms; /* [paths][2 horizon], NULL: Philox */
    bool raw;               /* no scale, join, repair, flat answers */
    bool (*keep_going)(void *context, size_t step);
    void *context;
};

struct kc_offline {
    struct kr_engine engine;
    struct kr_generator generator;
    struct kr_live live;
    struct kr_paths paths;
    struct kr_live_report report;
    struct kr_stamp *stamps; /* [horizon] */
    int64_t *t_ns;           /* [horizon] open times */
};

/* Settle `auto`. Return: 0, or -EINVAL with a line (a mode that the model cannot run, sizes that do not
 * fit). */
int kc_offline_resolve(struct kc_offline_config *config, const struct kr_model *model,
                       struct kr_error *error) kr_must_check;

/* Forecast behind the last bar of the input, over its last `lookback` bars. `t_ns` and `stamps` come from
 * the input's own future where it has one, else from `calendar`. kc_offline_free() whatever is returned.
 * Return: 0; -EBADMSG (too few bars, a future too short, no open slot) with a line that names the file;
 * -EINVAL (a configuration that was not resolved), -ENOMEM. */
int kc_offline_run(struct kc_offline *offline, const struct kr_model *model,
                   const struct kc_offline_config *config, const struct kc_input_config *source,
                   const struct kc_input *input, const struct kr_calendar *calendar,
                   struct kr_error *error) kr_must_check;
void kc_offline_free(struct kc_offline *offline);

#endif
