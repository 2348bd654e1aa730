/* SPDX-License-Identifier: MIT */
/* A candlestick as it arrives, and as the model sees it. */
#ifndef KR_BAR_H
#define KR_BAR_H

#include "core/base.h"

enum { KR_OPEN, KR_HIGH, KR_LOW, KR_CLOSE, KR_VOLUME, KR_AMOUNT, KR_COLUMNS };

/* "open", ... "amount". */
extern const char *const kr_column_names[KR_COLUMNS];

/* Calendar of a bar in exchange-local time, the model's five time features. */
struct kr_stamp {
    uint8_t minute;  /* 0-59 */
    uint8_t hour;    /* 0-23 */
    uint8_t weekday; /* 0 = Monday */
    uint8_t day;     /* 1-31 */
    uint8_t month;   /* 1-12 */
};

/* A bar of the truth: prices in f64 as on the wire, all six columns resolved. */
struct kr_bar {
    int64_t t_ns;          /* open time, UTC */
    double v[KR_COLUMNS];  /* rounded to f32 only where the model reads them */
    struct kr_stamp stamp; /* of the stamp as delivered (open or close), local time */
    bool synthetic;        /* made to fill a gap, here or by the feed */
    bool clipped; /* an input of it was clipped: set where it is encoded, by rolling states alone */
    int64_t rev;  /* revision, 0 for the first version */
};

/* Resolve missing columns (NaN or below 0 means missing): no volume -> volume = amount = 0; volume
 * without amount -> amount = volume * (open + high + low + close) / 4, in f64. */
void kr_bar_fill(double v[KR_COLUMNS]);

/* First fault of a bar's prices, in the order of rules: infinite or nan, not above 0, high or low not
 * enclosing open and close. Volume and amount may be missing but not infinite. */
enum kr_bar_fault { KR_BAR_OK, KR_BAR_NOT_FINITE, KR_BAR_PRICE_NOT_POSITIVE, KR_BAR_HIGH_LOW };
enum kr_bar_fault kr_bar_check(const double v[KR_COLUMNS]);

/* `<n>{s,m,h,d,w}`, n from 1, no leading zero, at most 7 characters. */
struct kr_interval {
    char text[8];
    int64_t ns; /* nominal length: 1d = 86,400 s whatever daylight saving does */
};

/* Return: 0, or -EINVAL (ret untouched). */
int kr_interval_parse(const char *text, struct kr_interval *ret) kr_must_check;

/* 1-32 bytes of printable ASCII without space and '|'. */
bool kr_symbol_valid(const char *symbol, size_t length);
#define KR_SYMBOL_MAX 32

#endif
