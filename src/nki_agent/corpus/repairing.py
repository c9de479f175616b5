"""Repair episodes: a right kernel gets one fault, is judged, and is mended by its diagnostic.

Law: the fault is a fault only if the judge says so; one that leaves the kernel right is discarded
and counted. What the assistant learns is the diagnosis and the mended kernel, never the faulty one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from nki_agent.agent.improving import Goal, Start
from nki_agent.agent.repeats import SETTLED
from nki_agent.base.seeds import rng_for, seed_for
from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import Draft, Kind, train_all
from nki_agent.corpus.desk import Desk
from nki_agent.corpus.episodes import Setting, Told, tell
from nki_agent.corpus.faults.fault import FaultFamily
from nki_agent.corpus.faults.planting import Planted, list_drafts
from nki_agent.corpus.record import CorpusTask, Solution
from nki_agent.corpus.telling import FIRST, MENDED, Finding, pick, read_finding, tell_repair
from nki_agent.llm.protocol import (
    Message,
    Reply,
    Role,
    StopReason,
    TokenLimits,
    ToolCall,
    ToolSpec,
)
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.verdict import Stage, Verdict

DRAFTS_MAX: Final = 6
"""Faults that are tried for one episode; nearly all of them are faults."""
STARTED_SHARE: Final = 0.5
"""Of the episodes: those that begin with the user's faulty kernel and its verdict."""
COMPILED_SHARE: Final = 0.3
"""Of the others: those that compile first, where that finds the fault."""


@dataclass(slots=True, kw_only=True)
class Repairs:
    """The episodes of one task, and what was discarded."""

    drafts: list[Draft]
    discarded: Counter[str]
    """`still right: <fault>` → how often."""


class Mender:
    """A Model that knows what was planted; what it says comes from the answers that it gets."""

    def __init__(
        self, planted: Planted, right: str, *, first_tool: str | None, rng: np.random.Generator
    ) -> None:
        """With no `first_tool` the faulty kernel is the user's, and the first turn mends it."""
        self._planted = planted
        self._right = right
        self._first_tool = first_tool
        self._rng = rng

    @property
    def name(self) -> str:
        """What the records call it."""
        return "planted"

    async def reply(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[ToolSpec],
        limits: TokenLimits,
    ) -> Reply:
        """Show the faulty kernel, mend it, hand it in."""
        del tools, limits
        said = [m for m in messages if m.role is Role.ASSISTANT]
        turn = len(said) + (self._first_tool is None)
        if turn == 0:
            assert self._first_tool is not None
            return call(self._first_tool, 1, pick(FIRST, self._rng), source=self._planted.source)
        if turn == 1:
            finding = read_finding(messages[-1].content)
            if finding is None:
                return Reply(text="It has no fault.", stop=StopReason.REFUSAL)
            return call("verify_kernel", len(said) + 1, self._explain(finding), source=self._right)
        return call("submit", len(said) + 1, pick(MENDED, self._rng))

    def _explain(self, finding: Finding) -> str:
        return tell_repair(
            finding,
            self._planted.cause,
            faulty=self._planted.source,
            right=self._right,
            rng=self._rng,
        )


def call(tool: str, number: int, text: str, **arguments: object) -> Reply:
    """A reply with one call."""
    made = ToolCall(id=f"{tool}-{number}", name=tool, arguments=arguments)
    return Reply(text=text, tool_calls=(made,), stop=StopReason.TOOL_CALLS)


def make_repairs(
    row: CorpusTask, solution: Solution, *, number: int, root_seed: int, desk: Desk
) -> Repairs:
    """Episodes for one task, each with a fault of another family, by chance of the task's id."""
    found = Repairs(drafts=[], discarded=Counter())
    task, target = desk.open(row), Target(solution.target)
    order = rng_for(root_seed, row.id, "families").permutation(len(FaultFamily))
    families = [tuple(FaultFamily)[index] for index in order]
    for place in range(number):
        rng = rng_for(root_seed, row.id, "repair", place)
        seed = seed_for(root_seed, row.id, "repair", place)
        wanted = families[place % len(families)]
        used = {draft.fault for draft in found.drafts}
        for planted in islice(list_drafts(solution.kernel, rng, first=wanted), DRAFTS_MAX):
            name = f"{planted.fault.family.value}/{planted.fault.name}"
            if name in used:
                continue
            verdict = desk.judge_for(target).judge(
                Kernel.from_text(planted.source), task, root_seed=seed
            )
            if verdict.right:
                found.discarded[f"still right: {planted.fault.name}"] += 1
                continue
            setting = Setting(
                task=task, target=target, root_seed=seed, start=_choose_start(planted, verdict, rng)
            )
            tool = _choose_tool(setting, verdict, rng)
            mender = Mender(planted, solution.kernel, first_tool=tool, rng=rng)
            draft = _draft(tell(setting, mender, desk), solution.kernel, is_shown=tool is not None)
            if draft is None:
                found.discarded[f"no clear finding: {planted.fault.name}"] += 1
                continue
            found.drafts.append(msgspec.structs.replace(draft, number=place, fault=name))
            break
    return found


def _choose_start(planted: Planted, verdict: Verdict, rng: np.random.Generator) -> Start | None:
    if rng.random() >= STARTED_SHARE:
        return None
    return Start(goal=Goal.FIX, source=planted.source, verdict=verdict)


def _choose_tool(setting: Setting, verdict: Verdict, rng: np.random.Generator) -> str | None:
    """Where the faulty kernel is sent first; None where the user has it."""
    if setting.start is not None:
        return None
    is_settled = verdict.stage in SETTLED
    return "compile_kernel" if is_settled and rng.random() < COMPILED_SHARE else "verify_kernel"


def _draft(told: Told, right: str, *, is_shown: bool) -> Draft | None:
    """The row, if the faulty kernel was refused there and the mended one is right twice."""
    stages = told.stages
    if not told.episode.is_solved or not stages or stages[-1] != Stage.RIGHT.value:
        return None
    if is_shown and (len(stages) == 1 or stages[0] == Stage.RIGHT.value):
        return None
    trained = list(train_all(told.messages))
    if is_shown:
        trained[trained.index(True)] = False
    return Draft(
        kind=Kind.REPAIR,
        author="builtin",
        messages=told.messages,
        tools=told.tools,
        trained=tuple(trained),
        prompt_hash=told.prompt_hash,
        kernel=right,
        stages=told.stages,
    )
