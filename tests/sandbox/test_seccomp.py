"""The filter's laws for both machines, run by a small interpreter of its program."""

import errno
import os
import re
import struct
from pathlib import Path

import pytest

from nki_agent.sandbox.seccomp import ALLOW, INSTRUCTION, KILL, REFUSE, UNKNOWN, make_filter
from nki_agent.sandbox.syscalls import AUDIT_ARCH, GUARDED, PLAIN, Machine, number_of

MACHINES: tuple[Machine, ...] = ("x86_64", "aarch64")
HEADERS: dict[Machine, list[str]] = {
    "x86_64": ["asm/unistd_64.h", "x86_64-linux-gnu/asm/unistd_64.h"],
    "aarch64": ["asm-generic/unistd.h"],
}


def decide(
    program: bytes,
    number: int,
    *arguments: int,
    machine: Machine = "x86_64",
    arch: int | None = None,
) -> int:
    """What the filter answers to a call."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    arch = AUDIT_ARCH[machine] if arch is None else arch
    data = struct.pack("<IIQ6Q", number, arch, 0, *words)
    steps = list(INSTRUCTION.iter_unpack(program))
    accumulator = position = 0
    while True:
        code, if_true, if_false, value = steps[position]
        position += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("<I", data, value)
            case 0x15:
                position += if_true if accumulator == value else if_false
            case 0x35:
                position += if_true if accumulator >= value else if_false
            case 0x45:
                position += if_true if accumulator & value else if_false
            case 0x06:
                return int(value)
            case _:
                raise ValueError(code)


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> Machine:
    found: Machine = request.param
    return found


def test_refusals_are_the_errors_that_callers_expect() -> None:
    assert REFUSE & 0xFFFF == errno.EPERM
    assert UNKNOWN & 0xFFFF == errno.ENOSYS


def test_listed_calls_are_allowed_and_no_other(machine: Machine) -> None:
    program = make_filter(machine, may_open=True)
    listed = {number_of(name, machine) for name in (*PLAIN, *GUARDED)} - {-1}
    plain = {number_of(name, machine) for name in PLAIN} - {-1}
    for number in range(600):
        answer = decide(program, number, machine=machine)
        if number in plain:
            assert answer == ALLOW
        elif number not in listed:
            assert answer in (REFUSE, UNKNOWN)


@pytest.mark.parametrize("number", [425, 426, 434, 435, 437, 438, 452, 1000])
def test_call_newer_than_the_list_is_unknown(number: int, machine: Machine) -> None:
    """`clone3` (435) and others: glibc falls back on ENOSYS, and on nothing else."""
    assert decide(make_filter(machine, may_open=True), number, machine=machine) == UNKNOWN


def test_call_through_another_table_kills() -> None:
    for machine in MACHINES:
        program = make_filter(machine, may_open=True)
        assert decide(program, 63, machine=machine, arch=0x40000003) == KILL
    assert decide(make_filter("x86_64", may_open=True), 0x40000000 | 39) == KILL


@pytest.mark.parametrize(
    ("flags", "allowed"),
    [
        (os.O_RDONLY, True),
        (os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY, True),
        (os.O_WRONLY, False),
        (os.O_RDWR, False),
        (os.O_RDONLY | os.O_CREAT, False),
        (os.O_RDONLY | os.O_TRUNC, False),
        (os.O_TMPFILE | os.O_RDWR, False),
    ],
)
def test_files_are_opened_for_reading_only(flags: int, allowed: bool, machine: Machine) -> None:
    openat = number_of("openat", machine)
    program = make_filter(machine, may_open=True)
    answer = decide(program, openat, 0, 0, flags, machine=machine)
    assert answer == (ALLOW if allowed else REFUSE)
    closed = make_filter(machine, may_open=False)
    assert decide(closed, openat, 0, 0, flags, machine=machine) == REFUSE


@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("fcntl", (0, 3), True),
        ("fcntl", (0, 4), False),
        ("fcntl", (0, 8), False),
        ("fcntl", (0, 10), False),
        ("ioctl", (0, 0x5401), True),
        ("ioctl", (0, 0x5412), False),
        ("prlimit64", (0, 7, 0), True),
        ("prlimit64", (1, 7, 0), False),
        ("prlimit64", (1 << 32, 7, 0), False),
        ("prlimit64", (0, 7, 1), False),
        ("prlimit64", (0, 7, 1 << 32), False),
    ],
)
def test_guarded_call_takes_harmless_arguments_only(
    name: str, arguments: tuple[int, ...], allowed: bool, machine: Machine
) -> None:
    program = make_filter(machine, may_open=True)
    answer = decide(program, number_of(name, machine), *arguments, machine=machine)
    assert answer == (ALLOW if allowed else REFUSE)


def test_numbers_are_those_of_the_linux_headers(machine: Machine) -> None:
    paths = [Path("/usr/include", name) for name in HEADERS[machine]]
    path = next((path for path in paths if path.exists()), None)
    if path is None:
        pytest.skip("no Linux headers here")
    text = path.read_text()
    numbers = {m[1]: int(m[2]) for m in re.finditer(r"define __NR(?:3264)?_(\w+)\s+(\d+)", text)}
    numbers.setdefault("newfstatat", numbers.get("fstatat", -1))
    listed = {name: number_of(name, machine) for name in (*PLAIN, *GUARDED)}
    assert {name: numbers.get(name, -1) for name in listed} == listed
