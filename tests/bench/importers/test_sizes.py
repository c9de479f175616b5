"""Which numbers are sizes, and how they are put in."""

import textwrap

from nki_agent.bench.importers.sizes import halve, read_template

SOURCE = textwrap.dedent("""\
    # größe: 4096 stays in a comment
    batch_size, dim = 32, 4096
    kernel = 3
    shape = (dim, 4096)

    class Model:
        hidden = 4096 * 2

    def get_inputs():
        return [(batch_size, 128)]
    """)


def test_sizes_are_the_numbers_of_the_module_and_of_its_inputs() -> None:
    assert read_template(SOURCE).sizes() == {
        "batch_size = 32": 32,
        "dim, shape = 4096": 4096,
        "get_inputs = 128": 128,
    }


def test_sizes_everywhere_are_also_those_of_classes() -> None:
    assert "dim, shape, Model = 4096" in read_template(SOURCE, everywhere=True).sizes()


def test_rendered_text_differs_in_the_chosen_size_alone() -> None:
    template = read_template(SOURCE)
    rendered = template.render({**template.sizes(), "dim, shape = 4096": 512})
    assert rendered == SOURCE.replace("32, 4096", "32, 512").replace("(dim, 4096)", "(dim, 512)")


def test_rendered_text_at_own_sizes_is_the_source() -> None:
    template = read_template(SOURCE)
    assert template.render(template.sizes()) == SOURCE


def test_part_of_a_size_wins_over_the_whole() -> None:
    template = read_template(SOURCE)
    parts = template.split("dim, shape = 4096")
    assert set(parts.values()) == {4096}
    rendered = template.render({**template.sizes(), "dim, shape = 4096/shape": 64})
    assert "32, 4096" in rendered
    assert "(dim, 64)" in rendered


def test_halving_stops_where_kernels_and_strides_begin() -> None:
    assert halve("dim = 4096", 32) == 16
    assert halve("dim = 4096", 16) is None
    assert halve("dim = 4096", 33) == 17
    assert halve("batch_size = 10", 10) == 5
    assert halve("batch_size, dim = 10", 10) is None
