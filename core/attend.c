/* SPDX-License-Identifier: MIT */
#include "core/attend.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Fewer rows than this go one by one: most lanes would be idle. */
#define LEAST_ROWS 4

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

/* Neighbours in a block that share their prefix, or their own rows too. */
struct group {
    const struct kr_view *views;
    size_t n, lanes; /* rows; rounded up to KR_LANES */
    bool one_window; /* own rows are shared too: the rows of one window */
    size_t n_shared; /* rows that some of them see */
    size_t n_own;    /* unless they share them: own rows that one of them sees, at most */
    int32_t first[KR_ATTEND_ROWS],
        end[KR_ATTEND_ROWS]; /* of the shared rows, those that each sees */
    struct piece pieces[12];
    size_t n_pieces;
};

/* Do two rows see the same prefix, from rows that are not far from each other? */
static bool same_prefix(const struct kr_view *a, const struct kr_view *b)
{
    size_t apart = a->index > b->index ? a->index - b->index : b->index - a->index;

    return a->prefix == b->prefix && (!a->prefix || a->n_prefix == b->n_prefix) &&
           a->own->window == b->own->window && apart <= KR_ATTEND_ROWS;
}

/* Rows from the first on that belong to a group: which share their prefix, or which share their own rows too
 * and stand one behind the other. Both bound the scratch. */
static size_t run_of(const struct kr_view *views, size_t n, bool one_window)
{
    size_t i = 1;

    while (i < KR_MIN(n, (size_t)KR_ATTEND_ROWS) && same_prefix(&views[0], &views[i]) &&
           (!one_window || (views[i].own == views[0].own && views[i].index >= views[i - 1].index)))
        i++;
    return i;
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
        size_t to = n_prefix + (group->one_window ? group->views[i].index + 1 : 0);

        bounds.first = KR_MIN(bounds.first, from);
        bounds.full = KR_MAX(bounds.full, from);
        bounds.some = KR_MIN(bounds.some, to);
        bounds.end = KR_MAX(bounds.end, to);
    }
    bounds.first = KR_MIN(bounds.first, bounds.end);
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

/* The first of views [n] and as many of the next as belong to them. */
static void take_group(struct group *group, const struct kr_view *views, size_t n)
{
    size_t n_prefix = views->prefix ? views->n_prefix : 0, n_window = run_of(views, n, true);
    struct bounds bounds;

    *group = (struct group){.views = views, .n = run_of(views, n, false)};
    group->one_window = n_prefix == 0 || n_window == group->n;
    if (group->one_window)
        group->n = n_window;
    group->lanes = kr_round_up(group->n, KR_LANES);
    bounds = bounds_of(group);
    group->n_shared = bounds.end - bounds.first;
    for (size_t i = 0; i < group->n; i++) {
        const struct kr_view *view = &views[i];
        size_t from = skipped_by(view), to = n_prefix + (group->one_window ? view->index + 1 : 0);

        group->first[i] = (int32_t)(KR_MIN(from, bounds.end) - bounds.first);
        group->end[i] = (int32_t)(to - bounds.first);
        if (!group->one_window)
            group->n_own =
                KR_MAX(group->n_own, n_prefix + view->index + 1 - KR_MAX(from, n_prefix));
    }
    if (bounds.first < n_prefix)
        add_pieces(group, views->prefix, 0, bounds.first, n_prefix, &bounds);
    if (bounds.end > n_prefix)
        add_pieces(group, views->own, n_prefix, KR_MAX(bounds.first, n_prefix), bounds.end,
                   &bounds);
}

/* Shared scores, q and out as columns, own scores row by row, each with room for a lead and a whole last
 * group of KR_LANES. Shared and own rows together are more than one row sees by as many as the rows of a
 * group stand apart. */
size_t kr_attend_scratch(size_t max_visible, size_t max_head_dim)
{
    return KR_ATTEND_ROWS * (max_visible + 2 * KR_ATTEND_ROWS + 2 * max_head_dim + 4 * KR_LANES);
}

/* A head of the own rows' scores, into s [own rows] of one row; the largest of them and of `most`. */
static float own_scores(const struct kr_kernels *kernels, const struct kr_view *view, size_t layer,
                        size_t head, const float *q, float scale, float *s, float most)
{
    struct span spans[2];
    size_t n_spans = own_spans(view, spans), n = 0;
    float own;

    for (size_t i = 0; i < n_spans; n += spans[i++].n)
        span_scores(kernels, &spans[i], layer, head, q, scale, s + n);
    own = kernels->maximum(s, n);
    return own > most ? own : most;
}

static void own_values(const struct kr_kernels *kernels, const struct kr_view *view, size_t layer,
                       size_t head, float *s, float most, float *out, float *sum)
{
    struct span spans[2];
    size_t n_spans = own_spans(view, spans), n = 0;

    for (size_t i = 0; i < n_spans; i++)
        n += spans[i].n;
    kernels->exp_shifted(s, most, n);
    for (size_t i = 0; i < n_spans; s += spans[i++].n)
        kernels->accumulate(out, sum, s, span_values(&spans[i], layer, head), spans[i].n,
                            view->own->shape.head_dim);
}

static void attend_group(const struct kr_kernels *kernels, const struct group *group, size_t layer,
                         size_t head, const float *q, float scale, float *out, size_t stride,
                         float *scratch)
{
    size_t dim = group->views->own->shape.head_dim, lanes = group->lanes;
    float most[KR_ATTEND_ROWS], sum[KR_ATTEND_ROWS] = {0};
    float *columns = scratch, *mixed = columns + dim * lanes, *s = mixed + dim * lanes;
    float *own = s + group->n_shared * lanes + KR_LANES; /* room for a first group's lead */
    size_t own_stride = kr_round_up(group->n_own, KR_LANES) + 2 * KR_LANES;

    for (size_t l = 0; l < lanes; l++)
        most[l] = -INFINITY;
    kernels->to_columns(columns, q, stride, group->n, dim, lanes);
    for (size_t i = 0; i < group->n_pieces; i++) {
        const struct piece *piece = &group->pieces[i];
        const struct span *span = &piece->span;
        struct kr_seen seen = {group->first, group->end, (int32_t)piece->at};
        size_t lead = span->slot % KR_LANES;

        kernels->shared_scores(s, columns,
                               kr_cache_keys(span->cache, layer, head) + (span->slot - lead) * dim,
                               lead, span->n, dim, lanes, scale);
        kernels->shared_maximum(most, s, piece->some ? &seen : NULL, span->n, lanes);
        s += span->n * lanes;
    }
    for (size_t l = 0; l < group->n && !group->one_window; l++)
        most[l] = own_scores(kernels, &group->views[l], layer, head, q + l * stride, scale,
                             own + l * own_stride, most[l]);
    memset(mixed, 0, dim * lanes * sizeof(float));
    s = mixed + dim * lanes;
    for (size_t i = 0; i < group->n_pieces; i++) {
        const struct piece *piece = &group->pieces[i];
        struct kr_seen seen = {group->first, group->end, (int32_t)piece->at};

        kernels->shared_weights(s, sum, most, piece->some ? &seen : NULL, piece->span.n, lanes);
        kernels->shared_accumulate(mixed, s, span_values(&piece->span, layer, head), piece->span.n,
                                   dim, lanes, piece->some);
        s += piece->span.n * lanes;
    }
    kernels->to_rows(out, stride, mixed, group->n, dim, lanes);
    for (size_t l = 0; l < group->n; l++) {
        if (!group->one_window)
            own_values(kernels, &group->views[l], layer, head, own + l * own_stride, most[l],
                       out + l * stride, &sum[l]);
        kernels->divide(out + l * stride, sum[l], dim);
    }
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

            if (group.n >= LEAST_ROWS)
                attend_group(kernels, &group, layer, head, q + at, scale, out + at, stride,
                             scratch);
            else
                for (size_t i = 0; i < group.n; i++)
                    kr_attend(kernels, &views[done + i], layer, head, q + at + i * stride, scale,
                              out + at + i * stride, scratch);
        }
    }
}
