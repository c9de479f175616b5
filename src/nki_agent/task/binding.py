"""How the kernel's arguments reach the user's code, and how its result is read."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nki_agent.base.errors import TaskError
from nki_agent.task.task import StaticArgument, TensorArgument
from nki_agent.task.userfile import UserFile
from nki_agent.task.values import is_tensor

OUTPUT = "output"
_RAISED = "it runs on what the inputs function gives: change that line, or those inputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A tensor argument as the user's code has it: 64-bit integers, rank 0, bool."""

    argument: TensorArgument
    native_dtype: str
    native_shape: tuple[int, ...]


Bound = Binding | StaticArgument


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The forward arguments in order; passed by position unless the inputs function names them."""

    user: UserFile
    bound: tuple[Bound, ...]
    by_name: bool
    taken: frozenset[str]
    """Names that an output must not have: those of the arguments."""
    output_names: tuple[str, ...] = ()
    """The declared names of the outputs; made from what the reference returns where empty."""

    def bindings(self) -> Iterator[Binding]:
        """The tensors among the arguments."""
        return (b for b in self.bound if isinstance(b, Binding))

    def run(self, function: Callable[..., object], values: Mapping[str, Any]) -> dict[str, Any]:
        """Call the user's code with native values by name; give its outputs by name."""
        statics = {b.name: b.value for b in self.bound if isinstance(b, StaticArgument)}
        names = [b.name if isinstance(b, StaticArgument) else b.argument.name for b in self.bound]
        given = {**statics, **values}
        with self.user.running("the reference", hint=_RAISED):
            if self.by_name:
                # A name that is no identifier of Python's came from a mapping: the original counts.
                originals = [
                    b.name if isinstance(b, StaticArgument) else b.argument.original
                    for b in self.bound
                ]
                result = function(**dict(zip(originals, (given[n] for n in names), strict=True)))
            else:
                result = function(*(given[name] for name in names))
        has_updates = any(b.argument.is_updated for b in self.bindings())
        found = name_outputs(result, taken=self.taken, may_be_none=has_updates, user=self.user)
        if not self.output_names:
            return found
        if len(found) != len(self.output_names):
            raise TaskError(
                f"{self.user.path.name}: the reference returns {len(found)} tensors, but OUTPUTS "
                f"declares {len(self.output_names)}",
                hint="return a tuple of the outputs in the declared order",
            )
        return dict(zip(self.output_names, found.values(), strict=True))


def name_outputs(
    result: object, *, taken: frozenset[str], may_be_none: bool, user: UserFile
) -> dict[str, Any]:
    """Flatten what the reference returned into tensors by name.

    Raises:
        TaskError: it returned something that is not a tensor, or nothing.
    """
    found = [(name, value) for name, value in _flatten(result, name="") if value is not None]
    for _, value in found:
        if not is_tensor(value):
            raise TaskError(
                f"{user.path.name}: the reference returns a {type(value).__name__}, not a tensor",
                hint="return a tensor, or a tuple, list or dict of tensors",
            )
    if not found and not may_be_none:
        raise TaskError(
            f"{user.path.name}: the reference returns nothing",
            hint="return a tensor, or name what it updates in place: UPDATES = (...)",
        )
    names = [name or OUTPUT for name, _ in found]
    if len(set(names)) < len(names):
        names = [f"{name}_{index}" for index, name in enumerate(names)]
    unique = make_unique(names, taken=taken)
    return dict(zip(unique, (value for _, value in found), strict=True))


def _flatten(value: object, *, name: str) -> Iterator[tuple[str, object]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _flatten(item, name=str(key))
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key, item in zip(value._fields, value, strict=True):
            yield from _flatten(item, name=str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _flatten(item, name=name)
    else:
        yield name, value


def make_unique(names: Sequence[str], *, taken: Iterable[str] = ()) -> list[str]:
    """Turn names into different Python identifiers: `norm.weight` becomes `norm_weight`."""
    used = set(taken)
    unique = []
    for name in names:
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
        if not base or base[0].isdigit():
            base = f"_{base}"
        if keyword.iskeyword(base):
            base += "_"
        candidate, number = base, 2
        while candidate in used:
            candidate, number = f"{base}_{number}", number + 1
        used.add(candidate)
        unique.append(candidate)
    return unique
