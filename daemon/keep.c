/* SPDX-License-Identifier: MIT */
#include "daemon/keep.h"

#include "daemon/clock.h"

#include <assert.h>
#include <errno.h>

/* More for all streams' turns than this is not worth it: the disk takes it in groups. */
#define ENOUGH_QUEUE ((size_t)8 << 20)
/* Tables' own pages, and a margin. */
#define BASE_MAP ((size_t)16 << 20)
#define PAGE     4096

void kd_keep_init(struct kd_keep *keep, struct kd_store *store, const char *interval,
                  const char *symbol)
{
    keep->store = store;
    keep->key_bytes = kd_store_key(interval, symbol, keep->key);
    keep->looked = keep->forget = keep->changed = false;
    keep->n_forecasts = 0;
    atomic_init(&keep->waits, false);
    atomic_init(&keep->lost, false);
}

/* Restoring */

struct reading {
    struct kr_trust *trust;
    struct kd_restored *restored;
};

static int take_entry(void *context, const void *value, size_t value_bytes)
{
    struct reading *reading = context;

    /* One that the ring cannot take is as good as damaged: its state tells of it. */
    if (kr_pending_unpack_entry(&reading->trust->pending, value, value_bytes) < 0)
        reading->restored->n_unread++;
    return 0;
}

/* The forecasts of a trust that has been restored. */
static void restore_pending(const struct kd_keep *keep, const struct kd_view *view,
                            struct reading *reading)
{
    struct kr_pending *pending = &reading->trust->pending;
    const void *value;
    size_t value_bytes;
    int status =
        kd_view_each(view, KD_TABLE_PENDING, keep->key, keep->key_bytes, take_entry, reading);

    reading->restored->n_unread += status < 0;
    status =
        kd_view_get(view, KD_TABLE_PENDING_STATE, keep->key, keep->key_bytes, &value, &value_bytes);
    if (status == 0)
        status = kr_pending_unpack_state(pending, value, value_bytes);
    if (status < 0) { /* which of their steps are scored is not known: never twice */
        reading->restored->n_unread++;
        kr_pending_clear(pending);
    }
    reading->restored->n_forecasts = pending->n;
}

static void restore(struct kd_keep *keep, const struct kd_view *view, struct reading *reading)
{
    struct kd_restored *restored = reading->restored;
    const void *value;
    size_t value_bytes;
    int status =
        kd_view_get(view, KD_TABLE_CALIBRATION, keep->key, keep->key_bytes, &value, &value_bytes);

    if (status == -ENOENT)
        return;
    if (status == 0)
        status = kr_trust_unpack(reading->trust, value, value_bytes);
    if (status == -ESTALE || status == -EPROTO) {
        restored->what = KD_KEPT_STALE;
    } else if (status < 0) {
        restored->what = KD_KEPT_DAMAGED;
        restored->n_unread++;
    } else {
        restored->what = KD_KEPT_RESTORED;
        restore_pending(keep, view, reading);
        keep->n_forecasts = reading->trust->pending.counts.forecasts;
    }
    /* What was not taken is written over, all of it. */
    if (restored->what != KD_KEPT_RESTORED || restored->n_unread > 0) {
        keep->n_forecasts = 0;
        keep->changed = true;
    }
}

void kd_keep_restore(struct kd_keep *keep, struct kr_trust *trust, struct kd_restored *ret)
{
    struct kd_restored restored = {.what = KD_KEPT_NOTHING};
    struct reading reading = {.trust = trust, .restored = &restored};
    struct kd_view view;

    if (keep->store && !keep->looked) {
        keep->looked = true;
        if (kd_view_begin(keep->store, &view) == 0) {
            restore(keep, &view, &reading);
            kd_view_end(&view);
        } else {
            restored.what = KD_KEPT_DAMAGED;
            restored.n_unread = 1;
        }
    }
    *ret = restored;
}

/* Saving */

void kd_keep_changed(struct kd_keep *keep)
{
    keep->changed = keep->store != NULL;
}

void kd_keep_forget(struct kd_keep *keep)
{
    if (!keep->store)
        return;
    keep->looked = keep->forget = keep->changed = true;
    keep->n_forecasts = 0;
}

bool kd_keep_wants(const struct kd_keep *keep)
{
    return keep->changed || atomic_load(&keep->lost);
}

/* The newest of the ring that have not been submitted. One that took another's place counts as
 * remembered too, so that at worst an older one is written again. */
static size_t first_new(const struct kd_keep *keep, const struct kr_pending *pending)
{
    uint64_t n_new = pending->counts.forecasts - keep->n_forecasts;

    return n_new < pending->n ? pending->n - (size_t)n_new : 0;
}

static size_t save_bytes(const struct kd_keep *keep, const struct kr_trust *trust, size_t first)
{
    const struct kr_pending *pending = &trust->pending;
    size_t bytes = KD_STORE_STREAM_BYTES + KD_STORE_KEEP_BYTES;

    bytes += kd_store_put_bytes(keep->key_bytes, kr_trust_record_bytes(trust));
    bytes += kd_store_put_bytes(keep->key_bytes, kr_pending_state_record_bytes(pending));
    for (size_t i = first; i < pending->n; i++)
        bytes += kd_store_put_bytes(
            keep->key_bytes + 8, kr_pending_entry_record_bytes(pending, kr_pending_at(pending, i)));
    return bytes;
}

static void put_entries(const struct kd_keep *keep, const struct kr_pending *pending, size_t first,
                        struct kd_batch *batch)
{
    int64_t from_ns = 1, to_ns = 0; /* none */
    unsigned char key[KD_STORE_MAX_KEY];

    for (size_t i = first; i < pending->n; i++) {
        const struct kr_pending_entry *entry = kr_pending_at(pending, i);
        size_t n = kr_pending_entry_record_bytes(pending, entry), written;
        size_t key_bytes = kd_store_key_at(keep->key, keep->key_bytes, entry->as_of_ns, key);
        void *value = kd_batch_put(batch, KD_TABLE_PENDING, key, key_bytes, n);
        int status = kr_pending_pack_entry(pending, entry, value, n, &written);

        assert(status == 0 && written == n);
        (void)status;
    }
    if (pending->n > 0) {
        from_ns = kr_pending_at(pending, 0)->as_of_ns;
        to_ns = kr_pending_at(pending, pending->n - 1)->as_of_ns;
    }
    kd_batch_keep(batch, KD_TABLE_PENDING, keep->key, keep->key_bytes, from_ns, to_ns);
}

static void put_records(const struct kd_keep *keep, const struct kr_trust *trust, size_t first,
                        struct kd_batch *batch)
{
    const struct kr_pending *pending = &trust->pending;
    size_t n_trust = kr_trust_record_bytes(trust), n_state = kr_pending_state_record_bytes(pending);
    size_t written;
    void *value;
    int status;

    value = kd_batch_put(batch, KD_TABLE_CALIBRATION, keep->key, keep->key_bytes, n_trust);
    status = kr_trust_pack(trust, value, n_trust, &written);
    assert(status == 0 && written == n_trust);
    put_entries(keep, pending, first, batch);
    value = kd_batch_put(batch, KD_TABLE_PENDING_STATE, keep->key, keep->key_bytes, n_state);
    status = kr_pending_pack_state(pending, value, n_state, &written);
    assert(status == 0 && written == n_state);
    (void)status;
    kd_batch_stream(batch, keep->key, keep->key_bytes, kd_wall_ns());
}

bool kd_keep_save(struct kd_keep *keep, const struct kr_trust *trust, int64_t end_ns)
{
    size_t first = 0, bytes = keep->forget ? KD_STORE_KEEP_BYTES : 0;
    struct kd_batch batch;

    if (!kd_keep_wants(keep))
        return true;
    if (atomic_exchange(&keep->lost, false)) {
        keep->n_forecasts = 0;
        keep->forget |= !trust; /* it may have been that */
        bytes = keep->forget ? KD_STORE_KEEP_BYTES : 0;
    }
    keep->changed = true;
    if (trust) {
        first = first_new(keep, &trust->pending);
        bytes += save_bytes(keep, trust, first);
    }
    if (!kd_store_begin(keep->store, bytes, end_ns, &batch)) {
        atomic_store(&keep->waits, true);
        return false;
    }
    if (keep->forget)
        kd_batch_drop(&batch, keep->key, keep->key_bytes);
    if (trust)
        put_records(keep, trust, first, &batch);
    keep->n_forecasts = trust ? trust->pending.counts.forecasts : 0;
    keep->forget = keep->changed = false;
    atomic_store(&keep->waits, false);
    kd_store_submit(&batch, &keep->lost);
    return true;
}

/* The plan */

/* Bytes of the file's pages that a record takes. */
static size_t in_pages(size_t bytes)
{
    return kr_round_up(bytes + 16, PAGE);
}

bool kd_keep_plan(const struct kr_pending_size *size, size_t n_symbols, struct kd_keep_plan *ret)
{
    struct kr_pending_entry entry = {.n_steps = size->max_steps, .n_paths = size->max_paths};
    struct kr_trust shape = {.calibrator = {.n_steps = size->max_steps, .n_levels = size->n_levels},
                             .pending = {.size = *size, .entries = &entry}};
    size_t capacity = kr_pending_capacity(size), empty, all, turn, stream, per_entry;
    struct kd_keep_plan plan;

    if (capacity == 0 || kr_pending_size_bytes(size) == 0)
        return false;
    plan.trust_bytes = kr_trust_record_bytes(&shape);
    plan.entry_bytes = kr_pending_entry_record_bytes(&shape.pending, &entry);
    empty = kr_pending_state_record_bytes(&shape.pending);
    shape.pending.size.capacity = 1;
    shape.pending.n = 1;
    per_entry = kr_pending_state_record_bytes(&shape.pending) - empty;
    if (!kr_multiply(per_entry, capacity, &plan.state_bytes) ||
        !kr_add(plan.state_bytes, empty, &plan.state_bytes))
        return false;
    per_entry = kd_store_put_bytes(KD_STORE_MAX_KEY, plan.entry_bytes);
    turn = KD_STORE_STREAM_BYTES + 2 * KD_STORE_KEEP_BYTES + per_entry +
           kd_store_put_bytes(KD_STORE_MAX_KEY, plan.trust_bytes) +
           kd_store_put_bytes(KD_STORE_MAX_KEY, plan.state_bytes);
    if (!kr_multiply(per_entry, capacity - 1, &all) || !kr_add(all, turn, &all) ||
        !kr_multiply(in_pages(plan.entry_bytes), capacity, &stream) ||
        !kr_add(stream, PAGE + in_pages(plan.trust_bytes) + in_pages(plan.state_bytes), &stream) ||
        !kr_multiply(turn, n_symbols, &turn))
        return false;
    plan.queue_bytes = kr_round_up(KR_MAX(all, KR_MIN(turn, ENOUGH_QUEUE)), PAGE);
    if (!kr_multiply(stream, 4, &stream) || !kr_multiply(stream, n_symbols, &plan.map_bytes) ||
        !kr_multiply(plan.queue_bytes, 4, &all) || !kr_add(plan.map_bytes, all, &plan.map_bytes) ||
        !kr_add(plan.map_bytes, BASE_MAP, &plan.map_bytes))
        return false;
    plan.map_bytes = kr_round_up(plan.map_bytes, PAGE);
    *ret = plan;
    return true;
}
