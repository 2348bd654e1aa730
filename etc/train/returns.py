# SPDX-License-Identifier: MIT
"""The `returns` normaliser in numpy: the same definition as core/returns.h, for whole series at once.

bars: [..., L, 6] float64, open high low close volume amount. All arithmetic in double, as in C."""
import numpy as np

CONSTANTS = {
    "norm_bars": 128,       # bars before the one described that its averages cover
    "norm_decay": 0.97,     # weight of a bar over that of its successor: volatility and volume
    "norm_fast": 0.85,      # the same for the fast volatility
    "norm_slow": 0.995,     # and the slow one
    "norm_unit": 0.6,       # sigma over mean true range
    "norm_floor": 1e-6,     # of sigma, in log units
    "norm_clip": 4.0,       # of the six inputs, and of decoded ones
    "norm_cap": 8.0,        # a path's sigma over the sigma at its start
    "norm_volume": 0.02,    # softens the log of a volume ratio
}
GRID = 65536.0  # inputs are multiples of 1 / GRID


def weights(decay, n):
    """decay^0 ... decay^(n-1), by repeated multiplication."""
    w = np.ones(n)
    for i in range(1, n):
        w[i] = w[i - 1] * decay
    return w


def trailing(values, own, decay, n):
    """Weighted mean of the n values that end at each position; the oldest of them is taken from `own`
    (what a bar says without its predecessor), fewer at the start of the series, where the first value
    is own by itself. values, own: [..., L]. Summed oldest first."""
    length = values.shape[-1]
    w = weights(decay, n)
    total = np.zeros(values.shape)
    norm = np.zeros(length)
    for lag in range(min(n, length) - 1, -1, -1):
        source = own if lag == n - 1 else values
        total[..., lag:] += w[lag] * source[..., :length - lag]
        norm[lag:] += w[lag]
    return total / norm


def describe(bars, k=CONSTANTS):
    """-> (x float32 [..., L, 6], sigma [..., L] known before each bar)."""
    o, h, l, c, v = (bars[..., i] for i in range(5))
    n = k["norm_bars"]
    before = np.concatenate([o[..., :1] * 0 + np.nan, c[..., :-1]], -1)
    first = np.isnan(before)
    own = np.log(h / l)
    true_range = np.where(first, own, np.log(np.maximum(h, before) / np.minimum(l, before)))

    def lagged(values):  # what is known before the bar; the first bar has only itself
        return np.concatenate([values[..., :1], values[..., :-1]], -1)

    mean_range = trailing(true_range, own, k["norm_decay"], n)
    sigma = np.maximum(k["norm_unit"] * lagged(mean_range), k["norm_floor"])
    sigma[..., 0] = np.maximum(k["norm_unit"] * own[..., 0], k["norm_floor"])
    fast = trailing(true_range, own, k["norm_fast"], n + 1)
    slow = trailing(true_range, own, k["norm_slow"], n + 1)
    usual = lagged(trailing(v, v, k["norm_decay"], n))
    gap = np.where(first, 0, np.log(o / before))
    change = np.where(first, 0, np.log(c / before))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(usual > 0, v / usual, np.where(v > 0, np.inf, 0))
    soft = k["norm_volume"]
    x = np.stack([
        np.arcsinh(gap / sigma),
        np.log1p(np.maximum(np.log(h / np.maximum(o, c)), 0) / sigma),
        np.log1p(np.maximum(np.log(np.minimum(o, c) / l), 0) / sigma),
        np.arcsinh(change / sigma),
        np.log((ratio + soft) / (1 + soft)),
        np.log(np.maximum(fast, k["norm_floor"]) / np.maximum(slow, k["norm_floor"])),
    ], -1)
    x = np.clip(x, -k["norm_clip"], k["norm_clip"])
    return (np.rint(x * GRID) / GRID).astype(np.float32), sigma


class Walk:
    """Decoding: P paths walk on from the same context, P per origin. context: [O, n_bars <= norm_bars, 6]."""

    def __init__(self, context, paths, k=CONSTANTS):
        self.k = k
        c = context[:, -k["norm_bars"]:]
        before = np.concatenate([c[:, :1, 3] * np.nan, c[:, :-1, 3]], 1)
        self.own = np.repeat(np.log(c[..., 1] / c[..., 2]), paths, 0)
        r = np.fmax(c[..., 1], before) / np.fmin(c[..., 2], before)
        self.range = np.repeat(np.log(r), paths, 0)
        self.volume = np.repeat(c[..., 4], paths, 0)
        self.close = np.repeat(c[:, -1, 3], paths, 0)
        self.start = None
        w = weights(k["norm_decay"], c.shape[1])[::-1]
        turnover = (c[..., 4] * c[..., :4].mean(-1)) @ w
        amount = c[..., 5] @ w
        with np.errstate(divide="ignore", invalid="ignore"):
            self.multiplier = np.repeat(np.where(turnover > 0, amount / turnover, 1), paths)

    def step(self, y):
        """y: [O * paths, 6] -> bars [O * paths, 6]."""
        k = self.k
        n = k["norm_bars"]
        m = min(n, self.range.shape[1])
        w = weights(k["norm_decay"], n)[:m][::-1]
        ranges = self.range[:, -m:].copy()
        ranges[:, 0] = self.own[:, -m]
        sigma = np.maximum(k["norm_unit"] * (ranges @ w) / w.sum(), k["norm_floor"])
        if self.start is None:
            self.start = sigma
        sigma = np.minimum(sigma, k["norm_cap"] * self.start)
        y = np.clip(y.astype(np.float64), -k["norm_clip"], k["norm_clip"])
        o = self.close * np.exp(sigma * np.sinh(y[:, 0]))
        c = self.close * np.exp(sigma * np.sinh(y[:, 3]))
        h = np.maximum(o, c) * np.exp(sigma * np.expm1(np.maximum(y[:, 1], 0)))
        l = np.minimum(o, c) * np.exp(-sigma * np.expm1(np.maximum(y[:, 2], 0)))
        soft = k["norm_volume"]
        usual = self.volume[:, -m:] @ w / w.sum()
        v = usual * np.maximum(np.exp(y[:, 4]) * (1 + soft) - soft, 0)
        tr = np.log(np.maximum(h, self.close) / np.minimum(l, self.close))
        self.range = np.concatenate([self.range, tr[:, None]], 1)
        self.own = np.concatenate([self.own, np.log(h / l)[:, None]], 1)
        self.volume = np.concatenate([self.volume, v[:, None]], 1)
        self.close = c
        return np.stack([o, h, l, c, v, v * ((o + h + l + c) / 4) * self.multiplier], 1)
