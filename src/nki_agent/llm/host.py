"""The server process of `hf/DIR`: a model of transformers that speaks OpenAI's Chat with tools.

Law: one reply at a time; the history is sent whole and nothing is kept between requests. A template
that knows no tools gets them as text. Not covered: streaming, images, sampling beyond temperature.
"""

from __future__ import annotations

import hmac
import importlib
import os
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

from nki_agent.llm.chat import Chat, make_chat, read_calls

REQUEST_BYTES_MAX = 64 << 20
PARENT_POLL_S = 1.0
PATH = "/v1/chat/completions"
OUTPUT_TOKENS_DEFAULT = 1024


class TooLongError(Exception):
    """The history leaves no room for a reply."""


class Generator:
    """Loads a model and continues histories."""

    def __init__(self, directory: Path) -> None:
        """Load weights and tokenizer; what transformers raises travels up."""
        transformers = importlib.import_module("transformers")
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype="auto")
        if transformers.utils.is_torch_cuda_available():
            self._model.to("cuda")
        self._model.eval()
        if self._tokenizer.chat_template is None:
            raise ValueError("its tokenizer has no chat template")
        self._lock = threading.Lock()
        self._context_tokens = int(getattr(self._model.config, "max_position_embeddings", 0) or 0)

    def answer(self, request: Any) -> dict[str, Any]:
        """The completion of one request, in OpenAI's form."""
        chat = make_chat(request, self._tokenizer)
        ids = self._tokenizer.apply_chat_template(
            chat.messages,
            tools=chat.tools,
            add_generation_prompt=True,
            return_tensors="pt",
            return_dict=True,
        )
        num_input = int(ids["input_ids"].shape[1])
        wanted = request.get("max_completion_tokens") or request.get("max_tokens")
        limit = int(wanted or OUTPUT_TOKENS_DEFAULT)
        if self._context_tokens:
            room = self._context_tokens - num_input
            if room < 1:
                raise TooLongError(
                    f"the history has {num_input} tokens, the model's context"
                    f" {self._context_tokens}"
                )
            limit = min(limit, room)
        with self._lock:
            out = self._generate(ids, limit, request.get("temperature"))
        new = out[0, num_input:]
        text = self._tokenizer.decode(new, skip_special_tokens=True)
        is_cut = len(new) >= limit and int(new[-1]) not in self._end_ids()
        return _complete(chat, text, is_cut=is_cut, counts=(num_input, len(new)))

    def _generate(self, ids: Any, limit: int, temperature: float | None) -> Any:
        how: dict[str, Any] = {"do_sample": bool(temperature), "max_new_tokens": limit}
        if temperature:
            how["temperature"] = float(temperature)
        return self._model.generate(
            **ids.to(self._model.device), pad_token_id=self._tokenizer.eos_token_id, **how
        )

    def _end_ids(self) -> set[int]:
        found = self._model.generation_config.eos_token_id
        ends = found if isinstance(found, list) else [found]
        return {int(e) for e in (*ends, self._tokenizer.eos_token_id) if e is not None}


def _complete(chat: Chat, text: str, *, is_cut: bool, counts: tuple[int, int]) -> dict[str, Any]:
    """OpenAI's form of a reply."""
    said, calls = read_calls(text) if chat.has_tools else (text, [])
    message: dict[str, Any] = {"role": "assistant", "content": said or None}
    if calls:
        message["tool_calls"] = calls
    reason = "length" if is_cut else "tool_calls" if calls else "stop"
    return {
        "id": "reply",
        "object": "chat.completion",
        "created": 0,
        "model": chat.model,
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": counts[0],
            "completion_tokens": counts[1],
            "total_tokens": sum(counts),
        },
    }


class Handler(BaseHTTPRequestHandler):
    """One request; its server has `generator` and `key`."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a chat request, or say in OpenAI's form what is wrong with it."""
        server: Any = self.server
        size = int(self.headers.get("content-length") or 0)
        given = self.headers.get("authorization") or ""
        if not hmac.compare_digest(given, f"Bearer {server.key}"):
            self._refuse(401, "wrong key", "invalid_api_key")
        elif self.path != PATH:
            self._refuse(404, f"there is {PATH}", "not_found")
        elif size > REQUEST_BYTES_MAX:
            self._refuse(413, f"over {REQUEST_BYTES_MAX} bytes", "too_large")
        else:
            self._answer(server.generator, self.rfile.read(size))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Say nothing: the run's folder has it all."""
        del format, args

    def _answer(self, generator: Generator, body: bytes) -> None:
        try:
            reply = generator.answer(msgspec.json.decode(body))
        except TooLongError as error:
            self._refuse(400, str(error), "context_length_exceeded")
        except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError) as error:
            self._refuse(400, f"{type(error).__name__}: {error}", "invalid_request")
        except Exception as error:  # noqa: BLE001 - the next request may still be answered
            self._refuse(500, f"{type(error).__name__}: {error}", "server_error")
        else:
            self._send(200, reply)

    def _refuse(self, status: int, message: str, code: str) -> None:
        self.close_connection = True
        self._send(status, {"error": {"message": message, "type": code, "code": code}})

    def _send(self, status: int, record: Any) -> None:
        data = msgspec.json.encode(record)
        # Whoever asked may have gone.
        with suppress(OSError):
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)


def end_with_parent(parent: int) -> None:
    """End this process when its input ends, or when it has another parent."""

    def read() -> None:
        sys.stdin.buffer.read()
        os._exit(0)

    def poll() -> None:
        while os.getppid() == parent:
            threading.Event().wait(PARENT_POLL_S)
        os._exit(0)

    for watch in (read, poll):
        threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    """Load the model, say where it is, serve until the parent ends."""
    parent = os.getppid()
    say = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what libraries print must not be read as our word
    key = sys.stdin.buffer.readline().decode().strip()
    end_with_parent(parent)
    try:
        generator = Generator(Path(sys.argv[1]))
    except Exception as error:  # noqa: BLE001 - whatever the loader raises is told
        say.write(msgspec.json.encode({"error": f"{type(error).__name__}: {error}"}) + b"\n")
        sys.exit(1)
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.generator, server.key = generator, key
    say.write(msgspec.json.encode({"port": server.server_port}) + b"\n")
    server.serve_forever()


if __name__ == "__main__":
    main()
