"""Writes down what a training measures, and shows how far it is."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from nki_agent.train.folder import TrainingFolder, is_first_process, say

SHOWN = ("loss", "reward", "right", "eval_loss", "learning_rate")
"""What a line on the screen has of a step's measures, where it is there."""


class Measuring(TrainerCallback):  # type: ignore[misc, unused-ignore]
    """One line for each logged step: in `measures.jsonl`, and on stderr."""

    def __init__(self, folder: TrainingFolder) -> None:
        """Write into `folder`."""
        self._folder = folder

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Called by the trainer."""
        del args, control
        found = {k: float(v) for k, v in (logs or {}).items() if isinstance(v, int | float)}
        if not is_first_process() or "train_runtime" in found or not found:
            return
        self._folder.add_measures(state.global_step, found)
        shown = "  ".join(f"{name} {found[name]:.4g}" for name in SHOWN if name in found)
        say(f"step {state.global_step} of {state.max_steps}  {shown}")
