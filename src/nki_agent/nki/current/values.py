"""The constants that kernels pass: enums, operators and memory regions.

Members compare by identity and hash fast; a plain int or string in their place is refused, as the
vendor's front end refuses it since 0.3.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nki_agent.isa.enums import DgeMode, DmaEngine, Engine, Memory, OobMode, PerfMode, ReduceCommand


class Member:
    """One member of an NKI enum."""

    __slots__ = ("enum", "meaning", "name", "value")

    def __init__(self, enum: str, name: str, value: int, meaning: object) -> None:
        """`meaning` is what `isa` calls it; None for `unknown`."""
        self.enum = enum
        self.name = name
        self.value = value
        self.meaning = meaning

    def __repr__(self) -> str:
        """`engine.vector`."""
        return f"{self.enum}.{self.name}"


class MemberSet:
    """An enum's namespace: `nisa.engine.vector`."""

    def __init__(self, name: str, members: dict[str, tuple[int, object]]) -> None:
        """Make one `Member` for each name."""
        self._name = name
        self._members = {key: Member(name, key, *row) for key, row in members.items()}
        self.__dict__.update(self._members)

    def __iter__(self) -> Iterator[Member]:
        """Members in the vendor's order."""
        return iter(self._members.values())

    def __getattr__(self, name: str) -> Member:
        """Unknown members say which ones exist."""
        raise AttributeError(f"{self._name} has no member `{name}`; it has {list(self._members)}")


ENGINE = MemberSet(
    "engine",
    {
        "unknown": (0, None),
        "tensor": (1, Engine.TENSOR),
        "scalar": (2, Engine.SCALAR),
        "gpsimd": (3, Engine.GPSIMD),
        "dma": (4, Engine.DMA),
        "vector": (5, Engine.VECTOR),
        "sync": (6, Engine.SYNC),
    },
)
BY_ENGINE: dict[object, Member] = {member.meaning: member for member in ENGINE}
REDUCE_CMD = MemberSet(
    "reduce_cmd", {command.value: (i, command) for i, command in enumerate(ReduceCommand)}
)
DGE_MODE = MemberSet(
    "dge_mode",
    {
        "unknown": (0, DgeMode.UNKNOWN),
        "swdge": (1, DgeMode.SWDGE),
        "hwdge": (2, DgeMode.HWDGE),
        "none": (3, DgeMode.NONE),
    },
)
OOB_MODE = MemberSet("oob_mode", {"error": (0, OobMode.ERROR), "skip": (1, OobMode.SKIP)})
PERF_MODE = MemberSet(
    "matmul_perf_mode", {"none": (0, PerfMode.NONE), "double_row": (1, PerfMode.DOUBLE_ROW)}
)
DMA_ENGINE = MemberSet(
    "dma_engine", {"dma": (1, DmaEngine.DMA), "gpsimd_dma": (2, DmaEngine.GPSIMD_DMA)}
)
NC_VERSION = MemberSet("nc_version", {"gen2": (2, 2), "gen3": (3, 3), "gen4": (4, 4)})
BY_MEANING: dict[object, Member] = {
    member.meaning: member
    for members in (REDUCE_CMD, DGE_MODE, OOB_MODE, PERF_MODE, DMA_ENGINE)
    for member in members
}


class Region(str):
    """A memory region: it is a string for comparisons, but a plain string is not a region."""

    __slots__ = ()

    @property
    def memory(self) -> Memory:
        """What `isa` calls it."""
        return Memory(str(self))


SBUF, PSUM = Region("sbuf"), Region("psum")
HBM, PRIVATE_HBM, SHARED_HBM = Region("hbm"), Region("private_hbm"), Region("shared_hbm")
REGIONS = {region.memory: region for region in (SBUF, PSUM, HBM, PRIVATE_HBM, SHARED_HBM)}


class OperatorName:
    """An operator that is no function: `nl.bypass`, `nl.average`, `nl.prelu`."""

    __slots__ = ("__name__",)

    def __init__(self, name: str) -> None:
        """`name` as in `isa.ops`."""
        self.__name__ = name

    def __repr__(self) -> str:
        """`nl.bypass`."""
        return f"nl.{self.__name__}"


OPERATOR_OF: dict[object, str] = {}
"""What an object that is passed as `op=` stands for; `language` registers its functions here."""


class DynamicSlice:
    """`nl.ds(start, size)`: a slice by start and size."""

    __slots__ = ("size", "start")

    def __init__(self, start: Any, size: int) -> None:
        """Both in elements; `start` is an int or a register."""
        self.start = start
        self.size = size
