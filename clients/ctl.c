/* SPDX-License-Identifier: MIT */
#include "clients/ctl.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void kr_printf(2, 0) print_line(const char *prefix, const char *format, va_list arguments)
{
    char line[1024];

    vsnprintf(line, sizeof(line), format, arguments);
    for (char *c = line; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    fprintf(stderr, "%s: %s\n", prefix, line);
}

int kc_fail(int status, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_line("kronosctl", format, arguments);
    va_end(arguments);
    return status;
}

int kc_fail_about(int status, const char *name, const char *text)
{
    if (strncmp(text, name, strlen(name)) == 0)
        return kc_fail(status, "%s", text);
    return kc_fail(status, "%s: %s", name, text);
}

int kc_usage_error(char **argv, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    print_line(argv[0], format, arguments);
    va_end(arguments);
    return KC_USAGE;
}

int kc_check_symbol(char **argv, const char *symbol)
{
    if (kr_symbol_valid(symbol, strlen(symbol)))
        return 0;
    return kc_usage_error(argv,
                          "SYMBOL: expected 1 to 32 printable ASCII characters without space "
                          "and |, found \"%s\"",
                          symbol);
}

int kc_status_of(int code)
{
    switch (-code) {
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case ELOOP:
    case ENAMETOOLONG:
        return KC_NO_INPUT;
    case ENOMEM:
    case EOVERFLOW:
        return KC_SYSTEM;
    default:
        return KC_DATA;
    }
}

/* Numbers from text */

bool kc_read_integer(const char *text, int64_t *ret)
{
    char *end;
    long long value;

    if (*text != '-' && (*text < '0' || *text > '9'))
        return false;
    errno = 0;
    value = strtoll(text, &end, 10);
    if (errno || end == text || *end)
        return false;
    *ret = value;
    return true;
}

bool kc_read_number(const char *text, double *ret)
{
    char *end;
    double value;

    if (!*text || text[strspn(text, "+-.0123456789eE")])
        return false; /* no hexadecimal, no words, no white space */
    value = strtod(text, &end);
    if (end == text || *end || !isfinite(value))
        return false;
    *ret = value;
    return true;
}

static bool read_seed(const char *text, uint64_t *ret)
{
    bool hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    char *end;
    unsigned long long value;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, hexadecimal ? 16 : 10);
    if (errno || end == text || *end)
        return false;
    *ret = value;
    return true;
}

bool kc_read_duration(const char *text, int64_t *ret_ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"", 1e9}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
    size_t digits = strspn(text, ".0123456789");
    char number[24];
    double value;

    if (digits == 0 || digits >= sizeof(number))
        return false;
    memcpy(number, text, digits);
    number[digits] = '\0';
    for (size_t u = 0; u < KR_ARRAY_LENGTH(units); u++) {
        if (strcmp(text + digits, units[u].unit) != 0)
            continue;
        if (!kc_read_number(number, &value) || value * units[u].ns > 1e9 * 86400 * 366)
            return false;
        *ret_ns = (int64_t)(value * units[u].ns);
        return true;
    }
    return false;
}

/* Options. argp finds them; what stands behind them is checked here. */

struct parse {
    const struct kc_usage *usage;
    char **argv;
    const char **arguments;
    size_t n;
};

#define FIRST_KEY 0x100 /* above all characters: no short options */

static const char *range_text(const struct kc_option *option, char text[120])
{
    char low[KC_NUMBER_TEXT], high[KC_NUMBER_TEXT];
    const char *what = option->kind == KC_COUNT ? "a whole number" : "a number";

    kc_write_number(low, option->min);
    kc_write_number(high, option->max);
    if (isinf(option->max))
        snprintf(text, 120, "%s from %s", what, low);
    else
        snprintf(text, 120, "%s %s to %s", what, low, high);
    return text;
}

static const char *choice_text(const struct kc_option *option, char text[120])
{
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; option->choices[i] && length < 100; i++)
        length +=
            (size_t)snprintf(text + length, 120 - length, "%s%s", i ? "|" : "", option->choices[i]);
    return text;
}

static bool set_number(const struct kc_option *option, const char *value)
{
    int64_t integer;
    double number;

    if (option->kind == KC_COUNT) {
        if (!kc_read_integer(value, &integer) || (double)integer < option->min ||
            (double)integer > option->max)
            return false;
        *(size_t *)option->target = (size_t)integer;
        return true;
    }
    if (!kc_read_number(value, &number) || number < option->min || number > option->max)
        return false;
    *(double *)option->target = number;
    return true;
}

static bool set_choice(const struct kc_option *option, const char *value)
{
    for (size_t i = 0; option->choices[i]; i++) {
        if (strcmp(value, option->choices[i]) == 0) {
            *(size_t *)option->target = i;
            return true;
        }
    }
    return false;
}

static bool endpoint_valid(const char *value)
{
    static const char *const schemes[] = {"tcp://", "ipc://", "inproc://"};

    for (size_t i = 0; i < KR_ARRAY_LENGTH(schemes); i++)
        if (strncmp(value, schemes[i], strlen(schemes[i])) == 0 && value[strlen(schemes[i])])
            return true;
    return false;
}

/* Return: NULL, or what was expected. */
static const char *set_option(const struct kc_option *option, const char *value, char text[120])
{
    switch (option->kind) {
    case KC_FLAG:
        *(bool *)option->target = true;
        return NULL;
    case KC_TEXT:
        *(const char **)option->target = value;
        return NULL;
    case KC_COUNT:
    case KC_NUMBER:
        return set_number(option, value) ? NULL : range_text(option, text);
    case KC_SEED:
        return read_seed(value, option->target) ? NULL : "a whole number 0 to 2^64 - 1";
    case KC_INTEGER:
        return kc_read_integer(value, option->target) ? NULL : "a whole number";
    case KC_CHOICE:
        return set_choice(option, value) ? NULL : choice_text(option, text);
    case KC_INTERVAL:
        return kr_interval_parse(value, option->target) == 0 ? NULL
                                                             : "an interval like 30s, 5m, 1h, 1d";
    case KC_DURATION:
        return kc_read_duration(value, option->target) ? NULL : "a duration like 500ms, 10s, 2m";
    case KC_SYMBOL:
        if (!kr_symbol_valid(value, strlen(value)))
            return "a symbol: 1 to 32 printable ASCII characters without space and |";
        *(const char **)option->target = value;
        return NULL;
    case KC_ENDPOINT:
        if (!endpoint_valid(value))
            return "an endpoint like tcp://127.0.0.1:7410";
        *(const char **)option->target = value;
        return NULL;
    }
    return "nothing";
}

/* Every --output is -o too. */
static int key_of(const struct kc_usage *usage, size_t i)
{
    return strcmp(usage->options[i].name, "output") == 0 ? 'o' : FIRST_KEY + (int)i;
}

static error_t parse_one(int key, char *argument, struct argp_state *state)
{
    struct parse *parse = state->input;
    const struct kc_usage *usage = parse->usage;
    const struct kc_option *option;
    char text[120];
    const char *expected;
    size_t at = 0;

    switch (key) {
    case ARGP_KEY_INIT:
        /* getopt prints its line; argp's second line, the hint, is not wanted. */
        state->err_stream = NULL;
        return 0;
    case ARGP_KEY_ARG:
        if (parse->n >= usage->max_arguments)
            exit(kc_usage_error(parse->argv, "unexpected argument \"%s\"", argument));
        parse->arguments[parse->n++] = argument;
        return 0;
    case ARGP_KEY_END:
        if (parse->n < usage->min_arguments)
            exit(kc_usage_error(parse->argv, "expected %s, found %s", usage->arguments,
                                parse->n ? "fewer" : "none"));
        return 0;
    }
    while (at < usage->n_options && key_of(usage, at) != key)
        at++;
    if (at == usage->n_options)
        return ARGP_ERR_UNKNOWN;
    option = &usage->options[at];
    expected = set_option(option, argument, text);
    if (expected)
        exit(kc_usage_error(parse->argv, "--%s: expected %s, found \"%s\"", option->name, expected,
                            argument));
    if (option->given)
        *option->given = true;
    return 0;
}

void kc_parse(int argc, char **argv, const struct kc_usage *usage, const char **ret_arguments,
              size_t *ret_n)
{
    struct parse parse = {.usage = usage, .argv = argv, .arguments = ret_arguments};
    struct argp_option *options = calloc(usage->n_options + 1, sizeof(*options));
    struct argp argp = {
        .options = options, .parser = parse_one, .args_doc = usage->arguments, .doc = usage->doc};
    error_t error;

    if (!options)
        exit(kc_fail(KC_SYSTEM, "out of memory"));
    for (size_t i = 0; i < usage->n_options; i++)
        options[i] = (struct argp_option){.name = usage->options[i].name,
                                          .key = key_of(usage, i),
                                          .arg = usage->options[i].argument,
                                          .doc = usage->options[i].doc};
    error = argp_parse(&argp, argc, argv, 0, NULL, &parse);
    free(options);
    if (error) /* getopt said which option */
        exit(error == ENOMEM ? kc_fail(KC_SYSTEM, "out of memory") : KC_USAGE);
    if (ret_n)
        *ret_n = parse.n;
}

/* Text from numbers */

size_t kc_write_number(char ret[KC_NUMBER_TEXT], double value)
{
    int length = 0;

    for (int digits = 15; digits <= 17; digits++) {
        length = snprintf(ret, KC_NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(ret, NULL) == value)
            break;
    }
    return (size_t)length;
}

/* Output */

static bool is_stdout(const char *path)
{
    return !path || strcmp(path, "-") == 0;
}

int kc_open_output(const char *path, FILE **ret)
{
    FILE *file = is_stdout(path) ? stdout : fopen(path, "we");

    if (!file)
        return kc_fail(KC_OUTPUT, "%s: cannot be written: %s", path, strerror(errno));
    *ret = file;
    return 0;
}

int kc_close_output(const char *path, FILE **file)
{
    bool failed = fflush(*file) != 0 || ferror(*file);
    int code = errno;

    if (*file != stdout && fclose(*file) != 0 && !failed) {
        failed = true;
        code = errno;
    }
    *file = NULL;
    if (failed)
        return kc_fail(KC_OUTPUT, "%s: cannot be written: %s", is_stdout(path) ? "stdout" : path,
                       strerror(code));
    return 0;
}

int64_t kc_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}
