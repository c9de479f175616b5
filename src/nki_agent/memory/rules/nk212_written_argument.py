"""NK212: the kernel writes an argument that the task does not declare as updated in place."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.memory.columns import Columns
from nki_agent.program.records import Access


def check(columns: Columns) -> Iterator[Diagnostic]:
    """A finding for the first write of every argument that is only to be read."""
    program = columns.program
    names = {
        a.tensor: a.name
        for a in program.arguments
        if a.tensor is not None and a.access is Access.READ
    }
    is_input = np.zeros(len(program.tensors), np.bool_)
    is_input[list(names)] = True
    rows = np.flatnonzero(columns.writes & is_input[columns.tensor])
    tensors, at = np.unique(columns.tensor[rows], return_index=True)
    for tensor, row in zip(tensors.tolist(), rows[at].tolist(), strict=True):
        instruction = columns.body[int(columns.time[row])]
        op = program.signatures[instruction.signature].op
        yield Diagnostic(
            code="NK212",
            what=f"`{op}` writes the input `{names[tensor]}` {list(program.tensors[tensor].shape)},"
            " which the task does not declare as updated in place",
            where=program.stack(instruction.stack),
            hint="allocate an output with `nl.ndarray(shape, dtype, buffer=nl.shared_hbm)`, write"
            " that and return it",
        )
