/* SPDX-License-Identifier: MIT */
#include "core/bar.h"
#include "core/honest.h"
#include "core/pending.h"
#include "core/summary.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Memory */

size_t kr_pending_capacity(const struct kr_pending_size *size)
{
    size_t capacity = size->capacity;

    if (capacity == 0 && !kr_add(size->max_steps, KR_PENDING_GRACE + 1, &capacity))
        return 0;
    return capacity;
}

/* Bytes of one step of one forecast but for its flag, a multiple of 4. False if they do not fit. */
static bool step_bytes(const struct kr_pending_size *size, size_t *ret)
{
    size_t q, returns;

    return kr_multiply(size->n_levels, sizeof(double), &q) &&
           kr_multiply(size->max_paths, sizeof(float), &returns) && kr_add(q, returns, ret) &&
           kr_add(*ret, sizeof(int64_t) + sizeof(struct kr_map), ret);
}

size_t kr_pending_size_bytes(const struct kr_pending_size *size)
{
    size_t capacity = kr_pending_capacity(size), bytes;

    if (!step_bytes(size, &bytes) || !kr_add(bytes, sizeof(bool), &bytes) ||
        !kr_multiply(bytes, size->max_steps, &bytes) ||
        !kr_add(bytes, sizeof(struct kr_pending_entry), &bytes) ||
        !kr_multiply(bytes, capacity, &bytes) || bytes > SIZE_MAX - KR_ALIGNMENT)
        return 0;
    return kr_round_up(bytes, KR_ALIGNMENT);
}

int kr_pending_init(struct kr_pending *pending, const struct kr_pending_size *size,
                    struct kr_error *error)
{
    struct kr_pending made = {.size = *size};
    size_t bytes = kr_pending_size_bytes(size), capacity, steps;
    int64_t *due_ns;
    struct kr_map *map;
    double *q;
    float *returns;
    bool *scored;

    if (size->max_steps < 1 || size->max_paths < 1 || size->n_levels < 1)
        return kr_error_set(error, -EINVAL,
                            "pending forecasts: expected at least one step, path and level");
    made.size.capacity = capacity = kr_pending_capacity(size);
    made.entries = bytes > 0 ? kr_alloc(1, bytes) : NULL;
    if (!made.entries)
        return kr_error_set(error, -ENOMEM,
                            "pending forecasts: no memory for %zu steps of %zu paths",
                            size->max_steps, size->max_paths);
    /* the widest first, so that all are aligned */
    steps = capacity * size->max_steps;
    due_ns = (int64_t *)(made.entries + capacity);
    map = (struct kr_map *)(due_ns + steps);
    q = (double *)(map + steps);
    returns = (float *)(q + steps * size->n_levels);
    scored = (bool *)(returns + steps * size->max_paths);
    for (size_t i = 0; i < capacity; i++) {
        size_t at = i * size->max_steps;

        made.entries[i].due_ns = due_ns + at;
        made.entries[i].map = map + at;
        made.entries[i].q = q + at * size->n_levels;
        made.entries[i].returns = returns + at * size->max_paths;
        made.entries[i].scored = scored + at;
    }
    *pending = made;
    return 0;
}

void kr_pending_free(struct kr_pending *pending)
{
    free(pending->entries);
    *pending = (struct kr_pending){0};
}

/* The ring */

struct kr_pending_entry *kr_pending_at(const struct kr_pending *pending, size_t i)
{
    return &pending->entries[(pending->first + i) % pending->size.capacity];
}

static void close_oldest(struct kr_pending *pending)
{
    pending->counts.unscored += kr_pending_at(pending, 0)->n_waiting;
    pending->first = (pending->first + 1) % pending->size.capacity;
    pending->n--;
}

void kr_pending_clear(struct kr_pending *pending)
{
    while (pending->n > 0)
        close_oldest(pending);
}

/* A place behind the newest; that of the newest itself for the same as_of. */
static struct kr_pending_entry *take_place(struct kr_pending *pending, int64_t as_of_ns)
{
    struct kr_pending_entry *newest =
        pending->n > 0 ? kr_pending_at(pending, pending->n - 1) : NULL;

    pending->counts.forecasts++;
    if (newest && newest->as_of_ns == as_of_ns) {
        pending->counts.replaced++;
        return newest;
    }
    if (pending->n == pending->size.capacity) {
        pending->counts.crowded++;
        close_oldest(pending);
    }
    return kr_pending_at(pending, pending->n++);
}

static bool is_older(const struct kr_pending *pending, int64_t as_of_ns)
{
    return pending->n > 0 && as_of_ns < kr_pending_at(pending, pending->n - 1)->as_of_ns;
}

/* Forecasts */

static bool rising_behind(int64_t as_of_ns, const int64_t *due_ns, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (due_ns[i] <= (i > 0 ? due_ns[i - 1] : as_of_ns))
            return false;
    return true;
}

static double return_of(float close, double last_close)
{
    if (close == (float)last_close)
        return 0;
    return log(fmax((double)close, KR_PRICE_FLOOR * last_close) / last_close);
}

int kr_pending_add(struct kr_pending *pending, const struct kr_published *published,
                   double *scratch, struct kr_pending_entry **ret)
{
    size_t n_steps = published->n_steps, n_paths = published->n_paths;
    struct kr_pending_entry *entry;

    if (n_steps < 1 || n_steps > pending->size.max_steps || n_paths < 1 ||
        n_paths > pending->size.max_paths || !(published->last_close > 0) ||
        !rising_behind(published->as_of_ns, published->due_ns, n_steps))
        return -EINVAL;
    if (is_older(pending, published->as_of_ns))
        return -ERANGE;
    entry = take_place(pending, published->as_of_ns);
    entry->as_of_ns = published->as_of_ns;
    entry->as_of_row = published->as_of_row;
    entry->key = published->key;
    entry->last_close = published->last_close;
    entry->sigma = published->sigma;
    entry->stratified = published->stratified;
    entry->status = KR_UNCALIBRATED;
    entry->n_steps = entry->n_waiting = n_steps;
    entry->n_paths = n_paths;
    entry->n_since = 0;
    memcpy(entry->due_ns, published->due_ns, n_steps * sizeof(*entry->due_ns));
    memset(entry->scored, 0, n_steps * sizeof(*entry->scored));
    for (size_t step = 0; step < n_steps; step++) {
        for (size_t path = 0; path < n_paths; path++)
            scratch[path] =
                return_of(published->paths[(path * n_steps + step) * KR_COLUMNS + KR_CLOSE],
                          published->last_close);
        kr_sort(scratch, n_paths);
        for (size_t path = 0; path < n_paths; path++)
            entry->returns[step * n_paths + path] = (float)scratch[path];
        entry->map[step] = (struct kr_map){.slope = 1, .share = 1};
    }
    memset(entry->q, 0, n_steps * pending->size.n_levels * sizeof(*entry->q));
    *ret = entry;
    return 0;
}

void kr_pending_members(const struct kr_pending_entry *entry, size_t step, double *ret)
{
    for (size_t path = 0; path < entry->n_paths; path++)
        ret[path] = (double)entry->returns[step * entry->n_paths + path];
}

/* Bars */

/* Step due at t_ns, n_steps if none is. */
static size_t find_step(const struct kr_pending_entry *entry, int64_t t_ns)
{
    size_t low = 0, high = entry->n_steps;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (entry->due_ns[middle] < t_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < entry->n_steps && entry->due_ns[low] == t_ns ? low : entry->n_steps;
}

size_t kr_pending_due(const struct kr_pending *pending, int64_t t_ns, struct kr_due *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < pending->n; i++) {
        struct kr_pending_entry *entry = kr_pending_at(pending, i);
        size_t step = find_step(entry, t_ns);

        if (step < entry->n_steps && !entry->scored[step])
            ret[n++] = (struct kr_due){.entry = entry, .step = step};
    }
    return n;
}

void kr_pending_scored(struct kr_pending *pending, const struct kr_due *due, bool late)
{
    assert(!due->entry->scored[due->step]);
    due->entry->scored[due->step] = true;
    due->entry->n_waiting--;
    pending->counts.scored++;
    pending->counts.late += late;
}

bool kr_pending_has_scored(const struct kr_pending *pending, int64_t t_ns)
{
    for (size_t i = 0; i < pending->n; i++) {
        const struct kr_pending_entry *entry = kr_pending_at(pending, i);
        size_t step = find_step(entry, t_ns);

        if (step < entry->n_steps && entry->scored[step])
            return true;
    }
    return false;
}

static bool is_over(const struct kr_pending_entry *entry)
{
    return entry->n_waiting == 0 || entry->n_since >= KR_PENDING_GRACE;
}

void kr_pending_advance(struct kr_pending *pending, int64_t t_ns)
{
    for (size_t i = 0; i < pending->n; i++) {
        struct kr_pending_entry *entry = kr_pending_at(pending, i);

        if (t_ns > entry->due_ns[entry->n_steps - 1] && entry->n_since < KR_PENDING_GRACE)
            entry->n_since++;
    }
    while (pending->n > 0 && is_over(kr_pending_at(pending, 0)))
        close_oldest(pending);
}

/* Records */

#define ENTRY_MAGIC 0x4543504bu /* "KPCE" */
#define STATE_MAGIC 0x5343504bu /* "KPCS" */
#define VERSION     1

size_t kr_pending_entry_record_bytes(const struct kr_pending *pending,
                                     const struct kr_pending_entry *entry)
{
    return KR_RECORD_FRAME + 8 * 5 + 4 * 3 + 2 +
           entry->n_steps * (8 * (4 + pending->size.n_levels) + 4 * entry->n_paths);
}

int kr_pending_pack_entry(const struct kr_pending *pending, const struct kr_pending_entry *entry,
                          void *bytes, size_t size, size_t *ret)
{
    struct kr_writer writer = kr_record_begin(bytes, size, ENTRY_MAGIC, VERSION);
    size_t n_levels = pending->size.n_levels;

    kr_write_i64(&writer, entry->as_of_ns);
    kr_write_i64(&writer, entry->as_of_row);
    kr_write_u64(&writer, entry->key);
    kr_write_f64(&writer, entry->last_close);
    kr_write_f64(&writer, entry->sigma);
    kr_write_u32(&writer, (uint32_t)entry->n_steps);
    kr_write_u32(&writer, (uint32_t)entry->n_paths);
    kr_write_u32(&writer, (uint32_t)n_levels);
    kr_write_u8(&writer, entry->stratified);
    kr_write_u8(&writer, (uint8_t)entry->status);
    for (size_t step = 0; step < entry->n_steps; step++) {
        kr_write_i64(&writer, entry->due_ns[step]);
        kr_write_f64(&writer, entry->map[step].shift);
        kr_write_f64(&writer, entry->map[step].slope);
        kr_write_f64(&writer, entry->map[step].share);
        for (size_t l = 0; l < n_levels; l++)
            kr_write_f64(&writer, entry->q[step * n_levels + l]);
        for (size_t path = 0; path < entry->n_paths; path++)
            kr_write_f32(&writer, entry->returns[step * entry->n_paths + path]);
    }
    return kr_record_end(&writer, ret);
}

#define MOST 1e300 /* of any finite number in a record */

/* A rising, finite number; the first may be anything. */
static double read_rising(struct kr_reader *reader, double before)
{
    return kr_read_within(reader, before, MOST);
}

/* Steps of a forecast, into `ret` if it is not NULL; the rest of `head` is known. */
static void read_steps(struct kr_reader *reader, const struct kr_pending_entry *head,
                       size_t n_levels, struct kr_pending_entry *ret)
{
    int64_t before_ns = head->as_of_ns;

    for (size_t step = 0; step < head->n_steps && !reader->failed; step++) {
        int64_t due_ns = kr_read_i64(reader);
        struct kr_map map;
        double before = -MOST;

        kr_reader_expect(reader, due_ns > before_ns);
        before_ns = due_ns;
        map.shift = kr_read_within(reader, -MOST, MOST);
        map.slope = kr_read_within(reader, 1e-6, 1e6);
        map.share = kr_read_within(reader, 0, 2);
        for (size_t l = 0; l < n_levels; l++) {
            before = read_rising(reader, before);
            if (ret)
                ret->q[step * n_levels + l] = before;
        }
        before = -MOST;
        for (size_t path = 0; path < head->n_paths; path++) {
            float value = kr_read_f32(reader);

            kr_reader_expect(reader, isfinite(value) && (double)value >= before);
            before = (double)value;
            if (ret)
                ret->returns[step * head->n_paths + path] = value;
        }
        if (ret) {
            ret->due_ns[step] = due_ns;
            ret->map[step] = map;
            ret->scored[step] = false;
        }
    }
}

int kr_pending_unpack_entry(struct kr_pending *pending, const void *bytes, size_t size)
{
    struct kr_reader reader, ahead;
    struct kr_pending_entry head = {0}, *entry;
    size_t n_levels;
    uint8_t stratified, status;
    int r = kr_record_open(bytes, size, ENTRY_MAGIC, VERSION, &reader);

    if (r < 0)
        return r;
    head.as_of_ns = kr_read_i64(&reader);
    head.as_of_row = kr_read_i64(&reader);
    head.key = kr_read_u64(&reader);
    head.last_close = kr_read_within(&reader, 1e-300, MOST);
    head.sigma = kr_read_within(&reader, 0, MOST);
    head.n_steps = kr_read_u32(&reader);
    head.n_paths = kr_read_u32(&reader);
    n_levels = kr_read_u32(&reader);
    stratified = kr_read_u8(&reader);
    status = kr_read_u8(&reader);
    kr_reader_expect(&reader,
                     head.n_steps > 0 && head.n_paths > 0 && stratified <= 1 && status <= KR_STALE);
    if (reader.failed)
        return -EBADMSG;
    if (head.n_steps > pending->size.max_steps || head.n_paths > pending->size.max_paths ||
        n_levels != pending->size.n_levels)
        return -ESTALE;
    ahead = reader;
    read_steps(&ahead, &head, n_levels, NULL);
    r = kr_reader_end(&ahead);
    if (r < 0)
        return r;
    if (is_older(pending, head.as_of_ns))
        return -ERANGE;
    entry = take_place(pending, head.as_of_ns);
    head.stratified = stratified != 0;
    head.status = (enum kr_trust_status)status;
    head.n_waiting = head.n_steps;
    head.due_ns = entry->due_ns;
    head.scored = entry->scored;
    head.map = entry->map;
    head.q = entry->q;
    head.returns = entry->returns;
    *entry = head;
    read_steps(&reader, &head, n_levels, entry);
    return 0;
}

size_t kr_pending_state_record_bytes(const struct kr_pending *pending)
{
    size_t bytes = KR_RECORD_FRAME + 8 * 6 + 4;

    for (size_t i = 0; i < pending->n; i++)
        bytes += 8 + 4 + 1 + kr_pending_at(pending, i)->n_steps;
    return bytes;
}

int kr_pending_pack_state(const struct kr_pending *pending, void *bytes, size_t size, size_t *ret)
{
    struct kr_writer writer = kr_record_begin(bytes, size, STATE_MAGIC, VERSION);

    kr_write_u64(&writer, pending->counts.forecasts);
    kr_write_u64(&writer, pending->counts.replaced);
    kr_write_u64(&writer, pending->counts.crowded);
    kr_write_u64(&writer, pending->counts.scored);
    kr_write_u64(&writer, pending->counts.unscored);
    kr_write_u64(&writer, pending->counts.late);
    kr_write_u32(&writer, (uint32_t)pending->n);
    for (size_t i = 0; i < pending->n; i++) {
        const struct kr_pending_entry *entry = kr_pending_at(pending, i);

        kr_write_i64(&writer, entry->as_of_ns);
        kr_write_u8(&writer, (uint8_t)entry->n_since);
        kr_write_u32(&writer, (uint32_t)entry->n_steps);
        for (size_t step = 0; step < entry->n_steps; step++)
            kr_write_u8(&writer, entry->scored[step]);
    }
    return kr_record_end(&writer, ret);
}

static struct kr_pending_entry *find_entry(const struct kr_pending *pending, int64_t as_of_ns)
{
    for (size_t i = 0; i < pending->n; i++)
        if (kr_pending_at(pending, i)->as_of_ns == as_of_ns)
            return kr_pending_at(pending, i);
    return NULL;
}

/* One forecast of a state record, into its entry if `apply`. Return: steps that wait although their
 * forecast is missing. */
static size_t read_progress(struct kr_reader *reader, const struct kr_pending *pending, bool apply)
{
    int64_t as_of_ns = kr_read_i64(reader);
    uint8_t n_since = kr_read_u8(reader);
    size_t n_steps = kr_read_u32(reader), n_waiting = 0;
    struct kr_pending_entry *entry = find_entry(pending, as_of_ns);

    kr_reader_expect(reader, n_since <= KR_PENDING_GRACE && (!entry || entry->n_steps == n_steps));
    for (size_t step = 0; step < n_steps && !reader->failed; step++) {
        uint8_t scored = kr_read_u8(reader);

        kr_reader_expect(reader, scored <= 1);
        n_waiting += scored == 0;
        if (entry && apply)
            entry->scored[step] = scored != 0;
    }
    if (entry && apply) {
        entry->n_waiting = n_waiting;
        entry->n_since = n_since;
    }
    return entry ? 0 : n_waiting;
}

/* Forecasts of a state record, that many as it says. Return: waiting steps of those that are
 * missing. */
static size_t read_all_progress(struct kr_reader *reader, const struct kr_pending *pending,
                                bool apply)
{
    size_t missing = 0;

    for (uint32_t left = kr_read_u32(reader); left > 0 && !reader->failed; left--)
        missing += read_progress(reader, pending, apply);
    return missing;
}

int kr_pending_unpack_state(struct kr_pending *pending, const void *bytes, size_t size)
{
    struct kr_reader reader, ahead;
    struct kr_pending_counts counts;
    int r = kr_record_open(bytes, size, STATE_MAGIC, VERSION, &reader);

    if (r < 0)
        return r;
    counts.forecasts = kr_read_u64(&reader);
    counts.replaced = kr_read_u64(&reader);
    counts.crowded = kr_read_u64(&reader);
    counts.scored = kr_read_u64(&reader);
    counts.unscored = kr_read_u64(&reader);
    counts.late = kr_read_u64(&reader);
    ahead = reader;
    counts.unscored += read_all_progress(&ahead, pending, false);
    r = kr_reader_end(&ahead);
    if (r < 0)
        return r;
    /* what the record does not name is over */
    for (size_t i = 0; i < pending->n; i++) {
        struct kr_pending_entry *entry = kr_pending_at(pending, i);

        memset(entry->scored, true, entry->n_steps * sizeof(*entry->scored));
        entry->n_waiting = 0;
    }
    read_all_progress(&reader, pending, true);
    while (pending->n > 0 && is_over(kr_pending_at(pending, 0)))
        close_oldest(pending);
    pending->counts = counts;
    return 0;
}
