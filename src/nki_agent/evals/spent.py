"""What the turns of a run have cost so far, whether or not their attempts are finished."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nki_agent.agent.trajectory import Turn, read_trajectory


def read_spent(trajectories: Iterable[Path]) -> tuple[float, int]:
    """Dollars, as far as prices are known, and tokens of every reply that was paid."""
    usd, tokens = 0.0, 0
    for path in trajectories:
        if not path.exists():
            continue
        for event in read_trajectory(path):
            if isinstance(event, Turn):
                usd += event.reply.usd or 0.0
                tokens += event.reply.usage.total_tokens
    return usd, tokens


def find_trajectories(folder: Path) -> list[Path]:
    """Every trajectory of an evaluation, those that were begun anew included."""
    return sorted(folder.glob("*/trajectory*.jsonl*"))
