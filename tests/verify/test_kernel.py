"""Kernel sources from text and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.base.errors import UsageError
from nki_agent.verify.kernel import SOURCE_BYTES_MAX, Kernel


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
