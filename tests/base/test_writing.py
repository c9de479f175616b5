"""Places that cannot be written: whose fault it is, and that nothing half made is left."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from nki_agent.base.errors import MachineError, UsageError
from nki_agent.base.writing import (
    SHORTAGES,
    NewFolder,
    new_folder,
    path_error,
    write_text,
    write_whole,
    writing,
)


def fill_up(path: Path) -> None:
    path.write_text("half")
    raise OSError(errno.ENOSPC, "full")


def fail_in(folder: Path) -> None:
    (folder / "file").write_text("half")
    (folder / "tasks").mkdir()
    (folder / "tasks" / "more").write_text("half")
    raise KeyError


def keep_and_fail(folder: NewFolder) -> None:
    folder.is_kept = True
    fail_in(folder.path)


@pytest.mark.parametrize("number", sorted(SHORTAGES))
def test_shortage_is_the_machines(number: int) -> None:
    assert isinstance(path_error("write `x`", OSError(number, "no")), MachineError)


@pytest.mark.parametrize(
    "number", [errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EROFS, errno.ELOOP]
)
def test_place_that_does_not_take_it_is_the_users(number: int) -> None:
    error = path_error("write `x`", OSError(number, "no"), hint="elsewhere")
    assert isinstance(error, UsageError)
    assert str(error) == "cannot write `x`: no\n  hint: elsewhere"


def test_file_that_failed_is_not_left_half_written(tmp_path: Path) -> None:
    path = tmp_path / "new"
    with pytest.raises(MachineError, match="full"), writing(path):
        fill_up(path)
    assert not path.exists()


def test_file_that_was_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "old"
    path.write_text("old")
    with pytest.raises(MachineError), writing(path):
        raise OSError(errno.ENOSPC, "full")
    assert path.read_text() == "old"
    with pytest.raises(UsageError, match="Is a directory"):
        write_text(tmp_path, "text")


def test_folder_is_as_it_was_when_its_block_fails(tmp_path: Path) -> None:
    empty, below = tmp_path / "empty", tmp_path / "a" / "b"
    empty.mkdir()
    for path in (empty, below):
        with pytest.raises(KeyError), new_folder(path, hint=""):
            fail_in(path)
    assert [p.name for p in tmp_path.iterdir()] == ["empty"]
    assert not list(empty.iterdir())


def test_folder_that_is_kept_stays_when_its_block_fails(tmp_path: Path) -> None:
    with pytest.raises(KeyError), new_folder(tmp_path / "a", hint="") as folder:
        keep_and_fail(folder)
    assert (tmp_path / "a" / "file").exists()


def test_folder_that_holds_something_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")
    with pytest.raises(UsageError, match="is not empty"), new_folder(tmp_path, hint=""):
        pass
    assert (tmp_path / "mine").read_text() == "keep"


def test_folder_below_a_file_is_refused_and_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with (
        pytest.raises(UsageError, match="Not a directory"),
        new_folder(tmp_path / "file/a", hint=""),
    ):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_file_is_written_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_whole(path, b"old")
    (tmp_path / "a.json.part").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
