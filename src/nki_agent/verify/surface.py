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
            stacks = {
                tensor.stack: tensor.memory
                for tensor in reversed(program.tensors)
                if tensor.memory.is_on_chip and tensor.address is None
            }
    return [
        msgspec.structs.replace(lacks_address(memory.value), where=program.stack(stack))
        for stack, memory in reversed(stacks.items())
    ][:FINDINGS_MAX]
