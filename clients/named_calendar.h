/* SPDX-License-Identifier: MIT */
/* The calendar that a command names: infer, 24x7, weekdays, or a [calendar NAME] of a kronosd.conf. */
#ifndef KC_NAMED_CALENDAR_H
#define KC_NAMED_CALENDAR_H

#include "core/calendar.h"

/* What stands in a section [calendar NAME]; NULL where a key is absent. Owned. */
struct kc_calendar_section {
    char *timezone, *sessions, *weekdays, *holidays;
};
void kc_calendar_section_free(struct kc_calendar_section *section);

/* Read it. Return: 0, -ENOENT (no such file, or no such section in it), -EBADMSG (not an ini file), -ENOMEM;
 * each with a line. */
int kc_calendar_section_read(const char *path, const char *name, struct kc_calendar_section *ret,
                             struct kr_error *error) kr_must_check;

#endif
