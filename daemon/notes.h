/* SPDX-License-Identifier: MIT */
/* What happens to bars and streams is counted, logged and published as `event` messages.
 *
 * Every event is counted. Publishing them is limited by token buckets, one for each stream and one for all, so
 * that a flood from one feed neither drowns subscribers nor hides the others; what is held back is counted
 * (`events_dropped`) and shows in the next event's `count`. Main thread only. */
#ifndef KD_NOTES_H
#define KD_NOTES_H

#include "daemon/kinds.h"
#include "daemon/publish.h"

/* At most `burst` at once and `rate` a second in the long run. */
struct kd_bucket {
    double tokens;
    int64_t filled_ns; /* 0: not used yet, full */
};
bool kd_bucket_take(struct kd_bucket *bucket, double burst, double rate, int64_t now_ns);

/* The counters of one stream, or of what belongs to none. */
struct kd_tally {
    uint64_t counts[KD_NOTES];
    struct kd_bucket bucket;
    struct kd_topic *topic; /* event|iv|sym|; NULL until the first event */
};

struct kd_notes {
    struct kd_publish *publish;
    uint64_t ep;
    struct kd_bucket bucket;
    struct kd_tally strangers;         /* events of streams that were not admitted */
    size_t max_strangers, n_strangers; /* topics made for them; then they share event||| */
    uint64_t n_published, n_dropped;
};

/* Count the event and publish it if the buckets allow. `tally`: the stream's, or NULL for a stranger; symbol
 * and interval may be "". `n` is how many it stands for. */
void kd_note(struct kd_notes *notes, struct kd_tally *tally, const char *interval,
             const char *symbol, enum kd_note note, int64_t t_ns, uint64_t n);

#endif
