"""The layers are probed in children, so that the process that asks stays as it was."""

import os
from pathlib import Path

import pytest

from nki_agent.sandbox import landlock
from nki_agent.sandbox.jail import explain_failure, prepare_jail, read_address_space_bytes
from nki_agent.sandbox.locate import find_import_paths, make_environment
from nki_agent.sandbox.outcome import Layer, LayerState
from tests.source import PACKAGE

NO_RING = LayerState(Layer.BUBBLEWRAP, active=False, detail="not tried")
NO_NAMESPACES = LayerState(Layer.NAMESPACES, active=False, detail="not tried")


def test_probing_leaves_this_process_free(tmp_path: Path) -> None:
    jail = prepare_jail([os.__file__], ring=NO_RING, namespaces=NO_NAMESPACES)
    assert [state.layer for state in jail.status.layers] == list(Layer)
    assert jail.base_bytes == pytest.approx(read_address_space_bytes(), rel=0.1)
    if jail.ruleset is not None:
        os.close(jail.ruleset)
    (tmp_path / "still writable").write_text("x")


def test_failure_of_a_layer_is_told_with_its_reason() -> None:
    def fail() -> None:
        raise OSError("no such layer")

    assert explain_failure(fail) == "no such layer"
    assert explain_failure(lambda: None) == ""
    assert "ended with" in explain_failure(lambda: os.kill(os.getpid(), 9))


def test_missing_path_is_no_reason_to_lose_landlock(tmp_path: Path) -> None:
    try:
        landlock.find_abi()
    except OSError:
        pytest.skip("no Landlock here")
    os.close(landlock.make_ruleset([str(tmp_path / "missing"), str(tmp_path)]))


def test_import_path_is_made_and_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend("/folder/of/the/user")
    paths = find_import_paths(["numpy.linalg", "json", "missing_package"], extra=["relative"])
    assert paths[0] == str(PACKAGE.parent)
    assert paths[-1] == str(Path.cwd() / "relative")
    assert "/folder/of/the/user" not in paths
    assert any(Path(path, "numpy").is_dir() for path in paths)


def test_environment_is_made_and_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk")
    monkeypatch.setenv("PYTHONPATH", "/folder/of/the/user")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/lib")
    environment = make_environment()
    assert environment["PYTHONHASHSEED"] == "0"
    assert environment["LD_LIBRARY_PATH"] == "/lib"
    assert not {"ANTHROPIC_API_KEY", "PYTHONPATH"} & set(environment)
