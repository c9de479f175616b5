"""From the name after `--model` to a model.

Law: a name that is not known, or cannot be used as things are, is an error before anything is
loaded; nothing stands in for it. Packages of providers are imported when one is chosen.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from nki_agent.base.clock import Clock, SystemClock
from nki_agent.base.errors import UsageError
from nki_agent.llm.hosted import HostedModel, require_directory
from nki_agent.llm.meter import Budget, MeteredModel, Purse, SharedTime
from nki_agent.llm.prices import FREE, Tariff
from nki_agent.llm.protocol import Model
from nki_agent.llm.providers import PROVIDERS, make_inspect_model, require_provider
from nki_agent.llm.recorded import RECORDED, TRAJECTORY, RecordedModel, read_recording
from nki_agent.llm.scripted import ScriptedModel, ScriptedReply, read_script

BUILTIN = "builtin"
SCRIPTED = "scripted"
HF = "hf"
LOCAL = {SCRIPTED: "FILE", RECORDED: "RUN", HF: "DIR"}
"""Kinds whose name goes on with something on this machine."""
UNPAID = (BUILTIN, SCRIPTED, RECORDED)
"""Kinds that nobody charges for."""
MODEL_HELP = (
    "`builtin`, `anthropic/NAME`, `bedrock/NAME`, `openai/NAME`, `openai-api/SERVICE/NAME`,"
    " `hf/DIR`, `scripted/FILE` or `recorded/RUN`."
)

Result = TypeVar("Result")
MakeBuiltin = Callable[[], Model]


class ModelSource:
    """What a name stands for, opened once for a run; close it or use `with`."""

    def __init__(
        self,
        name: str,
        *,
        tariff: Tariff | None = None,
        purse: Purse | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open nothing yet. Without a tariff, only what nobody charges for has a cost: 0."""
        require_model(name)
        self.purse = purse or Purse(Budget())
        self._name = name
        self.tariff = tariff or find_free_tariff(name)
        self._time = SharedTime(clock or SystemClock())
        self._server: HostedModel | None = None
        self._script: tuple[str | ScriptedReply, ...] | None = None
        self._asked: Any = None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End what was started."""
        self.close()

    def make_model(
        self, *, make_builtin: MakeBuiltin, recording: Path | None = None, num_said: int = 0
    ) -> MeteredModel:
        """A model for one episode; `recording` is its place below a recorded run.

        A script goes on after the replies that it has `num_said` in earlier episodes.

        Raises:
            UsageError: a script or a recording cannot be read, or a provider not be set up.
        """
        model = self._make(make_builtin, recording, num_said)
        return MeteredModel(model, tariff=self.tariff, purse=self.purse, time=self._time)

    async def drop_connections(self) -> None:
        """Close connections, in the loop that opened them."""
        if self._asked is not None:
            await self._asked.close()

    async def drop_after(self, work: Awaitable[Result]) -> Result:
        """What the work gives; its connections are closed in its loop, whatever comes."""
        try:
            return await work
        finally:
            await self.drop_connections()

    def close(self) -> None:
        """End the server that was started."""
        self._asked = None
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _make(self, make_builtin: MakeBuiltin, recording: Path | None, num_said: int) -> Model:
        kind, _, rest = self._name.partition("/")
        if kind == BUILTIN:
            return make_builtin()
        if kind == SCRIPTED:
            if self._script is None:
                self._script = read_script(Path(rest))
            return ScriptedModel(self._script[num_said:], name=self._name)
        if kind == RECORDED:
            path = Path(rest) if recording is None else Path(rest) / recording
            return RecordedModel(read_recording(path), name=self._name)
        # One for all episodes: they share its connections, and what is known of a refused key.
        if self._asked is None:
            self._asked = self._open(kind, rest)
        asked: Model = self._asked
        return asked

    def _open(self, kind: str, rest: str) -> Any:
        if kind == HF:
            self._server = HostedModel(Path(rest))
            found = make_inspect_model(
                f"openai-api/hf/{Path(rest).name}",
                base_url=self._server.url,
                api_key=self._server.key,
            )
        else:
            found = make_inspect_model(self._name)
        inspect_model = importlib.import_module("nki_agent.llm.inspect_model")
        return inspect_model.InspectModel(found, name=self._name)


def choose_model(name: str, *, make_builtin: MakeBuiltin) -> MeteredModel:
    """The model of this name alone; `make_builtin` is called for `builtin` only.

    Raises:
        UsageError: the name stands for no model, or its script cannot be read.
    """
    return ModelSource(name).make_model(make_builtin=make_builtin)


def find_free_tariff(name: str) -> Tariff:
    """The tariff of what nobody charges for; unknown for the others."""
    is_free = name.partition("/")[0] in UNPAID
    return Tariff(price=FREE, source="nobody charges for it") if is_free else Tariff()


def require_model(name: str) -> None:
    """Refuse a name that stands for no model, before anything is loaded or made for it."""
    kind, _, rest = name.partition("/")
    if name == BUILTIN:
        return
    if kind in LOCAL:
        if not rest:
            what = LOCAL[kind]
            raise UsageError(f"`--model {name}` names no {what}", hint=f"`--model {kind}/{what}`")
        if kind == HF:
            require_directory(Path(rest), model=name)
        # A pipe can be read once only, by who asks the model.
        if kind == SCRIPTED and not Path(rest).is_fifo():
            read_script(Path(rest))
        # Recordings of a run of the benchmark are in folders of their own.
        if kind == RECORDED and not any(Path(rest).glob(f"attempts/*/{TRAJECTORY}")):
            read_recording(Path(rest))
        return
    if kind in PROVIDERS:
        require_provider(name)
        return
    near = difflib.get_close_matches(kind, (BUILTIN, *LOCAL, *PROVIDERS), n=1)
    hint = f"did you mean `{near[0]}`?" if near else "`builtin`, `scripted/FILE`, `anthropic/NAME`"
    raise UsageError(f"no model `{name}`", hint=hint)
