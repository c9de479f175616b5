"""Names of tensors as the kernel's own source has them, for every listing and message.

Law: only a name that the tracer made up is replaced, and only where the source leaves no doubt: one
assignment on the line, whose call makes one tensor. Names stay distinct, and no rule reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from nki_agent.program.records import Program, Tensor
from nki_agent.program.targets import MADE_UP, read_targets


def name_tensors(program: Program, files: Mapping[str, str]) -> Program:
    """The same Program; a tensor that an assignment makes has the name of its target."""
    names: dict[str, dict[int, str]] = {}
    found: list[str] = []
    for number, tensor in enumerate(program.tensors):
        name = ""
        if MADE_UP.fullmatch(tensor.name) and tensor.name == f"t{number}":
            name = _find_name(program, tensor, files, names)
        found.append(name)
    if not any(found):
        return program
    counts = Counter(found)
    taken = {t.name for t, name in zip(program.tensors, found, strict=True) if not name}
    numbers: Counter[str] = Counter()
    tensors = []
    for tensor, name in zip(program.tensors, found, strict=True):
        if not name:
            tensors.append(tensor)
            continue
        numbers[name] += 1
        is_alone = counts[name] == 1 and name not in taken
        label = name if is_alone else f"{name}#{numbers[name]}"
        tensors.append(msgspec.structs.replace(tensor, name=label))
    return msgspec.structs.replace(program, tensors=tuple(tensors))


def _find_name(
    program: Program, tensor: Tensor, files: Mapping[str, str], names: dict[str, dict[int, str]]
) -> str:
    stack = program.stack(tensor.stack)
    if not stack or stack[-1].file not in files:
        return ""
    file = stack[-1].file
    if file not in names:
        names[file] = read_targets(files[file])
    return names[file].get(stack[-1].line, "")
