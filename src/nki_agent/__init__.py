"""Writes NKI kernels, proves them right, and says how fast they will be."""

__version__ = "0.1.0"
