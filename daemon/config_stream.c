/* SPDX-License-Identifier: MIT */
/* One stream's settings: the defaults, and the matching sections over them in file order. */
#include "daemon/config_internal.h"

#include <errno.h>
#include <string.h>

/* Where a stream's calendar comes from so far; borrowed. */
struct calendar_values {
    const char *name, *timezone, *sessions, *weekdays, *holidays;
};

static const struct kd_section *find_calendar(const struct kd_sections *sections, const char *name)
{
    for (size_t i = 0; i < sections->n_calendars; i++)
        if (strcmp(sections->calendars[i].name, name) == 0)
            return &sections->calendars[i];
    return NULL;
}

static void lay(const char **field, const char *value)
{
    if (value)
        *field = value;
}

/* The keys that a section sets; those that it does not are NULL there. */
static void lay_values(struct calendar_values *calendar, const struct kd_values *values)
{
    lay(&calendar->timezone, values->timezone);
    lay(&calendar->sessions, values->sessions);
    lay(&calendar->weekdays, values->weekdays);
    lay(&calendar->holidays, values->holidays);
}

/* Choosing a calendar sets all of it. Return: 0, -EINVAL if there is none of that name. */
static int choose(const struct kd_config *config, struct calendar_values *calendar,
                  const char *name)
{
    const struct kd_section *section = find_calendar(config->part->fixed, name);

    calendar->name = name;
    if (kd_calendar_builtin(name, &calendar->timezone, &calendar->sessions, &calendar->weekdays,
                            &calendar->holidays))
        return 0;
    if (!section)
        return -EINVAL;
    lay_values(calendar, &config->part->base);
    lay_values(calendar, &section->values);
    return 0;
}

/* Lay the keys of one class that the section sets over the settings. */
static void lay_section(const struct kd_section *section, bool reloadable, struct kd_values *values)
{
    for (size_t i = 0; i < kd_n_keys; i++) {
        const struct kd_key *key = &kd_keys[i];
        struct kd_values *from = (struct kd_values *)(uintptr_t)&section->values;

        if (!section->lines[i] || key->type == KD_TEXT ||
            ((key->flags & KD_RELOAD) != 0) != reloadable)
            continue;
        /* numbers only: nothing is allocated */
        if (kd_value_copy(key, kd_values_field(from, key), kd_values_field(values, key)) < 0)
            continue;
    }
}

static bool matches(const struct kd_section *section, const struct kd_section *only,
                    const char *symbol, const char *interval)
{
    return only ? section == only : symbol && kd_glob(section->name, symbol, interval);
}

/* Settings for a stream, or, without a symbol, for the section `only` alone (NULL: none). The
 * calendar is borrowed. */
static int resolve(struct kd_config *config, const char *symbol, const char *interval,
                   const struct kd_section *only, struct kd_settings *ret, struct kr_error *error)
{
    struct kd_config_part *part = config->part;
    struct kd_values values = {.settings = part->base.settings};
    struct calendar_values calendar;
    int result = choose(config, &calendar, part->base.calendar);

    if (result < 0)
        return kr_error_set(error, result, "%s: no section [calendar %s]", part->base.calendar,
                            part->base.calendar);
    for (size_t i = 0; symbol && i < config->feed.allow.n; i++) {
        values.settings.allow = kd_glob(config->feed.allow.items[i], symbol, interval);
        if (values.settings.allow)
            break;
    }
    if (symbol && config->feed.allow.n == 0)
        values.settings.allow = false;
    for (size_t i = 0; i < part->fixed->n_streams; i++) {
        const struct kd_section *section = &part->fixed->streams[i];

        if (!matches(section, only, symbol, interval))
            continue;
        lay_section(section, false, &values);
        if (section->values.calendar && choose(config, &calendar, section->values.calendar) < 0)
            return kr_error_set(error, -EINVAL, "%s: no section [calendar %s]",
                                section->values.calendar, section->values.calendar);
        lay_values(&calendar, &section->values);
    }
    for (size_t i = 0; i < part->current->n_streams; i++)
        if (matches(&part->current->streams[i], only, symbol, interval))
            lay_section(&part->current->streams[i], true, &values);
    result =
        kd_calendar_get(part->fixed, calendar.name, calendar.timezone, calendar.sessions,
                        calendar.weekdays, calendar.holidays, &values.settings.calendar, error);
    if (result == 0)
        *ret = values.settings;
    return result;
}

int kd_config_stream(struct kd_config *config, const char *symbol, const char *interval,
                     struct kd_settings *ret, struct kr_error *error)
{
    struct kd_settings settings;
    struct kr_error inner;
    const char *key;
    char fault[KD_MESSAGE];
    int result = resolve(config, symbol, interval, NULL, &settings, &inner);

    if (result < 0)
        return kr_error_set(error, result, "%s|%s: %s", symbol, interval, inner.text);
    /* sections that are sound one by one may contradict each other */
    key = kd_settings_fault(config, &settings, fault, sizeof(fault));
    if (key)
        return kr_error_set(error, -EINVAL, "%s|%s: %s: %s", symbol, interval, key, fault);
    kd_calendar_ref(settings.calendar);
    *ret = settings;
    return 0;
}

int kd_config_resolve(struct kd_config *config, const struct kd_section *only,
                      struct kd_settings *ret, struct kr_error *error)
{
    return resolve(config, NULL, NULL, only, ret, error);
}

bool kd_config_variant(struct kd_config *config, size_t i, struct kd_settings *ret,
                       size_t *ret_line, const char **ret_pattern)
{
    const struct kd_sections *sections = config->part->fixed;
    const struct kd_section *only = i > 0 ? &sections->streams[i - 1] : NULL;

    /* every variant was resolved when the configuration was loaded: its calendar is there */
    if (i > sections->n_streams || resolve(config, NULL, NULL, only, ret, NULL) < 0)
        return false;
    *ret_line = only ? only->line : 0;
    *ret_pattern = only ? only->name : "";
    return true;
}

bool kd_config_is_set(const struct kd_config *config, const char *section, const char *key)
{
    int index = kd_key_find(section, key);

    return index >= 0 && config->part->lines[index] != 0;
}

void kd_settings_free(struct kd_settings *settings)
{
    if (settings)
        kd_calendar_unref(&settings->calendar);
}

void kd_settings_copy(struct kd_settings *ret, const struct kd_settings *settings)
{
    *ret = *settings;
    kd_calendar_ref(ret->calendar);
}
