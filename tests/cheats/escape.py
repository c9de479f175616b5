"""An escape as a kernel file: its first lines say what it tries and the end that it must have.

`ESCAPE` is what `run()` tries, `END` the kind of outcome, `SAYS` a pattern that its detail must
hold (the word `refused` stands for what Linux says where something is not permitted), `LIMITS` a
name of `LIMITS` below where it is not `usual`, `MACHINE` the only type of machine where it has a
form.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from nki_agent.sandbox.outcome import Limits, Outcome, OutcomeKind
from tests.sandbox import starting

FOLDER = Path(__file__).parent / "escapes"
REFUSED = "(PermissionError|Operation not permitted|Permission denied)"
LIMITS = {
    "usual": starting.LIMITS,
    "short": Limits(seconds=0.4, cpu_seconds=5, memory_bytes=512 << 20, result_bytes=1 << 20),
    "one CPU second": Limits(seconds=20.0, cpu_seconds=1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Escape:
    """One file of `escapes/`."""

    name: str
    what: str
    source: str
    end: OutcomeKind
    says: str
    limits: Limits

    def check(self, outcome: Outcome) -> None:
        """Assert that it ended as it must."""
        assert outcome.kind is self.end, (self.name, outcome)
        assert outcome.data == b""
        assert re.search(self.says, outcome.detail), (self.name, outcome)


def read_escape(path: Path) -> tuple[Escape, str]:
    """Read a file and its header; with it the type of machine that it is for, or nothing."""
    text = path.read_text(encoding="utf-8")
    head = {"LIMITS": "usual", "MACHINE": ""}
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line.removeprefix("# ").partition(": ")
        head[key] = value
    escape = Escape(
        name=path.stem,
        what=head["ESCAPE"],
        source=text,
        end=OutcomeKind(head["END"]),
        says=re.sub(r"\brefused\b", REFUSED, head["SAYS"]),
        limits=LIMITS[head["LIMITS"]],
    )
    return escape, head["MACHINE"]


def read_escapes() -> list[Escape]:
    """Every file of `escapes/` that has a form on this machine, by name."""
    read = [read_escape(path) for path in sorted(FOLDER.glob("*.py"))]
    return [escape for escape, machine in read if machine in ("", platform.machine())]
