"""Which results no argument can reach: a kernel that returns them computed nothing from its inputs.

Law: whole tensors are followed, in program order, and a tensor that an argument reached stays
reached, so a result that is named here certainly ignores the arguments. Immediates and constants
carry nothing.
Not covered: a dependence that exists but has no effect (times zero); other seeds find that.
"""

from __future__ import annotations

from nki_agent.memory.columns import flat_body
from nki_agent.program.records import Program
from nki_agent.program.validate import read_positions, written_positions


def find_independent_results(program: Program) -> tuple[int, ...]:
    """Indices of results that no argument tensor reaches through the instructions."""
    reached = bytearray(len(program.tensors))
    for argument in program.arguments:
        if argument.tensor is not None:
            reached[argument.tensor] = True
    positions = [(read_positions(s), written_positions(s)) for s in program.signatures]
    for instruction in flat_body(program):
        reads, writes = positions[instruction.signature]
        tensors = instruction.tensors
        for i in reads:
            if reached[tensors[i]]:
                for j in writes:
                    reached[tensors[j]] = True
                break
    return tuple(i for i, result in enumerate(program.results) if not reached[result.tensor])
