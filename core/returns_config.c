/* SPDX-License-Identifier: MIT */
#include "core/returns_config.h"

#include "core/json.h"

#include <errno.h>

int kr_returns_read(const char *path, const json_t *json, struct kr_returns *ret,
                    struct kr_error *error)
{
    struct kr_returns_config config;
    struct kr_error reason;
    const struct {
        const char *name;
        double *value;
    } numbers[] = {
        {"norm_decay", &config.decay}, {"norm_fast", &config.fast},     {"norm_slow", &config.slow},
        {"norm_unit", &config.unit},   {"norm_floor", &config.floor},   {"norm_clip", &config.clip},
        {"norm_cap", &config.cap},     {"norm_volume", &config.volume},
    };
    const json_t *bars = json_object_get(json, "norm_bars");

    if (!kr_json_size(bars, &config.bars))
        return kr_error_set(error, -EBADMSG,
                            "%s: norm_bars: expected an integer from 1 to %d, found %s", path,
                            KR_RETURNS_MAX_BARS, kr_json_describe(bars).text);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(numbers); i++) {
        const json_t *value = json_object_get(json, numbers[i].name);

        if (!json_is_number(value))
            return kr_error_set(error, -EBADMSG, "%s: %s: expected a number, found %s", path,
                                numbers[i].name, kr_json_describe(value).text);
        *numbers[i].value = json_number_value(value);
    }
    if (kr_returns_init(ret, &config, &reason))
        return kr_error_set(error, -EBADMSG, "%s: %s", path, reason.text);
    return 0;
}
