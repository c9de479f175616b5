"""What a recording says where it is asked something else."""

from nki_agent.llm.protocol import Message, Role
from nki_agent.llm.recorded import find_difference


def test_difference_is_shown_where_it_is_not_the_common_start() -> None:
    start, end = "a" * 300, "z" * 300
    old, new = (Message(role=Role.USER, content=f"x\n{start}{m}{end}") for m in ("OLD", "NEW"))
    found = find_difference([old], [new])
    assert "line 2, column 301: `…aa" in found
    assert "aOLDz" in found
    assert "aNEWz" in found
    assert len(found) < 300
