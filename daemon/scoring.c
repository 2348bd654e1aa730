/* SPDX-License-Identifier: MIT */
#include "daemon/scoring.h"

#include "clients/wire.h"

#include <errno.h>
#include <string.h>

/* In front of each message in the buffer. */
struct frame {
    uint64_t seq;
    size_t n_bytes;
};

/* Sizes */

struct kr_pending_size kd_scoring_size(const struct kd_settings *settings, size_t *ret_spacing)
{
    struct kr_pending_size size = {.max_steps = settings->horizon,
                                   .max_paths = settings->paths,
                                   .n_levels = settings->n_levels};
    size_t all = kr_pending_capacity(&size), spacing = 1;

    if (all > KD_SCORING_KEPT) {
        spacing = (all + KD_SCORING_KEPT - 1) / KD_SCORING_KEPT;
        size.capacity = all / spacing + 1;
    }
    if (ret_spacing)
        *ret_spacing = spacing;
    return size;
}

/* Upper bound of a score message: keys, names, numbers; then four lists of levels. */
static size_t message_bytes(size_t n_levels)
{
    return 512 + n_levels * (2 * 9 + 2);
}

size_t kd_scoring_bytes(const struct kd_settings *settings)
{
    struct kr_pending_size size = kd_scoring_size(settings, NULL);
    const struct kr_trust_config trust = {.size = size};
    size_t bytes = kr_trust_size_bytes(&trust), messages;
    size_t per_bar = KR_MIN(kr_pending_capacity(&size), settings->horizon);

    if (bytes == 0 ||
        !kr_multiply(2 * per_bar, message_bytes(settings->n_levels) + sizeof(struct frame),
                     &messages) ||
        !kr_add(bytes, messages, &bytes))
        return 0;
    return bytes;
}

/* Life */

static uint64_t id_of(const struct kr_model *model, const struct kr_live_config *live,
                      const struct kd_settings *settings)
{
    const struct kr_calibration_key key = {.model_sha256 = model->sha256,
                                           .mode = kr_mode_names[live->mode],
                                           .temperature = settings->sampling.temperature,
                                           .top_p = settings->sampling.top_p,
                                           .top_k = settings->sampling.top_k,
                                           .n_paths = settings->paths,
                                           .scale = live->scale,
                                           .join = live->join,
                                           .repair = live->repair,
                                           .stratified = settings->sampling.stratified};

    return kr_calibration_id(&key);
}

int kd_scoring_make(struct kd_scoring *scoring, const struct kr_model *model,
                    const struct kr_live_config *live, const struct kd_settings *settings,
                    struct kr_error *error)
{
    struct kr_trust_config config = {
        .levels = settings->levels, .prior = &model->prior, .id = id_of(model, live, settings)};
    int status;

    config.size = kd_scoring_size(settings, &scoring->spacing);
    status = kr_trust_init(&scoring->trust, &config, error);
    scoring->made = !status;
    scoring->shift = 0;
    scoring->aligned = true;
    return status;
}

void kd_scoring_forget(struct kd_scoring *scoring)
{
    if (scoring->made)
        kr_trust_free(&scoring->trust);
    scoring->made = false;
}

void kd_scoring_free(struct kd_scoring *scoring)
{
    kd_scoring_forget(scoring);
    msgpack_sbuffer_destroy(&scoring->messages);
    *scoring = (struct kd_scoring){0};
}

bool kd_scoring_configure(struct kd_scoring *scoring, const struct kr_model *model,
                          const struct kr_live_config *live, const struct kd_settings *settings)
{
    uint64_t id = id_of(model, live, settings);

    if (!scoring->made || scoring->trust.calibrator.id == id)
        return false;
    kr_trust_reset(&scoring->trust, id);
    return true;
}

void kd_scoring_resumed(struct kd_scoring *scoring)
{
    scoring->aligned = scoring->trust.walk.close <= 0;
}

/* Bars */

static void tell(struct kd_scoring *scoring, const struct kd_scored *whose,
                 const struct kr_score *score)
{
    const struct kr_calibrator *calibrator = &scoring->trust.calibrator;
    const struct kw_score message = {.symbol = whose->symbol,
                                     .interval = whose->interval,
                                     .ep = whose->ep,
                                     .seq = ++scoring->seq,
                                     .score = score,
                                     .levels = calibrator->levels,
                                     .n_levels = calibrator->n_levels};
    msgpack_sbuffer *out = &scoring->messages;
    struct frame frame = {.seq = message.seq};
    size_t start = out->size;

    if (msgpack_sbuffer_write(out, (const char *)&frame, sizeof(frame)))
        return;
    if (kw_encode_score(out, &message)) {
        out->size = start;
        return;
    }
    frame.n_bytes = out->size - start - sizeof(frame);
    memcpy(out->data + start, &frame, sizeof(frame));
}

/* Has the trust seen this bar, or newer ones, in an earlier run? */
static bool is_known(const struct kr_trust *trust, int64_t t_ns)
{
    return trust->walk.close > 0 && t_ns <= trust->walk_t_ns;
}

/* The trust's row of a bar that is the window's newest. */
static int64_t row_of(struct kd_scoring *scoring, int64_t t_ns, int64_t row)
{
    const struct kr_trust *trust = &scoring->trust;

    if (!scoring->aligned && t_ns >= trust->walk_t_ns) {
        scoring->shift = trust->row + (t_ns > trust->walk_t_ns) - row;
        scoring->aligned = true;
    }
    return row + scoring->shift;
}

static size_t take(struct kd_scoring *scoring, const struct kd_job *job, int64_t row)
{
    struct kr_trust *trust = &scoring->trust;
    int64_t t_ns = job->bar.t_ns;
    double close = job->bar.v[KR_CLOSE];

    switch (job->change) {
    case KR_LATE:
        return job->bar.synthetic ? 0 : kr_trust_late(trust, t_ns, close);
    case KR_REVISED:
        return job->bar.synthetic ? 0 : kr_trust_revised(trust, t_ns, close);
    default: /* newer than all others */
        row = row_of(scoring, t_ns, row);
        if (is_known(trust, t_ns))
            return job->bar.synthetic ? 0 : kr_trust_late(trust, t_ns, close);
        if (!job->bar.synthetic)
            return kr_trust_bar(trust, t_ns, row, close);
        kr_trust_synthetic(trust, t_ns, row);
        return 0;
    }
}

void kd_scoring_bar(struct kd_scoring *scoring, const struct kd_scored *whose,
                    const struct kd_job *job, int64_t row)
{
    size_t n = take(scoring, job, row);

    for (size_t i = 0; i < n; i++)
        tell(scoring, whose, &scoring->trust.scores[i]);
}

/* Forecasts */

int kd_scoring_forecast(struct kd_scoring *scoring, const struct kr_published *published,
                        bool final, const struct kr_pending_entry **ret)
{
    bool remember = final && published->as_of_row % (int64_t)scoring->spacing == 0;
    struct kr_published with_row = *published;
    struct kr_pending_entry *entry;
    int status;

    with_row.as_of_row += scoring->shift;
    if (is_known(&scoring->trust, published->as_of_ns + 1))
        remember = false; /* newer bars than its last are known */
    status = remember ? kr_trust_forecast(&scoring->trust, &with_row, &entry)
                      : kr_trust_read(&scoring->trust, &with_row, &entry);

    if (!status)
        *ret = entry;
    return status;
}

const void *kd_scoring_next(const msgpack_sbuffer *messages, size_t *at, uint64_t *ret_seq,
                            size_t *ret_bytes)
{
    struct frame frame;
    const char *data;

    if (*at >= messages->size)
        return NULL;
    memcpy(&frame, messages->data + *at, sizeof(frame));
    data = messages->data + *at + sizeof(frame);
    *at += sizeof(frame) + frame.n_bytes;
    *ret_seq = frame.seq;
    *ret_bytes = frame.n_bytes;
    return data;
}
