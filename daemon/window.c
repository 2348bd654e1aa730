/* SPDX-License-Identifier: MIT */
#include "daemon/window.h"

#include "daemon/clock.h"

#include <errno.h>
#include <string.h>

void kd_window_free(struct kd_window *window)
{
    if (window->made)
        kr_live_free(&window->live);
    kd_scoring_free(&window->scoring);
    kd_settings_free(&window->settings);
    *window = (struct kd_window){0};
}

bool kd_window_save(struct kd_window *window, int64_t end_ns)
{
    return kd_keep_save(&window->keep, window->scoring.made ? &window->scoring.trust : NULL,
                        end_ns);
}

/* Results */

/* A result that carries what happened since the last one; NULL without memory, which is our only silent
 * loss: the next one carries it. */
struct tale {
    size_t n_settled, n_asked;
    uint64_t n_skipped, n_gap_epochs, n_revision_epochs, n_recalibrated;
    bool has_kept;
    struct kd_restored kept;
};

static struct kd_result *new_result(struct kd_window *window, const struct kd_turn *turn,
                                    struct tale *tale)
{
    struct kd_result *result = kd_outbox_new(turn->outbox);

    if (!result)
        return NULL;
    result->owner = turn->owner;
    result->n_settled = tale->n_settled;
    result->n_asked = tale->n_asked;
    result->n_resets = window->n_resets;
    result->n_skipped = tale->n_skipped;
    result->n_gap_epochs = tale->n_gap_epochs;
    result->n_revision_epochs = tale->n_revision_epochs;
    result->n_recalibrated = tale->n_recalibrated;
    result->has_kept = tale->has_kept;
    result->kept = tale->kept;
    result->n_waited = window->live.n_waited - window->n_waited;
    result->n_drifted = window->live.n_drifted - window->n_drifted;
    window->n_waited = window->live.n_waited;
    window->n_drifted = window->live.n_drifted;
    *tale = (struct tale){0};
    return result;
}

/* With the scores since the last one, in exchange for an empty buffer. */
static void hand_over(struct kd_window *window, const struct kd_turn *turn,
                      struct kd_result *result)
{
    msgpack_sbuffer empty = result->scores;

    result->scores = window->scoring.messages;
    window->scoring.messages = empty;
    result->has_standing = window->scoring.made;
    if (window->scoring.made)
        result->standing = kr_trust_standing(&window->scoring.trust);
    kd_outbox_put(turn->outbox, result);
}

static void report(struct kd_window *window, const struct kd_turn *turn, struct tale *tale,
                   int status, const struct kr_error *error)
{
    struct kd_result *result = new_result(window, turn, tale);

    if (!result)
        return;
    result->status = status;
    if (error)
        result->error = *error;
    hand_over(window, turn, result);
}

/* Anything that a forecast can do without ends a forecast, the rest ends the stream. */
static bool is_fault(int status)
{
    return status && status != -EAGAIN && status != -ECANCELED && status != -ERANGE;
}

static void fault(struct kd_window *window, const struct kd_turn *turn, struct tale *tale,
                  int status, const struct kr_error *error)
{
    window->status = status;
    report(window, turn, tale, status, error);
}

/* Bars */

/* What an earlier run has left of the stream's calibration. */
static void restore(struct kd_window *window, struct tale *tale)
{
    if (window->keep.looked || !window->keep.store)
        return;
    kd_keep_restore(&window->keep, &window->scoring.trust, &tale->kept);
    tale->has_kept = true;
    if (tale->kept.what == KD_KEPT_RESTORED)
        kd_scoring_resumed(&window->scoring);
}

static int make(struct kd_window *window, const struct kd_turn *turn, struct tale *tale,
                struct kr_error *error)
{
    int status;

    if (window->made)
        return 0;
    window->marks = (struct kd_marks){INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN};
    status = kr_live_init(&window->live, turn->model, turn->live, error);
    if (!status) {
        status =
            kd_scoring_make(&window->scoring, turn->model, turn->live, &window->settings, error);
        if (status)
            kr_live_free(&window->live);
    }
    window->made = !status;
    window->n_waited = window->n_drifted = 0;
    if (!status)
        restore(window, tale);
    return status;
}

static void mark(struct kd_window *window, const struct kd_job *job)
{
    struct kd_marks *marks = &window->marks;
    int64_t t_ns = job->bar.t_ns;

    if (job->gap)
        marks->gap_ns = KR_MAX(marks->gap_ns, t_ns);
    if (job->change == KR_LATE)
        marks->late_ns = KR_MAX(marks->late_ns, t_ns);
    if (job->change == KR_REVISED)
        marks->revised_ns = KR_MAX(marks->revised_ns, t_ns);
    if (job->bar.synthetic)
        marks->synthetic_ns = KR_MAX(marks->synthetic_ns, t_ns);
}

static void apply(struct kd_window *window, const struct kd_turn *turn, const struct kd_job *job,
                  struct tale *tale)
{
    struct kr_error error = {""};
    int status = make(window, turn, tale, &error);

    if (!status) {
        uint64_t before = window->live.n_reanchored;

        mark(window, job);
        kd_scoring_bar(&window->scoring,
                       &(struct kd_scored){turn->symbol, turn->interval->text, turn->ep}, job,
                       window->live.series.next_row);
        kd_keep_changed(&window->keep);
        status = kr_live_apply(&window->live, &turn->rig->engine, job->change, &job->bar);
        /* Older than what the window keeps: the ledger keeps more. */
        if (status == -ENOENT || status == -EEXIST || status == -ERANGE)
            status = 0;
        if (job->change == KR_REANCHOR)
            tale->n_gap_epochs += window->live.n_reanchored - before;
        else
            tale->n_revision_epochs += window->live.n_reanchored - before;
        if (status < 0)
            kr_error_set(&error, status, "window: %s", strerror(-status));
    }
    tale->n_settled += job->settles;
    if (status < 0)
        fault(window, turn, tale, status, &error);
}

static void reset(struct kd_window *window)
{
    if (window->made)
        kr_live_free(&window->live);
    kd_scoring_forget(&window->scoring);
    kd_keep_forget(&window->keep);
    window->made = false;
    window->status = 0;
}

/* Forecasts */

static bool ready(const struct kd_window *window)
{
    return window->made && !window->status && kr_live_ready(&window->live);
}

static void forecast(struct kd_window *window, const struct kd_turn *turn, const struct kd_job *job,
                     struct tale *tale)
{
    bool forming = job->kind == KD_JOB_FORMING;
    struct kr_error error = {""};
    struct kd_result *result;
    struct kd_made made;
    int status;

    if (!ready(window))
        return;
    if (forming && job->bar.t_ns <= kr_series_last(&window->live.series)->t_ns)
        return; /* the final bar is there already */
    int64_t started_ns = kd_mono_ns();
    const struct kd_order order = {
        .symbol = turn->symbol,
        .interval = turn->interval,
        .settings = &window->settings,
        .scoring = &window->scoring,
        .overlay = forming ? &job->bar : NULL,
        .ep = turn->ep,
        .seq = window->seq + 1,
        .marks = window->marks,
        .arrived_ns = job->arrived_ns,
        .started_ns = turn->started_ns,
        .applied_ns = started_ns,
        .keep_going = turn->keep_going,
        .context = turn->context,
    };

    result = new_result(window, turn, tale);
    if (!result) {
        fault(window, turn, tale, -ENOMEM, NULL);
        return;
    }
    status = kd_rig_forecast(turn->rig, &window->live, &order, &result->forecast,
                             window->settings.publish_paths ? &result->paths : NULL, &made, &error);
    kd_keep_changed(&window->keep);
    if (!status) {
        result->has_forecast = true;
        result->forming = forming;
        result->seq = ++window->seq;
        result->report = made.report;
        result->as_of_ns = made.as_of_ns;
        result->total_us = made.total_us;
    } else {
        result->n_skipped++;
        result->status = status;
        result->error = error;
        if (is_fault(status))
            window->status = status;
    }
    hand_over(window, turn, result);
}

void kd_window_run(struct kd_window *window, const struct kd_turn *turn, const struct kd_job *jobs)
{
    const struct kd_job *wanted = NULL, *last = jobs;
    struct tale tale = {0};

    for (const struct kd_job *job = jobs; job; job = job->next) {
        bool wants = job->forecast;

        last = job;
        switch (job->kind) {
        case KD_JOB_BAR:
            if (!window->status)
                apply(window, turn, job, &tale);
            else
                tale.n_settled += job->settles;
            break;
        case KD_JOB_FORMING:
            wants = false; /* made behind the bars, if it is still the newest */
            break;
        case KD_JOB_FORECAST:
            tale.n_asked++;
            break;
        case KD_JOB_SETTINGS:
            kd_settings_free(&window->settings);
            kd_settings_copy(&window->settings, job->settings);
            if (kd_scoring_configure(&window->scoring, turn->model, turn->live,
                                     &window->settings)) {
                tale.n_recalibrated++;
                kd_keep_changed(&window->keep);
            }
            break;
        case KD_JOB_SAVE:
            break;
        case KD_JOB_RESET:
            reset(window);
            window->n_resets++;
            wanted = NULL;
            break;
        }
        if (!wants || !ready(window))
            continue;
        if (window->settings.backlog == KD_BACKLOG_ALL) {
            forecast(window, turn, job, &tale);
            continue;
        }
        tale.n_skipped += wanted != NULL;
        wanted = job;
    }
    if (wanted && !turn->behind)
        forecast(window, turn, wanted, &tale);
    else
        tale.n_skipped += wanted != NULL;
    if (last->kind == KD_JOB_FORMING && !turn->behind)
        forecast(window, turn, last, &tale);
    if (tale.n_settled || tale.n_asked || tale.n_skipped || tale.n_gap_epochs ||
        tale.n_revision_epochs || tale.n_recalibrated || tale.has_kept ||
        window->scoring.messages.size)
        report(window, turn, &tale, 0, NULL);
    (void)kd_window_save(window, 0); /* where there is no room, later */
}
