#!/bin/bash
# SPDX-License-Identifier: MIT
# The demonstration: a daemon on loopback, three simulated streams faster than real time, the live view.
# Usage: demo.sh BUILD-FOLDER (./bootstrap demo calls it)
set -eu
build=$1

streams=3 warm=32 bars=180 # of each stream
speed=360                  # one-minute bars: six a second

work=$(mktemp -d /tmp/kronosd-demo-XXXXXX)
daemon="" feed=""
cleanup() {
    [ -z "$feed" ] || kill "$feed" 2>/dev/null || true
    [ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# Three ports in a row that nobody listens on, the usual ones first.
free() {
    local p
    for p in "$1" $(($1 + 1)) $(($1 + 2)); do
        ! (exec 3<>"/dev/tcp/127.0.0.1/$p") 2>/dev/null || return 1
    done
}
port=7410
until free "$port"; do
    port=$((port + 10))
    [ "$port" -lt 9000 ] || { echo "demo: expected three free ports from 7410 on, found none" >&2; exit 69; }
done
to=tcp://127.0.0.1:$port from=tcp://127.0.0.1:$((port + 1)) control=tcp://127.0.0.1:$((port + 2))

cat >"$work/kronosd.conf" <<EOF
[forecast]
min_bars = $warm
horizon = 24
backlog = all
[feed]
connect = $to
[publish]
bind = $from
[control]
bind = $control
EOF

echo "kronosd on $from, the built-in model, which was trained on simulated bars like these."
echo "Its forecasts are scored as their bars come: uncalibrated at first, warming from 20 scores, calibrated from 100."
"$build/kronosd" --config "$work/kronosd.conf" >"$work/kronosd.log" 2>&1 &
daemon=$!
for _ in $(seq 100); do
    "$build/kronosctl" ping --control "$control" >/dev/null 2>&1 && break
    kill -0 "$daemon" 2>/dev/null || { cat "$work/kronosd.log" >&2; exit 1; }
    sleep 0.1
done

"$build/kronosctl" simulate --symbols $streams --bars $bars --seed 7 --interval 1m --speed $speed \
    --to "$to" >"$work/feed.log" 2>&1 &
feed=$!
title="kronosd demo: $streams simulated streams, six minutes a second"
status=0
"$build/kronosctl" watch --from "$from" --control "$control" --count $((streams * (bars - warm + 1))) \
    --timeout 30s --title "$title" || status=$?
[ "$status" -eq 0 ] || { cat "$work/kronosd.log" "$work/feed.log" >&2; exit "$status"; }

echo
echo "What the daemon counted:"
"$build/kronosctl" status --control "$control"
echo
"$build/kronosctl" symbols --control "$control"
echo "SKILL: 1 - CRPS / CRPS of a random walk, calibrated, over all horizons; COVER: bars inside the calibrated 90 % band."
kill -TERM "$daemon"
wait "$daemon"
daemon=""
echo
tail -1 "$work/kronosd.log"
echo "Next: README.md, or $build/kronosctl --help"
