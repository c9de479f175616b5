"""Faults that models make, planted into right kernels: one place changes, the cause is known."""
