/* SPDX-License-Identifier: MIT */
#include "daemon/results.h"

#include "daemon/log.h"

#include <errno.h>
#include <stdio.h>

static void note(struct kd_daemon *daemon, struct kd_stream *stream, enum kd_note note, uint64_t n)
{
    const struct kr_bar *last = kr_series_last(&stream->ledger.series);

    if (n)
        kd_note(&daemon->notes, &stream->tally, stream->interval.text, stream->symbol, note,
                last ? last->t_ns : 0, n);
}

static void take_forecast(struct kd_daemon *daemon, struct kd_stream *stream,
                          const struct kd_result *result)
{
    bool keep = !result->forming && result->n_resets == stream->n_resets;

    kd_publish_send(&daemon->publish, stream->forecast_topic, result->seq, result->forecast.data,
                    result->forecast.size, keep);
    if (result->paths.size)
        kd_publish_send(&daemon->publish, stream->paths_topic, result->seq, result->paths.data,
                        result->paths.size, false);
    stream->n_forecasts++;
    daemon->counts.forecasts++;
    daemon->counts.window_slid += result->report.window_slid;
    daemon->counts.lag_us = KR_MAX(daemon->counts.lag_us, result->total_us);
    if (!keep)
        return;
    stream->has_forecast = true;
    stream->mode = result->report.mode;
    stream->epoch = result->report.epoch;
    stream->as_of_ns = result->as_of_ns;
}

static void take_scores(struct kd_daemon *daemon, struct kd_stream *stream,
                        const struct kd_result *result)
{
    size_t at = 0, n_bytes;
    uint64_t seq;
    const void *data;

    while ((data = kd_scoring_next(&result->scores, &at, &seq, &n_bytes)))
        kd_publish_send(&daemon->publish, stream->score_topic, seq, data, n_bytes, false);
    if (result->n_resets != stream->n_resets)
        return;
    stream->has_standing = result->has_standing;
    stream->standing = result->standing;
}

/* A forecast that failed for a reason of its own (the calendar opens no more, the end of the daemon) leaves the
 * stream as it is; anything else would fail again. */
static void take_failure(struct kd_daemon *daemon, struct kd_stream *stream,
                         const struct kd_result *result)
{
    if (result->status == -ECANCELED || result->status == -EAGAIN)
        return;
    if (result->status == -ERANGE) {
        kd_log(KD_MSG_NOTE, stream->symbol, stream->interval.text, NULL, "%s", result->error.text);
        return;
    }
    if (!kd_stream_signal(stream, KD_SIGNAL_FAULT))
        return;
    snprintf(stream->fault, sizeof(stream->fault), "%.*s", (int)sizeof(stream->fault) - 1,
             result->error.text);
    kd_log(KD_MSG_FAULTED, stream->symbol, stream->interval.text, NULL, "%s", stream->fault);
    note(daemon, stream, KD_NOTE_REFUSED_FAULTED, 1);
}

/* What the store had of a new stream. */
static void take_kept(struct kd_daemon *daemon, struct kd_stream *stream,
                      const struct kd_restored *kept)
{
    struct kd_keeping *keeping = &daemon->keeping;

    keeping->restored += kept->what == KD_KEPT_RESTORED;
    keeping->stale += kept->what == KD_KEPT_STALE;
    keeping->damaged += kept->what == KD_KEPT_DAMAGED;
    keeping->unread += kept->n_unread;
    if (kept->what == KD_KEPT_RESTORED)
        kd_log(KD_MSG_NOTE, stream->symbol, stream->interval.text, NULL,
               "calibration restored, %zu forecasts wait for their bars", kept->n_forecasts);
    note(daemon, stream, KD_NOTE_RECALIBRATED_PARAMETERS, kept->what == KD_KEPT_STALE);
    note(daemon, stream, KD_NOTE_RECALIBRATED_DAMAGED, kept->what == KD_KEPT_DAMAGED);
    note(daemon, stream, KD_NOTE_STATE_UNREAD, kept->n_unread);
}

static void take_of_stream(struct kd_daemon *daemon, const struct kd_result *result)
{
    struct kd_stream *stream = result->owner;

    take_scores(daemon, stream, result);
    if (result->has_forecast)
        take_forecast(daemon, stream, result);
    stream->n_skipped += result->n_skipped;
    daemon->counts.skipped += result->n_skipped;
    daemon->counts.epoch_waited += result->n_waited;
    note(daemon, stream, KD_NOTE_REANCHORED_DRIFT, result->n_drifted);
    note(daemon, stream, KD_NOTE_REANCHORED_GAP, result->n_gap_epochs);
    note(daemon, stream, KD_NOTE_REANCHORED_REVISION, result->n_revision_epochs);
    note(daemon, stream, KD_NOTE_RECALIBRATED_PARAMETERS, result->n_recalibrated);
    if (result->has_kept)
        take_kept(daemon, stream, &result->kept);
    if (result->n_asked)
        stream->asked = false;
    stream->n_settling -= result->n_settled;
    if (!stream->n_settling)
        kd_stream_signal(stream, KD_SIGNAL_SETTLED);
    if (result->status && result->n_resets == stream->n_resets)
        take_failure(daemon, stream, result);
}

void kd_results_take(void *context)
{
    struct kd_daemon *daemon = context;
    struct kd_result *result = kd_outbox_take(&daemon->outbox);

    while (result) {
        struct kd_result *next = result->next;

        if (result->of_control)
            kd_control_finish(&daemon->control, result);
        else
            take_of_stream(daemon, result);
        kd_outbox_reuse(&daemon->outbox, result);
        result = next;
    }
}
