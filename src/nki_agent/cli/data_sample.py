"""`nki-agent data sample DIR --model …`: another model's episodes, of which the good ones stay."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from nki_agent.agent.episode import Mode
from nki_agent.base.clock import SystemClock
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import rng_for
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.authoring import require_author
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.data_solve import Folder, Workers, choose_workers, note, open_tasks
from nki_agent.cli.data_trajectories import MaxTokens, Tokenizer, conclude
from nki_agent.cli.inputs import (
    COUNT_MAX,
    JSON_HELP,
    TARGET_HELP,
    UNSANDBOXED_HELP,
    Seed,
    Turns,
    read_target,
)
from nki_agent.cli.rate import Rate
from nki_agent.cli.screen import say
from nki_agent.cli.spending import Spending, takes_spending
from nki_agent.corpus.chat import make_counter
from nki_agent.corpus.publishing import TOKENS_MAX, publish
from nki_agent.corpus.record import CorpusTask
from nki_agent.corpus.sampling import Sampled, Sampling
from nki_agent.farm.local import LocalExecutor
from nki_agent.farm.wire import FarmLimits
from nki_agent.llm.choose import MODEL_HELP

NUMBER_HELP = "Episodes for each task."
TASKS_HELP = "So many tasks by chance; all if left out."
EPISODES_HELP = "Episodes at once; two a worker if left out."
EPISODES_PER_WORKER = 2


@takes_spending
def sample(
    folder: Folder,
    *,
    model: Annotated[str, typer.Option(help=MODEL_HELP)],
    n: Annotated[int, typer.Option("--n", min=1, max=COUNT_MAX, help=NUMBER_HELP)] = 1,
    tasks: Annotated[int | None, typer.Option(min=1, max=COUNT_MAX, help=TASKS_HELP)] = None,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    turns: Turns = None,
    tokenizer: Tokenizer = None,
    max_tokens: MaxTokens = TOKENS_MAX,
    workers: Workers = None,
    episodes: Annotated[int | None, typer.Option(min=1, max=COUNT_MAX, help=EPISODES_HELP)] = None,
    seed: Seed = None,
    spending: Spending,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> None:
    """Let a model work on the tasks of a corpus, and keep what is worth learning."""

    def begin() -> ExitCode:
        require_author(model, Surface.NKI)
        counter = make_counter(tokenizer)
        rows, broken = open_tasks(folder)
        clock, root_seed = SystemClock(), 0 if seed is None else seed
        count = choose_workers(workers)
        with ExitStack() as stack:
            limits = FarmLimits(allow_unsandboxed=allow_unsandboxed)
            executor = stack.enter_context(LocalExecutor(workers=count, limits=limits))
            models = stack.enter_context(spending.open_models(model, clock=clock))
            files = stack.enter_context(tempfile.TemporaryDirectory(prefix="nki-agent-tasks-"))
            sampling = Sampling(
                folder=folder,
                tasks=rows,
                wanted=choose_tasks(rows, tasks, root_seed=root_seed),
                number=n,
                target=read_target(target),
                root_seed=root_seed,
                model=model,
                models=models,
                limits=spending.make_limits(turns, mode=Mode.LOOP, surface=Surface.NKI),
                executor=executor,
                files=Path(files),
                clock=clock,
            )
            rate = Rate(clock=clock, noun="episodes")
            work = sampling.carry_out(
                episodes=episodes or count * EPISODES_PER_WORKER,
                watch=lambda s: _watch(rate, s),
                warn=note,
            )
            found = asyncio.run(models.drop_after(work))
        stats = publish(folder, rows, counter=counter, tokens_max=max_tokens)
        for why, times in found.skipped.most_common():
            say(f"no row    {times}  {clean(why)}")
        if found.unpaid:
            say(f"stopped   {clean(found.unpaid)}")
        code = conclude(folder, stats, failed=found.failed, broken=broken, as_json=as_json)
        return ExitCode.NOT_RIGHT if found.unpaid and code is ExitCode.RIGHT else code

    guard(begin)()


def choose_tasks(
    rows: Sequence[CorpusTask], number: int | None, *, root_seed: int
) -> tuple[CorpusTask, ...]:
    """So many tasks by chance, in their order.

    Raises:
        UsageError: The corpus has fewer.
    """
    if number is None:
        return tuple(rows)
    if number > len(rows):
        raise UsageError(f"`--tasks {number}`: the corpus has {len(rows)}")
    rng = rng_for(root_seed, "tasks to sample")
    return tuple(rows[i] for i in sorted(rng.choice(len(rows), size=number, replace=False)))


def _watch(rate: Rate, found: Sampled) -> None:
    rate.show(found.done, total=found.total, rest=f"; {found.right} right")
