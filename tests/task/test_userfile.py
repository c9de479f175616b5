import sys
from pathlib import Path

import pytest

from nki_agent.base.errors import TaskError
from nki_agent.task.userfile import read_user_file


def test_modules_of_one_name_beside_two_files_stay_apart(tmp_path: Path) -> None:
    users = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "beside.py").write_text(f"NAME = {name!r}\n")
        (folder / "task.py").write_text(
            "import beside\ndef get():\n    import beside as again\n    return again.NAME\n"
        )
        users.append(read_user_file(folder / "task.py"))
    for name, user in zip(("one", "two"), users, strict=True):
        with user.running("the call"):
            assert user.module.get() == name
        assert name == user.module.beside.NAME
    assert "beside" not in sys.modules


def test_folder_named_like_a_loaded_package_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "task.py").write_text("import numpy\n")
    read_user_file(tmp_path / "task.py")
    assert "numpy" in sys.modules


def test_error_names_the_innermost_line_of_the_users_file(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text(
        "import textwrap\ndef inner():\n    textwrap.dedent(3)\ndef outer():\n    inner()\n"
    )
    user = read_user_file(path)
    with (
        pytest.raises(TaskError, match=r"^task.py:3: the call raised TypeError"),
        user.running("the call"),
    ):
        user.module.outer()


def test_error_with_a_long_text_stays_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "task.py"
    path.write_text("raise ValueError('one\\n  two')\n")
    with pytest.raises(TaskError, match="raised ValueError: one two"):
        read_user_file(path)
