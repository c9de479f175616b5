"""Trainers that go on from a checkpoint with all of its weights.

Law: a weight that a checkpoint lacks is an error. transformers 5.17 saves the experts of a mixture
one by one and looks for them as one tensor when it goes on; what it does not find it only warns of
and leaves as it was, so a resumed training would begin with the first model's experts.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoModelForCausalLM
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.sft_trainer import SFTTrainer


class _Whole:
    """Loads a checkpoint as models are loaded, which knows both forms."""

    model: Any
    is_fsdp_enabled: bool

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        target = self.model if model is None else model
        if self.is_fsdp_enabled or hasattr(target, "peft_config"):
            # The whole state is gathered there, and adapters have one form only.
            super()._load_from_checkpoint(resume_from_checkpoint, model)  # type: ignore[misc]
            return
        saved = AutoModelForCausalLM.from_pretrained(
            resume_from_checkpoint, dtype=target.dtype, local_files_only=True
        )
        target.load_state_dict(saved.state_dict(), strict=True)


class WholeSftTrainer(_Whole, SFTTrainer):
    """TRL's trainer with whole checkpoints."""


class WholeGrpoTrainer(_Whole, GRPOTrainer):
    """TRL's trainer with whole checkpoints."""
