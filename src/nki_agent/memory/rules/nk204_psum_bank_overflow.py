"""NK204: a result of the Tensor Engine lies in more than one PSUM bank.

Law: every PSUM tensor starts at a bank, so the offset inside of the tensor decides. The rule holds
where the largest result of one matmul fits one bank; from NeuronCore-v4 on it may fill several.
Source: nki.isa.nc_matmul, "Tile size"; architecture guide, PSUM.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.isa.dtype import DType
from nki_agent.isa.enums import Memory
from nki_agent.memory.columns import Columns


def check(columns: Columns) -> Iterator[Diagnostic]:
    """A finding for every write of the Tensor Engine that crosses the end of a bank."""
    chip, forms = columns.chip, columns.forms
    bank_bytes = chip.psum_bank_bytes
    if chip.matmul_moving_free_max * DType.FLOAT32.itemsize > bank_bytes:
        return
    to_psum = np.array([o.memory is Memory.PSUM for o in forms.operands], np.bool_)
    rows = np.flatnonzero((forms.on_tensor & to_psum)[columns.form])
    first = columns.offset[rows] + forms.low[columns.form[rows]]
    last = columns.offset[rows] + forms.end[columns.form[rows]] - 1
    for i in np.flatnonzero(first // bank_bytes != last // bank_bytes).tolist():
        instruction = columns.body[int(columns.time[rows[i]])]
        operand = forms.operands[int(columns.form[rows[i]])]
        columns_max = bank_bytes // operand.dtype.itemsize
        op = columns.program.signatures[instruction.signature].op
        yield Diagnostic(
            code="NK204",
            what=f"place of `dst` of `{op}` {list(operand.shape)} {operand.dtype.value} in its PSUM"
            " tensor",
            got=f"bytes {int(first[i])}..{int(last[i])}",
            limit=f"one bank of {bank_bytes} bytes ({columns_max} columns)",
            where=columns.program.stack(instruction.stack),
            hint=f"start each result at column 0, {columns_max}, {2 * columns_max}, ... of the PSUM"
            " tensor, or give it a PSUM tensor of its own",
        )
