/* SPDX-License-Identifier: MIT */
/* Whole files for tests of readers: made, damaged and read back. Failures abort: they are the
 * test's own. */
#ifndef KT_FILES_H
#define KT_FILES_H

#include <stddef.h>

/* "<temporary folder>/<relative>". Static buffer of eight rotating entries. */
const char *kt_path(const char *relative);
/* A folder and those above it, below the temporary folder. */
void kt_make_folder(const char *relative);
void kt_put(const char *path, const void *bytes, size_t n_bytes);
/* With a NUL behind it; free() it. */
char *kt_get(const char *path, size_t *ret_n_bytes);
/* Replace one byte in place; returns the former. */
unsigned char kt_poke(const char *path, size_t at, unsigned char byte);

#endif
