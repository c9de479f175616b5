"""The import rules that import-linter does not know; the layers are in pyproject.toml."""

import graphlib
import subprocess
import sys

import pytest

from tests.source import PACKAGE, read_modules

# Package → the rooms that may import it. DESIGN: values come from NumPy, references from PyTorch.
ALLOWED_ROOMS = {
    "torch": {"task", "builtin", "corpus", "train"},
    # Sockets to models.
    "aiohttp": {"llm"},
    "anthropic": {"llm"},
    "boto3": {"llm"},
    "http.client": {"llm"},
    "httpx": {"llm"},
    "inspect_ai": {"llm", "evals"},
    "openai": {"llm"},
    "requests": {"llm"},
    "urllib.request": {"llm"},
    # Other sockets; the sandbox's are a socket pair with its own fork server, and the server of a
    # model in a directory is a process of its own.
    "asyncio.open_connection": {"device", "farm", "serve", "mcp"},
    "asyncio.start_server": {"device", "farm", "serve", "mcp"},
    "http.server": {"llm", "device", "farm", "serve", "mcp"},
    "mcp": {"mcp"},
    "mcp_types": {"mcp"},
    "uvicorn": {"mcp", "serve"},
    "ray": {"farm"},
    "socket": {"sandbox", "device", "farm", "serve", "mcp"},
    "socketserver": {"device", "farm", "serve", "mcp"},
}
# Nothing that a start-up must pay for, or that a sandboxed process must not hold.
HEAVY = (
    "torch",
    "inspect_ai",
    "anthropic",
    "openai",
    "matplotlib",
    "numba",
    "ray",
    "transformers",
    "mcp",
)


@pytest.mark.parametrize("package", sorted(ALLOWED_ROOMS))
def test_package_is_imported_only_in_its_rooms(package: str) -> None:
    strays = [
        f"{module.path.relative_to(PACKAGE)}:{line} imports {name}"
        for module in read_modules()
        for name, line in module.imports()
        if name == package or name.startswith(f"{package}.")
        if module.room not in ALLOWED_ROOMS[package]
    ]
    assert strays == []


def test_modules_import_without_cycles() -> None:
    names = {module.name for module in read_modules()}
    graph = {
        module.name: {name for name, _ in module.imports() if name in names} - {module.name}
        for module in read_modules()
    }
    for needed in graph.values():
        # `from a.b import c` names both a.b and a.b.c: the module that is meant is the longer one.
        needed -= {name for name in needed if any(n.startswith(f"{name}.") for n in needed)}
    graphlib.TopologicalSorter(graph).prepare()


def test_commands_start_without_heavy_packages() -> None:
    script = f"import sys, nki_agent.cli.main; print([n for n in {HEAVY!r} if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
