/* SPDX-License-Identifier: MIT */
#include "daemon/outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A message memory larger than this is not worth keeping. */
#define KEEP_BYTES (1 << 20)

int kd_outbox_init(struct kd_outbox *outbox)
{
    *outbox = (struct kd_outbox){.fd = -1};
    pthread_mutex_init(&outbox->lock, NULL);
    outbox->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return outbox->fd < 0 ? -errno : 0;
}

static void free_list(struct kd_result *result)
{
    while (result) {
        struct kd_result *next = result->next;

        msgpack_sbuffer_destroy(&result->forecast);
        msgpack_sbuffer_destroy(&result->paths);
        msgpack_sbuffer_destroy(&result->scores);
        free(result);
        result = next;
    }
}

void kd_outbox_free(struct kd_outbox *outbox)
{
    if (outbox->fd < 0)
        return;
    close(outbox->fd);
    outbox->fd = -1;
    free_list(outbox->first);
    free_list(outbox->spare);
    pthread_mutex_destroy(&outbox->lock);
}

struct kd_result *kd_outbox_new(struct kd_outbox *outbox)
{
    struct kd_result *result;

    pthread_mutex_lock(&outbox->lock);
    result = outbox->spare;
    if (result)
        outbox->spare = result->next;
    pthread_mutex_unlock(&outbox->lock);
    if (!result)
        return calloc(1, sizeof(*result));
    msgpack_sbuffer forecast = result->forecast, paths = result->paths, scores = result->scores;

    msgpack_sbuffer_clear(&forecast);
    msgpack_sbuffer_clear(&paths);
    msgpack_sbuffer_clear(&scores);
    *result = (struct kd_result){.forecast = forecast, .paths = paths, .scores = scores};
    return result;
}

void kd_outbox_put(struct kd_outbox *outbox, struct kd_result *result)
{
    uint64_t one = 1;
    bool first;

    result->next = NULL;
    pthread_mutex_lock(&outbox->lock);
    first = !outbox->first;
    if (first)
        outbox->first = result;
    else
        outbox->last->next = result;
    outbox->last = result;
    pthread_mutex_unlock(&outbox->lock);
    if (first && write(outbox->fd, &one, sizeof(one)) < 0)
        return; /* only a full counter fails, and that is readable */
}

struct kd_result *kd_outbox_take(struct kd_outbox *outbox)
{
    struct kd_result *first;
    uint64_t count;

    /* Cleared before the list is taken: a result put in between makes it readable again. */
    if (read(outbox->fd, &count, sizeof(count)) < 0 && errno != EAGAIN)
        return NULL;
    pthread_mutex_lock(&outbox->lock);
    first = outbox->first;
    outbox->first = outbox->last = NULL;
    pthread_mutex_unlock(&outbox->lock);
    return first;
}

static void keep_small(msgpack_sbuffer *buffer)
{
    if (buffer->alloc <= KEEP_BYTES)
        return;
    msgpack_sbuffer_destroy(buffer);
    msgpack_sbuffer_init(buffer);
}

void kd_outbox_reuse(struct kd_outbox *outbox, struct kd_result *result)
{
    keep_small(&result->forecast);
    keep_small(&result->paths);
    keep_small(&result->scores);
    pthread_mutex_lock(&outbox->lock);
    result->next = outbox->spare;
    outbox->spare = result;
    pthread_mutex_unlock(&outbox->lock);
}
