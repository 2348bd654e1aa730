/* SPDX-License-Identifier: MIT */
/* A fresh configuration takes the running one's place, keys that need a restart excepted. */
#include "daemon/config_internal.h"

#include <glib.h>
#include <string.h>

static void note(struct kd_changes *changes, bool applied, const char *section, const char *key)
{
    char *list = applied ? changes->applied : changes->restart;
    size_t size = sizeof(changes->applied);
    char name[96];

    *(applied ? &changes->n_applied : &changes->n_restart) += 1;
    g_snprintf(name, sizeof(name), "%s%s.%s", *list ? ", " : "", section, key);
    if (strlen(list) + strlen(name) + sizeof(", ...") <= size)
        g_strlcat(list, name, size);
    else if (!g_str_has_suffix(list, "..."))
        g_strlcat(list, ", ...", size);
}

static const struct kd_section *find(const struct kd_section *sections, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(sections[i].name, name) == 0)
            return &sections[i];
    return NULL;
}

/* Does the key have the same value, or no value, in both sections? NULL: a section that is not
 * there. */
static bool same_key(const struct kd_section *a, const struct kd_section *b, size_t i)
{
    bool in_a = a && a->lines[i], in_b = b && b->lines[i];

    if (!in_a || !in_b)
        return in_a == in_b;
    return kd_value_equal(&kd_keys[i],
                          kd_values_field((struct kd_values *)(uintptr_t)&a->values, &kd_keys[i]),
                          kd_values_field((struct kd_values *)(uintptr_t)&b->values, &kd_keys[i]));
}

static void compare_section(const char *kind, const struct kd_section *old_fixed,
                            const struct kd_section *old_current, const struct kd_section *fresh,
                            struct kd_changes *ret)
{
    char section[64];

    g_snprintf(section, sizeof(section), "%s %s", kind, (fresh ? fresh : old_current)->name);
    for (size_t i = 0; i < kd_n_keys; i++) {
        bool applied = (kd_keys[i].flags & KD_RELOAD) != 0;

        if ((kd_keys[i].flags & KD_STREAM) &&
            !same_key(applied ? old_current : old_fixed, fresh, i))
            note(ret, applied, section, kd_keys[i].key);
    }
}

/* Sections of both, then those that are gone. */
static void compare_sections(const char *kind, const struct kd_section *fixed, size_t n_fixed,
                             const struct kd_section *current, size_t n_current,
                             const struct kd_section *fresh, size_t n_fresh, struct kd_changes *ret)
{
    for (size_t i = 0; i < n_fresh; i++)
        compare_section(kind, find(fixed, n_fixed, fresh[i].name),
                        find(current, n_current, fresh[i].name), &fresh[i], ret);
    for (size_t i = 0; i < n_current; i++)
        if (!find(fresh, n_fresh, current[i].name))
            compare_section(kind, find(fixed, n_fixed, current[i].name), &current[i], NULL, ret);
}

/* Sections that changed places: later ones override, and keys that need a restart keep the old
 * order. */
static void compare_order(const struct kd_sections *fixed, const struct kd_sections *fresh,
                          struct kd_changes *ret)
{
    const struct kd_section *last = NULL;

    for (size_t i = 0; i < fresh->n_streams; i++) {
        const struct kd_section *old =
            find(fixed->streams, fixed->n_streams, fresh->streams[i].name);

        if (!old)
            continue;
        if (last && old < last) {
            note(ret, false, "stream", "order");
            return;
        }
        last = old;
    }
}

void kd_config_reload(struct kd_config **running, struct kd_config **fresh, struct kd_changes *ret)
{
    struct kd_config_part *old = (*running)->part, *new = (*fresh)->part;

    memset(ret, 0, sizeof(*ret));
    for (size_t i = 0; i < kd_n_keys; i++) {
        const struct kd_key *key = &kd_keys[i];
        void *kept = kd_key_field(*running, key), *wanted = kd_key_field(*fresh, key);
        bool applied = (key->flags & KD_RELOAD) != 0;

        if (kd_value_equal(key, kept, wanted))
            continue;
        if (!applied && !old->lines[i] && !new->lines[i]) {
            /* a default that the memory plan lowered, or connect = beside bind = */
            kd_value_swap(key, kept, wanted);
            continue;
        }
        note(ret, applied, key->section, key->key);
        if (!applied)
            kd_value_swap(key, kept, wanted);
    }
    compare_sections("calendar", old->fixed->calendars, old->fixed->n_calendars,
                     old->current->calendars, old->current->n_calendars, new->current->calendars,
                     new->current->n_calendars, ret);
    compare_sections("stream", old->fixed->streams, old->fixed->n_streams, old->current->streams,
                     old->current->n_streams, new->current->streams, new->current->n_streams, ret);
    compare_order(old->fixed, new->current, ret);
    /* The old sections stay for the keys that need a restart. */
    new->fixed = old->fixed;
    if (old->current == old->fixed)
        old->current = NULL;
    old->fixed = NULL;
    kd_config_free(running);
    *running = *fresh;
    *fresh = NULL;
}
