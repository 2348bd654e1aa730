/* SPDX-License-Identifier: MIT */
/* The bars of an offline command and the calendar they keep, from its options: --bars, --interval,
 * --timezone, --stamp, --time-unit, --calendar, --config. */
#ifndef KC_SOURCE_H
#define KC_SOURCE_H

#include "clients/input.h"
#include "clients/named_calendar.h"

struct kc_source_config {
    const char *bars, *timezone, *calendar, *config; /* borrowed */
    bool timezone_given;                             /* else a [calendar NAME] may name another */
    enum kr_stamp_kind stamp;
    const struct kr_interval *interval; /* NULL: as the file is spaced */
    const char *time_unit;              /* NULL: not said */
};

struct kc_source {
    struct kc_input_config input_config;
    struct kc_input input;
    struct kr_calendar *calendar;
    struct kr_zone *zone, *calendar_zone;
    struct kc_calendar_section section;
};

/* Read both; `infer` sees all bars of the file. `config` and what it points to outlive the source.
 * Return: 0, or the exit status after the error line. kc_source_close() whatever is returned. */
int kc_source_open(struct kc_source *source, const struct kc_source_config *config) kr_must_check;
/* Accepts a zeroed one; leaves it zeroed. */
void kc_source_close(struct kc_source *source);

#endif
