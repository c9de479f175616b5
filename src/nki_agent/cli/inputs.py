"""Reads what commands are given: targets, tasks, kernels."""

from __future__ import annotations

import difflib
import errno
import shlex
import stat
from pathlib import Path
from typing import Annotated

import typer

from nki_agent.base import bounded
from nki_agent.base.diagnostic import clean
from nki_agent.base.errors import UsageError
from nki_agent.base.seeds import require_seed
from nki_agent.chip.spec import GENERATION, Target, find_target
from nki_agent.cli.screen import say
from nki_agent.program.records import Dialect
from nki_agent.sandbox.task_host import TaskHost, load_untrusted_task
from nki_agent.task.fitness import with_fitness
from nki_agent.task.loader import load_task
from nki_agent.task.task import ShapeSet, Task
from nki_agent.verify.kernel import Kernel

FIRST_CURRENT_GENERATION = 3
"""The vendor's compiler takes the current dialect from NeuronCore-v3 on."""


TARGET_HELP = f"One of {', '.join(Target)}."
TASK_HELP = "The task that the kernel is for."
JSON_HELP = "Print one JSON document."
SHAPES_HELP = "At which of the task's shapes, `dev` or `perf`; the first if left out."
ARCHIVE_HELP = "Runs whose right kernels `find_kernels` shows; those beside this one if left out."
CONVERSATION_HELP = "Show all that is said as it happens, and each kernel as a change of the last."
SURFACE_HELP = "What a kernel may use: all of NKI, or `nki.isa` alone at explicit addresses."
UNTRUSTED_HELP = "Load the task file in a sandbox: for a file that nobody has read."
SEED_HELP = "Root seed; drawn if left out."
UNSANDBOXED_HELP = "Trace kernels even where nothing can hold them; only for kernels you trust."

COUNT_MAX = 1_000_000
"""Of turns, attempts and listed instructions: far more than anyone wants, and any file holds it."""


def read_seed(text: str) -> int:
    """A root seed on the command line; a usage error with the range for anything else."""
    try:
        return require_seed(int(text))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is no whole number") from error
    except UsageError as error:
        raise typer.BadParameter(str(error)) from error


Seed = Annotated[int | None, typer.Option(parser=read_seed, metavar="SEED", help=SEED_HELP)]
"""`--seed`, the same for every command that draws."""
TURNS_HELP = "Most model calls; left out, 10, and on the surface `isa` 15, 20, 25 by level."
Turns = Annotated[int | None, typer.Option(min=1, max=COUNT_MAX, help=TURNS_HELP)]


def read_target(name: str) -> Target:
    """The target of this name; UsageError with the nearest one."""
    target = find_target(name.lower())
    if target is None:
        near = difflib.get_close_matches(name.lower(), list(Target), n=1)
        hint = f"did you mean `{near[0]}`? " if near else ""
        raise UsageError(f"no target `{name}`", hint=f"{hint}There are {', '.join(Target)}")
    if GENERATION[target] < FIRST_CURRENT_GENERATION:
        say(
            f"note: {target.value} is judged with the current `nki` dialect; the vendor's compiler"
            f" for it takes `{Dialect.BETA1.value}`, which this version does not write yet"
        )
    return target


def read_targets(names: str) -> tuple[Target, ...]:
    """The targets of a list with commas; one that is named twice counts once."""
    found = dict.fromkeys(name.strip().lower() for name in names.split(","))
    return tuple(map(read_target, found))


def require_dialect(name: str) -> Dialect:
    """The dialect of this name, if this version has it."""
    if name == Dialect.CURRENT:
        return Dialect.CURRENT
    if name == Dialect.BETA1:
        raise UsageError(
            f"the dialect `{name}` arrives in a later version",
            hint=f"`--dialect {Dialect.CURRENT.value}`",
        )
    raise UsageError(f"no dialect `{name}`", hint=f"`{Dialect.CURRENT.value}`")


def read_shapes(task: Task, name: str | None) -> ShapeSet:
    """The shape set of this name; the one that a kernel is proven on without a name."""
    if name is None:
        return task.dev
    found = {shapes.name: shapes for shapes in task.shape_sets}
    if name not in found:
        raise UsageError(f"no shapes `{name}`", hint=f"the task has {', '.join(found)}")
    return found[name]


def read_task(
    path: Path,
    *,
    untrusted: bool = False,
    allow_unsandboxed: bool = False,
    asks_fitness: bool = False,
) -> Task:
    """The task that the file states; what was decided while loading goes to stderr.

    With `asks_fitness` also whether kernels can be judged by it.
    """
    require_file(path, what="task")
    if untrusted:
        task = load_untrusted_task(path, host=TaskHost(allow_unsandboxed=allow_unsandboxed))
    else:
        task = load_task(path)
    if asks_fitness:
        task = with_fitness(task)
    for note in task.notes:
        say(f"note: {note}")
    say_unfit(task)
    return task


def say_unfit(task: Task) -> None:
    """What its lint has found, if it was asked for."""
    for text in task.unfit:
        say(f"warning: {clean(text)}")


def read_kernel(path: Path) -> Kernel:
    """The kernel file and the modules beside it."""
    require_file(path, what="kernel")
    return Kernel.from_path(path)


def require_file(path: Path, *, what: str) -> None:
    """Refuse what is not a readable file, naming the nearest one in its folder."""
    try:
        found = path.stat()
    except OSError as error:
        raise _missing(path, error, what=what) from error
    if stat.S_ISDIR(found.st_mode):
        raise UsageError(f"the {what} `{path}` is a folder", hint="give a Python file")
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"the {what} `{path}` is no regular file", hint="give a Python file")


def _missing(path: Path, error: OSError, *, what: str) -> UsageError:
    if error.errno not in (errno.ENOENT, errno.ENOTDIR):
        return UsageError(f"the {what} `{path}` cannot be read: {error.strerror}")
    if path.is_symlink():
        return UsageError(f"the {what} `{path}` is a link to nothing")
    beside = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    hint = f"did you mean `{path.parent / near[0]}`?" if near else ""
    return UsageError(f"no {what} file `{path}`", hint=hint)


def printable(path: Path) -> str:
    """The path as text that any file can hold, also where its name is not UTF-8."""
    return str(path).encode("utf-8", "replace").decode()


def as_word(path: Path | str) -> str:
    """The path as one word of a command that is shown, whatever characters it has.

    >>> as_word(Path("my runs/a.py")), as_word("runs/a.py")
    ("'my runs/a.py'", 'runs/a.py')
    """
    return shlex.quote(printable(Path(path)))


def read_text(path: Path, *, what: str) -> str:
    """The text of a user's file."""
    require_file(path, what=what)
    try:
        return bounded.read_text(path)
    except bounded.UnreadableError as error:
        raise UsageError(f"the {what} `{path}` {error}") from error
