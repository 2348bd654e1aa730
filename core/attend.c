/* SPDX-License-Identifier: MIT */
#include "core/attend.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Fewer rows than this go one by one: most lanes would be idle. */
#define LEAST_ROWS 6

/* Keys taken together: their scores and values stay in the first-level cache. A multiple of KR_LANES. */
#define CHUNK ((size_t)64)

/* Rows of one cache that are seen, in ascending order and one piece of its slots. */
struct span {
    const struct kr_cache *cache;
    size_t slot, n;
};

/* Rows [first, end) of a cache as one span, or two where a ring wraps. Return: how many. */
static size_t spans_of(const struct kr_cache *cache, size_t first, size_t end, struct span *ret)
{
    size_t slot, head;

    if (first >= end)
        return 0;
    slot = kr_cache_slot(cache, first);
    head = KR_MIN(end - first, cache->capacity - slot);
    ret[0] = (struct span){cache, slot, head};
    ret[1] = (struct span){cache, 0, end - first - head};
    return head < end - first ? 2 : 1;
}

/* Scores of a span into s [n]. The kernel works on whole groups: what it writes in front of s, where the
 * span starts within a group, belongs to the span before and is put back. */
static void span_scores(const struct kr_kernels *kernels, const struct span *span, size_t layer,
                        size_t head, const float *q, float scale, float *s)
{
    size_t dim = span->cache->shape.head_dim, lead = span->slot % KR_LANES;
    const float *keys = kr_cache_keys(span->cache, layer, head) + (span->slot - lead) * dim;
    float kept[KR_LANES];

    memcpy(kept, s - lead, lead * sizeof(float));
    kernels->scores(s - lead, q, keys, lead + span->n, dim, scale);
    memcpy(s - lead, kept, lead * sizeof(float));
}

static const float *span_values(const struct span *span, size_t layer, size_t head)
{
    return kr_cache_values(span->cache, layer, head) + span->slot * span->cache->shape.head_dim;
}

/* Rows of `view`, counted from the prefix's first, before the first that it sees. */
static size_t skipped_by(const struct kr_view *view)
{
    size_t seen = (view->prefix ? view->n_prefix : 0) + view->index + 1;

    return view->own->window && seen > view->own->window ? seen - view->own->window : 0;
}

/* Spans of the own rows that a view sees. Return: how many. */
static size_t own_spans(const struct kr_view *view, struct span *ret)
{
    size_t n_prefix = view->prefix ? view->n_prefix : 0, skipped = skipped_by(view);

    return spans_of(view->own, skipped > n_prefix ? skipped - n_prefix : 0, view->index + 1, ret);
}

void kr_attend(const struct kr_kernels *kernels, const struct kr_view *view, size_t layer,
               size_t head, const float *q, float scale, float *out, float *scratch)
{
    size_t dim = view->own->shape.head_dim, n_spans = 0, n = 0;
    float sum = 0, *s = scratch + KR_LANES; /* room for a first group's lead */
    struct span spans[4];

    assert(!view->own->lanes);
    if (view->prefix)
        n_spans = spans_of(view->prefix, skipped_by(view), view->n_prefix, spans);
    n_spans += own_spans(view, spans + n_spans);
    for (size_t i = 0; i < n_spans; n += spans[i++].n)
        span_scores(kernels, &spans[i], layer, head, q, scale, s + n);
    kernels->exp_shifted(s, kernels->maximum(s, n), n);
    memset(out, 0, dim * sizeof(float));
    for (size_t i = 0; i < n_spans; s += spans[i++].n)
        kernels->accumulate(out, &sum, s, span_values(&spans[i], layer, head), spans[i].n, dim);
    kernels->divide(out, sum, dim);
}

/* Many rows */

/* A piece of the shared rows: one span's, all or some of which every row of the group sees. */
struct piece {
    struct span span;
    size_t at; /* number of its first row, counted from the group's first shared one */
    bool some; /* not every row sees all of them */
};

/* Neighbours in a block that go through the same keys together: rows of one window, or one step of forks that
 * lie side by side, whose own rows are no one else's. Row i is lane `lead` + i. */
struct group {
    const struct kr_view *views;
    size_t n, lead, lanes; /* lanes: lead + n, rounded up to KR_LANES */
    bool forks;
    size_t n_shared;                                    /* rows that some of them see */
    int32_t first[KR_ATTEND_ROWS], end[KR_ATTEND_ROWS]; /* [lanes] of these, those that each sees */
    struct piece pieces[12];
    struct span own[2]; /* forks: rows of their own */
    size_t n_pieces, n_own;
};

static bool same_prefix(const struct kr_view *a, const struct kr_view *b)
{
    return a->prefix == b->prefix && (!a->prefix || a->n_prefix == b->n_prefix);
}

/* Is b, behind a, the next row of the same window, or the same one? So windows begin and end at most
 * KR_ATTEND_ROWS apart, which bounds the scratch. */
static bool next_of_window(const struct kr_view *a, const struct kr_view *b)
{
    return b->own == a->own && (b->index == a->index || b->index == a->index + 1);
}

/* Is b the same step of the fork beside a's? */
static bool next_fork(const struct kr_view *a, const struct kr_view *b)
{
    return b->own->lanes == a->own->lanes && b->own->lane == a->own->lane + 1 &&
           b->own->k == a->own->k + 1 && b->index == a->index;
}

/* The first of views [n] and as many of the next as belong to it. */
static void take_rows(struct group *group, const struct kr_view *views, size_t n)
{
    size_t i = 1;

    *group = (struct group){.views = views, .forks = views->own->lanes > 0};
    if (group->forks)
        group->lead = views->own->lane % KR_LANES;
    n = KR_MIN(n, KR_ATTEND_ROWS - group->lead);
    while (i < n && same_prefix(&views[i - 1], &views[i]) &&
           (group->forks ? next_fork : next_of_window)(&views[i - 1], &views[i]))
        i++;
    group->n = i;
    group->lanes = kr_round_up(group->lead + i, KR_LANES);
}

/* What the rows of a group see, counted from the prefix's first row: [first, end) by some, [full, some) by
 * all. */
struct bounds {
    size_t first, full, some, end;
};

static struct bounds bounds_of(const struct group *group)
{
    size_t n_prefix = group->views->prefix ? group->views->n_prefix : 0;
    struct bounds bounds = {.first = SIZE_MAX, .some = SIZE_MAX};

    for (size_t i = 0; i < group->n; i++) {
        size_t from = skipped_by(&group->views[i]);
        size_t to = n_prefix + (group->forks ? 0 : group->views[i].index + 1);

        bounds.first = KR_MIN(bounds.first, from);
        bounds.full = KR_MAX(bounds.full, from);
        bounds.some = KR_MIN(bounds.some, to);
        bounds.end = KR_MAX(bounds.end, to);
    }
    bounds.first = KR_MIN(bounds.first, bounds.end); /* forks that see nothing of the prefix */
    bounds.full = KR_MIN(bounds.full, bounds.end);
    bounds.some = KR_MAX(bounds.some, bounds.full); /* where nothing is seen by all */
    return bounds;
}

/* Add the shared rows [first, end), of a cache whose row 0 has number `base`, cut where the set of rows that
 * sees them changes and where a ring wraps. */
static void add_pieces(struct group *group, const struct kr_cache *cache, size_t base, size_t first,
                       size_t end, const struct bounds *bounds)
{
    size_t cuts[4] = {first, KR_MIN(KR_MAX(bounds->full, first), end),
                      KR_MIN(KR_MAX(bounds->some, first), end), end};

    for (int i = 0; i < 3; i++) {
        struct span spans[2];
        size_t n = spans_of(cache, cuts[i] - base, cuts[i + 1] - base, spans);
        size_t at = cuts[i] - bounds->first;

        for (size_t j = 0; j < n; at += spans[j++].n)
            group->pieces[group->n_pieces++] = (struct piece){spans[j], at, i != 1};
    }
}

static void take_group(struct group *group, const struct kr_view *views, size_t n)
{
    size_t n_prefix = views->prefix ? views->n_prefix : 0;
    struct bounds bounds;

    take_rows(group, views, n);
    if (group->n < LEAST_ROWS && !group->forks)
        return; /* row by row */
    bounds = bounds_of(group);
    group->n_shared = bounds.end - bounds.first;
    for (size_t i = 0; i < group->n; i++) {
        size_t from = KR_MIN(skipped_by(&views[i]), bounds.end);
        size_t to = n_prefix + (group->forks ? 0 : views[i].index + 1);

        group->first[group->lead + i] = (int32_t)(from - bounds.first);
        group->end[group->lead + i] = (int32_t)(to - bounds.first);
    }
    if (bounds.first < n_prefix)
        add_pieces(group, views->prefix, 0, bounds.first, n_prefix, &bounds);
    if (group->forks)
        group->n_own = own_spans(views, group->own);
    else
        add_pieces(group, views->own, n_prefix, KR_MAX(bounds.first, n_prefix), bounds.end,
                   &bounds);
}

/* Scores, and q and out as columns. The rows of a group see windows that begin and end at most KR_ATTEND_ROWS
 * apart. */
size_t kr_attend_scratch(size_t max_visible, size_t max_head_dim)
{
    return KR_ATTEND_ROWS * (max_visible + KR_ATTEND_ROWS + 2 * max_head_dim);
}

/* s [keys][lanes], and each lane's largest. */
static void group_scores(const struct kr_kernels *kernels, const struct group *group, size_t layer,
                         size_t head, const float *q, float scale, float *s, float *most)
{
    size_t dim = group->views->own->shape.head_dim, lanes = group->lanes;

    for (size_t i = 0; i < group->n_pieces; i++) {
        const struct piece *piece = &group->pieces[i];
        const float *keys = kr_cache_keys(piece->span.cache, layer, head);

        for (size_t done = 0, n; done < piece->span.n; done += n, s += n * lanes) {
            struct kr_seen seen = {group->first, group->end, (int32_t)(piece->at + done)};
            size_t slot = piece->span.slot + done, lead = slot % KR_LANES;

            n = KR_MIN(piece->span.n - done, CHUNK - lead);
            kernels->shared_scores(s, q, keys + (slot - lead) * dim, lead, n, dim, lanes, scale);
            kernels->shared_maximum(most, s, piece->some ? &seen : NULL, n, lanes);
        }
    }
    for (size_t i = 0; i < group->n_own; i++) {
        const struct span *span = &group->own[i];
        const struct kr_cache *own = span->cache;
        size_t lead = span->slot % KR_FORK_GROUP;

        kernels->fork_scores(
            s, q, own->k + kr_cache_fork_keys(own, layer, head, span->slot - lead) - group->lead,
            lead, span->n, dim, lanes, own->lanes, scale);
        kernels->shared_maximum(most, s, NULL, span->n, lanes);
        s += span->n * lanes;
    }
}

/* Of the same scores: out [dim][lanes] and the sums that divide it. */
static void group_values(const struct kr_kernels *kernels, const struct group *group, size_t layer,
                         size_t head, float *s, const float *most, float *out, float *sum)
{
    size_t dim = group->views->own->shape.head_dim, lanes = group->lanes;

    for (size_t i = 0; i < group->n_pieces; i++) {
        const struct piece *piece = &group->pieces[i];
        const float *values = span_values(&piece->span, layer, head);

        for (size_t done = 0, n; done < piece->span.n; done += n, s += n * lanes) {
            struct kr_seen seen = {group->first, group->end, (int32_t)(piece->at + done)};

            n = KR_MIN(piece->span.n - done, CHUNK);
            kernels->shared_weights(s, sum, most, piece->some ? &seen : NULL, n, lanes);
            kernels->shared_accumulate(out, s, values + done * dim, n, dim, lanes, piece->some);
        }
    }
    for (size_t i = 0; i < group->n_own; i++) {
        const struct span *span = &group->own[i];
        const struct kr_cache *own = span->cache;

        kernels->shared_weights(s, sum, most, NULL, span->n, lanes);
        kernels->fork_accumulate(
            out, s, own->v + kr_cache_fork_values(own, layer, head, span->slot) - group->lead,
            span->n, dim, lanes, own->lanes);
        s += span->n * lanes;
    }
}

static void attend_group(const struct kr_kernels *kernels, const struct group *group, size_t layer,
                         size_t head, const float *q, float scale, float *out, size_t stride,
                         float *scratch)
{
    size_t dim = group->views->own->shape.head_dim, lanes = group->lanes, lead = group->lead;
    float most[KR_ATTEND_ROWS], sum[KR_ATTEND_ROWS] = {0};
    float *columns = scratch, *mixed = columns + dim * lanes, *s = mixed + dim * lanes;

    for (size_t l = 0; l < lanes; l++)
        most[l] = -INFINITY;
    if (group->n < lanes) /* idle lanes compute with zeros */
        memset(columns, 0, dim * lanes * sizeof(float));
    kernels->to_columns(columns + lead, lanes, q, stride, group->n, dim);
    group_scores(kernels, group, layer, head, columns, scale, s, most);
    memset(mixed, 0, dim * lanes * sizeof(float));
    group_values(kernels, group, layer, head, s, most, mixed, sum);
    kernels->to_rows(out, stride, mixed + lead, lanes, group->n, dim);
    for (size_t i = 0; i < group->n; i++)
        kernels->divide(out + i * stride, sum[lead + i], dim);
}

void kr_attend_rows(const struct kr_kernels *kernels, const struct kr_view *views, size_t n,
                    size_t layer, const float *q, float scale, float *out, size_t stride,
                    float *scratch)
{
    const struct kr_cache_shape *shape = &views->own->shape;
    struct group group;

    for (size_t done = 0; done < n; done += group.n) {
        take_group(&group, views + done, n - done);
        for (size_t head = 0; head < shape->n_heads; head++) {
            size_t at = done * stride + head * shape->head_dim;

            if (group.n >= LEAST_ROWS || group.forks)
                attend_group(kernels, &group, layer, head, q + at, scale, out + at, stride,
                             scratch);
            else
                for (size_t i = 0; i < group.n; i++)
                    kr_attend(kernels, &views[done + i], layer, head, q + at + i * stride, scale,
                              out + at + i * stride, scratch);
        }
    }
}

void kr_attend_write(const struct kr_kernels *kernels, const struct kr_view *views, size_t n,
                     size_t layer, const float *k, const float *v, size_t stride)
{
    size_t dim = views->own->shape.head_dim;
    struct group group;

    for (size_t done = 0; done < n; done += group.n) {
        const struct kr_cache *own = views[done].own;
        size_t slot = kr_cache_slot(own, views[done].index);

        take_rows(&group, views + done, n - done);
        if (!group.forks || group.n < LEAST_ROWS) {
            for (size_t i = done; i < done + group.n; i++)
                kr_cache_write(views[i].own, layer, views[i].index, k + i * stride, v + i * stride);
            continue;
        }
        for (size_t head = 0; head < own->shape.n_heads; head++) {
            size_t at = done * stride + head * dim;

            kernels->to_columns(own->k + kr_cache_fork_keys(own, layer, head, slot),
                                KR_FORK_GROUP * own->lanes, k + at, stride, group.n, dim);
            kernels->to_columns(own->v + kr_cache_fork_values(own, layer, head, slot), own->lanes,
                                v + at, stride, group.n, dim);
        }
    }
}
