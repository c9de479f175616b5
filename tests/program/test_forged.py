"""Programs that fuzzing found: each made an exception or a hang of what comes after validation.

Law: what no honest trace makes is NK902 before anything else looks at it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.program.records import Constant, Instruction, Loop, Node, Program, Result
from nki_agent.program.validate import check_program
from tests.fuzz.corpus import shaped_programs
from tests.kernels import body, f32, refused, traced

replace = msgspec.structs.replace


def with_signature(program: Program, name: str, **changes: object) -> Program:
    """The Program with its first signature of this instruction changed."""
    signatures = list(program.signatures)
    index = next(i for i, s in enumerate(signatures) if s.op == name)
    signatures[index] = replace(signatures[index], **changes)
    return replace(program, signatures=tuple(signatures))


def huge_loop_number(program: Program) -> Program:
    nodes = [replace(n, number=2**40) if isinstance(n, Loop) else n for n in program.bodies[0]]
    return replace(program, bodies=(tuple(nodes),))


def number_of_another_type(program: Program) -> Program:
    def changed(node: Node) -> Node:
        if isinstance(node, Instruction) and node.immediates == (3,):
            return replace(node, immediates=(float("inf"),))
        return node

    return replace(program, bodies=(tuple(map(changed, program.bodies[0])),))


def register_as_a_tensor(program: Program) -> Program:
    return with_signature(program, "register_load", op="register_move")


def two_arguments_of_one_name(program: Program) -> Program:
    (argument,) = program.arguments
    tensor = program.tensors[argument.tensor or 0]
    more = replace(argument, tensor=len(program.tensors))
    return replace(program, arguments=(argument, more), tensors=(*program.tensors, replace(tensor)))


def result_of_many_axes(program: Program) -> Program:
    (result,) = program.results
    return replace(program, results=(Result(result.tensor, (2**39,) * 5_000),))


def constant_of_many_axes(program: Program) -> Program:
    constant = Constant("", DType.FLOAT32, (2,) * 300_000, b"")
    return replace(program, constants=(constant,))


@pytest.mark.parametrize(
    "forge",
    [
        huge_loop_number,
        number_of_another_type,
        register_as_a_tensor,
        two_arguments_of_one_name,
        result_of_many_axes,
        constant_of_many_axes,
    ],
    ids=lambda forge: forge.__name__,
)
def test_forged_program_is_refused(forge: Callable[[Program], Program]) -> None:
    program = shaped_programs()["registers"]
    assert check_program(program, load_chip(Target.TRN2)) == []
    (finding,) = check_program(forge(program), load_chip(Target.TRN2))
    assert finding.code == "NK902"


def test_register_takes_the_low_32_bits_of_any_number() -> None:
    text = """nisa.register_move(nisa.register_alloc(0), {})
return nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)"""
    assert traced(body(text.format(2**63)), [f32("x", 4, 4)]).num_instructions == 2
    assert refused(body(text.format(0.5)), [f32("x", 4, 4)]).code == "NK308"
