/* SPDX-License-Identifier: MIT */
#include "core/json.h"

#include <errno.h>
#include <stdio.h>

int kr_json_parse(const char *path, const char *text, size_t n_bytes, json_t **ret,
                  struct kr_error *error)
{
    json_error_t fault;
    json_t *value = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &fault);
    struct kr_json_text found;

    if (!value && (!fault.text[0] || json_error_code(&fault) == json_error_out_of_memory))
        return kr_error_set(error, -ENOMEM, "%s: no memory for its JSON", path);
    if (!value)
        return kr_error_set(error, -EBADMSG, "%s: line %d: expected JSON, found %s", path,
                            fault.line, fault.text);
    if (!json_is_object(value)) {
        found = kr_json_describe(value);
        json_decref(value);
        return kr_error_set(error, -EBADMSG, "%s: expected a JSON object, found %s", path,
                            found.text);
    }
    *ret = value;
    return 0;
}

struct kr_json_text kr_json_describe(const json_t *value)
{
    struct kr_json_text d = {""};
    size_t room = sizeof(d.text) - 1;

    if (!value)
        snprintf(d.text, sizeof(d.text), "nothing");
    else if (json_is_object(value))
        snprintf(d.text, sizeof(d.text), "an object of %zu keys", json_object_size(value));
    else if (json_is_array(value))
        snprintf(d.text, sizeof(d.text), "a list of %zu", json_array_size(value));
    else if (json_dumpb(value, d.text, room, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) > room)
        snprintf(d.text, sizeof(d.text), "a string of %zu bytes", json_string_length(value));
    return d;
}

bool kr_json_size(const json_t *value, size_t *ret)
{
    json_int_t n = json_integer_value(value);

    if (!json_is_integer(value) || n < 0 || (json_int_t)(size_t)n != n)
        return false;
    *ret = (size_t)n;
    return true;
}
