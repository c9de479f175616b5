"""Reads kernel source as a tree and runs nothing: language, names, calls, imports and tricks."""
