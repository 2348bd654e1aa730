/* SPDX-License-Identifier: MIT */
#include "daemon/keeper.h"

#include "daemon/clock.h"
#include "daemon/daemon.h"
#include "daemon/log.h"

#include <string.h>

static const char *const sync_names[] = {
    [KD_SYNC_ALWAYS] = "always", [KD_SYNC_INTERVAL] = "interval", [KD_SYNC_OFF] = "off"};

int kd_keeper_open(struct kd_daemon *daemon, struct kr_error *error)
{
    const struct kd_config *config = daemon->config;
    const struct kd_store_config store = {.directory = config->state.directory,
                                          .sync = config->state.sync,
                                          .map_bytes = daemon->plan.keep.map_bytes,
                                          .queue_bytes = daemon->plan.keep.queue_bytes,
                                          .max_streams = config->limits.symbols};
    uint64_t n_dropped;
    int status;

    if (!*config->state.directory)
        return 0;
    status = kd_store_open(&store, &daemon->store, error);
    if (status)
        return status;
    n_dropped = atomic_load(&kd_store_counts(daemon->store)->dropped);
    kd_say(KD_MSG_STATE, "state in %s: %zu streams, %llu bytes, sync %s%s", store.directory,
           kd_store_streams(daemon->store), (unsigned long long)kd_store_used_bytes(daemon->store),
           sync_names[store.sync],
           n_dropped ? "; the longest unused were dropped, to [limits] symbols" : "");
    return 0;
}

int kd_keeper_start(struct kd_daemon *daemon, struct kr_error *error)
{
    int status = daemon->store ? kd_store_start(daemon->store) : 0;

    return status ? kr_error_set(error, status, "threads: %s", strerror(-status)) : 0;
}

/* Say it once when it begins and once when it ends. */
static void watch(struct kd_daemon *daemon, int64_t now_ns)
{
    struct kd_keeping *keeping = &daemon->keeping;
    const struct kd_store_counts *counts = kd_store_counts(daemon->store);
    uint64_t failures = atomic_load(&counts->failures), commits = atomic_load(&counts->commits);
    char why[200];

    if (failures > keeping->failures) {
        if (!keeping->failing) {
            kd_store_fault(daemon->store, why, sizeof(why));
            kd_say(KD_MSG_STATE_FAILED, "%s: calibration is not kept meanwhile", why);
            kd_note(&daemon->notes, NULL, "", "", KD_NOTE_STATE_FAILED, 0, 1);
        }
        keeping->failing = true;
        keeping->retry_ns = now_ns + KD_KEEPER_RETRY_NS;
    } else if (keeping->failing && commits > keeping->commits) {
        keeping->failing = false;
        kd_say(KD_MSG_STATE_WRITTEN, "the state is written again");
        kd_note(&daemon->notes, NULL, "", "", KD_NOTE_STATE_WRITTEN, 0, 1);
    }
    keeping->failures = failures;
    keeping->commits = commits;
}

void kd_keeper_second(struct kd_daemon *daemon, int64_t now_ns)
{
    struct kd_keeping *keeping = &daemon->keeping;
    const struct kd_job job = {.kind = KD_JOB_SAVE, .arrived_ns = now_ns};

    if (!daemon->store)
        return;
    watch(daemon, now_ns);
    if (keeping->failing && now_ns < keeping->retry_ns)
        return;
    keeping->retry_ns = now_ns + KD_KEEPER_RETRY_NS;
    for (size_t i = 0; i < daemon->streams.n; i++) {
        struct kd_stream *stream = daemon->streams.all[i];
        struct kd_keep *keep = &stream->window.keep; /* its flags are anybody's to read */

        if (atomic_load(&keep->waits) || atomic_load(&keep->lost))
            (void)!kd_pool_submit(&daemon->pool, &stream->lane, &job); /* or the next second */
    }
}

size_t kd_keeper_counts(const struct kd_daemon *daemon, struct kw_count ret[KD_KEEPER_COUNTS])
{
    const struct kd_keeping *keeping = &daemon->keeping;
    const struct kd_store_counts *counts;
    size_t n = 0;

    if (!daemon->store)
        return 0;
    counts = kd_store_counts(daemon->store);
    ret[n++] = (struct kw_count){"restored", keeping->restored};
    ret[n++] = (struct kw_count){"stale", keeping->stale};
    ret[n++] = (struct kw_count){"damaged", keeping->damaged};
    ret[n++] = (struct kw_count){"unread", keeping->unread};
    ret[n++] = (struct kw_count){"dropped", atomic_load(&counts->dropped)};
    ret[n++] = (struct kw_count){"submitted", atomic_load(&counts->submitted)};
    ret[n++] = (struct kw_count){"committed", atomic_load(&counts->committed)};
    ret[n++] = (struct kw_count){"lost", atomic_load(&counts->lost)};
    ret[n++] = (struct kw_count){"refused", atomic_load(&counts->refused)};
    ret[n++] = (struct kw_count){"commits", atomic_load(&counts->commits)};
    ret[n++] = (struct kw_count){"failures", atomic_load(&counts->failures)};
    ret[n++] = (struct kw_count){"bytes", kd_store_used_bytes(daemon->store)};
    return n;
}

bool kd_keeper_finish(struct kd_daemon *daemon, int64_t end_ns)
{
    const struct kd_store_counts *counts;
    size_t n_left = 0;
    bool ended;

    if (!daemon->store)
        return true;
    counts = kd_store_counts(daemon->store);
    for (size_t i = 0; i < daemon->streams.n && !daemon->stuck; i++)
        n_left += !kd_window_save(&daemon->streams.all[i]->window, end_ns);
    ended = kd_store_stop(daemon->store, end_ns);
    watch(daemon, kd_mono_ns());
    for (size_t i = 0; i < daemon->streams.n && ended && !daemon->stuck; i++)
        n_left += atomic_load(&daemon->streams.all[i]->window.keep.lost);
    if (n_left || !ended || daemon->stuck)
        kd_say(KD_MSG_STATE_FAILED, "the state is not complete: %zu streams could not be written%s",
               n_left, ended && !daemon->stuck ? "" : ", a thread did not end");
    kd_say(KD_MSG_NOTE, "state: %llu changes in %llu commits, %llu lost",
           (unsigned long long)atomic_load(&counts->committed),
           (unsigned long long)atomic_load(&counts->commits),
           (unsigned long long)atomic_load(&counts->lost));
    return ended;
}
