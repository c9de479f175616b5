"""Finds the reference, the inputs function and the settings in a task file.

The rule, in this order:

1. A class `Model` that is a `torch.nn.Module`: the KernelBench form. `get_init_inputs()` gives the
   arguments of its constructor, and may be missing if there are none.
2. A function `reference`.
3. The only `torch.nn.Module` class that the file defines.
4. The only public function that the file defines, apart from those that give inputs.

The inputs function is `get_inputs` or `inputs`. In its place a file may declare its tensors by
`SHAPES`, `INPUTS`, `PARAMETERS` and `OUTPUTS`, as declared.py says. A file may set `DTYPE` (the
dtype of every real input and weight), `TOLERANCE` (a class of tolerance.py) and `UPDATES` (names of
the inputs that the reference updates in place).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nki_agent.base.errors import TaskError
from nki_agent.isa.dtype import DType, find_dtype
from nki_agent.task.declaration import Declared, read_declared
from nki_agent.task.inputs import InputsFunction, make_inputs_function
from nki_agent.task.tolerance import ToleranceClass
from nki_agent.task.userfile import UserFile
from nki_agent.task.values import has_torch_type

MODEL, REFERENCE, INIT_INPUTS = "Model", "reference", "get_init_inputs"
INPUTS = ("get_inputs", "inputs")
_NOT_REFERENCES = frozenset({*INPUTS, INIT_INPUTS})
_HINT = (
    "a task file holds `class Model(torch.nn.Module)` with `get_inputs()`, "
    "or a function `reference` with `inputs()`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the file sets at module level."""

    dtype: DType | None = None
    tolerance: ToleranceClass | None = None
    updates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForm:
    """The parts of a task file."""

    user: UserFile
    entry: Callable[..., Any]
    """A Module class, or a function."""
    is_module: bool
    inputs: InputsFunction | None
    """None where the file declares its tensors."""
    init_inputs: InputsFunction | None
    settings: Settings
    declared: Declared | None = None

    @property
    def name(self) -> str:
        """The name of the class or function."""
        return getattr(self.entry, "__name__", REFERENCE)


def find_form(user: UserFile) -> FileForm:
    """Apply the rule of this module.

    Raises:
        TaskError: no reference, several, no inputs function, or a setting that does not exist.
    """
    entry, is_module = _find_entry(user)
    declared = read_declared(user)
    if declared is not None:
        return FileForm(
            user=user,
            entry=entry,
            is_module=is_module,
            inputs=None,
            init_inputs=None,
            settings=_read_settings(user),
            declared=declared,
        )
    inputs = _find_function(user.module, INPUTS)
    if inputs is None:
        raise TaskError(
            f"{user.path.name} has no `get_inputs()`",
            hint="add a function `get_inputs()` that returns the forward arguments in order",
        )
    init_inputs = _find_function(user.module, (INIT_INPUTS,)) if is_module else None
    return FileForm(
        user=user,
        entry=entry,
        is_module=is_module,
        inputs=make_inputs_function(user, inputs),
        init_inputs=None if init_inputs is None else make_inputs_function(user, init_inputs),
        settings=_read_settings(user),
    )


def _find_entry(user: UserFile) -> tuple[Callable[..., Any], bool]:
    model = getattr(user.module, MODEL, None)
    if model is not None and _is_module_class(model):
        return model, True
    reference = getattr(user.module, REFERENCE, None)
    if callable(reference):
        return reference, False
    if model is not None:
        raise TaskError(
            f"`Model` in {user.path.name} is a {_name_kind(model)}, not a torch.nn.Module class",
            hint=_HINT,
        )
    classes = {n: v for n, v in _own(user.module).items() if _is_module_class(v)}
    functions = {
        name: value
        for name, value in _own(user.module).items()
        if inspect.isfunction(value) and name not in _NOT_REFERENCES and not name.startswith("_")
    }
    for found, is_module in ((classes, True), (functions, False)):
        if len(found) == 1:
            return next(iter(found.values())), is_module
        if found:
            names = ", ".join(f"`{name}`" for name in sorted(found))
            raise TaskError(
                f"{user.path.name} has several candidates for the reference: {names}",
                hint="name it `Model` or `reference`, or start the names of the others with `_`",
            )
    raise TaskError(f"{user.path.name} has no model and no function", hint=_HINT)


def _own(module: ModuleType) -> dict[str, Any]:
    """What the file defines itself, imports left out."""
    return {
        name: value
        for name, value in vars(module).items()
        if getattr(value, "__module__", None) == module.__name__
    }


def _is_module_class(value: object) -> bool:
    return inspect.isclass(value) and any(
        base.__name__ == "Module" and base.__module__.startswith("torch.nn") for base in value.mro()
    )


def _name_kind(value: object) -> str:
    return "class" if inspect.isclass(value) else type(value).__name__


def _find_function(module: ModuleType, names: tuple[str, ...]) -> Callable[..., object] | None:
    for name in names:
        value = getattr(module, name, None)
        if callable(value):
            return value  # type: ignore[no-any-return]
    return None


def _read_settings(user: UserFile) -> Settings:
    return Settings(
        dtype=_read_dtype(user),
        tolerance=_read_tolerance(user),
        updates=_read_updates(user),
    )


def _read_dtype(user: UserFile) -> DType | None:
    value = getattr(user.module, "DTYPE", None)
    if value is None:
        return None
    name = str(value).removeprefix("torch.") if has_torch_type(value, "dtype") else value
    dtype = find_dtype(name)
    if dtype is None or not dtype.is_float:
        reals = ", ".join(d.value for d in DType if d.is_float)
        raise TaskError(f"DTYPE in {user.path.name} is {value!r}", hint=f"one of {reals}")
    return dtype


def _read_tolerance(user: UserFile) -> ToleranceClass | None:
    value = getattr(user.module, "TOLERANCE", None)
    if value is None:
        return None
    if not isinstance(value, str) or value not in list(ToleranceClass):
        classes = ", ".join(ToleranceClass)
        raise TaskError(f"TOLERANCE in {user.path.name} is {value!r}", hint=f"one of {classes}")
    return ToleranceClass(value)


def _read_updates(user: UserFile) -> tuple[str, ...]:
    value = getattr(user.module, "UPDATES", ())
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise TaskError(
            f"UPDATES in {user.path.name} is {value!r}",
            hint='a tuple of the names of inputs, as in UPDATES = ("cache",)',
        )
    return tuple(names)
