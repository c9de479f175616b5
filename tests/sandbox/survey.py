"""Runs every escape as an ordinary user, in a process of its own that prints what came of it.

Usage: python -m tests.sandbox.survey full | no-bubblewrap | no-landlock | bare
"""

import functools
import os
import subprocess
import sys

import msgspec

from nki_agent.base.errors import MachineError
from nki_agent.sandbox.pool import Outcome, Status
from tests.cheats.escape import read_escapes
from tests.sandbox.ordinary import become_ordinary, lose_landlock, lose_seccomp
from tests.sandbox.starting import run_source, start_sandbox
from tests.source import ROOT

LATE_IMPORT = "import colorsys; return colorsys.__name__"
OPEN_LIBRARY = "return len(open(os.__file__).read()) > 0"


class Survey(msgspec.Struct):
    """What an ordinary user met."""

    skipped: str = ""
    refused: str = ""
    status: Status = Status(())
    outcomes: dict[str, Outcome] = {}


@functools.cache
def read_survey(machine: str) -> Survey:
    """What a process of its own found on this machine or a lesser one."""
    command = [sys.executable, "-m", "tests.sandbox.survey", machine]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()
    return msgspec.msgpack.decode(run.stdout, type=Survey)


def survey(machine: str) -> Survey:
    """Try every escape, as an ordinary user, on this machine or a lesser one."""
    if os.geteuid() == 0:
        try:
            become_ordinary()
        except OSError as error:
            return Survey(skipped=str(error))
    if machine in ("no-landlock", "bare"):
        lose_landlock()
    if machine == "bare":
        lose_seccomp()
    if machine == "no-bubblewrap":
        os.environ["PATH"] = ""
    found = Survey()
    try:
        start_sandbox().close()
    except MachineError as error:
        found.refused = str(error)
    with start_sandbox(allow_unsandboxed=True) as sandbox:
        found.status = sandbox.status
        found.outcomes["echo"] = run_source(sandbox, "return b'right'")
        if machine != "bare":
            for name, body in (("late import", LATE_IMPORT), ("read library", OPEN_LIBRARY)):
                found.outcomes[name] = run_source(sandbox, body)
            for escape in read_escapes():
                outcome = sandbox.run(escape.source.encode(), limits=escape.limits)
                found.outcomes[escape.name] = outcome
        found.outcomes["echo after"] = run_source(sandbox, "return b'right'")
    return found


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.msgpack.encode(survey(sys.argv[1])))
