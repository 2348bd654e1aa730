/* SPDX-License-Identifier: MIT */
#include "clients/source.h"

#include "clients/ctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_builtin_calendar(const char *name)
{
    return strcmp(name, "infer") == 0 || strcmp(name, "24x7") == 0 || strcmp(name, "weekdays") == 0;
}

/* The zone of naive stamps, and the section of a calendar by name, which may name a zone itself. */
static int open_zone(struct kc_source *source, const struct kc_source_config *config)
{
    const char *timezone = config->timezone;
    struct kr_error error;
    int r;

    if (!is_builtin_calendar(config->calendar)) {
        r = kc_calendar_section_read(config->config, config->calendar, &source->section, &error);
        if (r < 0)
            return kc_fail(r == -ENOMEM ? KC_SYSTEM : KC_CONFIG, "%s", error.text);
        if (source->section.timezone && !config->timezone_given)
            timezone = source->section.timezone;
    }
    r = kr_zone_open(timezone, &source->zone, &error);
    if (r < 0)
        return kc_fail(r == -ENOMEM ? KC_SYSTEM : KC_USAGE, "--timezone: %s", error.text);
    return 0;
}

static int read_input(struct kc_source *source, const struct kc_source_config *config)
{
    struct kr_error error;
    int r;

    source->input_config = (struct kc_input_config){.path = config->bars,
                                                    .zone = source->zone,
                                                    .stamp = config->stamp,
                                                    .interval = config->interval,
                                                    .time_unit = config->time_unit};
    r = kc_input_read(&source->input_config, &source->input, &error);
    return r < 0 ? kc_fail(kc_status_of(r), "%s", error.text) : 0;
}

static int make_named_calendar(struct kc_source *source, const struct kc_source_config *config,
                               struct kr_error *error)
{
    const struct kc_calendar_section *section = &source->section;
    const struct kr_zone *zone = source->zone;
    int r;

    if (section->timezone && config->timezone_given) {
        r = kr_zone_open(section->timezone, &source->calendar_zone, error);
        if (r < 0)
            return r;
        zone = source->calendar_zone;
    }
    return kr_calendar_new(zone, section->sessions, section->weekdays, section->holidays,
                           &source->calendar, error);
}

static int infer_calendar(struct kc_source *source)
{
    const struct kc_input *input = &source->input;
    int64_t *open_ns = calloc(input->n, sizeof(*open_ns));
    int r;

    if (!open_ns)
        return -ENOMEM;
    for (size_t i = 0; i < input->n; i++)
        open_ns[i] = input->bars[i].t_ns;
    r = kr_calendar_infer(source->zone, &input->interval, open_ns, input->n, &source->calendar);
    free(open_ns);
    return r;
}

static int make_calendar(struct kc_source *source, const struct kc_source_config *config)
{
    const char *name = config->calendar;
    struct kr_error error = {"out of memory"};
    int r;

    if (strcmp(name, "infer") == 0 && source->input.n >= 2)
        r = infer_calendar(source);
    else if (is_builtin_calendar(name))
        r = kr_calendar_new(source->zone, NULL, strcmp(name, "weekdays") == 0 ? "mon-fri" : NULL,
                            NULL, &source->calendar, &error);
    else
        r = make_named_calendar(source, config, &error);
    if (r < 0)
        return r == -ENOMEM
                   ? kc_fail(KC_SYSTEM, "out of memory")
                   : kc_fail(KC_CONFIG, "%s: [calendar %s]: %s", config->config, name, error.text);
    return 0;
}

int kc_source_open(struct kc_source *source, const struct kc_source_config *config)
{
    int status;

    *source = (struct kc_source){0};
    status = open_zone(source, config);
    if (!status)
        status = read_input(source, config);
    return status ? status : make_calendar(source, config);
}

void kc_source_close(struct kc_source *source)
{
    kc_input_free(&source->input);
    kr_calendar_free(&source->calendar);
    kc_calendar_section_free(&source->section);
    kr_zone_free(&source->calendar_zone);
    kr_zone_free(&source->zone);
    *source = (struct kc_source){0};
}
