"""Writes a corpus as files that `datasets` loads, and says what each file's hash is.

Law: files are written whole beside their places and then put there, the manifest last; where that
fails nothing of an earlier corpus is lost. The root hash is of the rows, so it does not depend on
the version of what writes Parquet.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import msgspec

from nki_agent.base.errors import UsageError
from nki_agent.base.hashes import hash_bytes, hash_text
from nki_agent.base.jsonl import encode_lines
from nki_agent.base.writing import path_error
from nki_agent.corpus.record import CorpusTask, Rejection, Split

TASKS: Final = "tasks.jsonl"
REJECTED: Final = "rejected.jsonl"
MANIFEST: Final = "MANIFEST"
CARD: Final = "README.md"
PAGE: Final = "stats.html"
DATA: Final = "data"
ROWS: Final = (TASKS, REJECTED)
_ROOT: Final = "root"


def has_parquet() -> bool:
    """Whether Parquet can be written here."""
    return find_spec("pyarrow") is not None


def make_data_files(tasks: Sequence[CorpusTask]) -> dict[str, bytes]:
    """The rows by split: Parquet, or JSON lines where that cannot be written."""
    made: dict[str, bytes] = {}
    for split in Split:
        rows = [task for task in tasks if task.split is split]
        if not rows:
            continue
        suffix = "parquet" if has_parquet() else "jsonl"
        data = _encode_parquet(rows) if has_parquet() else encode_lines(rows)
        made[f"{DATA}/{split.value}-00000-of-00001.{suffix}"] = data
    return made


def _encode_parquet(rows: Sequence[CorpusTask]) -> bytes:
    import pyarrow as pa  # noqa: PLC0415 - an extra
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    plain: list[dict[str, Any]] = [msgspec.to_builtins(row) for row in rows]
    fields = [pa.field(name, _type_of(value, pa)) for name, value in plain[0].items()]
    table = pa.Table.from_pylist(plain, schema=pa.schema(fields))
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def _type_of(value: object, pa: Any) -> Any:
    match value:
        case int():
            return pa.int64()
        case float():
            return pa.float64()
        case str():
            return pa.string()
        case _:
            return pa.list_(pa.string())


def root_of(tasks: bytes, rejected: bytes) -> str:
    """The hash that stands for the corpus."""
    return hash_text(f"{TASKS} {hash_bytes(tasks)}\n{REJECTED} {hash_bytes(rejected)}")


def write_manifest(files: Mapping[str, bytes], *, root_sha256: str) -> bytes:
    """A line for each file, then the root."""
    lines = [f"{hash_bytes(data)}  {name}" for name, data in sorted(files.items())]
    return "\n".join([*lines, f"{root_sha256}  {_ROOT}", ""]).encode()


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Put all files in their places; the manifest should be the last of them.

    Raises:
        UsageError: the folder does not take them.
        MachineError: the disk is full or fails.
    """
    written: list[tuple[Path, Path]] = []
    try:
        for name, data in files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            beside = place.with_name(f".{place.name}.new")
            written.append((beside, place))
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for beside, place in written:
            beside.replace(place)
    except OSError as error:
        for beside, _ in written:
            with suppress(OSError):
                beside.unlink()
        raise path_error(f"write to `{folder}`", error) from error


def check_manifest(folder: Path) -> list[str]:
    """What is not as the manifest says: a line for each file.

    Raises:
        UsageError: there is no manifest.
    """
    try:
        text = (folder / MANIFEST).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"`{folder}` holds no {MANIFEST}", hint="make a corpus with `nki-agent data build`"
        ) from error
    faults = []
    for line in text.splitlines():
        expected, _, name = line.partition("  ")
        if name == _ROOT:
            continue
        try:
            found = hash_bytes((folder / name).read_bytes())
        except OSError as error:
            faults.append(f"{name} cannot be read: {error.strerror}")
            continue
        if found != expected:
            faults.append(f"{name} has the hash {found[:12]}, and {MANIFEST} says {expected[:12]}")
    return faults


def read_rejected(folder: Path) -> tuple[Rejection, ...]:
    """What was turned away; none where the file is not there.

    Raises:
        UsageError: a row is none of ours.
    """
    path = folder / REJECTED
    if not path.exists():
        return ()
    decoder = msgspec.json.Decoder(Rejection)
    rows = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            rows.append(decoder.decode(line))
        except msgspec.MsgspecError as error:
            raise UsageError(f"{path}:{number}: no rejection: {error}") from error
    return tuple(rows)
