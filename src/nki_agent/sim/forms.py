"""What compiling needs of a signature for each of its instructions."""

from __future__ import annotations

from typing import NamedTuple

from nki_agent.chip.spec import ChipSpec
from nki_agent.isa.declaration import Call, Declaration
from nki_agent.isa.remembered import remember
from nki_agent.isa.signature import Operand, Signature
from nki_agent.program.records import Tensor
from nki_agent.program.validate import read_positions, written_positions
from nki_agent.sim.axes import merge_axes

MATMULS = ("nc_matmul", "nc_matmul_mx")
PARTIAL = ("all_gather_v", "all_to_all_v", "collective_permute")
"""Only a run decides what they write of their destinations; the rest stays."""


class Form(NamedTuple):
    """One signature: its tensor operands, and which of them need their old contents."""

    call: Call
    operands: tuple[Operand, ...]
    reads: frozenset[int]
    is_matmul: bool

    @staticmethod
    def of(call: Call) -> Form:
        """The form of a call."""
        return _form_of(call.signature, call.declaration, call.chip)

    def can_write_whole(self, position: int, tensor: Tensor) -> bool:
        """Whether this operand, at offset 0, is written and is the whole of the tensor."""
        return position not in self.reads and _covers(self.operands[position], tensor)


def _covers(operand: Operand, tensor: Tensor) -> bool:
    pattern = operand.pattern
    if pattern.partition is not None:
        start, step, count = pattern.partition
        if count != tensor.partitions or start != 0 or (count > 1 and step != 1):
            return False
    elems = tensor.partition_bytes // operand.dtype.itemsize
    dense = ((operand.dtype.itemsize, elems),) if elems > 1 else ()
    return merge_axes(pattern.free) == dense


@remember
def _form_of(signature: Signature, declaration: Declaration, chip: ChipSpec) -> Form:
    operands = tuple(o for o in signature.operands if not o.is_immediate)
    reads = frozenset(read_positions(signature))
    is_matmul = signature.op in MATMULS
    if is_matmul and signature.attribute("accumulate") is not True:
        # Into a new tensor it overwrites.
        reads -= {0}
    if signature.op in PARTIAL:
        reads |= frozenset(written_positions(signature))
    return Form(Call(declaration, signature, chip), operands, reads, is_matmul)
