"""What a command needs of the process it runs in: a folder to be in, and somewhere to answer."""

from __future__ import annotations

import os
import sys


def find_lack() -> str | None:
    """What is missing, for people; seen before numeric libraries end the process without a word."""
    try:
        os.getcwd()  # noqa: PTH109 - the question itself; a Path would ask it too
    except OSError as error:
        return f"the current folder cannot be used: {error.strerror}; change to another one"
    if sys.stdout is None:
        return "standard output is closed, so there is nowhere to answer"
    return None
