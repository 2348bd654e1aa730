/* SPDX-License-Identifier: MIT */
/* Published forecasts of one stream that wait for their bars.
 *
 * A ring of fixed size, oldest first. Each entry keeps what scoring needs: the sorted log-returns
 * of every step, when they are due, the last close and sigma they are measured from, and the
 * calibrated reading published with them. A step is due at the bar with exactly its open time.
 *  - A step is scored once, by the content with which that bar was first accepted. A later revision
 *    scores nothing again.
 *  - Bars may come late: a step waits until its forecast closes. That is when all steps are scored,
 *    when KR_PENDING_GRACE newer bars have come since the last step was due, or when the ring needs
 *    the place (counted as crowded). Steps that wait even then are unscored.
 *  - A forecast behind the same bar as the newest one (the bar was revised, or one before it came
 *    late) takes that one's place; the earlier is counted as replaced.
 * All memory is taken by kr_pending_init(). One thread at a time. */
#ifndef KR_PENDING_H
#define KR_PENDING_H

#include "core/calibrate.h"

#define KR_PENDING_GRACE 8

struct kr_pending_size {
    size_t max_steps, max_paths, n_levels;
    size_t capacity; /* forecasts kept; 0: max_steps + KR_PENDING_GRACE + 1, enough for one a bar */
};

struct kr_pending_entry {
    int64_t as_of_ns, as_of_row; /* last bar used */
    uint64_t key;                /* kr_draw_key(): for the V of the PIT */
    double last_close, sigma;    /* sigma of one bar, of the random walk at as_of */
    size_t n_steps, n_paths;
    size_t n_waiting; /* steps not scored */
    unsigned n_since; /* newer bars since the last step was due */
    bool stratified;
    enum kr_trust_status status; /* published with it */
    int64_t *due_ns;             /* [n_steps], rising */
    bool *scored;                /* [n_steps] */
    struct kr_map *map;          /* [n_steps] */
    double *q;                   /* [n_steps][n_levels] calibrated quantiles of the log-return */
    float *returns;              /* [n_steps][n_paths], each step sorted */
};

/* Only ever growing. In steps but for the forecasts. */
struct kr_pending_counts {
    uint64_t forecasts, replaced, crowded; /* forecasts */
    uint64_t scored, unscored;             /* final */
    uint64_t late;                         /* scored, of which by a bar out of order */
};

struct kr_pending {
    struct kr_pending_size size;
    size_t first, n; /* of the ring */
    struct kr_pending_entry *entries;
    struct kr_pending_counts counts;
};

/* The ring's capacity, the default resolved. 0 if it does not fit. */
size_t kr_pending_capacity(const struct kr_pending_size *size);
/* Bytes that kr_pending_init() takes; 0 if they do not fit a size_t. */
size_t kr_pending_size_bytes(const struct kr_pending_size *size);
/* Return: 0, -EINVAL (a zero size), -ENOMEM; written only on success. */
int kr_pending_init(struct kr_pending *pending, const struct kr_pending_size *size,
                    struct kr_error *error) kr_must_check;
void kr_pending_free(struct kr_pending *pending);
/* Drop all forecasts: waiting steps become unscored. Counts go on. */
void kr_pending_clear(struct kr_pending *pending);

/* i-th oldest, i < pending->n. */
struct kr_pending_entry *kr_pending_at(const struct kr_pending *pending, size_t i);

/* What is published behind a bar. */
struct kr_published {
    int64_t as_of_ns, as_of_row;
    uint64_t key;
    double last_close, sigma;
    bool stratified;
    size_t n_steps, n_paths;
    const int64_t *due_ns; /* [n_steps] */
    const float *paths;    /* [n_paths][n_steps][KR_COLUMNS], finite */
};

/* Remember a forecast. map, q and status are for the caller to fill. A close equal to the last one
 * in f32 is a log-return of exactly 0, the tie that a market at rest needs; one below
 * KR_PRICE_FLOOR of the last close counts as that. scratch [n_paths]. Return: 0; -EINVAL (zero or
 * too large sizes, last_close not above 0, due times not rising behind as_of), -ERANGE (as_of
 * before that of the newest forecast): unchanged. */
int kr_pending_add(struct kr_pending *pending, const struct kr_published *published,
                   double *scratch, struct kr_pending_entry **ret) kr_must_check;

/* Steps that wait for the bar that opens at t_ns, oldest forecast first; at most one a forecast.
 * ret [capacity]. Return: how many. */
struct kr_due {
    struct kr_pending_entry *entry;
    size_t step;
};
size_t kr_pending_due(const struct kr_pending *pending, int64_t t_ns, struct kr_due *ret);
/* One of them has been scored; late: by a bar older than the newest. */
void kr_pending_scored(struct kr_pending *pending, const struct kr_due *due, bool late);
/* A forecast has had its step at t_ns scored. */
bool kr_pending_has_scored(const struct kr_pending *pending, int64_t t_ns);
/* Once per bar newer than all others, after its steps have been scored: close what is over. */
void kr_pending_advance(struct kr_pending *pending, int64_t t_ns);

/* One step's members in double. ret [n_paths]. */
void kr_pending_members(const struct kr_pending_entry *entry, size_t step, double *ret);

/* Records: each forecast as it was published, which never changes afterwards; and what does change,
 * small: the counts and which steps of which forecasts are scored. Sizes are exact. Return: 0,
 * -ENOBUFS. */
size_t kr_pending_entry_record_bytes(const struct kr_pending *pending,
                                     const struct kr_pending_entry *entry);
int kr_pending_pack_entry(const struct kr_pending *pending, const struct kr_pending_entry *entry,
                          void *bytes, size_t size, size_t *ret) kr_must_check;
size_t kr_pending_state_record_bytes(const struct kr_pending *pending);
int kr_pending_pack_state(const struct kr_pending *pending, void *bytes, size_t size,
                          size_t *ret) kr_must_check;
/* Back: first every forecast, in rising as_of, into an initialised or cleared ring, all steps
 * waiting; then the state, which drops forecasts that it does not name (they had been closed and
 * counted), and counts the waiting steps of those that it names but are not there as unscored.
 * Return: 0; -EBADMSG (damaged), -EPROTO (another version), -ESTALE (sound, but larger than this
 * ring's sizes, or of other levels' number), -ERANGE (as kr_pending_add()): unchanged. */
int kr_pending_unpack_entry(struct kr_pending *pending, const void *bytes,
                            size_t size) kr_must_check;
int kr_pending_unpack_state(struct kr_pending *pending, const void *bytes,
                            size_t size) kr_must_check;

#endif
