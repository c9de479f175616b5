"""The formats that are read, and which one a suite is in."""

from __future__ import annotations

from enum import StrEnum

from nki_agent.base.errors import UsageError
from nki_agent.bench.importers.accelopt import count_accelopt, read_accelopt
from nki_agent.bench.importers.backendbench import count_backendbench, read_backendbench
from nki_agent.bench.importers.draft import Draft
from nki_agent.bench.importers.flashinfer import count_flashinfer, read_flashinfer
from nki_agent.bench.importers.foreign import Foreign
from nki_agent.bench.importers.kernelbench import count_kernelbench, read_kernelbench
from nki_agent.bench.importers.listing import Listing
from nki_agent.bench.importers.nki_agent_modules import count_modules, read_modules

AUTO = "auto"


class Format(StrEnum):
    """A form in which others keep tasks."""

    KERNELBENCH = "kernelbench"
    ACCELOPT = "accelopt"
    NKI_AGENT = "nki-agent"
    FLASHINFER = "flashinfer"
    BACKENDBENCH = "backendbench"


NAMES = ", ".join(Format)


def count_files(listing: Listing, form: Format) -> int:
    """Files that look like this format."""
    match form:
        case Format.KERNELBENCH:
            return count_kernelbench(listing)
        case Format.ACCELOPT:
            return count_accelopt(listing)
        case Format.NKI_AGENT:
            return count_modules(listing)
        case Format.FLASHINFER:
            return count_flashinfer(listing)
        case Format.BACKENDBENCH:
            return count_backendbench(listing)


def find_format(name: str, listing: Listing) -> Format:
    """The format of this name, or for `auto` the one that most files look like.

    Raises:
        UsageError: there is no such format, none fits, or two fit alike.
    """
    if name != AUTO:
        if name not in list(Format):
            raise UsageError(f"no format `{name}`", hint=f"one of {NAMES}, or {AUTO}")
        return Format(name)
    counts = {form: count_files(listing, form) for form in Format}
    most = max(counts.values())
    best = [form for form, count in counts.items() if count == most]
    if most == 0:
        raise UsageError(
            f"`{listing.name}` is in no format that is known", hint=f"name one: {NAMES}"
        )
    if len(best) > 1:
        raise UsageError(
            f"`{listing.name}` may be in the format {' or '.join(best)}", hint="name one of them"
        )
    return best[0]


def read_drafts(listing: Listing, form: Format, foreign: Foreign) -> list[Draft]:
    """Every task of the suite."""
    match form:
        case Format.KERNELBENCH:
            return read_kernelbench(listing)
        case Format.ACCELOPT:
            return read_accelopt(listing)
        case Format.NKI_AGENT:
            return read_modules(listing, foreign)
        case Format.FLASHINFER:
            return read_flashinfer(listing)
        case Format.BACKENDBENCH:
            return read_backendbench(listing)
