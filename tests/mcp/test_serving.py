"""`nki-agent mcp`, asked by the SDK's own client, over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

mcp = pytest.importorskip("mcp")

from mcp.client.stdio import StdioServerParameters  # noqa: E402

from nki_agent.agent.ablation import Tool  # noqa: E402
from tests.agent.tiny import RIGHT, UNTRACEABLE, WRONG, write_task  # noqa: E402

# Sockets of this machine only; the server is another process. Streams of the SDK complain late.
pytestmark = [pytest.mark.enable_socket, pytest.mark.filterwarnings("ignore")]
COMMAND = ("-m", "nki_agent", "mcp", "--workers", "1")
HOSTILE = "open('/tmp/nki-agent-mcp', 'w')\n"


@asynccontextmanager
async def stdio(*options: str) -> AsyncIterator[Any]:
    server = StdioServerParameters(
        command=sys.executable, args=[*COMMAND, *options], env=dict(os.environ)
    )
    async with mcp.Client(server) as client:
        yield client


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A server over HTTP for the files of the test's folder."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    command = [sys.executable, *COMMAND, "--http", port, "--root", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(int(port), process)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            asyncio.run(asyncio.sleep(0.05))
        else:
            return
    raise AssertionError("the server ended")


async def say(client: Any, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    (content,) = result.content
    return f"{'error: ' if result.is_error else ''}{content.text}"


async def use_every_tool(client: Any, folder: Path) -> None:
    """What an agent does from the task to a fast kernel."""
    task = str(write_task(folder))
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    offered = {tool.value for tool in Tool if tool is not Tool.FIND}
    assert set(tools) == {"describe_task", *offered}
    assert "task" in tools["verify_kernel"].input_schema["required"]
    described = await say(client, "describe_task", task=task)
    assert "shape [2, 75, 16]" in described
    assert "rank 3" in described
    assert "fold to [150, 16]" in described
    assert "NK" in await say(client, "compile_kernel", task=task, source=UNTRACEABLE)
    assert "stage: wrong" in await say(client, "verify_kernel", task=task, source=WRONG)
    file = folder / "kernel.py"
    file.write_text(RIGHT)
    assert "stage: right" in await say(client, "verify_kernel", task=task, file=str(file))
    assert "µs on trn3" in await say(
        client, "profile_kernel", task=task, target="trn3", source=RIGHT
    )
    shown = await say(client, "show_program", task=task, source=RIGHT)
    assert "dma_copy" in shown
    table = await say(client, "verify_many", task=task, sources=[WRONG, RIGHT])
    assert "Best: #2" in table
    assert "dst" in await say(client, "look_up", query="nisa.tensor_copy")


async def be_wrong(client: Any, folder: Path) -> None:
    """Errors of a client are texts that say what to do; the server goes on."""
    task = str(write_task(folder))
    none = str(folder / "none.py")
    assert "no task file" in await say(client, "verify_kernel", task=none, source=RIGHT)
    assert "`task` is missing" in await say(client, "verify_kernel", source=RIGHT)
    assert "no file" in await say(client, "verify_kernel", task=task, file=none)
    assert "No kernel was sent" in await say(client, "verify_kernel", task=task)
    assert "no target `trn9`" in await say(client, "look_up", query="exp", target="trn9")
    assert "don't fit" in await say(client, "look_up", text="exp")
    assert "There is no tool `submit`" in await say(client, "submit", source=RIGHT)
    broken = folder / "broken.py"
    broken.write_text("import sys\nprint('noise')\nsys.exit(3)\n")
    assert "error: " in await say(client, "verify_kernel", task=str(broken), source=RIGHT)
    assert "stage: right" in await say(client, "verify_kernel", task=task, source=RIGHT)


def test_stdio_serves_every_tool_and_answers_errors_with_text(tmp_path: Path) -> None:
    async def talk() -> None:
        async with stdio() as client:
            assert client.server_info.name == "nki-agent"
            await use_every_tool(client, tmp_path)
            await be_wrong(client, tmp_path)

    asyncio.run(talk())


def test_http_serves_every_tool_and_answers_errors_with_text(tmp_path: Path, address: str) -> None:
    async def talk() -> None:
        async with mcp.Client(address) as client:
            await use_every_tool(client, tmp_path)
            await be_wrong(client, tmp_path)

    asyncio.run(talk())


def test_older_handshake_is_served(tmp_path: Path, address: str) -> None:
    async def talk() -> None:
        async with mcp.Client(address, mode="legacy") as client:
            assert "dst" in await say(client, "look_up", query="nisa.tensor_copy")

    asyncio.run(talk())


def test_kernels_of_a_smaller_surface_are_judged_by_it(tmp_path: Path) -> None:
    task = str(write_task(tmp_path))

    async def talk() -> None:
        async with stdio("--surface", "isa") as client:
            assert "NK119" in await say(client, "verify_kernel", task=task, source=RIGHT)

    asyncio.run(talk())


def test_two_clients_do_not_wait_for_each_other(tmp_path: Path, address: str) -> None:
    task = str(write_task(tmp_path))

    async def talk() -> None:
        async with mcp.Client(address) as one, mcp.Client(address) as other:
            judged = asyncio.create_task(say(one, "verify_kernel", task=task, source=RIGHT))
            assert "dst" in await say(other, "look_up", query="nisa.tensor_copy")
            assert not judged.done()
            assert "stage: right" in await judged

    asyncio.run(talk())


def test_task_files_named_over_http_run_in_a_sandbox(tmp_path: Path, address: str) -> None:
    task = write_task(tmp_path)
    task.write_text(HOSTILE + task.read_text())

    async def talk() -> None:
        async with mcp.Client(address) as client:
            for tool in ("describe_task", "verify_kernel"):
                source = {"source": RIGHT} if tool == "verify_kernel" else {}
                assert "PermissionError" in await say(client, tool, task=str(task), **source)

    asyncio.run(talk())
    assert not Path("/tmp/nki-agent-mcp").exists()


def test_files_outside_of_the_folder_are_not_read_over_http(tmp_path: Path, address: str) -> None:
    task = str(write_task(tmp_path))
    (tmp_path / "link.py").symlink_to("/etc/passwd")

    async def talk() -> None:
        async with mcp.Client(address) as client:
            for file in ("/etc/passwd", "../../etc/passwd", "link.py"):
                said = await say(client, "verify_kernel", task=task, file=file)
                assert "outside of the folder" in said
                assert "outside of the folder" in await say(client, "describe_task", task=file)

    asyncio.run(talk())


def test_request_for_another_host_is_refused(address: str) -> None:
    """A page in a browser that has pointed its own name at this machine."""
    host, port = "127.0.0.1", int(address.rpartition(":")[2].partition("/")[0])
    with socket.create_connection((host, port), timeout=10) as connection:
        connection.sendall(
            b"POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Type: application/json\r\n"
            b"Content-Length: 2\r\nConnection: close\r\n\r\n{}"
        )
        assert connection.recv(64).startswith(b"HTTP/1.1 421")


def test_own_task_needs_no_name(tmp_path: Path) -> None:
    async def talk() -> None:
        async with stdio("--task", str(write_task(tmp_path)), "--untrusted-task") as client:
            assert "stage: right" in await say(client, "verify_kernel", source=RIGHT)

    asyncio.run(talk())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "trn9"), "no target `trn9`"),
        (("--task", "nowhere.py"), "no task file `nowhere.py`"),
    ],
)
def test_wrong_options_end_with_a_message(options: tuple[str, ...], words: str) -> None:
    run = subprocess.run(
        [sys.executable, *COMMAND, *options], capture_output=True, text=True, check=False
    )
    assert (run.returncode, words in run.stderr) == (2, True)


ODD_PATHS = ("x\0y", "a" * 5000, "/tmp", "/dev/zero", "ü 空.py", "")


def test_paths_that_are_none_are_answered_with_text(tmp_path: Path) -> None:
    async def talk() -> None:
        task = str(write_task(tmp_path))
        async with stdio("--workers", "1") as client:
            for path in ODD_PATHS:
                for given in ({"task": path, "source": RIGHT}, {"task": task, "file": path}):
                    said = await say(client, "verify_kernel", **given)
                    assert said.startswith("error: "), (path, said)
                    assert len(said) < 6000
            assert "stage: right" in await say(client, "verify_kernel", task=task, source=RIGHT)

    asyncio.run(talk())


def test_long_question_is_not_said_again(tmp_path: Path) -> None:
    async def talk() -> None:
        async with stdio("--workers", "1") as client:
            assert len(await say(client, "look_up", query="ü空" * 100_000)) < 1000

    asyncio.run(talk())
