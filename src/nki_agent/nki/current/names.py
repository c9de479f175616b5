"""Every public name of `nki` 0.6.0 that this version does not model yet.

Source: appendix A of the NKI 0.6.0 stubs. A name here is known, so the message is `NK114`, not
`NK104`.
"""

from __future__ import annotations

NOT_MODELLED: dict[str, frozenset[str]] = {
    "nki": frozenset(),
    "nki.isa": frozenset(),
    "nki.language": frozenset(),
    "nki.collectives": frozenset(),
}
