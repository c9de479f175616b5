"""What a task file is compared by: its text without names, its graph, and pieces of its code.

Law: comments, docstrings, line breaks and the names of variables are no part of it; the names of
functions are. A piece is `LENGTH` parts of the syntax tree in a row, of the reference alone.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Sequence

import msgspec

from nki_agent.corpus.canonical import Graph, canonical_graph
from nki_agent.corpus.opaque import kind_of_number

LENGTH = 5
"""Parts in a row: about one call with its arguments."""
PIECE_BYTES = 8
_NOT_REFERENCES = frozenset({"get_inputs", "inputs", "get_init_inputs"})
_SKIPPED_FIELDS = frozenset(
    {"annotation", "returns", "ctx", "type_comment", "decorator_list", "type_params"}
)


class Fingerprint(msgspec.Struct, frozen=True, kw_only=True):
    """A task as others are compared with it."""

    exact: str
    """Of the whole file's syntax tree without docstrings."""
    graph: Graph | None
    """None where the reference cannot be followed without data; then only texts are compared."""
    pieces: tuple[int, ...]
    """Hashes of the reference's pieces, sorted, each once."""


def take_fingerprint(source: str) -> Fingerprint:
    """Of a task file's text, which is run.

    Raises:
        TaskError: the file cannot be used.
        GraphError: it cannot be followed without data.
    """
    graph = canonical_graph(source)
    exact, pieces = read_text(source)
    return Fingerprint(exact=exact, graph=graph, pieces=pieces)


def read_text(source: str) -> tuple[str, tuple[int, ...]]:
    """The exact hash and the pieces; nothing is run.

    Raises:
        SyntaxError: it is not Python.
    """
    tree = ast.parse(source)
    exact = hashlib.sha256(ast.dump(_without_docstrings(tree)).encode()).hexdigest()
    pieces = cut_pieces([part for node in _list_references(tree) for part in _list_parts(node)])
    return exact, pieces


def cut_pieces(parts: Sequence[str]) -> tuple[int, ...]:
    """Hashes of every `LENGTH` parts in a row; of all of them where they are fewer."""
    count = max(1, len(parts) - LENGTH + 1)
    return tuple(sorted({_hash("\x1f".join(parts[i : i + LENGTH])) for i in range(count)}))


def share_of_pieces(left: Sequence[int], right: Sequence[int]) -> float:
    """How many of all pieces of two texts are in both: 1 is the same code."""
    one, other = set(left), set(right)
    union = len(one | other)
    return len(one & other) / union if union else 1.0


def _hash(text: str) -> int:
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=PIECE_BYTES).digest()
    return int.from_bytes(digest, "little") >> 1


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = [s for s in node.body if not _is_text(s)]
    return tree


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _list_references(tree: ast.Module) -> Iterator[ast.stmt]:
    for statement in tree.body:
        match statement:
            case ast.FunctionDef(name=name) if name not in _NOT_REFERENCES:
                yield statement
            case ast.ClassDef():
                yield statement
            case _:
                pass


def _list_parts(node: ast.AST) -> Iterator[str]:
    """The tree from its top down, as words."""
    match node:
        case ast.Constant() | ast.Name() | ast.arg() | ast.Attribute(value=ast.Name(id="self")):
            yield _word_of_leaf(node)
        case ast.Attribute(value=ast.Name() | ast.Attribute(), attr=name):
            # `F.silu`, `torch.nn.functional.silu` and a method are called alike.
            yield name
            yield from _list_parts_of_owner(node)
        case ast.Attribute(attr=name):
            yield name
            yield from _list_parts_inside(node)
        case ast.keyword(arg=name):
            yield f"{name}="
            yield from _list_parts_inside(node)
        case _:
            yield type(node).__name__
            yield from _list_parts_inside(node)


def _word_of_leaf(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return repr(text)
        case ast.Constant(value=value):
            return _number(value)
        case ast.Name():
            return "name"
        case ast.arg():
            return "argument"
        case _:
            return "own"


def _list_parts_inside(node: ast.AST) -> Iterator[str]:
    for field, value in ast.iter_fields(node):
        if field not in _SKIPPED_FIELDS:
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ast.AST):
                    yield from _list_parts(item)


def _list_parts_of_owner(node: ast.Attribute) -> Iterator[str]:
    """A variable that a method is called on; nothing for a module."""
    owner = node.value
    if isinstance(owner, ast.Name) and owner.id not in _MODULES:
        yield "name"


_MODULES = frozenset({"torch", "F", "nn", "np", "math", "functional"})


def _number(value: object) -> str:
    return kind_of_number(float(value)) if isinstance(value, int | float) else str(value)
