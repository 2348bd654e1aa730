/* SPDX-License-Identifier: MIT */
#include "core/bar.h"
#include "core/pending.h"
#include "tests/tap.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define STEPS    4
#define PATHS    3
#define LEVELS   2
#define CAPACITY (STEPS + KR_PENDING_GRACE + 1)
#define MINUTE   60000000000

static const struct kr_pending_size size = {STEPS, PATHS, LEVELS, 0};
static float paths[PATHS * STEPS * KR_COLUMNS];
static double scratch[PATHS];

static void open_ring(struct kr_pending *pending)
{
    CU_ASSERT_EQUAL_FATAL(kr_pending_init(pending, &size, NULL), 0);
}

/* A forecast behind minute m for the next four, closes 101, 99, 100 in all steps. */
static int add(struct kr_pending *pending, int64_t m, struct kr_pending_entry **ret)
{
    int64_t due_ns[STEPS];
    struct kr_published published = {.as_of_ns = m * MINUTE,
                                     .as_of_row = m,
                                     .key = 77,
                                     .last_close = 100,
                                     .sigma = 0.01,
                                     .n_steps = STEPS,
                                     .n_paths = PATHS,
                                     .due_ns = due_ns,
                                     .paths = paths};
    static const float closes[PATHS] = {101, 99, 100};

    for (size_t step = 0; step < STEPS; step++)
        due_ns[step] = (m + 1 + (int64_t)step) * MINUTE;
    for (size_t path = 0; path < PATHS; path++)
        for (size_t step = 0; step < STEPS; step++)
            paths[(path * STEPS + step) * KR_COLUMNS + KR_CLOSE] = closes[path];
    return kr_pending_add(pending, &published, scratch, ret);
}

static struct kr_pending_entry *must_add(struct kr_pending *pending, int64_t m)
{
    struct kr_pending_entry *entry = NULL;

    CU_ASSERT_EQUAL_FATAL(add(pending, m, &entry), 0);
    return entry;
}

/* A bar: how many steps were due; all are marked scored. */
static size_t bar(struct kr_pending *pending, int64_t m, bool late)
{
    struct kr_due due[CAPACITY];
    size_t n = kr_pending_due(pending, m * MINUTE, due);

    for (size_t i = 0; i < n; i++)
        kr_pending_scored(pending, &due[i], late);
    if (!late)
        kr_pending_advance(pending, m * MINUTE);
    return n;
}

static void sizes(void)
{
    struct kr_pending_size zero = size, huge = size;
    struct kr_pending pending = {.n = 99};
    size_t bytes = CAPACITY * (sizeof(struct kr_pending_entry) +
                               STEPS * (8 + sizeof(struct kr_map) + 8 * LEVELS + 4 * PATHS + 1));

    CU_ASSERT_EQUAL(kr_pending_capacity(&size), CAPACITY);
    CU_ASSERT_EQUAL(kr_pending_size_bytes(&size), kr_round_up(bytes, KR_ALIGNMENT));
    zero.max_paths = 0;
    CU_ASSERT_EQUAL(kr_pending_init(&pending, &zero, NULL), -EINVAL);
    huge.max_paths = SIZE_MAX / 8;
    CU_ASSERT_EQUAL(kr_pending_size_bytes(&huge), 0);
    CU_ASSERT_EQUAL(kr_pending_init(&pending, &huge, NULL), -ENOMEM);
    huge.max_steps = SIZE_MAX;
    CU_ASSERT_EQUAL(kr_pending_size_bytes(&huge), 0);
    CU_ASSERT_EQUAL(pending.n, 99);
    pending = (struct kr_pending){0};
    kr_pending_free(&pending);
    open_ring(&pending);
    kr_pending_free(&pending);
    kr_pending_free(&pending);
}

static void what_is_kept(void)
{
    struct kr_pending pending;
    struct kr_pending_entry *entry;
    double members[PATHS];

    open_ring(&pending);
    entry = must_add(&pending, 10);
    CU_ASSERT_EQUAL(entry->as_of_ns, 10 * MINUTE);
    CU_ASSERT_EQUAL(entry->as_of_row, 10);
    CU_ASSERT_EQUAL(entry->key, 77);
    CU_ASSERT_EQUAL(entry->n_waiting, STEPS);
    CU_ASSERT_EQUAL(entry->due_ns[3], 14 * MINUTE);
    CU_ASSERT_EQUAL(entry->sigma, 0.01);
    for (size_t step = 0; step < STEPS; step++) {
        kr_pending_members(entry, step, members);
        CU_ASSERT_EQUAL(members[0], (double)(float)log(0.99));
        CU_ASSERT_EQUAL(members[1], 0);
        CU_ASSERT_EQUAL(members[2], (double)(float)log(1.01));
    }
    kr_pending_free(&pending);
}

/* A last close that is no f32 ties with the path that stays there; a crash to 0 and below is
 * bounded. */
static void ties_and_floors(void)
{
    int64_t due_ns[1] = {1};
    struct kr_published published = {
        .last_close = 100.1, .n_steps = 1, .n_paths = PATHS, .due_ns = due_ns, .paths = paths};
    struct kr_pending pending;
    struct kr_pending_entry *entry;

    open_ring(&pending);
    paths[KR_CLOSE] = 100.1f;
    paths[KR_COLUMNS + KR_CLOSE] = 0;
    paths[2 * KR_COLUMNS + KR_CLOSE] = -5;
    CU_ASSERT_EQUAL_FATAL(kr_pending_add(&pending, &published, scratch, &entry), 0);
    CU_ASSERT_EQUAL(entry->returns[2], 0);
    CU_ASSERT_EQUAL(entry->returns[0], (float)log(1e-6));
    CU_ASSERT_EQUAL(entry->returns[1], (float)log(1e-6));
    kr_pending_free(&pending);
}

static void refused(void)
{
    struct kr_pending pending;
    struct kr_pending_entry *entry = NULL;
    int64_t due_ns[STEPS] = {11, 12, 12, 13};
    struct kr_published published = {.as_of_ns = 10,
                                     .last_close = 100,
                                     .n_steps = STEPS,
                                     .n_paths = PATHS,
                                     .due_ns = due_ns,
                                     .paths = paths};

    open_ring(&pending);
    CU_ASSERT_EQUAL(kr_pending_add(&pending, &published, scratch, &entry), -EINVAL); /* 12, 12 */
    published.n_steps = 2;
    published.as_of_ns = 11;
    CU_ASSERT_EQUAL(kr_pending_add(&pending, &published, scratch, &entry), -EINVAL);
    published.as_of_ns = 10;
    published.last_close = 0;
    CU_ASSERT_EQUAL(kr_pending_add(&pending, &published, scratch, &entry), -EINVAL);
    published.last_close = 100;
    published.n_paths = PATHS + 1;
    CU_ASSERT_EQUAL(kr_pending_add(&pending, &published, scratch, &entry), -EINVAL);
    published.n_paths = 0;
    CU_ASSERT_EQUAL(kr_pending_add(&pending, &published, scratch, &entry), -EINVAL);
    published.n_paths = PATHS;
    published.n_steps = STEPS + 1;
    CU_ASSERT_EQUAL(kr_pending_add(&pending, &published, scratch, &entry), -EINVAL);
    must_add(&pending, 10);
    CU_ASSERT_EQUAL(add(&pending, 9, &entry), -ERANGE);
    CU_ASSERT_PTR_NULL(entry);
    CU_ASSERT_EQUAL(pending.n, 1);
    CU_ASSERT_EQUAL(pending.counts.forecasts, 1);
    kr_pending_free(&pending);
}

/* A forecast every bar: the k-th bar finds min(k, H) of them, and the ring never holds more than H.
 * */
static void every_bar(void)
{
    struct kr_pending pending;

    open_ring(&pending);
    for (int64_t m = 0; m < 50; m++) {
        CU_ASSERT_EQUAL(bar(&pending, m, false), (size_t)KR_MIN(m, STEPS));
        must_add(&pending, m);
        CU_ASSERT(pending.n <= STEPS);
    }
    CU_ASSERT_EQUAL(pending.counts.forecasts, 50);
    CU_ASSERT_EQUAL(pending.counts.scored, 4 * 46 + 3 + 2 + 1);
    CU_ASSERT_EQUAL(pending.counts.unscored, 0);
    CU_ASSERT_EQUAL(pending.counts.crowded, 0);
    kr_pending_clear(&pending);
    CU_ASSERT_EQUAL(pending.n, 0);
    CU_ASSERT_EQUAL(pending.counts.unscored, 1 + 2 + 3 + 4);
    kr_pending_free(&pending);
}

/* Oldest forecast first, exact times only, each step once. */
static void due_order(void)
{
    struct kr_pending pending;
    struct kr_due due[CAPACITY];

    open_ring(&pending);
    must_add(&pending, 0);
    must_add(&pending, 1);
    must_add(&pending, 3);
    CU_ASSERT_EQUAL(kr_pending_due(&pending, 4 * MINUTE + 1, due), 0);
    CU_ASSERT_EQUAL_FATAL(kr_pending_due(&pending, 4 * MINUTE, due), 3);
    for (size_t i = 0; i < 3; i++) {
        static const int64_t as_of[3] = {0, 1, 3};

        CU_ASSERT_EQUAL(due[i].entry->as_of_row, as_of[i]);
        CU_ASSERT_EQUAL((int64_t)due[i].step, 3 - as_of[i]);
    }
    CU_ASSERT_FALSE(kr_pending_has_scored(&pending, 4 * MINUTE));
    kr_pending_scored(&pending, &due[1], false);
    CU_ASSERT_TRUE(kr_pending_has_scored(&pending, 4 * MINUTE));
    CU_ASSERT_FALSE(kr_pending_has_scored(&pending, 3 * MINUTE));
    CU_ASSERT_EQUAL(kr_pending_due(&pending, 4 * MINUTE, due), 2);
    kr_pending_free(&pending);
}

/* Minute 2 never comes: the forecast waits for it through eight newer bars, then it is unscored. */
static void hole(void)
{
    struct kr_pending pending;

    open_ring(&pending);
    must_add(&pending, 0);
    CU_ASSERT_EQUAL(bar(&pending, 1, false), 1);
    CU_ASSERT_EQUAL(bar(&pending, 3, false), 1);
    CU_ASSERT_EQUAL(bar(&pending, 4, false), 1);
    for (int64_t m = 5; m < 5 + KR_PENDING_GRACE; m++) {
        CU_ASSERT_EQUAL(pending.n, 1);
        CU_ASSERT_EQUAL(pending.counts.unscored, 0);
        CU_ASSERT_EQUAL(bar(&pending, m, false), 0);
    }
    CU_ASSERT_EQUAL(pending.n, 0);
    CU_ASSERT_EQUAL(pending.counts.unscored, 1);
    CU_ASSERT_EQUAL(pending.counts.scored, 3);
    CU_ASSERT_EQUAL(pending.counts.late, 0);
    kr_pending_free(&pending);
}

/* Minute 2 comes after minute 6: scored, and the forecast closes with the next bar. */
static void late_bar(void)
{
    struct kr_pending pending;

    open_ring(&pending);
    must_add(&pending, 0);
    for (int64_t m = 1; m < 7; m++)
        if (m != 2)
            bar(&pending, m, false);
    CU_ASSERT_EQUAL(bar(&pending, 2, true), 1);
    CU_ASSERT_EQUAL(bar(&pending, 2, true), 0);
    CU_ASSERT_EQUAL(pending.counts.late, 1);
    CU_ASSERT_EQUAL(pending.n, 1);
    bar(&pending, 7, false);
    CU_ASSERT_EQUAL(pending.n, 0);
    CU_ASSERT_EQUAL(pending.counts.scored, 4);
    CU_ASSERT_EQUAL(pending.counts.unscored, 0);
    kr_pending_free(&pending);
}

/* A weekend: all due times lie in it. */
static void long_gap(void)
{
    struct kr_pending pending;

    open_ring(&pending);
    must_add(&pending, 0);
    for (int64_t m = 1000; m < 1000 + KR_PENDING_GRACE; m++) {
        bar(&pending, m, false);
        must_add(&pending, m);
    }
    CU_ASSERT_EQUAL(pending.counts.unscored, STEPS);
    CU_ASSERT_EQUAL(kr_pending_at(&pending, 0)->as_of_row, 1004);
    CU_ASSERT_EQUAL(pending.counts.crowded, 0);
    kr_pending_free(&pending);
}

static void replaced(void)
{
    struct kr_pending pending;

    open_ring(&pending);
    must_add(&pending, 0);
    must_add(&pending, 1);
    must_add(&pending, 1)->last_close = 50;
    CU_ASSERT_EQUAL(pending.n, 2);
    CU_ASSERT_EQUAL(kr_pending_at(&pending, 1)->last_close, 50);
    CU_ASSERT_EQUAL(pending.counts.forecasts, 3);
    CU_ASSERT_EQUAL(pending.counts.replaced, 1);
    CU_ASSERT_EQUAL(bar(&pending, 2, false), 2);
    kr_pending_free(&pending);
}

/* More forecasts than the ring is sized for: the oldest leave, counted. */
static void crowded(void)
{
    struct kr_pending pending;

    open_ring(&pending);
    for (int64_t m = 0; m < CAPACITY + 3; m++)
        must_add(&pending, m);
    CU_ASSERT_EQUAL(pending.n, CAPACITY);
    CU_ASSERT_EQUAL(pending.counts.crowded, 3);
    CU_ASSERT_EQUAL(pending.counts.unscored, 3 * STEPS);
    CU_ASSERT_EQUAL(kr_pending_at(&pending, 0)->as_of_row, 3);
    kr_pending_free(&pending);
}

/* Records */

static unsigned char records[CAPACITY][512], state[512];
static size_t lengths[CAPACITY], state_length;

/* A ring with a hole, in the middle of things; calibrated readings are rising numbers. */
static void fill(struct kr_pending *pending)
{
    open_ring(pending);
    for (int64_t m = 0; m < 9; m++) {
        if (m != 3)
            bar(pending, m, false);
        for (size_t i = 0; i < STEPS * LEVELS; i++)
            must_add(pending, m)->q[i] = (double)i;
    }
}

static void pack(const struct kr_pending *pending)
{
    for (size_t i = 0; i < pending->n; i++) {
        const struct kr_pending_entry *entry = kr_pending_at(pending, i);

        CU_ASSERT_EQUAL_FATAL(
            kr_pending_pack_entry(pending, entry, records[i], sizeof(records[i]), &lengths[i]), 0);
        CU_ASSERT_EQUAL(lengths[i], kr_pending_entry_record_bytes(pending, entry));
        CU_ASSERT_EQUAL(kr_pending_pack_entry(pending, entry, records[i], lengths[i] - 1, NULL),
                        -ENOBUFS);
        CU_ASSERT_EQUAL_FATAL(
            kr_pending_pack_entry(pending, entry, records[i], lengths[i], &lengths[i]), 0);
    }
    CU_ASSERT_EQUAL_FATAL(kr_pending_pack_state(pending, state, sizeof(state), &state_length), 0);
    CU_ASSERT_EQUAL(state_length, kr_pending_state_record_bytes(pending));
}

/* Both behave alike from here on. */
static void expect_same(struct kr_pending *a, struct kr_pending *b)
{
    CU_ASSERT_EQUAL(memcmp(&a->counts, &b->counts, sizeof(a->counts)), 0);
    CU_ASSERT_EQUAL_FATAL(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct kr_pending_entry *x = kr_pending_at(a, i), *y = kr_pending_at(b, i);

        CU_ASSERT_EQUAL(x->as_of_ns, y->as_of_ns);
        CU_ASSERT_EQUAL(x->as_of_row, y->as_of_row);
        CU_ASSERT_EQUAL(x->key, y->key);
        CU_ASSERT_EQUAL(x->last_close, y->last_close);
        CU_ASSERT_EQUAL(x->sigma, y->sigma);
        CU_ASSERT_EQUAL(x->n_waiting, y->n_waiting);
        CU_ASSERT_EQUAL(x->n_since, y->n_since);
        CU_ASSERT_EQUAL(x->stratified, y->stratified);
        CU_ASSERT_EQUAL(x->status, y->status);
        CU_ASSERT_EQUAL(memcmp(x->due_ns, y->due_ns, STEPS * 8), 0);
        CU_ASSERT_EQUAL(memcmp(x->scored, y->scored, STEPS), 0);
        CU_ASSERT_EQUAL(memcmp(x->map, y->map, STEPS * sizeof(struct kr_map)), 0);
        CU_ASSERT_EQUAL(memcmp(x->q, y->q, STEPS * LEVELS * 8), 0);
        CU_ASSERT_EQUAL(memcmp(x->returns, y->returns, STEPS * PATHS * 4), 0);
    }
}

static void round_trip(void)
{
    struct kr_pending pending, back;

    fill(&pending);
    kr_pending_at(&pending, 2)->stratified = true;
    kr_pending_at(&pending, 2)->status = KR_WARMING;
    pack(&pending);
    open_ring(&back);
    for (size_t i = 0; i < pending.n; i++)
        CU_ASSERT_EQUAL_FATAL(kr_pending_unpack_entry(&back, records[i], lengths[i]), 0);
    CU_ASSERT_EQUAL_FATAL(kr_pending_unpack_state(&back, state, state_length), 0);
    CU_ASSERT(pending.n > STEPS); /* the hole keeps some */
    expect_same(&pending, &back);
    for (int64_t m = 9; m < 30; m++) {
        CU_ASSERT_EQUAL(bar(&pending, m, false), bar(&back, m, false));
        expect_same(&pending, &back);
    }
    kr_pending_free(&pending);
    kr_pending_free(&back);
}

/* Forecasts that had been closed when the state was kept vanish; those that got lost are unscored.
 * */
static void records_that_disagree(void)
{
    struct kr_pending pending, back;
    size_t n, waiting;

    fill(&pending);
    pack(&pending);
    n = pending.n;
    waiting = kr_pending_at(&pending, 1)->n_waiting;
    open_ring(&back);
    must_add(&back, -50); /* unknown to the state */
    for (size_t i = 0; i < n; i++)
        if (i != 1)
            CU_ASSERT_EQUAL_FATAL(kr_pending_unpack_entry(&back, records[i], lengths[i]), 0);
    CU_ASSERT_EQUAL_FATAL(kr_pending_unpack_state(&back, state, state_length), 0);
    CU_ASSERT_EQUAL(back.n, n - 1);
    CU_ASSERT(waiting > 0);
    CU_ASSERT_EQUAL(back.counts.unscored, pending.counts.unscored + waiting);
    CU_ASSERT_EQUAL(back.counts.scored, pending.counts.scored);
    kr_pending_free(&pending);
    kr_pending_free(&back);
}

/* Give a changed record a CRC that fits again. */
static void sign(unsigned char *bytes, size_t length)
{
    uint32_t crc = kr_crc32(bytes, length - 4);

    for (size_t i = 0; i < 4; i++)
        bytes[length - 4 + i] = (unsigned char)(crc >> 8 * i);
}

static void damage(void)
{
    struct kr_pending pending, back;

    fill(&pending);
    pack(&pending);
    open_ring(&back);
    for (size_t i = 0; i < lengths[0]; i++) {
        records[0][i] ^= 0x10;
        CU_ASSERT_EQUAL(kr_pending_unpack_entry(&back, records[0], lengths[0]), -EBADMSG);
        records[0][i] ^= 0x10;
        CU_ASSERT_EQUAL(kr_pending_unpack_entry(&back, records[0], i), -EBADMSG);
    }
    CU_ASSERT_EQUAL(back.n, 0);
    for (size_t i = 0; i < pending.n; i++)
        CU_ASSERT_EQUAL_FATAL(kr_pending_unpack_entry(&back, records[i], lengths[i]), 0);
    for (size_t i = 0; i < state_length; i++) {
        state[i] ^= 0x10;
        CU_ASSERT_EQUAL(kr_pending_unpack_state(&back, state, state_length), -EBADMSG);
        state[i] ^= 0x10;
        CU_ASSERT_EQUAL(kr_pending_unpack_state(&back, state, i), -EBADMSG);
    }
    CU_ASSERT_EQUAL(back.counts.scored, 0); /* nothing of the state was taken */
    CU_ASSERT_EQUAL(kr_pending_at(&back, 0)->n_waiting, STEPS);
    CU_ASSERT_EQUAL(kr_pending_unpack_entry(&back, records[0], lengths[0]), -ERANGE);
    kr_pending_free(&pending);
    kr_pending_free(&back);
}

/* Fields at these offsets of a forecast's record: last_close 32, n_steps 48, n_paths 52, n_levels
 * 56, stratified 60, status 61, then the first step: due 62, shift 70, slope 78, share 86, q 94,
 * returns 110. */
static void hostile(void)
{
    static const struct {
        size_t at, n;
        unsigned char bytes[8];
        int expected;
    } cases[] = {
        {8, 0, {0}, 0},                                    /* unchanged: sound */
        {4, 1, {2}, -EPROTO},                              /* another version */
        {32, 8, {0}, -EBADMSG},                            /* last close 0 */
        {32, 8, {0, 0, 0, 0, 0, 0, 0xf8, 0x7f}, -EBADMSG}, /* nan */
        {48, 4, {0}, -EBADMSG},                            /* no steps */
        {48, 4, {5}, -ESTALE},                             /* more than the ring has */
        {48, 4, {3}, -EBADMSG},                            /* something left */
        {52, 4, {0xff, 0xff, 0xff, 0xff}, -ESTALE},        /* paths */
        {56, 4, {3}, -ESTALE},                             /* levels */
        {60, 1, {2}, -EBADMSG},                            /* a bool of 2 */
        {61, 1, {4}, -EBADMSG},                            /* an unknown status */
        {62, 8, {0}, -EBADMSG},                            /* due before as_of */
        {78, 8, {0}, -EBADMSG},                            /* slope 0 */
        {78, 8, {0, 0, 0, 0, 0, 0, 0xf0, 0xbf}, -EBADMSG}, /* slope -1 */
        {86, 8, {0, 0, 0, 0, 0, 0, 0xf0, 0x7f}, -EBADMSG}, /* share infinite */
        {94, 8, {0, 0, 0, 0, 0, 0, 0x14, 0x40}, -EBADMSG}, /* q crossing */
        {110, 4, {0, 0, 0xc0, 0x7f}, -EBADMSG},            /* a member nan */
        {110, 4, {0, 0, 0x80, 0x3f}, -EBADMSG},            /* members not sorted */
    };
    struct kr_pending pending, back;

    fill(&pending);
    pack(&pending);
    open_ring(&back);
    for (size_t i = 0; i < KR_ARRAY_LENGTH(cases); i++) {
        unsigned char bytes[512];
        int r;

        memcpy(bytes, records[1], lengths[1]);
        memcpy(bytes + cases[i].at, cases[i].bytes, cases[i].n);
        sign(bytes, lengths[1]);
        r = kr_pending_unpack_entry(&back, bytes, lengths[1]);
        KT_CHECK(r == cases[i].expected, "case %zu: %d", i, r);
        KT_CHECK(back.n == 1, "case %zu", i);
    }
    /* states: of more forecasts than there are bytes; a step that is neither; a count of steps */
    for (size_t i = 0; i < 3; i++) {
        static const size_t at[3] = {56, 60 + 13, 60 + 9};
        static const unsigned char value[3] = {0xff, 2, 7};
        unsigned char bytes[512];

        memcpy(bytes, state, state_length);
        bytes[at[i]] = value[i];
        sign(bytes, state_length);
        CU_ASSERT_EQUAL(kr_pending_unpack_state(&back, bytes, state_length), -EBADMSG);
    }
    kr_pending_free(&pending);
    kr_pending_free(&back);
}

int main(void)
{
    static const struct kt_test tests[] = {
        {"sizes", sizes},
        {"what is kept", what_is_kept},
        {"ties and floors", ties_and_floors},
        {"refused forecasts", refused},
        {"a forecast every bar", every_bar},
        {"order of what is due", due_order},
        {"a hole", hole},
        {"a late bar", late_bar},
        {"a long gap", long_gap},
        {"a forecast replaced", replaced},
        {"crowded", crowded},
        {"records: round trip", round_trip},
        {"records that disagree", records_that_disagree},
        {"records: damage", damage},
        {"records: hostile", hostile},
    };

    return kt_main("pending", tests, KR_ARRAY_LENGTH(tests));
}
