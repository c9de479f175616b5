"""The tools of the loop: what a model may do, and the short texts that it gets back.

Law: a tool answers with text whatever it is given; only our own or the machine's failure raises. No
two judgements of an episode use the same seed, so inputs can't be learned from answers.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nki_agent.agent.answers import write_look, write_verdict
from nki_agent.agent.cards import look_up
from nki_agent.agent.judging import Judging
from nki_agent.agent.library import Library
from nki_agent.base.seeds import seed_for
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cost.summary import format_summary
from nki_agent.llm.protocol import Json, ToolCall, ToolSpec
from nki_agent.verify.kernel import SOURCE_BYTES_MAX, Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Stage, Verdict

COMPILE = "compile_kernel"
VERIFY = "verify_kernel"
PROFILE = "profile_kernel"
LOOK_UP = "look_up"
SUBMIT = "submit"
LADDER = tuple(Stage)
"""Stages from worst to best."""


class SourceArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of the tools that take a kernel; without one, the last one that was sent."""

    source: str | None = None


class QueryArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `look_up`."""

    query: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool call gave: the text for the model, and how far its kernel came."""

    text: str
    stage: Stage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A kernel that the model has shown; without a stage it compiles and was never judged."""

    source: str
    stage: Stage | None

    @property
    def rank(self) -> float:
        """How far it came. What may be right is better than what is wrong."""
        if self.stage is None:
            return LADDER.index(Stage.RIGHT) - 0.5
        return LADDER.index(self.stage)


class Toolbox:
    """The tools for one task, and the drafts that went through them."""

    def __init__(
        self,
        judging: Judging,
        *,
        target: Target,
        root_seed: int,
        surface: Surface = Surface.NKI,
        docs: Library | None = None,
    ) -> None:
        """Let `judging` judge drafts; every seed comes from `root_seed`."""
        self._surface = surface
        self._docs = docs
        self.submitted: str | None = None
        """What the model handed in, once it has."""
        self._judging = judging
        self._target = target
        self._root_seed = root_seed
        self._drafts: list[Draft] = []
        self._judgements = 0
        self._calls: Mapping[str, Callable[[Json], Awaitable[Answer]]] = {
            COMPILE: self._compile,
            VERIFY: self._verify,
            PROFILE: self._profile,
            LOOK_UP: self._look_up,
            SUBMIT: self._submit,
        }

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        return SPECS

    @property
    def best(self) -> str | None:
        """The submitted kernel, else the latest of those that came furthest."""
        if self.submitted is not None:
            return self.submitted
        if not self._drafts:
            return None
        return max(reversed(self._drafts), key=lambda draft: draft.rank).source

    async def call(self, call: ToolCall) -> Answer:
        """Do what a model asked for."""
        if call.name not in self._calls:
            near = difflib.get_close_matches(call.name, self._calls, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"tools: {', '.join(self._calls)}"
            return Answer(text=f"There is no tool `{call.name}`; {hint}")
        try:
            return await self._calls[call.name](call.arguments)
        except msgspec.ValidationError as error:
            return Answer(text=f"Arguments of `{call.name}` don't fit: {error}")

    async def judge(self, source: str, *, purpose: str) -> Verdict:
        """The full verdict on a seed that only this purpose has."""
        seed = seed_for(self._root_seed, purpose)
        return await self._judging.judge(Kernel.from_text(source), root_seed=seed)

    async def verify(self, source: str) -> Answer:
        """A draft's verdict as text."""
        self._judgements += 1
        verdict = await self.judge(source, purpose=f"verify {self._judgements}")
        self._drafts.append(Draft(source=source, stage=verdict.stage))
        return Answer(text=write_verdict(verdict), stage=verdict.stage)

    async def _compile(self, arguments: Json) -> Answer:
        source = self._find_source(arguments)
        if source is None:
            return NO_SOURCE
        found = await self._look_at(source)
        return Answer(text=write_look(found), stage=found.stage)

    async def _verify(self, arguments: Json) -> Answer:
        source = self._find_source(arguments)
        return NO_SOURCE if source is None else await self.verify(source)

    async def _profile(self, arguments: Json) -> Answer:
        source = self._find_source(arguments)
        if source is None:
            return NO_SOURCE
        found = await self._look_at(source)
        if found.summary is None:
            return Answer(text=write_look(found), stage=found.stage)
        return Answer(text=f"{format_summary(found.summary)}\n{NEXT_SPEED}")

    async def _look_up(self, arguments: Json) -> Answer:
        query = msgspec.convert(arguments, QueryArguments).query
        text = look_up(query, target=self._target, surface=self._surface, docs=self._docs)
        return Answer(text=text)

    async def _submit(self, arguments: Json) -> Answer:
        source = self._find_source(arguments)
        if source is None:
            return NO_SOURCE
        self.submitted = source
        return Answer(text="Submitted. It is judged on fresh inputs now.")

    async def _look_at(self, source: str) -> Look:
        found = await self._judging.look(Kernel.from_text(source))
        known = {draft.source: draft.stage for draft in self._drafts}
        self._drafts.append(Draft(source=source, stage=found.stage or known.get(source)))
        return found

    def _find_source(self, arguments: Json) -> str | None:
        source = msgspec.convert(arguments, SourceArguments).source
        if source is not None:
            if len(source) > SOURCE_BYTES_MAX:
                raise msgspec.ValidationError(f"`source` is over {SOURCE_BYTES_MAX} bytes")
            return source
        return self._drafts[-1].source if self._drafts else None


NEXT_SPEED = "Next: change what the longest line of the chain waits for, and verify again."
NO_SOURCE = Answer(text="No kernel was sent yet: pass the whole kernel file as `source`.")


def _object(properties: Mapping[str, Any], *, required: Sequence[str] = ()) -> Json:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


_SOURCE = _object(
    {"source": {"type": "string", "description": "The whole kernel file. Left out: the last one."}}
)
SPECS: tuple[ToolSpec, ...] = (
    ToolSpec(
        name=COMPILE,
        description="Check and trace a kernel and lay out its memory, without running it.",
        parameters=_SOURCE,
    ),
    ToolSpec(
        name=VERIFY,
        description="Judge a kernel: all of compile_kernel, then its values against the reference"
        " on fresh inputs, then its estimated latency.",
        parameters=_SOURCE,
    ),
    ToolSpec(
        name=PROFILE,
        description="Say where a kernel's time goes: engines, DMA, what bounds it.",
        parameters=_SOURCE,
    ),
    ToolSpec(
        name=LOOK_UP,
        description="Look up an instruction, operator, limit or diagnostic code.",
        parameters=_object(
            {"query": {"type": "string", "description": "A name, a code, or a few words."}},
            required=("query",),
        ),
    ),
    ToolSpec(
        name=SUBMIT,
        description="Hand in the kernel and end. It is judged again on fresh inputs.",
        parameters=_SOURCE,
    ),
)
