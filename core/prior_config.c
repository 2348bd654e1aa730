/* SPDX-License-Identifier: MIT */
#include "core/prior_config.h"

#include "core/json.h"

#include <errno.h>

#define KEY "calibration_prior"

static int read_knots(const char *path, const json_t *object, const char *name, double *ret,
                      struct kr_error *error)
{
    const json_t *list = json_object_get(object, name);

    if (json_array_size(list) != KR_PRIOR_KNOTS)
        return kr_error_set(error, -EBADMSG, "%s: " KEY ": %s: expected %d numbers, found %s", path,
                            name, KR_PRIOR_KNOTS, kr_json_describe(list).text);
    for (size_t i = 0; i < KR_PRIOR_KNOTS; i++) {
        const json_t *value = json_array_get(list, i);

        if (!json_is_number(value))
            return kr_error_set(error, -EBADMSG, "%s: " KEY ": %s: expected a number, found %s",
                                path, name, kr_json_describe(value).text);
        ret[i] = json_number_value(value);
    }
    return 0;
}

static int read_weight(const char *path, const json_t *object, const char *name, double *ret,
                       struct kr_error *error)
{
    const json_t *value = json_object_get(object, name);

    if (!json_is_number(value))
        return kr_error_set(error, -EBADMSG, "%s: " KEY ": %s: expected a number, found %s", path,
                            name, kr_json_describe(value).text);
    *ret = json_number_value(value);
    return 0;
}

int kr_prior_read(const char *path, const json_t *value, struct kr_prior *ret,
                  struct kr_error *error)
{
    struct kr_prior prior = kr_prior_identity;
    struct kr_error reason;
    int r = 0;

    if (value && !json_is_object(value))
        return kr_error_set(error, -EBADMSG, "%s: " KEY ": expected an object, found %s", path,
                            kr_json_describe(value).text);
    if (value) {
        r = read_knots(path, value, "scale", prior.scale, error);
        if (r == 0)
            r = read_knots(path, value, "shift", prior.shift, error);
        if (r == 0)
            r = read_knots(path, value, "follow", prior.follow, error);
        if (r == 0)
            r = read_weight(path, value, "scale_weight", &prior.scale_weight, error);
        if (r == 0)
            r = read_weight(path, value, "shift_weight", &prior.shift_weight, error);
        if (r == 0)
            r = read_weight(path, value, "follow_weight", &prior.follow_weight, error);
        if (r < 0)
            return r;
    }
    if (kr_prior_check(&prior, &reason) < 0)
        return kr_error_set(error, -EBADMSG, "%s: " KEY ": %s", path, reason.text);
    *ret = prior;
    return 0;
}
