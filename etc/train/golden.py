# SPDX-License-Identifier: MIT
"""Write the golden files of tests/golden/builtin: what the C side must reproduce.

returns.safetensors: `bars` [n, L, 6] f64; `x` [n, L, 6] f32 and `sigma` [n, L] f64 (known before each bar);
`y` [n, H, 6] f32 and `walked` [n, H, 6] f64, a path from the last bar of each series."""
import argparse
import os

import numpy as np

import kronos
import returns


def odd_markets(bars):
    """Series that simulation does not hold: flat; no volume; moves beyond the clip; volume that starts late."""
    flat = np.full_like(bars[0], 17.25)
    flat[:, 4:] = 0
    silent = bars[1].copy()
    silent[:, 4:] = 0
    wild = bars[2].copy()
    factor = np.where(np.arange(len(wild)) % 40 < 20, 1, 3.0)
    wild[:, :4] *= factor[:, None]
    late = bars[3].copy()
    late[:60, 4:] = 0
    return np.stack([flat, silent, wild, late])


def returns_file(simulated, path):
    bars = kronos.read_safetensors(simulated)["bars"][:6, :200].copy()
    bars = np.concatenate([bars, odd_markets(bars)])
    x, sigma = returns.describe(bars)
    rng = np.random.default_rng(11)
    y = (rng.standard_t(3, (len(bars), 24, 6)) * 0.8).astype(np.float32)
    walk = returns.Walk(bars, 1)
    walked = np.stack([walk.step(y[:, h]) for h in range(y.shape[1])], 1)
    kronos.write_safetensors(path, {"bars": bars, "x": x, "sigma": sigma, "y": y, "walked": walked})


def main():
    arg = argparse.ArgumentParser()
    arg.add_argument("simulated", help="made by simulate_bars")
    arg.add_argument("output")
    a = arg.parse_args()
    os.makedirs(a.output, exist_ok=True)
    returns_file(a.simulated, os.path.join(a.output, "returns.safetensors"))


if __name__ == "__main__":
    main()
