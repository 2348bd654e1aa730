#!/bin/sh
# SPDX-License-Identifier: MIT
# The step benchmark once, short: its figures in the log, its bytes equal. No time is judged.
steps=12
[ -z "${KT_SANITIZED:-}" ] || steps=3
echo 1..1
if "${builddir:-.}/tests/bench/bench_steps" "$steps" 64 128 256 512 >bench.$$ 2>&1; then
    sed 's/^/# /' bench.$$
    echo 'ok 1 - cached and uncached steps of the mini shape give the same bytes'
else
    sed 's/^/# /' bench.$$
    echo 'not ok 1 - cached and uncached steps of the mini shape give the same bytes'
fi
rm -f bench.$$
