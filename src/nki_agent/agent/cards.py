"""What `look_up` answers from: cards for instructions, operators, codes, limits, patterns.

Law: every card is made from `isa`, `chip`, the catalogue of codes, and patterns that a test judges,
so none can go stale. An exact name comes first; else the cards that share most words with the
query, rare words counting more. What a user's own documentation has comes after.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, cached_property
from types import FunctionType

from nki_agent.agent.library import Library
from nki_agent.agent.patterns import Pattern, make_patterns
from nki_agent.agent.words import find_words
from nki_agent.base.catalogue import CATALOGUE
from nki_agent.base.diagnostic import clean
from nki_agent.check.surface import Surface, is_kept
from nki_agent.chip.spec import GENERATION, ChipSpec, Target, load_chip
from nki_agent.isa.declaration import Declaration, Kind, Parameter
from nki_agent.isa.dtype import DType
from nki_agent.isa.ops import ACTIVATIONS, ALU_OPS, Activation, AluOp
from nki_agent.isa.table import TABLE
from nki_agent.nki.current.modules import PUBLIC, SIGNATURES
from nki_agent.nki.current.values import Member

CARDS_MAX = 3
"""Cards in one answer; more is read as noise."""
PASSAGES_MAX = 2
"""Passages of the user's documentation in one answer."""
TITLE_WEIGHT = 2.0
"""A word in a card's name says more than one in its text."""
DTYPES_SHOWN_MAX = 7
ALIASES = {"nki.isa": "nisa", "nki.language": "nl", "nki.collectives": "ncc"}
UNSAID = ("name",)
"""Parameters that change nothing that a model should think of."""
KINDS = {
    Kind.OUTPUT: "written",
    Kind.INPUT: "read",
    Kind.INPUTS: "a list of tensors to read",
    Kind.UPDATE: "read and written",
    Kind.SCALAR: "a number or a (P, 1) tile",
    Kind.WORD: "a register or an int",
    Kind.REGISTER: "a register of nisa.register_alloc",
    Kind.TEXT: "a string",
    Kind.ALU_OP: "an operator, as nl.add",
    Kind.ACTIVATION_OP: "an activation function, as nl.exp",
}
_PREFIX = re.compile(r"^(?:nki\.)?(?:isa|language|collectives|nisa|nl|ncc)\.")


class CardKind(StrEnum):
    """What a card is about."""

    INSTRUCTION = "instruction"
    OPERATOR = "operator"
    FUNCTION = "function"
    CODE = "code"
    LIMITS = "limits"
    PATTERN = "pattern"


@dataclass(frozen=True, kw_only=True)
class Card:
    """One thing to look up: its names and its text."""

    names: tuple[str, ...]
    text: str
    kind: CardKind

    @cached_property
    def title(self) -> frozenset[str]:
        """Words of the names, parts of names included."""
        return frozenset(find_words(" ".join(self.names)))

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of the card."""
        return self.title | find_words(self.text)


@cache
def make_cards(target: Target, surface: Surface = Surface.NKI) -> tuple[Card, ...]:
    """Every card for one target; on a surface, of what it has."""
    chip = load_chip(target)
    return (
        *(_instruction_card(declaration, chip) for declaration in TABLE.values()),
        *_name_cards(),
        *(c for c in _language_cards() if surface is Surface.NKI or is_kept(c.names[0])),
        *(
            Card(
                names=(info.code.lower(),),
                text=f"{info.code}: {info.title}\n{info.explanation}\n{info.hint}",
                kind=CardKind.CODE,
            )
            for info in CATALOGUE.values()
        ),
        _limits_card(chip, target),
        *(
            _pattern_card(pattern)
            for pattern in make_patterns(target)
            # Its kernels leave places to the compiler.
            if surface is Surface.NKI or not pattern.body
        ),
    )


def look_up(
    query: str,
    *,
    target: Target,
    surface: Surface = Surface.NKI,
    docs: Library | None = None,
) -> str:
    """The cards that answer a query, best first, then the user's documentation, if it does."""
    cards = make_cards(target, surface)
    found = [card.text for card in _find_cards(query, cards)]
    if docs is not None:
        found += [str(passage) for passage in docs.search(query, limit=PASSAGES_MAX)]
    if found:
        return "\n\n".join(found)
    names = [name for card in cards for name in card.names]
    near = difflib.get_close_matches(_read_symbol(query), names, n=3)
    hint = f"near names: {', '.join(near)}" if near else "try an instruction's name or a code"
    return f"nothing found for `{clean(query.strip())}`; {hint}"


def _read_symbol(query: str) -> str:
    return _PREFIX.sub("", query.strip().strip("`").lower()).removesuffix("()")


def _find_cards(query: str, cards: Sequence[Card]) -> list[Card]:
    """At most one of them is a pattern: those are long."""
    symbol = _read_symbol(query)
    exact = [card for card in cards if symbol in card.names]
    related = [card for card in cards if symbol in card.title and card not in exact]
    found = [*exact, *related] if exact else _find_by_words(query, cards)
    patterns = [card for card in found if card.kind is CardKind.PATTERN][1:]
    return [card for card in found if card not in patterns][:CARDS_MAX]


def write_signature(name: str, *, is_brief: bool = False) -> str:
    """The call as a model would write it: `nisa.tensor_copy(dst, src)`, for a full name.

    A brief one leaves out what a call may leave out.
    """
    short = name
    for module, alias in ALIASES.items():
        short = short.replace(f"{module}.", f"{alias}.")
    parts = []
    for parameter in SIGNATURES[name].parameters.values():
        if parameter.name in UNSAID:
            continue
        is_needed = parameter.default is parameter.empty
        if is_brief and not is_needed:
            continue
        parts.append(
            parameter.name if is_needed else f"{parameter.name}={_show(parameter.default)}"
        )
    return f"{short}({', '.join(parts)})"


def _show(value: object) -> str:
    match value:
        case Member():
            return f"nisa.{value!r}"
        case DType():
            return f"nl.{value.value}"
        case float():
            return f"{value:g}"
        case FunctionType():
            return f"nl.{value.__name__}"
        case _:
            return repr(value)


def _find_by_words(query: str, cards: Sequence[Card]) -> list[Card]:
    wanted = find_words(query)
    rarity = {word: 1.0 / (1 + sum(word in card.words for card in cards)) for word in wanted}
    scores = [
        sum(rarity[w] * (TITLE_WEIGHT if w in card.title else 1.0) for w in wanted & card.words)
        for card in cards
    ]
    order = sorted(range(len(cards)), key=lambda index: -scores[index])
    return [cards[index] for index in order if scores[index] > 0]


def _instruction_card(declaration: Declaration, chip: ChipSpec) -> Card:
    lines = [write_signature(declaration.page)]
    if declaration.first_generation > chip.generation:
        first, here = declaration.first_generation, chip.generation
        lines.append(f"  Only from NeuronCore-v{first} on; this target is NeuronCore-v{here}.")
    lines += [f"  {line}" for line in map(_describe, declaration.parameters) if line]
    return Card(names=(declaration.name,), text="\n".join(lines), kind=CardKind.INSTRUCTION)


def _describe(parameter: Parameter) -> str:
    parts = [KINDS.get(parameter.kind, parameter.kind.value.replace("_", " "))]
    if parameter.memories:
        places = sorted({m.value if m.is_on_chip else "hbm" for m in parameter.memories})
        parts.append("in " + " or ".join(places))
    if parameter.dtypes:
        parts.append(_describe_dtypes(parameter.dtypes))
    if parameter.choices is not None:
        parts.append("one of " + ", ".join(parameter.choices))
    if parameter.first_generation > min(GENERATION.values()):
        parts.append(f"from NeuronCore-v{parameter.first_generation} on")
    return f"{parameter.name}: {'; '.join(parts)}"


def _describe_dtypes(dtypes: Sequence[DType]) -> str:
    if len(dtypes) <= DTYPES_SHOWN_MAX:
        return "of " + ", ".join(dtypes)
    return "of any dtype but " + ", ".join(d for d in DType if d not in dtypes)


def _name_cards() -> Iterator[Card]:
    """One card a name: some operators are activation functions too."""
    for name in dict.fromkeys((*ALU_OPS, *ACTIVATIONS)):
        lines = []
        if operator := ALU_OPS.get(name):
            lines.append(_operator_line(operator))
        if function := ACTIVATIONS.get(name):
            lines.append(_function_line(function))
        yield Card(names=(name,), text="\n".join(lines), kind=CardKind.OPERATOR)


def _language_cards() -> Iterator[Card]:
    for full in SIGNATURES:
        name = full.removeprefix("nki.language.")
        if name != full and not any(name in names for names in (ALU_OPS, ACTIVATIONS, TABLE)):
            document = inspect.getdoc(PUBLIC["nki.language"][name]) or ""
            text = f"{write_signature(full)}\n{document}".strip()
            yield Card(names=(name,), text=text, kind=CardKind.FUNCTION)


def _pattern_card(pattern: Pattern) -> Card:
    """Named by file, title and codes, so that the words of all count as a name's."""
    names = (pattern.name, pattern.title.lower(), *(code.lower() for code in pattern.codes))
    return Card(names=names, text=str(pattern), kind=CardKind.PATTERN)


def _operator_line(operator: AluOp) -> str:
    engines = ", ".join(engine.value for engine in operator.engines)
    more = " It may be a `reduce_op`." if operator.is_reduction else ""
    if operator.first_generation > min(GENERATION.values()):
        more += f" From NeuronCore-v{operator.first_generation} on."
    return f"nl.{operator.name}: {operator.family.value} operator on {engines}.{more}"


def _function_line(function: Activation) -> str:
    text = f"nl.{function.name}: function of `nisa.activation` (Scalar Engine)."
    if abs(function.low) != float("inf") or function.high != float("inf"):
        text += f" Valid for inputs from {function.low:g} to {function.high:g}."
    return text


def _limits_card(chip: ChipSpec, target: Target) -> Card:
    text = f"""\
Limits of {target.value} (NeuronCore-v{chip.generation})
partitions of SBUF and PSUM: {chip.partitions}
SBUF for a kernel: {chip.sbuf_usable_partition_bytes} bytes a partition
PSUM: {chip.psum_banks} banks of {chip.psum_bank_bytes} bytes a partition
nc_matmul: free size of stationary at most {chip.matmul_stationary_free_max}
nc_matmul: free size of moving at most {chip.matmul_moving_free_max}
nc_transpose on the Tensor Engine: at most {chip.tensor_transpose_max} squared
nc_transpose on the Vector Engine: at most {chip.vector_transpose_max} squared
efficient DMA rows: {chip.dma_efficient_descriptor_bytes} bytes or more"""
    return Card(names=("limits", "sbuf", "psum", "partitions"), text=text, kind=CardKind.LIMITS)
