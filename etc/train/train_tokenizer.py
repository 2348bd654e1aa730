# SPDX-License-Identifier: MIT
"""Train the tokenizer: reconstruction of bars through binary codes (BSQ), s1 alone carrying the close."""
import argparse
import math
import time

import torch
import torch.nn.functional as F

import data
import kronos
import returns

CONFIG = dict(returns.CONSTANTS, d_in=6, d_model=64, n_heads=2, ff_dim=192, n_enc_layers=2, n_dec_layers=2,
              s1_bits=8, s2_bits=8, normaliser="returns", attention_window=256)
#                       open high  low close volume speed
WEIGHT = torch.tensor([1.5, 1.0, 1.0, 6.0, 0.35, 0.15])
COARSE = torch.tensor([1.0, 0.1, 0.1, 6.0, 0.02, 0.05])
SHARP = 40.0  # of the soft bits in the entropy terms


def entropy(p):
    return -(p * torch.log(p + 1e-8) + (1 - p) * torch.log(1 - p + 1e-8))


def losses(model, x, gamma):
    z = model.encode(x)
    hard = torch.sign(z) / math.sqrt(model.bits)
    code = z + (hard - z).detach()
    p = torch.sigmoid(SHARP * z / math.sqrt(model.bits) * 2)
    fine = (model.decode(code) - x).pow(2).flatten(0, 1).mean(0)
    coarse = (model.decode_coarse(code) - x).pow(2).flatten(0, 1).mean(0)
    regular = entropy(p).mean() - 1.5 * entropy(p.flatten(0, 1).mean(0)).mean()
    soft = (2 * p - 1).flatten(0, 1)
    soft = soft - soft.mean(0)
    alike = (soft.T @ soft / len(soft) - torch.diag(soft.pow(2).mean(0))).pow(2).sum() / model.bits
    commit = (z - hard.detach()).pow(2).sum(-1).mean()
    loss = (fine * WEIGHT).sum() + 0.5 * (coarse * COARSE).sum() + gamma * regular + 0.15 * gamma * alike / 0.05 + 0.02 * commit
    return loss, fine, coarse, p


def polish(model, x):
    """The decoder alone, ids as they are: also close and open as returns (after sinh), whose means must be
    right or else paths drift."""
    with torch.no_grad():
        code = torch.sign(model.encode(x)) / math.sqrt(model.bits)
    y = model.decode(code)
    fine = (y - x).pow(2).flatten(0, 1).mean(0)
    moves, found = (torch.sinh(t[..., [0, 3]].clamp(-3, 3)) for t in (x, y))
    error = (found - moves).flatten(0, 1)
    returns_loss = error.pow(2).mean(0) @ torch.tensor([0.2, 1.0])
    bias = error.mean(0).pow(2).sum()
    loss = (fine * WEIGHT).sum() + returns_loss + 20 * bias
    return loss, fine, error.mean(0).detach()


def main():
    arg = argparse.ArgumentParser()
    arg.add_argument("data")
    arg.add_argument("output")
    arg.add_argument("--steps", type=int, default=3000)
    arg.add_argument("--batch", type=int, default=8)
    arg.add_argument("--length", type=int, default=192)
    arg.add_argument("--rate", type=float, default=2e-3)
    arg.add_argument("--seed", type=int, default=1)
    arg.add_argument("--polish", action="store_true", help="train the decoder alone")
    arg.add_argument("--from", dest="start", help="weights to start from")
    a = arg.parse_args()
    torch.manual_seed(a.seed)
    generator = torch.Generator().manual_seed(a.seed)
    _, x, _ = data.load(a.data)
    x = torch.from_numpy(x)
    model = kronos.load(kronos.Tokenizer, a.start).train() if a.start else kronos.Tokenizer(CONFIG)
    print("parameters", sum(p.numel() for p in model.parameters()), flush=True)
    if a.polish:
        for name, p in model.named_parameters():
            p.requires_grad = name.startswith(("decoder", "head", "post_quant_embed."))
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], a.rate, betas=(0.9, 0.98), weight_decay=0.0)
    start, mean = time.time(), None
    for step in range(a.steps):
        done = step / a.steps
        for group in optimiser.param_groups:
            group["lr"] = a.rate * min(1, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * done)))
        batch, = data.crops([x], a.length, a.batch, generator)
        batch = torch.cat([batch, data.mirror(batch)])
        if a.polish:
            loss, fine, extra = polish(model, batch)
        else:
            loss, fine, coarse, p = losses(model, batch, 0.05 * max(0.1, 1 - 1.2 * done))
            use = entropy((p > 0.5).float().flatten(0, 1).mean(0)).mean() / math.log(2)
            extra = torch.stack([coarse[3].sqrt(), use]).detach()
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        now = torch.cat([fine.detach(), extra])
        mean = now if mean is None else 0.98 * mean + 0.02 * now
        if step % 100 == 99:
            print(step + 1, "%.0fs" % (time.time() - start), "loss %.4f rms" % loss.item(),
                  [round(v, 3) for v in mean[:6].sqrt().tolist()],
                  "bias of open and close" if a.polish else "coarse close, use of bits",
                  [round(v, 4) for v in mean[6:].tolist()], flush=True)
        if step % 500 == 499 or step + 1 == a.steps:
            kronos.save(model, a.output)


if __name__ == "__main__":
    main()
