"""Names the tensors of a draft: inputs, weights, and what the module keeps.

Law: a name that only one tensor asks for is that tensor's; where several ask, each is called by the
value that it serves, and by a number where that is not enough. No name is a Python keyword, a size
or a local value.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from nki_agent.corpus.expand import Draft, Tensor

_TOKEN = re.compile(r"\b_[iw]\d+_\b")


def name_tensors(draft: Draft) -> dict[str, str]:
    """The name of each token."""
    taken = {target for s in draft.statements for target in s.targets} - set(draft.pattern.inputs)
    taken |= set(draft.sizes) | set(draft.pattern.outputs)
    names: dict[str, str] = {}
    own = [t for t in draft.inputs if t.base in draft.pattern.inputs and not t.target]
    for tensor in own:
        names[tensor.token] = tensor.base
        taken.add(tensor.base)
    others = [t for t in draft.inputs if t not in own]
    _name_all(others, names, taken)
    # An attribute may be called as a local value is, and no two arguments of a kernel alike.
    _name_all(draft.weights, names, set(names.values()) | set(draft.holds))
    return names


def _name_all(tensors: Iterable[Tensor], names: dict[str, str], taken: set[str]) -> None:
    tensors = tuple(tensors)
    asked = Counter(t.base for t in tensors)
    for tensor in tensors:
        base = tensor.base
        if asked[base] > 1 and len(tensor.target) > 1:
            base = f"{tensor.target}_{base}"
        number, name = 1, base
        while name in taken or keyword.iskeyword(name):
            number += 1
            name = f"{base}{number}"
        taken.add(name)
        names[tensor.token] = name


def replace_tokens(text: str, names: Mapping[str, str]) -> str:
    """The text with the tensors' names."""
    return _TOKEN.sub(lambda found: names[found[0]], text)
