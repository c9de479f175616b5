"""Runs attacks in a process of its own and prints what came of it; `test_ordinary_user` reads that.

Usage: python -m tests.sandbox.survey full | no-landlock | bare
"""

import os
import sys

import msgspec

from nki_agent.base.errors import MachineError
from nki_agent.sandbox.pool import Outcome, Status
from tests.sandbox.attacks import ATTACKS, run_source, start_sandbox
from tests.sandbox.ordinary import become_ordinary, lose_landlock, lose_seccomp

LATE_IMPORT = "import colorsys; return colorsys.__name__"
OPEN_LIBRARY = "return len(open(os.__file__).read()) > 0"


class Survey(msgspec.Struct):
    """What an ordinary user met."""

    skipped: str = ""
    refused: str = ""
    status: Status = Status(())
    outcomes: dict[str, Outcome] = {}


def survey(machine: str) -> Survey:
    """Try every attack, as an ordinary user, on this machine or a lesser one."""
    if os.geteuid() == 0:
        try:
            become_ordinary()
        except OSError as error:
            return Survey(skipped=str(error))
    if machine in ("no-landlock", "bare"):
        lose_landlock()
    if machine == "bare":
        lose_seccomp()
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
            for attack in ATTACKS:
                outcome = sandbox.run(attack.source.encode(), limits=attack.limits)
                found.outcomes[attack.name] = outcome
        found.outcomes["echo after"] = run_source(sandbox, "return b'right'")
    return found


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.msgpack.encode(survey(sys.argv[1])))
