import os
from pathlib import Path

import pytest

from nki_agent.base.bounded import UnreadableError, read_text


def test_text_up_to_the_limit_is_read_without_marks(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes("\N{BOM}a\r\nb\rc\n".encode())
    assert read_text(path, path.stat().st_size) == "a\nb\nc\n"


def test_what_is_no_text_says_why(tmp_path: Path) -> None:
    big, odd, pipe = tmp_path / "big", tmp_path / "odd", tmp_path / "pipe"
    big.write_text("four")
    odd.write_bytes(b"\xff\xfe")
    os.mkfifo(pipe)
    why = {
        big: "is larger than 3 bytes",
        odd: "is not text in UTF-8",
        pipe: "is no regular file",
        Path("/dev/zero"): "is no regular file",
        tmp_path: "is a folder",
        tmp_path / "none": "is not there",
        big / "below": "cannot be read: Not a directory",
    }
    found = {}
    for path in why:
        with pytest.raises(UnreadableError) as caught:
            read_text(path, 3)
        found[path] = str(caught.value)
    assert found == why


@pytest.mark.parametrize("name", ["x\0y", "a" * 5000])
def test_path_that_no_file_can_have_is_unreadable(name: str) -> None:
    with pytest.raises(UnreadableError, match="cannot be read"):
        read_text(Path(name))
