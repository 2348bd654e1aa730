# SPDX-License-Identifier: MIT
"""Simulated bars as inputs of the model: x [n, L, 6] and calendars [n, L, 5]."""
import numpy as np
import torch

import kronos
import returns

DAY = 86400


def stamps(seconds):
    """Calendar of each time: minute, hour, weekday (Monday 0), day, month."""
    days = seconds // DAY
    second = seconds - days * DAY
    dates = days.astype("datetime64[D]")
    month = dates.astype("datetime64[M]")
    return np.stack([second // 60 % 60, second // 3600, (days + 3) % 7,
                     (dates - month).astype(np.int64) + 1, month.astype(np.int64) % 12 + 1], -1).astype(np.uint8)


def load(path, seed=0):
    """Markets are stamped at the open or, every other one, at the close of their bars."""
    arrays = kronos.read_safetensors(path)
    bars, seconds = arrays["bars"], arrays["t_ns"] // 10**9
    step = np.min(np.diff(seconds, axis=1), axis=1, keepdims=True)
    closing = np.random.default_rng(seed).integers(0, 2, (len(seconds), 1))
    closing &= step < DAY
    x, _ = returns.describe(bars)
    return bars, x, stamps(seconds + closing * step)


def mirror(x):
    """The market upside down: as likely, and exact in logarithms."""
    return x[..., [0, 2, 1, 3, 4, 5]] * x.new_tensor([-1, 1, 1, -1, 1, 1])


def crops(arrays, length, batch, generator):
    """Random stretches of random markets. arrays: tensors [n, L, ...]."""
    n, total = arrays[0].shape[:2]
    rows = torch.randint(n, (batch,), generator=generator)
    starts = torch.randint(total - length + 1, (batch,), generator=generator)
    return [torch.stack([a[r, s:s + length] for r, s in zip(rows, starts)]) for a in arrays]
