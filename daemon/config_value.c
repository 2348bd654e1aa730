/* SPDX-License-Identifier: MIT */
/* One value of the configuration: from text, to text, copied, compared. */
#include "daemon/config_internal.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct suffix {
    const char *text;
    uint64_t factor;
};

/* Largest first: printing takes the first that divides. */
static const struct suffix size_suffixes[] = {{"T", UINT64_C(1) << 40},
                                              {"G", UINT64_C(1) << 30},
                                              {"M", UINT64_C(1) << 20},
                                              {"K", UINT64_C(1) << 10},
                                              {"", 1}};
static const struct suffix time_suffixes[] = {{"h", UINT64_C(3600000000000)},
                                              {"m", UINT64_C(60000000000)},
                                              {"s", UINT64_C(1000000000)},
                                              {"ms", UINT64_C(1000000)},
                                              {"us", UINT64_C(1000)}};

/* ---- numbers as text ---- */

static bool parse_u64(const char *text, const char **ret_end, uint64_t *ret)
{
    uint64_t n = 0;

    if (!g_ascii_isdigit(*text))
        return false;
    for (; g_ascii_isdigit(*text); text++)
        if (__builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*text - '0'), &n))
            return false;
    *ret_end = text;
    *ret = n;
    return true;
}

static bool parse_suffixed(const char *text, const struct suffix *suffixes, size_t n_suffixes,
                           uint64_t *ret)
{
    uint64_t n;

    if (!parse_u64(text, &text, &n))
        return false;
    for (size_t i = 0; i < n_suffixes; i++)
        if (strcmp(text, suffixes[i].text) == 0)
            return !__builtin_mul_overflow(n, suffixes[i].factor, ret);
    return false;
}

static bool parse_real(const char *text, double *ret)
{
    char *end;

    /* no hexadecimal, no infinity, no nan */
    if (text[0] == '\0' || strspn(text, "0123456789.eE+-") != strlen(text))
        return false;
    *ret = g_ascii_strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*ret);
}

static void print_suffixed(uint64_t n, const struct suffix *suffixes, size_t n_suffixes, char *ret,
                           size_t size)
{
    size_t i = 0;

    if (suffixes == size_suffixes && n < 65536)
        i = n_suffixes - 1; /* 4096 is read better than 4K */
    while (i + 1 < n_suffixes && (n == 0 || n % suffixes[i].factor != 0))
        i++;
    g_snprintf(ret, size, "%" PRIu64 "%s", n / suffixes[i].factor, suffixes[i].text);
}

/* The shortest text that reads back as the same number. */
static void print_real(double value, char *ret, size_t size)
{
    static const char *const formats[] = {"%.6g", "%.15g", "%.16g", "%.17g"};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(formats); i++) {
        g_ascii_formatd(ret, (int)size, formats[i], value);
        if (g_ascii_strtod(ret, NULL) == value)
            return;
    }
}

void kd_bound_print(const struct kd_key *key, double bound, char *ret, size_t size)
{
    if (key->type == KD_BYTES)
        print_suffixed((uint64_t)bound, size_suffixes, KR_ARRAY_LENGTH(size_suffixes), ret, size);
    else if (key->type == KD_DURATION)
        print_suffixed((uint64_t)bound, time_suffixes, KR_ARRAY_LENGTH(time_suffixes), ret, size);
    else if (key->type == KD_REAL)
        print_real(bound, ret, size);
    else
        g_snprintf(ret, size, "%" PRIu64, (uint64_t)bound);
}

/* ---- fields ---- */

void *kd_key_field(struct kd_config *config, const struct kd_key *key)
{
    if (key->flags & KD_STREAM)
        return kd_values_field(&config->part->base, key);
    return (char *)config + key->offset;
}

void *kd_values_field(struct kd_values *values, const struct kd_key *key)
{
    return (char *)values + key->offset;
}

static size_t field_size(const struct kd_key *key)
{
    switch (key->type) {
    case KD_BOOL:
        return sizeof(bool);
    case KD_COUNT:
    case KD_BYTES:
        return sizeof(size_t);
    case KD_NUMBER:
    case KD_DURATION:
        return sizeof(uint64_t);
    case KD_REAL:
        return sizeof(double);
    case KD_CHOICE:
        return sizeof(unsigned);
    case KD_TEXT:
    case KD_PATH:
        return sizeof(char *);
    case KD_LIST:
        return sizeof(struct kd_list);
    case KD_LEVELS:
        return sizeof(((struct kd_settings *)0)->levels);
    }
    return 0;
}

/* The count stands beside the levels, in the same settings. */
static size_t *level_count(const struct kd_key *key, const void *field)
{
    return (size_t *)((char *)(uintptr_t)field - key->offset +
                      offsetof(struct kd_values, settings.n_levels));
}

/* ---- parsing ---- */

static void free_items(struct kd_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct kd_list){0};
}

/* Split at commas and spaces. Return: 0, -EINVAL (too many), -ENOMEM. */
static int split(const char *text, struct kd_list *ret)
{
    static const char separators[] = ", \t";
    struct kd_list list = {0};
    int result = 0;

    list.items = calloc(KD_MAX_ITEMS, sizeof(*list.items));
    if (!list.items)
        return -ENOMEM;
    for (text += strspn(text, separators); *text; text += strspn(text, separators)) {
        size_t length = strcspn(text, separators);

        if (list.n == KD_MAX_ITEMS) {
            result = -EINVAL;
            break;
        }
        list.items[list.n] = strndup(text, length);
        if (!list.items[list.n]) {
            result = -ENOMEM;
            break;
        }
        list.n++;
        text += length;
    }
    if (result < 0) {
        free_items(&list);
        return result;
    }
    *ret = list;
    return 0;
}

static const char *item_fault(const struct kd_key *key, const char *item)
{
    switch (key->content) {
    case KD_BINDS:
        return kd_endpoint_fault(item, true);
    case KD_CONNECTS:
        return kd_endpoint_fault(item, false);
    case KD_GLOBS:
        return kd_glob_fault(item);
    case KD_TOPICS:
        return strlen(item) > 64 ? "a topic has at most 64 characters" : NULL;
    case KD_ANY:
        break;
    }
    return NULL;
}

static int parse_list(const struct kd_key *key, const char *text, struct kd_list *target,
                      char *ret_message, size_t size)
{
    struct kd_list list;
    int result = split(text, &list);

    if (result == -EINVAL)
        g_snprintf(ret_message, size, "%s: more than %d items", kd_shown(text), KD_MAX_ITEMS);
    if (result < 0)
        return result;
    for (size_t i = 0; i < list.n && result == 0; i++) {
        const char *fault = item_fault(key, list.items[i]);

        for (size_t j = 0; j < i && !fault; j++)
            if (strcmp(list.items[i], list.items[j]) == 0)
                fault = "it stands there twice";
        if (fault) {
            g_snprintf(ret_message, size, "%s: %s", kd_shown(list.items[i]), fault);
            result = -EINVAL;
        }
    }
    if (result == 0 && list.n == 0 && (key->flags & KD_NONEMPTY))
        result = -EINVAL;
    if (result < 0) {
        free_items(&list);
        return result;
    }
    free_items(target);
    *target = list;
    return 0;
}

static int parse_levels(const struct kd_key *key, const char *text, double *target)
{
    double levels[KD_MAX_LEVELS] = {0};
    struct kd_list list;
    int result = split(text, &list);

    if (result < 0)
        return result;
    if (list.n < 1 || list.n > KD_MAX_LEVELS)
        result = -EINVAL;
    for (size_t i = 0; i < list.n && result == 0; i++)
        if (!parse_real(list.items[i], &levels[i]) || !(levels[i] > 0 && levels[i] < 1) ||
            (i > 0 && !(levels[i] > levels[i - 1])))
            result = -EINVAL;
    if (result == 0) {
        memcpy(target, levels, sizeof(levels));
        *level_count(key, target) = list.n;
    }
    free_items(&list);
    return result;
}

static int parse_string(const struct kd_key *key, const char *text, const char *folder,
                        char **target)
{
    bool relative = key->type == KD_PATH && *text && *text != '/' && *folder;
    char *copy;

    if ((key->flags & KD_LATER) && *text)
        return -EINVAL;
    if ((key->flags & KD_NONEMPTY) && !*text)
        return -EINVAL;
    if (asprintf(&copy, "%s%s%s", relative ? folder : "", relative ? "/" : "", text) < 0)
        return -ENOMEM;
    free(*target);
    *target = copy;
    return 0;
}

static bool parse_whole(const struct kd_key *key, const char *text, uint64_t *ret)
{
    const char *end;
    bool ok;

    if ((key->flags & KD_AUTO) && strcmp(text, "auto") == 0) {
        *ret = 0;
        return true;
    }
    if (key->type == KD_BYTES)
        ok = parse_suffixed(text, size_suffixes, KR_ARRAY_LENGTH(size_suffixes), ret);
    else if (key->type == KD_DURATION)
        ok = parse_suffixed(text, time_suffixes, KR_ARRAY_LENGTH(time_suffixes), ret);
    else
        ok = parse_u64(text, &end, ret) && *end == '\0';
    if (key->type == KD_NUMBER)
        return ok;
    return ok && (double)*ret >= key->min && (double)*ret <= key->max;
}

static int parse_choice(const struct kd_key *key, const char *text, unsigned *target)
{
    for (unsigned i = 0; key->choices[i]; i++)
        if (strcmp(text, key->choices[i]) == 0) {
            *target = i + key->first;
            return 0;
        }
    return -EINVAL;
}

/* "VALUE, expected WHAT IS ALLOWED" */
static void say_allowed(const struct kd_key *key, const char *text, char *ret_message, size_t size)
{
    char allowed[KD_MESSAGE];

    kd_key_allowed(key, allowed, sizeof(allowed));
    if (key->flags & KD_LATER)
        g_snprintf(ret_message, size, "%s: refused: %s", kd_shown(text), key->doc);
    else
        g_snprintf(ret_message, size, "%s, expected %s", *text ? kd_shown(text) : "nothing",
                   allowed);
}

int kd_value_parse(const struct kd_key *key, const char *text, const char *folder, void *target,
                   char *ret_message, size_t size)
{
    uint64_t whole;
    double real;

    say_allowed(key, text, ret_message, size);
    switch (key->type) {
    case KD_BOOL:
        if (strcmp(text, "yes") != 0 && strcmp(text, "no") != 0)
            return -EINVAL;
        *(bool *)target = text[0] == 'y';
        return 0;
    case KD_COUNT:
    case KD_BYTES:
        if (!parse_whole(key, text, &whole))
            return -EINVAL;
        *(size_t *)target = (size_t)whole;
        return 0;
    case KD_NUMBER:
    case KD_DURATION:
        if (!parse_whole(key, text, &whole))
            return -EINVAL;
        *(uint64_t *)target = whole;
        return 0;
    case KD_REAL:
        if (!parse_real(text, &real) || real < key->min || real > key->max)
            return -EINVAL;
        *(double *)target = real;
        return 0;
    case KD_CHOICE:
        return parse_choice(key, text, target);
    case KD_TEXT:
    case KD_PATH:
        return parse_string(key, text, folder, target);
    case KD_LIST:
        return parse_list(key, text, target, ret_message, size);
    case KD_LEVELS:
        return parse_levels(key, text, target);
    }
    return -EINVAL;
}

/* ---- printing ---- */

static char *join(const struct kd_list *list, const char *joint)
{
    size_t size = 1;
    char *text;

    for (size_t i = 0; i < list->n; i++)
        size += strlen(list->items[i]) + strlen(joint);
    text = calloc(size, 1);
    for (size_t i = 0; text && i < list->n; i++) {
        g_strlcat(text, i ? joint : "", size);
        g_strlcat(text, list->items[i], size);
    }
    return text;
}

char *kd_value_print(const struct kd_key *key, const void *source, const char *joint)
{
    char text[KD_MAX_LEVELS * 26] = "";
    char number[32];

    switch (key->type) {
    case KD_BOOL:
        return strdup(*(const bool *)source ? "yes" : "no");
    case KD_COUNT:
    case KD_BYTES:
        if ((key->flags & KD_AUTO) && *(const size_t *)source == 0)
            return strdup("auto");
        if (key->type == KD_BYTES)
            print_suffixed(*(const size_t *)source, size_suffixes, KR_ARRAY_LENGTH(size_suffixes),
                           text, sizeof(text));
        else
            g_snprintf(text, sizeof(text), "%zu", *(const size_t *)source);
        break;
    case KD_NUMBER:
        g_snprintf(text, sizeof(text), "%" PRIu64, *(const uint64_t *)source);
        break;
    case KD_DURATION:
        print_suffixed(*(const uint64_t *)source, time_suffixes, KR_ARRAY_LENGTH(time_suffixes),
                       text, sizeof(text));
        break;
    case KD_REAL:
        print_real(*(const double *)source, text, sizeof(text));
        break;
    case KD_CHOICE:
        return strdup(key->choices[*(const unsigned *)source - key->first]);
    case KD_TEXT:
    case KD_PATH:
        return strdup(*(char *const *)source);
    case KD_LIST:
        return join(source, joint);
    case KD_LEVELS:
        for (size_t i = 0; i < *level_count(key, source); i++) {
            print_real(((const double *)source)[i], number, sizeof(number));
            g_strlcat(text, i ? joint : "", sizeof(text));
            g_strlcat(text, number, sizeof(text));
        }
        break;
    }
    return strdup(text);
}

/* ---- copying, comparing ---- */

int kd_value_copy(const struct kd_key *key, const void *source, void *target)
{
    if (key->type == KD_TEXT || key->type == KD_PATH) {
        char *copy = strdup(*(char *const *)source);

        if (!copy)
            return -ENOMEM;
        free(*(char **)target);
        *(char **)target = copy;
        return 0;
    }
    if (key->type == KD_LIST) {
        const struct kd_list *from = source;
        struct kd_list list = {calloc(KR_MAX(from->n, (size_t)1), sizeof(char *)), 0};

        for (; list.items && list.n < from->n; list.n++) {
            list.items[list.n] = strdup(from->items[list.n]);
            if (!list.items[list.n]) {
                free_items(&list);
                return -ENOMEM;
            }
        }
        if (!list.items)
            return -ENOMEM;
        free_items(target);
        *(struct kd_list *)target = list;
        return 0;
    }
    if (key->type == KD_LEVELS)
        *level_count(key, target) = *level_count(key, source);
    memcpy(target, source, field_size(key));
    return 0;
}

void kd_value_free(const struct kd_key *key, void *target)
{
    if (key->type == KD_TEXT || key->type == KD_PATH)
        kr_freep(target);
    else if (key->type == KD_LIST)
        free_items(target);
}

bool kd_value_equal(const struct kd_key *key, const void *a, const void *b)
{
    const struct kd_list *left = a, *right = b;

    if (key->type == KD_TEXT || key->type == KD_PATH)
        return strcmp(*(char *const *)a, *(char *const *)b) == 0;
    if (key->type == KD_LEVELS && *level_count(key, a) != *level_count(key, b))
        return false;
    if (key->type != KD_LIST)
        return memcmp(a, b, field_size(key)) == 0;
    if (left->n != right->n)
        return false;
    for (size_t i = 0; i < left->n; i++)
        if (strcmp(left->items[i], right->items[i]) != 0)
            return false;
    return true;
}

void kd_value_swap(const struct kd_key *key, void *a, void *b)
{
    size_t size = field_size(key);
    char scratch[sizeof(((struct kd_settings *)0)->levels)];
    size_t count;

    if (key->type == KD_LEVELS) {
        count = *level_count(key, a);
        *level_count(key, a) = *level_count(key, b);
        *level_count(key, b) = count;
    }
    memcpy(scratch, a, size);
    memcpy(a, b, size);
    memcpy(b, scratch, size);
}
