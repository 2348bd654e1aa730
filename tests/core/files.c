/* SPDX-License-Identifier: MIT */
#include "tests/core/files.h"

#include "tests/tap.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void need(bool condition, const char *what)
{
    if (condition)
        return;
    perror(what);
    abort();
}

const char *kt_path(const char *relative)
{
    static char paths[8][1024];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", kt_tmp(), relative);
    return path;
}

void kt_make_folder(const char *relative)
{
    char folder[1024];

    snprintf(folder, sizeof(folder), "%s/%s/", kt_tmp(), relative);
    for (char *slash = folder + strlen(kt_tmp()) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        need(mkdir(folder, 0777) == 0 || access(folder, W_OK) == 0, folder);
        *slash = '/';
    }
}

void kt_put(const char *path, const void *bytes, size_t n_bytes)
{
    FILE *stream = fopen(path, "we");

    need(stream != NULL, path);
    need(n_bytes == 0 || fwrite(bytes, 1, n_bytes, stream) == n_bytes, path);
    need(fclose(stream) == 0, path);
}

char *kt_get(const char *path, size_t *ret_n_bytes)
{
    FILE *stream = fopen(path, "re");
    char *bytes;
    long n = -1;

    need(stream && fseek(stream, 0, SEEK_END) == 0 && (n = ftell(stream)) >= 0, path);
    rewind(stream);
    bytes = malloc((size_t)n + 1);
    need(bytes && fread(bytes, 1, (size_t)n, stream) == (size_t)n, path);
    bytes[n] = '\0';
    fclose(stream);
    *ret_n_bytes = (size_t)n;
    return bytes;
}

unsigned char kt_poke(const char *path, size_t at, unsigned char byte)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    unsigned char former = 0;

    need(fd >= 0 && pread(fd, &former, 1, (off_t)at) == 1 && pwrite(fd, &byte, 1, (off_t)at) == 1,
         path);
    close(fd);
    return former;
}
