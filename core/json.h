/* SPDX-License-Identifier: MIT */
/* JSON from files nobody vouches for (Jansson): parsing with errors of one line, and values as a
 * person reads them in such a line. */
#ifndef KR_JSON_H
#define KR_JSON_H

#include "core/base.h"

#include <jansson.h>

/* Parse an object; duplicate keys and anything behind it but white space are refused. `path`
 * only names the text in errors. The caller json_decref()s. Return: 0, -EBADMSG, -ENOMEM. */
int kr_json_parse(const char *path, const char *text, size_t n_bytes, json_t **ret,
                  struct kr_error *error) kr_must_check;

/* The value as JSON if it is short and simple, otherwise what it is: "a list", "a string of 300
 * bytes", "nothing" for NULL. Always terminated. */
struct kr_json_text {
    char text[64];
};
struct kr_json_text kr_json_describe(const json_t *value);

/* A non-negative integer that fits. False for anything else. */
bool kr_json_size(const json_t *value, size_t *ret);

#endif
