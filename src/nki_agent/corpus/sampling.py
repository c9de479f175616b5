"""Episodes of any model over a corpus, several for each task, of which the good ones are kept.

Law: an episode is on disk as it happens, so what is paid is not paid again; one that was stopped
goes on. What says nothing about the model (the machine, the provider, a budget) is no row and is
tried again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nki_agent.agent.episode import End, Limits
from nki_agent.agent.judging import FarmJudging, FaultError
from nki_agent.agent.past import STOPPED
from nki_agent.base.clock import Clock
from nki_agent.base.errors import MachineError, TaskError
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.base.linefile import LineFile
from nki_agent.base.seeds import seed_for
from nki_agent.builtin.author import BuiltinAuthor
from nki_agent.chip.spec import Target
from nki_agent.corpus.chat import SCHEMA, ChatRow, Kind, make_row
from nki_agent.corpus.choosing import choose_draft
from nki_agent.corpus.desk import Desk
from nki_agent.corpus.episodes import Setting, Told, tell_with
from nki_agent.corpus.making import Made
from nki_agent.corpus.record import CorpusTask, Solution
from nki_agent.corpus.solving import make_solution
from nki_agent.corpus.stored import require_own
from nki_agent.corpus.trajectories import LOG, Proofs
from nki_agent.farm.executor import Executor
from nki_agent.llm.choose import ModelSource
from nki_agent.program.records import Dialect
from nki_agent.task.task import Scope
from nki_agent.verify.kernel import Kernel

SAMPLES: Final = "samples"
"""Folder of the episodes below the corpus's."""
UNSAID: Final = STOPPED - {End.BUDGET}
"""Ends that say nothing about the model."""


@dataclass(slots=True, kw_only=True)
class Sampled:
    """How far the work is; given to who watches after each episode."""

    total: int
    done: int = 0
    right: int = 0
    rows: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    unpaid: str = ""
    """Why no more replies are paid, once the budget is used up."""


Watch = Callable[[Sampled], None]
Place = tuple[CorpusTask, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """One run of a model over tasks."""

    folder: Path
    tasks: Sequence[CorpusTask]
    """All of the corpus."""
    wanted: Sequence[CorpusTask]
    number: int
    """Episodes for each task."""
    target: Target
    root_seed: int
    model: str
    models: ModelSource
    limits: Limits
    executor: Executor
    files: Path
    """A folder for the tasks' files while they are judged."""
    clock: Clock

    async def carry_out(
        self, *, episodes: int, watch: Watch, warn: Callable[[str], object]
    ) -> Sampled:
        """Make every episode that the log does not hold yet, `episodes` at a time."""
        hashes = {task.id: task.sha256 for task in self.tasks}
        known: dict[tuple[str, str], Made] = {}

        def note(made: Made, place: int) -> None:
            del place
            require_own((made,), hashes, path=self.folder / LOG)
            if made.source:
                known[made.task, made.source] = made

        with (
            LineFile(self.folder / LOG, Made, schema=SCHEMA, note=note, warn=warn) as log,
            Proofs(self.folder, warn=warn) as proofs,
        ):
            found = Sampled(total=len(self.wanted) * self.number)
            places = list(self._list_places())
            for row, number in places:
                if (made := known.get((row.id, self._source(number)))) is not None:
                    _count(found, made)
            gate = asyncio.Semaphore(episodes)
            run = _Run(self, log, proofs, found, watch)
            async with asyncio.TaskGroup() as group:
                for row, number in places:
                    if (row.id, self._source(number)) in known:
                        continue
                    await gate.acquire()
                    if found.unpaid:
                        break
                    task = group.create_task(run.make(row, number))
                    task.add_done_callback(lambda _: gate.release())
        return found

    def _list_places(self) -> Iterator[Place]:
        for number in range(self.number):
            for row in self.wanted:
                yield row, number

    def _source(self, number: int) -> str:
        return f"{self.model}/{number}"

    def find_path(self, row: CorpusTask, number: int) -> Path:
        """Where an episode is kept."""
        return (
            self.folder / SAMPLES / short_hash(hash_text(self.model)) / f"{row.id}-{number}.jsonl"
        )


class _Run:
    """What the episodes of one run share."""

    def __init__(
        self,
        sampling: Sampling,
        log: LineFile[Made],
        proofs: Proofs,
        found: Sampled,
        watch: Watch,
    ) -> None:
        self._sampling = sampling
        self._log = log
        self._proofs = proofs
        self._found = found
        self._watch = watch
        self._desk = Desk()
        self._loading = asyncio.Lock()

    async def make(self, row: CorpusTask, number: int) -> None:
        """One episode and its line; what is not the model's doing is noted."""
        try:
            told, judging = await self._tell(row, number)
        except (MachineError, TaskError, FaultError) as error:
            self._found.failed[f"{row.id}/{number}"] = " ".join(str(error).split())
            return
        if told.episode.end in UNSAID:
            if told.episode.end is End.RUN_BUDGET:
                self._found.unpaid = told.episode.message
            else:
                self._found.failed[f"{row.id}/{number}"] = told.episode.message
            return
        made = await self._choose(row, number, told, judging)
        self._proofs.add(made.proofs)
        self._log.append(made)
        _count(self._found, made)
        self._watch(self._found)

    async def _tell(self, row: CorpusTask, number: int) -> tuple[Told, FarmJudging]:
        sampling = self._sampling
        async with self._loading:
            task = await asyncio.to_thread(self._desk.open, row)
        file = sampling.files / f"{row.id}.py"
        if not file.exists():
            file.write_text(row.source, encoding="utf-8")
        judging = FarmJudging(executor=sampling.executor, task=file, target=sampling.target)
        path = sampling.find_path(row, number)
        path.parent.mkdir(parents=True, exist_ok=True)
        setting = Setting(
            task=task,
            target=sampling.target,
            root_seed=seed_for(sampling.root_seed, row.id, sampling.model, number),
            limits=sampling.limits,
        )
        model = sampling.models.make_model(
            make_builtin=lambda: BuiltinAuthor(task, target=sampling.target)
        )
        told = await tell_with(setting, model, judging, clock=sampling.clock, path=path)
        return told, judging

    async def _choose(self, row: CorpusTask, number: int, told: Told, judging: FarmJudging) -> Made:
        sampling = self._sampling
        draft, why = choose_draft(told, author=sampling.model, number=number)
        proofs: tuple[Solution, ...] = ()
        episode = told.episode
        if draft is not None and draft.kernel and episode.verdict is not None:
            look = await judging.look(Kernel.from_text(draft.kernel), scope=Scope.CLAIM)
            proof = make_solution(
                row, draft.kernel, episode.verdict, author=sampling.model, look=look
            )
            proofs = (proof,)
        rows: tuple[ChatRow, ...] = ()
        if draft is not None:
            made = make_row(row, draft, dialect=Dialect.CURRENT.value, target=sampling.target.value)
            rows = (made,)
        return Made(
            task=row.id,
            task_sha256=row.sha256,
            kind=Kind.SAMPLED,
            source=f"{sampling.model}/{number}",
            root_seed=sampling.root_seed,
            rows=rows,
            proofs=proofs,
            skipped={} if draft is not None else {why: 1},
        )


def _count(found: Sampled, made: Made) -> None:
    found.done += 1
    for row in made.rows:
        found.rows[row.kind.value] += 1
        found.right += row.kind is Kind.SAMPLED
    for why, times in made.skipped.items():
        found.skipped[why] += times
