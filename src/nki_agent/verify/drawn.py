"""Inputs of trials and what the reference makes of them, kept while kernels share task and seed.

Law: what is kept is what would be drawn and computed anew, and cannot be written. Nothing is kept
of a task and root seed that come once, so a verdict on a seed of its own costs no memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from numpy.typing import NDArray

from nki_agent.task.task import Task
from nki_agent.task.trial import Trial, expected

Arrays = Mapping[str, NDArray[Any]]
PAIRS_MAX: Final = 4
"""Pairs of a task and a root seed: a training step has few tasks at a time."""
KEPT_BYTES_MAX: Final = 64 << 20
"""Of all arrays together; what does not fit is made anew each time."""


@dataclass(slots=True)
class _Pair:
    """One task and root seed."""

    task: Task
    has_come_before: bool = False
    kept: dict[tuple[str, Trial], Arrays] = field(default_factory=dict)
    num_bytes: int = 0


class Drawn:
    """The trials of the last pairs of a task and a root seed."""

    def __init__(self) -> None:
        """Nothing yet."""
        self._pairs: OrderedDict[tuple[int, int], _Pair] = OrderedDict()

    def begin(self, task: Task, root_seed: int) -> None:
        """Say whose trials are asked for from now on."""
        # A pair holds its task, so no other task has the number of one that is known.
        key = (id(task), root_seed)
        pair = self._pairs.pop(key, None)
        if pair is None:
            pair = _Pair(task)
        else:
            pair.has_come_before = True
        self._pairs[key] = pair
        while len(self._pairs) > PAIRS_MAX:
            self._pairs.popitem(last=False)

    def inputs(self, trial: Trial) -> Arrays:
        """The arguments of a trial."""
        return self._find("inputs", trial, trial.inputs)

    def expected(self, trial: Trial, inputs: Arrays) -> Arrays:
        """What the reference makes of the trial's inputs; it may have run for an earlier kernel."""
        return self._find(
            "expected", trial, lambda task: expected(task, inputs, shapes=trial.shapes)
        )

    def _find(self, what: str, trial: Trial, make: Callable[[Task], Arrays]) -> Arrays:
        pair = next(reversed(self._pairs.values()))
        found = pair.kept.get((what, trial))
        if found is None:
            found = make(pair.task)
            if pair.has_come_before:
                self._keep(pair, (what, trial), found)
        return found

    def _keep(self, pair: _Pair, key: tuple[str, Trial], arrays: Arrays) -> None:
        num_bytes = sum(array.nbytes for array in arrays.values())
        held = sum(other.num_bytes for other in self._pairs.values())
        if held + num_bytes > KEPT_BYTES_MAX:
            return
        # Copies: a reference may give an array that its file goes on to use.
        kept = {name: array.copy() for name, array in arrays.items()}
        for array in kept.values():
            array.setflags(write=False)
        pair.kept[key] = kept
        pair.num_bytes += num_bytes
