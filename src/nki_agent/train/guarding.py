"""Whose fault it is when libraries of training fail: the folder's that was named, or the machine's.

Law: these libraries say by many kinds of errors, and in many lines, that a file is not what it
should be or that the disk is full; a user gets one line and an exit code that tells them apart.
What is none of these travels up as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch
from safetensors import SafetensorError

from nki_agent.base.errors import MachineError, UsageError
from nki_agent.base.writing import SHORTAGES, path_error

_NO_MEMORY: Final = ("can't allocate memory", "not enough memory", "out of memory")
_BAD_FILES: Final = (
    AttributeError,
    ImportError,
    KeyError,
    OSError,
    RuntimeError,
    SafetensorError,
    TypeError,
    ValueError,
)
"""What libraries raise for broken files, or for files that don't belong together."""
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")
"""How safetensors, which is written in Rust, says what the operating system said."""
_TORCH_WRITER: Final = ("PytorchStreamWriter", "inline_container.cc")
"""What writes files of `torch.save`; it does not say what the operating system said."""


def is_memory(error: BaseException) -> bool:
    """Whether it says that the memory does not suffice."""
    text = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and any(words in text for words in _NO_MEMORY)
    )


@contextmanager
def loading(what: str, *, hint: str = "") -> Iterator[None]:
    """The block loads files that the user named.

    Raises:
        UsageError: they are not what they should be.
        MachineError: the disk fails.
    """
    try:
        yield
    except _BAD_FILES as error:
        if is_memory(error):
            raise
        if isinstance(error, OSError) and error.errno in SHORTAGES:
            raise path_error(f"load {what}", error) from error
        name = "" if isinstance(error, OSError | ValueError) else f"{type(error).__name__}: "
        raise UsageError(f"{what} cannot be loaded: {name}{_first_line(error)}", hint=hint) from (
            error
        )


@contextmanager
def saving(what: str) -> Iterator[None]:
    """The block writes to a folder that the user named.

    Raises:
        UsageError: it cannot be written to.
        MachineError: the disk is full or fails; what was whole before is whole.
    """
    try:
        yield
    except OSError as error:
        raise path_error(f"write {what}", error) from error
    except (SafetensorError, RuntimeError) as error:
        found = _OS_ERROR.search(str(error))
        if found is not None:
            cause = OSError(int(found[1]), os.strerror(int(found[1])))
            raise path_error(f"write {what}", cause) from error
        if any(words in str(error) for words in _TORCH_WRITER):
            raise MachineError(f"cannot write {what}: the disk is full or fails") from error
        raise


def _first_line(error: BaseException) -> str:
    lines = (line.strip() for line in str(error).splitlines())
    return next((line for line in lines if line), type(error).__name__)
