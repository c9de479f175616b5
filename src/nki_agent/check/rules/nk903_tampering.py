"""NK903: code that reaches for the interpreter, the tracer or the system.

Law: this only names the trick early and clearly. What protects the verdict is that the kernel runs
without data in a locked process; nothing here is relied on for that. Only code that can run is
judged, and what honest kernels have (`self._x`, `os.environ`, `x.__class__`) is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.parsed import Unit, at
from nki_agent.check.project import Project
from nki_agent.check.rules.nk107_imports import ALLOWED

HINT = "remove it: kernels only call `nki` functions"

INTERNALS = frozenset(
    {
        "__base__",
        "__bases__",
        "__builtins__",
        "__closure__",
        "__code__",
        "__dict__",
        "__func__",
        "__getattribute__",
        "__globals__",
        "__import__",
        "__loader__",
        "__mro__",
        "__reduce__",
        "__reduce_ex__",
        "__self__",
        "__spec__",
        "__subclasses__",
        "__wrapped__",
        "ag_frame",
        "co_code",
        "cr_frame",
        "f_back",
        "f_builtins",
        "f_code",
        "f_globals",
        "f_locals",
        "gi_frame",
        "mro",
        "tb_frame",
        "tb_next",
    }
)
"""Attributes that lead out of a kernel into the interpreter."""

FORBIDDEN_BUILTINS = frozenset(
    (
        "__builtins__",
        "__import__",
        "__loader__",
        "__spec__",
        "compile",
        "eval",
        "exec",
        "globals",
        "locals",
        "open",
        "vars",
    )
)

SYSTEM_MODULES = frozenset(
    {
        "_thread",
        "asyncio",
        "atexit",
        "builtins",
        "code",
        "codeop",
        "concurrent",
        "ctypes",
        "faulthandler",
        "fcntl",
        "gc",
        "glob",
        "http",
        "importlib",
        "inspect",
        "io",
        "linecache",
        "marshal",
        "mmap",
        "multiprocessing",
        "os",
        "pathlib",
        "pickle",
        "pkgutil",
        "posix",
        "pty",
        "resource",
        "runpy",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "subprocess",
        "sys",
        "sysconfig",
        "tempfile",
        "threading",
        "traceback",
        "tracemalloc",
        "types",
        "urllib",
        "weakref",
    }
)
"""Modules whose use, not whose mere import, is a trick."""

HARMLESS_USES = (
    "inspect.signature",
    "os.environ",
    "os.getenv",
    "os.path",
    "pathlib.Path",
    "sys.argv",
    "sys.byteorder",
    "sys.float_info",
    "sys.maxsize",
    "sys.path",
    "sys.platform",
    "sys.version",
    "sys.version_info",
    "types.SimpleNamespace",
)
"""Uses that host code of honest kernel files has; the import is refused all the same (NK107)."""

NUMPY_FILES = frozenset(
    {
        "ctypeslib",
        "fromfile",
        "genfromtxt",
        "load",
        "loadtxt",
        "memmap",
        "save",
        "savetxt",
        "savez",
        "savez_compressed",
    }
)
"""NumPy functions that touch files or raw memory."""

PUBLIC_UNDERSCORE = frozenset({"_asdict", "_fields", "_make", "_replace"})
"""Documented names of `collections.namedtuple`."""


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every trick in code that can run."""
    own = _own_private_names(project)
    for unit in project.live_units:
        for attribute in unit.all(ast.Attribute):
            what = _judge_attribute(unit, attribute, project)
            if what is None and _is_private(unit, attribute, own):
                what = f"reads the private attribute `{attribute.attr}`"
            if what is not None:
                yield _trick(unit, attribute, what)
        for name in unit.all(ast.Name):
            what = _judge_name(unit, name)
            if what is not None:
                yield _trick(unit, name, what)
        for call in unit.all(ast.Call):
            what = _judge_call(unit, call, project)
            if what is not None:
                yield _trick(unit, call, what)


def _trick(unit: Unit, node: ast.AST, what: str) -> Diagnostic:
    return at(unit, node, Diagnostic(code="NK903", what=f"the source {what}", hint=HINT))


def _own_private_names(project: Project) -> frozenset[str]:
    """Private names that classes and helper modules of the files define for themselves."""
    names: set[str] = set()
    for unit in (u for file in project.files for u in (file.module, *file.units.values())):
        if isinstance(unit.definition, ast.ClassDef) or not unit.name:
            names.update(name for name in unit.bound if name.startswith("_"))
        names.update(
            node.attr
            for node in unit.all(ast.Attribute)
            if not isinstance(node.ctx, ast.Load) and _is_self(node.value)
        )
    names.update(name for file in project.files for name in file.units)
    return frozenset(names)


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def _is_private(unit: Unit, node: ast.Attribute, own: frozenset[str]) -> bool:
    name = node.attr
    if not name.startswith("_") or name.startswith("__") or name in PUBLIC_UNDERSCORE:
        return False
    if _is_self(node.value) or name in own:
        return False
    root = (unit.full_name(node) or "").partition(".")[0]
    return root not in SYSTEM_MODULES  # judged with the module's other uses


def _judge_attribute(unit: Unit, node: ast.Attribute, project: Project) -> str | None:
    if node.attr in INTERNALS and not _is_self(node.value):
        return f"reads `{node.attr}`, an internal of the interpreter"
    if isinstance(unit.file.parents.get(node), ast.Attribute):
        return None
    full = unit.full_name(node)
    if full is None:
        return None
    return _judge_use(full) if isinstance(node.ctx, ast.Load) else _judge_patch(full, project)


def _judge_patch(full: str, project: Project) -> str | None:
    if full.partition(".")[0] in {n.partition(".")[0] for n in project.module_names}:
        return None
    return f"changes `{full}` of an imported module"


def _judge_use(full: str) -> str | None:
    root, _, rest = full.partition(".")
    if root == "numpy" and rest.partition(".")[0] in NUMPY_FILES:
        return f"reads or writes files with `{full}`"
    if root in ALLOWED and any(part in SYSTEM_MODULES for part in rest.split(".")):
        return f"uses `{full}`"
    if root not in SYSTEM_MODULES:
        return None
    if any(full == name or full.startswith(f"{name}.") for name in HARMLESS_USES):
        return None
    return f"uses `{full}`"


def _judge_name(unit: Unit, node: ast.Name) -> str | None:
    if node.id in FORBIDDEN_BUILTINS and unit.is_builtin(node, node.id):
        return f"uses `{node.id}`"
    full = unit.full_name(node)
    if full is None or "." not in full or isinstance(unit.file.parents.get(node), ast.Attribute):
        return None
    return _judge_use(full)


def _judge_call(unit: Unit, node: ast.Call, project: Project) -> str | None:
    if not unit.is_builtin(node.func, "setattr", "delattr", "getattr", "hasattr") or not node.args:
        return None
    assert isinstance(node.func, ast.Name)
    target = unit.full_name(node.args[0])
    name = node.args[1] if len(node.args) > 1 else None
    if isinstance(name, ast.Constant) and name.value in INTERNALS:
        return f"reads `{name.value}`, an internal of the interpreter"
    if node.func.id in ("setattr", "delattr") and target is not None:
        return _judge_patch(target, project)
    return None
