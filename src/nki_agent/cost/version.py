"""The version of the cost model: latencies of different versions are never compared."""

MODEL_VERSION = 2
"""Raised by every change that moves the latency of a kernel; `tests/cost/test_version.py` knows."""
