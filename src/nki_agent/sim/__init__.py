"""Executes a Program on NumPy with the chip's numerics: fp32 inside, one rounding at the end."""
