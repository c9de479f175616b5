"""The same laws as an ordinary user, and on machines that lack Landlock, or that and seccomp."""

import pytest

from nki_agent.sandbox.pool import Layer, OutcomeKind
from tests.sandbox.survey import Survey, read_survey


@pytest.fixture(params=["full", "no-bubblewrap", "no-landlock"])
def survey(request: pytest.FixtureRequest) -> Survey:
    found = read_survey(request.param)
    if found.skipped:
        pytest.skip(f"can't become an ordinary user here: {found.skipped}")
    return found


def test_sandbox_works_after_every_escape(survey: Survey) -> None:
    assert survey.outcomes["echo after"].data == b"right"
    assert survey.refused == ""


def test_uid_layer_is_off_without_root(survey: Survey) -> None:
    assert Layer.UID not in survey.status.active


def test_library_can_be_read_and_imported_late_with_landlock() -> None:
    found = read_survey("full")
    if Layer.LANDLOCK not in found.status.active:
        pytest.skip("no Landlock here")
    assert found.outcomes["late import"].data == b"'colorsys'"
    assert found.outcomes["read library"].data == b"True"


def test_nothing_can_be_opened_without_landlock() -> None:
    found = read_survey("no-landlock")
    if found.skipped:
        pytest.skip(found.skipped)
    assert Layer.LANDLOCK not in found.status.active
    assert found.outcomes["read library"].kind is OutcomeKind.RAISED
    assert "PermissionError" in found.outcomes["read library"].detail


def test_bare_machine_refuses_untrusted_source() -> None:
    found = read_survey("bare")
    if found.skipped:
        pytest.skip(found.skipped)
    assert not found.status.is_enough
    for word in ("landlock, seccomp, uid", "landlock   off", "seccomp    off", "allow_unsandboxed"):
        assert word in found.refused
    assert found.outcomes["echo"].data == b"right"
