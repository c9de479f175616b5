"""A local server that speaks Anthropic's Messages, OpenAI's Chat and Responses, Bedrock's Converse.

What it answers is a list of steps: a reply in neutral form, an HTTP error, or a line that drops.
The last step is repeated. Every request is kept.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

POLL_S = 0.01
KEY = "key-that-must-not-leak-0123456789"


@dataclass(frozen=True, kw_only=True)
class Say:
    """A reply: its text, its calls as (name, arguments), why it ended."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    stop: str = ""
    cached: int = 0
    written: int = 0


@dataclass(frozen=True, kw_only=True)
class Fail:
    status: int
    code: str = "error"
    message: str = "something is wrong"
    retry_after: str = ""


@dataclass(frozen=True, kw_only=True)
class Drop:
    """The line breaks: before the answer, or in its middle."""

    after_bytes: int | None = None


@dataclass(frozen=True, kw_only=True)
class Hang:
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Raw:
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Endless:
    """An answer that goes on and on."""


Step = Say | Fail | Drop | Hang | Raw | Endless


@dataclass
class Wire:
    url: str
    steps: list[Step]
    requests: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next_step(self) -> Step:
        return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]


def openai_body(say: Say, model: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": say.text or None}
    if say.calls:
        message["tool_calls"] = [
            {
                "id": f"call_{n}",
                "type": "function",
                "function": {
                    "name": name,
                    "arguments": given if isinstance(given, str) else json.dumps(given),
                },
            }
            for n, (name, given) in enumerate(say.calls)
        ]
    stop = say.stop or ("tool_calls" if say.calls else "stop")
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": stop}],
        "usage": {
            "prompt_tokens": 1000,
            "completion_tokens": 50,
            "total_tokens": 1050,
            "prompt_tokens_details": {"cached_tokens": say.cached},
        },
    }


def responses_body(say: Say, model: str) -> dict[str, Any]:
    """What OpenAI answers to models that reason."""
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_0", "summary": [], "content": None}
    ]
    content: list[dict[str, Any]]
    if say.stop == "content_filter":
        content = [{"type": "refusal", "refusal": say.text}]
    else:
        content = [{"type": "output_text", "text": say.text, "annotations": []}]
    if say.text:
        said = {"type": "message", "id": "msg_0", "role": "assistant", "status": "completed"}
        output.append({**said, "content": content})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{n}",
            "call_id": f"call_{n}",
            "name": name,
            "arguments": given if isinstance(given, str) else json.dumps(given),
            "status": "completed",
        }
        for n, (name, given) in enumerate(say.calls)
    ]
    is_cut = say.stop == "length"
    return {
        "id": "resp",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "error": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 1000,
            "input_tokens_details": {"cached_tokens": say.cached},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 20},
            "total_tokens": 1050,
        },
    }


def anthropic_body(say: Say, model: str) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": given}
        for n, (name, given) in enumerate(say.calls)
    ]
    stop = {"length": "max_tokens", "content_filter": "refusal"}.get(say.stop, say.stop)
    return {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop or ("tool_use" if say.calls else "end_turn"),
        "stop_sequence": None,
        "usage": {
            "input_tokens": 1000 - say.cached - say.written,
            "output_tokens": 50,
            "cache_creation_input_tokens": say.written,
            "cache_read_input_tokens": say.cached,
        },
    }


def anthropic_stream(say: Say, model: str) -> bytes:
    """The same reply as events, which the provider sends where many tokens may come."""
    whole = anthropic_body(say, model)
    start = {**whole, "content": [], "stop_reason": None}
    start["usage"] = {**whole["usage"], "output_tokens": 1}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 50}},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n".encode() for e in events)


def bedrock_body(say: Say) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"text": say.text}] if say.text else []
    content += [
        {"toolUse": {"toolUseId": f"t{n}", "name": name, "input": given}}
        for n, (name, given) in enumerate(say.calls)
    ]
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": "tool_use" if say.calls else "end_turn",
        "usage": {"inputTokens": 1000, "outputTokens": 50, "totalTokens": 1050},
        "metrics": {"latencyMs": 1},
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    kind = "application/json"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        pass

    def do_POST(self) -> None:
        wire: Wire = self.server.wire  # type: ignore[attr-defined]
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with wire.lock:
            wire.requests.append(request)
            wire.headers.append({k.lower(): v for k, v in self.headers.items()})
            wire.paths.append(self.path)
            step = wire.next_step()
        match step:
            case Say():
                self.send(200, self.body(step, request))
            case Raw(body=body):
                self.send(200, body)
            case Fail():
                kind = {"type": step.code, "code": step.code, "message": step.message}
                record = {"type": "error", "error": kind, "message": step.message}
                self.send(step.status, json.dumps(record).encode(), retry_after=step.retry_after)
            case Drop(after_bytes=count):
                if count is not None:
                    body = self.body(Say(text="x" * 100), request)
                    self.send(200, body, cut=count)
                self.close_connection = True
            case Endless():
                self.send_endless()
            case Hang(seconds=seconds):
                time.sleep(seconds)
                self.close_connection = True

    def send_endless(self) -> None:
        self.send_response(200)
        self.send_header("content-type", self.kind)
        self.send_header("content-length", str(1 << 40))
        self.end_headers()
        self.close_connection = True
        with suppress(OSError):
            while True:
                self.wfile.write(b" " * 1000)
                time.sleep(0.01)

    def body(self, say: Say, request: dict[str, Any]) -> bytes:
        if self.path.endswith("/chat/completions"):
            return json.dumps(openai_body(say, request["model"])).encode()
        if self.path.endswith("/responses"):
            return json.dumps(responses_body(say, request["model"])).encode()
        if self.path.endswith("/converse"):
            return json.dumps(bedrock_body(say)).encode()
        if request.get("stream"):
            self.kind = "text/event-stream"
            return anthropic_stream(say, request["model"])
        return json.dumps(anthropic_body(say, request["model"])).encode()

    def send(
        self, status: int, data: bytes, *, retry_after: str = "", cut: int | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", self.kind)
        self.send_header("content-length", str(len(data)))
        if retry_after:
            self.send_header("retry-after", retry_after)
        self.end_headers()
        self.wfile.write(data if cut is None else data[:cut])


class Server(ThreadingHTTPServer):
    daemon_threads = True
    wire: Wire

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is part of the tests."""


@contextmanager
def serve(*steps: Step) -> Iterator[Wire]:
    server = Server(("127.0.0.1", 0), Handler)
    server.wire = Wire(f"http://127.0.0.1:{server.server_port}", list(steps))
    # Its end is looked for so often: half a second, if left out, at the end of every test.
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True)
    thread.start()
    try:
        yield server.wire
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
