"""TRL's trainers, going on from a checkpoint with all of its weights, and sending what links carry.

Law: a weight that a checkpoint lacks is an error. transformers 5.17 saves the experts of a mixture
one by one and looks for them as one tensor when it goes on; what it does not find it only warns of
and leaves as it was, so a resumed training would begin with the first model's experts.
"""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModelForCausalLM, TrainerCallback
from trl.trainer.grpo_trainer import GRPOTrainer
from trl.trainer.sft_trainer import SFTTrainer

from nki_agent.base.clock import Clock, SystemClock
from nki_agent.train.config import LinksPart
from nki_agent.train.links import Attached, attach


class _Linked:
    """Loads a checkpoint as models are loaded, which knows both forms; attaches to the links."""

    model: Any
    is_fsdp_enabled: bool
    links: LinksPart = LinksPart()
    clock: Clock = SystemClock()
    attached: Attached | None = None

    def training_step(self, model: Any, *others: Any, **more: Any) -> Any:
        """The first one finds the model wrapped, which is when a hook can be registered."""
        if self.attached is None and isinstance(model, DistributedDataParallel):
            self.attached = attach(model, self.links, clock=self.clock)
        return super().training_step(model, *others, **more)  # type: ignore[misc]

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


class LinkedSftTrainer(_Linked, SFTTrainer):
    """SFT."""


class LinkedGrpoTrainer(_Linked, GRPOTrainer):
    """GRPO."""


class AfterStep(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """What the links ask for when weights have changed."""

    def __init__(self) -> None:
        """Nothing until a trainer is there."""
        self.trainer: _Linked | None = None

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Called by the trainer."""
        del args, state, control
        if self.trainer is not None and self.trainer.attached is not None:
            self.trainer.attached.after_step()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Called by the trainer."""
        del args, state, control
        if self.trainer is not None and self.trainer.attached is not None:
            self.trainer.attached.after_last()


def link(trainer: LinkedSftTrainer | LinkedGrpoTrainer, part: LinksPart) -> None:
    """Let a trainer send what the config says."""
    trainer.links = part
    after = AfterStep()
    after.trainer = trainer
    trainer.add_callback(after)
