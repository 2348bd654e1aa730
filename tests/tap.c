/* SPDX-License-Identifier: MIT */
#include "tests/tap.h"

#include <CUnit/TestRun.h>
#include <CUnit/TestDB.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char skip_reason[256];
static unsigned n_done, n_failed;
static char tmp_folder[64];

void kt_note(const char *format, ...)
{
    va_list arguments;

    printf("# ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
}

void kt_skip(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(skip_reason, sizeof(skip_reason), format, arguments);
    va_end(arguments);
}

static const char *in_source(const char *folder, const char *relative)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];
    const char *source = getenv("srcdir");

    snprintf(path, sizeof(paths[0]), "%s/%s/%s", source ? source : ".", folder, relative);
    return path;
}

const char *kt_source(const char *relative)
{
    return in_source("tests", relative);
}

const char *kt_shared(const char *relative)
{
    const char *path = in_source("../shared", relative);

    return access(path, R_OK) == 0 ? path : NULL;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

static pid_t tmp_owner;

static void remove_tmp(void)
{
    if (tmp_folder[0] && getpid() == tmp_owner) /* not from a forked child */
        nftw(tmp_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *kt_tmp(void)
{
    if (!tmp_folder[0]) {
        strcpy(tmp_folder, "/tmp/kronos-test-XXXXXX");
        if (!mkdtemp(tmp_folder))
            abort();
        tmp_owner = getpid();
        atexit(remove_tmp);
    }
    return tmp_folder;
}

static void on_complete(const CU_pTest test, const CU_pSuite suite, const CU_pFailureRecord failure)
{
    (void)suite;
    n_done++;
    for (CU_pFailureRecord record = failure; record; record = record->pNext)
        printf("# %s:%u: %s\n", record->strFileName, record->uiLineNumber, record->strCondition);
    if (failure)
        n_failed++;
    printf("%s %u - %s%s%s\n", failure ? "not ok" : "ok", n_done, test->pName,
           skip_reason[0] ? " # SKIP " : "", skip_reason);
    skip_reason[0] = '\0';
    fflush(stdout);
}

int kt_main(const char *suite, const struct kt_test *tests, size_t n)
{
    CU_pSuite registered;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 99;
    registered = CU_add_suite(suite, NULL, NULL);
    for (size_t i = 0; i < n; i++)
        if (!registered || !CU_add_test(registered, tests[i].name, tests[i].run))
            return 99;
    printf("1..%zu\n", n);
    CU_set_test_complete_handler(on_complete);
    CU_run_all_tests();
    CU_cleanup_registry();
    return n_failed || n_done != n;
}
