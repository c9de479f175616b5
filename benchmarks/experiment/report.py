"""Run folders → records → the page: `python -m benchmarks.experiment.report [RUN]`.

With a run's folder its seeds are recorded anew; without one the page is made from the records that
are there.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.experiment.choosing import FUSED, SINGLE
from benchmarks.experiment.drawing import draw
from benchmarks.experiment.figures import Figures
from benchmarks.experiment.material import Material
from benchmarks.experiment.page import Parts, write_page
from benchmarks.experiment.plan import ExperimentPlan
from benchmarks.experiment.record import load_record, read_record, write_record

RESULTS: Final = Path("docs/results")
RECORDS: Final = "experiment"
SHARED: Final = "shared.json"
"""What all seeds share: plan, counts and distances."""
SECOND: Final = "smollm2.json"


class Shared(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a run that are not of one seed."""

    plan: ExperimentPlan
    counts: dict[str, int]
    distances: dict[str, float]
    known: list[str]
    """Held-out tasks whose graph is taught at other sizes or in another dtype."""


def keep(run: Path, records: Path, plan: ExperimentPlan) -> None:
    """Write a record of each seed that has been measured, and of what they share."""
    material = Material(run / "material")
    shared = Shared(
        plan=plan,
        counts=msgspec.json.decode(material.counts.read_bytes()),
        distances=msgspec.json.decode(material.distances.read_bytes()),
        known=msgspec.json.decode(material.known.read_bytes()),
    )
    records.mkdir(parents=True, exist_ok=True)
    (records / SHARED).write_bytes(msgspec.json.encode(shared) + b"\n")
    for seed in plan.seeds:
        folder = run / f"seed-{seed}"
        if (folder / "sft" / "summary.json").exists():
            write_record(read_record(folder, seed=seed), records / f"seed-{seed}.json")


def make_page(records: Path, results: Path) -> Path:
    """Page and picture, from the records."""
    shared = msgspec.json.decode((records / SHARED).read_bytes(), type=Shared)
    seeds = [load_record(path) for path in sorted(records.glob("seed-*.json"))]
    known = frozenset(shared.known)
    parts = Parts(
        new=Figures(
            seeds,
            shared.distances,
            is_counted=lambda one: one.level == SINGLE and one.task not in known,
        ),
        known=Figures(seeds, shared.distances, is_counted=lambda one: one.task in known),
        single=Figures(seeds, shared.distances, is_counted=lambda one: one.level == SINGLE),
        fused=Figures(seeds, shared.distances, is_counted=lambda one: one.level == FUSED),
    )
    path = results / "experiment.md"
    text = write_page(parts, counts=shared.counts, plan=shared.plan, second=_read_second(records))
    path.write_text(text, encoding="utf-8")
    draw(parts.new.records, results / "experiment.svg")
    return path


def _read_second(records: Path) -> dict[str, Any] | None:
    path = records / SECOND
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Any]) if path.exists() else None


def main() -> None:
    """Read the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, nargs="?", help="a folder of `benchmarks.experiment`")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    records = options.results / RECORDS
    if options.run is not None:
        plan = msgspec.json.decode((options.run / "plan.json").read_bytes(), type=ExperimentPlan)
        keep(options.run, records, plan)
    make_page(records, options.results)


if __name__ == "__main__":
    main()
