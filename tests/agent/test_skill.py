"""The skill folder is whole: its links lead somewhere, its commands exist, its size is bearable."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nki_agent.agent.skill import FOLDERS, MAIN, NAME, Agent, make_name, place_skill, write_skill
from nki_agent.base.catalogue import CATALOGUE
from nki_agent.base.errors import UsageError
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
    with pytest.raises(UsageError, match="not ours"):
        write(tmp_path)
    assert (tmp_path / MAIN).read_text() == "another's"


def test_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write the skill"):
        write(tmp_path / "file")


def test_folder_without_a_name_has_one() -> None:
    assert make_name(Path("/")) == NAME
