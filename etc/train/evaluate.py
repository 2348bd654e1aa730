# SPDX-License-Identifier: MIT
"""Judge a checkpoint: CRPS skill against the EWMA random walk, spread, drift and coverage, on files of real
bars and on held-out simulation. Definitions: fair CRPS of the log-return from the last close; skill is
1 - sum CRPS / sum CRPS of N(0, h sigma^2), sigma^2 an EWMA (0.97) of squared close log-returns."""
import argparse
import csv
import datetime
import math
import os

import numpy as np
import torch

import data
import kronos
import returns
import sample

HORIZONS = (1, 6, 12, 24)


def read_csv(path):
    with open(path, newline="") as file:
        rows = list(csv.reader(file))
    names = [n.strip().lower() for n in rows[0]]
    column = [names.index(n) for n in ("open", "high", "low", "close")]
    volume = names.index("volume") if "volume" in names else None
    bars, seconds = [], []
    for r in rows[1:]:
        prices = [float(r[i]) for i in column]
        v = float(r[volume]) if volume is not None and r[volume] else 0
        bars.append(prices + [max(v, 0), max(v, 0) * sum(prices) / 4])
        t = datetime.datetime.fromisoformat(r[0].replace("Z", "+00:00").replace("T", " "))
        seconds.append(int(t.replace(tzinfo=datetime.timezone.utc).timestamp()))
    return np.array(bars), np.array(seconds)


def walk_sigma(close):
    r = np.diff(np.log(close))
    variance = np.empty(len(close))
    variance[0] = np.mean(r[:20] ** 2)
    for i in range(len(r)):
        variance[i + 1] = 0.97 * variance[i] + 0.03 * r[i] ** 2
    return np.sqrt(variance)


def fair_crps(x, y):
    """x [..., M], y [...]."""
    m = x.shape[-1]
    x = np.sort(x, -1)
    i = np.arange(m)
    return np.abs(x - y[..., None]).mean(-1) + x.mean(-1) - 2 / (m * (m - 1)) * (x * i).sum(-1)


def normal_crps(sigma, y):
    z = y / np.maximum(sigma, 1e-300)
    cdf = 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))
    pdf = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return np.where(sigma > 0, sigma * (z * (2 * cdf - 1) + 2 * pdf - 1 / math.sqrt(math.pi)), np.abs(y))


def quantile(x, tau):
    m = x.shape[-1]
    x = np.sort(x, -1)
    at = min(max(tau * (m + 1) - 1, 0), m - 1)
    i = min(int(at), m - 2)
    return x[..., i] + (at - i) * (x[..., i + 1] - x[..., i])


def forecast(encoded, bars, origins, horizon, paths, generator, temperature=1.0):
    """-> log-returns of the paths' closes [O, P, horizon]."""
    y, _, _ = sample.generate(encoded, origins, horizon, paths, generator, temperature)
    n = encoded.tokenizer.config["norm_bars"]
    context = np.stack([bars[t - n + 1:t + 1] for t in origins])
    walk = returns.Walk(context, paths, encoded.tokenizer.config)
    y = y.numpy().reshape(-1, horizon, 6)
    closes = np.stack([walk.step(y[:, h])[:, 3] for h in range(horizon)], -1)
    return np.log(closes.reshape(len(origins), paths, horizon) / bars[origins, 3][:, None, None])


def score(x, bars, origins):
    """-> per origin and horizon: crps, crps of the walk, spread, drift, hit of the 90 % band, pit, z."""
    sigma = walk_sigma(bars[:, 3])
    out = {}
    for h in HORIZONS:
        y = np.log(bars[origins + h, 3] / bars[origins, 3])
        s = sigma[origins] * math.sqrt(h)
        p = x[:, :, h - 1]
        scale = np.maximum(s, 1e-9)
        out[h] = np.stack([fair_crps(p, y), normal_crps(s, y), np.mean(np.abs(p - np.median(p, 1, keepdims=True)), 1) / 0.798 / scale,
                           p.mean(1) / scale, (quantile(p, .05) <= y) & (y <= quantile(p, .95)),
                           (p < y[:, None]).mean(1) + 0.5 * (p == y[:, None]).mean(1), y / scale,
                           fair_crps(p - p.mean(1, keepdims=True), y)], -1)
    return out


def table(name, scores):
    cells, skills = [], []
    for h in HORIZONS:
        s = scores[h]
        skill = 1 - s[:, 0].sum() / s[:, 1].sum()
        centred = 1 - s[:, 7].sum() / s[:, 1].sum()
        skills.append((skill, centred, s[:, 2].mean(), np.mean(np.abs(s[:, 6])) / .798, s[:, 3].mean(), s[:, 6].mean(), s[:, 4].mean()))
        cells.append("%+.3f (%+.3f) %.2f/%.2f %+.2f/%+.2f %.2f" % skills[-1])
    print("%-16s %4d | %s" % (name[:16], len(s), " | ".join(cells)), flush=True)
    return skills


def main():
    arg = argparse.ArgumentParser()
    arg.add_argument("model", help="folder with predictor/ and tokenizer/")
    arg.add_argument("--tokenizer")
    arg.add_argument("--bars", nargs="*", default=[], help="CSV files")
    arg.add_argument("--simulated", help="a set of simulated bars that nothing was trained on")
    arg.add_argument("--markets", type=int, default=60)
    arg.add_argument("--every", type=int, default=24)
    arg.add_argument("--paths", type=int, default=32)
    arg.add_argument("--temperature", type=float, default=1.0)
    arg.add_argument("--seed", type=int, default=5)
    a = arg.parse_args()
    predictor = kronos.load(kronos.Predictor, os.path.join(a.model, "predictor"))
    tokenizer = kronos.load(kronos.Tokenizer, a.tokenizer or os.path.join(a.model, "tokenizer"))
    generator = torch.Generator().manual_seed(a.seed)
    horizon = max(HORIZONS)
    print("per horizon %s: skill (centred) spread of paths / of actual, drift of paths / of actual (over walk sigma), "
          "coverage of 90 %%" % (HORIZONS,))

    def run(bars, stamps, origins):
        encoded = sample.Encoded(tokenizer, predictor, bars, stamps)
        parts = [forecast(encoded, bars, origins[i:i + 32], horizon, a.paths, generator, a.temperature)
                 for i in range(0, len(origins), 32)]
        return score(np.concatenate(parts), bars, origins)

    rows = []
    for path in a.bars:
        bars, seconds = read_csv(path)
        origins = np.arange(399, len(bars) - horizon, a.every)
        rows.append(table(os.path.basename(path), run(bars, data.stamps(seconds), origins)))
    if rows:
        mean = np.mean(np.array(rows), 0)
        print("%-16s %4d | %s" % ("mean", len(rows), " | ".join(
            "%+.3f (%+.3f) %.2f/%.2f %+.2f/%+.2f %.2f" % tuple(m) for m in mean)))
        print("worst skill", np.array(rows)[:, :, 0].min(0).round(3))
    if a.simulated:
        bars, _, stamps = data.load(a.simulated)
        total, skills = [], []
        for i in range(min(a.markets, len(bars))):
            s = run(bars[i], stamps[i], np.arange(399, bars.shape[1] - horizon, a.every))
            total.append(s)
        scaled = {h: np.concatenate([t[h] for t in total]) for h in HORIZONS}
        for t in total:  # every market counts the same
            for h in HORIZONS:
                unit = max(t[h][:, 1].mean(), 1e-12)
                t[h][:, [0, 1, 7]] /= unit
        table("simulation", {h: np.concatenate([t[h] for t in total]) for h in HORIZONS})
        for h in HORIZONS:
            print("simulation, h", h, "PIT deciles", np.histogram(scaled[h][:, 5], 10, (0, 1))[0].tolist())


if __name__ == "__main__":
    main()
