"""Faults that models make, planted into right kernels: one place is changed, and the cause known."""
