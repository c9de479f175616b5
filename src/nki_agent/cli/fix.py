"""`nki-agent fix KERNEL.py --task TASK.py`: from a kernel that is not right to one that is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nki_agent.agent.episode import Mode
from nki_agent.agent.improving import Goal, Start
from nki_agent.base.clock import SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.check.fixing import fix_source
from nki_agent.check.surface import Surface
from nki_agent.chip.spec import DEFAULT_TARGET
from nki_agent.cli.ablating import Ablating, takes_ablation
from nki_agent.cli.authoring import choose_seed, require_author, require_readable
from nki_agent.cli.command import ExitCode, make_app
from nki_agent.cli.improving import (
    BY_EDITS,
    Improved,
    Wish,
    finish,
    improve,
    judge_start,
    make_config,
    require_one_file,
)
from nki_agent.cli.inputs import (
    CONVERSATION_HELP,
    JSON_HELP,
    SURFACE_HELP,
    TARGET_HELP,
    TASK_HELP,
    UNSANDBOXED_HELP,
    UNTRUSTED_HELP,
    Seed,
    Turns,
    as_word,
    read_kernel,
    read_target,
    read_task,
)
from nki_agent.cli.screen import say
from nki_agent.cli.solving import Showing
from nki_agent.cli.spending import Spending, takes_spending
from nki_agent.llm.choose import BUILTIN, MODEL_HELP
from nki_agent.verify.judge import Judge
from nki_agent.verify.verdict import Verdict

RUNS_HELP = "Where the run's folder is made."
WRITE_HELP = "Write the new kernel to KERNEL.py, if it is right."
NOBODY = "nobody"


def improve_kernel(
    goal: Goal,
    kernel: Path,
    task: Path,
    *,
    model: str,
    target: str,
    turns: int | None,
    ablating: Ablating,
    surface: Surface,
    seed: int | None,
    runs: Path,
    spending: Spending,
    as_json: bool,
    conversation: bool,
    write: bool,
    untrusted_task: bool,
    allow_unsandboxed: bool,
) -> ExitCode:
    """Read what is given, judge the kernel, and let a model work on it."""
    require_author(model, surface)
    require_readable(model, untrusted_task=untrusted_task)
    chosen, source = read_target(target), read_kernel(kernel)
    require_one_file(source, kernel)
    loaded = read_task(task, untrusted=untrusted_task, allow_unsandboxed=allow_unsandboxed)
    clock = SystemClock()
    models = spending.open_models(model, clock=clock)
    config = make_config(
        goal,
        kernel,
        source,
        task=task,
        source=loaded.source,
        target=chosen,
        model=model,
        limits=spending.make_limits(turns, mode=Mode.LOOP, surface=surface),
        seed=choose_seed(seed, model),
        surface=surface,
        ablation=ablating.resolve(mode=Mode.LOOP),
        tariff=models.tariff,
        budget=models.purse.budget,
        allow_unsandboxed=allow_unsandboxed,
        untrusted_task=untrusted_task,
        writes=write,
    )
    wish = Wish(
        path=kernel,
        kernel=source,
        config=config,
        task=loaded,
        runs=runs,
        how=Showing(models=models, clock=clock, shows_all=conversation),
        as_json=as_json,
    )
    return carry_out(wish)


def carry_out(wish: Wish) -> ExitCode:
    """Judge the kernel, and let a model work on it where that is needed."""
    config, models = wish.config, wish.how.models
    unsandboxed = config.allow_unsandboxed
    with (
        models,
        Judge(target=config.target, allow_unsandboxed=unsandboxed, surface=config.surface) as judge,
    ):
        start = (_begin_fix if config.goal is Goal.FIX else _begin_optimize)(wish, judge)
        if start is None:
            return ExitCode.RIGHT
        if config.model == BUILTIN:
            say("note: the built-in author begins anew and writes a kernel of its own")
        return improve(wish, judge, start)


def _begin_fix(wish: Wish, judge: Judge) -> Start | None:
    """Where a repair starts; None where none is needed, or the findings' own edits are one."""
    before = judge_start(wish, judge, wish.source)
    if before.right:
        _end(wish, before, before, new=None, by=NOBODY)
        return None
    config, kernel = wish.config, wish.kernel
    fixed = fix_source(kernel.files, kernel.main, target=config.target, surface=config.surface)
    if fixed.text == wish.source:
        return Start(goal=Goal.FIX, source=wish.source, verdict=before)
    after = judge_start(wish, judge, fixed.text)
    if after.right:
        _end(wish, before, after, new=fixed.text, by=BY_EDITS)
        return None
    say(f"{fixed.num_fixes} mechanical fixes; the kernel is {after.stage.value} now")
    return Start(goal=Goal.FIX, source=fixed.text, verdict=after)


def _begin_optimize(wish: Wish, judge: Judge) -> Start | None:
    verdict = judge_start(wish, judge, wish.source)
    if not verdict.right:
        raise UsageError(
            f"the kernel is {verdict.stage.value}: there is nothing to make faster yet",
            hint=f"`nki-agent fix {as_word(wish.path)} --task {as_word(wish.config.task)}`",
        )
    look = judge.look(wish.kernel, wish.task.perf)
    return Start(goal=Goal.OPTIMIZE, source=wish.source, verdict=verdict, profile=look.summary)


def _end(wish: Wish, before: Verdict, after: Verdict, *, new: str | None, by: str) -> None:
    """Said without asking a model."""
    found = Improved(
        goal=Goal.FIX,
        by=by,
        end="solved",
        message="the kernel is right",
        run=None,
        kernel=None,
        before=before,
        after=after,
    )
    if new is not None and not wish.config.writes:
        say("nothing is written; `--write` puts the change into the file")
    finish(wish, found, new=new)


@takes_ablation
@takes_spending
def fix(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL.py", help="The kernel file.")],
    *,
    task: Annotated[Path, typer.Option(metavar="TASK.py", help=TASK_HELP)],
    model: Annotated[str, typer.Option(help=MODEL_HELP)] = BUILTIN,
    target: Annotated[str, typer.Option(help=TARGET_HELP)] = DEFAULT_TARGET.value,
    turns: Turns = None,
    ablating: Ablating,
    surface: Annotated[Surface, typer.Option(help=SURFACE_HELP)] = Surface.NKI,
    seed: Seed = None,
    runs: Annotated[Path, typer.Option(help=RUNS_HELP)] = Path("runs"),
    spending: Spending,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    conversation: Annotated[bool, typer.Option("--conversation", help=CONVERSATION_HELP)] = False,
    write: Annotated[bool, typer.Option("--write", help=WRITE_HELP)] = False,
    untrusted_task: Annotated[bool, typer.Option(help=UNTRUSTED_HELP)] = False,
    allow_unsandboxed: Annotated[bool, typer.Option(help=UNSANDBOXED_HELP)] = False,
) -> ExitCode:
    """Repair a kernel until it is right: first by the findings' own edits, then by a model."""
    return improve_kernel(
        Goal.FIX,
        kernel,
        task,
        model=model,
        target=target,
        turns=turns,
        ablating=ablating,
        surface=surface,
        seed=seed,
        runs=runs,
        spending=spending,
        as_json=as_json,
        conversation=conversation,
        write=write,
        untrusted_task=untrusted_task,
        allow_unsandboxed=allow_unsandboxed,
    )


app = make_app(fix)
