"""What a run may use, how it can end, and which layers of protection this machine offers.

Law: a kernel's end is data (`Outcome`), whatever the kernel did; a failure of ours or of the
machine is a `MachineError` and never an `Outcome`.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

GIB = 1 << 30
MIB = 1 << 20


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What one run may use; going over any of them ends that run and no other."""

    seconds: float = 20.0
    """Wall time from the request to the last byte, in seconds; the run is then killed."""
    cpu_seconds: int = 20
    """CPU time in whole seconds; catches a run that a busy machine lets live too long."""
    memory_bytes: int = 4 * GIB
    """Growth of the address space over that of the warmed process; more is a MemoryError."""
    file_bytes: int = 0
    """Largest file that may be written; nothing is writable, so this is a second lock."""
    result_bytes: int = 512 * MIB
    """Longest result; the same limit as a stored Program has."""


class Layer(StrEnum):
    """One protection around untrusted source; each stands when the others fall."""

    BUBBLEWRAP = "bubblewrap"
    RLIMITS = "rlimits"
    NAMESPACES = "namespaces"
    UID = "uid"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"


ENOUGH = frozenset({Layer.UID, Layer.LANDLOCK, Layer.SECCOMP})
"""Any one of these keeps a kernel from the user's files; without all three it is refused."""


class LayerState(msgspec.Struct, frozen=True):
    """Whether a layer is active here; `detail` says how far it reaches, or why it is missing."""

    layer: Layer
    active: bool
    detail: str


class Status(msgspec.Struct, frozen=True):
    """Every layer in the order in which a run puts it on."""

    layers: tuple[LayerState, ...]

    @property
    def active(self) -> frozenset[Layer]:
        """The layers that every run gets."""
        return frozenset(state.layer for state in self.layers if state.active)

    @property
    def is_enough(self) -> bool:
        """Whether untrusted source may run here without being asked for."""
        return bool(self.active & ENOUGH)

    def __str__(self) -> str:
        """One line a layer: name, on or off, and why."""
        return "\n".join(
            f"{state.layer.value:<10} {'on ' if state.active else 'off'} {state.detail}"
            for state in self.layers
        )


class OutcomeKind(StrEnum):
    """How a run ended; everything but `result` is the kernel's failure."""

    RESULT = "result"
    RAISED = "raised"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    KILLED = "killed"
    EXITED = "exited"
    OVERSIZE = "oversize"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one run. `data` and `detail` are untrusted: the kernel can forge both."""

    kind: OutcomeKind
    data: bytes = b""
    """The callable's bytes; empty unless `kind` is `result`."""
    detail: str = ""
    """Why there is no result, for people; safe to print."""
    wall_ns: int
    max_rss_bytes: int
    """Most memory in use, that of the warmed process (some 25 MB) included; 0 if it lives on."""
