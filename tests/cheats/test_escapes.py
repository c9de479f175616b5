"""Every escape ends as its header says, and the next kernel does not notice.

Law: as root and as an ordinary user, with and without Landlock, in the sandbox that the judge uses;
and as a kernel in front of the judge it is never right and never an exception of ours.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nki_agent.chip.spec import Target
from nki_agent.sandbox.bubblewrap import find_ring
from nki_agent.sandbox.outcome import Layer, Limits, OutcomeKind
from nki_agent.sandbox.pool import Sandbox
from nki_agent.task.task import Task
from nki_agent.verify import compiling
from nki_agent.verify.judge import Judge
from nki_agent.verify.kernel import MAIN_NAME, Kernel
from tests.cheats.escape import Escape, read_escapes
from tests.cheats.test_cheats import HONEST, find_nothing
from tests.sandbox import starting
from tests.sandbox.survey import Survey, read_survey

ESCAPES = read_escapes()
NUM_ESCAPES_MIN = 200
ROOT_SEED = 7


@pytest.fixture(scope="module", params=["ring", "no ring"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """With bubblewrap around it, where it works, and without."""
    with pytest.MonkeyPatch.context() as patch:
        find_ring.cache_clear()
        if request.param == "no ring":
            patch.setenv("PATH", "")
        with starting.start_sandbox() as sandbox:
            state = next(s for s in sandbox.status.layers if s.layer is Layer.BUBBLEWRAP)
            if request.param == "ring" and not state.active:
                pytest.skip(f"no bubblewrap: {state.detail}")
            assert state.active is (request.param == "ring")
            yield sandbox
    find_ring.cache_clear()


@pytest.fixture(scope="module")
def impatient() -> Iterator[Judge]:
    """A judge that gives a kernel one second."""
    limits = Limits(seconds=1.0, cpu_seconds=1, memory_bytes=1 << 30, result_bytes=1 << 20)
    with Judge(target=Target.TRN2, limits=limits) as judge:
        yield judge


@pytest.fixture(params=["full", "no-bubblewrap", "no-landlock"])
def survey(request: pytest.FixtureRequest) -> Survey:
    found = read_survey(request.param)
    if found.skipped:
        pytest.skip(f"can't become an ordinary user here: {found.skipped}")
    return found


def test_escapes_are_many_and_each_says_what_it_tries() -> None:
    assert len(ESCAPES) >= NUM_ESCAPES_MIN
    assert len({escape.what for escape in ESCAPES}) == len(ESCAPES)
    assert all(escape.end is not OutcomeKind.RESULT and escape.says for escape in ESCAPES)


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.name)
def test_escape_ends_as_its_header_says(escape: Escape, sandbox: Sandbox) -> None:
    zygote = sandbox.pid
    escape.check(sandbox.run(escape.source.encode(), limits=escape.limits))
    after = starting.run_source(sandbox, "return np.arange(4).sum()")
    assert (after.kind, after.data) == (OutcomeKind.RESULT, b"np.int64(6)")
    assert sandbox.pid == zygote


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.name)
def test_escape_ends_the_same_for_an_ordinary_user(escape: Escape, survey: Survey) -> None:
    escape.check(survey.outcomes[escape.name])


@pytest.mark.parametrize("escape", ESCAPES, ids=lambda escape: escape.name)
def test_kernel_that_tries_to_escape_is_not_right(
    escape: Escape, impatient: Judge, softmax: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker of the source, which would name most of them, looks away."""
    honest = HONEST.kernel.files[MAIN_NAME]
    files = {
        MAIN_NAME: f"{escape.source}\nrun()\n{honest}",
        "probing.py": (starting.FOLDER / "probing.py").read_text(encoding="utf-8"),
    }
    monkeypatch.setattr(compiling, "check_source", find_nothing)
    verdict = impatient.judge(Kernel(files, MAIN_NAME), softmax, root_seed=ROOT_SEED)
    assert not verdict.right, escape.what
    assert verdict.diagnostics
    assert impatient.compile(HONEST.kernel, softmax.dev).stage is None
