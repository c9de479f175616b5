"""`docs index` makes an index in the user's cache; `docs status` says of what."""

from pathlib import Path

import pytest

from tests.cli.calling import call


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "nki-agent" / "docs.sqlite"


def test_index_status_and_clear(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.rst").write_text("Boxes\n=====\n\nwood\n")
    called = call("docs", "index", tmp_path / "docs")
    assert (called.code, "1 file, 1 passage;" in called.err) == (0, True)
    assert f"folder      {tmp_path / 'docs'}" in call("docs", "status").out
    assert call("docs", "clear").code == 0
    assert not cache.exists()
    assert "nothing is indexed" in call("docs", "status").out


def test_what_cannot_be_indexed_ends_with_usage(tmp_path: Path, cache: Path) -> None:
    assert call("docs", "index", tmp_path / "nowhere").code == 2
    (tmp_path / "empty").mkdir()
    called = call("docs", "index", tmp_path / "empty")
    assert (called.code, "no documentation" in called.err) == (2, True)
    cache.parent.parent.write_text("a file where the cache should be")
    (tmp_path / "empty" / "a.md").write_text("# A\n\ntext\n")
    called = call("docs", "index", tmp_path / "empty")
    assert (called.code, "cannot write the index" in called.err) == (2, True)
