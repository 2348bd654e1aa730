/* SPDX-License-Identifier: MIT */
/* libkronosd-client: what a program needs to follow and to ask a kronosd (wire: kronosd-wire(7)).
 *
 * A subscriber follows any number of topics: it drops what it has had (the daemon sends last values
 * again to whoever joins), and reports holes and restarts. A control connection asks one question
 * at a time. Nothing here starts a thread, installs a signal handler or prints. Every object
 * belongs to one thread at a time; the ZeroMQ context is the caller's (one a process) and must
 * outlive the objects made from it.
 *
 * Functions return 0 or a negative errno, write their outputs only on success, and put one line for
 * a person into a `struct kr_error`, which may be NULL. Everything that comes from the peer is
 * bounded and checked before MessagePack may allocate for it; its text reaches `error` without
 * control characters. */
#ifndef KRONOSD_CLIENT_H
#define KRONOSD_CLIENT_H

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The same structure as in libkronos, whichever header comes first. */
#ifndef KR_ERROR_DEFINED
#define KR_ERROR_DEFINED
struct kr_error {
    char text[512];
};
#endif

#define KRONOSD_MUST_CHECK __attribute__((warn_unused_result))

#define KRONOSD_TOPIC_MAX 64
#define KRONOSD_COLUMNS   6 /* open, high, low, close, volume, amount */

/* ---- Values ---- */

/* Levels of nesting that a client takes: the wire's own four inside a reply, and some to grow. */
#define KRONOSD_DEPTH 8

/* Check (kw_check) and unpack one message. Strings and binaries point into `data`, which must
 * outlive the object; msgpack_unpacked_destroy() frees the rest. *ret must be initialised.
 * Return: 0, -EBADMSG, -ENOMEM. */
int kronosd_unpack(const void *data, size_t n_bytes, msgpack_unpacked *ret) KRONOSD_MUST_CHECK;

/* The value at a key of a map; NULL if `map` is NULL, is no map, or has no such key. So look-ups
 * nest: kronosd_get(kronosd_get(root, "last"), "c"). */
const msgpack_object *kronosd_get(const msgpack_object *map, const char *key);
/* Value at a key as a plain type, or the default if it is absent or of another type. A real takes
 * any number; an integer takes no float. */
double kronosd_get_real(const msgpack_object *map, const char *key, double otherwise);
int64_t kronosd_get_int(const msgpack_object *map, const char *key, int64_t otherwise);
uint64_t kronosd_get_uint(const msgpack_object *map, const char *key, uint64_t otherwise);
bool kronosd_get_bool(const msgpack_object *map, const char *key, bool otherwise);
/* Value at a key as a terminated string fit for a terminal: copied, cut to size - 1 bytes, '?' for
 * control characters. Return: false if it is no string (then "" is written). */
bool kronosd_get_string(const msgpack_object *map, const char *key, char *ret, size_t size);
/* Element `i` of an array as a number; NAN if there is none. NULL is an empty array. */
double kronosd_at_real(const msgpack_object *array, size_t i);
size_t kronosd_length(const msgpack_object *array);

/* ---- Subscriptions ---- */

struct kronosd_subscriber_config {
    const char *const *endpoints; /* [n_endpoints], connected to; at least one */
    size_t n_endpoints;
    const char *const *topics; /* [n_topics] prefixes such as "forecast|5m|"; none: everything */
    size_t n_topics;
    /* Messages of a topic were lost on the way: `expected` .. `got` - 1 of that run. Called inside
     * kronosd_receive(), before the message `got` is returned. May be NULL. */
    void (*on_gap)(void *context, const char *topic, uint64_t ep, uint64_t expected, uint64_t got);
    /* The publisher runs anew: the topic counts from 1 again. Called before on_gap. May be NULL. */
    void (*on_restart)(void *context, const char *topic, uint64_t old_ep, uint64_t new_ep);
    void *context;
    size_t max_message_bytes; /* 0: 64 MiB. More costs the connection, which comes back */
    size_t max_topics; /* topics whose numbers are remembered; 0: 8192. Others come unfiltered */
    int queue;         /* messages that wait in memory before some are lost; 0: 10000 */
};

struct kronosd_counts {
    uint64_t received;   /* messages, of all kinds below and the delivered ones */
    uint64_t duplicates; /* dropped: had them */
    uint64_t malformed;  /* dropped: not two frames, a bad topic, bad MessagePack, no map */
    uint64_t untracked;  /* delivered without a look at their number: too many topics */
    uint64_t gaps;       /* holes */
    uint64_t lost;       /* messages missing in these holes */
    uint64_t restarts;
};

/* All is borrowed from the subscriber and valid until its next kronosd_receive() or close. */
struct kronosd_message {
    const char *topic; /* "forecast|5m|BTCUSDT|" */
    char kind[17];
    char interval[9];
    char symbol[33];
    bool numbered;    /* it has ep and seq */
    uint64_t ep, seq; /* 0 if not */
    const void *data; /* the MessagePack map as it came */
    size_t n_bytes;
    const msgpack_object *root; /* always a map */
};

struct kronosd_subscriber;

/* Connect; that is lazy: an endpoint without a listener is tried again for ever.
 * Return: 0, -EINVAL (an endpoint or a topic that cannot be), -ENOMEM, or what ZeroMQ says. */
int kronosd_subscriber_open(void *zmq_context, const struct kronosd_subscriber_config *config,
                            struct kronosd_subscriber **ret,
                            struct kr_error *error) KRONOSD_MUST_CHECK;
void kronosd_subscriber_close(struct kronosd_subscriber **subscriber);

/* One more prefix, or one less. Return: 0, -EINVAL (longer than KRONOSD_TOPIC_MAX). */
int kronosd_subscribe(struct kronosd_subscriber *subscriber, const char *prefix,
                      struct kr_error *error) KRONOSD_MUST_CHECK;
int kronosd_unsubscribe(struct kronosd_subscriber *subscriber, const char *prefix,
                        struct kr_error *error) KRONOSD_MUST_CHECK;

/* Wait for the next new message, at most timeout_ms (0: look only, -1: for ever).
 * Return: 0, -ETIMEDOUT, -EINTR (a signal came: nothing is lost), -ENOMEM, or ZeroMQ's ETERM. */
int kronosd_receive(struct kronosd_subscriber *subscriber, int timeout_ms,
                    struct kronosd_message *ret, struct kr_error *error) KRONOSD_MUST_CHECK;

const struct kronosd_counts *kronosd_subscriber_counts(const struct kronosd_subscriber *subscriber);
/* The SUB socket, to be polled together with others. Drain it with timeout 0 until -ETIMEDOUT, and
 * do so each few seconds though it be silent: lost connections are looked after in there. */
void *kronosd_subscriber_socket(const struct kronosd_subscriber *subscriber);

/* ---- Control ---- */

struct kronosd_control;

/* Connect (lazily). Return: 0, -EINVAL, -ENOMEM, or what ZeroMQ says. */
int kronosd_control_open(void *zmq_context, const char *endpoint, struct kronosd_control **ret,
                         struct kr_error *error) KRONOSD_MUST_CHECK;
void kronosd_control_close(struct kronosd_control **control);

/* Begin a request: a map of `op`, `id` and `n_more` further pairs, which the caller packs through
 * the returned packer (a failure is remembered, no need to check each). Earlier replies are
 * gone. */
msgpack_packer *kronosd_request_begin(struct kronosd_control *control, const char *op,
                                      size_t n_more);

/* A key with a string, an integer, a real; for the pairs above. */
void kronosd_pack_string(msgpack_packer *packer, const char *key, const char *value);
void kronosd_pack_int(msgpack_packer *packer, const char *key, int64_t value);
void kronosd_pack_real(msgpack_packer *packer, const char *key, double value);

/* Send it and wait for its reply. *ret, a map with `ok` true, is borrowed until the next request or
 * close. Replies to requests that were given up are skipped.
 * Return: 0; -EHOSTUNREACH (no listener within min(timeout_ms, 3 s)); -ETIMEDOUT (connected, no
 * reply); -EREMOTEIO (the daemon refused: see kronosd_control_code()); -EBADMSG (a reply that is
 * none); -EINVAL (the request is not what was begun); -EINTR; -ENOMEM. Another request may follow
 * after any of them. */
int kronosd_request(struct kronosd_control *control, int timeout_ms, const msgpack_object **ret,
                    struct kr_error *error) KRONOSD_MUST_CHECK;

/* `error.code` of the last reply after -EREMOTEIO, else "". */
const char *kronosd_control_code(const struct kronosd_control *control);

/* One stream as `symbols` lists it. */
struct kronosd_symbol {
    char symbol[33];
    char interval[9];
    char state[17];
    char mode[17];
    char cal[17];
    bool has_last;
    int64_t last_t_ns, last_rev;
    double last_close;
    int64_t row;
    uint64_t epoch;
};

/* `symbols`, page after page: an array for free(); 0 streams give NULL. Errors as
 * kronosd_request(). */
int kronosd_symbols(struct kronosd_control *control, int timeout_ms, struct kronosd_symbol **ret,
                    size_t *ret_n, struct kr_error *error) KRONOSD_MUST_CHECK;

/* Bars of one stream, oldest first. */
struct kronosd_bars {
    size_t n;
    int64_t *t_ns;                /* [n] open times, rising */
    double (*v)[KRONOSD_COLUMNS]; /* [n][6] */
};
void kronosd_bars_free(struct kronosd_bars *bars);

/* No `from`: the last bars. */
#define KRONOSD_LAST INT64_MIN
/* Bars that one `load` or one page of `history` carries at most (56 bytes each on the wire). */
#define KRONOSD_CHUNK 1024

/* `history`: up to n bars that open at from_ns or later, or the last n bars (KRONOSD_LAST); asks
 * page after page while the reply says `more`. ret->n is 0 where there are none. Errors as
 * kronosd_request(). */
int kronosd_history(struct kronosd_control *control, const char *symbol, const char *interval,
                    int64_t from_ns, size_t n, int timeout_ms, struct kronosd_bars *ret,
                    struct kr_error *error) KRONOSD_MUST_CHECK;

/* `load`: bars, oldest first, towards the daemon in chunks of KRONOSD_CHUNK, each confirmed before
 * the next; `more` is true in all but the last. A volume or amount that is NAN is missing.
 * *ret_accepted: bars that the daemon says it took, written also on failure for the chunks before.
 * `progress` may be NULL. timeout_ms is for each chunk. Errors as kronosd_request(). */
int kronosd_load(struct kronosd_control *control, const char *symbol, const char *interval,
                 const struct kronosd_bars *bars, int timeout_ms,
                 void (*progress)(void *context, size_t done, size_t total), void *context,
                 uint64_t *ret_accepted, struct kr_error *error) KRONOSD_MUST_CHECK;

/* `snapshot`: the stream's last forecast (a map as on the wire), borrowed like a reply. */
int kronosd_snapshot(struct kronosd_control *control, const char *symbol, const char *interval,
                     int timeout_ms, const msgpack_object **ret,
                     struct kr_error *error) KRONOSD_MUST_CHECK;

/* `status`: the last status message (a map as on the wire), borrowed likewise. */
int kronosd_status(struct kronosd_control *control, int timeout_ms, const msgpack_object **ret,
                   struct kr_error *error) KRONOSD_MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
