/* SPDX-License-Identifier: MIT */
/* CUnit suites reported as TAP: one process a module, one TAP line a test, each failed assertion as a
 * diagnostic. Include it in a test's only .c file, list the tests, return kt_main() from main(). */
#ifndef KT_TAP_H
#define KT_TAP_H

#include <CUnit/CUnit.h>
#include <stdbool.h>
#include <stddef.h>

struct kt_test {
    const char *name;
    void (*run)(void);
};

/* Run the tests in order. Return: the exit status, 0 if all passed. */
int kt_main(const char *suite, const struct kt_test *tests, size_t n);

/* A `# ...` diagnostic line, shown in the log. */
void kt_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Mark the running test as skipped, with the reason; return from it afterwards. */
void kt_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A file below tests/ of the source tree ("golden/pico"), whatever the build folder. Static buffer of
 * eight rotating entries. */
const char *kt_source(const char *relative);

/* A file of the shared folder beside the checkout ("bars/ETHBTC-5m.csv"), or NULL where there is none. */
const char *kt_shared(const char *relative);

/* A fresh folder for this process, removed with all that it holds when kt_main() ends. */
const char *kt_tmp(void);

/* CU_ASSERT with a message: the condition, then printf arguments. */
#define KT_CHECK(condition, ...)                                                                   \
    do {                                                                                           \
        bool kt_ok_ = (condition);                                                                 \
        if (!kt_ok_)                                                                               \
            kt_note(__VA_ARGS__);                                                                  \
        CU_assertImplementation(kt_ok_, __LINE__, #condition, __FILE__, "", CU_FALSE);             \
    } while (0)

#endif
