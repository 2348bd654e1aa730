/* SPDX-License-Identifier: MIT */
/* A model's calibration prior in its predictor's config.json: "calibration_prior", an object with
 * the lists scale, shift, follow [KR_PRIOR_KNOTS] and the numbers scale_weight, shift_weight,
 * follow_weight, as in struct kr_prior. */
#ifndef KR_PRIOR_CONFIG_H
#define KR_PRIOR_CONFIG_H

#include "core/calibrate.h"

#include <jansson.h>

/* value NULL: the model ships none, *ret is the identity. `path` names the file in errors. Return:
 * 0, -EBADMSG with a line that names the key. */
int kr_prior_read(const char *path, const json_t *value, struct kr_prior *ret,
                  struct kr_error *error) kr_must_check;

#endif
