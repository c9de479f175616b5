"""Which arguments that a task updates may be written where they lie.

Law: an argument is written by the stage that makes its new value only if nothing reads its old
value then or later; else the new value is made beside it and copied over it at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nki_agent.builtin.plan import Matrix, PickPlan, RowsPlan, Stage
from nki_agent.builtin.stage_tensors import stage_reads, stage_writes
from nki_agent.builtin.tile_steps import Load, Store


def make_name(wanted: str, taken: Collection[str]) -> str:
    """The name, or the first with a number behind it that is free."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}_{number}"
    return name


def find_in_place(stages: Sequence[Stage], new: Mapping[str, str]) -> list[str]:
    """The arguments that may be written at once; `new` names the new value of each."""
    return [name for name, made in new.items() if _may_write(stages, name, made)]


def _may_write(stages: Sequence[Stage], name: str, made: str) -> bool:
    makers = [index for index, stage in enumerate(stages) if made in stage_writes(stage)]
    if len(makers) != 1:
        return False
    maker = stages[makers[0]]
    if any(name in stage_reads(stage) for stage in stages[makers[0] + 1 :]):
        return False
    return name not in stage_reads(maker) or _reads_what_it_writes(maker, name, made)


def _reads_what_it_writes(stage: Stage, name: str, made: str) -> bool:
    """Whether each element is read before it is written, and by what makes its new value."""
    match stage:
        case RowsPlan():
            loads = [s for s in stage.steps if isinstance(s, Load)]
            if any(s.access.tensor == name and s.lookup is not None for s in loads):
                return False
            read = {s.access for s in loads}
            old = {(a.strides, a.offset) for a in read if a.tensor == name}
            written = [s.access for s in stage.steps if isinstance(s, Store)]
            return old == {(a.strides, a.offset) for a in written if a.tensor == made}
        case PickPlan(function="put_rows", table=Matrix() as table):
            others = [
                m.tensor
                for m in (stage.index, stage.rows, stage.taken, stage.weight)
                if isinstance(m, Matrix)
            ]
            return table.tensor == name and name not in others
        case _:
            return False
