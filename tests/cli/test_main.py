"""The command line itself: help, version, completion, and what is typed wrongly."""

import subprocess
import sys

import pytest

from nki_agent import __version__
from nki_agent.cli.main import COMMANDS
from tests.cli.calling import call

HEAVY = ("numpy", "torch", "rich", "msgspec", "ml_dtypes")


def run_process(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = "from nki_agent.cli.main import main; main()"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )


def test_help_names_every_command() -> None:
    called = call("--help")
    assert called.code == 0
    assert [name for name in COMMANDS if f"\n  {name} " not in called.out] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    called = call(name, "--help")
    assert called.code == 0
    assert f"Usage: nki-agent {name}" in called.out


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['nki-agent', '--help']\n"
        "from nki_agent.cli.main import main\n"
        "try: main()\n"
        f"finally: print([n for n in {HEAVY} if n in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


def test_version_is_the_package_s() -> None:
    assert call("--version").out == f"nki-agent {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Usage: nki-agent"),
        (("slove",), "Did you mean 'solve'?"),
        (("solve",), "no task"),
        (("solve", "x.py", "--turn", "3"), "--turns"),
        (("solve", "x.py", "--turns", "0"), "Invalid value for '--turns'"),
        (("solve", "x.py", "--mode", "double"), "'double' is not one of"),
        (("verify", "kernel.py"), "Missing option '--task'"),
        (("sandbox", "stat"), "Did you mean 'status'?"),
    ],
)
def test_wrong_usage_is_two(arguments: tuple[str, ...], words: str) -> None:
    called = call(*arguments)
    assert called.code == 2
    assert words in called.err + called.out


def test_entry_point_runs_in_a_process() -> None:
    done = run_process("explain", "NK204")
    assert done.returncode == 0
    assert done.stdout.startswith("NK204: Matmul result crosses a PSUM bank\n")


@pytest.mark.parametrize(
    ("redirection", "code"), [("| true; exit ${PIPESTATUS[0]}", 141), (">&-", 0), (">/dev/full", 4)]
)
def test_output_that_goes_nowhere_has_a_code_of_its_own(redirection: str, code: int) -> None:
    call_main = "from nki_agent.cli.main import main; main()"
    # More than a pipe holds, so that its end is certainly seen.
    many = "import nki_agent.cli.explain as e; e.show = lambda t: typer.echo(t * 10_000); "
    script = f'"{sys.executable}" -c "import typer; {many}{call_main}" explain NK501 {redirection}'
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert found.returncode == code, found.stderr
    assert "Traceback" not in found.stderr
    assert "bug" not in found.stderr


def test_interrupt_while_a_command_loads_is_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nki_agent.cli.main.load_command", load)
    called = call("explain", "NK204")
    assert (called.code, called.err) == (130, "interrupted\n")


def test_completion_completes_commands_and_options() -> None:
    code = "from nki_agent.cli.main import main; main()"
    for words, expected in (("nki-agent sol", "solve"), ("nki-agent solve --tu", "--turns")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=False,
            env={
                "_NKI_AGENT_COMPLETE": "complete_bash",
                "COMP_WORDS": words,
                "COMP_CWORD": str(len(words.split()) - 1),
            },
        )
        assert done.stdout.split() == [expected], done.stderr


def test_explain_knows_codes_and_near_ones() -> None:
    assert call("explain", "nk204").code == 0
    unknown = call("explain", "NK299")
    assert unknown.code == 2
    assert "near codes: NK" in unknown.err


def test_sandbox_status_says_which_layers() -> None:
    called = call("sandbox", "status")
    assert called.code in (0, 4)
    assert "landlock" in called.out
    assert {layer["layer"] for layer in call("sandbox", "status", "--json").document["layers"]}
