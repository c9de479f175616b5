"""The warmed process's loop and what it lets kernels read; run here, with real children."""

import os
import socket
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from nki_agent.sandbox.child import echo
from nki_agent.sandbox.jail import Jail, prepare_jail
from nki_agent.sandbox.outcome import Layer, LayerState, Limits
from nki_agent.sandbox.wire import KILL, PACKET_BYTES, QUIT, RESULT, RUN, End, FrameReader
from nki_agent.sandbox.zygote import find_entry, list_package_paths, list_standard_paths, serve
from tests.source import PACKAGE


@pytest.fixture(scope="module")
def jail() -> Iterator[Jail]:
    off = LayerState(Layer.NAMESPACES, active=False, detail="not tried")
    jail = prepare_jail([], ring=off, namespaces=off)
    yield jail
    if jail.ruleset is not None:
        os.close(jail.ruleset)


class Caller:
    """The other end of the control socket."""

    def __init__(self, control: socket.socket, payload: Path) -> None:
        self.control = control
        self.payload = payload
        self.ends: list[End] = []
        self.frames: list[FrameReader] = []

    def send_run(self) -> int:
        reader, writer = os.pipe()
        with self.payload.open("rb") as file:
            message = RUN + msgspec.msgpack.encode(Limits())
            socket.send_fds(self.control, [message], [file.fileno(), writer])
        os.close(writer)
        return reader

    def run(self) -> None:
        reader = self.send_run()
        frame = FrameReader(limit=1000)
        while chunk := os.read(reader, 1000):
            frame.feed(chunk)
        os.close(reader)
        self.frames.append(frame)
        self.ends.append(self.take_end())

    def take_end(self) -> End:
        return msgspec.msgpack.decode(self.control.recv(PACKET_BYTES), type=End)


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[tuple[socket.socket, Caller]]:
    payload = tmp_path / "payload"
    payload.write_bytes(b"as it was")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        yield theirs, Caller(ours, payload)


def test_each_request_is_answered_by_a_child_of_its_own(
    caller: tuple[socket.socket, Caller], jail: Jail
) -> None:
    control, client = caller

    def ask() -> None:
        client.control.send(KILL)  # of a run that is over: nothing to kill
        client.run()
        client.run()
        client.control.send(QUIT)

    thread = threading.Thread(target=ask)
    thread.start()
    serve(control, echo, jail)
    thread.join()
    assert [frame.frame() for frame in client.frames] == [(RESULT, b"as it was")] * 2
    assert [end.wait_status for end in client.ends] == [0, 0]


@pytest.mark.parametrize("told", [True, False])
def test_child_is_killed_when_told_or_when_nobody_is_there(
    told: bool, caller: tuple[socket.socket, Caller], jail: Jail
) -> None:
    control, client = caller

    def wait_for_ever(payload: bytes) -> bytes:
        threading.Event().wait()
        return payload

    def ask() -> None:
        reader = client.send_run()
        assert os.read(reader, 1) == b"J"
        if told:
            client.control.send(KILL)
            client.ends.append(client.take_end())
        client.control.shutdown(socket.SHUT_RDWR)
        os.close(reader)

    thread = threading.Thread(target=ask)
    thread.start()
    if told:
        serve(control, wait_for_ever, jail)
    else:
        with pytest.raises(BrokenPipeError):
            serve(control, wait_for_ever, jail)
    thread.join()
    assert [end.wait_status for end in client.ends] == ([9] if told else [])


def test_of_our_package_only_loaded_rooms_are_readable() -> None:
    paths = set(map(Path, list_package_paths(("nki_agent",))))
    assert PACKAGE / "sandbox" in paths
    assert PACKAGE not in paths
    assert any(path.name == "msgspec" for path in paths)


def test_library_is_readable_without_what_others_put_into_it() -> None:
    folder = sysconfig.get_path("stdlib")
    names = {Path(path).name for path in list_standard_paths([folder, "/missing"])}
    assert "json" in names
    assert not {"site-packages", "dist-packages"} & names


@pytest.mark.parametrize(
    ("name", "error"),
    [("json:missing", AttributeError), ("json:__name__", TypeError), ("missing_x:f", ImportError)],
)
def test_entry_that_is_none_is_told(name: str, error: type[Exception]) -> None:
    assert find_entry("json:dumps").__name__ == "dumps"
    with pytest.raises(error):
        find_entry(name)
