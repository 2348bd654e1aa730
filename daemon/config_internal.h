/* SPDX-License-Identifier: MIT */
/* What the files of the configuration share: the table of keys, one section's values, their text.
 */
#ifndef KD_CONFIG_INTERNAL_H
#define KD_CONFIG_INTERNAL_H

#include "daemon/config.h"

/* Room for the table; a test holds the number of keys against it. */
#define KD_MAX_KEYS 96
/* Room for what is wrong with a value. */
#define KD_MESSAGE 384
/* Longest value: what inih's line holds, times what a continued list may add. */
#define KD_MAX_VALUE 16384

enum kd_type {
    KD_BOOL,     /* bool: yes, no */
    KD_COUNT,    /* size_t */
    KD_NUMBER,   /* uint64_t, the whole range */
    KD_BYTES,    /* size_t with suffixes K, M, G, T */
    KD_DURATION, /* int64_t ns with a unit */
    KD_REAL,     /* double */
    KD_CHOICE,   /* an enum: index into choices + first */
    KD_TEXT,     /* char * */
    KD_PATH,     /* char *, resolved against the file's folder */
    KD_LIST,     /* struct kd_list: commas, spaces, continued lines */
    KD_LEVELS    /* settings.levels, n_levels */
};

/* What a list or text holds, checked when it is read. */
enum kd_content {
    KD_ANY,
    KD_BINDS,    /* endpoints that listen: loopback, ipc, inproc */
    KD_CONNECTS, /* endpoints */
    KD_GLOBS,    /* patterns of streams */
    KD_TOPICS
};

enum {
    KD_RELOAD = 1, /* a reload applies it */
    KD_STREAM = 2, /* [stream] sections override it; the offset is into struct kd_values */
    KD_AUTO = 4,   /* "auto" is stored as 0 */
    KD_LATER = 8,  /* known, but refused when set: `doc` says what it waits for */
    KD_NONEMPTY = 16
};

struct kd_key {
    const char *section, *key;
    enum kd_type type;
    unsigned flags;
    size_t offset;
    const char *fallback; /* the default as text */
    double min, max;
    const char *const *choices; /* NULL-terminated */
    unsigned first;
    enum kd_content content;
    const char *values; /* what a text may be */
    const char *unit;   /* NULL if none */
    const char *doc;    /* one sentence without a full stop */
};

extern const struct kd_key kd_keys[];
extern const size_t kd_n_keys;

/* Values of the keys with KD_STREAM: of the defaults, or those set in one section. */
struct kd_values {
    struct kd_settings settings; /* without its calendar */
    char *calendar, *timezone, *sessions, *weekdays, *holidays;
};

/* [stream PATTERN] or [calendar NAME]. */
struct kd_section {
    char *name;
    size_t line;
    struct kd_values values;
    unsigned lines[KD_MAX_KEYS]; /* of the key in the file; 0: not set here */
};

struct kd_sections {
    struct kd_section *streams, *calendars;
    size_t n_streams, n_calendars;
    struct kd_calendar **made; /* every calendar asked for so far */
    size_t n_made;
};

struct kd_config_part {
    struct kd_values base;
    unsigned lines[KD_MAX_KEYS];
    /* After a reload, keys that it cannot apply still come from the sections the daemon started
     * with. */
    struct kd_sections *fixed, *current; /* the same until then */
    char *folder;                        /* of the file, absolute; "" for none */
};

/* config_table.c */

/* Index of the key, or -1. */
int kd_key_find(const char *section, const char *key);
/* "whole number from 1 to 10,000 bars", "yes or no", ...: what is allowed, for messages and pages.
 */
void kd_key_allowed(const struct kd_key *key, char *ret, size_t size);
/* May this key stand in [stream PATTERN] or, with `calendar`, in [calendar NAME]? */
bool kd_key_in(const struct kd_key *key, const char *section);

/* config_value.c: one value and its text. `target` is the field itself. */

/* The field of a key in the configuration's own values. */
void *kd_key_field(struct kd_config *config, const struct kd_key *key);
/* The field of a KD_STREAM key. */
void *kd_values_field(struct kd_values *values, const struct kd_key *key);
/* Parse and check; on error `target` is as before and `ret_message` [size] names the value and what
 * is allowed. Return: 0, -EINVAL, -ENOMEM. */
int kd_value_parse(const struct kd_key *key, const char *text, const char *folder, void *target,
                   char *ret_message, size_t size) kr_must_check;
/* A bound of the key's range as the file would write it. */
void kd_bound_print(const struct kd_key *key, double bound, char *ret, size_t size);
/* Return: a string of the caller's, NULL without memory. List items are joined by `joint`. */
char *kd_value_print(const struct kd_key *key, const void *source, const char *joint);
/* Deep copy over what is there; and release. Return: 0, -ENOMEM (target as before). */
int kd_value_copy(const struct kd_key *key, const void *source, void *target) kr_must_check;
void kd_value_free(const struct kd_key *key, void *target);
bool kd_value_equal(const struct kd_key *key, const void *a, const void *b);
/* Exchange two fields of the same key. */
void kd_value_swap(const struct kd_key *key, void *a, void *b);

/* config_endpoint.c: NULL if well-formed, else what is wrong with it. */
const char *kd_endpoint_fault(const char *endpoint, bool bind);
const char *kd_glob_fault(const char *pattern);

/* config_file.c: the ini file, line by line. */

/* Called for each key in file order; `name` is the section's argument, "" if none; `continued`: the
 * line adds to the list of the key before. Return: 0, or a negative errno with the error set, which
 * ends the parse. */
typedef int (*kd_entry_fn)(void *context, unsigned line, const char *section, const char *name,
                           const char *key, const char *value, bool continued,
                           struct kr_error *error);
/* Called for each section line. */
typedef int (*kd_section_fn)(void *context, unsigned line, const char *section, const char *name,
                             struct kr_error *error);
/* Return: 0, a negative errno with its line. */
int kd_file_parse(FILE *file, const char *path, kd_section_fn on_section, kd_entry_fn on_entry,
                  void *context, struct kr_error *error) kr_must_check;
/* `text` for a message: printable, at most 60 characters, in one of four rotating buffers. */
const char *kd_shown(const char *text);

/* config_check.c: what holds between keys. */
int kd_config_check(struct kd_config *config, struct kr_error *error) kr_must_check;
/* min_bars against lookback and the like for one stream's settings. Return: the key to blame, with
 * ret_message [size] as of kd_value_parse(), or NULL if they agree. */
const char *kd_settings_fault(const struct kd_config *config, const struct kd_settings *settings,
                              char *ret_message, size_t size);

/* config_stream.c */

/* Settings with the section `only` alone over the defaults (NULL: none); the calendar is borrowed.
 * Return: 0, -EINVAL (its calendar), -ENOMEM. */
int kd_config_resolve(struct kd_config *config, const struct kd_section *only,
                      struct kd_settings *ret, struct kr_error *error) kr_must_check;

/* calendars.c */

/* Calendar with these values, made or found. Return: 0, -EINVAL (error names the part), -ENOMEM. */
int kd_calendar_get(struct kd_sections *sections, const char *name, const char *timezone,
                    const char *session, const char *weekdays, const char *holidays,
                    struct kd_calendar **ret, struct kr_error *error) kr_must_check;
/* Could a calendar be made of these? Return: 0, -EINVAL (error names the part), -ENOMEM. */
int kd_calendar_check(const char *timezone, const char *sessions, const char *weekdays,
                      const char *holidays, struct kr_error *error) kr_must_check;
/* The four values of a built-in calendar ("24x7", "weekdays"). Return: false for another name. */
bool kd_calendar_builtin(const char *name, const char **ret_timezone, const char **ret_sessions,
                         const char **ret_weekdays, const char **ret_holidays);

/* config.c */
void kd_sections_free(struct kd_sections **sections);

#endif
