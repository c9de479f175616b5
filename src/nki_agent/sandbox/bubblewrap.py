"""bubblewrap around the warmed process: an outer ring, paid for once and not for each kernel.

Law: inside, the file system holds Python, its libraries and what is imported, all read-only, and an
empty /tmp; there is no network and no other process to be seen. It is used where a trial with the
same arguments works; where not, the reason is told and the other layers stand as they are.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from nki_agent.sandbox.locate import make_environment
from nki_agent.sandbox.outcome import Layer, LayerState

TRIAL_SECONDS: Final = 10.0
TEXT_CHARACTERS: Final = 200
INFO_BYTES: Final = 1 << 16
SYSTEM_LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
KEPT_BY_ROOT: Final = ("CAP_SETUID", "CAP_SETGID", "CAP_KILL")
"""To give each run a uid of its own, and to end it."""
ISOLATION: Final = (
    *("--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-pid", "--as-pid-1"),
    *("--die-with-parent", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/"),
)


def make_arguments(program: str, import_paths: Iterable[str]) -> list[str]:
    """What starts a program inside, up to the program itself."""
    arguments = [program, *ISOLATION]
    if os.geteuid() == 0:
        for capability in KEPT_BY_ROOT:
            arguments += ["--cap-add", capability]
    for path in dict.fromkeys([*SYSTEM_LIBRARIES, *_python_paths(), *import_paths]):
        arguments += ["--ro-bind-try", path, path]
    return arguments


@functools.cache
def find_ring(import_paths: tuple[str, ...]) -> tuple[str | None, LayerState]:
    """The program, if it works here with these folders, and the state of the layer."""
    program = shutil.which("bwrap")
    if program is None:
        return None, LayerState(Layer.BUBBLEWRAP, active=False, detail="bwrap is not installed")
    command = [*make_arguments(program, import_paths), python_program(), "-S", "-c", "pass"]
    try:
        trial = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=make_environment(),
            timeout=TRIAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, LayerState(Layer.BUBBLEWRAP, active=False, detail=str(error))
    if trial.returncode != 0:
        said = trial.stderr.decode(errors="replace").strip()[-TEXT_CHARACTERS:]
        detail = said or f"ended with status {trial.returncode}"
        return None, LayerState(Layer.BUBBLEWRAP, active=False, detail=detail)
    detail = "own file system, processes and network around the warmed process"
    return program, LayerState(Layer.BUBBLEWRAP, active=True, detail=detail)


def python_program() -> str:
    """The real program behind `sys.executable`: links of a virtual environment are not inside."""
    return os.path.realpath(sys.executable)


def read_pid(info: int) -> int:
    """The process id, seen from outside, of what runs inside; 0 where nothing was told."""
    text = b""
    while chunk := os.read(info, INFO_BYTES):
        text += chunk
    try:
        return int(json.loads(text)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return 0


def _python_paths() -> list[str]:
    names = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    libraries = Path(sysconfig.get_config_var("LIBDIR") or "/usr/lib").glob("libpython*")
    return [python_program(), *(name for name in names if name), *map(str, libraries)]
