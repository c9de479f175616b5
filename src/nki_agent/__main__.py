"""`nki-agent`, and `python -m nki_agent`: takes Ctrl-C before anything large is imported."""

import importlib

from nki_agent.base.interrupts import install


def main() -> None:
    """Run the command line of this process."""
    install()
    importlib.import_module("nki_agent.cli.main").main()


if __name__ == "__main__":
    main()
