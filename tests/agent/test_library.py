"""A user's documentation is found by symbol and by words, and names its source."""

from __future__ import annotations

from pathlib import Path

import pytest

from nki_agent.agent.cards import look_up
from nki_agent.agent.library import (
    PASSAGE_CHARACTERS_MAX,
    Library,
    find_library,
    index_folder,
    split_passages,
)
from nki_agent.base.errors import UsageError
from nki_agent.chip.spec import Target

# Made up for this test.
RST = """\
Tiles at home
=============

A tile is a wooden box.

.. code-block:: python

   nki.isa.tensor_copy(dst, src)

nki.isa.zorble
--------------

Zorbles a box of marbles. At most seven marbles.
"""
MARKDOWN = """\
# Marble works

Intro of marbles.

## Polishing

```sh
# not a heading
```

Polish with `nisa.zorble` twice.
"""


@pytest.fixture
def library(tmp_path: Path) -> Library:
    folder = tmp_path / "docs"
    (folder / "api").mkdir(parents=True)
    (folder / "api" / "boxes.rst").write_text(RST)
    (folder / "works.md").write_text(MARKDOWN)
    (folder / "image.png").write_bytes(b"\x89PNG")
    (folder / ".git").mkdir()
    (folder / ".git" / "secret.md").write_text("zorble")
    (folder / "link.md").symlink_to("/etc/passwd")
    path = tmp_path / "cache" / "docs.sqlite"
    found = index_folder(folder, path)
    assert (found.files, found.skipped) == (2, ())
    return Library(path)


def test_symbol_in_a_title_comes_before_its_use(library: Library) -> None:
    for query in ("nki.isa.zorble", "nisa.zorble", "zorble", "`zorble`", "nisa.zorble()"):
        first, second = library.search(query, limit=2)
        assert (first.file, first.title) == ("api/boxes.rst", "nki.isa.zorble")
        assert (second.file, second.title) == ("works.md", "Polishing")


def test_words_find_their_section(library: Library) -> None:
    (found,) = library.search("wooden box", limit=1)
    assert str(found).startswith("From the indexed documentation, api/boxes.rst, “Tiles at home”:")
    assert "nki.isa.tensor_copy(dst, src)" in found.text
    assert library.search("unknown words only", limit=1) == ()


@pytest.mark.parametrize("query", ["", '"', "a OR", "NEAR(", "*", "col:x", "'; drop", "\x00", "-"])
def test_query_is_words_and_never_a_command(library: Library, query: str) -> None:
    assert len(library.search(query, limit=2)) <= 2


def test_look_up_says_both_and_where_each_is_from(library: Library) -> None:
    text = look_up("nisa.tensor_copy", target=Target.TRN2, docs=library)
    assert text.startswith("nisa.tensor_copy(dst, src")
    assert "From the indexed documentation, api/boxes.rst" in text
    assert look_up("zorble", target=Target.TRN2, docs=library).startswith("From the indexed")
    assert "nothing found" in look_up("zorble", target=Target.TRN2)


def test_index_is_replaced_whole_and_its_hash_says_of_what(library: Library) -> None:
    before = library.hash
    folder = library.path.parent.parent / "docs"
    assert index_folder(folder, library.path).files == 2
    assert library.hash == before
    (folder / "works.md").write_text("# Other\n\nwords\n")
    index_folder(folder, library.path)
    assert library.hash != before
    assert library.search("polish", limit=1) == ()
    assert [path.name for path in library.path.parent.iterdir()] == ["docs.sqlite"]


def test_folder_without_documentation_keeps_the_index(library: Library, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no documentation"):
        index_folder(tmp_path / "cache", library.path)
    assert library.search("polish", limit=1)


def test_file_that_is_no_index_is_named(tmp_path: Path) -> None:
    path = tmp_path / "docs.sqlite"
    assert find_library(path) is None
    path.write_text("no database")
    with pytest.raises(UsageError, match="no index of documentation"):
        find_library(path)


def test_passages_are_short_and_lose_nothing() -> None:
    text = "\n\n".join(f"{number} " + "word " * 60 for number in range(40))
    passages = list(split_passages(text))
    assert max(map(len, passages)) <= PASSAGE_CHARACTERS_MAX + 1
    assert "".join(passages).split() == text.split()


def test_escaped_underscore_is_an_underscore(tmp_path: Path) -> None:
    (tmp_path / "a.rst").write_text("nki.isa.zorb\\_box\n=================\n\ntext\n")
    path = tmp_path / "docs.sqlite"
    index_folder(tmp_path, path)
    (found,) = Library(path).search("nisa.zorb_box", limit=1)
    assert found.title == "nki.isa.zorb_box"


def test_control_characters_are_not_shown(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"# \x1b[31mRed\x07\n\nzorble \x1b]0;x\x07 \xff\n")
    path = tmp_path / "docs.sqlite"
    index_folder(tmp_path, path)
    (found,) = Library(path).search("zorble", limit=1)
    assert all(c.isprintable() for c in found.title)
    assert "\x1b" not in found.text
