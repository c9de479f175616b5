"""The module `nki_cpu_simulator`: the name under which tests of libraries look for a simulator.

`cpu_simulate(kernel)[lnc](**inputs)` runs a kernel on `lnc` cores. The module also has the parts of
`nki` under its own name, as code that imports it in place of `nki` expects.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from nki_agent.nki.current.jit import Kernel

NAME = "nki_cpu_simulator"


class Simulated:
    """A kernel to be called with arrays."""

    def __init__(self, kernel: Kernel) -> None:
        """Take a kernel on the cores that it is launched on."""
        self._kernel = kernel

    def __getitem__(self, lnc: object) -> Simulated:
        """The same on `lnc` cores."""
        return Simulated(self._kernel[lnc])

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Run it on NumPy arrays or torch CPU tensors."""
        return self._kernel(*args, **inputs)


def cpu_simulate(kernel: Any) -> Simulated:
    """A callable for a kernel, decorated or not."""
    return Simulated(kernel if isinstance(kernel, Kernel) else Kernel(kernel))


@contextmanager
def simulator_installed(nki_modules: Mapping[str, ModuleType]) -> Iterator[None]:
    """Lend the name `nki_cpu_simulator` to imports inside the block."""
    root = nki_modules["nki"]
    module = ModuleType(NAME, cpu_simulate.__doc__)
    module.__path__ = []
    module.__dict__.update({n: v for n, v in vars(root).items() if not n.startswith("__")})
    module.__dict__["cpu_simulate"] = cpu_simulate
    lent = {NAME: module}
    lent |= {NAME + n.removeprefix("nki"): m for n, m in nki_modules.items() if n != "nki"}
    saved = {name: sys.modules[name] for name in lent if name in sys.modules}
    sys.modules.update(lent)
    try:
        yield
    finally:
        for name in lent:
            sys.modules.pop(name, None)
        sys.modules.update(saved)
