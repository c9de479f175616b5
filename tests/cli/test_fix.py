"""`check --fix`: which files it writes, and what it says."""

from pathlib import Path

import pytest

from tests.agent.tiny import RIGHT
from tests.cli.calling import call, write_kernel

HABITS = RIGHT.replace("@nki.jit", "@nki.jit(mode='trace')")


def test_fix_writes_the_file_and_shows_the_change(tmp_path: Path) -> None:
    path = write_kernel(tmp_path, HABITS)
    called = call("check", "--fix", path)
    assert (called.code, called.out) == (0, "")
    assert path.read_text() == RIGHT
    assert "-@nki.jit(mode='trace')\n+@nki.jit\n" in called.err
    assert called.err.endswith("1 file, 0 errors, 1 fix\n")


def test_fix_of_a_good_file_does_not_write_it(tmp_path: Path) -> None:
    path = write_kernel(tmp_path, RIGHT)
    before = path.stat().st_mtime_ns
    assert call("check", "--fix", path).err == "1 file, 0 errors, 0 fixes\n"
    assert path.stat().st_mtime_ns == before


def test_fix_leaves_line_ends_and_syntax_errors_alone(tmp_path: Path) -> None:
    windows = tmp_path / "windows.py"
    windows.write_bytes(HABITS.replace("\n", "\r\n").encode())
    broken = tmp_path / "broken.py"
    broken.write_text(HABITS + "def f(:\n")
    assert call("check", "--fix", windows, broken).code == 1
    assert windows.read_bytes() == RIGHT.replace("\n", "\r\n").encode()
    assert broken.read_text() == HABITS + "def f(:\n"


def test_check_without_fix_writes_nothing_and_names_the_edit(tmp_path: Path) -> None:
    path = write_kernel(tmp_path, HABITS)
    (checked,) = call("check", path, "--json").document
    (finding,) = checked["diagnostics"]
    (edit,) = finding["edits"]
    assert edit[0] == str(path)
    assert path.read_text() == HABITS


def test_file_that_cannot_be_written_is_usage(tmp_path: Path) -> None:
    path = write_kernel(tmp_path, HABITS)
    path.chmod(0o400)
    if _can_write(path):
        pytest.skip("this user may write anything")
    assert call("check", "--fix", path).code == 2


def _can_write(path: Path) -> bool:
    try:
        path.open("a").close()
    except PermissionError:
        return False
    return True
