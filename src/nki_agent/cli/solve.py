"""`nki-agent solve TASK.py`: an episode with its run folder, then what came of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import Annotated

import msgspec
import typer

from nki_agent.agent.ablation import Ablation
from nki_agent.agent.best_of import Sample, choose_best, list_samples, sum_up_episodes
from nki_agent.agent.episode import End, Episode, Mode
from nki_agent.agent.folder import RunFolder, make_run_folder
from nki_agent.agent.library import hash_docs
from nki_agent.agent.past import STOPPED, hold
from nki_agent.agent.prompt import read_versions
from nki_agent.base.clock import SystemClock
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.ablating import Ablating, takes_ablation
from nki_agent.cli.authoring import choose_seed, require_author, require_readable
from nki_agent.cli.budget import Searching, takes_search, widen
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.describing import describe, require_words
from nki_agent.cli.inputs import (
    ARCHIVE_HELP,
    CONVERSATION_HELP,
    COUNT_MAX,
    JSON_HELP,
    SURFACE_HELP,
    TARGET_HELP,
    UNSANDBOXED_HELP,
    UNTRUSTED_HELP,
    Seed,
    Turns,
    as_word,
    printable,
    read_target,
    read_text,
    require_dialect,
)
from nki_agent.cli.outcome import INDENT, exit_code_of_episode, write_next, write_outcome
from nki_agent.cli.screen import show, show_json
from nki_agent.cli.shelving import choose_runs
from nki_agent.cli.solving import Showing, SolveConfig, carry_out, keeping_errors
from nki_agent.cli.spending import Spending, takes_spending, write_usd
from nki_agent.cost.summary import Summary
from nki_agent.llm.choose import BUILTIN, MODEL_HELP
from nki_agent.llm.protocol import Usage
from nki_agent.verify.verdict import Verdict

TASK_HELP = "A PyTorch or NumPy reference with inputs."
DESCRIBE_HELP = "The task in words: the model writes it first, and you accept it."
YES_HELP = "Accept the task that `--describe` gives without a question."


class SolveReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    run: str
    end: End
    message: str
    turns: int
    usage: Usage
    wall_ms: float
    kernel: str | None
    verdict: Verdict | None
    usd: float | None = None
    """What the model cost; None where no price is known."""
    ablation: Ablation
    prompts: str
    samples: tuple[Sample, ...] = ()
    """Every episode in short, where there are several."""


@takes_search
@takes_ablation
@takes_spending
def solve(
    task: Annotated[Path | None, typer.Argument(metavar="TASK.py", help=TASK_HELP)] = None,
    *,
    words: Annotated[str | None, typer.Option("--describe", help=DESCRIBE_HELP)] = None,
    yes: Annotated[bool, typer.Option("--yes", help=YES_HELP)] = False,
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = BUILTIN,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    mode: Annotated[Mode, typer.Option(help="With tools, or one answer without.")] = Mode.LOOP,
    turns: Turns = None,
    ablating: Ablating,
    samples: Annotated[
        int, typer.Option(min=1, max=COUNT_MAX, help="Episodes; the best kernel counts.")
    ] = 1,
    archive: Annotated[Path | None, typer.Option(metavar="DIR", help=ARCHIVE_HELP)] = None,
    surface: Annotated[Surface, typer.Option(help=SURFACE_HELP)] = Surface.NKI,
    seed: Seed = None,
    runs: Annotated[Path, typer.Option(help="Where the run's folder is made.")] = Path("runs"),
    dialect: Annotated[str, typer.Option(help="What the kernel is written in.")] = "nki",
    spending: Spending,
    searching: Searching,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    conversation: Annotated[bool, typer.Option("--conversation", help=CONVERSATION_HELP)] = False,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Write a kernel for a task, and fix it until it is right. Everything is kept under runs/."""
    _require_begin(words, task, model, surface)
    search, turns = searching.resolve(turns, model=model, mode=mode)
    clock, said = SystemClock(), 0
    limits = widen(spending.make_limits(turns, mode=mode, surface=surface), search)
    with spending.open_models(model, clock=clock) as models:
        if words is not None:
            task, said = describe(words, models, limits=limits, runs=runs, clock=clock, accepts=yes)
            untrusted_task = True  # a person has seen it, and still it is a model's code
        if task is None:
            return ExitCode.NOT_RIGHT
        source = _read_source(task, model, untrusted_task=untrusted_task)
        config = SolveConfig(
            task=printable(task),
            task_source=short_hash(hash_text(source)),
            target=read_target(target),
            dialect=require_dialect(dialect),
            model=model,
            mode=mode,
            surface=surface,
            limits=limits,
            seed=choose_seed(seed, model),
            allow_unsandboxed=allow_unsandboxed,
            untrusted_task=untrusted_task,
            ablation=ablating.resolve(mode=mode),
            prompts=str(read_versions()),
            samples=samples,
            tariff=models.tariff,
            budget=models.purse.budget,
            docs=hash_docs(),
            optimize=search,
        )
        config = _add_archive(config, archive, runs)
        how = Showing(models=models, clock=clock, shows_all=conversation, num_said=said)
        return _run_in_folder(task, source, config, runs, how, as_json=as_json)


def _require_begin(words: str | None, task: Path | None, model: str, surface: Surface) -> None:
    """Refuse what cannot begin, before anything is loaded or made for it."""
    require_words(words, task, model=model)
    require_author(model, surface)


def _read_source(task: Path, model: str, *, untrusted_task: bool) -> str:
    """The text of a task file that the author of this name may read."""
    require_readable(model, untrusted_task=untrusted_task)
    return read_text(task, what="task")


def _add_archive(config: SolveConfig, archive: Path | None, runs: Path) -> SolveConfig:
    chosen = choose_runs(archive, runs, model=config.model)
    return msgspec.structs.replace(
        config,
        archive=printable(chosen.folder),
        archive_hash=chosen.hash,
        archive_before=chosen.before,
    )


def _run_in_folder(
    path: Path, source: str, config: SolveConfig, runs: Path, how: Showing, *, as_json: bool
) -> ExitCode:
    """Carry a run out in a folder of its own, which keeps whatever comes."""
    folder = make_run_folder(runs, kind="solve", subject=path.stem, config=config, clock=how.clock)
    with keeping_errors(folder), hold(folder.path):
        folder.task.write_text(source, encoding="utf-8")
        episodes, summary = carry_out(path, config, folder, how)
    return conclude(episodes, folder, config, summary=summary, as_json=as_json)


def conclude(
    episodes: Sequence[Episode],
    folder: RunFolder,
    config: SolveConfig,
    *,
    summary: Summary | None,
    as_json: bool,
) -> ExitCode:
    """Say what came of a run."""
    if as_json:
        show_json(_make_report(episodes, folder, config))
    else:
        show("\n".join(_write_report(episodes, folder, config, summary)))
    return exit_code_of_episode(sum_up_episodes(episodes))


def _make_report(
    episodes: Sequence[Episode], folder: RunFolder, config: SolveConfig
) -> SolveReport:
    episode = sum_up_episodes(episodes)
    return SolveReport(
        run=printable(folder.path),
        end=episode.end,
        message=episode.message,
        turns=episode.turns,
        usage=episode.usage,
        wall_ms=episode.wall_ms,
        kernel=printable(folder.kernel) if episode.kernel is not None else None,
        verdict=episode.verdict,
        usd=episode.usd,
        ablation=config.ablation,
        prompts=config.prompts,
        samples=list_samples(episodes) if len(episodes) > 1 else (),
    )


def _write_report(
    episodes: Sequence[Episode], folder: RunFolder, config: SolveConfig, summary: Summary | None
) -> Iterator[str]:
    episode = sum_up_episodes(episodes)
    if len(episodes) > 1:
        stages = ", ".join("none" if s.stage is None else s.stage for s in list_samples(episodes))
        yield f"samples     {stages}; the best is number {choose_best(episodes) + 1}"
    if episode.verdict is not None:
        yield f"kernel      {folder.kernel}"
        yield from write_outcome(episode.verdict)
    else:
        yield "kernel      none"
    if episode.end is not End.SOLVED:
        end = episode.end.value.replace("_", " ")
        yield f"end         {end}: {indent(episode.message, INDENT).lstrip()}"
    yield f"run         {folder.path}"
    if episode.usage.total_tokens:
        yield f"cost        {write_usd(episode.usd)}, {episode.usage.total_tokens} tokens"
    if any(e.end in STOPPED for e in episodes):
        yield f"go on       nki-agent resume {as_word(folder.path)}"
    if summary is not None:
        yield from write_next(
            folder.kernel, task=Path(config.task), timeline=folder.timeline, summary=summary
        )


app = make_app(solve)
