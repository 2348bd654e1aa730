/* SPDX-License-Identifier: MIT */
/* Opening input files that may be anything: only regular files get through. */
#ifndef KR_FILE_H
#define KR_FILE_H

#include "core/base.h"

/* Open a regular file for reading, without blocking on a fifo that somebody put there. The
 * caller closes the descriptor. Return: 0, -ENOENT (also for a path that leads through a file),
 * another negative errno of open(), -EBADMSG for a folder, fifo or device. The error line starts
 * with `path`. */
int kr_file_open(const char *path, int *ret_fd, size_t *ret_n_bytes,
                 struct kr_error *error) kr_must_check;

/* All of a file of at most `max_bytes`, with a NUL behind it that is not counted; free() it.
 * Return: as kr_file_open(), -EBADMSG for a larger file, -ENOMEM, a negative errno of read(). */
int kr_file_read(const char *path, size_t max_bytes, char **ret, size_t *ret_n_bytes,
                 struct kr_error *error) kr_must_check;

#endif
