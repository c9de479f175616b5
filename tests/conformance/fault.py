"""A fault that people met, as a row: kernel, inputs, what must come out, and whose word it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nki_agent.base.seeds import rng_for
from nki_agent.chip.spec import DEFAULT_TARGET, Target
from nki_agent.verify.verdict import Stage
from tests.kernels import body

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What every row has; `kernel` is the body of the entry, `law` completes the test's name."""

    law: str
    kernel: str
    inputs: Mapping[str, Array]
    source: str
    target: Target = DEFAULT_TARGET
    options: tuple[str, ...] = ()
    """Parameters of the entry after its tensors, as text."""

    @property
    def text(self) -> str:
        """The kernel file."""
        return body(self.kernel, params=", ".join((*self.inputs, *self.options)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Values(Fault):
    """A kernel with a known result. `tolerance` is relative to the largest value; 0 means bits."""

    expected: Array | Callable[..., Array]
    tolerance: float = 0.0
    reference: str = ""
    """The reference of a task that the judge must find the kernel right for; empty for none."""

    @property
    def wanted(self) -> Array:
        """What the kernel must give for the inputs."""
        if callable(self.expected):
            return self.expected(*self.inputs.values())
        return self.expected


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal(Fault):
    """A kernel that must be refused, with the code, words of its message, and the judge's stage."""

    code: str
    words: tuple[str, ...]
    stage: Stage = Stage.UNTRACEABLE


def normal(*shape: int, name: str = "") -> Array:
    """Standard normal float32 values that depend on the name alone."""
    return rng_for(0, "known faults", name).standard_normal(shape, dtype=np.float32)


def rows_of(*values: float, dtype: npt.DTypeLike = np.float32) -> Array:
    """The same row in all 128 partitions."""
    return np.tile(np.array(values, dtype), (128, 1))


def ones(*shape: int) -> Array:
    """Float32 ones."""
    return np.ones(shape, np.float32)
