"""What a training needs of each GPU, from shapes alone.

Law: an estimate from above of the steady state, each part apart, so that it can be argued with.
Not counted: fragmentation, the libraries' own buffers, and vLLM, which takes the share of the
memory that its config names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from nki_agent.train.config import HardwarePart, LoraPart
from nki_agent.train.weights import add_adapter

GIB = float(1 << 30)
STATE_BYTES = 8
"""Of AdamW for each trained parameter: two means in float32."""
MASTER_BYTES = 4
"""A float32 copy of what is trained in fewer bits."""
GATHERED_UNITS = 2
"""Layers that are whole at once: the one in use, and the next one on its way."""
LOGIT_TOKENS = 256
"""Tokens whose logits are there at once where the loss is computed in chunks."""
LOGIT_BYTES = 10
"""Of each logit: in 16 bits, widened to 32, and its gradient."""
SAVED_ROWS = 14
"""Rows as wide as the model that a layer keeps for its backward pass, about: norms, the residuals,
q, k, v, attention's output, the gates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one pass on one device holds."""

    tokens: int
    """Rows times their length."""
    chunks_loss: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Parameters, and GiB of each GPU by part."""

    parameters: int
    trainable: int
    parts_gib: dict[str, float]
    limit_gib: float | None

    @property
    def total_gib(self) -> float:
        """All parts."""
        return sum(self.parts_gib.values())

    @property
    def fits(self) -> bool:
        """Whether a GPU has so much."""
        return self.limit_gib is None or self.total_gib <= self.limit_gib


def measure(outline: Any, *, lora: LoraPart | None, hardware: HardwarePart, plan: Plan) -> Fit:
    """Parameters and memory of a model without weights; adds the adapter to it."""
    item_bytes = next(outline.parameters()).dtype.itemsize
    layer_elems = max(_count(layer) for layer in _find_layers(outline))
    config = outline.config
    if lora is not None:
        with torch.device("meta"):
            outline = add_adapter(outline, lora)
    parameters = _count(outline)
    trainable = sum(p.numel() for p in outline.parameters() if p.requires_grad)
    shards = hardware.gpus if hardware.shard == "fsdp2" else 1
    trained_bytes = 2 * MASTER_BYTES + STATE_BYTES if lora is None else MASTER_BYTES + STATE_BYTES
    parts = {
        "weights": parameters * item_bytes / shards,
        "gradients and optimizer": trainable * trained_bytes / shards,
        "activations": _activations(config, plan, hardware, item_bytes),
        "logits": _logits(config, plan),
    }
    if shards > 1:
        parts["gathered layers"] = GATHERED_UNITS * layer_elems * float(item_bytes)
    return Fit(
        parameters=parameters,
        trainable=trainable,
        parts_gib={name: num_bytes / GIB for name, num_bytes in parts.items()},
        limit_gib=hardware.gpu_memory_gib if hardware.gpus else None,
    )


def _activations(config: Any, plan: Plan, hardware: HardwarePart, item_bytes: int) -> float:
    layer = SAVED_ROWS * config.hidden_size + _expert_elems(config)
    whole = plan.tokens * layer * item_bytes
    if not hardware.gradient_checkpointing:
        return float(config.num_hidden_layers * whole)
    # What enters each layer is kept; one layer at a time is run again.
    return float(config.num_hidden_layers * plan.tokens * config.hidden_size * item_bytes + whole)


def _expert_elems(config: Any) -> int:
    """Elements that the feed-forward part keeps for a token: gate, up and their product."""
    per_token = getattr(config, "num_experts_per_tok", None)
    if per_token is None:
        return 3 * int(config.intermediate_size)
    return int(per_token) * (3 * int(config.moe_intermediate_size) + int(config.hidden_size))


def _logits(config: Any, plan: Plan) -> float:
    tokens = min(plan.tokens, LOGIT_TOKENS) if plan.chunks_loss else plan.tokens
    return float(tokens * config.vocab_size * LOGIT_BYTES)


def _find_layers(model: Any) -> list[Any]:
    layers = getattr(getattr(model, "model", None), "layers", None)
    return list(layers) if layers is not None else [model]


def _count(module: Any) -> int:
    return sum(p.numel() for p in module.parameters())


def write_fit(fit: Fit) -> str:
    """For people."""
    lines = [
        f"parameters: {fit.parameters:,}",
        f"trainable:  {fit.trainable:,} ({100 * fit.trainable / fit.parameters:.3f} %)",
        "memory of each GPU, estimated from above:" if fit.limit_gib else "memory, estimated:",
    ]
    lines += [f"  {name:<26}{gib:8.2f} GiB" for name, gib in fit.parts_gib.items()]
    limit = "" if fit.limit_gib is None else f" of {fit.limit_gib:g} GiB"
    lines.append(f"  {'in all':<26}{fit.total_gib:8.2f} GiB{limit}")
    return "\n".join(lines)
