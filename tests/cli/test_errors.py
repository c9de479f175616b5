"""From an error to one message and an exit code; no traceback on the screen."""

import errno
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.base.errors import KernelError, MachineError, TaskError, UsageError
from nki_agent.cli.command import ExitCode, make_app


def fail_with(error: BaseException) -> typer.Typer:
    def command() -> ExitCode:
        raise error

    return make_app(command)


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageError("no target", hint="trn2"), 2, "error: no target\n  hint: trn2\n"),
        (TaskError("no model"), 2, "error: no model\n"),
        (MachineError("no sandbox"), 4, "error: no sandbox\n"),
        (KernelError(Diagnostic(code="NK101", what="x")), 1, "error: NK101 x\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (OSError(errno.ENOSPC, "No space left"), 4, "error: cannot write: No space left\n"),
    ],
)
def test_error_has_its_code_and_message(error: BaseException, code: int, words: str) -> None:
    result = CliRunner().invoke(fail_with(error))
    assert (result.exit_code, result.stderr, result.stdout) == (code, words, "")


def test_interrupt_that_an_import_wrapped_is_no_bug() -> None:
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise ImportError("numpy failed to import")  # noqa: B904 - as NumPy does
    except ImportError as error:
        result = CliRunner().invoke(fail_with(error))
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_bug_of_ours_leaves_its_traceback_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = CliRunner().invoke(fail_with(ZeroDivisionError("division by zero")))
    (log,) = tmp_path.glob("nki-agent-crash-*.log")
    assert result.exit_code == 4
    assert "internal error: ZeroDivisionError: division by zero" in result.stderr
    assert str(log) in result.stderr
    assert "Traceback" not in result.stderr
    assert "Traceback" in log.read_text()


def test_machine_s_refusal_is_no_bug() -> None:
    refusal = PermissionError(errno.EACCES, "Permission denied", "/here")
    called = CliRunner().invoke(fail_with(refusal))
    assert (called.exit_code, called.stderr) == (
        4,
        "error: this machine refuses `/here`: Permission denied\n",
    )
    called = CliRunner().invoke(fail_with(MemoryError()))
    assert called.exit_code == 4
    assert "too little memory" in called.stderr


def test_traceback_is_shown_where_no_file_can_hold_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    called = CliRunner().invoke(fail_with(ZeroDivisionError("division by zero")))
    assert called.exit_code == 4
    assert "Traceback" in called.stderr


def test_notes_follow_the_message() -> None:
    error = TaskError("bad task")
    error.add_note("kept: runs/x")
    assert CliRunner().invoke(fail_with(error)).stderr == "error: bad task\nkept: runs/x\n"


@pytest.mark.parametrize("code", list(ExitCode))
def test_returned_code_is_the_exit_code(code: ExitCode) -> None:
    def command() -> ExitCode:
        return code

    assert CliRunner().invoke(make_app(command)).exit_code == code
