"""`nki-agent bench run`: an author over the tasks of a suite."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from nki_agent.agent.archive import Kept, hash_archive, read_archive
from nki_agent.agent.episode import Mode
from nki_agent.agent.folder import make_run_folder
from nki_agent.agent.prompt import read_versions
from nki_agent.base.clock import SystemClock
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.bench.attempt import Attempt
from nki_agent.bench.baselines import Baseline
from nki_agent.bench.splits import find_split
from nki_agent.bench.suite import Suite, SuiteTask, builtin_suite, read_suite
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.ablating import Ablating, takes_ablation
from nki_agent.cli.authoring import (
    choose_level_turns,
    choose_seed,
    require_author,
)
from nki_agent.cli.budget import Searching, takes_search, widen
from nki_agent.cli.command import ExitCode, guard
from nki_agent.cli.inputs import (
    COUNT_MAX,
    JSON_HELP,
    TARGET_HELP,
    UNSANDBOXED_HELP,
    Seed,
    Turns,
    as_word,
    printable,
    read_targets,
)
from nki_agent.cli.outcome import paint_stage
from nki_agent.cli.screen import say, show, show_json
from nki_agent.cli.spending import Spending, require_price, takes_spending
from nki_agent.cli.writing_in import WritingIn, takes_writing_in
from nki_agent.evals.attempts import AttemptLog
from nki_agent.evals.config import EvalConfig, TaskRef, Versions
from nki_agent.evals.episode import describe_attempt
from nki_agent.evals.results import LINES, read_config, read_results
from nki_agent.evals.run import ATTEMPTS, Evaluation, Progress
from nki_agent.evals.spent import find_trajectories, read_spent
from nki_agent.evals.workshop import Author, LocalWorkshop, explain_no_baseline, find_baseline
from nki_agent.farm.executor import WORKERS_MAX
from nki_agent.farm.local import LocalExecutor
from nki_agent.farm.wire import FarmLimits
from nki_agent.llm.choose import BUILTIN as BUILTIN_MODEL
from nki_agent.llm.choose import MODEL_HELP, ModelSource, require_model
from nki_agent.llm.meter import Budget, Purse
from nki_agent.report.markdown import write_groups
from nki_agent.task.need_torch import need_torch

ALL_TASKS = "all"
DEFAULT_SPLIT = "smoke-12"
SPLIT_HELP = (
    "Which tasks: full-250, stratified-150, stratified-60, or smoke-12, which is taken if left out;"
    " of a suite, `all`."
)
SUITE_HELP = "A suite that `bench import` has written, in place of our own."
TRUST_HELP = "Run the suite's task files in this process; the built-in author needs to read them."
ARCHIVE_HELP = "Runs whose right kernels `find_kernels` shows, but to tasks they could answer."
EPISODES_HELP = "Episodes at once; two a worker if left out, of which one waits for its model."
EPISODES_PER_WORKER = 2


Targets = Annotated[str, typer.Option(help=f"{TARGET_HELP} Several: `trn2,trn3`.")]
RESUME_HELP = "Go on with this run; nothing else is read."
Resume = Annotated[Path | None, typer.Option(metavar="RUN", help=RESUME_HELP)]
Workers = Annotated[int | None, typer.Option(min=1, max=WORKERS_MAX, help="Judging processes.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What this machine gives to a run; not part of its config."""

    archive: Path | None
    workers: int | None
    episodes: int | None
    trusts: bool
    """Whether the files of the suite may run in this process."""
    as_json: bool


@takes_search
@takes_ablation
@takes_spending
@takes_writing_in
def run(
    *,
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = BUILTIN_MODEL,
    split: Annotated[str | None, typer.Option(help=SPLIT_HELP)] = None,
    suite: Annotated[Path | None, typer.Option(metavar="DIR", help=SUITE_HELP)] = None,
    task: Annotated[list[str] | None, typer.Option(help="One task by its id; repeatable.")] = None,
    target: Targets = DEFAULT_TARGET.value,
    mode: Annotated[Mode, typer.Option(help="With tools, or one answer without.")] = Mode.LOOP,
    turns: Turns = None,
    ablating: Ablating,
    archive: Annotated[Path | None, typer.Option(metavar="DIR", help=ARCHIVE_HELP)] = None,
    writing_in: WritingIn,
    samples: Annotated[int, typer.Option(min=1, max=COUNT_MAX, help="Attempts for each task.")] = 1,
    perf: Annotated[bool, typer.Option("--perf", help="Try right kernels at perf shapes.")] = False,
    seed: Seed = None,
    runs: Annotated[Path, typer.Option(help="Where the run's folder is made.")] = Path("runs"),
    resume: Resume = None,
    workers: Workers = None,
    spending: Spending,
    searching: Searching,
    episodes: Annotated[int | None, typer.Option(min=1, max=COUNT_MAX, help=EPISODES_HELP)] = None,
    trust_suite: Annotated[bool, typer.Option("--trust-suite", help=TRUST_HELP)] = False,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> None:
    """Let an author write kernels for the tasks of a suite, and score them."""
    machine = Machine(
        archive=archive, workers=workers, episodes=episodes, trusts=trust_suite, as_json=as_json
    )

    def begin() -> ExitCode:
        search, asked = searching.resolve(turns, model=model, mode=mode)
        kept = None if archive is None else read_archive(archive)
        chosen = _open_suite(suite, model, (surface := writing_in.resolve()), machine)
        config = EvalConfig(
            versions=make_versions(chosen, _find_baseline(chosen)),
            split=_name_split(split, suite=suite, task=task),
            tasks=_refer(choose_tasks(chosen, split=split, ids=task, is_own=suite is None)),
            model=model,
            mode=mode,
            targets=read_targets(target),
            samples=samples,
            surface=surface,
            limits=widen(spending.make_limits(asked, mode=mode, surface=surface), search),
            level_turns=choose_level_turns(asked, mode=mode, surface=surface),
            perf=perf,
            seed=choose_seed(seed, model),
            allow_unsandboxed=allow_unsandboxed,
            ablation=ablating.resolve(mode=mode),
            prompts=str(read_versions()),
            archive=None if kept is None else hash_archive(kept),
            tariff=spending.make_tariff(model),
            budget=spending.make_budget(),
            optimize=search,
        )
        return _carry_out(config, _make_folder(config, runs), chosen, machine, kept, config.budget)

    if resume is not None:
        guard(_resume)(resume, machine, suite=suite, spending=spending)
    guard(begin)()


def _make_folder(config: EvalConfig, runs: Path) -> Path:
    clock = SystemClock()
    return make_run_folder(
        runs, kind="evals", subject=config.split, config=config, clock=clock
    ).path


def _open_suite(folder: Path | None, model: str, surface: Surface, machine: Machine) -> Suite:
    """Our own suite, or that of the folder, if the author could begin with it."""
    require_author(model, surface)
    suite = builtin_suite() if folder is None else read_suite(folder)
    _require_trust(model, suite, machine)
    return suite


def _refer(tasks: tuple[SuiteTask, ...]) -> tuple[TaskRef, ...]:
    """What a config says of tasks; they are refused where this machine could load none of them."""
    need_torch(task.path for task in tasks)
    return tuple(TaskRef(id=t.id, level=t.level, category=t.category) for t in tasks)


def _require_trust(model: str, suite: Suite, machine: Machine) -> None:
    """Refuse an author that could not begin, before a folder is made for its run."""
    require_model(model)
    is_readable = machine.trusts or all(task.is_trusted for task in suite.tasks)
    if model == BUILTIN_MODEL and not is_readable:
        raise UsageError(
            f"the built-in author reads references itself, and those of {clean(suite.name)} are"
            " foreign",
            hint="read the files and add `--trust-suite`, or use another `--model`",
        )


def _find_baseline(suite: Suite) -> Baseline | None:
    """The baseline, and word of it where there is none."""
    baseline = find_baseline(suite)
    if baseline is None:
        _note(explain_no_baseline(suite))
    return baseline


def make_versions(suite: Suite, baseline: Baseline | None) -> Versions:
    """What the figures of a run depend on."""
    return Versions(
        suite=f"{suite.name} {suite.version[:12]}",
        suite_hash=suite.hash,
        baseline=None if baseline is None else baseline.hash,
    )


def choose_tasks(
    suite: Suite, *, split: str | None, ids: list[str] | None, is_own: bool
) -> tuple[SuiteTask, ...]:
    """The tasks that a command asks for.

    Raises:
        UsageError: a task or a split that there is not, or both at once; no task is fit.
    """
    _require_fit(suite)
    if ids and split is not None:
        raise UsageError("`--task` and `--split` name tasks both", hint="leave one out")
    if ids:
        return tuple(map(suite.find_task, dict.fromkeys(ids)))
    if split == ALL_TASKS or (split is None and not is_own):
        return suite.tasks
    if not is_own:
        raise UsageError(
            f"the suite {suite.name} has no split `{split}`", hint=f"`--split {ALL_TASKS}`"
        )
    return tuple(map(suite.find_task, find_split(split or DEFAULT_SPLIT).tasks))


def _require_fit(suite: Suite) -> None:
    """A suite of which nothing can be used is no suite to run or list."""
    if suite.tasks:
        return
    first = next((f"{row.id}: {row.reasons[0]}" for row in suite.unfit if row.reasons), "")
    raise UsageError(
        f"the suite {clean(suite.name)} has no fit task: {len(suite.unfit)} unfit",
        hint=clean(first) or "import it again",
    )


def _name_split(split: str | None, *, suite: Path | None, task: list[str] | None) -> str:
    if task:
        return "tasks"
    return split or (DEFAULT_SPLIT if suite is None else ALL_TASKS)


def _resume(folder: Path, machine: Machine, *, suite: Path | None, spending: Spending) -> ExitCode:
    config = read_config(folder)
    chosen = builtin_suite() if suite is None else read_suite(suite)
    found = make_versions(chosen, find_baseline(chosen))
    if found != config.versions:
        raise UsageError(
            f"`{folder}` was begun under other versions: {config.versions.suite}"
            f" ({config.versions.suite_hash[:12]}), cost model {config.versions.cost_model}",
            hint="name the same suite with `--suite`, or start a new run; results are never mixed",
        )
    if config.prompts != str(read_versions()):
        raise UsageError(
            f"`{folder}` was begun with other prompts: version {config.prompts or 'unknown'}",
            hint="start a new run; results are never mixed",
        )
    kept = None if machine.archive is None else read_archive(machine.archive)
    if (None if kept is None else hash_archive(kept)) != config.archive:
        raise UsageError(
            f"`{folder}` was begun with another archive ({config.archive or 'none'})",
            hint="name the same folder with `--archive`, or start a new run",
        )
    _require_trust(config.model, chosen, machine)
    need_torch(chosen.find_task(task.id).path for task in config.tasks)
    read_results(folder)  # attempts that are not this config's are refused before others are added
    budget = spending.make_budget(config.budget)
    if budget.usd is not None:
        require_price(config.tariff, config.model)
    # The config stays as it was written: attempts carry its hash, and a budget changes no figure.
    return _carry_out(config, folder, chosen, machine, kept, budget)


def _carry_out(
    config: EvalConfig,
    folder: Path,
    suite: Suite,
    machine: Machine,
    kept: tuple[Kept, ...] | None,
    budget: Budget,
) -> ExitCode:
    entries = {task.id: suite.find_task(task.id) for task in config.tasks}
    with ExitStack() as stack:
        log = stack.enter_context(AttemptLog(folder / LINES, warn=_note))
        limits = FarmLimits(allow_unsandboxed=config.allow_unsandboxed)
        executor = stack.enter_context(LocalExecutor(workers=machine.workers, limits=limits))
        usd, tokens = read_spent(find_trajectories(folder / ATTEMPTS), warn=_note)
        purse = Purse(budget, usd=usd, tokens=tokens)
        workshop = LocalWorkshop(
            author=Author(
                models=ModelSource(config.model, tariff=config.tariff, purse=purse),
                surface=config.surface,
                budget=config.optimize,
            ),
            executor=executor,
            baseline=find_baseline(suite),
            trust_suite=machine.trusts,
            allow_unsandboxed=config.allow_unsandboxed,
        )
        stack.callback(workshop.close)
        evaluation = Evaluation(
            config=config,
            entries=entries,
            workshop=workshop,
            log=log,
            folder=folder,
            clock=SystemClock(),
            archive=kept,
        )
        try:
            episodes = machine.episodes or executor.capacity * EPISODES_PER_WORKER // 2
            progress = asyncio.run(_run(evaluation, workshop, episodes=episodes))
        except BaseException as error:
            error.add_note(f"kept: go on with `nki-agent bench run --resume {as_word(folder)}`")
            raise
    return _conclude(folder, progress, as_json=machine.as_json)


async def _run(evaluation: Evaluation, workshop: LocalWorkshop, *, episodes: int) -> Progress:
    try:
        return await evaluation.carry_out(episodes=episodes, watch=_show_progress)
    finally:
        await workshop.drop_connections()


def _note(text: str) -> None:
    say(f"note: {text}")


def _show_progress(progress: Progress) -> None:
    if progress.last is not None:
        say(f"[{progress.done}/{progress.total}] {write_attempt(progress.last)}")


def write_attempt(attempt: Attempt) -> str:
    """One line, with the stage in its colour."""
    line = describe_attempt(attempt)
    if attempt.stage is None:
        return line
    return line.replace(f"  {attempt.stage.value}", f"  {paint_stage(attempt.stage)}", 1)


def _conclude(folder: Path, progress: Progress, *, as_json: bool) -> ExitCode:
    results = read_results(folder)
    groups = list(results.groups())
    if as_json:
        show_json({"run": printable(folder), "groups": groups})
    else:
        show(write_groups([g for g in groups if g.kind in {"all", "level"}]))
    for task, why in progress.unusable.items():
        say(f"unusable  {clean(task)}: {clean(why)}")
    if progress.unpaid:
        say(f"stopped   {clean(progress.unpaid)}")
    for name, why in progress.lost.items():
        say(f"lost      {clean(name)}: {clean(why)}")
    for name, path in progress.faulted.items():
        say(f"a bug of nki-agent stopped {clean(name)}: its traceback is in {printable(path)}")
    say(f"run       {printable(folder)}")
    if not progress.is_whole:
        more = " --budget-…` with more" if progress.unpaid else "`"
        say(f"hint: `nki-agent bench run --resume {as_word(folder)}{more} makes what is missing")
        return ExitCode.FAILURE if progress.lost or progress.faulted else ExitCode.NOT_RIGHT
    return ExitCode.USAGE if progress.unusable else ExitCode.RIGHT
