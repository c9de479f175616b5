"""Reads a file that somebody named, which may be anything.

Law: reading ends. A device or a pipe is refused before it is read, except where a pipe is meant;
no more bytes than the limit are kept, whatever size the file claims to have.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

TEXT_BYTES_MAX = 2 << 20
"""Of what a person writes: a config, a grammar, a description."""


class UnreadableError(Exception):
    """A text cannot be read; the message says why, and follows the file's name."""

    @property
    def is_missing(self) -> bool:
        """Whether there is no such file; to look again may raise for a path that can't be one."""
        return isinstance(self.__cause__, FileNotFoundError)

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return isinstance(self.__cause__, IsADirectoryError)


class TooLargeError(Exception):
    """The file holds more than the limit."""


class IrregularError(Exception):
    """The file is a device, a socket or a pipe."""


def read_bounded(path: Path, limit: int, *, takes_pipe: bool = False) -> bytes:
    """What the file holds.

    Raises:
        TooLargeError: It holds more than `limit` bytes.
        IrregularError: It is no file with an end.
        OSError: It cannot be read.
    """
    # Without a writer, opening a pipe would wait; where one is meant, that is right.
    waits = takes_pipe and path.is_fifo()
    flags = os.O_CLOEXEC | (0 if waits else os.O_NONBLOCK)
    with open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not (stat.S_ISREG(mode) or (takes_pipe and stat.S_ISFIFO(mode))):
            raise IrregularError(str(path))
        data = file.read(limit + 1)
    if len(data) > limit:
        raise TooLargeError(str(path))
    return data


def read_text(path: Path, limit: int = TEXT_BYTES_MAX, *, takes_pipe: bool = False) -> str:
    """The text of a file, without a mark of its encoding, its lines ending as Python's do.

    Raises:
        UnreadableError: It is no text of at most `limit` bytes.
    """
    try:
        text = read_bounded(path, limit, takes_pipe=takes_pipe).decode("utf-8-sig")
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except TooLargeError as error:
        raise UnreadableError(f"is larger than {limit} bytes") from error
    except IrregularError as error:
        kinds = "neither a regular file nor a pipe" if takes_pipe else "no regular file"
        raise UnreadableError(f"is {kinds}") from error
    except FileNotFoundError as error:
        raise UnreadableError("is not there") from error
    except IsADirectoryError as error:
        raise UnreadableError("is a folder") from error
    except UnicodeDecodeError as error:
        raise UnreadableError("is not text in UTF-8") from error
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UnreadableError(f"cannot be read: {error}") from error  # a zero byte in the path
