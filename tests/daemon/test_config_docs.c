/* SPDX-License-Identifier: MIT */
/* The table of keys against the manual page, the sample file, the catalogue and the unit. */
#include "daemon/config_internal.h"
#include "daemon/log.h"
#include "tests/daemon/config_files.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

/* The text of a roff page without its macros and escapes, white space as single spaces; a section's
 * heading becomes "<<heading>>", a tag "<key>". */
static char *plain(const char *roff)
{
    char *text = calloc(2, strlen(roff) + 16), *out = text;

    if (!text)
        abort();
    for (const char *line = roff; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t n = strcspn(line, "\n");
        bool heading = strncmp(line, ".SS ", 4) == 0, tag = strncmp(line, ".B ", 3) == 0;

        if (line[0] == '.' && !heading && !tag)
            continue;
        out += sprintf(out, "%s", heading ? "<<" : tag ? "<" : "");
        for (size_t i = heading ? 4 : tag ? 3 : 0; i < n; i++)
            if (line[i] != '\\' && !(heading && line[i] == '"'))
                *out++ = line[i];
        out += sprintf(out, "%s", heading ? ">> " : tag ? "> " : " ");
    }
    return text;
}

static const char *yes(unsigned flag)
{
    return flag ? "yes" : "no";
}

static const char *heading_of(const char *section)
{
    if (strcmp(section, "calendar") == 0)
        return "<<[calendar NAME]>>";
    if (strcmp(section, "stream") == 0)
        return "<<[stream PATTERN]>>";
    return NULL;
}

static void manual(void)
{
    char *roff = kt_read(kt_source("../etc/man/kronosd.conf.5")), *text;

    CU_ASSERT_PTR_NOT_NULL_FATAL(roff);
    text = plain(roff);
    for (size_t i = 0; i < kd_n_keys; i++) {
        const struct kd_key *key = &kd_keys[i];
        char heading[64], entry[2048], allowed[512];
        const char *section, *end, *found;

        snprintf(heading, sizeof(heading), "<<[%s]>>", key->section);
        section = strstr(text, heading_of(key->section) ? heading_of(key->section) : heading);
        KT_CHECK(section != NULL, "no section [%s]", key->section);
        if (!section)
            continue;
        kd_key_allowed(key, allowed, sizeof(allowed));
        snprintf(entry, sizeof(entry),
                 "<%s> %s. Default: %s. Allowed: %s. Reload: %s. Per stream: %s.", key->key,
                 key->doc, *key->fallback ? key->fallback : "empty", allowed,
                 yes(key->flags & KD_RELOAD), yes(key->flags & KD_STREAM));
        found = strstr(section, entry);
        end = strstr(section + 2, "<<");
        KT_CHECK(found && (!end || found < end), "[%s] lacks: %s", key->section, entry);
    }
    free(text);
    free(roff);
}

/* `#key = value` and `#[section]` uncommented; `# text` stays a comment. */
static void uncomment(char *text)
{
    for (char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
        if (line[0] == '#' && (line[1] == '[' || (line[1] >= 'a' && line[1] <= 'z')))
            memmove(line, line + 1, strlen(line));
}

static char *print(const struct kd_config *config)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    CU_ASSERT_EQUAL(kd_config_print(config, out), 0);
    fclose(out);
    return text;
}

static void sample(void)
{
    char *text = kt_read(kt_source("../etc/kronosd.conf")), *printed, *expected;
    struct kd_config *config, *defaults = NULL;
    struct kd_changes changes;
    struct kd_settings s;

    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    CU_ASSERT_EQUAL_FATAL(kd_config_load(NULL, &defaults, NULL), 0);
    expected = print(defaults);
    /* as it is: everything commented out but the sections */
    config = kt_config_load(text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(config);
    for (size_t i = 0; i < kd_n_keys; i++)
        KT_CHECK(!kd_config_is_set(config, kd_keys[i].section, kd_keys[i].key), "%s is set",
                 kd_keys[i].key);
    printed = print(config);
    CU_ASSERT_STRING_EQUAL(printed, expected);
    free(printed);
    kd_config_free(&config);
    /* with every key set to what it shows */
    uncomment(text);
    config = kt_config_load(text);
    CU_ASSERT_PTR_NOT_NULL_FATAL(config);
    for (size_t i = 0; i < kd_n_keys; i++) {
        const struct kd_key *key = &kd_keys[i];
        bool in_section = strcmp(key->section, "stream") == 0
                              ? config->part->fixed->streams[0].lines[i] != 0
                          : strcmp(key->section, "calendar") == 0
                              ? config->part->fixed->calendars[0].lines[i] != 0
                              : kd_config_is_set(config, key->section, key->key);

        KT_CHECK(in_section, "[%s] %s is not in the sample", key->section, key->key);
    }
    printed = print(config);
    KT_CHECK(strncmp(printed, expected, strlen(expected)) == 0,
             "the sample is not the defaults:\n%s", printed);
    free(printed);
    kd_config_reload(&defaults, &config, &changes);
    CU_ASSERT_STRING_EQUAL(changes.applied, "stream *.allow");
    CU_ASSERT_EQUAL(kd_config_stream(defaults, "X", "1m", &s, NULL), 0);
    CU_ASSERT_TRUE(s.allow);
    kd_settings_free(&s);
    free(expected);
    free(text);
    kd_config_free(&defaults);
}

/* The sample's comments tell what the table tells. */
static void sample_comments(void)
{
    char *text = kt_read(kt_source("../etc/kronosd.conf"));
    char *joined;
    size_t n = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    joined = calloc(1, strlen(text) + 1);
    for (const char *c = text, *line = text; *c; c++) {
        bool comment = strncmp(line, "# ", 2) == 0;

        if (*c == '\n')
            line = c + 1;
        if (comment && strncmp(c, "\n# ", 3) == 0) {
            joined[n++] = ' ';
            c += 2;
        } else
            joined[n++] = *c;
    }
    for (size_t i = 0; i < kd_n_keys; i++) {
        const struct kd_key *key = &kd_keys[i];
        char entry[2048], allowed[512];

        kd_key_allowed(key, allowed, sizeof(allowed));
        snprintf(entry, sizeof(entry), "%s. Allowed: %s. Reload: %s. Per stream: %s.\n#%s =%s%s\n",
                 key->doc, allowed, yes(key->flags & KD_RELOAD), yes(key->flags & KD_STREAM),
                 key->key, *key->fallback ? " " : "", key->fallback);
        KT_CHECK(strstr(joined, entry) != NULL, "the sample lacks: %s", entry);
    }
    free(joined);
    free(text);
}

static void table(void)
{
    for (size_t i = 0; i < kd_n_keys; i++) {
        const struct kd_key *key = &kd_keys[i];

        CU_ASSERT_EQUAL(kd_key_find(key->section, key->key), (int)i);
        KT_CHECK(strlen(key->doc) > 20 && key->doc[strlen(key->doc) - 1] != '.', "%s: doc",
                 key->key);
        KT_CHECK(key->type != KD_CHOICE || key->choices, "%s: choices", key->key);
        KT_CHECK((key->type != KD_COUNT && key->type != KD_BYTES && key->type != KD_DURATION) ||
                     (key->max > key->min && key->unit),
                 "%s: range and unit", key->key);
        if (key->flags & KD_STREAM)
            CU_ASSERT_EQUAL(kd_key_find("stream", key->key), (int)i);
    }
}

static void catalogue(void)
{
    char *text = kt_read(kt_source("../etc/kronosd.catalog"));
    size_t n = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    for (int i = 0; i < KD_MSGS; i++) {
        const char *id = kd_message_id((enum kd_message)i), *entry;
        char line[64];

        if (!id)
            continue;
        n++;
        CU_ASSERT_EQUAL(strlen(id), 32);
        CU_ASSERT_EQUAL(strspn(id, "0123456789abcdef"), 32);
        snprintf(line, sizeof(line), "-- %s\nSubject: ", id);
        entry = strstr(text, line);
        KT_CHECK(entry != NULL, "the catalogue lacks %s (%s)", id,
                 kd_message_name((enum kd_message)i));
        for (int j = 0; j < i; j++)
            CU_ASSERT_FALSE(kd_message_id((enum kd_message)j) &&
                            strcmp(kd_message_id((enum kd_message)j), id) == 0);
    }
    for (const char *c = text; (c = strstr(c, "\n-- ")); c++)
        n--;
    CU_ASSERT_EQUAL(n, 0);
    free(text);
}

/* Every kind of message stands in kronosd(8). */
static void daemon_page(void)
{
    char *text = kt_read(kt_source("../etc/man/kronosd.8"));

    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    for (int i = 0; i < KD_MSGS; i++) {
        char tag[64];

        snprintf(tag, sizeof(tag), "\n.B %s\n", kd_message_name((enum kd_message)i));
        KT_CHECK(strstr(text, tag) != NULL, "kronosd.8 lacks %s",
                 kd_message_name((enum kd_message)i));
    }
    free(text);
}

static void pages_format(void)
{
    static const char *const pages[] = {"kronosd.8", "kronosd.conf.5"};

    if (system("command -v groff >/dev/null 2>&1") != 0) {
        kt_skip("groff is not installed");
        return;
    }
    for (size_t i = 0; i < KR_ARRAY_LENGTH(pages); i++) {
        char command[2048], line[256] = "", name[64];
        FILE *out;

        snprintf(name, sizeof(name), "../etc/man/%s", pages[i]);
        snprintf(command, sizeof(command), "groff -man -Tascii -ww -z '%s' 2>&1", kt_source(name));
        out = popen(command, "r");
        CU_ASSERT_PTR_NOT_NULL_FATAL(out);
        KT_CHECK(!fgets(line, sizeof(line), out), "%s", line);
        CU_ASSERT_EQUAL(pclose(out), 0);
    }
}

static void unit(void)
{
    const char *build = getenv("builddir");
    char path[1024], command[2048], line[512], *text;
    double exposure = -1;
    FILE *out;

    snprintf(path, sizeof(path), "%s/etc/systemd/kronosd.service", build ? build : ".");
    text = kt_read(path);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    KT_CHECK(!strstr(text, "@bindir") && !strstr(text, "@sysconfdir") && !strstr(text, "${"),
             "a placeholder is left in %s", path);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nType=notify\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nEnvironment=OPENBLAS_NUM_THREADS=1\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nSystemCallFilter=sched_setscheduler\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "\nStateDirectory=kronosd\n"));
    free(text);
    if (system("systemd-analyze security --help 2>/dev/null | grep -q -- --offline") != 0) {
        kt_skip("no systemd-analyze security --offline here");
        return;
    }
    snprintf(command, sizeof(command),
             "systemd-analyze security --offline=true --no-pager '%s' 2>&1", path);
    out = popen(command, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    while (fgets(line, sizeof(line), out))
        sscanf(line, "%*s Overall exposure level for kronosd.service: %lf", &exposure);
    pclose(out);
    kt_note("exposure level %.1f", exposure);
    CU_ASSERT(exposure >= 0 && exposure < 2.0);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"the table itself", table},
        {"each key in kronosd.conf(5)", manual},
        {"the sample file is the defaults", sample},
        {"the sample file's comments", sample_comments},
        {"each message in the catalogue", catalogue},
        {"each message in kronosd(8)", daemon_page},
        {"pages format without a warning", pages_format},
        {"the unit and its exposure", unit},
    };

    return kt_main("config_docs", tests, KR_ARRAY_LENGTH(tests));
}
