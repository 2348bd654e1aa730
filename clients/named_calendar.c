/* SPDX-License-Identifier: MIT */
#include "clients/named_calendar.h"

#include <errno.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    const char *section; /* "calendar NAME" */
    struct kc_calendar_section *ret;
    bool found, out_of_memory;
};

void kc_calendar_section_free(struct kc_calendar_section *section)
{
    free(section->timezone);
    free(section->sessions);
    free(section->weekdays);
    free(section->holidays);
    *section = (struct kc_calendar_section){0};
}

static int on_key(void *context, const char *section, const char *key, const char *value)
{
    struct reading *reading = context;
    const struct {
        const char *key;
        char **target;
    } keys[] = {{"timezone", &reading->ret->timezone},
                {"sessions", &reading->ret->sessions},
                {"weekdays", &reading->ret->weekdays},
                {"holidays", &reading->ret->holidays}};

    if (strcmp(section, reading->section) != 0)
        return 1;
    reading->found = true;
    for (size_t i = 0; i < KR_ARRAY_LENGTH(keys); i++) {
        if (strcmp(key, keys[i].key) != 0)
            continue;
        free(*keys[i].target);
        *keys[i].target = strdup(value);
        reading->out_of_memory |= !*keys[i].target;
    }
    return 1;
}

int kc_calendar_section_read(const char *path, const char *name, struct kc_calendar_section *ret,
                             struct kr_error *error)
{
    struct kc_calendar_section section = {0};
    char title[128];
    struct reading reading = {.section = title, .ret = &section};
    int length = snprintf(title, sizeof(title), "calendar %s", name), r = 0, line;

    if (length < 0 || (size_t)length >= sizeof(title))
        return kr_error_set(error, -ENOENT,
                            "%s: expected a section [calendar %.40s...], found none", path, name);
    errno = 0;
    line = ini_parse(path, on_key, &reading);
    if (line == -1)
        r = kr_error_set(error, -ENOENT, "%s: cannot be read: %s", path, strerror(errno));
    else if (line > 0)
        r = kr_error_set(error, -EBADMSG, "%s: line %d: expected key = value, found something else",
                         path, line);
    else if (line < 0 || reading.out_of_memory)
        r = kr_error_set(error, -ENOMEM, "out of memory");
    else if (!reading.found)
        r = kr_error_set(error, -ENOENT, "%s: expected a section [%s], found none", path, title);
    if (r < 0)
        kc_calendar_section_free(&section);
    else
        *ret = section;
    return r;
}
