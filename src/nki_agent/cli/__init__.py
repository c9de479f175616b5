"""The command line: wiring and printing."""
