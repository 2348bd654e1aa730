/* SPDX-License-Identifier: MIT */
/* One stream's calibration on its way to the store and back.
 *
 * Belongs to the worker that owns the stream's lane, like the trust that it keeps. At the end of a
 * turn that changed the trust the worker submits what is new: the forecasts remembered since the
 * last time (which never change afterwards), and the small records that do. A submission that finds
 * no room in the store's queue, or whose group could not be committed, leaves `waits` or `lost`
 * set; the main thread looks at them now and then and sends the lane a job to try again.
 *
 * Nothing is allocated here. */
#ifndef KD_KEEP_H
#define KD_KEEP_H

#include "core/trust.h"
#include "daemon/store.h"

struct kd_keep {
    struct kd_store *store; /* NULL: nothing is kept */
    unsigned char key[KD_STORE_MAX_KEY];
    size_t key_bytes;
    bool looked;          /* what was there has been restored, or was not wanted */
    bool forget;          /* everything that is there is to be deleted first */
    bool changed;         /* since the last submission */
    uint64_t n_forecasts; /* of pending.counts.forecasts, submitted so far */
    atomic_bool waits;    /* changed, and not submitted: any thread may look */
    atomic_bool lost;     /* submitted, and not committed; set by the store's thread */
};

/* store NULL: nothing is kept. */
void kd_keep_init(struct kd_keep *keep, struct kd_store *store, const char *interval,
                  const char *symbol);

enum kd_kept {
    KD_KEPT_NOTHING,  /* there was none: a new stream */
    KD_KEPT_RESTORED, /* the trust continues where it was */
    KD_KEPT_STALE,    /* of another model, other parameters or another version: begins anew */
    KD_KEPT_DAMAGED,  /* unreadable: begins anew */
};

struct kd_restored {
    enum kd_kept what;
    size_t n_forecasts; /* that wait again for their bars */
    size_t n_unread;    /* records of this stream that were damaged; also of a restored one, whose
                           waiting steps are then counted as unscored */
};

/* Into a trust as kr_trust_init() left it; the first time only. */
void kd_keep_restore(struct kd_keep *keep, struct kr_trust *trust, struct kd_restored *ret);

/* The stream was reset: what is there goes, and what comes begins anew. */
void kd_keep_forget(struct kd_keep *keep);
/* The trust has changed. */
void kd_keep_changed(struct kd_keep *keep);
/* Is there anything to submit? */
bool kd_keep_wants(const struct kd_keep *keep);
/* Submit what has changed, if anything has; trust NULL: there is none. Waits for room until end_ns (monotonic), 0: not at all.
 * Return: false if there was no room: `waits` is set. */
bool kd_keep_save(struct kd_keep *keep, const struct kr_trust *trust, int64_t end_ns);

/* Sizes that a configuration leads to. */
struct kd_keep_plan {
    size_t trust_bytes, entry_bytes, state_bytes; /* largest records of a stream */
    size_t queue_bytes, map_bytes;                /* see struct kd_store_config */
};
/* n_symbols streams of at most `size`. The queue holds all of any one stream, and a turn of each
 * while that is not above 8 MiB. The map has room for twice the streams, of earlier runs and this
 * one's, twice over for pages on their way from one commit to the next. Return: false on overflow.
 */
bool kd_keep_plan(const struct kr_pending_size *size, size_t n_symbols, struct kd_keep_plan *ret);

#endif
