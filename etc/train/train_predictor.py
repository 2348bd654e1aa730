# SPDX-License-Identifier: MIT
"""Train the predictor: cross entropy of the next bar's two ids, on the tokenizer's ids of simulated bars."""
import argparse
import copy
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

import data
import kronos

CONFIG = dict(d_model=128, n_heads=4, ff_dim=256, n_layers=2, s1_bits=8, s2_bits=8, learn_te=True,
              normaliser="returns", attention_window=256)
HELD_OUT = 200  # the last markets of the set


def batch_of(x, stamps, tokenizer, length, batch, generator):
    """Random stretches, each beside its mirror image: ids and calendars of length + 1 bars."""
    x, stamps = data.crops([x, stamps], length + 1, batch, generator)
    with torch.no_grad():
        s1, s2 = tokenizer.ids(torch.cat([x, data.mirror(x)]))
    return s1, s2, torch.cat([stamps, stamps]).long()


def loss_of(model, s1, s2, stamps):
    l1, l2 = model(s1[:, :-1], s2[:, :-1], stamps[:, :-1], s1[:, 1:])
    return (F.cross_entropy(l1.flatten(0, 1), s1[:, 1:].flatten()),
            F.cross_entropy(l2.flatten(0, 1), s2[:, 1:].flatten()))


def main():
    arg = argparse.ArgumentParser()
    arg.add_argument("data", nargs="+")
    arg.add_argument("--tokenizer", required=True)
    arg.add_argument("--output", required=True)
    arg.add_argument("--minutes", type=float, default=40, help="length of the schedule")
    arg.add_argument("--batch", type=int, default=4, help="markets, each beside its mirror image")
    arg.add_argument("--length", type=int, default=384)
    arg.add_argument("--rate", type=float, default=2e-3)
    arg.add_argument("--seed", type=int, default=2)
    arg.add_argument("--from", dest="start", help="weights to start from")
    a = arg.parse_args()
    torch.manual_seed(a.seed)
    generator = torch.Generator().manual_seed(a.seed)
    tokenizer = kronos.load(kronos.Tokenizer, a.tokenizer)
    sets = [data.load(p, seed=i)[1:] for i, p in enumerate(a.data)]
    x, stamps = (torch.from_numpy(np.concatenate(t)) for t in zip(*sets))
    del sets
    model = kronos.load(kronos.Predictor, a.start) if a.start else kronos.Predictor(CONFIG)
    model.train()
    print("parameters", sum(p.numel() for p in model.parameters()), "markets", len(x) - HELD_OUT, flush=True)
    decay = [p for n, p in model.named_parameters() if p.dim() == 2 and "emb" not in n]
    rest = [p for n, p in model.named_parameters() if not (p.dim() == 2 and "emb" not in n)]
    optimiser = torch.optim.AdamW([{"params": decay, "weight_decay": 0.02}, {"params": rest, "weight_decay": 0.0}],
                                  a.rate, betas=(0.9, 0.98))
    average, checks = copy.deepcopy(model), []
    check = batch_of(x[-HELD_OUT:], stamps[-HELD_OUT:], tokenizer, a.length, 24, torch.Generator().manual_seed(7))
    start, step, mean = time.time(), 0, None
    while True:
        done = (time.time() - start) / (60 * a.minutes)
        if done >= 1:
            break
        rate = a.rate * min(1, (step + 1) / 200) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done)))
        for group in optimiser.param_groups:
            group["lr"] = rate
        l1, l2 = loss_of(model, *batch_of(x[:-HELD_OUT], stamps[:-HELD_OUT], tokenizer, a.length, a.batch, generator))
        optimiser.zero_grad()
        (l1 + l2).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        step += 1
        with torch.no_grad():
            k = min(0.998, step / (step + 20))
            for p, q in zip(average.parameters(), model.parameters()):
                p.mul_(k).add_(q, alpha=1 - k)
        now = torch.stack([l1, l2]).detach()
        mean = now if mean is None else 0.99 * mean + 0.01 * now
        if step % 200 == 0:
            with torch.no_grad():
                h1, h2 = loss_of(average, *check)
            print(step, "%.0fs" % (time.time() - start), "tokens %.1fM" % (step * 2 * a.batch * a.length / 1e6),
                  "loss %.4f %.4f" % tuple(mean.tolist()), "held out, averaged %.4f %.4f" % (h1, h2), flush=True)
            kronos.save(average, a.output)
    kronos.save(average, a.output)
    print("end: steps", step, "held out", h1.item(), h2.item(), flush=True)


if __name__ == "__main__":
    main()
