"""Chance is passed in: a generator comes from a root seed and what is being made.

Law: the same root seed and names give the same stream in any order and any process, so order and
parallelism cannot change a result.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np

from nki_agent.base.errors import UsageError

SEED_BITS = 63
SEED_MAX = (1 << SEED_BITS) - 1
"""The largest root seed: every file and message can hold it."""
DIGITS_SHOWN = 40


def draw_root_seed() -> int:
    """A fresh secret root seed, for a run that was not given one."""
    return secrets.randbits(SEED_BITS)


def require_seed(seed: int) -> int:
    """The root seed that was given; UsageError with the range for one that no file can hold."""
    if 0 <= seed <= SEED_MAX:
        return seed
    raise UsageError(f"the seed {str(seed)[:DIGITS_SHOWN]} is not between 0 and {SEED_MAX}")


def seed_for(root: int, *names: str | int) -> int:
    """The seed of one thing: `seed_for(root, task_id, "inputs", 3)`."""
    text = "\x1f".join([str(root), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1


def rng_for(root: int, *names: str | int) -> np.random.Generator:
    """A generator for one thing; SFC64 draws normals about a third faster than the default."""
    return np.random.Generator(np.random.SFC64(seed_for(root, *names)))
