"""Calls the command line in this process."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from nki_agent.cli.main import app
from tests.agent.tiny import RIGHT, write_task


@dataclass(frozen=True, slots=True)
class Called:
    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


def call(*arguments: object) -> Called:
    result = CliRunner().invoke(app, [str(a) for a in arguments], prog_name="nki-agent")
    return Called(result.exit_code, result.stdout, result.stderr)


def write_kernel(folder: Path, source: str = RIGHT) -> Path:
    path = folder / "kernel.py"
    path.write_text(source)
    return path


def write_script(folder: Path, *lines: object) -> str:
    """A script of a model; the name that `--model` takes."""
    path = folder / "script.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"scripted/{path}"


def use(tool: str, **arguments: str) -> dict[str, object]:
    return {"tool_calls": [{"name": tool, "arguments": arguments}]}


__all__ = ["Called", "call", "use", "write_kernel", "write_script", "write_task"]
