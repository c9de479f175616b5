"""A look at a kernel before it sees data: how far it comes, and where its time would go."""

from __future__ import annotations

import msgspec

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.chip.spec import Target
from nki_agent.cost.summary import Summary
from nki_agent.task.task import ShapeSet
from nki_agent.verify.compiling import CompileResult
from nki_agent.verify.outline import Outline, outline_program
from nki_agent.verify.speed import estimate_speed
from nki_agent.verify.verdict import Stage


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What tracing and scheduling say of a kernel.

    `stage` is None where it may run, and then there is a `summary`.
    """

    stage: Stage | None
    diagnostics: tuple[Diagnostic, ...]
    num_instructions: int | None = None
    summary: Summary | None = None
    outline: Outline | None = None
    """The traced Program in short; there too for a kernel that is traced and does not fit."""


def look_at(compiled: CompileResult, shapes: ShapeSet, target: Target) -> Look:
    """Sum up a compiled kernel; one that may run is also scheduled."""
    outline = None if compiled.program is None else outline_program(compiled.program)
    if compiled.stage is not None:
        return Look(stage=compiled.stage, diagnostics=compiled.diagnostics, outline=outline)
    assert compiled.program is not None
    assert compiled.placement is not None
    speed = estimate_speed(compiled.program, compiled.placement, shapes, target)
    return Look(
        stage=None,
        diagnostics=compiled.diagnostics,
        num_instructions=compiled.program.num_instructions,
        summary=speed.summary,
        outline=outline,
    )
