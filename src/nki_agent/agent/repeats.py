"""What an episode has seen before: the same kernel again, the same fault again and again.

Law: kernels are the same when they differ in blanks at line ends and empty lines only; faults when
code and words are the same and only numbers differ. Who sees a repeat answers it differently.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from nki_agent.agent.ablation import Tool
from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.hashes import hash_text
from nki_agent.verify.verdict import Stage

OFTEN = 3
"""Times after which a fault is no slip: the rule and a worked pattern are shown."""
_NUMBER = re.compile(r"[-+]?\d[\d.e+-]*")
SETTLED = frozenset({Stage.CHEAT, Stage.REFUSED, Stage.UNTRACEABLE, Stage.UNFIT})
"""Stages that every tool finds alike, since no values are needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What a kernel got when it was sent before."""

    call: int
    tool: Tool
    stage: Stage | None
    fault: Diagnostic | None


class Repeats:
    """Kernels and faults of one episode."""

    def __init__(self) -> None:
        """Nothing is seen yet."""
        self._calls = 0
        self._kernels: dict[str, Earlier] = {}
        self._faults = Counter[tuple[str, str]]()

    def find(self, source: str, tool: Tool) -> Earlier | None:
        """The earlier result that this tool would only repeat."""
        earlier = self._kernels.get(name_kernel(source))
        if earlier is None or earlier.stage in SETTLED or earlier.tool is tool:
            return earlier
        return None

    def add(self, source: str, tool: Tool, stage: Stage | None, fault: Diagnostic | None) -> int:
        """Note a result; how often its fault has been seen, this time included."""
        self._calls += 1
        name = name_kernel(source)
        earlier = self._kernels.get(name)
        if earlier is None or tool is Tool.VERIFY or earlier.tool is not Tool.VERIFY:
            self._kernels[name] = Earlier(call=self._calls, tool=tool, stage=stage, fault=fault)
        if fault is None:
            return 0
        key = fault.code, _NUMBER.sub("#", fault.what)
        self._faults[key] += 1
        return self._faults[key]


def name_kernel(source: str) -> str:
    """A hash that two texts share where they are the same kernel."""
    lines = (line.rstrip() for line in source.splitlines())
    return hash_text("\n".join(line for line in lines if line))
