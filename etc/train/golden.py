# SPDX-License-Identifier: MIT
"""Write the golden files of tests/golden/builtin: what the C side must reproduce.

returns.safetensors: `bars` [n, L, 6] f64; `x` [n, L, 6] f32 and `sigma` [n, L] f64 (known before each bar);
`y` [n, H, 6] f32 and `walked` [n, H, 6] f64, a path from the last bar of each series.

logits.safetensors, of the model as stored, computed in double: `x` [L, 6] f32 and `stamps` [L, 5] i64 (minute,
hour, weekday, day, month) of one series longer than the window; `z` [L, bits] unit rows of the encoder,
`s1`, `s2` [L] i64; `rows` [n] i64 and of those rows `h` [n, d], `s1_logits` and `s2_logits` [n, 2^bits] (of the
next bar; s2 given the s1 that the next bar really has); `decoded` [L, 6]."""
import argparse
import os

import numpy as np
import torch

import data
import kronos
import returns

ROWS = (0, 1, 2, 31, 63, 64, 127, 200, 254, 255, 256, 257, 300, 383, 511, 512, 513, 598)


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


def logits_file(simulated, folder, path):
    tokenizer = kronos.load(kronos.Tokenizer, os.path.join(folder, "tokenizer")).double()
    predictor = kronos.load(kronos.Predictor, os.path.join(folder, "predictor")).double()
    _, x, stamps = data.load(simulated)
    x, stamps = x[:40, :600], torch.from_numpy(stamps[:40, :600]).long()
    with torch.no_grad():
        z = tokenizer.encode(torch.from_numpy(x).double())
        # The series whose bits are the clearest, so that float arithmetic finds the same.
        best = int(z.abs().flatten(1).min(1).values.argmax())
        x, z, stamps = x[best], z[best], stamps[best]
        s1, s2 = (i[0] for i in tokenizer.ids(torch.from_numpy(x).double()[None]))
        decoded = tokenizer.decode(tokenizer.code(s1, s2)[None])[0]
        h = predictor.trunk(predictor.embed(s1[None], s2[None], stamps[None]))
        following = torch.cat([s1[1:], s1[:1]])[None]
        rows = torch.tensor(ROWS)
        l1 = predictor.head["proj_s1"](h)[0, rows]
        l2 = predictor.s2_logits(h, following)[0, rows]
    print("smallest |z|", z.abs().min().item(), "largest logit", l1.abs().max().item())
    arrays = {"s1": s1, "s2": s2, "rows": rows, "stamps": stamps, "x": x, "z": z, "h": h[0, rows],
              "s1_logits": l1, "s2_logits": l2, "decoded": decoded}
    kronos.write_safetensors(path, {k: v if isinstance(v, np.ndarray) else
                                    v.numpy().astype(np.int64 if v.dtype == torch.int64 else np.float32)
                                    for k, v in arrays.items()})


def main():
    arg = argparse.ArgumentParser()
    arg.add_argument("simulated", help="made by simulate_bars")
    arg.add_argument("model", help="folder with predictor/ and tokenizer/")
    arg.add_argument("output")
    a = arg.parse_args()
    os.makedirs(a.output, exist_ok=True)
    returns_file(a.simulated, os.path.join(a.output, "returns.safetensors"))
    logits_file(a.simulated, a.model, os.path.join(a.output, "logits.safetensors"))


if __name__ == "__main__":
    main()
