"""Entries for the tests: one runs source that defines `run`, as the tracer runs a kernel.

They are imported by the warmed process under the name `running`, from this folder.
"""


def run_source(payload: bytes) -> bytes:
    """What `run()` gives: bytes as they are, anything else printed."""
    names: dict[str, object] = {"__name__": "kernel"}
    exec(payload.decode(), names)
    run = names["run"]
    assert callable(run)
    value = run()
    return value if isinstance(value, bytes) else repr(value).encode()


def echo(payload: bytes) -> bytes:
    """The payload."""
    return payload


def give_text(payload: bytes) -> str:
    """Not what an entry may give."""
    return payload.decode()


def remember(payload: bytes, seen: list[bytes] = []) -> bytes:  # noqa: B006 - what must not last
    """How many calls this process has seen, which is always one."""
    seen.append(payload)
    return str(len(seen)).encode()


NOT_CALLABLE = 3
