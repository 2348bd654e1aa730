/* SPDX-License-Identifier: MIT */
/* Calendars by name and by value, made once and shared. */
#include "daemon/config_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Distinct calendars of one configuration. */
#define MAX_CALENDARS 1024

struct kd_calendar *kd_calendar_ref(struct kd_calendar *calendar)
{
    if (calendar)
        __atomic_add_fetch(&calendar->references, 1, __ATOMIC_RELAXED);
    return calendar;
}

static void calendar_free(struct kd_calendar *calendar)
{
    kr_calendar_free(&calendar->calendar);
    kr_zone_free(&calendar->zone);
    free(calendar->name);
    free(calendar->timezone);
    free(calendar->sessions);
    free(calendar->weekdays);
    free(calendar->holidays);
    free(calendar);
}

void kd_calendar_unref(struct kd_calendar **calendar)
{
    if (*calendar && __atomic_sub_fetch(&(*calendar)->references, 1, __ATOMIC_ACQ_REL) == 0)
        calendar_free(*calendar);
    *calendar = NULL;
}

static const struct {
    const char *name, *weekdays;
} builtin[] = {{"24x7", ""}, {"weekdays", "mon-fri"}};

bool kd_calendar_builtin(const char *name, const char **ret_timezone, const char **ret_sessions,
                         const char **ret_weekdays, const char **ret_holidays)
{
    for (size_t i = 0; i < KR_ARRAY_LENGTH(builtin); i++) {
        if (strcmp(name, builtin[i].name) != 0)
            continue;
        *ret_timezone = "UTC";
        *ret_sessions = *ret_holidays = "";
        *ret_weekdays = builtin[i].weekdays;
        return true;
    }
    return false;
}

static const char *or_null(const char *text)
{
    return *text ? text : NULL;
}

static int calendar_new(const char *name, const char *timezone, const char *sessions,
                        const char *weekdays, const char *holidays, struct kd_calendar **ret,
                        struct kr_error *error)
{
    struct kd_calendar *calendar = calloc(1, sizeof(*calendar));
    int result;

    if (!calendar)
        return kr_error_set(error, -ENOMEM, "out of memory");
    calendar->references = 1;
    calendar->name = strdup(name);
    calendar->timezone = strdup(timezone);
    calendar->sessions = strdup(sessions);
    calendar->weekdays = strdup(weekdays);
    calendar->holidays = strdup(holidays);
    if (!calendar->name || !calendar->timezone || !calendar->sessions || !calendar->weekdays ||
        !calendar->holidays) {
        calendar_free(calendar);
        return kr_error_set(error, -ENOMEM, "out of memory");
    }
    result = kr_zone_open(timezone, &calendar->zone, error);
    if (result == 0)
        result = kr_calendar_new(calendar->zone, or_null(sessions), or_null(weekdays),
                                 or_null(holidays), &calendar->calendar, error);
    if (result < 0) {
        calendar_free(calendar);
        return result == -ENOMEM ? result : -EINVAL;
    }
    *ret = calendar;
    return 0;
}

int kd_calendar_check(const char *timezone, const char *sessions, const char *weekdays,
                      const char *holidays, struct kr_error *error)
{
    struct kd_calendar *calendar;
    int result = calendar_new("", timezone, sessions, weekdays, holidays, &calendar, error);

    if (result == 0)
        kd_calendar_unref(&calendar);
    return result;
}

int kd_calendar_get(struct kd_sections *sections, const char *name, const char *timezone,
                    const char *session, const char *weekdays, const char *holidays,
                    struct kd_calendar **ret, struct kr_error *error)
{
    struct kd_calendar *calendar;
    int result;

    for (size_t i = 0; i < sections->n_made; i++) {
        calendar = sections->made[i];
        if (strcmp(calendar->name, name) == 0 && strcmp(calendar->timezone, timezone) == 0 &&
            strcmp(calendar->sessions, session) == 0 && strcmp(calendar->weekdays, weekdays) == 0 &&
            strcmp(calendar->holidays, holidays) == 0) {
            *ret = calendar;
            return 0;
        }
    }
    if (sections->n_made == MAX_CALENDARS)
        return kr_error_set(error, -EINVAL, "more than %d different calendars", MAX_CALENDARS);
    if (!sections->made) {
        sections->made = calloc(MAX_CALENDARS, sizeof(*sections->made));
        if (!sections->made)
            return kr_error_set(error, -ENOMEM, "out of memory");
    }
    result = calendar_new(name, timezone, session, weekdays, holidays, &calendar, error);
    if (result < 0)
        return result;
    sections->made[sections->n_made++] = calendar;
    *ret = calendar;
    return 0;
}
