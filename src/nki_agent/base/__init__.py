"""Errors, diagnostics, hashes, JSON lines, seeds and the clock: what every room may use."""
