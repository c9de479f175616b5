"""What the turns of a run have cost so far, whether or not their attempts are finished."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nki_agent.agent.trajectory import BrokenTrajectoryError, Turn, read_trajectory
from nki_agent.base.linefile import Warn


def read_spent(trajectories: Iterable[Path], *, warn: Warn) -> tuple[float, int]:
    """Dollars, as far as prices are known, and tokens of every reply that was paid.

    What cannot be read is told to `warn` and not counted.
    """
    usd, tokens = 0.0, 0
    for path in trajectories:
        if not path.exists():
            continue
        try:
            events = read_trajectory(path)
        except (BrokenTrajectoryError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error.what
            warn(f"what was spent in `{path}` is not counted: {reason}")
            continue
        for event in events:
            if isinstance(event, Turn):
                usd += event.reply.usd or 0.0
                tokens += event.reply.usage.total_tokens
    return usd, tokens


def find_trajectories(folder: Path) -> list[Path]:
    """Every trajectory of an evaluation, those that were begun anew included."""
    return sorted(folder.glob("*/trajectory*.jsonl*"))
