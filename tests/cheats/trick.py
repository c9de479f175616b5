"""A trick as a kernel file: its first lines say what it does and which outcome it must have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nki_agent.verify.kernel import MAIN_NAME, Kernel
from nki_agent.verify.verdict import Stage

FOLDER = Path(__file__).parent / "kernels"
TASKS = FOLDER.parent / "tasks"
CONTROL = "honest"
"""Kernels whose name begins so must be right, and no other."""
SOFTMAX = "softmax"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A stage, and the code of a finding that the verdict must hold (`-` for none)."""

    stage: Stage
    code: str


@dataclass(frozen=True, slots=True)
class Trick:
    """One file of `kernels/`."""

    name: str
    what: str
    outcome: Outcome
    """What the judge must say."""
    behind: Outcome
    """What it must say where the checker of the source finds nothing."""
    kernel: Kernel
    task: str
    """The file of `tasks/` that it is for; `softmax` is the task of other rooms' tests."""

    @property
    def is_honest(self) -> bool:
        """Whether it is a control, which must be right."""
        return self.outcome.stage is Stage.RIGHT


def read_trick(path: Path) -> Trick:
    """Read a file and its header."""
    text = path.read_text(encoding="utf-8")
    head = {}
    for line in text.splitlines():
        if not line.startswith("# "):
            break
        key, _, value = line.removeprefix("# ").partition(": ")
        head[key] = value
    return Trick(
        name=path.stem,
        what=head["TRICK"],
        outcome=Outcome(Stage(head["STAGE"]), head["CODE"]),
        behind=Outcome(Stage(head["BEHIND STAGE"]), head["BEHIND CODE"]),
        kernel=Kernel({MAIN_NAME: text}, MAIN_NAME),
        task=head.get("TASK", SOFTMAX),
    )


def read_tricks() -> list[Trick]:
    """Every file of `kernels/`, by name."""
    return [read_trick(path) for path in sorted(FOLDER.glob("*.py"))]
