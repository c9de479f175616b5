"""`nki-agent run SCRIPT`: runs the user's own script with our `nki` in place of the vendor's."""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from nki_agent.base.bounded import UnreadableError, read_text
from nki_agent.base.errors import NkiAgentError, UsageError
from nki_agent.nki.current.modules import installed
from nki_agent.runtime.launch import launching
from nki_agent.runtime.ranks import launching_ranks
from nki_agent.runtime.settings import SIMULATOR_VARIABLE, read_settings
from nki_agent.runtime.simulator import simulator_installed

EXIT_FAILED = 1
SCRIPT_BYTES_MAX = 16 << 20


def run_script(path: Path, args: Sequence[str], *, is_eager: bool = False) -> int:
    """Run a script as `python SCRIPT ARGS` would and give its exit code.

    A kernel's fault is printed as a diagnostic; any other exception of the script as its traceback.
    With `is_eager`, tiles have values while a kernel runs.

    Raises:
        UsageError: The script cannot be read or is not Python, or the environment names a target
            that does not exist.
    """
    target = read_settings().target
    try:
        code = compile(read_text(path, SCRIPT_BYTES_MAX), str(path), "exec")
    except UnreadableError as error:
        raise UsageError(
            f"cannot read `{path}`: it {error}", hint="name a Python script"
        ) from error
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"`{path}` is not Python: {error}") from error
    main = ModuleType("__main__")
    main.__file__ = str(path)
    try:
        with (
            _as_main(main, [str(path), *args], path.resolve().parent),
            installed(target) as modules,
            simulator_installed(modules),
            launching(is_eager=is_eager),
            launching_ranks(),
        ):
            exec(code, main.__dict__)
    except SystemExit as error:
        return _exit_code(error)
    except NkiAgentError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the script's own stderr
        return EXIT_FAILED
    except Exception as error:  # noqa: BLE001 - the user's script; its traceback is the answer
        _print_traceback(error)
        return EXIT_FAILED
    return 0


@contextmanager
def _as_main(main: ModuleType, arguments: list[str], folder: Path) -> Iterator[None]:
    """What a script finds when Python starts it, and that kernels are simulated."""
    saved = sys.argv, sys.path[:], sys.modules["__main__"]
    before = os.environ.get(SIMULATOR_VARIABLE)
    sys.argv = arguments
    sys.path.insert(0, str(folder))
    sys.modules["__main__"] = main
    os.environ[SIMULATOR_VARIABLE] = "1"
    try:
        yield
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = saved[0], saved[1], saved[2]
        os.environ.pop(SIMULATOR_VARIABLE)
        if before is not None:
            os.environ[SIMULATOR_VARIABLE] = before


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    print(error.code, file=sys.stderr)  # noqa: T201 - as Python does
    return EXIT_FAILED


def _print_traceback(error: Exception) -> None:
    linecache.checkcache()
    trace = error.__traceback__
    if trace is not None and trace.tb_next is not None:
        trace = trace.tb_next  # our own frame
    traceback.print_exception(type(error), error, trace)
