"""The one grammar of diagnostics, and untrusted text in it."""

from __future__ import annotations

from nki_agent.base.catalogue import CATALOGUE
from nki_agent.base.diagnostic import (
    FRAMES_MAX,
    TEXT_LIMIT,
    Diagnostic,
    Frame,
    Severity,
    bounded,
    clean,
)


def test_message_says_what_where_value_limit_and_hint() -> None:
    finding = Diagnostic(
        code="NK305",
        what="free size of `moving`",
        got="1024",
        limit="512",
        hint="split it",
        where=(Frame("kernel.py", 40, "kernel"), Frame("kernel.py", 31, "tile")),
    )
    assert str(finding) == (
        "kernel.py:31: NK305 free size of `moving` is 1024, but the limit is 512\n"
        "  called from kernel.py:40\n"
        "  hint: split it"
    )


def test_warning_names_its_severity() -> None:
    finding = Diagnostic(code="NK503", what="input of log", got="-1", severity=Severity.WARNING)
    assert str(finding) == "NK503 warning: input of log: -1"


def test_text_from_a_kernel_has_no_control_characters_and_a_bounded_length() -> None:
    assert clean("a\x1b[31m\nb") == "a\ufffd[31m b"
    assert len(clean("x" * 10_000)) == TEXT_LIMIT


def test_bounded_finding_says_the_same_in_little_space() -> None:
    hostile = "\x1b[2J" + "x" * 10_000_000
    stack = (Frame(hostile, 1, hostile),) * 10_000
    finding = bounded(
        Diagnostic(
            code="NK109", what=hostile, where=stack, got=hostile, limit=hostile, hint=hostile
        )
    )
    assert len(finding.where) == FRAMES_MAX
    assert len(repr(finding)) < (2 * FRAMES_MAX + 6) * (TEXT_LIMIT + 100)
    assert "\x1b" not in "".join(
        [finding.what, finding.got, finding.limit, finding.hint, finding.where[0].file]
    )
    plain = Diagnostic(code="NK109", what="a", where=(Frame("k.py", 1, "f"),), got="b", hint="c")
    assert bounded(plain) == plain


def test_every_code_is_listed_once_and_in_order() -> None:
    codes = list(CATALOGUE)
    assert codes == sorted(codes)
    for code, row in CATALOGUE.items():
        assert row.code == code
        assert row.title
        assert row.explanation.endswith(".")
        assert row.hint.endswith(".")
