/* SPDX-License-Identifier: MIT */
#include "core/bar.h"

#include <errno.h>
#include <math.h>
#include <string.h>

const char *const kr_column_names[KR_COLUMNS] = {"open",  "high",   "low",
                                                 "close", "volume", "amount"};

void kr_bar_fill(double v[KR_COLUMNS])
{
    if (!(v[KR_VOLUME] >= 0)) {
        v[KR_VOLUME] = v[KR_AMOUNT] = 0;
        return;
    }
    if (!(v[KR_AMOUNT] >= 0))
        v[KR_AMOUNT] = v[KR_VOLUME] * ((v[KR_OPEN] + v[KR_HIGH] + v[KR_LOW] + v[KR_CLOSE]) / 4);
}

enum kr_bar_fault kr_bar_check(const double v[KR_COLUMNS])
{
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        if (!isfinite(v[c]))
            return KR_BAR_NOT_FINITE;
    for (int c = KR_VOLUME; c <= KR_AMOUNT; c++)
        if (isinf(v[c]))
            return KR_BAR_NOT_FINITE;
    for (int c = KR_OPEN; c <= KR_CLOSE; c++)
        if (v[c] <= 0)
            return KR_BAR_PRICE_NOT_POSITIVE;
    if (v[KR_HIGH] < fmax(v[KR_OPEN], v[KR_CLOSE]) || v[KR_LOW] > fmin(v[KR_OPEN], v[KR_CLOSE]))
        return KR_BAR_HIGH_LOW;
    return KR_BAR_OK;
}

int kr_interval_parse(const char *text, struct kr_interval *ret)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 604800}};
    size_t length = strlen(text);
    int64_t n = 0;

    if (length < 2 || length >= sizeof(ret->text) || text[0] == '0')
        return -EINVAL;
    for (size_t i = 0; i + 1 < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -EINVAL;
        n = n * 10 + (text[i] - '0');
    }
    /* Six digits of weeks would overflow nanoseconds: a century is enough for any bar. */
    for (size_t u = 0; u < KR_ARRAY_LENGTH(units); u++) {
        if (text[length - 1] != units[u].unit)
            continue;
        if (n * units[u].seconds > INT64_C(100) * 366 * 86400)
            return -EINVAL;
        memcpy(ret->text, text, length + 1);
        ret->ns = n * units[u].seconds * INT64_C(1000000000);
        return 0;
    }
    return -EINVAL;
}

bool kr_symbol_valid(const char *symbol, size_t length)
{
    if (length < 1 || length > KR_SYMBOL_MAX)
        return false;
    for (size_t i = 0; i < length; i++)
        if (symbol[i] <= ' ' || symbol[i] > '~' || symbol[i] == '|')
            return false;
    return true;
}
