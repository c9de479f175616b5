"""Builds the modules that kernels import (`nki`, `nki.language`, ...) and lends their names.

Law: the names exist in `sys.modules` only inside `installed()`, so an installed vendor package is
neither shadowed elsewhere nor picked up by accident.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn

from nki_agent.chip.spec import DEFAULT_TARGET, Target
from nki_agent.isa.dtype import DType
from nki_agent.isa.table import TABLE
from nki_agent.nki.current import (  # noqa: F401 - some register their functions
    chance,
    control,
    language,
    values,
)
from nki_agent.nki.current.allocation import ISA, LANGUAGE
from nki_agent.nki.current.collectives import COLLECTIVES
from nki_agent.nki.current.emit import NkiInstruction, make_functions
from nki_agent.nki.current.jit import Kernel, jit
from nki_agent.nki.current.names import NOT_MODELLED
from nki_agent.nki.current.recorder import STATE, fail, require_chip
from nki_agent.nki.current.register import VirtualRegister
from nki_agent.nki.current.tensor import NkiTensor
from nki_agent.nki.current.tile_size import TileSize


class NKIObject:
    """Base class that kernels may derive their own classes from."""


class NkiValidationError(Exception):
    """The vendor's error class, for code that names it."""


class Simulation:
    """A kernel to be called with NumPy arrays or torch CPU tensors."""

    def __init__(self, kernel: Kernel) -> None:
        """Nothing runs yet."""
        self._kernel = kernel

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run on one rank."""
        return self._kernel(*args, **kwargs)

    def ranks(self, arguments_by_rank: Sequence[Any]) -> list[Any]:
        """Run on as many ranks as there are tuples of arguments; ours, not the vendor's."""
        return self._kernel.launch_ranks(arguments_by_rank)


def simulate(kernel: Any) -> Simulation:
    """`nki.simulate(kernel)`: a callable on NumPy arrays or torch CPU tensors."""
    return Simulation(jit(kernel))


def get_nc_version() -> values.Member:
    """The NeuronCore generation of the target."""
    generation = require_chip("nisa.get_nc_version").generation
    return getattr(values.NC_VERSION, f"gen{generation}")  # type: ignore[no-any-return]


def get_nc_sub_version() -> int:
    """The silicon revision of the target; 0."""
    return 0


STOCKED = 3
"""Traces of one kernel: at its proof's shapes and at those of its claim."""
IN_LANGUAGE = ("device_print",)
"""Instructions whose function is in `nki.language`."""


def _isa_names() -> dict[str, object]:
    enums = {
        "engine": values.ENGINE,
        "reduce_cmd": values.REDUCE_CMD,
        "dge_mode": values.DGE_MODE,
        "oob_mode": values.OOB_MODE,
        "matmul_perf_mode": values.PERF_MODE,
        "nc_version": values.NC_VERSION,
        "dma_engine": values.DMA_ENGINE,
    }
    deprecated = {f"{m.name}_engine": m for m in values.ENGINE if m.name not in ("dma", "sync")}
    others = {
        "NkiInstruction": NkiInstruction,
        "NkiValidationError": NkiValidationError,
        "VirtualRegister": VirtualRegister,
        "register_alloc": control.register_alloc,
        "get_nc_version": get_nc_version,
        "get_nc_sub_version": get_nc_sub_version,
        "constants": SimpleNamespace(**enums),
    }
    instructions = {n: ISA[n] for n in ISA if TABLE[n].page.startswith("nki.isa.")}
    return {**instructions, **enums, **deprecated, **others}


def _language_names() -> dict[str, object]:
    regions = {region.memory.value: region for region in values.REGIONS.values()}
    dtypes = {dtype.value: dtype for dtype in DType}
    return {
        **LANGUAGE,
        **{name: ISA[name] for name in IN_LANGUAGE},
        **regions,
        **dtypes,
        "tile_size": TileSize(),
        "NkiTensor": NkiTensor,
        "NKIObject": NKIObject,
        "DType": DType,
        "MemoryRegion": values.Region,
    }


class _Annotation:
    """`nt.tensor[...]`: annotations are read by people only."""

    def __getitem__(self, item: object) -> _Annotation:
        return self


ISA.update(make_functions())
PUBLIC: dict[str, dict[str, object]] = {
    "nki": {"jit": jit, "simulate": simulate},
    "nki.isa": _isa_names(),
    "nki.language": _language_names(),
    "nki.typing": {"tensor": _Annotation(), "mutable_tensor": _Annotation()},
    "nki.collectives": COLLECTIVES,
}
"""What each module offers."""

MODULES: dict[str, frozenset[str]] = {name: frozenset(public) for name, public in PUBLIC.items()}
"""Names of each module, for the checker."""

SIGNATURES: dict[str, inspect.Signature] = {
    f"{module}.{name}": inspect.signature(value)
    for module, public in PUBLIC.items()
    for name, value in public.items()
    if callable(value) and not isinstance(value, type)
}
"""Signature of each public function by its full name, for the checker and the prompts."""


def signature_text(full_name: str) -> str:
    """The call of a public function as people write it: `nki.isa.iota(dst, pattern, offset=0)`.

    Raises:
        KeyError: There is no such function.
    """
    parts = []
    for parameter in SIGNATURES[full_name].parameters.values():
        star = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        text = star + parameter.name
        if parameter.default is not parameter.empty:
            text += f"={_default_text(parameter.default)}"
        parts.append(text)
    return f"{full_name}({', '.join(parts)})"


def _default_text(value: object) -> str:
    name = values.OPERATOR_OF.get(value) if callable(value) else None
    if name is not None:
        return f"nl.{name}"
    if isinstance(value, values.Region):
        return f"nl.{value}"
    return f"nl.{value.value}" if isinstance(value, DType) else repr(value)


def _missing(module: str) -> Callable[[str], object]:
    def getattribute(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in NOT_MODELLED.get(module, ()):
            fail(
                "NK114",
                f"`{module}.{name}` is part of NKI but not modelled",
                hint="docs/reference/coverage.md lists what is modelled",
            )
        near = difflib.get_close_matches(name, MODULES[module], n=3)
        hint = f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""
        fail("NK104", f"module `{module}` has no `{name}`", hint=hint)

    return getattribute


def build_modules() -> dict[str, ModuleType]:
    """Fresh module objects by the name that kernels import."""
    modules = {name: ModuleType(name) for name in PUBLIC}
    for name, module in modules.items():
        module.__dict__.update(PUBLIC[name])
        module.__dict__["__getattr__"] = _missing(name)
    root = modules["nki"]
    root.__path__ = []
    for name, module in modules.items():
        if name != "nki":
            setattr(root, name.rpartition(".")[2], module)
    constants = ModuleType("nki.isa.constants")
    constants.__dict__.update(vars(PUBLIC["nki.isa"]["constants"]))
    modules["nki.isa.constants"] = constants
    return modules


@contextmanager
def installed(target: Target = DEFAULT_TARGET) -> Iterator[dict[str, ModuleType]]:
    """Lend the names `nki`, `nki.language`, ... to imports inside the block.

    Module code sees the sizes of `target`; a trace sees those of its own.
    """
    modules = _STOCK.pop() if _STOCK else build_modules()
    saved = _take_out()
    sys.modules.update(modules)
    before, STATE.target = STATE.target, target
    try:
        yield modules
    finally:
        STATE.target = before
        _take_out()
        sys.modules.update(saved)


def withhold(modules: Mapping[str, ModuleType], names: Iterable[str]) -> None:
    """Put what raises NK119 in the place of these functions of `nki.language`."""
    lent = modules["nki.language"]
    for name in names:
        setattr(lent, name, _refusal(name))


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(*_arguments: object, **_keywords: object) -> NoReturn:
        fail(
            "NK119",
            f"`nl.{name}` is not on the surface that is asked for",
            hint="say it in instructions of `nki.isa`, into tiles that have an address",
        )

    return refuse


_STOCK: list[dict[str, ModuleType]] = []


def stock_up() -> None:
    """Make the modules of the next traces beforehand.

    A forked process has few traces, and would have to copy every page that holds one of the names.
    """
    while len(_STOCK) < STOCKED:
        _STOCK.append(build_modules())


stock_up()


def _take_out() -> dict[str, ModuleType]:
    """Take `nki` and what is below it out of the loaded modules.

    What is below it was loaded after it, so older modules are not looked at: in a forked process
    that would copy the page of every one.
    """
    names: list[str] = []
    if "nki" in sys.modules:
        for name in reversed(sys.modules):
            if name == "nki" or name.startswith("nki."):
                names.append(name)
            if name == "nki":
                break
    return {name: sys.modules.pop(name) for name in reversed(names)}
