"""A reference: the user's code, run on stored arrays in its own precision or in float64.

Law: a run changes nothing that it is given, and two runs on the same arrays give the same bytes;
the loader refuses files for which that does not hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, runtime_checkable

from numpy.typing import NDArray

from nki_agent.task.record import Record

Array = NDArray[Any]


class Precision(StrEnum):
    """In what the reference computes."""

    OWN = "own"  # the dtypes that the task file has, rounded to after each operation
    SINGLE = "single"  # float32 inside, rounded to the stored dtypes at both ends
    DOUBLE = "double"  # every real in float64: what is compared against


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What one run gave: the outputs by name, and the inputs that it updates as it left them."""

    outputs: Mapping[str, Array]
    inputs: Mapping[str, Array]


class Reference(Protocol):
    """Runs the user's code."""

    def run(self, inputs: Mapping[str, Array], *, precision: Precision) -> Results:
        """Run on the tensor arguments by name. Reals come back in the precision of the run.

        Raises:
            TaskError: the user's code raised, or gave something that is not a tensor.
        """


class RecordedReference(Reference, Protocol):
    """A reference whose first run can be followed."""

    def record(self, inputs: Mapping[str, Array]) -> tuple[Results, Record]:
        """Run in its own precision; the results hold every forward input as the run left it."""


class Reach(NamedTuple):
    """How far the arguments of exponentials go; 0 where there are none."""

    highest: float
    """The largest finite one."""
    lowest_row: float
    """The least of all rows' largest, rows that are masked aside."""
    lead: float
    """By how much the largest of one half of a row is above that of the other, in the row where it
    is most; the less of both halves."""


@runtime_checkable
class WatchedReference(Protocol):
    """A reference that says how far the arguments of its exponentials go."""

    def find_reach(self, inputs: Mapping[str, Array]) -> Reach:
        """In a run in float64."""
