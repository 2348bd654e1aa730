/* SPDX-License-Identifier: MIT */
#include "core/draw.h"
#include "core/summary.h"
#include "core/trust.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Memory */

/* One forecast that is read and forgotten. */
static struct kr_pending_size reading_size(const struct kr_pending_size *size)
{
    struct kr_pending_size one = *size;

    one.capacity = 1;
    return one;
}

/* Sizes of the parts that are the trust's own: one a horizon, one a forecast, one a path. */
size_t kr_trust_size_bytes(const struct kr_trust_config *config)
{
    const struct kr_pending_size *size = &config->size, one = reading_size(size);
    size_t capacity = kr_pending_capacity(size), pending = kr_pending_size_bytes(size);
    size_t reading = kr_pending_size_bytes(&one);
    size_t calibrator = kr_calibrator_size_bytes(size->max_steps, size->n_levels);
    size_t per_step, per_due, bytes, part;

    if (pending == 0 || reading == 0 || calibrator == 0 ||
        !kr_multiply(size->n_levels, 2 * sizeof(uint64_t), &per_step) ||
        !kr_add(per_step, sizeof(struct kr_tally), &per_step) ||
        !kr_multiply(per_step, size->max_steps, &bytes) ||
        !kr_multiply(size->n_levels, sizeof(double) + 2 * sizeof(bool), &per_due) ||
        !kr_add(per_due, sizeof(struct kr_due) + sizeof(struct kr_score), &per_due) ||
        !kr_multiply(per_due, capacity, &part) || !kr_add(bytes, part, &bytes) ||
        !kr_multiply(size->max_paths, sizeof(double), &part) || !kr_add(bytes, part, &bytes) ||
        bytes > SIZE_MAX - KR_ALIGNMENT)
        return 0;
    bytes = kr_round_up(bytes, KR_ALIGNMENT);
    return kr_add(bytes, pending, &bytes) && kr_add(bytes, reading, &bytes) &&
                   kr_add(bytes, calibrator, &bytes)
               ? bytes
               : 0;
}

/* The widest first, so that all are aligned; tally is the head. */
static int take_memory(struct kr_trust *trust, size_t bytes, size_t capacity)
{
    const struct kr_pending_size *size = &trust->pending.size;

    trust->tally = kr_alloc(1, bytes);
    if (!trust->tally)
        return -ENOMEM;
    trust->hits = (uint64_t *)(trust->tally + size->max_steps);
    trust->hits_cal = trust->hits + size->max_steps * size->n_levels;
    trust->due = (struct kr_due *)(trust->hits_cal + size->max_steps * size->n_levels);
    trust->scores = (struct kr_score *)(trust->due + capacity);
    trust->members = (double *)(trust->scores + capacity);
    trust->pinball = trust->members + size->max_paths;
    trust->hit = (bool *)(trust->pinball + capacity * size->n_levels);
    return 0;
}

int kr_trust_init(struct kr_trust *trust, const struct kr_trust_config *config,
                  struct kr_error *error)
{
    struct kr_trust made = {0};
    const struct kr_pending_size one = reading_size(&config->size);
    size_t bytes = kr_trust_size_bytes(config);
    int r = kr_calibrator_init(&made.calibrator, config->size.max_steps, config->levels,
                               config->size.n_levels, config->prior, config->id, error);

    if (r == 0)
        r = kr_pending_init(&made.pending, &config->size, error);
    if (r == 0)
        r = kr_pending_init(&made.reading, &one, error);
    if (r == 0 &&
        (bytes == 0 ||
         take_memory(&made,
                     bytes - kr_pending_size_bytes(&config->size) - kr_pending_size_bytes(&one) -
                         kr_calibrator_size_bytes(config->size.max_steps, config->size.n_levels),
                     made.pending.size.capacity) < 0))
        r = kr_error_set(error, -ENOMEM, "scores: no memory for %zu steps", config->size.max_steps);
    if (r < 0) {
        kr_trust_free(&made);
        return r;
    }
    *trust = made;
    return 0;
}

void kr_trust_free(struct kr_trust *trust)
{
    kr_calibrator_free(&trust->calibrator);
    kr_pending_free(&trust->pending);
    kr_pending_free(&trust->reading);
    free(trust->tally);
    *trust = (struct kr_trust){0};
}

void kr_trust_reset(struct kr_trust *trust, uint64_t id)
{
    const struct kr_pending_size *size = &trust->pending.size;

    kr_calibrator_reset(&trust->calibrator, id);
    kr_pending_clear(&trust->pending);
    memset(trust->tally, 0, size->max_steps * sizeof(*trust->tally));
    memset(trust->hits, 0, size->max_steps * size->n_levels * sizeof(*trust->hits));
    memset(trust->hits_cal, 0, size->max_steps * size->n_levels * sizeof(*trust->hits_cal));
    trust->n_revised = 0;
}

/* One step that is due */

static struct kr_ensemble ensemble_of(struct kr_trust *trust, const struct kr_pending_entry *entry,
                                      size_t step)
{
    kr_pending_members(entry, step, trust->members);
    return (struct kr_ensemble){.step = step,
                                .sorted = trust->members,
                                .m = entry->n_paths,
                                .sigma = entry->sigma,
                                .stratified = entry->stratified};
}

static void score_step(const struct kr_trust *trust, const struct kr_pending_entry *entry,
                       const struct kr_ensemble *ensemble, struct kr_score *score)
{
    const struct kr_map *map = &entry->map[ensemble->step];
    double v = kr_draw_pit(entry->key, entry->as_of_ns, (uint32_t)ensemble->step);
    double deviation = entry->sigma * sqrt((double)(ensemble->step + 1)), y = score->y;

    score->crps =
        kr_crps(ensemble->sorted, ensemble->m, y, kr_crps_share(ensemble->m, entry->stratified));
    score->crps_cal = kr_map_crps(map, ensemble->sorted, ensemble->m, y);
    score->crps_rw = kr_crps_normal(0, deviation, y);
    score->crps_still = fabs(y);
    score->pit = kr_pit(ensemble->sorted, ensemble->m, y, v);
    score->pit_cal = kr_pit(ensemble->sorted, ensemble->m, (y - map->shift) / map->slope, v);
}

static void mark_levels(struct kr_trust *trust, const struct kr_ensemble *ensemble, double y,
                        const double *q, double *pinball, bool *hit, bool *hit_cal)
{
    size_t n_levels = trust->calibrator.n_levels, at = ensemble->step * n_levels;

    for (size_t l = 0; l < n_levels; l++) {
        double level = trust->calibrator.levels[l];
        double raw = kr_quantile(ensemble->sorted, ensemble->m, level, NULL);

        pinball[l] = kr_pinball(level, raw, y);
        hit[l] = y <= raw;
        hit_cal[l] = y <= q[l];
        trust->hits[at + l] += hit[l];
        trust->hits_cal[at + l] += hit_cal[l];
    }
}

void kr_tally_count(struct kr_tally *tally, const struct kr_score *score)
{
    tally->n++;
    tally->crps += score->crps;
    tally->crps_cal += score->crps_cal;
    tally->crps_rw += score->crps_rw;
    tally->crps_still += score->crps_still;
    kr_pit_count(tally->pit, score->pit);
    kr_pit_count(tally->pit_cal, score->pit_cal);
}

static void count(struct kr_tally *tally, struct kr_score *score)
{
    kr_tally_count(tally, score);
    score->n = tally->n;
    score->skill = kr_skill(tally->crps, tally->crps_rw);
    score->skill_cal = kr_skill(tally->crps_cal, tally->crps_rw);
}

/* Score and learn all that waits for one bar. */
static size_t score_due(struct kr_trust *trust, int64_t t_ns, double close, bool late)
{
    size_t n = kr_pending_due(&trust->pending, t_ns, trust->due);
    size_t n_levels = trust->calibrator.n_levels;

    for (size_t i = 0; i < n; i++) {
        const struct kr_pending_entry *entry = trust->due[i].entry;
        size_t step = trust->due[i].step;
        const double *q = &entry->q[step * n_levels];
        struct kr_ensemble ensemble = ensemble_of(trust, entry, step);
        bool *hit = &trust->hit[2 * i * n_levels], *hit_cal = hit + n_levels;
        double *pinball = &trust->pinball[i * n_levels];

        trust->scores[i] = (struct kr_score){.as_of_ns = entry->as_of_ns,
                                             .t_ns = t_ns,
                                             .step = step,
                                             .y = log(close / entry->last_close),
                                             .hit = hit,
                                             .hit_cal = hit_cal,
                                             .pinball = pinball,
                                             .status = entry->status,
                                             .stratified = entry->stratified};
        score_step(trust, entry, &ensemble, &trust->scores[i]);
        mark_levels(trust, &ensemble, trust->scores[i].y, q, pinball, hit, hit_cal);
        count(&trust->tally[step], &trust->scores[i]);
        (void)kr_calibrator_learn(&trust->calibrator, &ensemble, trust->scores[i].y, q,
                                  entry->as_of_row, trust->row);
        kr_pending_scored(&trust->pending, &trust->due[i], late);
    }
    if (n > 0)
        kr_calibrator_settle(&trust->calibrator);
    return n;
}

/* Bars */

static void walk_on(struct kr_trust *trust, int64_t t_ns, double close)
{
    if (trust->walk.close > 0 && t_ns < trust->walk_t_ns)
        return;
    if (trust->walk.close > 0 && t_ns == trust->walk_t_ns)
        kr_random_walk_revise(&trust->walk, close);
    else
        kr_random_walk_push(&trust->walk, close);
    trust->walk_t_ns = t_ns;
}

static size_t take_bar(struct kr_trust *trust, int64_t t_ns, double close, bool late)
{
    size_t n;

    assert(close > 0);
    n = score_due(trust, t_ns, close, late);
    walk_on(trust, t_ns, close);
    return n;
}

size_t kr_trust_bar(struct kr_trust *trust, int64_t t_ns, int64_t row, double close)
{
    size_t n;

    trust->row = row;
    n = take_bar(trust, t_ns, close, false);
    kr_pending_advance(&trust->pending, t_ns);
    return n;
}

size_t kr_trust_late(struct kr_trust *trust, int64_t t_ns, double close)
{
    return take_bar(trust, t_ns, close, true);
}

size_t kr_trust_revised(struct kr_trust *trust, int64_t t_ns, double close)
{
    trust->n_revised += kr_pending_has_scored(&trust->pending, t_ns);
    return take_bar(trust, t_ns, close, true);
}

void kr_trust_synthetic(struct kr_trust *trust, int64_t t_ns, int64_t row)
{
    trust->row = row;
    kr_pending_advance(&trust->pending, t_ns);
}

/* Forecasts */

static int read_into(struct kr_trust *trust, struct kr_pending *pending,
                     const struct kr_published *published, struct kr_pending_entry **ret)
{
    struct kr_published with_sigma = *published;
    struct kr_pending_entry *entry;
    int r;

    with_sigma.sigma = kr_random_walk_sigma(&trust->walk);
    r = kr_pending_add(pending, &with_sigma, trust->members, &entry);
    if (r < 0)
        return r;
    for (size_t step = 0; step < entry->n_steps; step++) {
        struct kr_ensemble ensemble = ensemble_of(trust, entry, step);

        kr_calibrate(&trust->calibrator, &ensemble, &entry->map[step],
                     &entry->q[step * trust->calibrator.n_levels]);
    }
    entry->status = kr_calibrator_status(&trust->calibrator, trust->row);
    *ret = entry;
    return 0;
}

int kr_trust_forecast(struct kr_trust *trust, const struct kr_published *published,
                      struct kr_pending_entry **ret)
{
    return read_into(trust, &trust->pending, published, ret);
}

int kr_trust_read(struct kr_trust *trust, const struct kr_published *published,
                  struct kr_pending_entry **ret)
{
    kr_pending_clear(&trust->reading);
    return read_into(trust, &trust->reading, published, ret);
}

struct kr_standing kr_trust_standing(const struct kr_trust *trust)
{
    const struct kr_pending_counts *counts = &trust->pending.counts;
    size_t n_levels = trust->calibrator.n_levels;
    struct kr_standing standing = {.status = kr_calibrator_status(&trust->calibrator, trust->row),
                                   .n = kr_calibrator_n(&trust->calibrator),
                                   .n_scored = counts->scored,
                                   .n_unscored = counts->unscored,
                                   .n_waiting = trust->pending.n};
    uint64_t n = 0, inside = 0;
    double crps = 0, crps_cal = 0, crps_rw = 0;

    for (size_t step = 0; step < trust->calibrator.n_steps; step++) {
        const struct kr_tally *tally = &trust->tally[step];
        const uint64_t *hits = &trust->hits_cal[step * n_levels];

        n += tally->n;
        crps += tally->crps;
        crps_cal += tally->crps_cal;
        crps_rw += tally->crps_rw;
        inside += hits[n_levels - 1] - hits[0];
    }
    standing.n_tally = n;
    standing.skill = kr_skill(crps, crps_rw);
    standing.skill_cal = kr_skill(crps_cal, crps_rw);
    standing.cover_cal = n > 0 ? (double)inside / (double)n : 0;
    return standing;
}

/* Records: the length of the own one, that one, the calibrator's */

#define MAGIC   0x5552544bu /* "KTRU" */
#define VERSION 1

#define PREFIX 4

static size_t own_record_bytes(const struct kr_trust *trust)
{
    const struct kr_pending_size *size = &trust->pending.size;

    return KR_RECORD_FRAME + 8 * 10 + 4 * 2 +
           size->max_steps * 8 * (5 + 2 * KR_PIT_BINS + 2 * size->n_levels);
}

size_t kr_trust_record_bytes(const struct kr_trust *trust)
{
    return PREFIX + own_record_bytes(trust) + kr_calibrator_record_bytes(&trust->calibrator);
}

static void write_walk(struct kr_writer *writer, const struct kr_random_walk *walk)
{
    kr_write_f64(writer, walk->close);
    kr_write_f64(writer, walk->squares);
    kr_write_f64(writer, walk->weight);
    kr_write_f64(writer, walk->before.close);
    kr_write_f64(writer, walk->before.squares);
    kr_write_f64(writer, walk->before.weight);
}

static int pack_own(const struct kr_trust *trust, void *bytes, size_t size, size_t *ret)
{
    struct kr_writer writer = kr_record_begin(bytes, size, MAGIC, VERSION);
    size_t n_steps = trust->calibrator.n_steps, n_levels = trust->calibrator.n_levels;

    kr_write_u64(&writer, trust->calibrator.id);
    kr_write_u32(&writer, (uint32_t)n_steps);
    kr_write_u32(&writer, (uint32_t)n_levels);
    kr_write_u64(&writer, trust->n_revised);
    kr_write_i64(&writer, trust->row);
    kr_write_i64(&writer, trust->walk_t_ns);
    write_walk(&writer, &trust->walk);
    for (size_t step = 0; step < n_steps; step++) {
        const struct kr_tally *tally = &trust->tally[step];

        kr_write_u64(&writer, tally->n);
        kr_write_f64(&writer, tally->crps);
        kr_write_f64(&writer, tally->crps_cal);
        kr_write_f64(&writer, tally->crps_rw);
        kr_write_f64(&writer, tally->crps_still);
        for (size_t bin = 0; bin < KR_PIT_BINS; bin++) {
            kr_write_u64(&writer, tally->pit[bin]);
            kr_write_u64(&writer, tally->pit_cal[bin]);
        }
        for (size_t l = 0; l < n_levels; l++) {
            kr_write_u64(&writer, trust->hits[step * n_levels + l]);
            kr_write_u64(&writer, trust->hits_cal[step * n_levels + l]);
        }
    }
    return kr_record_end(&writer, ret);
}

int kr_trust_pack(const struct kr_trust *trust, void *bytes, size_t size, size_t *ret)
{
    size_t own = own_record_bytes(trust), calibrator;
    unsigned char *at = bytes;
    int r;

    if (size < kr_trust_record_bytes(trust))
        return -ENOBUFS;
    for (size_t i = 0; i < PREFIX; i++)
        at[i] = (unsigned char)(own >> 8 * i);
    r = pack_own(trust, at + PREFIX, own, &own);
    if (r == 0)
        r = kr_calibrator_pack(&trust->calibrator, at + PREFIX + own, size - PREFIX - own,
                               &calibrator);
    if (r < 0)
        return r;
    *ret = PREFIX + own + calibrator;
    return 0;
}

#define MOST 1e300 /* of any finite number in a record */

static struct kr_random_walk read_walk(struct kr_reader *reader)
{
    const double most_weight = 1 / (1 - KR_WALK_DECAY) + 1;
    struct kr_random_walk walk;

    walk.close = kr_read_within(reader, 0, MOST);
    walk.squares = kr_read_within(reader, 0, MOST);
    walk.weight = kr_read_within(reader, 0, most_weight);
    walk.before.close = kr_read_within(reader, 0, MOST);
    walk.before.squares = kr_read_within(reader, 0, MOST);
    walk.before.weight = kr_read_within(reader, 0, most_weight);
    return walk;
}

static uint64_t read_at_most(struct kr_reader *reader, uint64_t most)
{
    uint64_t value = kr_read_u64(reader);

    kr_reader_expect(reader, value <= most);
    return reader->failed ? 0 : value;
}

static struct kr_tally read_tally(struct kr_reader *reader)
{
    struct kr_tally tally = {.n = kr_read_u64(reader)};
    uint64_t left = tally.n, left_cal = tally.n;

    tally.crps = kr_read_within(reader, -MOST, MOST); /* fair ones may be below 0 */
    tally.crps_cal = kr_read_within(reader, -MOST, MOST);
    tally.crps_rw = kr_read_within(reader, 0, MOST);
    tally.crps_still = kr_read_within(reader, 0, MOST);
    for (size_t bin = 0; bin < KR_PIT_BINS; bin++) {
        left -= tally.pit[bin] = read_at_most(reader, left);
        left_cal -= tally.pit_cal[bin] = read_at_most(reader, left_cal);
    }
    kr_reader_expect(reader, left == 0 && left_cal == 0);
    return tally;
}

/* Fields behind the head, into the trust if `apply`. */
static void read_own(struct kr_reader *reader, struct kr_trust *trust, bool apply)
{
    size_t n_steps = trust->calibrator.n_steps, n_levels = trust->calibrator.n_levels;
    uint64_t n_revised = kr_read_u64(reader);
    int64_t row = kr_read_i64(reader), walk_t_ns = kr_read_i64(reader);
    struct kr_random_walk walk = read_walk(reader);

    for (size_t step = 0; step < n_steps; step++) {
        struct kr_tally tally = read_tally(reader);

        for (size_t l = 0; l < n_levels; l++) {
            uint64_t hits = read_at_most(reader, tally.n), hits_cal = read_at_most(reader, tally.n);

            if (apply) {
                trust->hits[step * n_levels + l] = hits;
                trust->hits_cal[step * n_levels + l] = hits_cal;
            }
        }
        if (apply)
            trust->tally[step] = tally;
    }
    if (apply) {
        trust->n_revised = n_revised;
        trust->row = row;
        trust->walk_t_ns = walk_t_ns;
        trust->walk = walk;
    }
}

int kr_trust_unpack(struct kr_trust *trust, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    struct kr_reader reader, ahead;
    size_t own = 0;
    bool same;
    int r;

    if (size < PREFIX)
        return -EBADMSG;
    for (size_t i = 0; i < PREFIX; i++)
        own |= (size_t)at[i] << 8 * i;
    if (own > size - PREFIX)
        return -EBADMSG;
    r = kr_record_open(at + PREFIX, own, MAGIC, VERSION, &reader);
    if (r < 0)
        return r;
    same = kr_read_u64(&reader) == trust->calibrator.id;
    same &= kr_read_u32(&reader) == trust->calibrator.n_steps;
    same &= kr_read_u32(&reader) == trust->calibrator.n_levels;
    if (reader.failed)
        return -EBADMSG;
    if (!same)
        return -ESTALE;
    ahead = reader;
    read_own(&ahead, trust, false);
    r = kr_reader_end(&ahead);
    if (r == 0)
        r = kr_calibrator_unpack(&trust->calibrator, at + PREFIX + own, size - PREFIX - own);
    if (r < 0)
        return r;
    read_own(&reader, trust, true);
    return 0;
}
