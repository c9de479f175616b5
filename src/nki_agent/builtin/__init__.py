"""Writes NKI kernels from a reference by rules, without a model."""
