"""What becomes of one draft: scaled, proven, or unfit with its reason."""

import textwrap

import pytest

from nki_agent.bench.importers.draft import Draft
from nki_agent.bench.importers.fitting import Fitted, fit
from nki_agent.bench.importers.foreign import Foreign
from nki_agent.bench.importers.kernelbench import make_templates
from tests.bench.importers.conftest import SCALED_SUM

LIMIT = 20_000


def fit_source(source: str, foreign: Foreign, *, limit_elems: int = LIMIT) -> Fitted:
    text = textwrap.dedent(source)
    draft = Draft(id="task", origin="task.py", templates=make_templates(text))
    return fit(draft, foreign, limit_elems=limit_elems)


def test_large_task_is_halved_until_it_fits(foreign: Foreign) -> None:
    found = fit_source(SCALED_SUM, foreign)
    assert found.is_fit, found.reasons
    assert "rows = 256" in found.text
    assert found.changes == (
        "scaled 4096 to 256 in `rows`",
        "1 weight is an argument of the kernel",
    )


def test_small_task_stays_as_it_is(foreign: Foreign) -> None:
    text = textwrap.dedent(SCALED_SUM)
    assert fit_source(SCALED_SUM, foreign, limit_elems=2**20).text == text


def test_task_of_eight_gigabytes_is_scaled_without_its_memory(foreign: Foreign) -> None:
    found = fit_source(SCALED_SUM.replace("rows = 4096", "rows = 33554432"), foreign)
    assert found.is_fit, found.reasons
    assert "rows = 256" in found.text


def test_numpy_task_is_scaled(foreign: Foreign) -> None:
    source = """\
        import numpy as np

        M = 4096

        def get_inputs():
            return [np.random.normal(size=(M, 8)).astype(np.float32)]

        def forward(x):
            return np.exp(x) - 2.0

        reference = forward
        """
    found = fit_source(source, foreign)
    assert found.is_fit, found.reasons
    assert "M = 1024" in found.text


def test_size_that_must_divide_stays(foreign: Foreign) -> None:
    source = """\
        import torch

        heads = 48
        width = 4096

        def get_inputs():
            return [torch.randn(heads, width)]

        def reference(x):
            assert x.shape[0] % 48 == 0
            return x * 3.0 + 1.0
        """
    found = fit_source(source, foreign)
    assert found.is_fit, found.reasons
    assert "heads = 48" in found.text
    assert "width = 128" in found.text


def test_task_that_cannot_be_smaller_is_unfit_with_its_size(foreign: Foreign) -> None:
    source = """\
        import torch

        def get_inputs():
            return [torch.randn(5, 7, 11, 13, 9)]

        def reference(x):
            return x * 2.0
        """
    (reason,) = fit_source(source, foreign).reasons
    assert "elements, over the limit of 20,000" in reason


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("return x + torch.rand(16)", "different values"),
        ("return x / 0.0", "infinite"),
        ("return torch.zeros(16)", "do not depend"),
        ("raise ValueError('no ' + 'way')", "no way"),
        ("import nowhere_to_be_found", "nowhere_to_be_found"),
        ("return open('/etc/passwd').read()", "raised"),
        ("import socket; socket.socket(); return x", "raised"),
        ("import os; os._exit(0)", "ended with status 0"),
        ("return [0] * 10**12", "MemoryError"),
    ],
)
def test_bad_reference_is_unfit_with_its_reason(foreign: Foreign, body: str, word: str) -> None:
    source = f"""\
        import torch

        def get_inputs():
            return [torch.randn(16)]

        def reference(x):
            {body}
        """
    found = fit_source(source, foreign)
    assert not found.is_fit
    assert word in found.reasons[0]


def test_finding_of_the_lint_makes_a_task_unfit(foreign: Foreign) -> None:
    source = """\
        import torch

        def get_inputs():
            return [torch.rand(16, 16)]

        def reference(x):
            return torch.relu(x)
        """
    found = fit_source(source, foreign)
    assert any("copy" in reason for reason in found.reasons)
    assert found.text, "the text is kept, so that a person can look"
