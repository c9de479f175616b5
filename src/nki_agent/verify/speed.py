"""How fast the cost model thinks a Program is, beside the least time that its task needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from nki_agent.chip.spec import Target, load_chip
from nki_agent.cost.bound import Bound, Work, bound_ns
from nki_agent.cost.summary import Summary, summarise
from nki_agent.cost.timeline import Timeline, schedule
from nki_agent.isa.dtype import DType
from nki_agent.memory.placement import Placement
from nki_agent.program.records import Program, Trips
from nki_agent.task.task import ShapeSet

SHORT_BYTES = 2


@dataclass(frozen=True, kw_only=True)
class Speed:
    """The estimate for one Program at one choice of the task's sizes."""

    program: Program
    timeline: Timeline
    bound: Bound

    @cached_property
    def summary(self) -> Summary:
        """Where the time goes, for who asks: a verdict has no need of it."""
        return summarise(self.timeline, self.program, bound=self.bound)

    @property
    def percent_of_bound(self) -> float:
        """Bound over latency, in percent: 100 is as fast as the task can be."""
        return self.bound.percent(self.timeline.latency_ns)


def estimate_speed(
    program: Program,
    placement: Placement,
    shapes: ShapeSet,
    target: Target,
    *,
    trips: Trips | None = None,
) -> Speed:
    """Schedule a Program and compare it with the bound of its task.

    Run-time loops count once where no run (`trips`) has said how often they go round.
    """
    chip = load_chip(target)
    known = None if trips is None else dict(enumerate(trips.loops))
    timeline = schedule(program, chip, placement, trips=known)
    bound = bound_ns(make_work(shapes), chip, cores=program.launch.cores)
    return Speed(program=program, timeline=timeline, bound=bound)


def make_work(shapes: ShapeSet) -> Work:
    """The task's least work; one 16-bit tensor is enough for a kernel to use the faster modes."""
    dtypes = [t.dtype for t in shapes.tensors] + [o.dtype for o in shapes.outputs]
    short = next((d for d in dtypes if d.is_float and d.itemsize <= SHORT_BYTES), DType.FLOAT32)
    return Work(
        hbm_bytes=shapes.work.min_hbm_bytes,
        matmul_flops=shapes.work.matmul_flops_by_dtype,
        elementwise_elems=shapes.work.elementwise_elems,
        elementwise_dtype=short,
    )
