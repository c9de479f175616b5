from collections.abc import Iterator

import pytest

from nki_agent.sandbox.pool import Sandbox
from tests.sandbox.starting import start_sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with start_sandbox() as sandbox:
        yield sandbox
