"""The results file: written whole, resumed, put right, and refused where it is another's."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from nki_agent.base.errors import UsageError
from nki_agent.farm.job import End, Faulted, Judged, Lost, Unusable
from nki_agent.farm.log import ResultLog
from nki_agent.verify.verdict import Hashes, OutputError, Stage, Trial, Verdict
from tests.source import ROOT

FULL_DISK = """
import resource, sys
from pathlib import Path
from nki_agent.base.errors import MachineError
from nki_agent.farm.job import Lost
from nki_agent.farm.log import ResultLog
path = Path(sys.argv[1])
with ResultLog(path) as log:
    log.append("first", "k", Lost("x"))
    before = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 100, len(before) + 100))
    try:
        log.append("second", "k", Lost("y" * 1000))
    except MachineError as error:
        print(error)
    assert path.read_bytes() == before
    log.append("third", "k", Lost("z"))
"""


def make_verdict(stage: Stage = Stage.RIGHT, *, seed: int = 1) -> Verdict:
    trial = Trial(
        shapes="dev",
        number=0,
        family="standard",
        seed=seed,
        outputs=(OutputError(name="y", right=True, ratio=1e308, rel_l2=None, max_abs=0.5),),
    )
    return Verdict(
        stage=stage,
        task="add-one",
        target="trn2",
        diagnostics=(),
        trials=(trial,),
        hashes=Hashes(kernel="a", task="b", program=None),
        root_seed=seed,
        tool_version="0",
        wall_ms=1.0,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "results.jsonl"


def silent(text: str) -> None:
    """Warnings are errors in tests."""


@pytest.mark.parametrize(
    "end", [Judged(make_verdict()), Faulted("trace"), Lost("reason"), Unusable("message", "hint")]
)
def test_line_holds_schema_id_key_and_end(path: Path, end: End) -> None:
    with ResultLog(path) as log:
        log.append("kernel µ.py", "key", end)
    line = msgspec.json.decode(path.read_bytes())
    assert (line["schema"], line["id"], line["key"]) == (1, "kernel µ.py", "key")
    assert msgspec.convert(line["end"], type=End) == end


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b"  \n\n", b" "])
def test_blank_lines_at_the_end_or_between_are_skipped(path: Path, blank: bytes) -> None:
    verdict = Judged(make_verdict())
    for name in ("first", "second"):
        with ResultLog(path, warn=silent) as log:
            log.append(name, f"key of {name}", verdict)
        path.write_bytes(path.read_bytes() + blank)
    with ResultLog(path, warn=silent) as log:
        assert log.find("first", "key of first") == verdict
        assert log.find("second", "key of second") == verdict


def test_only_judged_jobs_with_the_same_key_are_found(path: Path) -> None:
    verdict = Judged(make_verdict())
    with ResultLog(path) as log:
        log.append("judged", "key", verdict)
        log.append("lost", "key", Lost("reason"))
    with ResultLog(path) as log:
        assert log.find("judged", "key") == verdict
        assert log.find("judged", "another key") is None
        assert log.find("lost", "key") is None


def test_torn_last_line_is_moved_aside_with_a_warning(path: Path) -> None:
    with ResultLog(path) as log:
        log.append("first", "key", Judged(make_verdict()))
        log.append("second", "key", Judged(make_verdict()))
    whole = path.read_bytes()
    torn = whole.splitlines()[1][:50]
    path.write_bytes(whole.splitlines(keepends=True)[0] + torn)
    said: list[str] = []
    with ResultLog(path, warn=said.append) as log:
        assert log.find("first", "key")
        assert log.find("second", "key") is None
        log.append("second", "key", Judged(make_verdict()))
    assert path.read_bytes() == whole
    assert path.with_name("results.jsonl.torn-1").read_bytes() == torn
    assert len(said) == 1
    assert "torn-1" in said[0]


@pytest.mark.parametrize("torn", [b'{"sch', b"\0" * 40, b"{"])
def test_torn_first_line_is_moved_aside(path: Path, torn: bytes) -> None:
    path.write_bytes(torn)
    with pytest.warns(UserWarning, match="cut off"), ResultLog(path):
        assert path.read_bytes() == b""


def test_last_line_that_lacks_only_its_end_is_kept(path: Path) -> None:
    with ResultLog(path) as log:
        log.append("first", "key", Judged(make_verdict()))
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with ResultLog(path) as log:
        assert log.find("first", "key")
        log.append("second", "key", Lost("x"))
    assert path.read_bytes().startswith(whole)
    assert path.read_bytes().count(b"\n") == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"hello\n", "line 1 .* is no result"),
        (b"hello", "line 1 .* is no result"),
        (b'{"schema":1,"id":"x"}\n', "line 1 .* is no result"),
        (b'{"schema":2,"id":"x","more":1}\n', "schema 1: it has schema 2"),
        (b'{"schema":1,"id":"x","key":"k","end":{"type":"lost","reason":""}}\n\xff\n', "line 2"),
    ],
)
def test_file_of_others_is_refused_and_left_alone(path: Path, content: bytes, says: str) -> None:
    path.write_bytes(content)
    with pytest.raises(UsageError, match=says):
        ResultLog(path, warn=silent)
    assert path.read_bytes() == content


@pytest.mark.parametrize("place", ["/dev/full", "/"])
def test_place_that_is_no_file_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match=r"no regular file|is a folder"):
        ResultLog(Path(place))


def test_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none/results.jsonl`: No such file"):
        ResultLog(tmp_path / "none" / "results.jsonl")


def test_second_run_on_one_file_is_refused(path: Path) -> None:
    with ResultLog(path), pytest.raises(UsageError, match="another run writes"):
        ResultLog(path)
    ResultLog(path).close()


def test_full_disk_is_named_and_leaves_the_file_as_it_was(path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert f"cannot write to `{path}`: File too large" in run.stdout
    assert [msgspec.json.decode(line)["id"] for line in path.read_bytes().splitlines()] == [
        "first",
        "third",
    ]
