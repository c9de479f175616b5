"""Runs kernels on arrays in the user's own process: `nki.simulate`, `nki-agent run`."""
