/* SPDX-License-Identifier: MIT */
/* What the commands of kronosctl share: the command table, options, exit statuses, errors of one line,
 * numbers as text.
 *
 * A command is one file cmd_<name>.c with one function. It describes its options in a table that names
 * kind, range and target of each; glibc's argp does the parsing, kc_parse() the conversion. A usage error
 * is one line on stderr and exit status 64. Nothing here calls setlocale(), so numbers are read and written
 * in the C locale whatever the environment says. */
#ifndef KC_CTL_H
#define KC_CTL_H

#include "core/bar.h"

#include <stdio.h>

/* Exit statuses: those of <sysexits.h>, with the meanings of kronosctl(1). */
enum kc_exit {
    KC_OK = 0,
    KC_USAGE = 64,
    KC_DATA = 65,        /* a bars or model file that is not what it claims */
    KC_NO_INPUT = 66,    /* no such file, folder or stream */
    KC_UNAVAILABLE = 69, /* the daemon does not answer */
    KC_SYSTEM = 71,      /* out of memory, a socket or a terminal that fails */
    KC_OUTPUT = 74,      /* the output cannot be written */
    KC_TIMEOUT = 75,
    KC_CONFIG = 78,
    KC_INTERRUPTED = 130, /* a signal ended it early */
};

#define KC_FEED_ENDPOINT    "tcp://127.0.0.1:7410"
#define KC_PUBLISH_ENDPOINT "tcp://127.0.0.1:7411"
#define KC_CONTROL_ENDPOINT "tcp://127.0.0.1:7412"

struct kc_command {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is "kronosctl NAME"; returns the exit status */
};

int kc_cmd_backtest(int argc, char **argv);
int kc_cmd_bench(int argc, char **argv);
int kc_cmd_control(int argc, char **argv); /* ping, version, reload, drain, reset, by argv[0] */
int kc_cmd_feed(int argc, char **argv);
int kc_cmd_forecast(int argc, char **argv);
int kc_cmd_load(int argc, char **argv);
int kc_cmd_plot(int argc, char **argv);
int kc_cmd_predict(int argc, char **argv);
int kc_cmd_simulate(int argc, char **argv);
int kc_cmd_snapshot(int argc, char **argv);
int kc_cmd_status(int argc, char **argv);
int kc_cmd_symbols(int argc, char **argv);
int kc_cmd_watch(int argc, char **argv);

/* Print "kronosctl: " and the line on stderr; line breaks in it become spaces. Return: `status`, so that
 * one can write `return kc_fail(KC_DATA, ...)`. */
int kc_fail(int status, const char *format, ...) kr_printf(2, 3);
/* The same for a text that may say itself what it is about: "name: text", once. */
int kc_fail_about(int status, const char *name, const char *text);
/* The exit status for a negative errno of libkronos: -ENOENT and the like 66, -EBADMSG, -ENOTSUP and
 * -EINVAL 65, -ENOMEM 71. */
int kc_status_of(int code);

/* What an option's value is, and what `target` points at. */
enum kc_kind {
    KC_FLAG,     /* bool; takes no value */
    KC_TEXT,     /* const char *, borrowed from argv */
    KC_COUNT,    /* size_t in min .. max */
    KC_SEED,     /* uint64_t, the whole range; decimal, or hexadecimal after 0x */
    KC_INTEGER,  /* int64_t, the whole range */
    KC_NUMBER,   /* double in min .. max */
    KC_CHOICE,   /* size_t, index into `choices` */
    KC_INTERVAL, /* struct kr_interval */
    KC_DURATION, /* int64_t ns, at least 0; "500ms", "10s", "2m", "1h" */
    KC_SYMBOL,   /* const char *, a valid symbol, borrowed from argv */
    KC_ENDPOINT, /* const char *, "tcp://..." or "ipc://..." or "inproc://..." */
};

struct kc_option {
    const char *name, *argument, *doc; /* argument: NULL for a flag */
    enum kc_kind kind;
    void *target; /* holds the default; written only if the option is given */
    double min, max;
    const char *const *choices; /* NULL-terminated */
    bool *given;                /* if not NULL, set true when the option is given */
};

struct kc_usage {
    const char *arguments, *doc; /* "[SYMBOL...]" or NULL; what the command does */
    const struct kc_option *options;
    size_t n_options;
    size_t min_arguments, max_arguments;
};

/* Parse a command's line. Positional arguments go to ret_arguments [usage->max_arguments] (may be NULL if
 * there can be none), their number to *ret_n. Does not return after --help (exit 0) or a usage error
 * (one line, exit 64). */
void kc_parse(int argc, char **argv, const struct kc_usage *usage, const char **ret_arguments,
              size_t *ret_n);

/* A usage error found later: one line "kronosctl NAME: ..." on stderr. Return: KC_USAGE. */
int kc_usage_error(char **argv, const char *format, ...) kr_printf(2, 3);

/* Is a positional argument a symbol? Return: 0, or KC_USAGE after the error line. */
int kc_check_symbol(char **argv, const char *symbol) kr_must_check;

/* Whole numbers and decimal fractions as the whole of `text`. Return: false, ret untouched. */
bool kc_read_integer(const char *text, int64_t *ret) kr_must_check;
bool kc_read_number(const char *text, double *ret) kr_must_check;
bool kc_read_duration(const char *text, int64_t *ret_ns) kr_must_check;

/* The shortest decimal text that reads back as the same double, e.g. "0.1"; nan and infinities in
 * words. Return: its length. */
#define KC_NUMBER_TEXT 32
size_t kc_write_number(char ret[KC_NUMBER_TEXT], double value);
/* Open `path` for writing, NULL or "-" for stdout. Return: 0, or KC_OUTPUT after the error line. */
int kc_open_output(const char *path, FILE **ret) kr_must_check;
/* Flush and close what kc_open_output() gave, and look for errors of all that was written. Return: 0, or
 * KC_OUTPUT after the error line. *file is NULL afterwards. */
int kc_close_output(const char *path, FILE **file) kr_must_check;

/* Monotonic clock, in ns. */
int64_t kc_now_ns(void);

#endif
