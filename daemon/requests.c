/* SPDX-License-Identifier: MIT */
#include "daemon/requests.h"

#include "daemon/clock.h"
#include "daemon/rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void kd_request_free(struct kd_request **request)
{
    if (!*request)
        return;
    kd_settings_free(&(*request)->settings);
    free((*request)->bars);
    kr_freep(request);
}

static bool keep_going(void *context, size_t step)
{
    struct kd_requests *requests = context;

    (void)step;
    return !atomic_load_explicit(&requests->cancel, memory_order_relaxed);
}

/* A rig and a window for this request alone. */
static int compute(struct kd_requests *requests, const struct kd_request *request,
                   struct kd_result *result)
{
    const struct kd_rig_size size = {
        .generator = kr_live_generator_size(&request->live, request->settings.paths),
        .max_visible = KR_MAX(request->live.lookback, request->live.max_context),
    };
    struct kr_live live = {0};
    struct kd_rig rig = {0};
    struct kd_made made;
    int64_t started_ns = kd_mono_ns();
    int status = kd_rig_init(&rig, requests->model, &size, &result->error);

    if (!status)
        status = kr_live_init(&live, requests->model, &request->live, &result->error);
    for (size_t i = 0; i < request->n_bars && !status; i++)
        status = kr_live_apply(&live, &rig.engine, KR_HISTORY, &request->bars[i]);
    if (!status) {
        const struct kd_order order = {
            .symbol = request->symbol,
            .interval = &request->interval,
            .settings = &request->settings,
            .marks = {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN},
            .ep = requests->ep,
            .arrived_ns = request->arrived_ns,
            .started_ns = started_ns,
            .applied_ns = kd_mono_ns(),
            .keep_going = keep_going,
            .context = requests,
        };

        status =
            kd_rig_forecast(&rig, &live, &order, &result->forecast, NULL, &made, &result->error);
    }
    if (!status) {
        result->has_forecast = true;
        result->report = made.report;
        result->as_of_ns = made.as_of_ns;
        result->total_us = made.total_us;
    }
    kr_live_free(&live);
    kd_rig_free(&rig);
    return status;
}

static void answer(struct kd_requests *requests, struct kd_request *request)
{
    struct kd_result *result = kd_outbox_new(requests->outbox);

    if (result) {
        result->owner = request->reply;
        result->of_control = true;
        result->status = keep_going(requests, 0)
                             ? compute(requests, request, result)
                             : kr_error_set(&result->error, -ECANCELED, "the daemon is stopping");
        kd_outbox_put(requests->outbox, result);
    } else {
        free(request->reply); /* no memory even to say so: the asker's patience ends */
    }
    kd_request_free(&request);
}

static void *work(void *argument)
{
    struct kd_requests *requests = argument;

    pthread_mutex_lock(&requests->lock);
    for (;;) {
        struct kd_request *request;

        while (!requests->stop && !requests->first)
            pthread_cond_wait(&requests->wake, &requests->lock);
        if (!requests->first)
            break;
        request = requests->first;
        requests->first = request->next;
        if (!requests->first)
            requests->last = NULL;
        requests->n_waiting--;
        requests->n_running++;
        pthread_mutex_unlock(&requests->lock);
        answer(requests, request);
        pthread_mutex_lock(&requests->lock);
        requests->n_running--;
    }
    pthread_mutex_unlock(&requests->lock);
    kd_crew_leave(&requests->crew);
    return NULL;
}

int kd_requests_start(struct kd_requests *requests, const struct kr_model *model,
                      struct kd_outbox *outbox, uint64_t ep, size_t n)
{
    int status;

    *requests = (struct kd_requests){.model = model, .outbox = outbox, .ep = ep};
    pthread_mutex_init(&requests->lock, NULL);
    pthread_cond_init(&requests->wake, NULL);
    requests->made = true;
    status = kd_crew_init(&requests->crew, n);
    while (requests->crew.n < n && !status)
        status = kd_crew_start(&requests->crew, work, requests);
    return status;
}

bool kd_requests_put(struct kd_requests *requests, struct kd_request *request, size_t max_waiting)
{
    bool taken;

    pthread_mutex_lock(&requests->lock);
    /* A thread that is free takes it at once, so it does not count as waiting. */
    taken = requests->n_waiting + requests->n_running < requests->crew.n + max_waiting;
    if (taken) {
        request->next = NULL;
        if (requests->last)
            requests->last->next = request;
        else
            requests->first = request;
        requests->last = request;
        requests->n_waiting++;
        pthread_cond_signal(&requests->wake);
    }
    pthread_mutex_unlock(&requests->lock);
    return taken;
}

void kd_requests_cancel(struct kd_requests *requests)
{
    atomic_store(&requests->cancel, true);
}

bool kd_requests_stop(struct kd_requests *requests, int64_t end_ns)
{
    if (!requests->made)
        return true;
    kd_requests_cancel(requests);
    pthread_mutex_lock(&requests->lock);
    requests->stop = true;
    pthread_cond_broadcast(&requests->wake);
    pthread_mutex_unlock(&requests->lock);
    return kd_crew_join(&requests->crew, end_ns);
}

void kd_requests_free(struct kd_requests *requests)
{
    if (!requests->made)
        return;
    while (requests->first) {
        struct kd_request *next = requests->first->next;

        kd_request_free(&requests->first);
        requests->first = next;
    }
    kd_crew_free(&requests->crew);
    pthread_cond_destroy(&requests->wake);
    pthread_mutex_destroy(&requests->lock);
    requests->made = false;
}
