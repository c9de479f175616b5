"""The tools of the loop: what a model may do, and the short texts that it gets back.

Law: a tool answers with text whatever it is given; only our own or the machine's failure raises. No
two judgements of an episode use the same seed, so inputs can't be learned from answers. A kernel
that is sent again unchanged is told so, and not judged again.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from nki_agent.agent.ablation import ALL_TOOLS, SUBMIT, Ablation, Tool
from nki_agent.agent.answers import (
    Draft,
    first_fault,
    write_look,
    write_same,
    write_table,
    write_verdict,
)
from nki_agent.agent.archive import Archive, Kept
from nki_agent.agent.brief import sum_up
from nki_agent.agent.cards import look_up
from nki_agent.agent.fixes import find_fix
from nki_agent.agent.judging import Judging
from nki_agent.agent.library import Library
from nki_agent.agent.outlines import write_outline
from nki_agent.agent.repeats import Earlier, Repeats, name_kernel
from nki_agent.agent.tool_specs import (
    KERNELS_MAX,
    ProfileArguments,
    QueryArguments,
    ShowArguments,
    SourceArguments,
    SourcesArguments,
    list_specs,
)
from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.seeds import seed_for
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import Target
from nki_agent.cost.summary import format_percent, format_summary
from nki_agent.llm.protocol import Json, ToolCall, ToolSpec
from nki_agent.task.declaration import PERF
from nki_agent.task.task import Scope
from nki_agent.verify.kernel import SOURCE_BYTES_MAX, Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Stage, Verdict

LADDER = tuple(Stage)
"""Stages from worst to best."""
SHOWN_BYTES_MAX = 6000
"""Of a kernel of the archive; a longer one is named only."""
SPECS = list_specs(ALL_TOOLS)
"""Every tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a tool call gave: the text for the model, and how far its kernel came."""

    text: str
    stage: Stage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A kernel that the model has shown; without a stage it compiles and was never judged."""

    source: str
    name: str
    stage: Stage | None
    latency_ns: float | None = None

    @property
    def rank(self) -> tuple[float, float]:
        """How far it came, then how fast it is. What may be right is better than what is wrong."""
        if self.stage is None:
            return LADDER.index(Stage.RIGHT) - 0.5, 0.0
        speed = 0.0 if self.latency_ns is None else -self.latency_ns
        return LADDER.index(self.stage), speed


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """What a model may read beside our own cards."""

    archive: Archive | None = None
    docs: Library | None = None
    """The user's own documentation."""


NOTHING = Shelf()


class Toolbox:
    """The tools for one task, and the drafts that went through them."""

    HAS_SUBMIT: ClassVar[bool] = True
    """Whether the calls are one episode, which `submit` ends and in which a kernel is known."""

    def __init__(
        self,
        judging: Judging,
        *,
        target: Target,
        root_seed: int,
        tools: Sequence[Tool] = ALL_TOOLS,
        shelf: Shelf = NOTHING,
        surface: Surface = Surface.NKI,
    ) -> None:
        """Let `judging` judge drafts; every seed comes from `root_seed`.

        `find_kernels` is offered only where there is an archive with something in it.
        """
        self._surface = surface
        self.submitted: str | None = None
        """What the model handed in, once it has."""
        self._judging = judging
        self._target = target
        self._root_seed = root_seed
        self._shelf = shelf
        self._shown: list[Shown] = []
        self._judgements = 0
        self._repeats = Repeats()
        self._tools = tuple(t for t in tools if t is not Tool.FIND or shelf.archive)
        every: Mapping[Tool, Callable[[Json], Awaitable[Answer]]] = {
            Tool.COMPILE: self._compile,
            Tool.VERIFY: self._verify,
            Tool.VERIFY_MANY: self._verify_many,
            Tool.PROFILE: self._profile,
            Tool.SHOW: self._show,
            Tool.LOOK_UP: self._look_up,
            Tool.FIND: self._find,
        }
        self._calls: dict[str, Callable[[Json], Awaitable[Answer]]] = {
            tool.value: every[tool] for tool in self._tools
        }
        if self._calls and self.HAS_SUBMIT:
            self._calls[SUBMIT] = self._submit

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        return list_specs(self._tools)

    def restrict(self, ablation: Ablation) -> Ablation:
        """The same with the tools that are really offered, for the prompt."""
        return msgspec.structs.replace(ablation, tools=self._tools)

    @property
    def seeks_speed(self) -> bool:
        """Whether a right kernel is not yet all that is wanted."""
        return False

    @property
    def best(self) -> str | None:
        """The submitted kernel, else of those that came furthest the fastest, then the latest."""
        if self.submitted is not None:
            return self.submitted
        if not self._shown:
            return None
        return max(reversed(self._shown), key=lambda shown: shown.rank).source

    async def call(self, call: ToolCall) -> Answer:
        """Do what a model asked for."""
        if call.name not in self._calls:
            near = difflib.get_close_matches(call.name, self._calls, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"tools: {', '.join(self._calls)}"
            return Answer(text=f"There is no tool `{call.name}`; {hint}")
        try:
            return await self._calls[call.name](call.arguments)
        except msgspec.ValidationError as error:
            taken = next(spec for spec in self.specs if spec.name == call.name).parameters
            names = ", ".join(f"`{name}`" for name in taken["properties"])
            return Answer(text=f"Arguments of `{call.name}` don't fit: {error}. It takes {names}.")

    async def judge(self, source: str, *, purpose: str) -> Verdict:
        """The full verdict on a seed that only this purpose has."""
        seed = seed_for(self._root_seed, purpose)
        return await self._judging.judge(Kernel.from_text(source), root_seed=seed)

    async def take_text(self, source: str) -> Answer:
        """A kernel that came as text: judged as far as the tools go, and a right one is handed in.

        Without tools there is nothing to tell, and it is handed in as it is.
        """
        if Tool.VERIFY in self._tools:
            answer = await self.verify(source)
        elif Tool.COMPILE in self._tools:
            return await self._compile_source(source)
        else:
            answer = Answer(text="", stage=Stage.RIGHT)
        if answer.stage is Stage.RIGHT:
            self.submitted = source
        return answer

    async def verify(self, source: str) -> Answer:
        """A draft's verdict as text."""
        if same := self._find_same(source, Tool.VERIFY):
            return same
        verdict = await self._judge_next(source)
        draft = await self._note(source, Tool.VERIFY, verdict.stage, verdict.diagnostics)
        self._remember(source, verdict.stage, latency_ns=verdict.latency_ns)
        return Answer(text=self._write(verdict, draft), stage=verdict.stage)

    def _write(self, verdict: Verdict, draft: Draft) -> str:
        """What a model reads of a verdict."""
        return write_verdict(verdict, draft)

    def _write_look(self, found: Look, draft: Draft) -> str:
        """What a model reads of a look."""
        return write_look(found, draft)

    def _write_same(self, earlier: Earlier, draft: Draft) -> str:
        """What a model reads when it sends a kernel again."""
        return write_same(earlier, draft)

    async def _judge_next(self, source: str) -> Verdict:
        self._judgements += 1
        return await self.judge(source, purpose=f"verify {self._judgements}")

    def _remember(
        self, source: str, stage: Stage | None, *, latency_ns: float | None = None
    ) -> None:
        """The last kernel is this one; what was known of its text stays known."""
        name = name_kernel(source)
        old = next((shown for shown in reversed(self._shown) if shown.name == name), None)
        if old is not None and (stage is None or stage is old.stage):
            stage, latency_ns = old.stage, latency_ns or old.latency_ns
        self._shown.append(Shown(source=source, name=name, stage=stage, latency_ns=latency_ns))

    async def _note(
        self,
        source: str,
        tool: Tool,
        stage: Stage | None,
        diagnostics: Sequence[Diagnostic],
    ) -> Draft:
        """Remember a result, and gather what makes its answer better."""
        is_failed = stage not in (None, Stage.RIGHT)
        fault = first_fault(diagnostics) if is_failed else None
        times = self._repeats.add(source, tool, stage, fault)
        fix = None
        if stage is Stage.REFUSED:
            fix = await asyncio.to_thread(
                find_fix, source, target=self._target, surface=self._surface
            )
        draft = self._plain(source)
        return replace(draft, fix="" if fix is None else str(fix), times=times)

    def _find_same(self, source: str, tool: Tool) -> Answer | None:
        earlier = self._repeats.find(source, tool)
        if earlier is None:
            return None
        self._remember(source, earlier.stage)
        return Answer(text=self._write_same(earlier, self._plain(source)), stage=earlier.stage)

    async def _compile(self, arguments: Json) -> Answer:
        source = self._find_source(arguments)
        return NO_SOURCE if source is None else await self._compile_source(source)

    async def _compile_source(self, source: str) -> Answer:
        if same := self._find_same(source, Tool.COMPILE):
            return same
        found = await self._look_at(source)
        draft = await self._note(source, Tool.COMPILE, found.stage, found.diagnostics)
        return Answer(text=self._write_look(found, draft), stage=found.stage)

    async def _verify(self, arguments: Json) -> Answer:
        source = self._find_source(arguments)
        return NO_SOURCE if source is None else await self.verify(source)

    async def _verify_many(self, arguments: Json) -> Answer:
        sources = list(dict.fromkeys(msgspec.convert(arguments, SourcesArguments).sources))
        if not sources:
            return NO_SOURCE
        if len(sources) > KERNELS_MAX:
            raise msgspec.ValidationError(f"at most {KERNELS_MAX} kernels in one call")
        for source in sources:
            _require_size(source)
        verdicts = await asyncio.gather(*map(self._judge_next, sources))
        order = sorted(range(len(sources)), key=lambda index: _rank(verdicts[index]))
        drafts = {}
        for index in reversed(order):
            verdict, source = verdicts[index], sources[index]
            drafts[index] = await self._note(
                source, Tool.VERIFY, verdict.stage, verdict.diagnostics
            )
            self._remember(source, verdict.stage, latency_ns=verdict.latency_ns)
        best = order[0]
        lines = write_table(verdicts, order)
        known = "; a call without `source` means it" if self.HAS_SUBMIT else ""
        lines.append(f"Best: #{best + 1}{known}.")
        text = "\n".join((*lines, write_verdict(verdicts[best], drafts[best])))
        return Answer(text=text, stage=verdicts[best].stage)

    async def _profile(self, arguments: Json) -> Answer:
        asked = msgspec.convert(arguments, ProfileArguments)
        source = self._take_source(asked.source)
        if source is None:
            return NO_SOURCE
        scope = Scope.CLAIM if asked.shapes == PERF else Scope.PROOF
        found = await self._look_at(source, scope=scope)
        if found.summary is None:
            return Answer(text=write_look(found, self._plain(source)), stage=found.stage)
        return Answer(text=f"{format_summary(found.summary)}\n{NEXT_SPEED}{self._end}.")

    async def _show(self, arguments: Json) -> Answer:
        asked = msgspec.convert(arguments, ShowArguments)
        source = self._take_source(asked.source)
        if source is None:
            return NO_SOURCE
        found = await self._look_at(source)
        if found.outline is None:
            text = write_look(found, self._plain(source))
            return Answer(text=f"There is no Program yet.\n{text}", stage=found.stage)
        lines = [write_outline(found.outline, found.summary, line=asked.line)]
        if found.stage is not None:
            lines.append(write_look(found, self._plain(source)))
        else:
            then = ", then verify" if Tool.VERIFY in self._tools else ""
            lines.append(f"Next: compare shapes and offsets with what you meant{then}.")
        return Answer(text="\n".join(lines), stage=found.stage)

    async def _look_up(self, arguments: Json) -> Answer:
        query = msgspec.convert(arguments, QueryArguments).query
        found = look_up(query, target=self._target, surface=self._surface, docs=self._shelf.docs)
        return Answer(text=f"{found}\n{NEXT_KERNEL}")

    async def _find(self, arguments: Json) -> Answer:
        assert self._shelf.archive is not None
        query = msgspec.convert(arguments, QueryArguments).query
        has_cards = Tool.LOOK_UP in self._tools
        return Answer(text=_write_kept(query, self._shelf.archive.find(query), has_cards=has_cards))

    async def _submit(self, arguments: Json) -> Answer:
        source = self._find_source(arguments)
        if source is None:
            return NO_SOURCE
        self.submitted = source
        return Answer(text="Submitted. It is judged on fresh inputs now.")

    async def _look_at(self, source: str, *, scope: Scope = Scope.PROOF) -> Look:
        found = await self._judging.look(Kernel.from_text(source), scope=scope)
        self._remember(source, found.stage)
        return found

    @property
    def _end(self) -> str:
        return ", and verify again" if Tool.VERIFY in self._tools else ", and profile it again"

    def _plain(self, source: str) -> Draft:
        return Draft(
            source=source,
            target=self._target if self._surface is Surface.NKI else None,
            has_verify=Tool.VERIFY in self._tools,
            has_profile=Tool.PROFILE in self._tools,
            has_submit=self.HAS_SUBMIT,
        )

    def _find_source(self, arguments: Json) -> str | None:
        return self._take_source(msgspec.convert(arguments, SourceArguments).source)

    def _take_source(self, source: str | None) -> str | None:
        """The kernel that is given, else the last one that was."""
        if source is not None:
            _require_size(source)
            return source
        return self._shown[-1].source if self._shown else None


NEXT_SPEED = "Next: change what the longest line of the chain waits for"
NEXT_KERNEL = "Next: write it into the kernel and send the whole kernel."
NO_SOURCE = Answer(text="No kernel was sent yet: pass the whole kernel file as `source`.")


def _require_size(source: str) -> None:
    if len(source) > SOURCE_BYTES_MAX:
        raise msgspec.ValidationError(f"a kernel is over {SOURCE_BYTES_MAX} bytes")


def _rank(verdict: Verdict) -> tuple[int, float]:
    """Best first: how far it came, then how fast it is."""
    latency = verdict.latency_ns if verdict.latency_ns is not None else float("inf")
    return -LADDER.index(verdict.stage), latency


def _write_kept(query: str, found: Sequence[Kept], *, has_cards: bool) -> str:
    if not found:
        asked = sum_up(query.strip(), max_bytes=80)
        others = "; `look_up` shows worked patterns" if has_cards else ""
        return f"No kernel here fits `{asked}`{others}."
    first, *more = found
    lines = [f"{_name(kernel)}" for kernel in found]
    if len(first.source.encode()) <= SHOWN_BYTES_MAX:
        lines.append(f"```python\n{first.source.strip()}\n```")
    if more:
        lines.append("Ask with an id to read another one.")
    lines.append("Next: take its structure over, not its sizes; every limit is checked anyway.")
    return "\n".join(lines)


def _name(kernel: Kept) -> str:
    speed = ""
    if kernel.percent_of_bound is not None:
        speed = f", {format_percent(kernel.percent_of_bound)} % of its bound"
    return f"{kernel.id}  {kernel.task}{speed}: {kernel.about}"
