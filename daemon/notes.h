/* SPDX-License-Identifier: MIT */
/* What happens to bars and streams, by kind and reason: the `event` messages, their counters, the log lines.
 *
 * Every event is counted. Publishing them is limited by token buckets, one for each stream and one for all, so
 * that a flood from one feed neither drowns subscribers nor hides the others; what is held back is counted
 * (`events_dropped`) and shows in the next event's `count`. Main thread only. */
#ifndef KD_NOTES_H
#define KD_NOTES_H

#include "clients/wire.h"
#include "daemon/publish.h"

enum kd_note {
    KD_NOTE_GAP_HELD,
    KD_NOTE_GAP_FILLED,
    KD_NOTE_GAP_REANCHORED,
    KD_NOTE_GAP_LOST, /* messages missing by the feed's own numbers */
    KD_NOTE_DUPLICATE_SAME,
    KD_NOTE_DUPLICATE_OLDER_REV,
    KD_NOTE_DUPLICATE_SYNTHETIC,
    KD_NOTE_LATE,
    KD_NOTE_REVISED_HIGHER_REV,
    KD_NOTE_REVISED_BY_ARRIVAL,
    KD_NOTE_REVISED_WAS_SYNTHETIC,
    KD_NOTE_REANCHORED_GAP,
    KD_NOTE_REANCHORED_REVISION,
    KD_NOTE_REANCHORED_DRIFT,
    KD_NOTE_RESUMED,
    KD_NOTE_STALE,
    KD_NOTE_FEED_RESTARTED,
    KD_NOTE_REFUSED_NOT_ALLOWED,
    KD_NOTE_REFUSED_TOO_MANY_SYMBOLS,
    KD_NOTE_REFUSED_FAULTED,
    KD_NOTE_QUARANTINED, /* + enum kw_reason: one for each */
    KD_NOTES = KD_NOTE_QUARANTINED + KW_REASONS
};

/* "gap", "held" and so on. */
const char *kd_note_kind(enum kd_note note);
const char *kd_note_reason(enum kd_note note);

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
