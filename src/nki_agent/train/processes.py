"""How many processes share a training."""

from __future__ import annotations

import os

from nki_agent.train.config import HardwarePart


def count_processes(hardware: HardwarePart) -> int:
    """One a GPU, whoever plans it; on the CPU as many as `torchrun` has started."""
    return hardware.gpus or count_started()


def count_started() -> int:
    """Processes of this training that `torchrun` has started; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))
