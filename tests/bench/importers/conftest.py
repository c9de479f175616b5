"""Small suites written on the spot, and one locked process for all tests."""

import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from nki_agent.bench.importers.foreign import Foreign
from nki_agent.bench.importers.listing import Listing

WriteSuite = Callable[[Mapping[str, str]], Path]


@pytest.fixture(scope="session")
def foreign() -> Iterator[Foreign]:
    with Foreign() as process:
        yield process


@pytest.fixture
def write_suite(tmp_path: Path) -> WriteSuite:
    def write(files: Mapping[str, str]) -> Path:
        folder = tmp_path / "suite"
        for name, text in files.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
        return folder

    return write


def listing_of(files: Mapping[str, str]) -> Listing:
    texts = {name: textwrap.dedent(text) for name, text in files.items()}
    return Listing(name="suite", texts=texts, problems={})


SCALED_SUM = """\
    import torch
    from torch import nn


    class Model(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(width))

        def forward(self, x):
            return (x * self.gain).sum(-1) * 0.125


    rows = 4096
    width = 64


    def get_inputs():
        return [torch.randn(rows, width)]


    def get_init_inputs():
        return [width]
    """
