"""Every public name of `nki` 0.6.0 that this version does not model yet.

Source: appendix A of the NKI 0.6.0 stubs. A name here is known, so the message is `NK114`, not
`NK104`.
"""

from __future__ import annotations

NOT_MODELLED: dict[str, frozenset[str]] = {
    "nki": frozenset(),
    "nki.isa": frozenset(),
    "nki.language": frozenset(),
    "nki.collectives": frozenset(
        [
            "all_reduce",
            "all_gather",
            "all_gather_v",
            "reduce_scatter",
            "all_to_all",
            "all_to_all_v",
            "collective_permute",
            "collective_permute_implicit",
            "collective_permute_implicit_reduce",
            "collective_permute_implicit_current_processing_rank_id",
            "rank_id",
            "ReplicaGroup",
        ]
    ),
}
