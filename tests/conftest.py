"""What every test shares: sockets are refused except under `live`, and one thread per BLAS call."""

import os

import pytest

# Small BLAS calls on shared cores: threads only make times and sums vary.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give `live` tests their sockets back."""
    for item in items:
        if item.get_closest_marker("live"):
            item.add_marker(pytest.mark.enable_socket)
