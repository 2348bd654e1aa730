/* SPDX-License-Identifier: MIT */
/* Order of one stream's bars (rules, "Time and order"): what a bar is to those that came before it.
 *
 * Pure: time is an argument, nothing is published or counted here. The ledger owns the stream's bars;
 * `history`, `symbols` and later private forecasts read them. Decisions the rules leave open:
 * - The first bar defines the grid; it opens on a whole minute (second intervals: on a whole second). A
 *   later bar is on the grid if it lies a whole number of intervals from a bar that is held (days and
 *   weeks: local days, same local time), or if the calendar's sessions lead from one to the other.
 * - Under `stamp = close` a bar that a session cut short opens at the slot that its close lies in.
 * - A bar of a time that is held: a higher rev, or the same rev with other content, is a revision; a lower
 *   rev, or the same rev and content, is a duplicate. A real bar replaces a synthetic one whatever its
 *   rev; a synthetic one replaces a real one only by a higher rev.
 * - A bar opens in the future if it opens after now.
 * - A bar older than all that are kept is late while there is room, too_old when there is none. */
#ifndef KD_LEDGER_H
#define KD_LEDGER_H

#include "core/calendar.h"
#include "core/series.h"
#include "daemon/config.h"
#include "daemon/kinds.h"

/* Gaps and grids are walked this far; a longer gap counts as this many bars. */
#define KD_MAX_MISSING 10000
struct kd_ledger_config {
    struct kr_interval interval;
    const struct kr_calendar *calendar; /* borrowed */
    enum kr_stamp_kind stamp;           /* what the feed's `t` marks */
    enum kd_gap gap;
    size_t max_fill; /* KD_GAP_FILL: longer gaps reanchor */
};

struct kd_ledger {
    struct kd_ledger_config config;
    struct kr_series series;
    struct kr_bar *fill; /* [max_fill] synthetic bars of the last verdict */
};

enum kd_outcome {
    KD_NEXT,         /* accepted, later than all others */
    KD_REANCHOR,     /* accepted, later than all others, behind a gap that wants a new epoch */
    KD_REVISED_LAST, /* accepted, replaces the last bar */
    KD_REVISED_DEEP, /* accepted, replaces an older bar */
    KD_LATE,         /* accepted, older than the last and never seen */
    KD_DUPLICATE,    /* known already; nothing changed */
    KD_REJECTED,     /* see reason; nothing changed */
};

struct kd_verdict {
    enum kd_outcome outcome;
    enum kw_reason reason; /* of KD_REJECTED; else KW_ACCEPTED */
    enum kd_note note;     /* of a duplicate, revision, late bar or gap; else KD_NOTE_NONE */
    size_t n_missing;      /* NEXT, REANCHOR: bars the calendar expected before this one */
    size_t n_filled;       /* of them put into the series, in ledger->fill until the next offer */
    struct kr_bar bar;     /* as stored: open time and calendar of the stamp */
};

/* `capacity`: bars kept. Return: 0, -EINVAL (no room), -ENOMEM. After an error it may be freed. */
int kd_ledger_init(struct kd_ledger *ledger, const struct kd_ledger_config *config,
                   size_t capacity) kr_must_check;
void kd_ledger_free(struct kd_ledger *ledger);
/* Other policy for what follows; interval stays. Return: 0, -ENOMEM (unchanged). */
int kd_ledger_configure(struct kd_ledger *ledger,
                        const struct kd_ledger_config *config) kr_must_check;

/* Classify a bar whose t_ns is as delivered, and store it if it is accepted. `now_ns`: the wall clock, or
 * INT64_MAX where bars keep the time. `history`: loaded rather than fed; gaps are held whatever the
 * policy. */
void kd_ledger_offer(struct kd_ledger *ledger, const struct kr_bar *delivered, int64_t now_ns,
                     bool history, struct kd_verdict *ret);

/* Where a bar would stand: sets its open time and its calendar from t_ns as delivered, for forming bars.
 * Return: KW_ACCEPTED, KW_OFF_GRID, KW_FUTURE. */
enum kw_reason kd_ledger_place(const struct kd_ledger *ledger, struct kr_bar *bar, int64_t now_ns);

#endif
