/* SPDX-License-Identifier: MIT */
/* Times as people write them, into nanoseconds UTC. Locale and TZ of the process play no part. */
#ifndef KC_STAMP_H
#define KC_STAMP_H

#include "core/zone.h"

/* "s", "ms", "us", "ns" -> nanoseconds of the unit. Return: 0, -EINVAL. */
int kc_time_unit_parse(const char *text, int64_t *ret_unit_ns) kr_must_check;

/* One time, the whole of `text`:
 *
 *   YYYY-MM-DDTHH:MM[:SS[.fraction]], T or one space, then Z, an offset (+HH, +HHMM, +HH:MM) or
 *     nothing: local time in `zone`. A fold is resolved by `after_ns`, the previous row's instant
 *     (INT64_MIN: none); a hole is an error.
 *
 *   YYYY-MM-DD: the first instant of that local day.
 *
 *   An integer of `unit_ns` since the epoch. With unit_ns = 0 integers are refused: how many digits
 *     there are does not tell the unit.
 *
 * Return: 0, or -EBADMSG with error "expected ..., found ...". */
int kc_stamp_parse(const char *text, const struct kr_zone *zone, int64_t unit_ns, int64_t after_ns,
                   int64_t *ret_t_ns, struct kr_error *error) kr_must_check;

/* "2024-06-18T11:15:00Z", with a fraction of three, six or nine digits where needed. */
#define KC_STAMP_LENGTH 31
void kc_stamp_format(int64_t t_ns, char ret[KC_STAMP_LENGTH]);

#endif
