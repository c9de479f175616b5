"""Imported before a process is locked: reads the files that following and filtering a task need.

Law: it follows tasks of ours, so that facts of the chip and modules that are found late are in
memory; afterwards no file is opened.
"""

from __future__ import annotations

from typing import Final

from nki_agent.corpus.candidate import Candidate
from nki_agent.corpus.canonical import canonical_graph
from nki_agent.corpus.looking import look_further
from nki_agent.corpus.record import Family

DECLARED: Final = """\
import torch

SHAPES = {"dev": {"M": 40, "N": 60}, "perf": {"M": 2048, "N": 2048}}
INPUTS = {"x": "float32[M, N]", "w": "float32[N, N] weight"}
OUTPUTS = {"y": "float32[M, N]"}


def reference(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.tanh(x) @ w, -1)
"""
# What each kind of operation imports when it is first seen.
PYTORCH: Final = """\
import torch
import torch.nn.functional as F


def reference(x, y, index):
    a = F.gelu(x - 1.5) / torch.sqrt(y.abs() + 2) + 3 * torch.where(x > y, x, 0.0).cumsum(-1)
    b = torch.clamp(x**2, 0.1, 2) + torch.minimum(x, y) + (x.var(-1, keepdim=True) + 1).log()
    c = torch.cat([x[:, :5], F.pad(x, (1, 1))[:, 5:]], 1).sort(-1).values[:, :8]
    d = F.conv2d(x[None, None], y[None, None, :3, :3]).to(torch.int8).float()
    e = F.max_pool2d(d, 2).flatten().sum() + x.argmax(-1).sum() + (x == y).any().float()
    out = torch.zeros_like(x)
    out[:, 1] = x[:, 2]
    out += torch.tensor(2.0) - x.gather(1, index) + x[index[0]].mean() + F.embedding(index, x).sum()
    return torch.einsum("ij,kj->ik", a, b), c, e, out.masked_fill(x > 1, -1e9).tril()


def inputs():
    return [torch.randn(8, 8), torch.randn(8, 8), torch.zeros(8, 8, dtype=torch.int64)]
"""
NUMPY: Final = """\
import numpy as np


def reference(x, y):
    s = np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) - np.max(x) + np.exp(-x)
    z = np.ndarray((8, 8), dtype=np.float32)
    z[:, 0] = np.where(x > y, x, 0)[:, 1]
    return np.matmul(x / s, y.T) ** 2 + np.sum(z) + np.concatenate([x, y])[:8].reshape(-1, 8)


def inputs():
    return [np.ones((8, 8), np.float32), np.ones((8, 8), np.float32)]
"""

for _source in (PYTORCH, NUMPY):
    canonical_graph(_source)
look_further(
    Candidate(
        id="c-softmax-warm-000000",
        source=DECLARED,
        family=Family.SOFTMAX,
        pattern="warm",
        operators=(),
        level=2,
        index=0,
    )
)
