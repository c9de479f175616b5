"""Holds the rooms that judge a kernel to a higher floor of coverage than the rest.

Law: pytest holds the package to `fail_under` of pyproject.toml; this adds a floor per room.
"""

import sys
from io import StringIO
from pathlib import Path

import coverage

ROOMS = Path(__file__).resolve().parent.parent / "src" / "nki_agent"
FLOORS_PERCENT = {"check": 95.0, "sim": 95.0, "verify": 95.0}


def main() -> int:
    """Print each room under its floor; 1 if there is one."""
    data = coverage.Coverage()
    data.load()
    low = []
    for room, floor in FLOORS_PERCENT.items():
        if not any((ROOMS / room).glob("**/*.py")):
            continue
        table = StringIO()
        percent = data.report(include=[f"{ROOMS / room}/*"], file=table, show_missing=True)
        if percent < floor:
            low.append(
                f"{table.getvalue()}\ncoverage of {room} is {percent:.1f} %, floor {floor} %"
            )
    print("\n\n".join(low), end="\n" if low else "")
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
