from collections.abc import Iterator

import pytest

from nki_agent.farm.local import LocalExecutor


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    """One worker; tests may kill it."""
    with LocalExecutor(workers=1) as executor:
        yield executor
