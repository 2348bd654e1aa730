/* SPDX-License-Identifier: MIT */
/* How far one stream's forecasts can be trusted: remember each, score it when its bars come, learn
 * from it, read the next one in that light. Puts score.h, pending.h and calibrate.h together in the
 * order that rules ask for ("Time and order"): for every accepted bar kr_trust_bar() or one of its
 * two siblings before the bar enters the model's state, then kr_trust_forecast() with what is
 * published behind it.
 *
 * Every number is a function of the bars, the forecasts and their order. All memory is taken by
 * kr_trust_init(). One thread at a time; different streams in different threads. */
#ifndef KR_TRUST_H
#define KR_TRUST_H

#include "core/pending.h"
#include "core/score.h"

struct kr_trust_config {
    struct kr_pending_size size;  /* n_levels too */
    const double *levels;         /* [size.n_levels], strictly rising in (0, 1) */
    const struct kr_prior *prior; /* NULL: identity */
    uint64_t id;                  /* kr_calibration_id() */
};

/* One step that came due. y and the scores are of the log-return from the forecast's last close. */
struct kr_score {
    int64_t as_of_ns, t_ns; /* last bar used, bar scored */
    size_t step;            /* horizon - 1 */
    double y;
    double crps, crps_cal;      /* fair; plain with stratified draws */
    double crps_rw, crps_still; /* random walk, persistence */
    double pit, pit_cal;
    const bool *hit, *hit_cal;   /* [n_levels]: y <= q, of the raw and of the calibrated quantile */
    const double *pinball;       /* [n_levels] loss of the raw quantile */
    uint64_t n;                  /* scored at this horizon so far, this one included */
    double skill, skill_cal;     /* over those */
    enum kr_trust_status status; /* what the forecast said of itself */
    bool stratified;
};

/* Add a score to a tally of the caller's own choice of forecasts; the trust keeps one of all. */
void kr_tally_count(struct kr_tally *tally, const struct kr_score *score);

struct kr_trust {
    struct kr_random_walk walk;
    struct kr_pending pending;
    struct kr_pending reading; /* one forecast, of kr_trust_read() */
    struct kr_calibrator calibrator;
    struct kr_tally *tally;    /* [max_steps] */
    uint64_t *hits, *hits_cal; /* [max_steps][n_levels], of tally.n */
    uint64_t n_revised;        /* bars that changed after they had been scored */
    int64_t row;               /* of the newest bar */
    int64_t walk_t_ns;         /* bar of the walk's last close; only if that is above 0 */
    struct kr_due *due;        /* [capacity] */
    struct kr_score *scores;   /* [capacity] */
    double *pinball;           /* [capacity][n_levels] */
    bool *hit;                 /* [capacity][2][n_levels] */
    double *members;           /* [max_paths] */
};

size_t kr_trust_size_bytes(const struct kr_trust_config *config);
/* Return: 0, -EINVAL, -ENOMEM; written only on success. */
int kr_trust_init(struct kr_trust *trust, const struct kr_trust_config *config,
                  struct kr_error *error) kr_must_check;
void kr_trust_free(struct kr_trust *trust);

/* Model or parameters have changed: calibration, tallies and waiting forecasts go (their steps
 * become unscored); the walk, which is of the market, stays. */
void kr_trust_reset(struct kr_trust *trust, uint64_t id);

/* A bar newer than all others; row is its number. close > 0. History that was never forecast too.
 * Return: number of steps scored, in trust->scores, oldest forecast first; valid until the next
 * call. */
size_t kr_trust_bar(struct kr_trust *trust, int64_t t_ns, int64_t row, double close);
/* An older bar never seen: scores what still waits for it. A walk that has seen newer closes has
 * counted the return across it and stays as it is. */
size_t kr_trust_late(struct kr_trust *trust, int64_t t_ns, double close);
/* Other content for a bar. Scores what still waits for it, which is so only if it was never scored
 * (a synthetic bar's first real content); scored steps keep their score, and the bar is counted in
 * n_revised. The walk follows if the bar is its last. */
size_t kr_trust_revised(struct kr_trust *trust, int64_t t_ns, double close);
/* A synthetic bar, newer than all others: time goes on, nothing is scored or learned from it. */
void kr_trust_synthetic(struct kr_trust *trust, int64_t t_ns, int64_t row);

/* Remember what is published behind the newest bar and give its calibrated reading: entry->q are
 * quantiles of the log-return (close: last_close exp(q)), entry->status, and kr_calibrator_n().
 * sigma of `published` is set here. Return: as kr_pending_add(). */
int kr_trust_forecast(struct kr_trust *trust, const struct kr_published *published,
                      struct kr_pending_entry **ret) kr_must_check;

/* The same reading of a forecast that nobody will score: it is not remembered. Valid until the next
 * call of either. */
int kr_trust_read(struct kr_trust *trust, const struct kr_published *published,
                  struct kr_pending_entry **ret) kr_must_check;

/* How the stream stands: what there is to say in a few numbers. Counts go on over resets; skill and
 * cover are of the scores since the last one, over all steps of all horizons: each is measured from
 * the last close, so the longer ones weigh more. */
struct kr_standing {
    enum kr_trust_status status;
    uint64_t n;                    /* outcomes learned at the horizon that has fewest */
    uint64_t n_scored, n_unscored; /* steps */
    uint64_t n_waiting;            /* forecasts */
    uint64_t n_tally;              /* steps that skill and cover are of; 0: they say nothing */
    double skill, skill_cal;       /* against the random walk; 0 before the first score */
    double cover_cal; /* share of outcomes between the outermost calibrated quantiles, above the
                         lower and up to the upper one; 0 before the first */
};
struct kr_standing kr_trust_standing(const struct kr_trust *trust);

/* Calibration, tallies and walk as one record; the forecasts that wait have their own (pending.h).
 * Restore this first and only if it is accepted the forecasts, then their state: it says whose
 * they are. The size is exact. Return: 0, -ENOBUFS. */
size_t kr_trust_record_bytes(const struct kr_trust *trust);
int kr_trust_pack(const struct kr_trust *trust, void *bytes, size_t size,
                  size_t *ret) kr_must_check;
/* Return: 0; as kr_calibrator_unpack(): unchanged. */
int kr_trust_unpack(struct kr_trust *trust, const void *bytes, size_t size) kr_must_check;

#endif
