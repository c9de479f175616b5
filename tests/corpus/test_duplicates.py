"""Of what is the same, one stays."""

from __future__ import annotations

from collections.abc import Mapping

from nki_agent.base.hashes import hash_text
from nki_agent.corpus.duplicates import VARIANTS, Entry, drop_duplicates
from nki_agent.corpus.fingerprint import read_text, share_of_pieces, take_fingerprint
from nki_agent.corpus.likeness import Likeness, count_pieces
from nki_agent.corpus.record import Family, Reason
from tests.corpus.tasks import declared

SILU = "return F.silu(x)"


def entries(sources: Mapping[str, str]) -> list[Entry]:
    return [
        Entry(
            id=name,
            sha256=hash_text(source),
            family=Family.ELEMENTWISE,
            pattern="p",
            print=take_fingerprint(source),
        )
        for name, source in sources.items()
    ]


def reasons(sources: Mapping[str, str]) -> list[Reason]:
    _, rejections = drop_duplicates(entries(sources))
    return [rejection.reason for rejection in rejections]


def test_text_with_other_comments_is_an_exact_duplicate() -> None:
    source = declared(SILU)
    other = source.replace("Made for a test.", "Made again.") + "# the end\n"
    assert reasons({"a": source, "b": other}) == [Reason.EXACT_DUPLICATE]


def test_same_graph_and_regime_is_a_structural_duplicate() -> None:
    other = declared("gate = torch.sigmoid(x)\nreturn gate * x", m=7, perf=1500)
    assert reasons({"a": declared(SILU), "b": other}) == [Reason.STRUCTURAL_DUPLICATE]


def test_same_graph_in_another_dtype_stays() -> None:
    assert reasons({"a": declared(SILU), "b": declared(SILU, dtype="bfloat16")}) == []


def test_one_graph_has_no_more_tasks_than_its_share() -> None:
    sources = {
        f"{dtype}-{perf}": declared(SILU, dtype=dtype, perf=perf)
        for dtype in ("float32", "bfloat16", "float16")
        for perf in (100, 2048, 16384)
    }
    kept, rejections = drop_duplicates(entries(sources))
    assert len(kept) == VARIANTS
    assert {r.reason for r in rejections} == {Reason.STRUCTURAL_DUPLICATE}
    assert all(f"has {VARIANTS} tasks" in r.detail for r in rejections)


def test_long_code_with_one_word_changed_is_a_near_duplicate() -> None:
    names = ("tanh", "exp", "sin", "cos", "sigmoid", "sqrt", "abs", "log", "erf")
    steps = "\n".join(f"x = x.{name}() * torch.{name}(x.{name}() + 1)" for name in names)
    pair = {"a": declared(f"{steps}\nreturn x"), "b": declared(f"{steps}\nreturn x.cos()")}
    assert reasons(pair) == [Reason.NEAR_DUPLICATE]


def test_short_code_with_one_word_changed_stays() -> None:
    assert reasons({"a": declared("return x.exp()"), "b": declared("return x.tanh()")}) == []


def test_what_stays_does_not_depend_on_the_order_given() -> None:
    given = entries({"a": declared(SILU), "b": declared("return x * x.sigmoid()")})
    forward, backward = (drop_duplicates(g)[0] for g in (given, given[::-1]))
    assert [e.id for e in forward] == [e.id for e in backward]


def test_pieces_know_no_names_of_variables_and_know_functions() -> None:
    base, renamed, other = (
        read_text(f"def reference({n}):\n    return torch.{f}({n}) + {n}\n")[1]
        for n, f in (("x", "exp"), ("data", "exp"), ("x", "sin"))
    )
    assert base == renamed
    assert share_of_pieces(base, other) < 1


def test_likeness_finds_exactly_those_above_its_threshold() -> None:
    sets = [tuple(range(start, start + 20)) for start in range(0, 40, 2)]
    threshold = 0.6
    for own in sets:
        likeness = Likeness(threshold, counts=count_pieces(sets))
        for place, pieces in enumerate(sets):
            likeness.add(str(place), pieces)
        found, skipped = [], frozenset[str]()
        while (hit := likeness.find(own, but=skipped)) is not None:
            found.append(hit[0])
            skipped |= {hit[0]}
        wanted = [str(i) for i, p in enumerate(sets) if share_of_pieces(own, p) >= threshold]
        assert found == wanted
