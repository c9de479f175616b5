"""Draws what a model in this process writes, many prompts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nki_agent.base.seeds import seed_for
from nki_agent.train.batched import Drawn

BATCH_MAX = 128
"""Prompts in one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Temperatures:
    """How far a model strays from what it holds likeliest; 0 takes the likeliest tokens."""

    first: float
    """Of an episode's first reply."""
    later: float
    """Of the replies after it: what is likeliest was just found wrong."""

    def at(self, turn: int) -> float:
        """Of the reply that follows `turn` others."""
        return self.later if turn else self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A model with how it is drawn from.

    Law: the same seed, prompts and turn give the same replies, and each turn has its own chance:
    one that a model repeats it repeats because it holds it likely.
    """

    model: Any
    tokenizer: Any
    reply_tokens: int
    temperatures: Temperatures
    seed: int

    def draw(self, prompts: Sequence[Sequence[int]], *, turn: int) -> list[Drawn]:
        """What the model writes after each prompt."""
        # Prompts of like lengths share a batch, so that little of it is padding.
        order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
        found: dict[int, Drawn] = {}
        for start in range(0, len(order), BATCH_MAX):
            places = order[start : start + BATCH_MAX]
            for place, ids in zip(
                places, self._draw([prompts[p] for p in places], turn, start), strict=True
            ):
                found[place] = Drawn(ids=ids)
        return [found[place] for place in range(len(prompts))]

    def _draw(self, prompts: Sequence[Sequence[int]], turn: int, start: int) -> list[list[int]]:
        length = max(map(len, prompts))
        pad, end = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        ids = torch.tensor([[pad] * (length - len(p)) + list(p) for p in prompts])
        mask = torch.tensor([[0] * (length - len(p)) + [1] * len(p) for p in prompts])
        temperature = self.temperatures.at(turn)
        how: dict[str, Any] = {"do_sample": temperature > 0}
        if temperature > 0:
            how["temperature"] = temperature
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_for(self.seed, "turn", turn, start))
            out = self.model.generate(
                input_ids=ids.to(self.model.device),
                attention_mask=mask.to(self.model.device),
                max_new_tokens=self.reply_tokens,
                pad_token_id=pad,
                eos_token_id=end,
                **how,
            )
        self.model.train(was_training)
        return [_cut(row[length:].tolist(), end) for row in out]


def _cut(ids: list[int], end: int) -> list[int]:
    """Up to the end-of-turn, with it; what is behind is padding."""
    return ids[: ids.index(end) + 1] if end in ids else ids
