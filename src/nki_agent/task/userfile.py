"""Reads and runs a task file: the user's own code, in this process.

Law: the file sees its folder on `sys.path` only while its code runs, after the standard library, so
that a `select.py` beside it harms nobody; modules beside it are kept apart from those of other task
files, as is PyTorch's default dtype; and what it prints goes to stderr. All of these belong to the
process, so one thread at a time runs user code. Errors name the line of the user's file, never one
of ours.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from nki_agent.base.bounded import UnreadableError, read_text
from nki_agent.base.errors import TaskError
from nki_agent.base.hashes import hash_files, hash_text, short_hash
from nki_agent.task.handed import HandedFiles

ONE_AT_A_TIME = threading.RLock()
"""Held while user code runs, or what belongs to the process (PyTorch's settings, chance) is set."""
SOURCE_BYTES_MAX = 1 << 20
"""Of a task file: each of its bytes takes Python a microsecond or two to compile."""
INSTALL_TORCH = "install PyTorch, in the checkout: `pip install '.[torch]'`"


@dataclass(slots=True, kw_only=True)
class UserFile:
    """A task file that has been run once, and the modules beside it that it imported."""

    path: Path
    source: str
    module: ModuleType
    siblings: dict[str, ModuleType] = field(default_factory=dict)
    default_dtype: Any = None
    """PyTorch's default dtype, if this file has changed it."""
    handed: HandedFiles | None = None
    """Where the modules beside it come from, if not from its folder."""

    @contextlib.contextmanager
    def running(self, doing: str, *, hint: str = "") -> Iterator[None]:
        """Run user code: imports from its folder work, and what it raises becomes a TaskError."""
        with ONE_AT_A_TIME, self._in_place(), self._answering(doing, hint):
            yield

    @contextlib.contextmanager
    def _answering(self, doing: str, hint: str) -> Iterator[None]:
        try:
            with contextlib.redirect_stdout(sys.stderr):
                yield
        except TaskError:
            raise
        except (Exception, SystemExit) as error:
            raise fault_of(error, self.path, doing, hint=hint) from error

    @contextlib.contextmanager
    def _in_place(self) -> Iterator[None]:
        folder = str(self.path.parent)
        may_import = self.handed is None or bool(self.handed.modules)
        before = list(sys.modules) if may_import else []
        if self.handed is None:
            sys.path.insert(_first_package_folder(), folder)
        else:
            sys.meta_path.append(self.handed)
        sys.modules.update(self.siblings)
        outside = _swap_default_dtype(self.default_dtype)
        inside = self.default_dtype or outside
        try:
            yield
        finally:
            # The file may have taken it away; a handed one never put it there.
            if self.handed is None and folder in sys.path:
                sys.path.remove(folder)
            if self.handed in sys.meta_path:
                sys.meta_path.remove(self.handed)
            if may_import:
                self._keep_siblings(before)
            found = _swap_default_dtype(outside)
            if inside is not None and found != inside:
                self.default_dtype = found

    def _keep_siblings(self, before: list[str]) -> None:
        """Take modules of the task's folder out of `sys.modules`, until the next run."""
        if list(sys.modules) == before:
            return  # the rule: it takes a tenth of the time that sets of all names do
        new = set(sys.modules).difference(before)
        packages = {name.partition(".")[0] for name in before} if new else set()
        for name in new:
            top = name.partition(".")[0]
            if top not in packages and self._is_beside(top):
                self.siblings[name] = sys.modules.pop(name)

    def _is_beside(self, name: str) -> bool:
        if self.handed is not None:
            return name in self.handed.modules
        folder = self.path.parent
        return (folder / f"{name}.py").is_file() or (folder / name).is_dir()

    def hash(self, *, format_version: int) -> str:
        """The hash of the file, the modules beside it that it imported, and the format."""
        texts: dict[str, str] = {}
        for name, module in self.siblings.items():
            if self.handed is not None:
                texts[name] = self.handed.modules.get(name, "")
            elif module.__file__ is not None:
                texts[name] = Path(module.__file__).read_bytes().decode("utf-8", "replace")
        return hash_task_file(self.source, texts, format_version=format_version)


def hash_task_file(source: str, modules: Mapping[str, str], *, format_version: int) -> str:
    """The hash of a task file and of the modules beside it that it imports."""
    imported = {f"import {name}": text for name, text in modules.items()}
    return hash_files({"format": str(format_version), "source": source, **imported})


def read_user_file(path: Path, *, handed: HandedFiles | None = None) -> UserFile:
    """Read, compile and run a task file; where its text is handed over, no file is opened.

    Raises:
        TaskError: it cannot be read, is not Python, or raises while it is run.
    """
    source = read_source(path) if handed is None else handed.source
    if len(source) > SOURCE_BYTES_MAX:
        raise TaskError(f"{path.name} is larger than {SOURCE_BYTES_MAX} bytes")
    full = path.resolve()
    try:
        code = compile(source, str(full), "exec")
    except (RecursionError, MemoryError) as error:
        raise TaskError(f"{path.name}: not Python: too deeply nested") from error
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        raise TaskError(
            f"{path.name}{line}: not Python: {error.msg}", hint="a task file is a Python module"
        ) from error
    except ValueError as error:
        raise TaskError(f"{path.name}: not Python: {error}") from error
    name = f"nki_agent_task_{short_hash(hash_text(f'{full}:{source}'))}"
    module = ModuleType(name)
    module.__file__ = str(full)
    module.__spec__ = importlib.util.spec_from_file_location(name, full)
    sys.modules[name] = module
    user = UserFile(path=full, source=source, module=module, handed=handed)
    _import_torch(source)
    with user.running("loading the file"):
        exec(code, module.__dict__)
    return user


def _first_package_folder() -> int:
    """The place on `sys.path` behind the standard library."""
    packages = ("site-packages", "dist-packages")
    return next((i for i, path in enumerate(sys.path) if path.endswith(packages)), len(sys.path))


def _import_torch(source: str) -> None:
    """Import what the file will, while its folder is not on the path: a `cuda.py` may lie in it."""
    if "torch" in source:
        with contextlib.suppress(ImportError):
            importlib.import_module("torch")


def _swap_default_dtype(wanted: Any) -> Any:
    """Set PyTorch's default dtype, where one is wanted; what it was, None without PyTorch."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "get_default_dtype"):
        return None
    found = torch.get_default_dtype()
    if wanted not in (None, found):
        torch.set_default_dtype(wanted)
    return found


def read_source(path: Path) -> str:
    """The text of a task file; TaskError where it cannot be read."""
    try:
        return read_text(path, SOURCE_BYTES_MAX)
    except UnreadableError as error:
        if error.is_missing:
            raise TaskError(f"no file {path.name} in {path.parent}") from error
        hint = "give a Python file" if error.is_folder else ""
        raise TaskError(f"{path.name} {error}", hint=hint) from error


def fault_of(error: BaseException, path: Path, doing: str, *, hint: str = "") -> TaskError:
    """The error of user code as one message with the line of the user's file where it passed."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    place = f"{path.name}:{lines[-1]}" if lines else path.name
    text = " ".join(str(error).split()) or "no message"
    if isinstance(error, ModuleNotFoundError):
        hint = INSTALL_TORCH if error.name == "torch" else f"install `{error.name}`"
    return TaskError(f"{place}: {doing} raised {type(error).__name__}: {text}", hint=hint)
