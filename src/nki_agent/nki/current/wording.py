"""What the tracer's messages call a tensor that the kernel gave no name.

Law: the variable that holds it, where the source leaves no doubt, else the line that made it; the
tracer's own number means nothing to whoever reads the message. Costs nothing where nothing fails.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping, Sequence

import msgspec

from nki_agent.base.diagnostic import Diagnostic, Frame
from nki_agent.program.records import Tensor
from nki_agent.program.targets import MADE_UP, read_targets

_QUOTED = re.compile(rf"(?:tensor )?`{MADE_UP.pattern}`")


def name_in_words(
    diagnostic: Diagnostic,
    tensors: Sequence[Tensor],
    makers: Sequence[Frame | None],
    files: Mapping[str, str],
) -> Diagnostic:
    """The same finding; `makers` are the innermost places that made the `tensors`."""
    targets: dict[str, dict[int, str]] = {}

    def find_name(place: Frame) -> str:
        if place.file not in targets:
            source = files.get(place.file) or "".join(linecache.getlines(place.file))
            targets[place.file] = read_targets(source)
        return targets[place.file].get(place.line, "")

    def replace(found: re.Match[str]) -> str:
        number = int(found.group(1))
        named = next((i for i, t in enumerate(tensors) if t.name == f"t{number}"), None)
        if named not in (None, number):
            return found.group()  # the kernel itself calls another one so
        if number < len(tensors):
            if named is None:
                return found.group()
            place = makers[number]
        else:  # what this very line was about to make
            place = diagnostic.where[-1] if diagnostic.where else None
        if place is None:
            return found.group()
        name = find_name(place)
        return f"tensor `{name}`" if name else f"the tensor that line {place.line} makes"

    texts = {field: _QUOTED.sub(replace, getattr(diagnostic, field)) for field in _TEXTS}
    return msgspec.structs.replace(diagnostic, **texts)


_TEXTS = ("what", "got", "limit", "hint")
