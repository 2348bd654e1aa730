/* SPDX-License-Identifier: MIT */
#include "core/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int kr_file_open(const char *path, int *ret_fd, size_t *ret_n_bytes, struct kr_error *error)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int code;

    if (fd < 0 || fstat(fd, &status) < 0) {
        code = errno == ENOTDIR ? -ENOENT : -errno;
        kr_error_set(error, code, "%s: expected a file, found: %s", path, strerror(-code));
        goto fail;
    }
    if (!S_ISREG(status.st_mode)) {
        code = kr_error_set(error, -EBADMSG, "%s: expected a regular file, found %s", path,
                            S_ISDIR(status.st_mode) ? "a folder" : "a device or pipe");
        goto fail;
    }
    *ret_fd = fd;
    *ret_n_bytes = (size_t)status.st_size;
    return 0;
fail:
    if (fd >= 0)
        close(fd);
    return code;
}

/* Return: bytes read, less than n only at the end of the file; or a negative errno. */
static ssize_t read_all(int fd, char *text, size_t n)
{
    size_t done = 0;

    while (done < n) {
        ssize_t got = read(fd, text + done, n - done);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int kr_file_read(const char *path, size_t max_bytes, char **ret, size_t *ret_n_bytes,
                 struct kr_error *error)
{
    char *text = NULL;
    size_t n_bytes;
    ssize_t got;
    int fd;
    int code = kr_file_open(path, &fd, &n_bytes, error);

    if (code < 0)
        return code;
    if (n_bytes > max_bytes) {
        code = kr_error_set(error, -EBADMSG, "%s: expected at most %zu bytes, found %zu", path,
                            max_bytes, n_bytes);
        goto out;
    }
    text = malloc(n_bytes + 1);
    if (!text) {
        code = kr_error_set(error, -ENOMEM, "%s: no memory for %zu bytes", path, n_bytes);
        goto out;
    }
    got = read_all(fd, text, n_bytes);
    if (got < 0) {
        code = kr_error_set(error, (int)got, "%s: expected %zu bytes, found: %s", path, n_bytes,
                            strerror((int)-got));
        free(text);
        goto out;
    }
    text[got] = '\0';
    *ret = text;
    *ret_n_bytes = (size_t)got;
out:
    close(fd);
    return code;
}
