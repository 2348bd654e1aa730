# SPDX-License-Identifier: MIT
"""Paths from a trained model, many origins at once: whole series through the stacks, then suffixes that
read the series' keys and values."""
import math

import torch

import returns


def windowed(q, k, v, window, chunk=512):
    """Causal attention of a long series, in chunks. [1, heads, T, head_dim]."""
    parts = []
    for start in range(0, q.shape[2], chunk):
        end = min(start + chunk, q.shape[2])
        low = max(0, start - window + 1)
        distance = torch.arange(start, end)[:, None] - torch.arange(low, end)[None, :]
        scores = q[:, :, start:end] @ k[:, :, low:end].transpose(-1, -2)
        scores.masked_fill_((distance < 0) | (distance >= window), float("-inf"))
        parts.append(torch.softmax(scores, -1) @ v[:, :, low:end])
    return torch.cat(parts, 2)


def series(blocks, x, window):
    """One series [1, T, d] through a stack. -> output, [(k, v)] of each block."""
    positions, caches = torch.arange(x.shape[1]), []
    for block in blocks:
        n = block.norm1(x)
        k, v = block.self_attn.keys_values(n, positions)
        x = x + block.self_attn.merge(windowed(block.self_attn.queries(n, positions), k, v, window))
        x = x + block.ffn(block.norm2(x))
        caches.append((k, v))
    return x, caches


class Prefix:
    """The last `window` rows of keys and values of each origin, [O, heads, window, head_dim]."""

    def __init__(self, cache, origins, window):
        rows = origins[:, None] + torch.arange(1 - window, 1)[None, :]
        assert rows.min() >= 0
        self.k, self.v = (c[0][:, rows].transpose(0, 1) for c in cache)
        self.window = window

    def attend(self, q, k, v, hidden, mask=None):
        """q [O, P, heads, n, hd]; suffix k, v [O, P, heads, m, hd]; the oldest rows are hidden: hidden [n]
        of them for each query. mask [n, m] over the suffix. -> like q."""
        o, p, h, n, d = q.shape
        flat = q.permute(0, 2, 1, 3, 4).reshape(o, h, p * n, d)
        old = (flat @ self.k.transpose(-1, -2)).view(o, h, p, n, self.window).permute(0, 2, 1, 3, 4)
        old = old.masked_fill(torch.arange(self.window)[None, :] < hidden[:, None], float("-inf"))
        scores = old
        if k is not None:
            new = q @ k.transpose(-1, -2)
            scores = torch.cat([old, new if mask is None else new + mask], -1)
        weight = torch.softmax(scores, -1)
        a = weight[..., :self.window].permute(0, 2, 1, 3, 4).reshape(o, h, p * n, self.window)
        y = (a @ self.v).view(o, h, p, n, d).permute(0, 2, 1, 3, 4)
        return y if k is None else y + weight[..., self.window:] @ v


def suffix_block(block, prefix, x, past, first):
    """n new rows x [O, P, n, d] at positions of each origin + first.. -> output; past grows."""
    o, p, n, d = x.shape
    a = block.self_attn
    z = block.norm1(x).view(o * p, n, d)
    at = prefix.position[:, None] + first + torch.arange(n)  # [O, n]
    q, k, v = (a.split(f(z)).view(o, p, a.heads, n, -1) for f in (a.q_proj, a.k_proj, a.v_proj))
    q, k = turn(q, at) / math.sqrt(q.shape[-1]), turn(k, at)
    if past is not None:
        k, v = torch.cat([past[0], k], 3), torch.cat([past[1], v], 3)
    m = k.shape[3]
    mask = torch.zeros(n, m).masked_fill(torch.arange(m)[None] > torch.arange(n)[:, None] + m - n, float("-inf"))
    hidden = first + 1 + torch.arange(n)  # the row sees itself too
    y = prefix.attend(q, k, v, hidden, mask)
    x = x + a.merge(y.reshape(o * p, a.heads, n, -1)).view(o, p, n, d)
    return x + block.ffn(block.norm2(x)), (k, v)


def turn(x, at):
    """Rotate-half; x [O, P, heads, n, hd], positions at [O, n]."""
    half = x.shape[-1] // 2
    angle = at.double()[..., None] * 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    cos, sin = (f(angle).float()[:, None, None] for f in (torch.cos, torch.sin))
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Encoded:
    """One series, encoded once for all its origins."""

    def __init__(self, tokenizer, predictor, bars, stamps):
        self.tokenizer, self.predictor, self.bars = tokenizer, predictor, bars
        self.stamps = torch.from_numpy(stamps).long()
        x, self.sigma = returns.describe(bars, tokenizer.config)
        with torch.no_grad():
            z, _ = series(tokenizer.encoder, tokenizer.embed(torch.from_numpy(x)[None]), tokenizer.window)
            bit = (tokenizer.quant_embed(z) > 0).long()
            place, n = 2 ** torch.arange(tokenizer.s1_bits), tokenizer.s1_bits
            self.s1, self.s2 = (bit[..., :n] * place).sum(-1), (bit[..., n:] * place).sum(-1)
            row = tokenizer.post_quant_embed(tokenizer.code(self.s1, self.s2))
            y, self.decoder = series(tokenizer.decoder, row, tokenizer.window)
            self.x, self.y = x, tokenizer.head(y)[0].numpy()
            row = predictor.embed(self.s1, self.s2, self.stamps[None])
            h, self.trunk = series(predictor.transformer, row, predictor.window)
            self.h = predictor.norm(h)
            self.dependency = predictor.dep_layer["cross_attn"].keys_values(self.h, None)


def draw(logits, temperature, generator):
    p = torch.softmax(logits.flatten(0, -2) / temperature, -1)
    return torch.multinomial(p, 1, generator=generator).view(logits.shape[:-1])


def generate(e, origins, horizon, paths, generator, temperature=1.0, tail=None):
    """-> decoded rows y [O, P, horizon, 6]. Origins: indices of the last known bar."""
    t, p = e.tokenizer, e.predictor
    origins = torch.as_tensor(origins)
    o = len(origins)

    def prefix(cache, window):
        made = Prefix(cache, origins, window)
        made.position = origins + 1
        return made

    with torch.no_grad():
        trunk = [prefix(c, p.window) for c in e.trunk]
        decoder = [prefix(c, t.window) for c in e.decoder]
        dependency, past, past_dependency = prefix(e.dependency, p.window), [None] * len(trunk), None
        cross = p.dep_layer["cross_attn"]
        h = e.h[0, origins][:, None].expand(o, paths, -1)
        ids = []
        for j in range(horizon):
            s1 = draw(p.head["proj_s1"](h), temperature, generator)
            q = cross.q_proj(p.embedding["emb_s1"](s1)).view(o, paths, cross.heads, 1, -1)
            k, v = past_dependency or (None, None)
            y = dependency.attend(q / math.sqrt(q.shape[-1]), k, v, torch.tensor([j]))
            x2 = p.dep_layer["norm"](h + cross.out_proj(y.reshape(o, paths, -1)))
            s2 = draw(p.head["proj_s2"](x2), temperature, generator)
            ids.append((s1, s2))
            if j + 1 == horizon:
                break
            stamps = e.stamps[(origins + 1 + j).clamp(max=len(e.stamps) - 1)][:, None].expand(o, paths, 5)
            row = p.embed(s1, s2, stamps)[:, :, None]
            for i, block in enumerate(p.transformer):
                row, past[i] = suffix_block(block, trunk[i], row, past[i], j)
            h = p.norm(row)[:, :, 0]
            k, v = cross.keys_values(h.reshape(o * paths, 1, -1), None)
            k, v = (a.view(o, paths, cross.heads, 1, -1) for a in (k, v))
            past_dependency = (k, v) if past_dependency is None else tuple(
                torch.cat([a, b], 3) for a, b in zip(past_dependency, (k, v)))
        s1, s2 = (torch.stack([i[n] for i in ids], -1) for n in (0, 1))
        row = t.post_quant_embed(t.code(s1, s2))
        for prefix_, block in zip(decoder, t.decoder):
            row, _ = suffix_block(block, prefix_, row, None, 0)
        return t.head(row), s1, s2
