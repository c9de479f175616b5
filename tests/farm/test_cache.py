"""The cache file: shared, and never more than a saving of time."""

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nki_agent.base.errors import MachineError
from nki_agent.farm.cache import VerdictCache
from tests.farm.test_log import make_verdict
from tests.source import ROOT

WRITER = """
import sys
from pathlib import Path
from nki_agent.farm.cache import VerdictCache
from tests.farm.test_log import make_verdict
with VerdictCache(Path(sys.argv[1])) as cache:
    for number in range(200):
        cache.put(f"{sys.argv[2]} {number}", make_verdict(seed=number))
        cache.put(f"both {number}", make_verdict(seed=number))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "verdicts.sqlite"


def test_verdict_comes_back_as_it_went(path: Path) -> None:
    with VerdictCache(path) as cache:
        assert cache.find("key") is None
        cache.put("key", make_verdict())
    with VerdictCache(path) as cache:
        assert cache.find("key") == make_verdict()
        assert cache.find("other") is None


def test_first_verdict_of_a_key_stays(path: Path) -> None:
    with VerdictCache(path) as cache:
        cache.put("key", make_verdict(seed=1))
        cache.put("key", make_verdict(seed=2))
        assert cache.find("key") == make_verdict(seed=1)


def test_private_cache_has_no_file() -> None:
    with VerdictCache(None) as cache:
        cache.put("key", make_verdict())
        assert cache.find("key") == make_verdict()


def test_several_processes_may_write_at_once(path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], cwd=ROOT)
        for name in ("a", "b")
    ]
    assert [writer.wait(50) for writer in writers] == [0, 0]
    with VerdictCache(path) as cache:
        assert all(cache.find(f"{w} {n}") for w in ("a", "b", "both") for n in range(200))


def test_several_threads_may_use_one(path: Path) -> None:
    with VerdictCache(path) as cache:

        def write(name: int) -> None:
            for number in range(50):
                cache.put(f"{name} {number}", make_verdict())

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(cache.find(f"{n} 49") for n in range(4))


def test_file_that_is_no_database_is_moved_aside(path: Path) -> None:
    path.write_bytes(b"no database at all " * 100)
    with pytest.warns(UserWarning, match="damaged"):
        cache = VerdictCache(path)
    with cache:
        cache.put("key", make_verdict())
        assert cache.find("key")
    assert path.with_name("verdicts.sqlite.damaged-1").read_bytes().startswith(b"no database")


def test_file_that_is_damaged_in_the_middle_is_moved_aside(path: Path) -> None:
    with VerdictCache(path) as cache:
        for number in range(300):
            cache.put(str(number), make_verdict())
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    said: list[str] = []
    with VerdictCache(path, warn=said.append) as cache:
        assert cache.find("1") is None
        cache.put("1", make_verdict())
        assert cache.find("1")
    assert len(said) == 1
    assert "damaged" in said[0]


def test_row_that_holds_no_verdict_is_a_miss(path: Path) -> None:
    with VerdictCache(path) as cache:
        cache.put("key", make_verdict())
    with sqlite3.connect(path) as database:
        (table,) = database.execute("SELECT name FROM sqlite_master").fetchone()
        database.execute(f"UPDATE {table} SET verdict = x'00'")
    database.close()
    with VerdictCache(path) as cache:
        assert cache.find("key") is None


def test_cache_that_cannot_be_made_is_a_failure_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot open the cache"):
        VerdictCache(tmp_path / "none" / "verdicts.sqlite")


def test_cache_that_cannot_be_written_warns_once(path: Path) -> None:
    said: list[str] = []
    with VerdictCache(path, warn=said.append) as cache, VerdictCache(path) as other:
        other.put("key", make_verdict())
        with sqlite3.connect(path) as database:
            (table,) = database.execute("SELECT name FROM sqlite_master").fetchone()
            database.execute(f"DROP TABLE {table}")
        database.close()
        cache.put("key", make_verdict())
        assert cache.find("key") is None
    assert len(said) == 1
    assert "cannot be used" in said[0]
