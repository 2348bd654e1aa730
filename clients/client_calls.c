/* SPDX-License-Identifier: MIT */
/* The control socket's operations as functions. */
#include "clients/client.h"
#include "core/base.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Beyond what any daemon serves; a peer that goes on and on must come to an end. */
#define MAX_SYMBOLS 1000000

static int bad_reply(struct kr_error *error, const char *op, const char *expected)
{
    return kr_error_set(error, -EBADMSG, "%s: reply: expected %s", op, expected);
}

static void pack_stream(msgpack_packer *packer, const char *symbol, const char *interval)
{
    kronosd_pack_string(packer, "sym", symbol);
    kronosd_pack_string(packer, "iv", interval);
}

static struct kronosd_symbol read_symbol(const msgpack_object *entry)
{
    struct kronosd_symbol symbol = {0};
    const msgpack_object *last = kronosd_get(entry, "last");

    kronosd_get_string(entry, "sym", symbol.symbol, sizeof(symbol.symbol));
    kronosd_get_string(entry, "iv", symbol.interval, sizeof(symbol.interval));
    kronosd_get_string(entry, "state", symbol.state, sizeof(symbol.state));
    kronosd_get_string(entry, "mode", symbol.mode, sizeof(symbol.mode));
    kronosd_get_string(entry, "cal", symbol.cal, sizeof(symbol.cal));
    symbol.row = kronosd_get_int(entry, "row", 0);
    symbol.epoch = kronosd_get_uint(entry, "epoch", 0);
    symbol.has_last = kronosd_get(last, "t") != NULL;
    symbol.last_t_ns = kronosd_get_int(last, "t", 0);
    symbol.last_rev = kronosd_get_int(last, "rev", 0);
    symbol.last_close = kronosd_get_real(last, "c", NAN);
    return symbol;
}

/* Append one page. Return: 0, -EBADMSG, -ENOMEM. */
static int append_symbols(struct kronosd_symbol **symbols, size_t *n, const msgpack_object *reply,
                          bool *ret_more, struct kr_error *error)
{
    const msgpack_object *list = kronosd_get(reply, "symbols");
    struct kronosd_symbol *grown;
    size_t n_page;

    if (!list || list->type != MSGPACK_OBJECT_ARRAY)
        return bad_reply(error, "symbols", "an array `symbols`");
    n_page = list->via.array.size;
    for (size_t i = 0; i < n_page; i++)
        if (list->via.array.ptr[i].type != MSGPACK_OBJECT_MAP)
            return bad_reply(error, "symbols", "maps in `symbols`");
    if (n_page > MAX_SYMBOLS - *n)
        return bad_reply(error, "symbols", "fewer streams");
    if (n_page > 0) {
        grown = reallocarray(*symbols, *n + n_page, sizeof(*grown));
        if (!grown)
            return kr_error_set(error, -ENOMEM, "symbols: no memory for %zu streams", *n + n_page);
        *symbols = grown;
    }
    for (size_t i = 0; i < n_page; i++)
        (*symbols)[(*n)++] = read_symbol(&list->via.array.ptr[i]);
    *ret_more = n_page > 0 && kronosd_get_bool(reply, "more", false);
    return 0;
}

int kronosd_symbols(struct kronosd_control *control, int timeout_ms, struct kronosd_symbol **ret,
                    size_t *ret_n, struct kr_error *error)
{
    struct kronosd_symbol *symbols = NULL;
    const msgpack_object *reply;
    size_t n = 0;
    bool more = true;
    int code = 0;

    while (code == 0 && more) {
        msgpack_packer *packer = kronosd_request_begin(control, "symbols", n > 0);

        if (n > 0)
            kronosd_pack_int(packer, "from", (int64_t)n);
        code = kronosd_request(control, timeout_ms, &reply, error);
        if (code == 0)
            code = append_symbols(&symbols, &n, reply, &more, error);
    }
    if (code != 0) {
        free(symbols);
        return code;
    }
    *ret = symbols;
    *ret_n = n;
    return 0;
}

void kronosd_bars_free(struct kronosd_bars *bars)
{
    free(bars->t_ns);
    free(bars->v);
    *bars = (struct kronosd_bars){0};
}

/* Little-endian 64-bit words, wherever they lie. */
static void words(void *to, const void *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t word;

        memcpy(&word, (const char *)from + 8 * i, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
        word = __builtin_bswap64(word);
#endif
        memcpy((char *)to + 8 * i, &word, sizeof(word));
    }
}

static bool grow(struct kronosd_bars *bars, size_t n)
{
    int64_t *t_ns = reallocarray(bars->t_ns, n, sizeof(*bars->t_ns));
    double(*v)[KRONOSD_COLUMNS];

    if (!t_ns)
        return false;
    bars->t_ns = t_ns;
    v = reallocarray(bars->v, n, sizeof(*bars->v));
    if (!v)
        return false;
    bars->v = v;
    return true;
}

/* Append one page. Return: 0, -EBADMSG, -ENOMEM. */
static int append_page(struct kronosd_bars *bars, const msgpack_object *reply, int64_t from_ns,
                       size_t most, bool *ret_more, struct kr_error *error)
{
    const msgpack_object *t = kronosd_get(reply, "t"), *v = kronosd_get(reply, "bars");
    size_t n;

    if (!t || t->type != MSGPACK_OBJECT_BIN || !v || v->type != MSGPACK_OBJECT_BIN)
        return bad_reply(error, "history", "binaries `t` and `bars`");
    n = t->via.bin.size / 8;
    if (t->via.bin.size % 8 || v->via.bin.size / (8 * KRONOSD_COLUMNS) != n ||
        v->via.bin.size % (8 * KRONOSD_COLUMNS) || n > most)
        return bad_reply(error, "history", "[n] times and [n,6] values, n as asked for at most");
    if (n > 0 && !grow(bars, bars->n + n))
        return kr_error_set(error, -ENOMEM, "history: no memory for %zu bars", bars->n + n);
    if (n > 0) {
        words(bars->t_ns + bars->n, t->via.bin.ptr, n);
        words(bars->v + bars->n, v->via.bin.ptr, n * KRONOSD_COLUMNS);
    }
    for (size_t i = bars->n; i < bars->n + n; i++)
        if (bars->t_ns[i] < from_ns || (i > 0 && bars->t_ns[i] <= bars->t_ns[i - 1]))
            return bad_reply(error, "history", "rising times from the one asked for");
    bars->n += n;
    *ret_more = n > 0 && kronosd_get_bool(reply, "more", false);
    return 0;
}

int kronosd_history(struct kronosd_control *control, const char *symbol, const char *interval,
                    int64_t from_ns, size_t n, int timeout_ms, struct kronosd_bars *ret,
                    struct kr_error *error)
{
    struct kronosd_bars bars = {0};
    const msgpack_object *reply;
    int64_t next_ns = from_ns;
    bool more = n > 0;
    int code = 0;

    while (code == 0 && more && bars.n < n) {
        bool has_from = next_ns != KRONOSD_LAST;
        msgpack_packer *packer = kronosd_request_begin(control, "history", has_from ? 4 : 3);

        pack_stream(packer, symbol, interval);
        if (has_from)
            kronosd_pack_int(packer, "from", next_ns);
        kronosd_pack_int(packer, "n", (int64_t)KR_MIN(n - bars.n, (size_t)INT64_MAX));
        code = kronosd_request(control, timeout_ms, &reply, error);
        if (code == 0)
            code = append_page(&bars, reply, next_ns, n - bars.n, &more, error);
        more = more && bars.n > 0 && bars.t_ns[bars.n - 1] < INT64_MAX;
        if (more)
            next_ns = bars.t_ns[bars.n - 1] + 1;
    }
    if (code == 0)
        *ret = bars;
    else
        kronosd_bars_free(&bars);
    return code;
}

/* A key with n words as a little-endian binary. */
static void pack_words(msgpack_packer *packer, const char *key, const void *data, size_t n)
{
    msgpack_pack_str(packer, strlen(key));
    msgpack_pack_str_body(packer, key, strlen(key));
    msgpack_pack_bin(packer, n * 8);
    for (size_t i = 0; i < n; i++) {
        char word[8];

        words(word, (const char *)data + 8 * i, 1);
        msgpack_pack_bin_body(packer, word, sizeof(word));
    }
}

int kronosd_load(struct kronosd_control *control, const char *symbol, const char *interval,
                 const struct kronosd_bars *bars, int timeout_ms,
                 void (*progress)(void *context, size_t done, size_t total), void *context,
                 uint64_t *ret_accepted, struct kr_error *error)
{
    const msgpack_object *reply;

    *ret_accepted = 0;
    for (size_t done = 0; done < bars->n;) {
        size_t n = KR_MIN(bars->n - done, (size_t)KRONOSD_CHUNK);
        msgpack_packer *packer = kronosd_request_begin(control, "load", 5);
        int code;

        pack_stream(packer, symbol, interval);
        pack_words(packer, "bars", bars->v + done, n * KRONOSD_COLUMNS);
        pack_words(packer, "t", bars->t_ns + done, n);
        msgpack_pack_str(packer, 4);
        msgpack_pack_str_body(packer, "more", 4);
        if (done + n < bars->n)
            msgpack_pack_true(packer);
        else
            msgpack_pack_false(packer);
        code = kronosd_request(control, timeout_ms, &reply, error);
        if (code != 0)
            return code;
        *ret_accepted += kronosd_get_uint(reply, "accepted", 0);
        done += n;
        if (progress)
            progress(context, done, bars->n);
    }
    return 0;
}

/* The map at the key of a reply that carries a whole message. */
static int nested(const msgpack_object *reply, const char *op, const char *key,
                  const msgpack_object **ret, struct kr_error *error)
{
    const msgpack_object *map = kronosd_get(reply, key);

    if (!map || map->type != MSGPACK_OBJECT_MAP)
        return kr_error_set(error, -EBADMSG, "%s: reply: expected a map `%s`", op, key);
    *ret = map;
    return 0;
}

int kronosd_snapshot(struct kronosd_control *control, const char *symbol, const char *interval,
                     int timeout_ms, const msgpack_object **ret, struct kr_error *error)
{
    const msgpack_object *reply;
    int code;

    pack_stream(kronosd_request_begin(control, "snapshot", 2), symbol, interval);
    code = kronosd_request(control, timeout_ms, &reply, error);
    return code ? code : nested(reply, "snapshot", "forecast", ret, error);
}

int kronosd_status(struct kronosd_control *control, int timeout_ms, const msgpack_object **ret,
                   struct kr_error *error)
{
    const msgpack_object *reply;
    int code;

    kronosd_request_begin(control, "status", 0);
    code = kronosd_request(control, timeout_ms, &reply, error);
    return code ? code : nested(reply, "status", "status", ret, error);
}
