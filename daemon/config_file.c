/* SPDX-License-Identifier: MIT */
/* The ini file, line by line.
 *
 * inih splits lines into keys and values. Lines reach it through a reader of ours that counts them,
 * refuses what inih would cut or split silently (long lines, NUL bytes, indented sections) and
 * keeps the section's name whole: inih would shorten it to 49 characters and end it at the first
 * ']'. */
#include "daemon/config_internal.h"

#include <errno.h>
#include <glib.h>
#include <ini.h>
#include <string.h>

#define MAX_FILE_BYTES (1024 * 1024)
#define MAX_SECTION    200

struct parser {
    FILE *file;
    const char *path;
    kd_section_fn on_section;
    kd_entry_fn on_entry;
    void *context;
    unsigned line;             /* of the one handed out last, from 1 */
    size_t n_bytes;            /* read so far */
    bool indented;             /* that line begins with white space */
    bool has_key;              /* a key stood in this section: an indented line continues it */
    bool unsettled;            /* the line handed out last should have become an entry */
    char section[MAX_SECTION]; /* before the space */
    char name[MAX_SECTION];    /* behind it */
    unsigned section_line;
    int result;
    struct kr_error *error;
};

/* What inih skips: isspace() of the C locale, which is more than g_ascii_isspace(). */
static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

const char *kd_shown(const char *text)
{
    static char buffers[4][64];
    static unsigned next;
    char *shown = buffers[next++ % 4];
    size_t i;

    for (i = 0; text[i] && i < 60; i++)
        shown[i] = g_ascii_isprint(text[i]) ? text[i] : '?';
    strcpy(shown + i, text[i] ? "..." : "");
    return shown;
}

static int refuse(struct parser *parser, const char *what)
{
    parser->result =
        kr_error_set(parser->error, -EINVAL, "%s:%u: %s", parser->path, parser->line, what);
    return parser->result;
}

/* One physical line into `line`, without its end. Return: false at the end of the file or after an
 * error, which parser->result tells. */
static bool read_line(struct parser *parser, char *line, size_t size)
{
    size_t length = 0;
    bool comment = false, too_long = false;
    int c;

    while ((c = getc(parser->file)) != EOF) {
        if (++parser->n_bytes > MAX_FILE_BYTES) {
            parser->line++;
            refuse(parser, "the file is longer than 1 MiB");
            return false;
        }
        if (c == '\n')
            break;
        if (c == '\0') {
            parser->line++;
            refuse(parser, "a NUL byte: this is not a text file");
            return false;
        }
        if (length == strspn(line, " \t") && (c == '#' || c == ';'))
            comment = true;
        if (length + 1 < size) {
            line[length++] = (char)c;
            line[length] = '\0';
        } else
            too_long = true;
    }
    if (c == EOF && ferror(parser->file)) {
        parser->result = kr_error_set(parser->error, errno ? -errno : -EIO, "%s: %s", parser->path,
                                      strerror(errno ? errno : EIO));
        return false;
    }
    if (c == EOF && length == 0)
        return false;
    parser->line++;
    if (comment)
        line[0] = '\0';
    else if (too_long) {
        refuse(parser,
               "a line longer than 197 characters: continue a list on lines that begin with a "
               "space");
        return false;
    }
    return true;
}

/* The last ']' that ends the line or stands before white space. */
static const char *section_end(const char *text)
{
    for (; *text; text++)
        if (*text == ']' && (text[1] == '\0' || is_space(text[1])))
            return text;
    return NULL;
}

/* `text` begins behind the '['. */
static int take_section(struct parser *parser, const char *text)
{
    const char *end = section_end(text), *rest;
    size_t length, word;

    if (!end)
        return refuse(parser, "a section without its ]");
    rest = end + 1 + strspn(end + 1, " \t\r\f\v");
    if (*rest && *rest != ';' && *rest != '#')
        return refuse(parser, "text behind the ] of a section");
    text += strspn(text, " \t");
    while (end > text && is_space(end[-1]))
        end--;
    length = (size_t)KR_MAX(end - text, (ptrdiff_t)0);
    if (length == 0)
        return refuse(parser, "a section without a name");
    word = KR_MIN(strcspn(text, " \t"), length);
    g_strlcpy(parser->section, text, word + 1);
    text += word;
    text += strspn(text, " \t");
    g_strlcpy(parser->name, text, (size_t)KR_MAX(end - text, (ptrdiff_t)0) + 1);
    parser->section_line = parser->line;
    parser->has_key = false;
    parser->result = parser->on_section(parser->context, parser->line, parser->section,
                                        parser->name, parser->error);
    return parser->result;
}

/* Did inih make an entry of the line before? It reports what it could not split only at the end. */
static bool is_settled(struct parser *parser)
{
    if (parser->unsettled)
        refuse(parser, "expected `key = value` or `[section]`");
    return !parser->unsettled;
}

static char *read_for_inih(char *line, int size, void *stream)
{
    struct parser *parser = stream;
    char *text = line;

    /* two characters less: inih wants a line's end and its NUL */
    line[0] = '\0';
    if (parser->result < 0 || size < 16 || !is_settled(parser) ||
        !read_line(parser, line, (size_t)size - 2))
        return NULL;
    if (parser->line == 1 && strncmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    parser->indented = is_space(*text);
    while (is_space(*text))
        text++;
    if (*text == '[') {
        if (parser->indented)
            refuse(parser, "a space before a section");
        else
            take_section(parser, text + 1);
        if (parser->result < 0)
            return NULL;
    } else
        parser->unsettled = *text != '\0';
    strcat(line, "\n");
    return line;
}

static int take_entry(void *user, const char *section, const char *key, const char *value)
{
    struct parser *parser = user;
    bool continued = parser->indented && parser->has_key;

    /* inih's section is a shortened one */
    (void)section;
    parser->unsettled = false;
    if (parser->result < 0)
        return 0;
    if (parser->section_line == 0)
        return refuse(parser, "a key before the first [section]") == 0;
    parser->has_key = true;
    parser->result = parser->on_entry(parser->context, parser->line, parser->section, parser->name,
                                      key, value ? value : "", continued, parser->error);
    return parser->result == 0;
}

int kd_file_parse(FILE *file, const char *path, kd_section_fn on_section, kd_entry_fn on_entry,
                  void *context, struct kr_error *error)
{
    struct parser parser = {
        .file = file,
        .path = path,
        .on_section = on_section,
        .on_entry = on_entry,
        .context = context,
        .error = error,
    };
    errno = 0;
    if (ini_parse_stream(read_for_inih, &parser, take_entry, &parser) < 0 && parser.result == 0)
        return kr_error_set(error, -ENOMEM, "%s: out of memory", path);
    return parser.result;
}
