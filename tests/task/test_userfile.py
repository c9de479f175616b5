import subprocess
import sys
import time
from pathlib import Path

import pytest

from nki_agent.base.errors import TaskError
from nki_agent.task.handed import HandedFiles
from nki_agent.task.loader import load_task
from nki_agent.task.userfile import SOURCE_BYTES_MAX, read_user_file


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


READ = """
import sys
from pathlib import Path
from nki_agent.task.userfile import read_user_file
read_user_file(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("name", ["cuda", "colorsys"])
def test_file_named_like_a_module_that_others_import_harms_nobody(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('taken')\n")
    (tmp_path / "task.py").write_text("import torch\nimport colorsys\n")
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            READ,
            str(tmp_path / "task.py"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr


def test_default_dtype_of_a_file_is_its_own(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "double.py").write_text("import torch\ntorch.set_default_dtype(torch.float64)\n")
    (tmp_path / "plain.py").write_text("import torch\n")
    double, plain = (read_user_file(tmp_path / f"{name}.py") for name in ("double", "plain"))
    for user, dtype in ((double, torch.float64), (plain, torch.float32), (double, torch.float64)):
        with user.running("the call"):
            assert torch.ones(1).dtype is dtype
        assert torch.get_default_dtype() is torch.float32


def test_handed_file_takes_no_folder_off_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    # Its path is a name alone, whose folder is the current one, which pytest has put there.
    folder = str(Path("handed.py").resolve().parent)
    monkeypatch.setattr(sys, "path", [folder, *sys.path])
    source = (
        'import torch\nSHAPES = {"dev": {"M": 8}}\nINPUTS = {"x": "float32[M]"}\n'
        'OUTPUTS = {"y": "float32[M]"}\nTOLERANCE = "F2"\n'
        "def reference(x):\n    return torch.tanh(x)\n"
    )
    before = list(sys.path)
    load_task(Path("handed.py"), handed=HandedFiles(source=source, modules={}))
    assert sys.path == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a = [" + "1," * 9_000_000 + "]", "is larger than"),
        ("a = " + "-" * 200_000 + "1", "too deeply nested"),
        ("a = " + "(" * 200_000, "not Python"),
        ("a = " + "x." * 100_000 + "x", "too deeply nested"),
    ],
)
def test_file_that_is_no_task_is_refused_at_once(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "task.py"
    path.write_text(text)
    begun = time.process_time()
    with pytest.raises(TaskError, match=words):
        read_user_file(path)
    assert time.process_time() - begun < 2.0


def test_text_that_is_handed_over_has_the_limit_of_files(tmp_path: Path) -> None:
    handed = HandedFiles(source="#" * (SOURCE_BYTES_MAX + 1), modules={})
    with pytest.raises(TaskError, match="is larger than"):
        read_user_file(tmp_path / "task.py", handed=handed)
