"""Kernel sources from text and from files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.check.source import check_source
from nki_agent.chip.spec import Target
from nki_agent.nki.current.tracing import TraceRequest, trace
from nki_agent.verify.kernel import SOURCE_BYTES_MAX, Kernel
from tests.kernels import HEAD, body, f32


def test_helper_modules_beside_the_kernel_are_read(tmp_path: Path) -> None:
    (tmp_path / "softmax.py").write_text(
        "import nki\nfrom tiles import size\nimport numpy, other\n"
    )
    (tmp_path / "tiles.py").write_text("import deeper\n")
    (tmp_path / "deeper.py").write_text("")
    (tmp_path / "numpy.py").write_text("never read")
    kernel = Kernel.from_path(tmp_path / "softmax.py")
    assert sorted(kernel.files) == ["deeper.py", "softmax.py", "tiles.py"]
    assert kernel.source.startswith("import nki")
    assert kernel.hash != Kernel.from_text(kernel.source).hash


def test_unreadable_file_says_why(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no file"):
        Kernel.from_path(tmp_path / "none.py")
    with pytest.raises(UsageError, match="folder"):
        Kernel.from_path(tmp_path)
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="UTF-8"):
        Kernel.from_path(tmp_path / "binary.py")
    (tmp_path / "big.py").write_bytes(b"#" * (SOURCE_BYTES_MAX + 1))
    with pytest.raises(UsageError, match="larger"):
        Kernel.from_path(tmp_path / "big.py")


def test_helper_packages_beside_the_kernel_are_read_and_run(tmp_path: Path) -> None:
    texts = {
        "kernel.py": "from lib.deep.tiles import double\nfrom lib import shifts\n",
        "lib/deep/tiles.py": HEAD + "from ..shifts import SHIFT\ndef double(t): return 2\n",
        "lib/shifts.py": "SHIFT = 1\n",
        "lib/unused.py": "",
    }
    source = body("raise ValueError(double(x), shifts.SHIFT)")
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + source if name == "kernel.py" else text)
    kernel = Kernel.from_path(tmp_path / "kernel.py")
    assert sorted(kernel.files) == ["kernel.py", "lib/deep/tiles.py", "lib/shifts.py"]
    found = check_source(kernel.files, kernel.main, target=Target.TRN2)
    assert "NK107" not in [d.code for d in found]
    request = TraceRequest(
        files=kernel.files, main=kernel.main, arguments=(f32("x", 8, 8),), target=Target.TRN2
    )
    (finding,) = trace(request).findings
    assert "ValueError: (2, 1)" in finding.what


def test_imports_are_found_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text("import nki; import one\nif True: import two as three\n")
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("")
    kernel = Kernel.from_path(tmp_path / "kernel.py")
    assert sorted(kernel.files) == ["kernel.py", "one.py", "two.py"]


def test_file_without_end_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.py"
    os.mkfifo(pipe)
    for path in (Path("/dev/zero"), pipe):
        with pytest.raises(UsageError, match="no regular file"):
            Kernel.from_path(path)
