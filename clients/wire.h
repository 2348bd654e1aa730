/* SPDX-License-Identifier: MIT */
/* The wire, version 1 (kronosd-wire(7)): one codec for the daemon and its clients.
 *
 * Two frames: a topic `kind|interval|symbol|` and one MessagePack map. Encoders append to a
 * caller's msgpack_sbuffer and depend on nothing but their arguments. Decoding trusts nothing:
 * kw_check() walks a message with a bounded cursor (depth, counts against the bytes that remain,
 * duplicate keys, exact consumption) before msgpack-c may unpack it, since msgpack-c allocates from
 * declared counts.
 *
 * Encoders return 0, or -ENOMEM and leave `out` as long as it was; a buffer that once held such a
 * message takes no more memory. A number that is not finite is sent as nil. Thread-safe. */
#ifndef KW_WIRE_H
#define KW_WIRE_H

#include "core/bar.h"
#include "core/filter.h"
#include "core/summary.h"
#include "core/trust.h"

#include <msgpack.h>

#define KW_VERSION   1
#define KW_TOPIC_MAX 64
#define KW_MAX_DEPTH 4
/* Times beyond 2^62 ns on either side of 1970 (1823 .. 2116) are refused: a time and a century-long
 * interval can be added without a thought. */
#define KW_TIME_MAX (INT64_C(1) << 62)

/* "forecast|5m|BTCUSDT|" into ret; empty interval and symbol: "status|||". All three are valid
 * (asserted).
 * Return: its length. */
size_t kw_topic(char ret[KW_TOPIC_MAX + 1], const char *kind, const char *interval,
                const char *symbol);

/* Is this exactly one well-formed MessagePack value of at most `max_depth` levels (a scalar is
 * none, an empty map one)? Maps with two equal strings as keys or over 256 keys are refused.
 * Return: 0, -EBADMSG. Never allocates; stack 4 KiB a level. */
int kw_check(const void *data, size_t n_bytes, size_t max_depth) kr_must_check;

/* Why a bar was quarantined (rules, "Quarantine reasons"); each a counter. */
enum kw_reason {
    KW_ACCEPTED,
    KW_NOT_A_MAP,
    KW_BAD_TYPE,
    KW_MISSING_KEY,
    KW_NOT_FINITE,
    KW_PRICE_NOT_POSITIVE,
    KW_HIGH_LOW,
    KW_OFF_GRID,
    KW_FUTURE,
    KW_BAD_SYMBOL,
    KW_BAD_INTERVAL,
    KW_TOO_LARGE,
    /* not of the message but of the stream or the configuration; counted among `rejected` too */
    KW_NOT_ALLOWED,
    KW_TOO_MANY_SYMBOLS,
    KW_TOO_OLD,
    KW_REASONS
};
extern const char *const kw_reason_names[KW_REASONS]; /* "accepted", "not_a_map", ... */

/* A `bar` message. */
struct kw_bar {
    char symbol[KR_SYMBOL_MAX + 1];
    struct kr_interval interval;
    struct kr_bar bar; /* t_ns as delivered: open or close; columns filled; no stamp yet */
    bool final;        /* `fin` */
    bool has_seq, has_ep;
    uint64_t seq, ep;
};

/* Decode and validate one bar (kr_bar_check() included); allocates nothing. The first that applies:
 * not_a_map; bad_type (malformed MessagePack, a key twice, bytes behind the map, v not 1, any known
 * key of a wrong type or an integer out of range; nil is a wrong type but for vol and amt);
 * missing_key; bad_symbol; bad_interval; not_finite; price_not_positive; high_low. Numbers beyond
 * the range of f32, in which the model reads them, are not finite, and prices that round to zero
 * there are not positive; vol NaN is not finite, not missing. Unknown keys are ignored, whatever
 * they hold. Size, grid and clock are the caller's. symbol and interval are filled as far as they
 * could be read even when the bar is refused, else empty; the rest of *ret is then undefined.
 * Return: KW_ACCEPTED or the reason. */
enum kw_reason kw_decode_bar(const void *data, size_t n_bytes, struct kw_bar *ret);
/* The part of it that looks at the columns alone, for bars that come otherwise: prices as the rules have
 * them, and as the model will read them. Missing volume (NaN or below 0) and amount are resolved. */
enum kw_reason kw_judge_columns(double v[KR_COLUMNS]);
/* Negative or NaN volume and amount are left out. */
int kw_encode_bar(msgpack_sbuffer *out, const struct kw_bar *bar);

/* Flags of a forecast, in the order of the protocol. */
enum kw_flag {
    KW_FLAT = 1 << 0,
    KW_GAP = 1 << 1,
    KW_LATE = 1 << 2,
    KW_REVISED = 1 << 3,
    KW_SYNTHETIC = 1 << 4,
    KW_CLIPPED = 1 << 5,
    KW_WINDOW_SLID = 1 << 6,
    KW_REPAIRED = 1 << 7,
    KW_JOINED = 1 << 8,
    KW_TAIL = 1 << 9,
    KW_FORMING = 1 << 10,
    KW_RESUMED = 1 << 11,
    KW_STRATIFIED = 1 << 12,
};
#define KW_FLAGS 13
extern const char *const kw_flag_names[KW_FLAGS];

/* Everything a `forecast` says; all pointers borrowed. */
struct kw_forecast {
    const char *symbol, *interval;
    uint64_t ep, seq;
    int64_t as_of_ns, rev;
    int64_t last_t_ns;
    double last_close;
    int64_t pub_ns;
    const char *mode; /* "exact", "anchored", "rolling" */
    uint64_t epoch;
    size_t bars, anchor_n;
    int64_t win_t0_ns;
    const char *model_name, *model_sha256, *isa, *precision;
    struct kr_sampling sampling;
    size_t paths, horizon;
    uint64_t seed;
    bool scale, join, repair;
    const int64_t *t_ns;              /* [horizon] open times */
    const struct kr_summary *summary; /* n_steps = horizon */
    const char *cal_status;           /* "uncalibrated", ... */
    const double *cal_q;              /* [n_levels][horizon] of close; NULL: as sampled */
    uint64_t cal_n;
    unsigned flags; /* kw_flag bits */
    uint64_t queue_us, append_us, decode_us, total_us;
};
int kw_encode_forecast(msgpack_sbuffer *out, const struct kw_forecast *forecast);
/* A `paths` message: the keys of the forecast up to `t`, shape, data [paths][horizon][6] f32. */
int kw_encode_paths(msgpack_sbuffer *out, const struct kw_forecast *forecast, const float *paths);

/* One step of a forecast whose bar has come. */
struct kw_score {
    const char *symbol, *interval;
    uint64_t ep, seq;
    const struct kr_score *score; /* its hits have n_levels */
    const double *levels;         /* [n_levels] */
    size_t n_levels;
};
int kw_encode_score(msgpack_sbuffer *out, const struct kw_score *score);

struct kw_event {
    const char *symbol, *interval; /* "" where none */
    uint64_t ep, seq;
    int64_t t_ns;     /* of the bar concerned */
    const char *kind; /* gap duplicate late revised quarantined reanchored replayed evicted resumed
                         refused stale recalibrated */
    const char *reason;
    uint64_t count; /* of this kind and reason so far */
};
int kw_encode_event(msgpack_sbuffer *out, const struct kw_event *event);

struct kw_count {
    const char *name;
    uint64_t n;
};
struct kw_status {
    uint64_t ep, seq;
    int64_t pub_ns;
    double uptime_s;
    uint64_t received, accepted, duplicates, forming;
    const struct kw_count *rejected; /* [n_rejected]: only those above 0 need be given */
    size_t n_rejected;
    uint64_t forecasts, skipped, epoch_waited, window_slid, events_dropped;
    int64_t lag_us;
    uint64_t backlog;
    const struct kw_count *streams; /* by state */
    size_t n_streams;
    uint64_t rss_bytes;
    const char *version, *model_name, *isa;
    const struct kw_count *trust; /* streams by status of calibration, [n_trust] */
    size_t n_trust;
    uint64_t scored, unscored;    /* steps of forecasts */
    uint64_t recalibrated;        /* calibrations that began anew */
    double skill, skill_cal;      /* mean over streams that have scores; NaN: none has */
    const struct kw_count *state; /* [n_state]: of what is kept on disk; none where nothing is */
    size_t n_state;
};
int kw_encode_status(msgpack_sbuffer *out, const struct kw_status *status);

#endif
