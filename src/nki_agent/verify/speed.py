"""How fast the cost model thinks a Program is, beside the least time that its task needs."""

from __future__ import annotations

from dataclasses import dataclass

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.bound import Bound, bound_ns
from nki_agent.cost.summary import Summary, summarise
from nki_agent.cost.timeline import Timeline, schedule
from nki_agent.memory.placement import Placement
from nki_agent.program.records import Program
from nki_agent.task.task import ShapeSet

SHORT_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """The estimate for one Program at one choice of the task's sizes."""

    timeline: Timeline
    bound: Bound
    summary: Summary

    @property
    def percent_of_bound(self) -> float:
        """Bound over latency, in percent: 100 is as fast as the task can be."""
        return self.bound.percent(self.timeline.latency_ns)


def estimate_speed(
    program: Program, placement: Placement, shapes: ShapeSet, target: Target
) -> Speed:
    """Schedule a Program and compare it with the bound of its task."""
    chip = load_chip(target)
    timeline = schedule(program, chip, placement)
    bound = bound_ns(_work(shapes), chip)
    return Speed(timeline=timeline, bound=bound, summary=summarise(timeline, program, bound=bound))
