"""An episode killed at any moment goes on where it was: no turn is paid twice, none lost."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from nki_agent.agent.episode import End, Episode, Limits, Mode
from nki_agent.agent.loop import solve
from nki_agent.agent.past import begin_or_go_on, hold
from nki_agent.agent.prompt import make_prompt
from nki_agent.agent.tools import Toolbox
from nki_agent.agent.trajectory import (
    Event,
    Finished,
    Started,
    ToolRun,
    Trajectory,
    Turn,
    read_trajectory,
)
from nki_agent.base.clock import FakeClock
from nki_agent.base.errors import UsageError
from nki_agent.chip.spec import Target
from nki_agent.llm.protocol import Message, Reply, StopReason, TokenLimits, ToolSpec, Usage
from nki_agent.llm.recorded import RecordedModel, read_recording
from nki_agent.llm.scripted import ScriptedCall, ScriptedModel, ScriptedReply
from nki_agent.task.task import Scope, Task
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import Kernel
from nki_agent.verify.look import Look
from nki_agent.verify.verdict import Verdict
from tests.agent.tiny import REFUSED, RIGHT, WRONG

PRICE = Usage(input_tokens=100, output_tokens=10, cached_tokens=40)


def call(*sources: str, tool: str = "verify_kernel") -> ScriptedReply:
    calls = tuple(ScriptedCall(name=tool, arguments={"source": s}) for s in sources)
    return ScriptedReply(tool_calls=calls, usage=PRICE)


SCRIPT = (
    call(REFUSED, WRONG),
    ScriptedReply(text=f"In words:\n\n```python\n{WRONG}```\n", usage=PRICE),
    ScriptedReply(text="Let me think.", usage=PRICE),
    call(RIGHT, tool="submit"),
)


class KilledError(BaseException):
    """The process is gone: nothing more is written."""


class Mortal(Trajectory):
    """Dies at the n-th write: before it, in its middle, or after it."""

    def __init__(self, path: Path, *, at: int, when: str) -> None:
        super().__init__(path, clock=FakeClock())
        self.left, self.when, self.is_dead = at, when, False

    def add(self, event: Event) -> None:
        if self.is_dead:
            raise KilledError
        self.left -= 1
        self.is_dead = self.left == 0
        if self.is_dead and self.when == "before":
            raise KilledError
        super().add(event)
        if self.is_dead and self.when in ("within", "unended"):
            assert self.path is not None
            lines = self.path.read_bytes().splitlines(keepends=True)
            kept = len(lines[-1]) // 2 if self.when == "within" else -1
            self.path.write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
        if self.is_dead:
            raise KilledError


class Counting(ScriptedModel):
    """Counts what it was asked, over all processes."""

    asked = 0

    async def reply(
        self, messages: Sequence[Message], *, tools: Sequence[ToolSpec], limits: TokenLimits
    ) -> Reply:
        type(self).asked += 1
        return await super().reply(messages, tools=tools, limits=limits)


class Remembering:
    """The real judge, asked once for each question."""

    def __init__(self, judge: Judge, task: Task) -> None:
        self.judge_, self.task = judge, task
        self.verdicts: dict[tuple[str, int], Verdict] = {}

    async def look(self, kernel: Kernel, *, scope: Scope = Scope.PROOF) -> Look:
        return self.judge_.look(kernel, self.task.looked_at(scope))

    async def judge(self, kernel: Kernel, *, root_seed: int, scope: Scope = Scope.PROOF) -> Verdict:
        key = kernel.hash, root_seed
        if key not in self.verdicts:
            self.verdicts[key] = self.judge_.judge(
                kernel, self.task, root_seed=root_seed, scope=scope
            )
        return self.verdicts[key]


@pytest.fixture(scope="module")
def judging(task: Task, judge: Judge) -> Remembering:
    return Remembering(judge, task)


def start(
    trajectory: Trajectory,
    model: ScriptedModel | RecordedModel,
    judging: Remembering,
    **limits: object,
) -> Episode:
    bounds = Limits(**limits)  # type: ignore[arg-type]
    prompt = make_prompt(judging.task, target=Target.TRN2, mode=Mode.LOOP, limits=bounds)
    started = Started(
        at=trajectory.now(),
        task=judging.task.id,
        task_hash=judging.task.hash,
        model="counting",
        mode=Mode.LOOP,
        target="trn2",
        prompt_hash=prompt.hash,
    )

    begin_or_go_on(trajectory, started)

    async def run() -> Episode:
        return await solve(
            prompt,
            model,
            Toolbox(judging, target=Target.TRN2, root_seed=7),
            limits=bounds,
            clock=FakeClock(),
            trajectory=trajectory,
        )

    return asyncio.run(run())


def strip(events: Sequence[Event]) -> list[Event]:
    """What happened, without when and how long."""
    kept: list[Event] = []
    for event in events:
        match event:
            case Started():
                kept.append(msgspec.structs.replace(event, at=""))
            case Turn():
                kept.append(msgspec.structs.replace(event, at="", model_ms=0.0))
            case ToolRun():
                kept.append(msgspec.structs.replace(event, wall_ms=0.0))
            case Finished():
                kept.append(msgspec.structs.replace(event, at="", wall_ms=0.0))
    return kept


@pytest.fixture(scope="module")
def whole(judging: Remembering, tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    path = tmp_path_factory.mktemp("whole") / "trajectory.jsonl"
    episode = start(Trajectory(path, clock=FakeClock()), Counting(SCRIPT), judging)
    assert episode.end is End.SOLVED
    return strip(read_trajectory(path))


def test_whole_episode_has_nine_writes(whole: list[Event]) -> None:
    kinds = "".join(type(event).__name__[0] for event in whole)
    assert kinds == "STTTTTTTF"


@pytest.mark.parametrize("when", ["before", "within", "unended", "after"])
@pytest.mark.parametrize("at", range(1, 10))
def test_killed_episode_goes_on_and_ends_alike(
    at: int, when: str, whole: list[Event], judging: Remembering, tmp_path: Path
) -> None:
    path = tmp_path / "trajectory.jsonl"
    Counting.asked = 0
    with pytest.raises(KilledError):
        start(Mortal(path, at=at, when=when), Counting(SCRIPT), judging)
    paid = sum(isinstance(event, Turn) for event in read_trajectory(path)) if path.exists() else 0
    # Only the reply whose own line was not written is lost: nothing can be done before.
    lost = Counting.asked - paid
    assert lost == int(when in ("before", "within") and isinstance(whole[at - 1], Turn))
    Counting.asked = 0
    episode = start(Trajectory(path, clock=FakeClock()), Counting(SCRIPT), judging)
    assert Counting.asked == len(SCRIPT) - paid
    assert (episode.end, episode.kernel, episode.turns) == (End.SOLVED, RIGHT, 4)
    assert episode.usage == PRICE + PRICE + PRICE + PRICE
    events = strip(read_trajectory(path))
    assert [e for e in events if not isinstance(e, Finished)] == whole[:-1]
    assert events[-1] == whole[-1]


def test_recording_gives_the_same_episode(
    whole: list[Event], judging: Remembering, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    told = start(Trajectory(first, clock=FakeClock()), Counting(SCRIPT), judging)
    recorded = RecordedModel(read_recording(first), name="recorded/a")
    again = start(Trajectory(second, clock=FakeClock()), recorded, judging)
    assert (again.kernel, again.verdict, again.end) == (told.kernel, told.verdict, told.end)
    assert again.usage == Usage()


def test_recording_of_another_prompt_names_the_difference(
    judging: Remembering, tmp_path: Path
) -> None:
    path = tmp_path / "a.jsonl"
    start(Trajectory(path, clock=FakeClock()), Counting(SCRIPT), judging)
    recorded = RecordedModel(read_recording(path), name="recorded/a")
    episode = start(Trajectory(None, clock=FakeClock()), recorded, judging, turns=4)
    assert episode.end is End.MODEL_ERROR
    assert "turn 1 is not as it was recorded in `recorded/a`: message 1 (system), line" in (
        episode.message
    )


def test_other_prompt_or_model_begins_anew_and_keeps_the_old(
    judging: Remembering, tmp_path: Path
) -> None:
    path = tmp_path / "trajectory.jsonl"
    with pytest.raises(KilledError):
        start(Mortal(path, at=4, when="after"), Counting(SCRIPT), judging)
    Counting.asked = 0
    start(Trajectory(path, clock=FakeClock()), Counting(SCRIPT), judging, turns=4)
    assert Counting.asked == 4
    assert (tmp_path / "trajectory.jsonl.old-1").exists()


def test_second_process_is_kept_out_of_a_run(tmp_path: Path) -> None:
    refused = pytest.raises(UsageError, match="another process works on the run")
    with hold(tmp_path), refused, hold(tmp_path):
        pass
    with hold(tmp_path):
        pass


@pytest.mark.parametrize(
    ("limits", "end", "asked"),
    [
        ({"total_tokens": 0}, End.TOKENS, 0),
        ({"usd": 0.0}, End.BUDGET, 0),
        ({"total_tokens": 110}, End.TOKENS, 1),
    ],
)
def test_task_limit_is_checked_before_each_reply(
    limits: dict[str, float], end: End, asked: int, judging: Remembering
) -> None:
    Counting.asked = 0
    script = (call(REFUSED), call(RIGHT))
    episode = start(Trajectory(None, clock=FakeClock()), Counting(script), judging, **limits)
    assert (episode.end, episode.turns, Counting.asked) == (end, asked, asked)


def test_cut_off_reply_is_told_so_and_its_half_kernel_is_not_judged(judging: Remembering) -> None:
    cut = ScriptedReply(text=f"```python\n{RIGHT}```\nand then", stop=StopReason.LENGTH)
    model = Counting([cut, call(RIGHT, tool="submit")])
    path_free = Trajectory(None, clock=FakeClock())
    seen: list[Event] = []
    path_free.add = seen.append  # type: ignore[method-assign, assignment]
    episode = start(path_free, model, judging)
    assert episode.end is End.SOLVED
    turns = [event for event in seen if isinstance(event, Turn)]
    assert "cut off at its limit of 16384 tokens" in turns[1].sent[0].content


def test_episode_that_is_over_is_read_again_and_nothing_asked(
    judging: Remembering, tmp_path: Path
) -> None:
    path = tmp_path / "trajectory.jsonl"
    told = start(Trajectory(path, clock=FakeClock()), Counting((call(REFUSED),)), judging)
    assert (told.end, told.turns) == (End.MODEL_ERROR, 2)
    before = path.read_bytes()
    Counting.asked = 0
    again = start(Trajectory(path, clock=FakeClock()), Counting(SCRIPT), judging)
    assert Counting.asked == 0
    assert (again.end, again.message, again.turns) == (told.end, told.message, told.turns)
    assert (again.kernel, again.verdict) == (told.kernel, told.verdict)
    assert path.read_bytes() == before
