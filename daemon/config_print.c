/* SPDX-License-Identifier: MIT */
/* The effective configuration as an ini file that loads to the same. */
#include "daemon/config_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int print_key(const struct kd_key *key, const void *field, FILE *out)
{
    /* one item a line: a line of the file holds no more than 197 characters */
    char *text = kd_value_print(key, field, key->type == KD_LIST ? "\n    " : " ");

    if (!text)
        return -ENOMEM;
    fprintf(out, "%s =%s%s\n", key->key, *text ? " " : "", text);
    free(text);
    return 0;
}

/* Comma-separated texts (holidays) are broken like lists. */
static int print_text(const struct kd_key *key, const char *text, FILE *out)
{
    size_t column = 0;

    fprintf(out, "%s =%s", key->key, *text ? " " : "");
    for (; *text; text++) {
        bool comma = *text == ',';

        if (comma && ++column % 8 == 0) {
            fprintf(out, "\n    ");
            continue;
        }
        putc(*text, out);
    }
    putc('\n', out);
    return 0;
}

/* The keys that a section sets. */
static int print_section(const char *kind, const struct kd_section *section, FILE *out)
{
    int result = 0;

    fprintf(out, "\n[%s %s]\n", kind, section->name);
    for (size_t i = 0; i < kd_n_keys && result == 0; i++) {
        const struct kd_key *key = &kd_keys[i];
        struct kd_values *values = (struct kd_values *)(uintptr_t)&section->values;

        if (!section->lines[i])
            continue;
        if (key->type == KD_TEXT)
            result = print_text(key, *(char **)kd_values_field(values, key), out);
        else
            result = print_key(key, kd_values_field(values, key), out);
    }
    return result;
}

static int print_plain(const struct kd_config *config, FILE *out)
{
    const char *section = "";
    int result = 0;

    for (size_t i = 0; i < kd_n_keys && result == 0; i++) {
        const struct kd_key *key = &kd_keys[i];

        if (strcmp(key->section, "stream") == 0 || strcmp(key->section, "calendar") == 0)
            continue;
        if (strcmp(section, key->section) != 0)
            fprintf(out, "%s[%s]\n", *section ? "\n" : "", key->section);
        section = key->section;
        result = print_key(key, kd_key_field((struct kd_config *)(uintptr_t)config, key), out);
    }
    return result;
}

int kd_config_print(const struct kd_config *config, FILE *out)
{
    const struct kd_sections *fixed = config->part->fixed, *current = config->part->current;
    int result = print_plain(config, out);

    for (size_t i = 0; i < fixed->n_calendars && result == 0; i++)
        result = print_section("calendar", &fixed->calendars[i], out);
    for (size_t i = 0; i < current->n_streams && result == 0; i++)
        result = print_section("stream", &current->streams[i], out);
    if (result == 0 && fflush(out) != 0)
        result = errno ? -errno : -EIO;
    return result < 0 ? result : ferror(out) ? -EIO : 0;
}
