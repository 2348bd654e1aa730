# SPDX-License-Identifier: MIT
"""Tokenizer and predictor in the Kronos format, with the extension `attention_window`.

Names of modules are the names of tensors on disk. Shapes: [batch, rows, columns]."""
import json
import math
import os
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotate(x, positions):
    """Rotate-half: pairs are (j, j + head_dim / 2). x: [..., rows, head_dim]; positions: [rows]."""
    half = x.shape[-1] // 2
    inverse = 10000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = positions.to(torch.float64)[:, None] * inverse
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


_bands = {}


def band(rows, window):
    """0 where row t may see row s (t - window < s <= t), else -inf."""
    key = (rows, window)
    if key not in _bands:
        distance = torch.arange(rows)[:, None] - torch.arange(rows)[None, :]
        seen = (distance >= 0) & (distance < window)
        _bands[key] = torch.zeros(rows, rows).masked_fill(~seen, float("-inf"))
    return _bands[key]


class Attention(nn.Module):
    def __init__(self, d, heads, rotated):
        super().__init__()
        self.heads, self.rotated = heads, rotated
        self.q_proj, self.k_proj = nn.Linear(d, d), nn.Linear(d, d)
        self.v_proj, self.out_proj = nn.Linear(d, d), nn.Linear(d, d)

    def split(self, x):  # [B, T, d] -> [B, heads, T, head_dim]
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def keys_values(self, x, positions):
        k, v = self.split(self.k_proj(x)), self.split(self.v_proj(x))
        return (rotate(k, positions) if self.rotated else k), v

    def queries(self, x, positions):
        q = self.split(self.q_proj(x))
        return (rotate(q, positions) if self.rotated else q) / math.sqrt(q.shape[-1])

    def merge(self, y):  # [B, heads, T, head_dim] -> [B, T, d]
        y = y.transpose(1, 2)
        return self.out_proj(y.reshape(y.shape[0], y.shape[1], -1))

    def forward(self, x, keys_from, window):
        positions = torch.arange(x.shape[1])
        k, v = self.keys_values(keys_from, positions)
        q = self.queries(x, positions)
        return self.merge(torch.softmax(q @ k.transpose(-1, -2) + band(x.shape[1], window), -1) @ v)


class FFN(nn.Module):
    def __init__(self, d, ff):
        super().__init__()
        self.w1, self.w3 = nn.Linear(d, ff, bias=False), nn.Linear(d, ff, bias=False)
        self.w2 = nn.Linear(ff, d, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, d, heads, ff):
        super().__init__()
        self.norm1, self.norm2 = RMSNorm(d), RMSNorm(d)
        self.self_attn, self.ffn = Attention(d, heads, True), FFN(d, ff)

    def forward(self, x, window):
        n = self.norm1(x)
        x = x + self.self_attn(n, n, window)
        return x + self.ffn(self.norm2(x))


def initialise(module):
    for name, p in module.named_parameters():
        if p.dim() == 2:
            nn.init.normal_(p, std=0.02 if "emb" in name and "embed." not in name else p.shape[1] ** -0.5)
            if name.endswith(("out_proj.weight", "w2.weight")):
                p.data *= 0.5
        elif name.endswith("bias"):
            nn.init.zeros_(p)


class Tokenizer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        d, bits = config["d_model"], config["s1_bits"] + config["s2_bits"]
        self.bits, self.s1_bits, self.window = bits, config["s1_bits"], config["attention_window"]

        def stack(n):
            return nn.ModuleList(Block(d, config["n_heads"], config["ff_dim"]) for _ in range(n - 1))

        self.embed, self.head = nn.Linear(config["d_in"], d), nn.Linear(d, config["d_in"])
        self.encoder, self.decoder = stack(config["n_enc_layers"]), stack(config["n_dec_layers"])
        self.quant_embed = nn.Linear(d, bits)
        self.post_quant_embed_pre = nn.Linear(self.s1_bits, d)
        self.post_quant_embed = nn.Linear(bits, d)
        initialise(self)

    def encode(self, x):
        """-> unit rows [B, T, bits]; a bit is set where they are positive."""
        z = self.embed(x)
        for block in self.encoder:
            z = block(z, self.window)
        return F.normalize(self.quant_embed(z), dim=-1, eps=1e-12)

    def ids(self, x):
        bit = (self.encode(x) > 0).long()
        n = self.s1_bits
        place = 2 ** torch.arange(n)
        return (bit[..., :n] * place).sum(-1), (bit[..., n:] * place).sum(-1)

    def code(self, s1, s2):
        """Both ids -> the row that the decoder reads: +-1 / sqrt(bits)."""
        place = torch.arange(self.s1_bits)
        bits = torch.cat([s1[..., None] >> place & 1, s2[..., None] >> place & 1], -1)
        return (bits.to(self.head.weight.dtype) * 2 - 1) / math.sqrt(self.bits)

    def decode_rows(self, row):
        for block in self.decoder:
            row = block(row, self.window)
        return self.head(row)

    def decode(self, code):
        return self.decode_rows(self.post_quant_embed(code))

    def decode_coarse(self, code):
        return self.decode_rows(self.post_quant_embed_pre(code[..., :self.s1_bits]))


CALENDAR = (("minute", 60), ("hour", 24), ("weekday", 7), ("day", 32), ("month", 13))


class Predictor(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        d = config["d_model"]
        self.d, self.window = d, config["attention_window"]
        self.embedding = nn.ModuleDict({
            "emb_s1": nn.Embedding(2 ** config["s1_bits"], d),
            "emb_s2": nn.Embedding(2 ** config["s2_bits"], d),
            "fusion_proj": nn.Linear(2 * d, d)})
        self.time_emb = nn.ModuleDict({f"{name}_embed": nn.Embedding(n, d) for name, n in CALENDAR})
        self.transformer = nn.ModuleList(
            Block(d, config["n_heads"], config["ff_dim"]) for _ in range(config["n_layers"]))
        self.norm = RMSNorm(d)
        self.dep_layer = nn.ModuleDict({"cross_attn": Attention(d, 4, False), "norm": RMSNorm(d)})
        self.head = nn.ModuleDict({"proj_s1": nn.Linear(d, 2 ** config["s1_bits"]),
                                   "proj_s2": nn.Linear(d, 2 ** config["s2_bits"])})
        initialise(self)
        for name, _ in CALENDAR:
            nn.init.normal_(self.time_emb[f"{name}_embed"].weight, std=0.02)
        for p in self.head.values():
            p.weight.data *= 0.2

    def embed(self, s1, s2, stamps):
        e = self.embedding
        row = torch.cat([e["emb_s1"](s1), e["emb_s2"](s2)], -1) * math.sqrt(self.d)
        row = e["fusion_proj"](row)
        for i, (name, _) in enumerate(CALENDAR):
            row = row + self.time_emb[f"{name}_embed"](stamps[..., i])
        return row

    def trunk(self, row):
        for block in self.transformer:
            row = block(row, self.window)
        return self.norm(row)

    def s2_logits(self, h, s1_next):
        """The s1 of the next bar, known, and h of all rows -> logits of its s2, each row t for bar t + 1."""
        y = self.dep_layer["cross_attn"](self.embedding["emb_s1"](s1_next), h, self.window)
        return self.head["proj_s2"](self.dep_layer["norm"](h + y))

    def forward(self, s1, s2, stamps, s1_next):
        h = self.trunk(self.embed(s1, s2, stamps))
        return self.head["proj_s1"](h), self.s2_logits(h, s1_next)


# Checkpoints: safetensors, float16 on disk.
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8"}


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    n = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + n])
    return {name: np.frombuffer(data, DTYPES[t["dtype"]], offset=8 + n + t["data_offsets"][0],
                                count=int(np.prod(t["shape"]))).reshape(t["shape"])
            for name, t in header.items() if name != "__metadata__"}


def write_safetensors(path, arrays):
    header, offset, parts = {}, 0, []
    for name, array in arrays.items():
        dtype = {"f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64"}[array.dtype.str[1:]]
        part = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(part)]}
        offset += len(part)
        parts.append(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".new", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    os.replace(path + ".new", path)


def save(model, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(model.config, file, indent=2)
        file.write("\n")
    write_safetensors(os.path.join(folder, "model.safetensors"),
                      {k: v.detach().numpy().astype(np.float16) for k, v in model.state_dict().items()})


def load(kind, folder):
    with open(os.path.join(folder, "config.json")) as file:
        model = kind(json.load(file))
    arrays = read_safetensors(os.path.join(folder, "model.safetensors"))
    model.load_state_dict({k: torch.from_numpy(v.astype(np.float32)) for k, v in arrays.items()})
    return model.eval()
