/* SPDX-License-Identifier: MIT */
/* Bar files: CSV with a header line.
 *
 * Columns by name, whatever their case: timestamp, timestamps, date, datetime, time or open_time
 * (or an unnamed first column), open, high, low, close, and optionally volume and amount; others
 * are ignored. Comma-separated; quoted cells, CRLF, a byte order mark and blank lines are fine.
 * Nothing is guessed or repaired: the first line that cannot be read is an error that names it. */
#ifndef KC_CSV_H
#define KC_CSV_H

#include "core/bar.h"
#include "core/calendar.h"
#include "core/zone.h"

/* A longer line is an error. */
#define KC_CSV_LINE_BYTES (64 * 1024)
#define KC_CSV_COLUMNS    256

struct kc_csv_options {
    const struct kr_zone *zone;         /* of naive times, and of the stamps; NULL: UTC */
    enum kr_stamp_kind stamp;           /* what the file's times mark */
    int64_t unit_ns;                    /* of integer times, kc_time_unit_parse(); 0: refused */
    const struct kr_interval *interval; /* NULL: inferred */
};

/* Bars of one file: strictly increasing t_ns (UTC open times; a close stamp less the interval, by
 * local days where the interval is of days), columns filled, `stamp` of the time as delivered, in
 * the zone. */
struct kc_bars {
    struct kr_bar *bars;         /* [n] */
    size_t n;                    /* at least 1 */
    struct kr_interval interval; /* the given or the inferred one */
};

/* Read the whole file. `ret` is the caller's, kc_bars_free(). Times must increase strictly, prices
 * pass kr_bar_check(); missing or empty volume and amount are filled by kr_bar_fill().
 * Return: 0; -ENOENT or another errno of open and read; -EBADMSG with one line
 * "file:line: expected ..., found ..."; -ENOMEM. */
int kc_csv_read(const char *path, const struct kc_csv_options *options, struct kc_bars *ret,
                struct kr_error *error) kr_must_check;
void kc_bars_free(struct kc_bars *bars);

/* The most common difference between successive times, in local days where it is of days, the
 * shorter one of two equally common. Return: 0; -EINVAL if n < 2, if it is no whole number of
 * seconds, or if less than two thirds of the differences are multiples of it (monthly bars, say);
 * -ENOMEM. */
int kc_csv_infer_interval(const struct kr_zone *zone, const int64_t *t_ns, size_t n,
                          struct kr_interval *ret) kr_must_check;

#endif
