"""NK212: the kernel writes what it may only read: an input of the task, or a host constant.

A constant that could be overwritten would be a result that is filled before the kernel begins.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.memory.columns import Columns
from nki_agent.program.records import Access, Init


def check(columns: Columns) -> Iterator[Diagnostic]:
    """A finding for the first write of every tensor that is only to be read."""
    program = columns.program
    names = {
        a.tensor: f"the input `{a.name}`"
        for a in program.arguments
        if a.tensor is not None and a.access is Access.READ
    }
    for number, tensor in enumerate(program.tensors):
        if tensor.init is Init.CONSTANT:
            names[number] = f"the constant `{tensor.name}`"
    is_input = np.zeros(len(program.tensors), np.bool_)
    is_input[list(names)] = True
    rows = np.flatnonzero(columns.writes & is_input[columns.tensor])
    tensors, at = np.unique(columns.tensor[rows], return_index=True)
    for written, row in zip(tensors.tolist(), rows[at].tolist(), strict=True):
        instruction = columns.body[int(columns.time[row])]
        op = program.signatures[instruction.signature].op
        yield Diagnostic(
            code="NK212",
            what=f"`{op}` writes {names[written]} {list(program.tensors[written].shape)},"
            " which the task does not declare as updated in place",
            where=program.stack(instruction.stack),
            hint="allocate an output with `nl.ndarray(shape, dtype, buffer=nl.shared_hbm)`, write"
            " that and return it",
        )
