/* SPDX-License-Identifier: MIT */
/* What a calibration starts from, belongs to, and is kept as: priors, identity, records. */
#include "core/calibrate.h"

#include <assert.h>
#include <errno.h>
#include <math.h>

/* Priors */

const struct kr_prior kr_prior_identity = {
    .scale = {1, 1, 1, 1},
    .follow = {1, 1, 1, 1},
    .scale_weight = 6,
    .shift_weight = 400,
    .follow_weight = 2,
};

#define KNOT_FACTOR 4 /* from each knot's horizon to the next */

static int check_knots(const char *name, const double knots[KR_PRIOR_KNOTS], double low,
                       double high, struct kr_error *error)
{
    for (size_t i = 0; i < KR_PRIOR_KNOTS; i++)
        if (!(knots[i] >= low && knots[i] <= high))
            return kr_error_set(error, -EINVAL, "prior: %s: expected %g to %g, number %zu is not",
                                name, low, high, i + 1);
    return 0;
}

static int check_weight(const char *name, double weight, struct kr_error *error)
{
    if (!(weight > 0 && weight <= 1e6))
        return kr_error_set(error, -EINVAL, "prior: %s: expected above 0, at most 1e6", name);
    return 0;
}

int kr_prior_check(const struct kr_prior *prior, struct kr_error *error)
{
    int r = check_knots("scale", prior->scale, 0.125, 8, error);

    if (r == 0)
        r = check_knots("shift", prior->shift, -4, 4, error);
    if (r == 0)
        r = check_knots("follow", prior->follow, 0, 1, error);
    if (r == 0)
        r = check_weight("scale_weight", prior->scale_weight, error);
    if (r == 0)
        r = check_weight("shift_weight", prior->shift_weight, error);
    if (r == 0)
        r = check_weight("follow_weight", prior->follow_weight, error);
    return r;
}

double kr_prior_at(const double knots[KR_PRIOR_KNOTS], size_t step)
{
    double position = log((double)(step + 1)) / log(KNOT_FACTOR);
    size_t below = (size_t)position;

    if (below >= KR_PRIOR_KNOTS - 1)
        return knots[KR_PRIOR_KNOTS - 1];
    return knots[below] + (position - (double)below) * (knots[below + 1] - knots[below]);
}

struct kr_prior kr_prior_pool(const struct kr_calibrator *const *calibrators, size_t n,
                              const struct kr_prior *weights)
{
    struct kr_prior made = {.scale_weight = weights->scale_weight,
                            .shift_weight = weights->shift_weight,
                            .follow_weight = weights->follow_weight};
    size_t h = 1;

    assert(n >= 1);
    for (size_t knot = 0; knot < KR_PRIOR_KNOTS; knot++) {
        size_t step = KR_MIN(h, calibrators[0]->n_steps) - 1;

        for (size_t i = 0; i < n; i++) {
            const struct kr_estimate *estimate = &calibrators[i]->estimate[step];

            made.scale[knot] += log(estimate->scale) / (double)n;
            made.shift[knot] += estimate->shift / (double)n;
            made.follow[knot] += estimate->follow / (double)n;
        }
        made.scale[knot] = exp(made.scale[knot]);
        h *= KNOT_FACTOR;
    }
    return made;
}

/* Identity */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (value >> 8 * i & 0xff)) * 0x100000001b3u;
    return hash;
}

static uint64_t bits_of(double value)
{
    union {
        double number;
        uint64_t bits;
    } both = {.number = value};

    return both.bits;
}

uint64_t kr_calibration_id(const struct kr_calibration_key *key)
{
    uint64_t id = kr_fnv1a64(key->model_sha256);

    id = mix(id, kr_fnv1a64(key->mode));
    id = mix(id, bits_of(key->temperature));
    id = mix(id, bits_of(key->top_p));
    id = mix(id, key->top_k);
    id = mix(id, key->n_paths);
    return mix(id, (uint64_t)key->scale | (uint64_t)key->join << 1 | (uint64_t)key->repair << 2 |
                       (uint64_t)key->stratified << 3);
}

/* Records */

#define MAGIC   0x4c41434bu /* "KCAL" */
#define VERSION 1

/* No sum of learned outcomes comes near. */
#define MOST_SUM 1e9

size_t kr_calibrator_record_bytes(const struct kr_calibrator *calibrator)
{
    size_t per_step = 8 * (3 + KR_SUMS + 2 * calibrator->n_levels);

    return KR_RECORD_FRAME + 8 * 3 + 4 * 2 + 8 * calibrator->n_levels +
           per_step * calibrator->n_steps;
}

int kr_calibrator_pack(const struct kr_calibrator *calibrator, void *bytes, size_t size,
                       size_t *ret)
{
    struct kr_writer writer = kr_record_begin(bytes, size, MAGIC, VERSION);

    kr_write_u64(&writer, calibrator->id);
    kr_write_u32(&writer, (uint32_t)calibrator->n_steps);
    kr_write_u32(&writer, (uint32_t)calibrator->n_levels);
    for (size_t l = 0; l < calibrator->n_levels; l++)
        kr_write_f64(&writer, calibrator->levels[l]);
    kr_write_u64(&writer, calibrator->n_learned);
    kr_write_i64(&writer, calibrator->last_row);
    for (size_t step = 0; step < calibrator->n_steps; step++) {
        const struct kr_horizon *horizon = &calibrator->horizon[step];

        kr_write_u64(&writer, horizon->n);
        kr_write_f64(&writer, horizon->weight);
        kr_write_i64(&writer, horizon->origin_row);
        for (size_t i = 0; i < KR_SUMS; i++)
            kr_write_f64(&writer, horizon->sum[i]);
        for (size_t l = 0; l < calibrator->n_levels; l++) {
            kr_write_f64(&writer, calibrator->alpha[step * calibrator->n_levels + l]);
            kr_write_f64(&writer, calibrator->offset[step * calibrator->n_levels + l]);
        }
    }
    return kr_record_end(&writer, ret);
}

static bool may_be_negative(size_t sum)
{
    return sum == KR_SUM_CROSS || sum == KR_SUM_RESIDUAL;
}

/* Fields behind the levels. Nothing is kept unless `calibrator` is writable. */
static void read_horizons(struct kr_reader *reader, const struct kr_calibrator *shape,
                          struct kr_calibrator *ret)
{
    uint64_t n_learned = kr_read_u64(reader), n = 0;
    int64_t last_row = kr_read_i64(reader);

    if (ret) {
        ret->n_learned = n_learned;
        ret->last_row = last_row;
    }
    for (size_t step = 0; step < shape->n_steps; step++) {
        struct kr_horizon horizon = {.n = kr_read_u64(reader)};

        horizon.weight = kr_read_within(reader, 0, (double)horizon.n);
        horizon.origin_row = kr_read_i64(reader);
        for (size_t i = 0; i < KR_SUMS; i++)
            horizon.sum[i] = kr_read_within(reader, may_be_negative(i) ? -MOST_SUM : 0, MOST_SUM);
        for (size_t l = 0; l < shape->n_levels; l++) {
            double tau = shape->levels[l], least = 1 / ((double)horizon.n + 1);
            double alpha = kr_read_within(reader, fmin(tau, least), fmax(tau, 1 - least));
            double offset = kr_read_within(reader, -4, 4);

            if (ret) {
                ret->alpha[step * shape->n_levels + l] = alpha;
                ret->offset[step * shape->n_levels + l] = offset;
            }
        }
        kr_reader_expect(reader, horizon.n <= n_learned && n <= n_learned - horizon.n);
        n += horizon.n;
        if (ret)
            ret->horizon[step] = horizon;
    }
    kr_reader_expect(reader, n == n_learned);
}

int kr_calibrator_unpack(struct kr_calibrator *calibrator, const void *bytes, size_t size)
{
    struct kr_reader reader, ahead;
    bool same;
    int r = kr_record_open(bytes, size, MAGIC, VERSION, &reader);

    if (r < 0)
        return r;
    same = kr_read_u64(&reader) == calibrator->id;
    same &= kr_read_u32(&reader) == calibrator->n_steps;
    same &= kr_read_u32(&reader) == calibrator->n_levels;
    for (size_t l = 0; same && l < calibrator->n_levels; l++)
        same = kr_read_f64(&reader) == calibrator->levels[l];
    if (reader.failed)
        return -EBADMSG;
    if (!same)
        return -ESTALE;
    ahead = reader; /* all of it first, so that damage changes nothing */
    read_horizons(&ahead, calibrator, NULL);
    r = kr_reader_end(&ahead);
    if (r < 0)
        return r;
    read_horizons(&reader, calibrator, calibrator);
    kr_calibrator_settle(calibrator);
    return 0;
}
