"""`nki-agent`, and `python -m nki_agent`: takes Ctrl-C before anything large is imported."""

import importlib
import sys

from nki_agent.base.interrupts import install
from nki_agent.base.surroundings import find_lack

FAILURE = 4
"""The exit code; `cli.command.ExitCode` has them all."""


def main() -> None:
    """Run the command line of this process."""
    install()
    if lack := find_lack():
        if sys.stderr is not None:
            sys.stderr.write(f"error: {lack}\n")
        raise SystemExit(FAILURE)
    importlib.import_module("nki_agent.cli.main").main()


if __name__ == "__main__":
    main()
