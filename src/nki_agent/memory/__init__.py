"""Gives tensors addresses, and finds what is wrong with a kernel's use of memory before it runs."""
