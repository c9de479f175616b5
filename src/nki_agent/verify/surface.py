"""Whether a traced kernel kept to its surface, whatever names it went by."""

from __future__ import annotations

import msgspec

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.surface import Surface, lacks_address
from nki_agent.program.records import Program

FINDINGS_MAX = 8
"""Findings that are kept: the same fault in many places is one fault."""


def check_surface(program: Program, surface: Surface) -> list[Diagnostic]:
    """NK119 for tensors without an address on `isa`, once for each kernel line.

    What `nki.language` makes by itself has none, so a function of it that no name gave away shows
    here.
    """
    match surface:
        case Surface.NKI:
            return []
        case Surface.ISA:
            return _find_unplaced(program)


def _find_unplaced(program: Program) -> list[Diagnostic]:
    firsts: dict[int, Diagnostic] = {}
    for tensor in program.tensors:
        if tensor.memory.is_on_chip and tensor.address is None and tensor.stack not in firsts:
            firsts[tensor.stack] = msgspec.structs.replace(
                lacks_address(tensor.memory.value), where=program.stack(tensor.stack)
            )
            if len(firsts) == FINDINGS_MAX:
                break
    return list(firsts.values())
