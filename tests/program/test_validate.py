"""Validation in the trusted process: forged references, broken rules and bounds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec
import pytest

from nki_agent.chip.spec import Target, load_chip
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Engine, Memory, OobMode
from nki_agent.isa.signature import Operand, Pattern, Signature
from nki_agent.program.records import (
    Constant,
    Detail,
    Dialect,
    Dynamic,
    DynamicKind,
    Init,
    Instruction,
    Launch,
    Program,
    Result,
    Tensor,
)
from nki_agent.program.validate import (
    check_program,
    read_positions,
    written_arguments,
    written_positions,
)
from tests.kernels import SOFTMAX, body, f32, traced

CHIP = load_chip(Target.TRN2)
SAMPLE = traced(SOFTMAX, [f32("x", 200, 96)])
Change = Callable[[Program], Program]
replace = msgspec.structs.replace


def with_instruction(**changes: Any) -> Change:
    """Change the first instruction."""

    def change(program: Program) -> Program:
        first, *rest = program.bodies[0]
        assert isinstance(first, Instruction)
        return replace(program, bodies=((replace(first, **changes), *rest),))

    return change


def with_signature(**changes: Any) -> Change:
    """Change the first signature."""

    def change(program: Program) -> Program:
        first, *rest = program.signatures
        return replace(program, signatures=(replace(first, **changes), *rest))

    return change


def with_tensor(**changes: Any) -> Change:
    """Change the second tensor, the output."""

    def change(program: Program) -> Program:
        first, second, *rest = program.tensors
        return replace(program, tensors=(first, replace(second, **changes), *rest))

    return change


def with_chip_tensor(**changes: Any) -> Change:
    """Change the third tensor, the first tile."""

    def change(program: Program) -> Program:
        first, second, third, *rest = program.tensors
        return replace(program, tensors=(first, second, replace(third, **changes), *rest))

    return change


def with_operand(**changes: Any) -> Change:
    """Change the first operand of the first signature."""

    def change(program: Program) -> Program:
        signature = dma_signature(**changes)
        return replace(program, signatures=(signature, *program.signatures[1:]))

    return change


def with_program(**changes: Any) -> Change:
    """Change the Program itself."""
    return lambda program: replace(program, **changes)


def dma_signature(**operand: Any) -> Signature:
    first = SAMPLE.signatures[0]
    dst, src = first.operands
    return replace(first, operands=(replace(dst, **operand), src))


def number_cases() -> Callable[[object], str]:
    """Names of cases whose parameters are functions."""
    numbers = count()
    return lambda value: value if isinstance(value, str) else f"case{next(numbers)}"


KIND, OOB = DynamicKind.SCALAR, OobMode.ERROR
BAD_CONSTANT = Constant("0" * 64, DType.FLOAT32, (1,), b"\0\0\0\0")


@pytest.mark.parametrize(
    "change",
    [
        with_instruction(signature=99),
        with_instruction(signature=-1),
        with_instruction(stack=99),
        with_instruction(tensors=(0, 99)),
        with_instruction(tensors=(0, -1)),
        with_instruction(tensors=(0,)),
        with_instruction(offsets=()),
        with_instruction(immediates=(1.0,)),
        with_instruction(detail=Detail(registers=(0,))),
        with_instruction(detail=Detail(after=(-1,))),
        with_instruction(detail=Detail(blocks=((),))),
        with_instruction(detail=Detail(dynamic=(Dynamic(0, KIND, None, 4, OOB),))),
        with_instruction(detail=Detail(dynamic=(Dynamic(9, KIND, 0, 4, OOB),))),
        with_signature(op="teleport"),
        with_signature(attributes=()),
        with_signature(attributes=(("oob_mode", "error"),)),
        with_signature(operands=()),
        with_signature(operands=SAMPLE.signatures[0].operands[:1]),
        with_signature(operands=tuple(reversed(SAMPLE.signatures[0].operands))),
        with_signature(operands=SAMPLE.signatures[1].operands),
        with_tensor(shape=()),
        with_tensor(shape=(0, 4)),
        with_tensor(shape=(-4, 4)),
        with_tensor(init=Init.CONSTANT),
        with_tensor(init=Init.LAZY_ZERO),
        with_tensor(init=Init.ARGUMENT),
        with_tensor(constant=0),
        with_tensor(stack=99),
        with_tensor(blocks=(4,)),
        with_program(results=(Result(99, (200, 96)),)),
        with_program(results=(Result(1, (200, 97)),)),
        with_program(results=(Result(2, (128, 96)),)),
        with_program(results=(Result(0, (200, 96)),)),
        with_tensor(memory=Memory.PRIVATE_HBM),
        with_program(stacks=((99,),) * len(SAMPLE.stacks)),
        with_program(bodies=()),
        with_program(arguments=()),
        with_program(constants=(BAD_CONSTANT,)),
        with_program(dialect=Dialect.BETA1),
        with_program(launch=Launch((1,), 2, 1)),
        with_program(launch=Launch((128,), 1, 1)),
        with_program(arguments=(*SAMPLE.arguments, *SAMPLE.arguments)),
        with_program(signatures=(*SAMPLE.signatures, SAMPLE.signatures[0])),
        with_operand(pattern=Pattern((0, 1, 128), ((2**39, 2**39),))),
        with_operand(pattern=Pattern((0, 2**39, 2**39), ((4, 96),))),
    ],
    ids=number_cases(),
)
def test_reference_that_no_trace_makes_is_forged(change: Change) -> None:
    findings = check_program(change(SAMPLE), CHIP)
    assert [f.code for f in findings] == ["NK902"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (with_instruction(offsets=(4, 0)), "NK202"),
        (with_instruction(offsets=(0, -4)), "NK202"),
        (with_instruction(offsets=(0, 200 * 96 * 4)), "NK202"),
        (with_instruction(offsets=(0, 2)), "NK202"),
        (with_instruction(tensors=(0, 0)), "NK202"),
        (with_instruction(offsets=(2**63 - 4, 0)), "NK202"),
        (with_instruction(offsets=(0, 2**63 - 4)), "NK202"),
        (with_instruction(offsets=(0, -(2**63))), "NK202"),
        (with_chip_tensor(memory=Memory.PSUM), "NK202"),
        (with_chip_tensor(shape=(129, 96)), "NK201"),
        (with_chip_tensor(shape=(2**32, 96)), "NK111"),
        (with_tensor(shape=(2**40, 2**40)), "NK111"),
        (with_signature(engine=Engine.TENSOR), "NK306"),
    ],
    ids=number_cases(),
)
def test_view_outside_of_its_tensor_is_refused(change: Change, code: str) -> None:
    assert [f.code for f in check_program(change(SAMPLE), CHIP)] == [code]


def test_partitions_beyond_the_tensor_are_refused() -> None:
    signature = dma_signature(pattern=Pattern((96, 1, 128), ((4, 96),)))
    changed = replace(SAMPLE, signatures=(signature, *SAMPLE.signatures[1:]))
    assert [f.code for f in check_program(changed, CHIP)] == ["NK202"]


def test_rule_of_isa_is_checked_again_with_the_line() -> None:
    number = next(i for i, s in enumerate(SAMPLE.signatures) if s.op == "tensor_scalar")
    signature = SAMPLE.signatures[number]
    operands = tuple(
        replace(o, memory=Memory.SHARED_HBM, pattern=Pattern(None, ((384, 128), (4, 96))))
        if o.role == "data"
        else o
        for o in signature.operands
    )
    signatures = list(SAMPLE.signatures)
    signatures[number] = replace(signature, operands=operands)
    findings = check_program(replace(SAMPLE, signatures=tuple(signatures)), CHIP)
    assert findings[0].code == "NK301"
    assert str(findings[0].where[-1]) == "kernel.py:21"


def test_honest_program_has_no_findings() -> None:
    assert check_program(SAMPLE, CHIP) == []


def test_written_positions_follow_the_declaration() -> None:
    by_op = {s.op: s for s in SAMPLE.signatures}
    assert written_positions(by_op["activation"]) == (0, 3)
    assert read_positions(by_op["activation"]) == (1, 2)
    assert [o.role for o in by_op["activation"].operands] == [
        "dst",
        "data",
        "bias",
        "scale",
        "reduce_res",
    ]


def test_written_argument_is_found() -> None:
    source = body(
        "t = nl.load(x)\nnisa.dma_copy(dst=x, src=t)\n"
        "return nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.shared_hbm)"
    )
    assert written_arguments(traced(source, [f32("x", 4, 4)])) == {0}
    assert written_arguments(SAMPLE) == set()


def test_hostile_names_are_only_text() -> None:
    tensor = Tensor("\x1b[2J<b>", Memory.SBUF, (1, 1), DType.FLOAT32, Init.POISON, 0)
    operand = Operand("dst", Memory.SBUF, DType.FLOAT32, Pattern((0, 1, 1), ((4, 1),)))
    assert operand.shape == (1, 1)
    changed = replace(SAMPLE, tensors=(*SAMPLE.tensors, tensor))
    broken = with_instruction(tensors=(len(SAMPLE.tensors), 0), offsets=(0, 0))(changed)
    text = str(check_program(broken, CHIP)[0])
    assert "\x1b" not in text
