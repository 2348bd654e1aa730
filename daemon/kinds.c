/* SPDX-License-Identifier: MIT */
#include "daemon/kinds.h"

static const struct {
    const char *kind, *reason;
    enum kd_message message;
} table[KD_NOTE_QUARANTINED] = {
    [KD_NOTE_NONE] = {"", "", KD_MSG_DEBUG},
    [KD_NOTE_GAP_HELD] = {"gap", "held", KD_MSG_GAP},
    [KD_NOTE_GAP_FILLED] = {"gap", "filled", KD_MSG_GAP},
    [KD_NOTE_GAP_REANCHORED] = {"gap", "reanchored", KD_MSG_GAP},
    [KD_NOTE_GAP_LOST] = {"gap", "lost", KD_MSG_GAP},
    [KD_NOTE_DUPLICATE_SAME] = {"duplicate", "same", KD_MSG_DEBUG},
    [KD_NOTE_DUPLICATE_OLDER_REV] = {"duplicate", "older_rev", KD_MSG_DEBUG},
    [KD_NOTE_DUPLICATE_SYNTHETIC] = {"duplicate", "synthetic", KD_MSG_DEBUG},
    [KD_NOTE_LATE] = {"late", "late", KD_MSG_LATE},
    [KD_NOTE_REVISED_HIGHER_REV] = {"revised", "higher_rev", KD_MSG_REVISED},
    [KD_NOTE_REVISED_BY_ARRIVAL] = {"revised", "by_arrival", KD_MSG_REVISED},
    [KD_NOTE_REVISED_WAS_SYNTHETIC] = {"revised", "was_synthetic", KD_MSG_REVISED},
    [KD_NOTE_REANCHORED_GAP] = {"reanchored", "gap", KD_MSG_REANCHORED},
    [KD_NOTE_REANCHORED_REVISION] = {"reanchored", "revision", KD_MSG_REANCHORED},
    [KD_NOTE_REANCHORED_DRIFT] = {"reanchored", "drift", KD_MSG_DEBUG},
    [KD_NOTE_RESUMED] = {"resumed", "bar", KD_MSG_RESUMED},
    [KD_NOTE_STALE] = {"stale", "silence", KD_MSG_STALE},
    [KD_NOTE_FEED_RESTARTED] = {"resumed", "feed_restarted", KD_MSG_FEED_RESTARTED},
    [KD_NOTE_REFUSED_NOT_ALLOWED] = {"refused", "not_allowed", KD_MSG_DEBUG},
    [KD_NOTE_REFUSED_TOO_MANY_SYMBOLS] = {"refused", "too_many_symbols", KD_MSG_DEBUG},
    [KD_NOTE_REFUSED_FAULTED] = {"refused", "faulted", KD_MSG_DEBUG},
    [KD_NOTE_RECALIBRATED_PARAMETERS] = {"recalibrated", "parameters", KD_MSG_NOTE},
    [KD_NOTE_RECALIBRATED_DAMAGED] = {"recalibrated", "damaged", KD_MSG_NOTE},
    [KD_NOTE_STATE_FAILED] = {"state", "failed", KD_MSG_DEBUG},
    [KD_NOTE_STATE_UNREAD] = {"state", "unread", KD_MSG_NOTE},
    [KD_NOTE_STATE_WRITTEN] = {"state", "written", KD_MSG_DEBUG},
};

const char *kd_note_kind(enum kd_note note)
{
    return note >= KD_NOTE_QUARANTINED ? "quarantined" : table[note].kind;
}

const char *kd_note_reason(enum kd_note note)
{
    return note >= KD_NOTE_QUARANTINED ? kw_reason_names[note - KD_NOTE_QUARANTINED]
                                       : table[note].reason;
}

enum kd_message kd_note_message(enum kd_note note)
{
    return note >= KD_NOTE_QUARANTINED ? KD_MSG_QUARANTINED : table[note].message;
}
