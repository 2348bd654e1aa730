/* SPDX-License-Identifier: MIT */
/* One market stream: a symbol at an interval.
 *
 * The main thread keeps its order (ledger), state, counters and topics; the worker that owns its lane keeps
 * its window. Nothing here is touched by both, but for what the lane's queue hands over, and the two flags of
 * the window's keep. */
#ifndef KD_STREAM_H
#define KD_STREAM_H

#include "daemon/ledger.h"
#include "daemon/notes.h"
#include "daemon/window.h"
#include "daemon/worker.h"

enum kd_state {
    KD_EMPTY,   /* no bar */
    KD_WARMING, /* fewer than min_bars */
    KD_LIVE,
    KD_STALE,       /* no accepted bar arrived for three intervals of session time */
    KD_REANCHORING, /* a new epoch out of turn is under way */
    KD_FAULTED,     /* computes no more until reset */
    KD_STATES
};
extern const char *const kd_state_names[KD_STATES];

enum kd_signal {
    KD_SIGNAL_BAR,      /* a bar was accepted, not min_bars yet */
    KD_SIGNAL_READY,    /* a bar was accepted and min_bars are there */
    KD_SIGNAL_SILENCE,  /* see KD_STALE */
    KD_SIGNAL_REANCHOR, /* a bar was accepted that wants a new epoch */
    KD_SIGNAL_SETTLED,  /* the new epoch is there */
    KD_SIGNAL_FAULT,
    KD_SIGNAL_RESET,
    KD_SIGNALS
};

/* The one place where states change. */
enum kd_state kd_state_next(enum kd_state state, enum kd_signal signal);

struct kd_stream {
    char symbol[KR_SYMBOL_MAX + 1];
    struct kr_interval interval;
    size_t index; /* in order of admission */
    struct kd_stream *next_in_slot;

    /* main thread */
    struct kd_settings settings;
    struct kr_live_config live; /* settled: what the window is made for */
    struct kd_ledger ledger;
    enum kd_state state;
    size_t n_settling; /* jobs under way that end REANCHORING */
    struct kd_tally tally;
    struct kd_topic *forecast_topic, *paths_topic, *score_topic;
    uint64_t n_received, n_accepted, n_rejected, n_duplicates, n_forming, n_filled, n_loaded,
        n_missing;
    uint64_t n_forecasts, n_skipped, n_resets;
    int64_t arrived_ns; /* monotonic, of the last accepted bar; 0: none */
    bool has_feed;      /* the publisher numbers its messages */
    uint64_t feed_ep, feed_seq;
    uint64_t n_unread; /* messages refused since then: their numbers are unknown */
    bool asked;        /* a forecast job is under way */
    bool has_forecast; /* since the start or reset; the rest describes the last one */
    enum kr_mode mode;
    uint64_t epoch;
    int64_t as_of_ns;
    bool has_standing; /* of its calibration, as of the last result; since the start or reset */
    struct kr_standing standing;
    char fault[160];

    /* the pool's */
    struct kd_lane lane;

    /* the worker's that owns the lane */
    struct kd_window window;
};

/* `settings` is moved into the stream. Return: 0, or a negative errno (nothing taken, *ret untouched). */
int kd_stream_new(const char *symbol, const struct kr_interval *interval,
                  struct kd_settings *settings, const struct kr_live_config *live, size_t bars,
                  struct kd_stream **ret) kr_must_check;
void kd_stream_free(struct kd_stream **stream);

/* Send the state a signal. Return: true if the state is another one now. */
bool kd_stream_signal(struct kd_stream *stream, enum kd_signal signal);

/* Has it been silent for three intervals of session time? `wall_ns` belongs to `now_ns`. */
bool kd_stream_silent(const struct kd_stream *stream, int64_t now_ns, int64_t wall_ns);

/* Is a forecast due behind the last bar: the n-th of the stream by its row number ([feed] every)? */
bool kd_stream_due(const struct kd_stream *stream);

#endif
