/* SPDX-License-Identifier: MIT */
/* Mode `rolling`: the live window of a model made for streams (normaliser `returns`, attention window).
 *
 * A bar is appended for ever, in constant time and memory, and rotated by its row number. What a row sees is
 * finite, so replaying the receptive field rebuilds the rings to the same bytes: after history, a late bar or
 * a deep revision, and for every forecast in mode `exact`. Used by live.c; one thread at a time. */
#ifndef KR_ROLLING_H
#define KR_ROLLING_H

#include "core/live.h"

/* Does the model roll? */
bool kr_rolling_model(const struct kr_model *model);

/* Receptive field in rows: (E + max(N + 1, D)) (w - 1) + 1 with E, N, D blocks in encoder, trunk and
 * decoder and the attention window w (rules, "rolling"). */
size_t kr_rolling_field(const struct kr_model *model);

/* Bars that a stream must keep: the field, what a ring may lose by truncation, the normaliser's support. */
size_t kr_rolling_bars(const struct kr_model *model);

/* Take one bar into the series and, if the rings are in step, into them. Returns as kr_live_apply(). */
int kr_rolling_apply(struct kr_live *live, struct kr_engine *engine, enum kr_change change,
                     const struct kr_bar *bar) kr_must_check;

/* Have the rings end with the series' last bar, by replay if they are not in step with it. */
int kr_rolling_prepare(struct kr_live *live, struct kr_engine *engine,
                       struct kr_live_report *ret_report) kr_must_check;

/* Append the series' last n bars, at most KR_RING_SLACK + 1, behind the rings' last row. */
int kr_rolling_append(struct kr_live *live, struct kr_engine *engine, size_t n) kr_must_check;

#endif
