/* SPDX-License-Identifier: MIT */
/* Running the real kronosctl from a test: its output, its errors, its exit status. */
#ifndef KT_RUN_H
#define KT_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct kt_run {
    int status;      /* exit status; 128 + signal if one ended it */
    char *out, *err; /* stdout, stderr, terminated; kt_run_free() */
    size_t out_bytes;
    long peak_kb; /* largest resident set */
};

/* Arguments behind "kronosctl", ended by NULL. `input`: stdin, NULL: empty. Aborts if it cannot be run: the
 * test's own failure. */
struct kt_run kt_run(const char *input, const char *const *arguments);
void kt_run_free(struct kt_run *run);
#define KT_RUN(...) kt_run(NULL, (const char *const[]){__VA_ARGS__, NULL})

/* The same in two steps, for something to happen meanwhile. */
struct kt_child {
    pid_t pid;
    int pidfd; /* readable once it has ended */
    int input; /* its stdin, to be written and closed; -1 once closed */
    char out_path[512], err_path[512];
};
struct kt_child kt_start(const char *const *arguments);
#define KT_START(...) kt_start((const char *const[]){__VA_ARGS__, NULL})
void kt_write(struct kt_child *child, const char *text);
void kt_close_input(struct kt_child *child);
/* Wait for its end, closing its stdin. */
struct kt_run kt_finish(struct kt_child *child);
/* Has it ended within that time? */
bool kt_ended(const struct kt_child *child, int timeout_ms);

/* Path of the program. */
const char *kt_kronosctl(void);

/* One line, ended by the only newline. */
bool kt_one_line(const char *text);

#endif
