"""What `nki` offers, as the rules ask about it: names, members, signatures, and old names.

Law: names and signatures come from the front end's own tables; only the advice for old names is
here.
Source of the advice: NKI migration guides, 0.1.0 to 0.4.0.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from nki_agent.check.meant import INSTRUCTIONS, SAME_NAMES
from nki_agent.nki.current.modules import MODULES, PUBLIC, SIGNATURES
from nki_agent.nki.current.names import NOT_MODELLED
from nki_agent.nki.current.tile_size import TileSize
from nki_agent.nki.current.values import MemberSet

SHORT_NAMES = {
    "nki": "nki",
    "nki.isa": "nisa",
    "nki.language": "nl",
    "nki.typing": "nt",
    "nki.collectives": "ncc",
}
"""What kernels call each module."""
CONSTANTS = "nki.isa.constants"
NEAR_NAMES = 3

_SLICES = "index with ints and slices: `t[0:128, 0:512]`"
_PROFILE = "a kernel file only defines the kernel; time it with `nki-agent profile`"
_AP = "use `nisa.tensor_copy` on a view made with `.ap(pattern, scalar_offset=...)`"
_LOOPS = "loop over tiles with `range` inside of the kernel"
_TILE = "the free sizes are `nl.tile_size.gemm_moving_fmax` and `gemm_stationary_fmax`"

OLD_NAMES: dict[str, str] = {
    "nki.language.arange": _SLICES,
    "nki.language.mgrid": _SLICES,
    "nki.language.par_dim": "the partition dimension is always the first:"
    " `nl.ndarray((128, F), ...)`; for block dimensions keep a list of tensors",
    "nki.language.spmd_dim": _LOOPS,
    "nki.language.nc": _LOOPS,
    "nki.language.loop_reduce": "accumulate into a tile:"
    " `nisa.tensor_tensor(dst=acc, data1=acc, ...)`",
    "nki.language.all_reduce": "reduce inside of the kernel, or use `nki.collectives`",
    "nki.language.atomic_rmw": "use `nisa.dma_compute`",
    "nki.language.finfo": "write the number",
    "nki.language.static_cast": "`nisa.tensor_copy` into a tile of the wanted dtype",
    "nki.language.fp32": "write the number: the lowest float32 is -3.4028235e38",
    "nki.language.gemm_grid": _TILE,
    "nki.language.gemm_stationary_grid": _TILE,
    "nki.isa.builtin_custom_op": "write it with the instructions of `nki.isa`",
    "nki.isa.tensor_copy_dynamic_src": _AP,
    "nki.isa.tensor_copy_dynamic_dst": _AP,
    "nki.baremetal": _PROFILE,
    "nki.benchmark": _PROFILE,
    "nki.profile": _PROFILE,
    "nki.trace": "use `@nki.jit`; a function that a kernel calls needs no decorator",
    "nki.simulate_kernel": "use `nki.simulate(kernel)(*arrays)`",
    "nki.compiler": "pass `address=(partition, byte)` to `nl.ndarray`, or leave places open",
    "nki.nccl": "use `nki.collectives`",
}
"""Names of `neuronxcc.nki` 2.26 that are gone, and what to write."""


class ApiName(NamedTuple):
    """A dotted name below `nki`, taken apart."""

    module: str
    name: str
    members: tuple[str, ...]

    @property
    def full(self) -> str:
        """`nki.language.exp`."""
        return f"{self.module}.{self.name}"

    @property
    def short(self) -> str:
        """`nl.exp`."""
        return f"{SHORT_NAMES[self.module]}.{self.name}"


@functools.lru_cache(maxsize=4096)
def find_api_name(full: str | None) -> ApiName | None:
    """Take a dotted name apart; None if it is not below `nki` or is a module itself."""
    if full is None or not full.startswith("nki."):
        return None
    if full.startswith(CONSTANTS + "."):
        full = "nki.isa." + full[len(CONSTANTS) + 1 :]
    parts = full.split(".")
    for size in (2, 1):
        module = ".".join(parts[:size])
        if module in MODULES and len(parts) > size:
            return ApiName(module, parts[size], tuple(parts[size + 1 :]))
    return None


def exists(api: ApiName) -> bool:
    """Whether the module has the name."""
    return api.name in MODULES[api.module] or api.full in MODULES or api.full == CONSTANTS


def is_not_modelled(api: ApiName) -> bool:
    """Whether it is part of NKI 0.6.0 but not of this version."""
    return api.name in NOT_MODELLED.get(api.module, ())


def members_of(api: ApiName) -> frozenset[str] | None:
    """Members of an enum or of `nl.tile_size`; None for anything else."""
    value = PUBLIC[api.module].get(api.name)
    if isinstance(value, MemberSet):
        return frozenset(member.name for member in value)
    if isinstance(value, TileSize):
        return frozenset(name for name in dir(value) if not name.startswith("_"))
    return None


TYPO_LENGTH_MIN = 5
"""In shorter names another letter often is another function: `selu`, `silu`, `gelu`."""


# By their list: asking NumPy for a name that it dropped gives a warning.
_FUNCTIONS = frozenset((*dir(np), *dir(math)))


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The one name of which this is a slip of the pen; None where that is not certain.

    `exp2`, `sinh` and `hsigmoid` are functions of their own, however near `exp` is.
    """
    if name in _FUNCTIONS:
        return None
    near = [choice for choice in choices if _is_slip(name, choice)]
    return near[0] if len(near) == 1 else None


def _is_slip(name: str, choice: str) -> bool:
    """Whether one letter behind the first is missing, wrong, too many, or swapped with the next."""
    at = next((i for i, (a, b) in enumerate(zip(name, choice, strict=False)) if a != b), None)
    at = min(len(name), len(choice)) if at is None else at
    rest, wanted = name[at:], choice[at:]
    if at == 0 or rest == wanted or rest[:1].isdigit() or wanted[:1].isdigit():
        return False
    if rest[1:] == wanted and name[at] == name[at - 1]:
        return True
    swapped = rest[1:2] + rest[:1] + rest[2:] == wanted
    one_off = rest[1:] == wanted or rest == wanted[1:]
    wrong = len(rest) == len(wanted) and rest[1:] == wanted[1:]
    return len(name) >= TYPO_LENGTH_MIN and (one_off or wrong or swapped)


def member_of(module: str, kind: type, value: object, *, by_name: bool = False) -> str | None:
    """`engine.vector` for the number or name of a member of the enum that `isa` calls `kind`."""
    for name, members in PUBLIC[module].items():
        if isinstance(members, MemberSet) and any(isinstance(m.meaning, kind) for m in members):
            found = (m for m in members if (m.name if by_name else m.value) == value)
            return next((f"{name}.{m.name}" for m in found), None)
    return None


def suggest(name: str, choices: Iterable[str], *, prefix: str) -> str:
    """The hint with the nearest names; empty if none is near."""
    near = difflib.get_close_matches(name, sorted(choices), n=NEAR_NAMES)
    return f"did you mean {' or '.join(f'`{prefix}{n}`' for n in near)}?" if near else ""


def suggest_name(api: ApiName) -> str:
    """The hint for an unknown name: the same name in another module, else the nearest ones."""
    for module, names in MODULES.items():
        if api.name in names:
            return f"did you mean `{SHORT_NAMES[module]}.{api.name}`?"
    if api.name in SAME_NAMES:
        return f"it is `nl.{SAME_NAMES[api.name]}`"
    if api.module == "nki.isa" and api.name in INSTRUCTIONS:
        return f"write {INSTRUCTIONS[api.name]}"
    return suggest(api.name, MODULES[api.module], prefix=SHORT_NAMES[api.module] + ".")


def find_signature(api: ApiName) -> inspect.Signature | None:
    """The signature of a public function; None for what is no function."""
    return None if api.members else SIGNATURES.get(api.full)


def show_signature(api: ApiName, signature: inspect.Signature) -> str:
    """`nisa.tensor_copy(dst, src, engine=engine.unknown, name=None)`."""
    bare = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
    return f"{api.short}{inspect.Signature(bare)}"
