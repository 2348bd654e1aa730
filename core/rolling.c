/* SPDX-License-Identifier: MIT */
#include "core/rolling.h"

#include <errno.h>

bool kr_rolling_model(const struct kr_model *model)
{
    return model && model->attention_window > 0 && model->normaliser == KR_RETURNS;
}

size_t kr_rolling_field(const struct kr_model *model)
{
    size_t deep = KR_MAX(model->predictor.trunk.n_layers + 1, model->tokenizer.decoder.n_layers);

    return (model->tokenizer.encoder.n_layers + deep) * (model->attention_window - 1) + 1;
}

/* Rows of a replay: every row that a ring still holds must have seen all that it would have. */
static size_t replay_rows(const struct kr_model *model)
{
    return kr_rolling_field(model) + KR_RING_SLACK;
}

size_t kr_rolling_bars(const struct kr_model *model)
{
    return replay_rows(model) + model->returns.config.bars;
}

/* Row number of the bar at an index of the series. */
static int64_t row_number(const struct kr_series *series, size_t index)
{
    return series->next_row - (int64_t)(series->len - index);
}

/* Bars [first, end) of the series, normalised, behind the rings' last row. */
static int encode(struct kr_live *live, struct kr_engine *engine, size_t first, size_t end)
{
    const struct kr_returns *returns = &live->model->returns;
    struct kr_bar *bars = live->series.bars;
    float x[KR_RING_SLACK * KR_COLUMNS];
    struct kr_stamp stamps[KR_RING_SLACK];

    for (size_t i = first, n; i < end; i += n) {
        int r;

        n = KR_MIN(end - i, (size_t)KR_RING_SLACK);
        for (size_t j = 0; j < n; j++) {
            size_t context = KR_MIN(i + j, returns->config.bars); /* bars before it that count */

            bars[i + j].clipped =
                kr_returns_apply(returns, bars + i + j - context, context + 1, x + j * KR_COLUMNS);
            stamps[j] = bars[i + j].stamp;
        }
        r = kr_state_append_normalised(&live->state, engine, x, stamps, n);
        if (r < 0)
            return r;
    }
    return 0;
}

int kr_rolling_append(struct kr_live *live, struct kr_engine *engine, size_t n)
{
    return encode(live, engine, live->series.len - n, live->series.len);
}

static int replay(struct kr_live *live, struct kr_engine *engine)
{
    size_t len = live->series.len, rows = KR_MIN(len, replay_rows(live->model));
    int r;

    kr_state_reset_rolling(&live->state, row_number(&live->series, len - rows));
    r = encode(live, engine, len - rows, len);
    live->has_epoch = r == 0;
    return r;
}

/* The last n bars once more, or everything where the rings no longer hold what that takes. */
static int encode_again(struct kr_live *live, struct kr_engine *engine, size_t n)
{
    int r = -ERANGE;

    if (n <= live->state.len)
        r = kr_state_truncate(&live->state, live->state.len - n);
    if (r == -ERANGE) {
        live->has_epoch = false;
        live->n_reanchored++;
        return 0; /* replayed when it is needed */
    }
    return r < 0 ? r : kr_rolling_append(live, engine, n);
}

static int push(struct kr_live *live, struct kr_engine *engine, const struct kr_bar *bar)
{
    kr_series_push(&live->series, bar);
    if (live->series.len == 1)
        return replay(live, engine);
    return live->has_epoch ? kr_rolling_append(live, engine, 1) : 0;
}

static int revise(struct kr_live *live, struct kr_engine *engine, const struct kr_bar *bar)
{
    int r = kr_series_replace(&live->series, bar);

    if (r < 0 || !live->has_epoch)
        return r;
    return encode_again(live, engine,
                        live->series.len - (size_t)kr_series_find(&live->series, bar->t_ns));
}

/* A late bar moves the numbers of all that follow it, or of the history before it. */
static int insert(struct kr_live *live, const struct kr_bar *bar)
{
    int64_t next_row = live->series.next_row;
    size_t at;
    int r = kr_series_insert(&live->series, bar);

    if (r < 0)
        return r;
    at = (size_t)kr_series_find(&live->series, bar->t_ns);
    if (live->has_epoch && (live->series.next_row != next_row ||
                            live->series.len - at <= kr_rolling_bars(live->model))) {
        live->has_epoch = false;
        live->n_reanchored++;
    }
    return 0;
}

int kr_rolling_apply(struct kr_live *live, struct kr_engine *engine, enum kr_change change,
                     const struct kr_bar *bar)
{
    switch (change) {
    case KR_NEXT:
    case KR_REANCHOR: /* there is no epoch: what is appended is what a replay would give */
        return push(live, engine, bar);
    case KR_REVISED:
        return revise(live, engine, bar);
    case KR_LATE:
        return insert(live, bar);
    case KR_HISTORY:
        kr_series_push(&live->series, bar);
        live->has_epoch = false;
        return 0;
    }
    return -EINVAL;
}

/* Any of the last n bars. */
static bool any_clipped(const struct kr_series *series, size_t n)
{
    for (size_t i = series->len - n; i < series->len; i++)
        if (series->bars[i].clipped)
            return true;
    return false;
}

int kr_rolling_prepare(struct kr_live *live, struct kr_engine *engine,
                       struct kr_live_report *ret_report)
{
    size_t len = live->series.len, seen = KR_MIN(len, kr_rolling_field(live->model));
    int r = 0;

    if (live->config.mode == KR_MODE_EXACT || !live->has_epoch)
        r = replay(live, engine);
    else if (!live->state.last_valid)
        r = encode_again(live, engine, 1);
    *ret_report = (struct kr_live_report){
        .mode = live->config.mode,
        .bars = seen,
        .win_t0_ns = live->series.bars[len - seen].t_ns,
        .anchor_n = KR_MIN(len, live->model->returns.config.bars),
        .clipped = any_clipped(&live->series, seen),
    };
    return r;
}
