"""What a task's text declares comes back as it was written, and another form is none."""

from __future__ import annotations

from nki_agent.train.declared import read_tables

SOURCE = '''"""A task."""

INPUTS = {"x": "float32[B, 2 * S] normal"}
PARAMETERS = {
    "gain": "float32[S] gain",
}
OUTPUTS = {"y": "float32[B, S]"}
'''


def test_tables_come_with_their_lines_and_tensors_as_written() -> None:
    tables = read_tables(SOURCE)
    assert tables is not None
    assert [(t.name, t.first, t.last) for t in tables] == [
        ("INPUTS", 3, 3),
        ("PARAMETERS", 4, 6),
        ("OUTPUTS", 7, 7),
    ]
    texts = [str(tensor) for table in tables for tensor in table.tensors.values()]
    assert texts == ["float32[B, 2 * S] normal", "float32[S] gain", "float32[B, S]"]
    assert tables[0].tensors["x"].axes == ("B", "2 * S")


def test_declaration_of_another_form_is_none() -> None:
    assert read_tables('INPUTS = {"x": "float32"}') is None
    assert read_tables("y = 1") == []
