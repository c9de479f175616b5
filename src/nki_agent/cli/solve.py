"""`nki-agent solve TASK.py`: an episode with its run folder, then what came of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import Annotated

import msgspec
import typer

from nki_agent.agent.ablation import Ablation, PromptKind, make_ablation
from nki_agent.agent.archive import hash_archive, read_archive
from nki_agent.agent.best_of import Sample, choose_best, list_samples, sum_up_episodes
from nki_agent.agent.episode import End, Episode, Mode
from nki_agent.agent.folder import RunFolder, make_run_folder
from nki_agent.agent.past import STOPPED, hold
from nki_agent.agent.prompt import read_versions
from nki_agent.base.clock import SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text, short_hash
from nki_agent.base.seeds import draw_root_seed
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.authoring import require_author
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.inputs import (
    ARCHIVE_HELP,
    JSON_HELP,
    PROMPT_HELP,
    SURFACE_HELP,
    TARGET_HELP,
    TOOLS_HELP,
    UNSANDBOXED_HELP,
    UNTRUSTED_HELP,
    Seed,
    Turns,
    printable,
    read_target,
    read_text,
    require_dialect,
)
from nki_agent.cli.outcome import INDENT, exit_code_of, write_next, write_outcome
from nki_agent.cli.screen import show, show_json
from nki_agent.cli.solving import SolveConfig, carry_out, open_models
from nki_agent.cli.spending import Spending, takes_spending, write_usd
from nki_agent.cost.summary import Summary
from nki_agent.llm.choose import BUILTIN, MODEL_HELP, require_model
from nki_agent.llm.protocol import Usage
from nki_agent.llm.recorded import find_seed
from nki_agent.verify.verdict import Verdict


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


@takes_spending
def solve(
    task: Annotated[
        Path, typer.Argument(metavar="TASK.py", help="A PyTorch or NumPy reference with inputs.")
    ],
    *,
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = BUILTIN,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    mode: Annotated[Mode, typer.Option(help="With tools, or one answer without.")] = Mode.LOOP,
    turns: Turns = None,
    prompt: Annotated[PromptKind, typer.Option(help=PROMPT_HELP)] = PromptKind.RANK_AWARE,
    tools: Annotated[str | None, typer.Option(help=TOOLS_HELP)] = None,
    samples: Annotated[int, typer.Option(min=1, help="Episodes; the best kernel counts.")] = 1,
    archive: Annotated[Path | None, typer.Option(metavar="DIR", help=ARCHIVE_HELP)] = None,
    surface: Annotated[Surface, typer.Option(help=SURFACE_HELP)] = Surface.NKI,
    seed: Seed = None,
    runs: Annotated[Path, typer.Option(help="Where the run's folder is made.")] = Path("runs"),
    dialect: Annotated[str, typer.Option(help="What the kernel is written in.")] = "nki",
    spending: Spending,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Write a kernel for a task, and fix it until it is right. Everything is kept under runs/."""
    require_model(model)
    require_author(model, surface)
    if untrusted_task and model == BUILTIN:
        raise UsageError(
            "the built-in author reads the reference itself, which `--untrusted-task` keeps apart",
            hint="read the file and leave the option out, or use another `--model`",
        )
    source = read_text(task, what="task")
    config = SolveConfig(
        task=printable(task),
        task_source=short_hash(hash_text(source)),
        target=read_target(target),
        dialect=require_dialect(dialect),
        model=model,
        mode=mode,
        surface=surface,
        limits=spending.make_limits(turns, mode=mode, surface=surface),
        seed=choose_seed(seed, model),
        allow_unsandboxed=allow_unsandboxed,
        untrusted_task=untrusted_task,
        ablation=make_ablation(prompt, tools, mode=mode),
        prompts=str(read_versions()),
        samples=samples,
        archive=printable(archive or runs),
        archive_hash=_hash_archive(archive, runs),
        tariff=spending.make_tariff(model),
        budget=spending.make_budget(),
    )
    episodes, summary, folder = _run_in_folder(task, source, config, runs)
    return conclude(episodes, folder, config, summary=summary, as_json=as_json)


def _run_in_folder(
    path: Path, source: str, config: SolveConfig, runs: Path
) -> tuple[tuple[Episode, ...], Summary | None, RunFolder]:
    """Carry a run out in a folder of its own, which keeps whatever comes."""
    clock = SystemClock()
    folder = make_run_folder(runs, kind="solve", subject=path.stem, config=config, clock=clock)
    try:
        folder.task.write_text(source, encoding="utf-8")
        with hold(folder.path), open_models(config, clock=clock) as models:
            return *carry_out(path, config, folder, models=models, clock=clock), folder
    except BaseException as error:
        with contextlib.suppress(OSError):  # a full disk must not hide what came first
            folder.error.write_text(
                f"{type(error).__name__}: {error}\n", encoding="utf-8", errors="backslashreplace"
            )
        error.add_note(f"kept: {folder.path}")
        raise


def choose_seed(given: int | None, model: str) -> int:
    """The seed that is named; else that of the recording, so answers repeat; else a new one."""
    if given is not None:
        return given
    recorded = find_seed(model)
    return draw_root_seed() if recorded is None else recorded


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
    return _exit_code(sum_up_episodes(episodes))


def _hash_archive(archive: Path | None, runs: Path) -> str | None:
    """What is in the folder that is named, else beside the run; a named one must be there."""
    if archive is None and not runs.is_dir():
        return None
    kept = read_archive(archive or runs)
    return hash_archive(kept) if kept else None


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
        yield f"go on       nki-agent resume {folder.path}"
    if summary is not None:
        yield from write_next(
            folder.kernel, task=Path(config.task), timeline=folder.timeline, summary=summary
        )


def _exit_code(episode: Episode) -> ExitCode:
    if episode.verdict is not None:
        return exit_code_of(episode.verdict.stage)
    match episode.end:
        case End.MODEL_ERROR | End.MODEL_AWAY | End.FAILED:
            return ExitCode.FAILURE
        case End.INTERRUPTED:
            return ExitCode.INTERRUPTED
        case (
            End.SOLVED
            | End.SUBMITTED_WRONG
            | End.TURNS
            | End.WALL_TIME
            | End.TOKENS
            | End.BUDGET
            | End.RUN_BUDGET
            | End.NO_KERNEL
            | End.GAVE_UP
        ):
            return ExitCode.NOT_RIGHT


app = make_app(solve)
