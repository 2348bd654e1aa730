/* SPDX-License-Identifier: MIT */
/* The real daemon and what a test believes of one of its streams: a trust of the test's own, told the same bars
 * and given the published paths. All that the daemon says on `score` and in `cal` must be what that trust says,
 * byte for byte. Bars are sent one by one, each only when all that the one before brings about has come. */
#ifndef KT_TWIN_H
#define KT_TWIN_H

#include "core/trust.h"
#include "tests/daemon/listen.h"

#define KT_TWIN_MIN_BARS 32
#define KT_TWIN_HORIZON  4
#define KT_TWIN_STEPS    64 /* at most */
#define KT_TWIN_PATHS    8
#define KT_TWIN_LEVELS   7

/* What the configuration has beside `more`. */
#define KT_TWIN_SETTINGS "[forecast] paths = 8\n[forecast] publish_paths = yes\n"

struct kt_twin {
    struct kt_daemon daemon;
    void *feed;
    struct kronosd_subscriber *forecasts, *paths, *scores, *events;
    struct kronosd_control *control;
    const char *symbol;
    size_t horizon, spacing; /* as kd_scoring_size() has it */
    struct kr_trust trust;
    int64_t next_row;
    uint64_t n_received;  /* bars */
    uint64_t n_scores;    /* messages: their numbers go on when the stream is forgotten */
    uint64_t n_forgotten; /* of them */
    uint64_t n_forecasts;
    bool seen[KR_STALE + 1]; /* statuses that forecasts had */
};

/* Begin with KT_TWIN_HORIZON, or with another one that `more` says too. */
void kt_twin_begin(struct kt_twin *twin, const char *more);
void kt_twin_begin_horizon(struct kt_twin *twin, const char *more, size_t horizon);
void kt_twin_end(struct kt_twin *twin);
/* The stream is forgotten, as far as the own side goes: a trust that knows nothing, row 0. */
void kt_twin_forget(struct kt_twin *twin);

/* The next `n` score messages are those of the own trust's scores. */
void kt_twin_expect_scores(struct kt_twin *twin, size_t n);
/* The next forecast is read by the own trust and says the same. `final`: it is behind the last bar, and
 * remembered; else behind one that is still forming. */
void kt_twin_expect_forecast(struct kt_twin *twin, bool final);
/* What `symbols` and `status` say of the stream agrees with the own trust. */
void kt_twin_expect_standing(struct kt_twin *twin);

/* A bar that is the next one, and all that comes of it; bars [from, to) of kt_bar(). */
void kt_twin_feed(struct kt_twin *twin, const struct kw_bar *bar);
void kt_twin_feed_range(struct kt_twin *twin, size_t from, size_t to);
/* Other content for bar i, of which n_scores steps become due. */
void kt_twin_revise(struct kt_twin *twin, size_t i, size_t n_scores);

#endif
