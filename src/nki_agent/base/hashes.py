"""Content hashes: one algorithm (SHA-256), one short form (12 hex digits)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

SHORT_DIGITS = 12


def hash_bytes(data: bytes) -> str:
    """Full SHA-256 of bytes, as hex."""
    return hashlib.sha256(data).hexdigest()


def hash_text(text: str) -> str:
    """Full SHA-256 of text in UTF-8, as hex; any text, half of a surrogate pair included."""
    return hash_bytes(text.encode(errors="surrogatepass"))


def hash_files(files: Mapping[str, str]) -> str:
    """Hash of a source tree: names and contents, independent of order."""
    digest = hashlib.sha256()
    for name in sorted(files):
        for part in (name, files[name]):
            data = part.encode(errors="surrogatepass")
            digest.update(len(data).to_bytes(8, "little"))
            digest.update(data)
    return digest.hexdigest()


def short_hash(full: str) -> str:
    """The first digits of a hash, for names that people read."""
    return full[:SHORT_DIGITS]
