"""The skill folder is whole: its links lead somewhere, its commands exist, its size is bearable."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nki_agent.agent.skill import (
    FOLDERS,
    MAIN,
    NAME,
    WRITTEN,
    Agent,
    make_name,
    place_skill,
    write_skill,
)
from nki_agent.base.catalogue import CATALOGUE
from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_text
from nki_agent.chip.spec import Target
from nki_agent.cli.main import COMMANDS
from nki_agent.isa.table import TABLE

MAIN_BYTES_MAX = 8_000
"""An agent reads all of it at each start."""


def write(folder: Path) -> str:
    write_skill(folder, target=Target.TRN2)
    return (folder / MAIN).read_text()


def test_every_link_of_the_skill_leads_to_a_file(tmp_path: Path) -> None:
    text = write(tmp_path / NAME)
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not (tmp_path / NAME / link).is_file()] == []


def test_every_command_of_the_skill_exists(tmp_path: Path) -> None:
    named = set(re.findall(r"nki-agent ([a-z]+) ?", write(tmp_path)))
    assert named
    assert named <= {*COMMANDS}


def test_head_is_what_agents_read(tmp_path: Path) -> None:
    text = write(tmp_path / "My Kernels")
    head = text.split("---")[1]
    assert "name: my-kernels\n" in head
    (described,) = re.findall(r"description: (.+)", head)
    assert len(described) <= 1024
    assert len(text.encode()) <= MAIN_BYTES_MAX
    assert "$" not in text


def test_reference_has_every_instruction_and_code(tmp_path: Path) -> None:
    write(tmp_path)
    instructions = (tmp_path / "references" / "instructions.md").read_text()
    assert [name for name in TABLE if f"## {name}\n" not in instructions] == []
    codes = (tmp_path / "references" / "diagnostics.md").read_text()
    assert [code for code in CATALOGUE if f"## {code}: " not in codes] == []
    limits = (tmp_path / "references" / "limits.md").read_text()
    assert all(f"Limits of {target.value}" in limits for target in Target)


@pytest.mark.parametrize("agent", list(Agent))
def test_each_agent_has_its_place(agent: Agent, tmp_path: Path) -> None:
    place = place_skill(tmp_path, agent)
    assert place == tmp_path / FOLDERS[agent] / NAME
    assert f"name: {NAME}\n" in write(place)


def test_own_skill_is_renewed_and_another_is_kept(tmp_path: Path) -> None:
    assert write(tmp_path) == write(tmp_path)
    (tmp_path / MAIN).write_text("another's")
    with pytest.raises(UsageError, match=r"would write over `SKILL\.md`, which is not its own"):
        write(tmp_path)
    assert (tmp_path / MAIN).read_text() == "another's"
    write_skill(tmp_path, target=Target.TRN2, forces=True)
    assert "another's" not in (tmp_path / MAIN).read_text()


def test_reference_that_a_user_changed_is_kept(tmp_path: Path) -> None:
    write(tmp_path)
    changed = tmp_path / "references" / "limits.md"
    changed.write_text("my own words")
    with pytest.raises(UsageError, match=r"would write over `references/limits\.md`"):
        write(tmp_path)
    assert changed.read_text() == "my own words"


def test_skill_of_a_version_without_a_list_is_renewed(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / WRITTEN).unlink()
    (tmp_path / "references" / "limits.md").write_text("of an earlier version")
    write(tmp_path)
    assert "Limits of" in (tmp_path / "references" / "limits.md").read_text()


def test_file_of_an_earlier_version_that_is_no_more_is_taken_away(tmp_path: Path) -> None:
    write(tmp_path)
    old = tmp_path / "references" / "old.md"
    old.write_text("old")
    listed = json.loads((tmp_path / WRITTEN).read_text())
    listed["references/old.md"] = hash_text("old")
    (tmp_path / WRITTEN).write_text(json.dumps(listed))
    write(tmp_path)
    assert not old.exists()


def test_folder_of_other_files_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    with pytest.raises(UsageError, match=r"holds other files: `train\.py`"):
        write(tmp_path)
    assert not (tmp_path / MAIN).exists()
    write_skill(tmp_path, target=Target.TRN2, forces=True)
    assert (tmp_path / MAIN).exists()
    write(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", '{"SKILL.md": 1}', '{"../out.md": "x"}'])
def test_list_that_is_not_ours_is_no_leave_to_write(text: str, tmp_path: Path) -> None:
    outside = tmp_path / "out.md"
    outside.write_text("x")
    folder = tmp_path / "skill"
    folder.mkdir()
    (folder / WRITTEN).write_text(text)
    with pytest.raises(UsageError):
        write(folder)
    assert outside.read_text() == "x"


def test_link_is_not_followed_out_of_the_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "skill"
    folder.mkdir()
    (folder / "references").symlink_to(outside)
    with pytest.raises(UsageError, match="references"):
        write(folder)
    assert list(outside.iterdir()) == []


def test_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write the skill"):
        write(tmp_path / "file")


def test_folder_without_a_name_has_one() -> None:
    assert make_name(Path("/")) == NAME
