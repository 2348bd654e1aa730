/* SPDX-License-Identifier: MIT */
/* What can happen to bars and streams: the kinds and reasons of `event` messages. */
#ifndef KD_KINDS_H
#define KD_KINDS_H

#include "clients/wire.h"
#include "daemon/log.h"

enum kd_note {
    KD_NOTE_NONE,
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
    KD_NOTE_RECALIBRATED_PARAMETERS, /* of another model or sampling: learned anew */
    KD_NOTE_RECALIBRATED_DAMAGED,    /* what was kept could not be read: learned anew */
    KD_NOTE_STATE_FAILED,            /* of no stream: changes could not be written */
    KD_NOTE_STATE_WRITTEN,           /* they can again */
    KD_NOTE_STATE_UNREAD,            /* records of a stream that were damaged */
    KD_NOTE_QUARANTINED,             /* + enum kw_reason: one for each */
    KD_NOTES = KD_NOTE_QUARANTINED + KW_REASONS
};

/* "gap", "held" and so on. */
const char *kd_note_kind(enum kd_note note);
const char *kd_note_reason(enum kd_note note);
/* What the operator's log has of it. */
enum kd_message kd_note_message(enum kd_note note);

#endif
