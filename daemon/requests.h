/* SPDX-License-Identifier: MIT */
/* Forecasts asked for on the control socket, with their own parameters and any horizon: computed by threads of
 * their own, on a private window built from a copy of the stream's bars, so that no stream waits for them.
 *
 * Their number, size and memory are bounded; each allocates what it needs and gives it back. */
#ifndef KD_REQUESTS_H
#define KD_REQUESTS_H

#include "daemon/config.h"
#include "daemon/crew.h"
#include "daemon/outbox.h"

#include <pthread.h>
#include <stdatomic.h>

struct kd_request {
    struct kd_request *next;
    char symbol[KR_SYMBOL_MAX + 1];
    struct kr_interval interval;
    struct kd_settings settings; /* with the request's own parameters; owned */
    struct kr_live_config live;
    struct kr_bar *bars; /* [n_bars], oldest first; owned */
    size_t n_bars;
    int64_t arrived_ns;
    void *reply; /* the asker's: where the answer goes */
};

struct kd_requests {
    const struct kr_model *model;
    struct kd_outbox *outbox;
    uint64_t ep;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct kd_request *first, *last;
    size_t n_waiting, n_running;
    struct kd_crew crew;
    bool made, stop;
    atomic_bool cancel;
};

/* Start n threads. Return: 0 or a negative errno; kd_requests_stop() and _free() take down what is there. */
int kd_requests_start(struct kd_requests *requests, const struct kr_model *model,
                      struct kd_outbox *outbox, uint64_t ep, size_t n) kr_must_check;
/* Let what runs and what waits end at once; their results say -ECANCELED. */
void kd_requests_cancel(struct kd_requests *requests);
/* Cancel, and join the threads until end_ns (monotonic). Return: true, or false if one did not end. */
bool kd_requests_stop(struct kd_requests *requests, int64_t end_ns);
void kd_requests_free(struct kd_requests *requests);

/* Main thread. The request is taken over; its result, with `owner` = request->reply and of_control set, comes
 * through the outbox. Return: true, or false if `max_waiting` others wait already (not taken). */
bool kd_requests_put(struct kd_requests *requests, struct kd_request *request, size_t max_waiting);

/* Free a request that was not taken. */
void kd_request_free(struct kd_request **request);

#endif
