/* SPDX-License-Identifier: MIT */
/* What memory the system grants this process. */
#include "daemon/plan.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PATH 4096

static FILE *open_below(const char *root, const char *path)
{
    char full[MAX_PATH];

    if ((size_t)snprintf(full, sizeof(full), "%s%s", root ? root : "", path) >= sizeof(full))
        return NULL;
    return fopen(full, "re");
}

/* "123" -> 123; "max", or anything else -> SIZE_MAX. */
static size_t read_limit(const char *root, const char *path)
{
    FILE *file = open_below(root, path);
    char line[64] = "";
    size_t bytes = SIZE_MAX;

    if (!file)
        return SIZE_MAX;
    if (fgets(line, sizeof(line), file) && line[0] >= '0' && line[0] <= '9')
        bytes = strtoull(line, NULL, 10);
    fclose(file);
    return bytes;
}

/* The smallest memory.max from the process's own group up to the root. */
static size_t cgroup_limit(const char *root)
{
    FILE *file = open_below(root, "/proc/self/cgroup");
    char line[MAX_PATH / 2], group[MAX_PATH / 2] = "", path[MAX_PATH];
    size_t least = SIZE_MAX;

    if (!file)
        return SIZE_MAX;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            strcpy(group, line + 3);
        }
    fclose(file);
    if (!group[0])
        return SIZE_MAX;
    for (;;) {
        char *slash;

        snprintf(path, sizeof(path), "/sys/fs/cgroup%s%smemory.max", group,
                 group[strlen(group) - 1] == '/' ? "" : "/");
        least = KR_MIN(least, read_limit(root, path));
        slash = strrchr(group, '/');
        if (!slash || strcmp(group, "/") == 0)
            return least;
        slash[slash == group] = '\0'; /* "/a" -> "/", "/a/b" -> "/a" */
    }
}

static size_t available(const char *root)
{
    FILE *file = open_below(root, "/proc/meminfo");
    char line[256];
    size_t bytes = SIZE_MAX;
    unsigned long long kib;

    if (!file)
        return SIZE_MAX;
    while (fgets(line, sizeof(line), file))
        if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
            bytes = (size_t)kib * 1024;
    fclose(file);
    return bytes;
}

size_t kd_plan_system_limit(const char *root, const char **ret_source)
{
    size_t group = cgroup_limit(root), free_now = available(root);

    if (group == SIZE_MAX && free_now == SIZE_MAX)
        return 0;
    *ret_source = group <= free_now ? "the cgroup" : "available memory";
    return KR_MIN(group, free_now);
}
