/* SPDX-License-Identifier: MIT */
#include "clients/single.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kw_single_openblas(char **argv)
{
    const char *threads = getenv("OPENBLAS_NUM_THREADS");

    if (threads && strcmp(threads, "1") == 0)
        return;
    if (setenv("OPENBLAS_NUM_THREADS", "1", 1) == 0)
        execv("/proc/self/exe", argv); /* if it fails: as we are */
}
