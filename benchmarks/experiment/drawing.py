"""The experiment's curves as one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.experiment.record import SeedRecord
from benchmarks.experiment.stages import REWARDS, SFT, grpo_name

WINDOW: Final = 5
"""Steps over which GRPO's shares are averaged: one step has few tasks."""
COLOURS: Final = {"compiles": "tab:orange", "graded": "tab:blue"}


def draw(records: Sequence[SeedRecord], path: Path) -> None:
    """Loss of SFT, and what the attempts of both GRPO arms came to; the same bytes every time."""
    with mpl.rc_context({"svg.hashsalt": "nki-agent", "svg.fonttype": "none"}):
        figure = Figure(figsize=(6, 6.6), layout="constrained")
        loss, right, gain = figure.subplots(3, 1)
        for record in records:
            points = record.curves.get(SFT, {}).get("loss", [])
            if points:
                loss.plot(*zip(*points, strict=True), linewidth=1.2, label=f"seed {record.seed}")
            for reward in REWARDS:
                curves = record.curves.get(grpo_name(reward), {})
                for axes, name in ((right, "right"), (gain, "compiled")):
                    if name in curves:
                        steps, values = zip(*curves[name], strict=True)
                        label = reward if record is records[0] else None
                        axes.plot(
                            steps[WINDOW - 1 :],
                            smooth(values),
                            linewidth=1.2,
                            color=COLOURS[reward],
                            label=label,
                        )
        loss.set_yscale("log")
        loss.set_title("SFT: loss on training dialogues", fontsize=9)
        right.set_title(
            f"GRPO: share of attempts that are right, mean of {WINDOW} steps", fontsize=9
        )
        gain.set_title("GRPO: share of attempts that compile", fontsize=9)
        for axes in (loss, right, gain):
            axes.set_xlabel("step", fontsize=8)
            axes.grid(visible=True, alpha=0.3)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize=7)
        figure.savefig(path, format="svg", metadata={"Date": None})


def smooth(values: Sequence[float]) -> list[float]:
    """Means of `WINDOW` values side by side; nothing where there are fewer.

    >>> smooth([1.0, 1.0, 1.0, 1.0, 1.0, 2.0])
    [1.0, 1.2]
    """
    if len(values) < WINDOW:
        return []
    return [round(float(v), 6) for v in np.convolve(values, np.ones(WINDOW) / WINDOW, "valid")]
