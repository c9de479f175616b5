"""Keeps NumPy's BLAS at one thread: farm workers are processes, and small tiles lose by threads.

Law: after `use_one_thread()` matrix products of this process run on the calling thread, and so do
those of the processes that it starts. No package is needed: the environment serves a NumPy that is
not loaded yet, and OpenBLAS, once loaded, is asked through its own C function.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# NumPy's wheels prefix the names of their OpenBLAS; builds with 64-bit indices add a suffix.
_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
)
_MAPS = Path("/proc/self/maps")


def use_one_thread() -> bool:
    """Set every BLAS of this process to one thread; says whether a loaded library was told."""
    for name in _VARIABLES:
        os.environ[name] = "1"
    told = [_set_threads(path) for path in _find_libraries()]
    return any(told)


def _find_libraries() -> set[Path]:
    return {path for path in (*_mapped_libraries(), *_bundled_libraries()) if path.is_file()}


def _mapped_libraries() -> Iterator[Path]:
    """OpenBLAS as this process has it loaded, wherever it came from (Linux)."""
    if not _MAPS.is_file():
        return
    for line in _MAPS.read_text(encoding="utf-8", errors="replace").splitlines():
        path = line.partition("/")
        if "openblas" in path[2].lower():
            yield Path("/" + path[2])


def _bundled_libraries() -> Iterator[Path]:
    """OpenBLAS in the folder that NumPy's wheels keep it in."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs"):
        if folder.is_dir():
            yield from folder.glob("*openblas*")


def _set_threads(path: Path) -> bool:
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return False
    for name in _SETTERS:
        setter = getattr(library, name, None)
        if setter is not None:
            setter(ctypes.c_int(1))
            return True
    return False
