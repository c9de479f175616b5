"""Calls a task file's inputs function under a seed.

The function may take `rng` (a NumPy Generator) or `seed` (an integer); otherwise the global
generators of NumPy, Python and PyTorch are seeded around the call and put back after it.
"""

from __future__ import annotations

import contextlib
import inspect
import random  # noqa: TID251 - user code may draw from it, so it is seeded around the call
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nki_agent.base.errors import TaskError
from nki_agent.base.seeds import rng_for
from nki_agent.task.userfile import ONE_AT_A_TIME, UserFile

_NUMPY_SEED_LIMIT = 2**32
_INJECTED = ("rng", "seed")


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators inside the block, and restore them after it.

    PyTorch has one thread there: small fills only wait for a pool.
    """
    torch: Any = sys.modules.get("torch")
    python_state = random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002 - user code draws from the legacy generator
    torch_state, threads = None, 1
    if torch is not None:
        torch_state, threads = torch.get_rng_state(), torch.get_num_threads()
    random.seed(seed)
    np.random.seed(seed % _NUMPY_SEED_LIMIT)  # noqa: NPY002, TID251 - as above
    if torch is not None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002 - as above
        if torch is not None:
            torch.set_rng_state(torch_state)
            torch.set_num_threads(threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputsFunction:
    """The inputs function of a task file."""

    user: UserFile
    function: Callable[..., object]
    takes: frozenset[str]

    def __call__(self, seed: int) -> dict[str, Any] | tuple[Any, ...]:
        """The values of one call: by name if the function gives a mapping, else in order."""
        given: dict[str, object] = {"rng": rng_for(seed, "inputs"), "seed": seed}
        chosen = {name: given[name] for name in self.takes}
        with ONE_AT_A_TIME, seeded(seed), self.user.running(f"`{self.function.__name__}()`"):
            values = self.function(**chosen)
        if isinstance(values, Mapping):
            return dict(values)
        if isinstance(values, list | tuple):
            return tuple(values)
        raise TaskError(
            f"{self.user.path.name}: `{self.function.__name__}()` gives a "
            f"{type(values).__name__}, not a list, a tuple or a dict",
            hint="return the forward arguments in order: `return [x, y]`",
        )


def make_inputs_function(user: UserFile, function: Callable[..., object]) -> InputsFunction:
    """Look at what the function can be given.

    Raises:
        TaskError: it needs a parameter that we cannot give.
    """
    takes: set[str] = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in _INJECTED:
            takes.add(parameter.name)
        elif parameter.default is parameter.empty and parameter.kind not in {
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        }:
            raise TaskError(
                f"{user.path.name}: `{function.__name__}()` needs `{parameter.name}`",
                hint="it may take `rng` (a NumPy Generator), `seed`, or nothing",
            )
    return InputsFunction(user=user, function=function, takes=frozenset(takes))
