"""Texts before a call: what they say stands in the answer, the kernel, or what was planted."""

import re

from nki_agent.base.seeds import rng_for
from nki_agent.corpus.telling import describe_change, read_finding, tell_repair
from nki_agent.verify.verdict import Stage

ANSWER = """stage: untraceable
Repair first: kernel.py:31: NK301 free axis of `moving` is 1024, but the limit is 512
  hint: split the free axis
  31 | nisa.nc_matmul(dst=p, stationary=a, moving=b)
Next: repair only that."""
WRONG = """stage: wrong
Repair first: NK501 output `y` in trial 0 (standard inputs, seed 77): error is 1.5; first
Next: find the one step."""


def test_finding_is_what_the_answer_puts_first() -> None:
    finding = read_finding(ANSWER)
    assert finding is not None
    assert (finding.stage, finding.code, finding.line) == (Stage.UNTRACEABLE, "NK301", 31)
    assert finding.what == "free axis of `moving` is 1024, but the limit is 512"


def test_wrong_values_have_no_line_and_no_seed_is_repeated() -> None:
    finding = read_finding(WRONG)
    assert finding is not None
    assert finding.line is None
    assert "77" not in finding.what


def test_answer_without_a_fault_has_no_finding() -> None:
    assert read_finding("stage: right\nEstimated latency 5 µs.") is None


def test_every_code_number_and_name_of_a_text_was_seen() -> None:
    finding = read_finding(ANSWER)
    assert finding is not None
    faulty, right = "a = 1\nb = wide(1024)\n", "a = 1\nb = wide(512)\n"
    texts = set()
    for number in range(40):
        text = tell_repair(
            finding,
            "`b` takes all columns at once",
            faulty=faulty,
            right=right,
            rng=rng_for(0, number),
        )
        texts.add(text)
        assert "NK301" in text
        assert "`b = wide(512)`" in text
        seen = f"{ANSWER} {right} 2"
        assert all(number in seen for number in re.findall(r"\d+", text))
    assert len(texts) > 10


def test_change_is_told_by_its_kind() -> None:
    rng = rng_for(0, "change")
    assert "`y = 2`" in describe_change("x\n", "x\ny = 2\n", rng)
    assert describe_change("x\ny\n", "x\n", rng) == "I take line 2 away."
    assert "lines 1 and 3" in describe_change("a\nb\nc\n", "1\nb\n2\n", rng)
