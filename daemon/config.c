/* SPDX-License-Identifier: MIT */
#include "daemon/config.h"
#include "daemon/config_internal.h"

#include <errno.h>
#include <glib.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- making and freeing ---- */

static void free_section(struct kd_section *section)
{
    for (size_t i = 0; i < kd_n_keys; i++)
        if (kd_keys[i].flags & KD_STREAM)
            kd_value_free(&kd_keys[i], kd_values_field(&section->values, &kd_keys[i]));
    free(section->name);
}

void kd_sections_free(struct kd_sections **sections)
{
    struct kd_sections *old = *sections;

    *sections = NULL;
    if (!old)
        return;
    for (size_t i = 0; i < old->n_streams; i++)
        free_section(&old->streams[i]);
    for (size_t i = 0; i < old->n_calendars; i++)
        free_section(&old->calendars[i]);
    for (size_t i = 0; i < old->n_made; i++)
        kd_calendar_unref(&old->made[i]);
    free(old->streams);
    free(old->calendars);
    free(old->made);
    free(old);
}

void kd_config_free(struct kd_config **config)
{
    struct kd_config *old = *config;

    *config = NULL;
    if (!old)
        return;
    if (old->part) {
        for (size_t i = 0; i < kd_n_keys; i++)
            kd_value_free(&kd_keys[i], kd_key_field(old, &kd_keys[i]));
        if (old->part->fixed != old->part->current)
            kd_sections_free(&old->part->fixed);
        kd_sections_free(&old->part->current);
        free(old->part->folder);
        free(old->part);
    }
    free(old->path);
    free(old);
}

/* The folder of the file, absolute, for relative paths in it. "" for no file. */
static char *folder_of(const char *path)
{
    char *copy, *folder;

    if (!*path)
        return strdup("");
    copy = strdup(path);
    if (!copy)
        return NULL;
    folder = realpath(dirname(copy), NULL);
    free(copy);
    return folder;
}

static int set_defaults(struct kd_config *config, struct kr_error *error)
{
    char message[KD_MESSAGE];

    for (size_t i = 0; i < kd_n_keys; i++) {
        const struct kd_key *key = &kd_keys[i];
        int result = kd_value_parse(key, key->fallback, "", kd_key_field(config, key), message,
                                    sizeof(message));

        if (result < 0)
            return kr_error_set(error, result, "default of [%s] %s: %s", key->section, key->key,
                                message);
    }
    return 0;
}

static int config_new(const char *path, struct kd_config **ret, struct kr_error *error)
{
    struct kd_config *config = calloc(1, sizeof(*config));
    int result = -ENOMEM;

    if (!config)
        return kr_error_set(error, -ENOMEM, "out of memory");
    config->part = calloc(1, sizeof(*config->part));
    if (config->part) {
        config->part->current = config->part->fixed = calloc(1, sizeof(struct kd_sections));
        config->part->folder = folder_of(path);
        config->path = strdup(path);
    }
    if (config->part && config->part->current && config->path && config->part->folder)
        result = set_defaults(config, error);
    else
        kr_error_set(error, -ENOMEM, "%s: out of memory", path);
    if (result < 0) {
        kd_config_free(&config);
        return result;
    }
    *ret = config;
    return 0;
}

/* ---- taking what the file says ---- */

struct loader {
    struct kd_config *config;
    struct kd_section *section; /* open [stream] or [calendar] section, NULL in others */
    /* The list or text read last, kept until it is known whether the next line continues it. */
    const struct kd_key *pending;
    unsigned pending_line;
    char value[KD_MAX_VALUE];
    struct {
        char name[16];
        unsigned line;
    } seen[16]; /* plain sections */
    size_t n_seen;
};

static const char *const plain_sections[] = {"model", "forecast", "feed", "publish", "control",
                                             "state", "limits",   "log",  "curve"};
static const char *const named_sections[] = {"stream", "calendar"};

static size_t distance(const char *a, const char *b)
{
    size_t row[64], n = strlen(b);

    if (n >= KR_ARRAY_LENGTH(row) || strlen(a) >= KR_ARRAY_LENGTH(row))
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t above = row[j];
            size_t best = KR_MIN(KR_MIN(above, row[j - 1]) + 1, diagonal + (a[i - 1] != b[j - 1]));

            diagonal = above;
            row[j] = best;
        }
    }
    return row[n];
}

static void nearest(const char *name, const char *candidate, size_t *best, const char **ret)
{
    size_t d = distance(name, candidate);

    if (d < *best) {
        *best = d;
        *ret = candidate;
    }
}

static int unknown_section(struct loader *loader, unsigned line, const char *section,
                           struct kr_error *error)
{
    const char *guess = "";
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < KR_ARRAY_LENGTH(plain_sections); i++)
        nearest(section, plain_sections[i], &best, &guess);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(named_sections); i++)
        nearest(section, named_sections[i], &best, &guess);
    return kr_error_set(error, -EINVAL, "%s:%u: [%s]: unknown section, the nearest is [%s]",
                        loader->config->path, line, kd_shown(section), guess);
}

static int unknown_key(struct loader *loader, unsigned line, const char *section, const char *key,
                       struct kr_error *error)
{
    const char *guess = "", *elsewhere = NULL;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < kd_n_keys; i++) {
        if (kd_key_in(&kd_keys[i], section))
            nearest(key, kd_keys[i].key, &best, &guess);
        if (strcmp(kd_keys[i].key, key) == 0)
            elsewhere = kd_keys[i].section;
    }
    if (elsewhere)
        return kr_error_set(error, -EINVAL, "%s:%u: %s: belongs to [%s], not to [%s]",
                            loader->config->path, line, kd_shown(key), elsewhere, section);
    return kr_error_set(error, -EINVAL, "%s:%u: %s: unknown key of [%s], the nearest is %s",
                        loader->config->path, line, kd_shown(key), section, guess);
}

static bool calendar_name_valid(const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; i < length; i++)
        if (!g_ascii_isalnum(name[i]) && !strchr("_.-", name[i]))
            return false;
    return length >= 1 && length <= 32;
}

static int open_named(struct loader *loader, unsigned line, const char *section, const char *name,
                      struct kr_error *error)
{
    const char *path = loader->config->path, *fault = NULL, *unused;
    struct kd_sections *sections = loader->config->part->current;
    bool stream = strcmp(section, "stream") == 0;
    struct kd_section **list = stream ? &sections->streams : &sections->calendars, *grown;
    size_t *n = stream ? &sections->n_streams : &sections->n_calendars;

    if (stream)
        fault = kd_glob_fault(name);
    else if (!calendar_name_valid(name))
        fault = "a calendar's name has 1 to 32 letters, digits, '_', '-' or '.'";
    else if (kd_calendar_builtin(name, &unused, &unused, &unused, &unused))
        fault = "this calendar is built in, choose another name";
    if (fault)
        return kr_error_set(error, -EINVAL, "%s:%u: [%s %s]: %s", path, line, section,
                            kd_shown(name), fault);
    for (size_t i = 0; i < *n; i++)
        if (strcmp((*list)[i].name, name) == 0)
            return kr_error_set(error, -EINVAL, "%s:%u: [%s %s]: stands in line %zu already", path,
                                line, section, kd_shown(name), (*list)[i].line);
    if (*n == KD_MAX_SECTIONS)
        return kr_error_set(error, -EINVAL, "%s:%u: more than %d [%s] sections", path, line,
                            KD_MAX_SECTIONS, section);
    grown = realloc(*list, (*n + 1) * sizeof(**list));
    if (!grown)
        return kr_error_set(error, -ENOMEM, "%s: out of memory", path);
    *list = grown;
    loader->section = &grown[*n];
    memset(loader->section, 0, sizeof(*loader->section));
    loader->section->line = line;
    loader->section->name = strdup(name);
    if (!loader->section->name)
        return kr_error_set(error, -ENOMEM, "%s: out of memory", path);
    (*n)++;
    return 0;
}

static int take(struct loader *loader, unsigned line, const struct kd_key *key, const char *value,
                struct kr_error *error)
{
    struct kd_config *config = loader->config;
    char message[KD_MESSAGE];
    void *field = loader->section ? kd_values_field(&loader->section->values, key)
                                  : kd_key_field(config, key);
    int result = kd_value_parse(key, value, config->part->folder, field, message, sizeof(message));

    if (result == -ENOMEM)
        return kr_error_set(error, result, "%s: out of memory", config->path);
    if (result < 0)
        return kr_error_set(error, result, "%s:%u: %s: %s", config->path, line, key->key, message);
    return 0;
}

static int take_pending(struct loader *loader, struct kr_error *error)
{
    const struct kd_key *key = loader->pending;

    loader->pending = NULL;
    return key ? take(loader, loader->pending_line, key, loader->value, error) : 0;
}

static int on_section(void *context, unsigned line, const char *section, const char *name,
                      struct kr_error *error)
{
    struct loader *loader = context;
    const char *path = loader->config->path;
    bool plain = false;
    int result = take_pending(loader, error);

    if (result < 0)
        return result;
    loader->section = NULL;
    for (size_t i = 0; i < KR_ARRAY_LENGTH(named_sections); i++)
        if (strcmp(section, named_sections[i]) == 0)
            return open_named(loader, line, section, name, error);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(plain_sections); i++)
        plain |= strcmp(section, plain_sections[i]) == 0;
    if (!plain)
        return unknown_section(loader, line, section, error);
    if (*name)
        return kr_error_set(error, -EINVAL, "%s:%u: [%s %s]: this section takes no name", path,
                            line, section, kd_shown(name));
    for (size_t i = 0; i < loader->n_seen; i++)
        if (strcmp(loader->seen[i].name, section) == 0)
            return kr_error_set(error, -EINVAL, "%s:%u: [%s]: stands in line %u already", path,
                                line, section, loader->seen[i].line);
    g_strlcpy(loader->seen[loader->n_seen].name, section, sizeof(loader->seen[0].name));
    loader->seen[loader->n_seen++].line = line;
    return 0;
}

/* Begin a list or text that the next lines may continue, or add such a line to it. */
static int collect(struct loader *loader, unsigned line, const struct kd_key *key,
                   const char *value, bool continued, struct kr_error *error)
{
    size_t length;

    if (!continued) {
        loader->value[0] = '\0';
        loader->pending = key;
        loader->pending_line = line;
    } else if (loader->value[0] && !g_str_has_suffix(loader->value, ","))
        g_strlcat(loader->value, ",", sizeof(loader->value));
    length = g_strlcat(loader->value, value, sizeof(loader->value));
    if (length < sizeof(loader->value))
        return 0;
    loader->pending = NULL;
    return kr_error_set(error, -EINVAL, "%s:%u: %s: longer than %d characters",
                        loader->config->path, line, key->key, KD_MAX_VALUE - 1);
}

static int on_entry(void *context, unsigned line, const char *section, const char *name,
                    const char *text, const char *value, bool continued, struct kr_error *error)
{
    struct loader *loader = context;
    const char *path = loader->config->path;
    unsigned *lines = loader->section ? loader->section->lines : loader->config->part->lines;
    const struct kd_key *key;
    bool many;
    int index = kd_key_find(section, text), result;

    (void)name;
    if (index < 0)
        return unknown_key(loader, line, section, text, error);
    key = &kd_keys[index];
    many = key->type == KD_LIST || key->type == KD_LEVELS || key->type == KD_TEXT;
    if (continued && many)
        return collect(loader, line, key, value, true, error);
    if (continued)
        return kr_error_set(error, -EINVAL,
                            "%s:%u: %s: the line begins with a space and so continues %s, which "
                            "holds one value",
                            path, line, kd_shown(value), key->key);
    result = take_pending(loader, error);
    if (result < 0)
        return result;
    if (lines[index])
        return kr_error_set(error, -EINVAL, "%s:%u: %s: stands in line %u already", path, line,
                            key->key, lines[index]);
    lines[index] = line;
    return many ? collect(loader, line, key, value, false, error)
                : take(loader, line, key, value, error);
}

static int load_file(struct loader *loader, FILE *file, struct kr_error *error)
{
    struct kr_error late;
    int result = kd_file_parse(file, loader->config->path, on_section, on_entry, loader, error);
    int pending = take_pending(loader, &late);

    /* the pending value stands in an earlier line than what ended the parse */
    if (pending < 0)
        return kr_error_set(error, pending, "%s", late.text);
    return result;
}

/* Where the file says nothing, the unit may have: the first of its folders. */
static int take_state_directory(struct kd_config *config, struct kr_error *error)
{
    const char *folders = getenv("STATE_DIRECTORY");
    char *first;

    if (!folders || !*folders || kd_config_is_set(config, "state", "directory"))
        return 0;
    first = strndup(folders, strcspn(folders, ":"));
    if (!first)
        return kr_error_set(error, -ENOMEM, "%s: out of memory", config->path);
    free(config->state.directory);
    config->state.directory = first;
    return 0;
}

int kd_config_load(const char *path, struct kd_config **ret, struct kr_error *error)
{
    struct loader *loader;
    FILE *file = NULL;
    int result;

    if (path) {
        file = fopen(path, "re");
        if (!file)
            return kr_error_set(error, -errno, "%s: %s", path, strerror(errno));
    }
    loader = calloc(1, sizeof(*loader));
    if (loader)
        result = config_new(path ? path : "", &loader->config, error);
    else
        result = kr_error_set(error, -ENOMEM, "%s: out of memory", path ? path : "configuration");
    if (result == 0 && file)
        result = load_file(loader, file, error);
    if (file)
        fclose(file);
    if (result == 0)
        result = kd_config_check(loader->config, error);
    if (result == 0)
        result = take_state_directory(loader->config, error);
    if (result == 0)
        *ret = loader->config;
    else if (loader)
        kd_config_free(&loader->config);
    free(loader);
    return result;
}
