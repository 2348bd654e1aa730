/* SPDX-License-Identifier: MIT */
#include "clients/json_bars.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines */

void kc_lines_free(struct kc_lines *lines)
{
    free(lines->buffer);
    lines->buffer = NULL;
}

static bool is_blank(const char *line)
{
    return line[strspn(line, " \t\r")] == '\0';
}

/* A whole line of what is there. */
static char *take_line(struct kc_lines *lines)
{
    while (lines->start < lines->end) {
        char *line = lines->buffer + lines->start;
        char *newline = memchr(line, '\n', lines->end - lines->start);

        if (!newline && !lines->at_end)
            return NULL;
        if (!newline)
            newline = lines->buffer + lines->end; /* the last line may lack it; there is room */
        lines->start = KR_MIN((size_t)(newline - lines->buffer) + 1, lines->end);
        *newline = '\0';
        lines->n++;
        if (!is_blank(line))
            return line;
    }
    return NULL;
}

int kc_lines_next(struct kc_lines *lines, char **ret)
{
    ssize_t n;

    if (!lines->buffer)
        lines->buffer = malloc(KC_LINE_BYTES + 1);
    if (!lines->buffer)
        return -ENOMEM;
    *ret = take_line(lines);
    if (*ret || lines->at_end)
        return *ret != NULL;
    memmove(lines->buffer, lines->buffer + lines->start, lines->end - lines->start);
    lines->end -= lines->start;
    lines->start = 0;
    if (lines->end == KC_LINE_BYTES)
        return -EMSGSIZE;
    n = read(lines->fd, lines->buffer + lines->end, KC_LINE_BYTES - lines->end);
    if (n < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    lines->at_end = n == 0;
    lines->end += (size_t)n;
    *ret = take_line(lines);
    return *ret ? 1 : lines->at_end ? 0 : -EAGAIN;
}

/* Bars */

static int wrong(struct kr_error *error, const char *key, const char *expected)
{
    return kr_error_set(error, -EINVAL, "%s: expected %s, found something else", key, expected);
}

static int get_number(const json_t *object, const char *key, bool required, double *ret,
                      struct kr_error *error)
{
    const json_t *value = json_object_get(object, key);

    if (!value || json_is_null(value))
        return required ? kr_error_set(error, -EINVAL, "%s: expected a number, found none", key)
                        : 0;
    if (!json_is_number(value))
        return wrong(error, key, "a number");
    *ret = json_number_value(value);
    return 0;
}

static int get_integer(const json_t *object, const char *key, bool *ret_has, int64_t *ret,
                       struct kr_error *error)
{
    const json_t *value = json_object_get(object, key);

    *ret_has = value != NULL;
    if (!value)
        return 0;
    if (!json_is_integer(value))
        return wrong(error, key, "an integer");
    *ret = json_integer_value(value);
    return 0;
}

static int get_flag(const json_t *object, const char *key, bool *ret, struct kr_error *error)
{
    const json_t *value = json_object_get(object, key);

    if (!value)
        return 0;
    if (!json_is_boolean(value))
        return wrong(error, key, "true or false");
    *ret = json_is_true(value);
    return 0;
}

static int get_stream(const json_t *object, struct kw_bar *bar, struct kr_error *error)
{
    const json_t *symbol = json_object_get(object, "sym"),
                 *interval = json_object_get(object, "iv");

    if (symbol) {
        const char *text = json_string_value(symbol);

        if (!text || !kr_symbol_valid(text, json_string_length(symbol)))
            return wrong(error, "sym", "1 to 32 printable ASCII characters without space and |");
        memcpy(bar->symbol, text, strlen(text) + 1);
    }
    if (interval && (!json_is_string(interval) ||
                     kr_interval_parse(json_string_value(interval), &bar->interval) < 0))
        return wrong(error, "iv", "an interval like 5m");
    if (!bar->symbol[0])
        return kr_error_set(error, -EINVAL, "sym: expected a symbol (or --symbol), found none");
    if (!bar->interval.text[0])
        return kr_error_set(error, -EINVAL, "iv: expected an interval (or --interval), found none");
    return 0;
}

static int get_bar(const json_t *object, struct kw_bar *bar, struct kr_error *error)
{
    static const struct {
        const char *key;
        bool required;
    } columns[KR_COLUMNS] = {{"o", true}, {"h", true},    {"l", true},
                             {"c", true}, {"vol", false}, {"amt", false}};
    int64_t seq = 0, ep = 0, rev = 0;
    bool has_t, has_rev;
    int r;

    for (int c = 0; c < KR_COLUMNS; c++) {
        bar->bar.v[c] = NAN;
        r = get_number(object, columns[c].key, columns[c].required, &bar->bar.v[c], error);
        if (r < 0)
            return r;
    }
    if (get_integer(object, "t", &has_t, &bar->bar.t_ns, error) < 0 ||
        get_integer(object, "rev", &has_rev, &rev, error) < 0 ||
        get_integer(object, "seq", &bar->has_seq, &seq, error) < 0 ||
        get_integer(object, "ep", &bar->has_ep, &ep, error) < 0 ||
        get_flag(object, "fin", &bar->final, error) < 0 ||
        get_flag(object, "syn", &bar->bar.synthetic, error) < 0)
        return -EINVAL;
    if (!has_t)
        return kr_error_set(error, -EINVAL, "t: expected nanoseconds since 1970, found none");
    bar->bar.rev = rev;
    bar->seq = (uint64_t)seq;
    bar->ep = (uint64_t)ep;
    return get_stream(object, bar, error);
}

int kc_json_bar(const char *line, struct kw_bar *bar, struct kr_error *error)
{
    json_error_t fault;
    json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &fault);
    int r;

    if (!object)
        return kr_error_set(error, -EINVAL, "column %d: expected JSON, found %s", fault.column,
                            fault.text);
    r = json_is_object(object)
            ? get_bar(object, bar, error)
            : kr_error_set(error, -EINVAL, "expected an object, found another value");
    json_decref(object);
    return r;
}
