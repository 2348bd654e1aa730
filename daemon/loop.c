/* SPDX-License-Identifier: MIT */
#include "daemon/loop.h"

#include "daemon/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <zmq.h>

#define MAX_SOURCES 16
#define MAX_TIMERS  8

struct source {
    void *socket;
    int fd;
    bool enabled;
    void (*ready)(void *context);
    void *context;
};

struct timer {
    int64_t due_ns;
    void (*ready)(void *context);
    void *context;
};

struct kd_loop {
    struct source sources[MAX_SOURCES];
    size_t n_sources;
    struct timer timers[MAX_TIMERS];
    size_t n_timers;
    int timer_fd;
    int64_t armed_ns; /* what timer_fd is set to */
    bool quit;
};

int kd_loop_new(struct kd_loop **ret)
{
    struct kd_loop *loop = calloc(1, sizeof(*loop));

    if (!loop)
        return -ENOMEM;
    loop->armed_ns = INT64_MAX;
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (loop->timer_fd < 0) {
        int code = -errno;

        free(loop);
        return code;
    }
    *ret = loop;
    return 0;
}

void kd_loop_free(struct kd_loop **loop)
{
    if (!*loop)
        return;
    close((*loop)->timer_fd);
    kr_freep(loop);
}

static int add(struct kd_loop *loop, void *socket, int fd, void (*ready)(void *context),
               void *context)
{
    if (loop->n_sources == MAX_SOURCES)
        return -ENOSPC;
    loop->sources[loop->n_sources] = (struct source){
        .socket = socket, .fd = fd, .enabled = true, .ready = ready, .context = context};
    return (int)loop->n_sources++;
}

int kd_loop_socket(struct kd_loop *loop, void *socket, void (*ready)(void *context), void *context)
{
    return add(loop, socket, -1, ready, context);
}

int kd_loop_fd(struct kd_loop *loop, int fd, void (*ready)(void *context), void *context)
{
    return add(loop, NULL, fd, ready, context);
}

void kd_loop_enable(struct kd_loop *loop, int source, bool enabled)
{
    loop->sources[source].enabled = enabled;
}

int kd_loop_timer(struct kd_loop *loop, void (*ready)(void *context), void *context)
{
    if (loop->n_timers == MAX_TIMERS)
        return -ENOSPC;
    loop->timers[loop->n_timers] =
        (struct timer){.due_ns = INT64_MAX, .ready = ready, .context = context};
    return (int)loop->n_timers++;
}

void kd_loop_timer_set(struct kd_loop *loop, int timer, int64_t due_ns)
{
    loop->timers[timer].due_ns = due_ns;
}

bool kd_loop_timer_armed(const struct kd_loop *loop, int timer)
{
    return loop->timers[timer].due_ns != INT64_MAX;
}

/* One descriptor for all timers, set to the earliest: zmq_poll()'s own timeout has no better than
 * milliseconds and starts anew with every message. */
static void arm(struct kd_loop *loop)
{
    int64_t due = INT64_MAX;
    struct itimerspec spec = {0};

    for (size_t i = 0; i < loop->n_timers; i++)
        due = KR_MIN(due, loop->timers[i].due_ns);
    if (due == loop->armed_ns)
        return;
    loop->armed_ns = due;
    if (due != INT64_MAX) {
        due = KR_MAX(due, 1); /* 0 would disarm */
        spec.it_value.tv_sec = due / INT64_C(1000000000);
        spec.it_value.tv_nsec = due % INT64_C(1000000000);
    }
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void run_timers(struct kd_loop *loop)
{
    int64_t now = kd_mono_ns();

    for (size_t i = 0; i < loop->n_timers && !loop->quit; i++) {
        struct timer *timer = &loop->timers[i];

        if (timer->due_ns > now)
            continue;
        timer->due_ns = INT64_MAX;
        timer->ready(timer->context);
    }
}

int kd_loop_run(struct kd_loop *loop)
{
    while (!loop->quit) {
        zmq_pollitem_t items[MAX_SOURCES + 1] = {{.fd = loop->timer_fd, .events = ZMQ_POLLIN}};
        size_t which[MAX_SOURCES + 1], n = 1;

        arm(loop);
        for (size_t i = 0; i < loop->n_sources; i++) {
            const struct source *source = &loop->sources[i];

            if (!source->enabled)
                continue;
            items[n] =
                (zmq_pollitem_t){.socket = source->socket, .fd = source->fd, .events = ZMQ_POLLIN};
            which[n++] = i;
        }
        if (zmq_poll(items, (int)n, -1) < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (items[0].revents) {
            uint64_t expirations;

            if (read(loop->timer_fd, &expirations, sizeof(expirations)) > 0)
                loop->armed_ns = INT64_MAX;
        }
        run_timers(loop);
        for (size_t i = 1; i < n && !loop->quit; i++) {
            const struct source *source = &loop->sources[which[i]];

            if (items[i].revents && source->enabled)
                source->ready(source->context);
        }
    }
    return 0;
}

void kd_loop_quit(struct kd_loop *loop)
{
    loop->quit = true;
}
