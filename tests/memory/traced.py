"""Kernel bodies as text, traced and placed."""

import textwrap
from dataclasses import dataclass

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.memory.placement import Placement, place_program
from nki_agent.nki.current.tracing import ArgumentSpec, trace_source
from nki_agent.program.records import Access, Program
from nki_agent.program.validate import check_program

HEAD = """\
import nki
import nki.isa as nisa
import nki.language as nl


@nki.jit
def kernel({names}):
"""
HEAD_LINES = HEAD.count("\n")
"""The line of the first line of a body is one more."""


@dataclass(frozen=True)
class Placed:
    """A traced body and what the memory pass says about it."""

    program: Program
    placement: Placement
    findings: tuple[Diagnostic, ...]

    @property
    def codes(self) -> list[str]:
        return [f.code for f in self.findings]

    def address(self, name: str) -> int:
        return self.placement.addresses[self.id(name)]

    def id(self, name: str) -> int:
        return next(i for i, t in enumerate(self.program.tensors) if t.name == name)


def trace_body(
    body: str,
    *shapes: tuple[int, ...],
    target: Target = Target.TRN2,
    access: Access = Access.READ,
    cores: int = 1,
) -> Program:
    """Trace a body whose arguments are float32 tensors called a, b, ..."""
    names = [chr(ord("a") + i) for i in range(len(shapes))]
    source = HEAD.format(names=", ".join(names)) + textwrap.indent(textwrap.dedent(body), "    ")
    if cores > 1:
        source += f"\n\ngrid = ({cores},)\n"
    specs = [
        ArgumentSpec(name, shape, DType.FLOAT32, access=access)
        for name, shape in zip(names, shapes, strict=True)
    ]
    reply = trace_source(source, specs, target=target)
    assert reply.program is not None, reply.findings
    return reply.program


def place_body(
    body: str,
    *shapes: tuple[int, ...],
    target: Target = Target.TRN2,
    access: Access = Access.READ,
    cores: int = 1,
) -> Placed:
    """Trace a body and run the memory pass on it; a good Program to `check_program`."""
    program = trace_body(body, *shapes, target=target, access=access, cores=cores)
    assert check_program(program, load_chip(target)) == []
    placement, findings = place_program(program, load_chip(target))
    return Placed(program, placement, findings)
