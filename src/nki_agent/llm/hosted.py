"""Starts a server of our own for a model in a directory, and ends it.

Law: the server is a process of its own, listens on this machine only, answers only whoever has its
key, and ends with the process that started it, however that ends.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from nki_agent.base.errors import MachineError, UsageError
from nki_agent.llm.providers import require_packages

CONFIG = "config.json"
GGUF = ".gguf"
START_S = 600.0
"""A big model takes minutes to load."""
END_S = 5.0
KEY_BYTES = 16


class Ready(msgspec.Struct, frozen=True, kw_only=True):
    """What the server says once it listens."""

    port: int = 0
    error: str = ""


class HostedModel:
    """A running server; close it."""

    def __init__(self, directory: Path, *, start_s: float = START_S) -> None:
        """Start it and wait until the model is loaded.

        Raises:
            UsageError: the directory's model cannot be loaded.
            MachineError: the server does not start.
        """
        self.key = secrets.token_hex(KEY_BYTES)
        command = [sys.executable, "-P", "-m", "nki_agent.llm.host", str(directory)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_make_environment(),
            start_new_session=True,
        )
        timer = threading.Timer(start_s, self._process.kill)
        timer.start()
        try:
            ready = self._wait()
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
        self.url = f"http://127.0.0.1:{ready.port}/v1"

    @property
    def pid(self) -> int:
        """Of the server's process."""
        return self._process.pid

    def close(self) -> None:
        """End the server; it ends by itself when its input does."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _wait(self) -> Ready:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        # Not in the environment, where the user's other processes could read it.
        self._process.stdin.write(self.key.encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        try:
            ready = msgspec.json.decode(line, type=Ready)
        except msgspec.MsgspecError as error:
            raise MachineError("the server of the model ended before it was ready") from error
        if ready.error:
            raise UsageError(
                f"cannot load the model: {ready.error}",
                hint="`hf/DIR` takes a directory that transformers can load: config, weights,"
                " tokenizer with a chat template",
            )
        return ready


def require_directory(directory: Path, *, model: str) -> None:
    """Refuse a directory that holds no model, or a machine without the packages to load one."""
    if not directory.is_dir():
        raise UsageError(f"`--model {model}`: there is no directory `{directory}`")
    if not (directory / CONFIG).is_file():
        raise UsageError(
            f"`--model {model}`: `{directory}` has no {CONFIG}",
            hint="`hf/DIR` takes what `save_pretrained` of transformers writes",
        )
    require_packages(("inspect_ai", "openai"), model=model, extra="agent")
    require_packages(("transformers", "torch"), model=model, extra="hf")


def _make_environment() -> dict[str, str]:
    """Ours without keys; nothing is fetched for a model that is on this machine."""
    kept = {k: v for k, v in os.environ.items() if not k.upper().endswith(("_KEY", "_TOKEN"))}
    return {**kept, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
