"""Folders that are not what they should be."""

import os
from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.bench.importers import listing as room
from nki_agent.bench.importers.listing import read_listing


def test_files_come_in_natural_order(tmp_path: Path) -> None:
    for name in ("10_b.py", "2_a.py", "1_c.py"):
        (tmp_path / name).write_text("")
    assert list(read_listing(tmp_path).texts) == ["1_c.py", "2_a.py", "10_b.py"]


def test_circle_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1")
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    found = read_listing(tmp_path)
    assert list(found.texts) == ["a.py"]
    assert found.problems == {"loop.py": "a link in a circle"}


def test_link_out_of_the_suite_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.py").write_text("key = 1")
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "a.py").symlink_to(tmp_path / "secret.py")
    assert read_listing(suite).problems == {"a.py": "a link out of the suite's folder"}


def test_file_of_eight_gigabytes_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "a.py").open("wb") as file:
        file.truncate(8 << 30)
    (problem,) = read_listing(tmp_path).problems.values()
    assert problem == f"it has over {room.FILE_BYTES_MAX >> 20} MiB, more than any task"


def test_file_that_is_no_text_or_no_file_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(tmp_path / "b.py")
    problems = read_listing(tmp_path).problems
    assert problems == {"a.py": "it is not text in UTF-8", "b.py": "no regular file"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_file_without_permission_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    (tmp_path / "a.py").chmod(0)
    assert "cannot be read" in read_listing(tmp_path).problems["a.py"]


def test_empty_folder_and_missing_path_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no"):
        read_listing(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        read_listing(tmp_path / "nowhere")


def test_line_ends_of_other_systems_are_taken_as_ours(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"\xef\xbb\xbfx = 1\r\ny = 2\r")
    assert read_listing(tmp_path).texts == {"a.py": "x = 1\ny = 2\n"}
