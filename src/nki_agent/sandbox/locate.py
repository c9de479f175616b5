"""Where a fresh Python finds this package and the libraries that it is to import.

Law: the import path of the warmed process is made here and not inherited: the trusted process may
have the user's own folder on its path, with the task file in it.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

OWN_PACKAGE: Final = __name__.split(".", maxsplit=1)[0]
ALWAYS_NEEDED: Final = ("msgspec",)

PASSED_ON: Final = ("LD_LIBRARY_PATH", "PYTHONHOME")
"""The only variables that are inherited: without them some Pythons do not start."""
FIXED: Final = {
    "LC_ALL": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
}
"""Equal traces in every process, and no thread, which a fork would lose."""


def make_environment() -> dict[str, str]:
    """The whole environment of the warmed process."""
    return FIXED | {name: os.environ[name] for name in PASSED_ON if name in os.environ}


def find_import_paths(modules: Iterable[str], *, extra: Iterable[str]) -> tuple[str, ...]:
    """Folders of this package, of those of `modules`, and of what they import; `extra` last."""
    names = {name.split(".", maxsplit=1)[0] for name in (*ALWAYS_NEEDED, *modules)}
    found = [str(Path(__file__).resolve().parents[2])]
    for name in sorted(names - {OWN_PACKAGE} - sys.stdlib_module_names):
        found += _homes_of(name)
    installed = [sysconfig.get_path(kind) for kind in ("purelib", "platlib")]
    return tuple(
        dict.fromkeys([*found, *installed, *(str(Path(path).absolute()) for path in extra)])
    )


def _homes_of(package: str) -> Iterator[str]:
    """Where a top-level package is; nowhere if it is not installed."""
    spec = find_spec(package)
    if spec is None:
        return
    places = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
    yield from (str(Path(place).absolute().parent) for place in places)
