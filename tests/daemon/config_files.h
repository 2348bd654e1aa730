/* SPDX-License-Identifier: MIT */
/* Configurations as text, for tests. */
#ifndef KT_CONFIG_FILES_H
#define KT_CONFIG_FILES_H

#include "daemon/config.h"

/* Write `n` bytes to a file of the test's folder. Return: its path, in a static buffer. */
const char *kt_config_write(const char *name, const char *text, size_t n);
/* Load a configuration that consists of `text`; fails the test and returns NULL if it is refused.
 */
struct kd_config *kt_config_load(const char *text);
/* `text` must be refused with exactly this line behind the file's name. */
void kt_config_refused(const char *text, const char *message);
/* The whole file; free() it. */
char *kt_read(const char *path);

#endif
