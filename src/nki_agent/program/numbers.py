"""Limits of the plain numbers that instructions carry, which no signature holds.

Law: an operator of one input has 0 or nothing as its number; anything else is `NK308`, since the
hardware would not use it. Not covered: numbers that the simulator looks at as it compiles.
"""

from __future__ import annotations

from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.ops import ALU_OPS
from nki_agent.isa.signature import Signature
from nki_agent.program.records import Program

TAKE_AN_OPERATOR = ("tensor_scalar", "tensor_scalar_reduce")


def check_numbers(program: Program) -> Iterator[Diagnostic]:
    """The first instruction with a forbidden number; the Program's references are sound."""
    unused = {
        index
        for index, signature in enumerate(program.signatures)
        if signature.op in TAKE_AN_OPERATOR and _has_unused_number(signature)
    }
    for node in program.all_instructions() if unused else ():
        if node.signature in unused and node.immediates[0] != 0:
            signature = program.signatures[node.signature]
            name = signature.attribute("op0")
            yield Diagnostic(
                code="NK308",
                what=f"`operand0` of `{signature.op}` with the unary `nl.{name}`",
                got=str(node.immediates[0]),
                limit="0",
                where=program.stack(node.stack),
                hint="pass `operand0=0`; a second step goes into `op1` and `operand1`",
            )
            return


def _has_unused_number(signature: Signature) -> bool:
    operand = signature.find("operand0")
    is_unary = ALU_OPS[str(signature.attribute("op0"))].is_unary
    return is_unary and operand is not None and operand.is_immediate
