"""NK119: on the surface `isa`, names off the surface and tensors without an address.

Law: what only a trace can see (an address that is passed on as None, a function under another
name) is found there, from the tensors that the Program has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nki_agent.base.diagnostic import Diagnostic
from nki_agent.check.api import OLD_NAMES, ApiName, exists
from nki_agent.check.call import Call, calls_of
from nki_agent.check.parsed import Unit, at
from nki_agent.check.project import Project
from nki_agent.check.rules.nk104_names import names_of
from nki_agent.check.surface import CODE, OPERATORS, is_kept, lacks_address

NDARRAY = "nki.language.ndarray"
ON_CHIP = {"nki.language.sbuf": "sbuf", "nki.language.psum": "psum"}
_FILL = "`nl.ndarray(…, address=…)`, then `nisa.memset`"
_REDUCE = "`nisa.tensor_reduce` into a tile that has an address"
_LOOP = "a plain `range`"
INSTEAD = {
    **dict.fromkeys(("zeros", "ones", "full", "zeros_like"), _FILL),
    "empty_like": "`nl.ndarray(…, address=…)`",
    **dict.fromkeys(("load", "store"), "`nisa.dma_copy`"),
    "load_transpose2d": "`nisa.dma_transpose`, or `nisa.nc_transpose` on chip",
    "gather_flattened": "`nisa.nc_n_gather`",
    "matmul": "`nisa.nc_matmul` into a PSUM tile that has an address",
    "transpose": "`nisa.nc_transpose` into a PSUM tile that has an address",
    **dict.fromkeys(("sum", "max", "min", "prod", "mean", "var", "all"), _REDUCE),
    "rand": "`nisa.rand2`",
    "shared_constant": "`nisa.memset`, `nisa.iota` and `nisa.affine_select`",
    "shared_identity_matrix": "`nisa.memset` and `nisa.affine_select`",
    **dict.fromkeys(("affine_range", "sequential_range", "static_range"), _LOOP),
    "dynamic_range": "`nl.fori_loop`",
    "expand_dims": "the tensor's method `expand_dim`",
    "broadcast_to": "the tensor's method `broadcast`",
}
"""What stands in for names that have one equal."""
OTHERWISE = "instructions of `nki.isa` into tiles that have an address"


def check(project: Project) -> Iterator[Diagnostic]:
    """A finding for every name off the surface and every tensor that surely has no address."""
    for unit in project.live_units:
        for node, api in names_of(unit):
            finding = _judge(unit, node, api)
            if finding is not None:
                yield at(unit, node, finding)
    for call in calls_of(project):
        if call.api.full == NDARRAY and (memory := _find_unplaced(call)) is not None:
            yield at(call.unit, call.node, lacks_address(memory))


def _judge(unit: Unit, node: ast.AST, api: ApiName) -> Diagnostic | None:
    if not exists(api) or api.full in OLD_NAMES:
        return None
    if api.module == "nki.collectives":
        return _off(api, "the surface `isa` has one rank")
    if api.module != "nki.language":
        return None
    if not is_kept(api.name):
        return _off(api, f"write {INSTEAD.get(api.name, OTHERWISE)}")
    parent = unit.file.parents.get(node)
    if api.name in OPERATORS and isinstance(parent, ast.Call) and parent.func is node:
        hint = f"`op=nl.{api.name}` of an instruction of `nki.isa`; a call of it is a function"
        return _off(api, hint, called="()")
    return None


def _off(api: ApiName, hint: str, *, called: str = "") -> Diagnostic:
    what = f"`{api.short}{called}` is not on the surface `isa`"
    return Diagnostic(code=CODE, what=what, hint=hint)


def _find_unplaced(call: Call) -> str | None:
    """The memory of a new tensor that is on chip and gets no address; None where not certain."""
    given = dict(call.arguments)
    if call.has_spread:
        return None
    address = given.get("address")
    if address is not None and not (isinstance(address, ast.Constant) and address.value is None):
        return None
    if "buffer" not in given:
        return "sbuf"
    return ON_CHIP.get(call.unit.full_name(given["buffer"]) or "")
