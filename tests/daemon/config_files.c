/* SPDX-License-Identifier: MIT */
#include "tests/daemon/config_files.h"
#include "tests/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *kt_config_write(const char *name, const char *text, size_t n)
{
    static char path[1024];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", kt_tmp(), name);
    file = fopen(path, "w");
    if (!file || fwrite(text, 1, n, file) != n || fclose(file) != 0)
        abort();
    return path;
}

struct kd_config *kt_config_load(const char *text)
{
    const char *path = kt_config_write("test.conf", text, strlen(text));
    struct kd_config *config = NULL;
    struct kr_error error = {""};
    int result = kd_config_load(path, &config, &error);

    KT_CHECK(result == 0, "refused: %s", error.text);
    return result == 0 ? config : NULL;
}

void kt_config_refused(const char *text, const char *message)
{
    const char *path = kt_config_write("test.conf", text, strlen(text));
    struct kd_config *config = NULL;
    struct kr_error error = {""};
    int result = kd_config_load(path, &config, &error);

    KT_CHECK(result < 0 && !config, "accepted, expected: %s", message);
    KT_CHECK(strncmp(error.text, path, strlen(path)) == 0 &&
                 strcmp(error.text + strlen(path), message) == 0,
             "expected FILE%s, found %s", message, error.text);
    kd_config_free(&config);
}

char *kt_read(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text;
    size_t n;

    if (!file)
        return NULL;
    text = calloc(1, 1 << 20);
    if (!text)
        abort();
    n = fread(text, 1, (1 << 20) - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}
