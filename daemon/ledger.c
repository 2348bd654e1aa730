/* SPDX-License-Identifier: MIT */
#include "daemon/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WALK_CHUNK 64

int kd_ledger_init(struct kd_ledger *ledger, const struct kd_ledger_config *config, size_t capacity)
{
    *ledger = (struct kd_ledger){.config = *config};
    ledger->fill = kr_alloc(config->max_fill, sizeof(*ledger->fill));
    if (!ledger->fill)
        return -ENOMEM;
    return kr_series_init(&ledger->series, capacity);
}

void kd_ledger_free(struct kd_ledger *ledger)
{
    if (!ledger)
        return;
    kr_series_free(&ledger->series);
    kr_freep(&ledger->fill);
}

int kd_ledger_configure(struct kd_ledger *ledger, const struct kd_ledger_config *config)
{
    struct kr_bar *fill = kr_alloc(config->max_fill, sizeof(*fill));

    if (!fill)
        return -ENOMEM;
    free(ledger->fill);
    ledger->fill = fill;
    ledger->config = *config;
    return 0;
}

/* The calendar's slots after `from`, up to and including the first at or after `to`. Return: 0 with that
 * slot and the one before it (`from` if there is none), -ERANGE if the walk is too long. */
static int walk(const struct kd_ledger_config *config, int64_t from, int64_t to,
                int64_t *ret_before, int64_t *ret_reached)
{
    int64_t slots[WALK_CHUNK], before = from;

    for (size_t n = 0; n < KD_MAX_MISSING; n += WALK_CHUNK) {
        if (kr_calendar_next(config->calendar, &config->interval, before, WALK_CHUNK, slots))
            return -ERANGE;
        for (size_t i = 0; i < WALK_CHUNK; i++) {
            if (slots[i] >= to) {
                *ret_before = before;
                *ret_reached = slots[i];
                return 0;
            }
            before = slots[i];
        }
    }
    return -ERANGE;
}

/* A whole number of intervals between two times, the calendar apart. */
static bool in_phase(const struct kd_ledger_config *config, int64_t a, int64_t b)
{
    const struct kr_zone *zone = kr_calendar_zone(config->calendar);

    if ((b - a) % config->interval.ns == 0)
        return true;
    if (!kr_interval_days(&config->interval) || (b - a) % KR_NS_PER_S)
        return false;
    return (kr_zone_local(zone, b) - kr_zone_local(zone, a)) %
               (config->interval.ns / KR_NS_PER_S) ==
           0;
}

/* Is this open time on the stream's grid? With `close_ns` (INT64_MIN: none) a bar that closes with its session,
 * too early for its interval, is moved to the slot that its close lies in. */
static bool on_grid(const struct kd_ledger *ledger, int64_t *t_ns, int64_t close_ns)
{
    const struct kd_ledger_config *config = &ledger->config;
    const struct kr_series *series = &ledger->series;
    const struct kr_bar *last = kr_series_last(series);
    int64_t slot, reached, before;
    size_t later;

    if (!last) {
        int64_t step = config->interval.ns < 60 * KR_NS_PER_S ? KR_NS_PER_S : 60 * KR_NS_PER_S;

        return *t_ns % step == 0;
    }
    if (in_phase(config, last->t_ns, *t_ns))
        return true;
    later = kr_series_lower_bound(series, *t_ns);
    if (!later) /* older than all: the first bar must follow from it */
        return !walk(config, *t_ns, series->bars[0].t_ns, &slot, &reached) &&
               reached == series->bars[0].t_ns;
    before = series->bars[later - 1].t_ns;
    if (!walk(config, before, *t_ns, &slot, &reached) && reached == *t_ns)
        return true;
    if (close_ns == INT64_MIN || kr_calendar_open(config->calendar, close_ns) ||
        !kr_calendar_open(config->calendar, close_ns - 1) ||
        walk(config, before, close_ns, &slot, &reached))
        return false;
    if (slot >= close_ns || close_ns - slot >= config->interval.ns)
        return false;
    *t_ns = slot;
    return true;
}

enum kw_reason kd_ledger_place(const struct kd_ledger *ledger, struct kr_bar *bar, int64_t now_ns)
{
    const struct kd_ledger_config *config = &ledger->config;
    int64_t delivered = bar->t_ns, t_ns = delivered;

    if (delivered > KW_TIME_MAX || delivered < -KW_TIME_MAX)
        return delivered > 0 && now_ns != INT64_MAX ? KW_FUTURE : KW_OFF_GRID;
    if (config->stamp == KR_STAMP_CLOSE &&
        kr_interval_shift(kr_calendar_zone(config->calendar), &config->interval, delivered, -1,
                          &t_ns))
        return KW_OFF_GRID;
    if (t_ns > now_ns)
        return KW_FUTURE;
    if (!on_grid(ledger, &t_ns, config->stamp == KR_STAMP_CLOSE ? delivered : INT64_MIN))
        return KW_OFF_GRID;
    bar->t_ns = t_ns;
    kr_zone_stamp(kr_calendar_zone(config->calendar), delivered, &bar->stamp);
    return KW_ACCEPTED;
}

static bool same_content(const struct kr_bar *a, const struct kr_bar *b)
{
    for (int c = 0; c < KR_COLUMNS; c++)
        if (a->v[c] != b->v[c])
            return false;
    return a->synthetic == b->synthetic;
}

/* A bar of a time that is held. */
static void offer_again(struct kd_ledger *ledger, const struct kr_bar *held,
                        struct kd_verdict *verdict)
{
    const struct kr_bar *bar = &verdict->bar;

    verdict->outcome = KD_DUPLICATE;
    if (held->synthetic && !bar->synthetic)
        verdict->note = KD_NOTE_REVISED_WAS_SYNTHETIC;
    else if (bar->rev > held->rev)
        verdict->note = KD_NOTE_REVISED_HIGHER_REV;
    else if (bar->rev < held->rev) {
        verdict->note = KD_NOTE_DUPLICATE_OLDER_REV;
        return;
    } else if (same_content(bar, held)) {
        verdict->note = KD_NOTE_DUPLICATE_SAME;
        return;
    } else if (bar->synthetic && !held->synthetic) {
        verdict->note = KD_NOTE_DUPLICATE_SYNTHETIC;
        return;
    } else
        verdict->note = KD_NOTE_REVISED_BY_ARRIVAL;
    verdict->outcome = held == kr_series_last(&ledger->series) ? KD_REVISED_LAST : KD_REVISED_DEEP;
    if (kr_series_replace(&ledger->series, bar))
        verdict->outcome = KD_DUPLICATE; /* cannot be: it was found */
}

/* Flat bars without volume between the last bar and the one in hand. */
static size_t fill_gap(struct kd_ledger *ledger, size_t n)
{
    const struct kd_ledger_config *config = &ledger->config;
    struct kr_bar *last = &ledger->series.bars[ledger->series.len - 1];
    double close = last->v[KR_CLOSE];
    int64_t t_ns = last->t_ns;

    for (size_t i = 0; i < n; i++) {
        struct kr_bar *bar = &ledger->fill[i];

        *bar = (struct kr_bar){.v = {close, close, close, close, 0, 0}, .synthetic = true};
        if (kr_calendar_next(config->calendar, &config->interval, t_ns, 1, &bar->t_ns))
            return i;
        t_ns = bar->t_ns;
        if (kr_stamp_of_open(kr_calendar_zone(config->calendar), &config->interval, config->stamp,
                             t_ns, &bar->stamp))
            return i;
        kr_series_push(&ledger->series, bar);
    }
    return n;
}

static void offer_next(struct kd_ledger *ledger, bool history, struct kd_verdict *verdict)
{
    const struct kd_ledger_config *config = &ledger->config;
    const struct kr_bar *last = kr_series_last(&ledger->series);

    verdict->outcome = KD_NEXT;
    if (last)
        verdict->n_missing = kr_calendar_missing(config->calendar, &config->interval, last->t_ns,
                                                 verdict->bar.t_ns, KD_MAX_MISSING);
    if (verdict->n_missing) {
        verdict->note = KD_NOTE_GAP_HELD;
        if (history || config->gap == KD_GAP_HOLD) {
            /* the next bar is the next row */
        } else if (config->gap == KD_GAP_FILL && verdict->n_missing <= config->max_fill) {
            verdict->n_filled = fill_gap(ledger, verdict->n_missing);
            verdict->note = KD_NOTE_GAP_FILLED;
        } else {
            verdict->outcome = KD_REANCHOR;
            verdict->note = KD_NOTE_GAP_REANCHORED;
        }
    }
    kr_series_push(&ledger->series, &verdict->bar);
}

void kd_ledger_offer(struct kd_ledger *ledger, const struct kr_bar *delivered, int64_t now_ns,
                     bool history, struct kd_verdict *ret)
{
    const struct kr_bar *last = kr_series_last(&ledger->series);
    ptrdiff_t found;

    *ret = (struct kd_verdict){.outcome = KD_REJECTED, .bar = *delivered};
    ret->reason = kd_ledger_place(ledger, &ret->bar, now_ns);
    if (ret->reason != KW_ACCEPTED)
        return;
    if (!last || ret->bar.t_ns > last->t_ns) {
        offer_next(ledger, history, ret);
        return;
    }
    found = kr_series_find(&ledger->series, ret->bar.t_ns);
    if (found >= 0) {
        offer_again(ledger, &ledger->series.bars[found], ret);
        return;
    }
    if (kr_series_insert(&ledger->series, &ret->bar)) {
        ret->reason = KW_TOO_OLD;
        return;
    }
    ret->outcome = KD_LATE;
    ret->note = KD_NOTE_LATE;
}
