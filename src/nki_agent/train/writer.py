"""Draws what a model in this process writes, many prompts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nki_agent.train.batched import Drawn

BATCH_MAX = 64
"""Prompts in one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A model with how it is drawn from; temperature 0 takes the likeliest token each time."""

    model: Any
    tokenizer: Any
    reply_tokens: int
    temperature: float
    seed: int

    def draw(self, prompts: Sequence[Sequence[int]]) -> list[Drawn]:
        """What the model writes after each prompt."""
        # Prompts of like lengths share a batch, so that little of it is padding.
        order = sorted(range(len(prompts)), key=lambda place: len(prompts[place]))
        found: dict[int, Drawn] = {}
        for start in range(0, len(order), BATCH_MAX):
            places = order[start : start + BATCH_MAX]
            for place, ids in zip(places, self._draw([prompts[p] for p in places]), strict=True):
                found[place] = Drawn(ids=ids)
        return [found[place] for place in range(len(prompts))]

    def _draw(self, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
        length = max(map(len, prompts))
        pad, end = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        ids = torch.tensor([[pad] * (length - len(p)) + list(p) for p in prompts])
        mask = torch.tensor([[0] * (length - len(p)) + [1] * len(p) for p in prompts])
        how: dict[str, Any] = {"do_sample": self.temperature > 0}
        if self.temperature > 0:
            how["temperature"] = self.temperature
        was_training = self.model.training
        self.model.eval()
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
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
