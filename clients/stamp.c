/* SPDX-License-Identifier: MIT */
#include "clients/stamp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int kc_time_unit_parse(const char *text, int64_t *ret_unit_ns)
{
    static const struct {
        const char *name;
        int64_t ns;
    } units[] = {{"s", KR_NS_PER_S}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(units); i++)
        if (strcmp(text, units[i].name) == 0) {
            *ret_unit_ns = units[i].ns;
            return 0;
        }
    return -EINVAL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A cursor over the text: each step moves on only over what it expects. */
static bool take(const char **cursor, char expected)
{
    if (**cursor != expected)
        return false;
    ++*cursor;
    return true;
}

static bool take_digits(const char **cursor, int width, int *ret)
{
    int number = 0;

    for (int i = 0; i < width; i++) {
        if (!is_digit((*cursor)[i]))
            return false;
        number = number * 10 + ((*cursor)[i] - '0');
    }
    *cursor += width;
    *ret = number;
    return true;
}

/* ".123" -> 123,000,000 ns; up to nine digits. */
static bool take_fraction(const char **cursor, int64_t *ret_ns)
{
    int64_t ns = 0;
    int n = 0;

    while (is_digit((*cursor)[n]) && n < 9)
        ns = ns * 10 + ((*cursor)[n++] - '0');
    *cursor += n;
    for (int i = n; i < 9; i++)
        ns *= 10;
    *ret_ns = ns;
    return n > 0;
}

/* What follows a time of day. Return: false if it is neither nothing, Z nor an offset. */
static bool take_offset(const char **cursor, bool *ret_local, int64_t *ret_offset_s)
{
    int sign, hours, minutes = 0;

    *ret_local = **cursor == '\0';
    *ret_offset_s = 0;
    if (*ret_local || take(cursor, 'Z'))
        return true;
    if (take(cursor, '+'))
        sign = 1;
    else if (take(cursor, '-'))
        sign = -1;
    else
        return false;
    if (!take_digits(cursor, 2, &hours))
        return false;
    if (**cursor != '\0') {
        take(cursor, ':');
        if (!take_digits(cursor, 2, &minutes))
            return false;
    }
    *ret_offset_s = sign * (hours * 3600 + minutes * 60);
    return hours < 24 && minutes < 60;
}

struct parts {
    struct kr_civil civil;
    bool date_only, local;
    int64_t offset_s, fraction_ns;
};

/* Into ranges that struct kr_civil holds; kr_civil_valid() judges them. */
static bool take_pair(const char **cursor, uint8_t *ret)
{
    int number;

    if (!take_digits(cursor, 2, &number))
        return false;
    *ret = (uint8_t)number;
    return true;
}

static bool take_parts(const char *text, struct parts *ret)
{
    struct parts p = {.local = true};

    if (!take_digits(&text, 4, &p.civil.year) || !take(&text, '-') ||
        !take_pair(&text, &p.civil.month) || !take(&text, '-') || !take_pair(&text, &p.civil.day))
        return false;
    p.date_only = *text == '\0';
    if (!p.date_only) {
        if (!take(&text, 'T') && !take(&text, ' '))
            return false;
        if (!take_pair(&text, &p.civil.hour) || !take(&text, ':') ||
            !take_pair(&text, &p.civil.minute))
            return false;
        if (take(&text, ':')) {
            if (!take_pair(&text, &p.civil.second))
                return false;
            if (take(&text, '.') && !take_fraction(&text, &p.fraction_ns))
                return false;
        }
        if (!take_offset(&text, &p.local, &p.offset_s))
            return false;
    }
    *ret = p;
    return *text == '\0' && kr_civil_valid(&p.civil);
}

static int from_integer(const char *text, int64_t unit_ns, int64_t *ret_t_ns)
{
    bool negative = take(&text, '-');
    int64_t number = 0;

    for (; *text; text++)
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, *text - '0', &number))
            return -ERANGE;
    if (__builtin_mul_overflow(negative ? -number : number, unit_ns, &number))
        return -ERANGE;
    *ret_t_ns = number;
    return 0;
}

static int from_parts(const struct parts *p, const struct kr_zone *zone, int64_t after_ns,
                      int64_t *ret_t_ns)
{
    int64_t t_ns;
    int result;

    if (p->date_only)
        result = kr_zone_utc_from(
            zone, kr_civil_day(p->civil.year, p->civil.month, p->civil.day) * KR_S_PER_DAY,
            INT64_MIN, &t_ns);
    else if (p->local) /* rows within one second: the fraction decides between them, not the fold */
        result = kr_zone_utc(
            zone, &p->civil,
            after_ns < INT64_MIN + p->fraction_ns ? INT64_MIN : after_ns - p->fraction_ns, &t_ns);
    else
        result = kr_zone_utc(NULL, &p->civil, INT64_MIN, &t_ns);
    if (result < 0)
        return result;
    if (__builtin_sub_overflow(t_ns, p->offset_s * KR_NS_PER_S, &t_ns) ||
        __builtin_add_overflow(t_ns, p->fraction_ns, &t_ns))
        return -ERANGE;
    *ret_t_ns = t_ns;
    return 0;
}

int kc_stamp_parse(const char *text, const struct kr_zone *zone, int64_t unit_ns, int64_t after_ns,
                   int64_t *ret_t_ns, struct kr_error *error)
{
    size_t n_digits = strspn(text + (text[0] == '-'), "0123456789");
    bool integer = n_digits > 0 && text[(text[0] == '-') + n_digits] == '\0';
    struct parts parts;
    int result;

    if (integer && unit_ns == 0)
        return kr_error_set(error, -EBADMSG,
                            "expected --time-unit s|ms|us|ns for integer times, found \"%.40s\"",
                            text);
    if (!integer && !take_parts(text, &parts))
        return kr_error_set(error, -EBADMSG,
                            "expected a time such as 2024-06-18T11:15:00Z, 2024-06-18 11:15:00 or "
                            "2024-06-18, found \"%.40s\"",
                            text);
    result = integer ? from_integer(text, unit_ns, ret_t_ns)
                     : from_parts(&parts, zone, after_ns, ret_t_ns);
    if (result == -ENOENT)
        return kr_error_set(error, -EBADMSG,
                            "expected a local time that exists in %s, found \"%.40s\"",
                            kr_zone_name(zone), text);
    if (result < 0)
        return kr_error_set(error, -EBADMSG,
                            "expected a time between the years 1677 and 2262, found \"%.40s\"",
                            text);
    return 0;
}

void kc_stamp_format(int64_t t_ns, char ret[KC_STAMP_LENGTH])
{
    int64_t below = kr_floor_mod(t_ns, KR_NS_PER_S);
    struct kr_civil c;
    int n;

    kr_zone_civil(NULL, t_ns, &c);
    /* int64 nanoseconds keep the year within four digits; the modulus tells the compiler. */
    n = snprintf(ret, KC_STAMP_LENGTH, "%04u-%02u-%02uT%02u:%02u:%02u", (unsigned)c.year % 10000u,
                 c.month, c.day, c.hour, c.minute, c.second);
    if (below % 1000 != 0)
        n += snprintf(ret + n, KC_STAMP_LENGTH - (size_t)n, ".%09d", (int)below);
    else if (below % 1000000 != 0)
        n += snprintf(ret + n, KC_STAMP_LENGTH - (size_t)n, ".%06d", (int)(below / 1000));
    else if (below != 0)
        n += snprintf(ret + n, KC_STAMP_LENGTH - (size_t)n, ".%03d", (int)(below / 1000000));
    snprintf(ret + n, KC_STAMP_LENGTH - (size_t)n, "Z");
}
