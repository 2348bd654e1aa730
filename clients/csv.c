/* SPDX-License-Identifier: MIT */
#include "clients/csv.h"
#include "clients/stamp.h"

#include <errno.h>
#include <glib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
    const char *path;
    FILE *file;
    size_t line; /* number of the line in `text` */
    char *text;  /* [KC_CSV_LINE_BYTES + 1], cells end in NUL once split */
    size_t length;
    char *cells[KC_CSV_COLUMNS];
    size_t n_cells;
    int time_column, columns[KR_COLUMNS]; /* cell of each, -1: none */
    size_t n_header_cells;
    struct kr_error *error;
};

/* ---- Lines and cells ---- */

/* "file:line: ..." for a person: one line, whatever bytes the file has in it. */
static int kr_printf(2, 3) complain(const struct reader *reader, const char *format, ...)
{
    struct kr_error detail;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(detail.text, sizeof(detail.text), format, arguments);
    va_end(arguments);
    for (char *c = detail.text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    return kr_error_set(reader->error, -EBADMSG, "%.200s:%zu: %.280s", reader->path, reader->line,
                        detail.text);
}

/* Read the next line, without its end. Return: 1, 0 at the end of the file, or a negative errno. */
static int next_line(struct reader *reader)
{
    int c;

    reader->length = 0;
    reader->line++;
    while ((c = getc_unlocked(reader->file)) != EOF && c != '\n') {
        if (c == '\0')
            return complain(reader, "expected text, found a NUL byte");
        if (reader->length == KC_CSV_LINE_BYTES)
            return complain(reader, "expected a line of at most %d bytes, found a longer one",
                            KC_CSV_LINE_BYTES);
        reader->text[reader->length++] = (char)c;
    }
    if (c == EOF && ferror(reader->file)) {
        int code = errno ? errno : EIO;

        return kr_error_set(reader->error, -code, "%.200s: expected a readable file, found: %s",
                            reader->path, strerror(code));
    }
    if (c == EOF && reader->length == 0)
        return 0;
    if (reader->length > 0 && reader->text[reader->length - 1] == '\r')
        reader->length--;
    reader->text[reader->length] = '\0';
    return 1;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static int next_line_with_text(struct reader *reader)
{
    int result;

    do {
        result = next_line(reader);
    } while (result > 0 && strspn(reader->text, " \t") == reader->length);
    return result;
}

/* A quoted cell from its opening quote on: unquoted in place. Return: what follows the closing
 * quote, or NULL if there is none. */
static char *unquote(char *quoted, char **ret_cell)
{
    char *to = quoted, *from = quoted + 1;

    *ret_cell = quoted;
    for (; *from; from++) {
        if (from[0] == '"' && from[1] != '"') {
            *to = '\0';
            for (from++; is_blank(*from); from++)
                ;
            return from;
        }
        from += from[0] == '"';
        *to++ = *from;
    }
    return NULL;
}

/* Split the line into cells without blanks around them, in place. */
static int split(struct reader *reader)
{
    char *at = reader->text;
    bool last = false;

    for (reader->n_cells = 0; !last; at++) {
        char *cell;

        if (reader->n_cells == KC_CSV_COLUMNS)
            return complain(reader, "expected at most %d columns, found more", KC_CSV_COLUMNS);
        while (is_blank(*at))
            at++;
        if (*at == '"') {
            at = unquote(at, &cell);
            if (!at)
                return complain(reader, "expected a closing quote on the same line, found none");
            if (*at != ',' && *at != '\0')
                return complain(reader, "expected a comma after a quoted cell, found \"%.20s\"",
                                at);
            last = *at == '\0';
        } else {
            char *end;

            cell = at;
            at += strcspn(at, ",");
            last = *at == '\0';
            for (end = at; end > cell && is_blank(end[-1]); end--)
                ;
            *end = '\0';
        }
        reader->cells[reader->n_cells++] = cell;
    }
    return 0;
}

/* ---- Header ---- */

static bool is_time_name(const char *name)
{
    static const char *const names[] = {"timestamp", "timestamps", "date",
                                        "datetime",  "time",       "open_time"};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(names); i++)
        if (strcasecmp(name, names[i]) == 0)
            return true;
    return false;
}

/* Note that cell i is the column. */
static int claim(const struct reader *reader, int *column, size_t i)
{
    if (*column >= 0)
        return complain(reader, "expected one column of a kind, found \"%.40s\" and \"%.40s\"",
                        reader->cells[*column], reader->cells[i]);
    *column = (int)i;
    return 0;
}

static int read_header(struct reader *reader)
{
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    char found[81];
    int result = next_line_with_text(reader);

    if (result == 0)
        return complain(reader, "expected a header line, found the end of the file");
    if (result < 0)
        return result;
    if (strncmp(reader->text, byte_order_mark, 3) == 0)
        memmove(reader->text, reader->text + 3, reader->length - 2);
    snprintf(found, sizeof(found), "%s", reader->text);
    result = split(reader);
    reader->time_column = -1;
    for (size_t c = 0; c < KR_COLUMNS; c++)
        reader->columns[c] = -1;
    for (size_t i = 0; result == 0 && i < reader->n_cells; i++) {
        if (is_time_name(reader->cells[i]))
            result = claim(reader, &reader->time_column, i);
        for (size_t c = 0; result == 0 && c < KR_COLUMNS; c++)
            if (strcasecmp(reader->cells[i], kr_column_names[c]) == 0)
                result = claim(reader, &reader->columns[c], i);
    }
    if (result < 0)
        return result;
    if (reader->time_column < 0 && reader->cells[0][0] == '\0')
        reader->time_column = 0;
    if (reader->time_column < 0)
        return complain(reader,
                        "expected a time column (timestamp, date, ... or an unnamed first one), "
                        "found \"%s\"",
                        found);
    for (size_t c = KR_OPEN; c <= KR_CLOSE; c++)
        if (reader->columns[c] < 0)
            return complain(reader, "expected a column \"%s\", found \"%s\"", kr_column_names[c],
                            found);
    reader->n_header_cells = reader->n_cells;
    return 0;
}

/* ---- Rows ---- */

/* A decimal number, all of the text: no infinity, no NaN, no hexadecimal. */
static bool parse_number(const char *text, double *ret)
{
    const char *c = text + (text[0] == '+' || text[0] == '-');
    size_t whole = strspn(c, "0123456789"), fraction = 0;

    c += whole;
    if (*c == '.') {
        fraction = strspn(c + 1, "0123456789");
        c += 1 + fraction;
    }
    if (whole + fraction == 0)
        return false;
    if (*c == 'e' || *c == 'E') {
        c += 1 + (c[1] == '+' || c[1] == '-');
        if (strspn(c, "0123456789") == 0)
            return false;
        c += strspn(c, "0123456789");
    }
    if (*c != '\0')
        return false;
    *ret = g_ascii_strtod(text, NULL);
    return true;
}

static int read_columns(const struct reader *reader, double v[KR_COLUMNS])
{
    enum kr_bar_fault fault;

    for (size_t c = 0; c < KR_COLUMNS; c++) {
        const char *cell = reader->columns[c] < 0 ? "" : reader->cells[reader->columns[c]];

        v[c] = NAN;
        if (c >= KR_VOLUME && cell[0] == '\0')
            continue; /* missing */
        if (!parse_number(cell, &v[c]))
            return complain(reader, "expected a number for \"%s\", found %s%.40s%s",
                            kr_column_names[c], cell[0] ? "\"" : "an empty cell", cell,
                            cell[0] ? "\"" : "");
    }
    fault = kr_bar_check(v);
    if (fault == KR_BAR_NOT_FINITE)
        return complain(reader, "expected finite numbers, found one beyond the range of doubles");
    if (fault == KR_BAR_PRICE_NOT_POSITIVE)
        return complain(reader, "expected prices above 0, found %g, %g, %g, %g", v[KR_OPEN],
                        v[KR_HIGH], v[KR_LOW], v[KR_CLOSE]);
    if (fault == KR_BAR_HIGH_LOW)
        return complain(reader,
                        "expected open and close within low and high, found %g, %g within %g, %g",
                        v[KR_OPEN], v[KR_CLOSE], v[KR_LOW], v[KR_HIGH]);
    kr_bar_fill(v);
    return 0;
}

/* The row's bar; t_ns is its stamp as delivered for now. */
static int read_row(struct reader *reader, const struct kc_csv_options *options,
                    const struct kr_bar *previous, struct kr_bar *ret)
{
    int64_t after_ns = previous ? previous->t_ns : INT64_MIN;
    struct kr_bar bar = {0};
    struct kr_error error = {""};
    const char *time;
    char before[KC_STAMP_LENGTH];
    int result = split(reader);

    if (result < 0)
        return result;
    if (reader->n_cells != reader->n_header_cells)
        return complain(reader, "expected %zu columns as in the header, found %zu",
                        reader->n_header_cells, reader->n_cells);
    time = reader->cells[reader->time_column];
    if (kc_stamp_parse(time, options->zone, options->unit_ns, after_ns, &bar.t_ns, &error) < 0)
        return complain(reader, "%s", error.text);
    if (previous && bar.t_ns <= after_ns) {
        kc_stamp_format(after_ns, before);
        return complain(reader, "expected a time after the previous row's, %s, found \"%.40s\"",
                        before, time);
    }
    kr_zone_stamp(options->zone, bar.t_ns, &bar.stamp);
    result = read_columns(reader, bar.v);
    if (result < 0)
        return result;
    *ret = bar;
    return 0;
}

static int read_rows(struct reader *reader, const struct kc_csv_options *options,
                     struct kc_bars *bars)
{
    size_t capacity = 0;
    int result;

    while ((result = next_line_with_text(reader)) > 0) {
        if (bars->n == capacity) {
            struct kr_bar *grown;

            capacity = capacity ? capacity * 2 : 1024;
            grown = reallocarray(bars->bars, capacity, sizeof(*grown));
            if (!grown)
                return kr_error_set(reader->error, -ENOMEM, "%.200s: out of memory", reader->path);
            bars->bars = grown;
        }
        result = read_row(reader, options, bars->n ? &bars->bars[bars->n - 1] : NULL,
                          &bars->bars[bars->n]);
        if (result < 0)
            return result;
        bars->n++;
    }
    if (result == 0 && bars->n == 0)
        return complain(reader, "expected a bar, found the end of the file");
    return result;
}

/* ---- From stamps to bars ---- */

static int by_value(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* A difference in time; in local time where that makes whole days. */
static int64_t difference(const struct kr_zone *zone, int64_t from_ns, int64_t to_ns)
{
    int64_t from_day, to_day;
    int64_t from_s = kr_zone_time_of_day(zone, from_ns, &from_day);
    int64_t to_s = kr_zone_time_of_day(zone, to_ns, &to_day);
    int64_t below = kr_floor_mod(to_ns, KR_NS_PER_S) - kr_floor_mod(from_ns, KR_NS_PER_S);
    int64_t ns;

    if (from_s == to_s && below == 0 && to_day - from_day < INT64_MAX / KR_NS_PER_S / KR_S_PER_DAY)
        return (to_day - from_day) * KR_S_PER_DAY * KR_NS_PER_S;
    return __builtin_sub_overflow(to_ns, from_ns, &ns) ? INT64_MAX : ns;
}

static int interval_of(int64_t ns, struct kr_interval *ret)
{
    static const struct {
        int64_t seconds;
        char unit;
    } units[] = {{7 * KR_S_PER_DAY, 'w'}, {KR_S_PER_DAY, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    int64_t seconds = ns / KR_NS_PER_S;
    char text[32];

    if (ns <= 0 || ns % KR_NS_PER_S != 0)
        return -EINVAL;
    for (size_t i = 0; i < KR_ARRAY_LENGTH(units); i++)
        if (seconds % units[i].seconds == 0) {
            snprintf(text, sizeof(text), "%lld%c", (long long)(seconds / units[i].seconds),
                     units[i].unit);
            return kr_interval_parse(text, ret);
        }
    return -EINVAL;
}

int kc_csv_infer_interval(const struct kr_zone *zone, const int64_t *t_ns, size_t n,
                          struct kr_interval *ret)
{
    kr_cleanup(kr_freep) int64_t *steps = NULL;
    int64_t common_ns = 0;
    size_t most = 0, n_multiples = 0;

    if (n < 2)
        return -EINVAL;
    steps = kr_alloc(n - 1, sizeof(*steps));
    if (!steps)
        return -ENOMEM;
    for (size_t i = 0; i + 1 < n; i++)
        steps[i] = difference(zone, t_ns[i], t_ns[i + 1]);
    qsort(steps, n - 1, sizeof(*steps), by_value);
    for (size_t i = 0, run = 0; i < n - 1; i++) {
        run = i > 0 && steps[i] == steps[i - 1] ? run + 1 : 1;
        if (run > most) {
            most = run;
            common_ns = steps[i];
        }
    }
    for (size_t i = 0; common_ns > 0 && i < n - 1; i++)
        n_multiples += steps[i] % common_ns == 0;
    if (n_multiples * 3 < (n - 1) * 2)
        return -EINVAL;
    return interval_of(common_ns, ret);
}

static int find_interval(const struct reader *reader, const struct kc_csv_options *options,
                         struct kc_bars *bars)
{
    kr_cleanup(kr_freep) int64_t *t_ns = NULL;
    int result = -ENOMEM;

    if (options->interval) {
        bars->interval = *options->interval;
        return 0;
    }
    t_ns = kr_alloc(bars->n, sizeof(*t_ns));
    for (size_t i = 0; t_ns && i < bars->n; i++)
        t_ns[i] = bars->bars[i].t_ns;
    if (t_ns)
        result = kc_csv_infer_interval(options->zone, t_ns, bars->n, &bars->interval);
    if (result == -ENOMEM)
        return kr_error_set(reader->error, result, "%.200s: out of memory", reader->path);
    if (result < 0)
        return complain(reader,
                        "expected --interval, or rows a regular interval apart, found %zu row%s",
                        bars->n, bars->n == 1 ? "" : "s that are not");
    return 0;
}

static int open_times(const struct reader *reader, const struct kc_csv_options *options,
                      struct kc_bars *bars)
{
    int64_t before_ns = INT64_MIN;

    for (size_t i = 0; options->stamp == KR_STAMP_CLOSE && i < bars->n; i++) {
        int64_t *t_ns = &bars->bars[i].t_ns;

        if (kr_interval_shift(options->zone, &bars->interval, *t_ns, -1, t_ns) < 0 ||
            *t_ns <= before_ns)
            return complain(reader,
                            "expected close times %s apart, found row %zu to open before "
                            "the one above it",
                            bars->interval.text, i + 1);
        before_ns = *t_ns;
    }
    return 0;
}

int kc_csv_read(const char *path, const struct kc_csv_options *options, struct kc_bars *ret,
                struct kr_error *error)
{
    struct reader reader = {.path = path, .error = error};
    struct kc_bars bars = {0};
    int result;

    reader.file = fopen(path, "re");
    if (!reader.file) {
        result = -errno;
        return kr_error_set(error, result, "%.200s: expected a readable file, found: %s", path,
                            strerror(-result));
    }
    reader.text = malloc(KC_CSV_LINE_BYTES + 1);
    if (!reader.text)
        result = kr_error_set(error, -ENOMEM, "%.200s: out of memory", path);
    else
        result = read_header(&reader);
    if (result == 0)
        result = read_rows(&reader, options, &bars);
    if (result == 0)
        result = find_interval(&reader, options, &bars);
    if (result == 0)
        result = open_times(&reader, options, &bars);
    free(reader.text);
    fclose(reader.file);
    if (result < 0)
        kc_bars_free(&bars);
    else
        *ret = bars;
    return result;
}

void kc_bars_free(struct kc_bars *bars)
{
    free(bars->bars);
    bars->bars = NULL;
    bars->n = 0;
}
