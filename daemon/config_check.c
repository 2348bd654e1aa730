/* SPDX-License-Identifier: MIT */
/* What must hold between keys, once the whole file is read. */
#include "core/product.h"
#include "daemon/config_internal.h"

#include <errno.h>
#include <glib.h>
#include <string.h>

const char *kd_settings_fault(const struct kd_config *config, const struct kd_settings *settings,
                              char *ret_message, size_t size)
{
    if (settings->min_bars > settings->lookback) {
        g_snprintf(ret_message, size, "%zu, expected at most lookback, which is %zu",
                   settings->min_bars, settings->lookback);
        return "min_bars";
    }
    if (settings->lookback > config->limits.bars) {
        g_snprintf(ret_message, size, "%zu, expected at least lookback, which is %zu",
                   config->limits.bars, settings->lookback);
        return "bars";
    }
    return NULL;
}

/* Where the key was set that the section's settings depend on: in it, in general, or 0 for a
 * default. */
static unsigned line_of(const struct kd_config *config, const struct kd_section *section,
                        const char *key)
{
    for (size_t i = 0; i < kd_n_keys; i++) {
        if (strcmp(kd_keys[i].key, key) != 0)
            continue;
        if (section && section->lines[i])
            return section->lines[i];
        if (config->part->lines[i])
            return config->part->lines[i];
    }
    return 0;
}

static int refuse(const struct kd_config *config, unsigned line, const char *key,
                  const char *message, struct kr_error *error)
{
    if (line == 0)
        return kr_error_set(error, -EINVAL, "%s: %s: %s", config->path, key, message);
    return kr_error_set(error, -EINVAL, "%s:%u: %s: %s", config->path, line, key, message);
}

/* ---- endpoints ---- */

/* Two sockets cannot bind one address. */
static int check_binds(const struct kd_config *config, struct kr_error *error)
{
    const struct kd_list *lists[] = {&config->feed.bind, &config->publish.bind,
                                     &config->control.bind};
    static const char *const names[] = {"feed", "publish", "control"};

    for (size_t a = 0; a < KR_ARRAY_LENGTH(lists); a++)
        for (size_t b = a + 1; b < KR_ARRAY_LENGTH(lists); b++)
            for (size_t i = 0; i < lists[a]->n; i++)
                for (size_t j = 0; j < lists[b]->n; j++) {
                    const char *endpoint = lists[b]->items[j];
                    char message[KD_MESSAGE];
                    int key = kd_key_find(names[b], "bind");

                    if (g_str_has_suffix(endpoint, ":*") ||
                        strcmp(lists[a]->items[i], endpoint) != 0)
                        continue;
                    g_snprintf(message, sizeof(message), "%s: [%s] binds it already",
                               kd_shown(endpoint), names[a]);
                    return refuse(config, config->part->lines[key], "bind", message, error);
                }
    return 0;
}

static int check_feed(struct kd_config *config, struct kr_error *error)
{
    int connect = kd_key_find("feed", "connect"), bind = kd_key_find("feed", "bind");
    unsigned line = config->part->lines[connect];

    /* who binds and does not say `connect` wants publishers to come */
    if (config->feed.bind.n > 0 && line == 0)
        kd_value_free(&kd_keys[connect], &config->feed.connect);
    if (config->feed.connect.n + config->feed.bind.n == 0)
        return refuse(config, KR_MAX(line, config->part->lines[bind]), "connect",
                      "nothing, and no bind either: expected an endpoint to take bars from", error);
    return 0;
}

/* ---- calendars ---- */

/* "sessions: expected ..." without the name, which the line has already. */
static const char *behind_name(const char *text)
{
    const char *colon = strstr(text, ": ");

    return colon ? colon + 2 : text;
}

/* Each key of a calendar alone, so that the error can name its line. */
static int check_parts(struct kd_config *config, const struct kd_section *section,
                       struct kr_error *error)
{
    static const char *const keys[] = {"timezone", "sessions", "weekdays", "holidays"};
    const struct kd_values *values = &section->values;
    const char *const set[] = {values->timezone, values->sessions, values->weekdays,
                               values->holidays};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(keys); i++) {
        const char *parts[] = {"UTC", "", "", ""};
        struct kr_error inner = {""};

        if (!set[i])
            continue;
        parts[i] = set[i];
        if (kd_calendar_check(parts[0], parts[1], parts[2], parts[3], &inner) == -EINVAL)
            return refuse(config, line_of(config, section, keys[i]), keys[i],
                          behind_name(inner.text), error);
    }
    return 0;
}

static int check_section(struct kd_config *config, const struct kd_section *section,
                         struct kr_error *error)
{
    struct kd_settings settings;
    struct kr_error inner = {""};
    char message[KD_MESSAGE];
    const char *key;
    int result;

    if (section) {
        result = check_parts(config, section, error);
        if (result < 0)
            return result;
    }
    result = kd_config_resolve(config, section, &settings, &inner);
    if (result < 0)
        return refuse(config, line_of(config, section, "calendar"), "calendar", inner.text, error);
    key = kd_settings_fault(config, &settings, message, sizeof(message));
    if (!key)
        return 0;
    /* the key that was set, if the other one is a default */
    if (line_of(config, section, key) == 0 && line_of(config, section, "lookback") != 0) {
        char longer[KD_MESSAGE + 32];

        g_snprintf(longer, sizeof(longer), "%s is %s", key, message);
        return refuse(config, line_of(config, section, "lookback"), "lookback", longer, error);
    }
    return refuse(config, line_of(config, section, key), key, message, error);
}

/* What this processor cannot do is refused here, not when the model is loaded. */
static int check_products(const struct kd_config *config, struct kr_error *error)
{
    const struct kr_products *products;
    struct kr_error inner = {""};
    const char *key;
    int line;

    if (kr_products_choose((enum kr_matmul)config->model.matmul,
                           (enum kr_precision)config->model.precision, &products, &inner) == 0)
        return 0;
    key = g_str_has_prefix(inner.text, "matmul") ? "matmul" : "precision";
    line = kd_key_find("model", key);
    return refuse(config, config->part->lines[line], key, behind_name(inner.text), error);
}

int kd_config_check(struct kd_config *config, struct kr_error *error)
{
    struct kd_sections *sections = config->part->fixed;
    int result = check_feed(config, error);

    if (result == 0)
        result = check_binds(config, error);
    if (result == 0)
        result = check_products(config, error);
    for (size_t i = 0; i < sections->n_calendars && result == 0; i++) {
        struct kd_section *section = &sections->calendars[i];

        result = check_parts(config, section, error);
    }
    if (result == 0)
        result = check_section(config, NULL, error);
    for (size_t i = 0; i < sections->n_streams && result == 0; i++)
        result = check_section(config, &sections->streams[i], error);
    return result;
}
