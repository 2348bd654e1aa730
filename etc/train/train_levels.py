# SPDX-License-Identifier: MIT
"""Train the small `levels` model of tests/levels: z-scores of prices, full attention, as the public models.

Only for tests of what depends on a model having learned something (anchored against exact windows). A stretch is
normalised by the mean and deviation of its first bars, from half of it to all of it: the anchored mode's windows are
such."""
import argparse
import math
import os
import time

import numpy as np
import torch

import data
import kronos
import train_predictor
import train_tokenizer

LENGTH = 216  # lookback 128, growth 64 and horizon 24 of the tests
FULL = 1 << 20  # a window that everything is inside of
TOKENIZER = dict(d_in=6, d_model=48, n_heads=2, ff_dim=128, n_enc_layers=2, n_dec_layers=2, s1_bits=10, s2_bits=10)
PREDICTOR = dict(d_model=48, n_heads=4, ff_dim=96, n_layers=2, s1_bits=10, s2_bits=10, learn_te=True)


def mirror(x):
    return x[..., [0, 2, 1, 3, 4, 5]] * x.new_tensor([-1, -1, -1, -1, 1, 1])


def batch_of(bars, stamps, length, n, generator):
    """-> x [2n, length, 6] beside its mirror image, calendars."""
    raw, times = data.crops([bars, stamps], length, n, generator)
    covered = torch.randint(length // 2, length + 1, (n, 1, 1), generator=generator)
    inside = (torch.arange(length)[None, :, None] < covered).to(raw.dtype)
    mean = (raw * inside).sum(1, keepdim=True) / covered
    std = (((raw - mean) ** 2 * inside).sum(1, keepdim=True) / covered).sqrt()
    x = ((raw - mean) / (std + 1e-9 * mean.abs() + 1e-30)).clamp(-5, 5).float()
    return torch.cat([x, mirror(x)]), torch.cat([times, times]).long()


def run(model, minutes, rate, loss_of, report):
    optimiser = torch.optim.AdamW(model.parameters(), rate, betas=(0.9, 0.98), weight_decay=0.0)
    start, step, mean = time.time(), 0, 0.0
    while (done := (time.time() - start) / (60 * minutes)) < 1:
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        loss = loss_of(done)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
        mean = loss.item() if step == 1 else 0.98 * mean + 0.02 * loss.item()
        if step % 100 == 0:
            print(step, "%.0fs" % (time.time() - start), "loss %.4f" % mean, report(), flush=True)
    print("end: steps", step, "loss %.4f" % mean, report(), flush=True)


def save(model, folder):
    """The public format: neither normaliser nor attention_window are named."""
    config = dict(model.config)
    model.config = {k: v for k, v in config.items() if k != "attention_window"}
    kronos.save(model, folder)
    model.config = config


def main():
    arg = argparse.ArgumentParser()
    arg.add_argument("data")
    arg.add_argument("output")
    arg.add_argument("--tokenizer-minutes", type=float, default=5)
    arg.add_argument("--minutes", type=float, default=9)
    arg.add_argument("--batch", type=int, default=6)
    arg.add_argument("--seed", type=int, default=5)
    a = arg.parse_args()
    torch.manual_seed(a.seed)
    generator = torch.Generator().manual_seed(a.seed)
    arrays = kronos.read_safetensors(a.data)
    bars = torch.from_numpy(np.array(arrays["bars"]))
    stamps = torch.from_numpy(data.stamps(arrays["t_ns"] // 10**9))

    tokenizer = kronos.Tokenizer(dict(TOKENIZER, attention_window=FULL))
    rms = [0.0]

    def reconstruct(done):
        x, _ = batch_of(bars, stamps, LENGTH, a.batch, generator)
        loss, fine, _, _ = train_tokenizer.losses(tokenizer, x, 0.05 * max(0.1, 1 - 1.2 * done))
        rms[0] = [round(v, 3) for v in fine.detach().sqrt().tolist()]
        return loss

    run(tokenizer, a.tokenizer_minutes, 2e-3, reconstruct, lambda: rms[0])
    save(tokenizer, os.path.join(a.output, "tokenizer"))

    predictor = kronos.Predictor(dict(PREDICTOR, attention_window=FULL))
    parts = [0.0]

    def predict(_):
        x, times = batch_of(bars, stamps, LENGTH + 1, a.batch, generator)
        with torch.no_grad():
            s1, s2 = tokenizer.ids(x)
        l1, l2 = train_predictor.loss_of(predictor, s1, s2, times)
        parts[0] = [round(l1.item(), 3), round(l2.item(), 3)]
        return l1 + l2

    run(predictor, a.minutes, 3e-3, predict, lambda: parts[0])
    save(predictor, os.path.join(a.output, "predictor"))


if __name__ == "__main__":
    main()
