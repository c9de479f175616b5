"""The measures of a training as one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

PANELS = (
    ("loss", ("loss", "eval_loss")),
    ("reward", ("reward",)),
    ("share of attempts", ("right", "compiled")),
    ("share of held-out tasks", ("held_out/right", "held_out/compiled")),
    ("share of groups without gain", ("equal_groups",)),
    ("learning rate", ("learning_rate",)),
)
"""Title, and the measures in it; a panel without any is left out."""


def draw_curves(measures: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw what there is of PANELS against the step, as SVG with the same bytes every time."""
    panels = [
        (title, [n for n in names if any(n in line for line in measures)])
        for title, names in PANELS
    ]
    panels = [(title, names) for title, names in panels if names]
    if not panels:
        return
    with mpl.rc_context({"svg.hashsalt": "nki-agent", "svg.fonttype": "none"}):
        figure = Figure(figsize=(6, 2.2 * len(panels)), layout="constrained")
        for axes, (title, names) in zip(
            figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True
        ):
            for name in names:
                points = [(line["step"], line[name]) for line in measures if name in line]
                axes.plot(*zip(*points, strict=True), label=name, linewidth=1.2, marker=".")
            axes.set_title(title, fontsize=9)
            axes.grid(visible=True, alpha=0.3)
            axes.legend(fontsize=7)
        axes.set_xlabel("step")
        figure.savefig(path, format="svg", metadata={"Date": None})
