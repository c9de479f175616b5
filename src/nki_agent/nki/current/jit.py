"""`nki.jit`: marks a kernel. While tracing, calling one kernel from another inlines it.

Outside of a trace a call goes to the launcher that room `runtime` installs; there is none in the
sandbox, so a kernel file cannot run itself there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from nki_agent.nki.current.recorder import STATE, fail

Launcher = Callable[["Kernel", tuple[Any, ...], dict[str, Any]], Any]
RankLauncher = Callable[["Kernel", Sequence[Any]], list[Any]]
LNC_CHOICES = (1, 2)


class _Runtime:
    """Where calls outside of a trace go."""

    launcher: Launcher | None = None
    rank_launcher: RankLauncher | None = None
    """For a launch on several ranks."""


RUNTIME = _Runtime()


class Kernel:
    """A function decorated with `@nki.jit`."""

    def __init__(self, function: Callable[..., Any], *, lnc: int = 1) -> None:
        """Wrap a kernel function; `lnc` is the number of physical cores of a launch."""
        self.function = function
        self.lnc = lnc
        self.__name__ = getattr(function, "__name__", "kernel")
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Inline into the running trace, or launch on arrays."""
        if STATE.recorder is not None:
            if self.lnc not in (1, STATE.recorder.launch.cores):
                fail(
                    "NK116",
                    f"launch of kernel `{self.__name__}` inside another one",
                    got=f"{self.lnc} cores",
                    limit="the cores of the kernel that calls it",
                    hint=f"call `{self.__name__}(...)`: it runs on the caller's cores",
                )
            return self.function(*args, **kwargs)
        if RUNTIME.launcher is None:
            self._fail_at_import()
        return RUNTIME.launcher(self, args, kwargs)

    def launch_ranks(self, arguments_by_rank: Sequence[Any]) -> list[Any]:
        """Launch on several ranks at once; the results of each."""
        if RUNTIME.rank_launcher is None or STATE.recorder is not None:
            self._fail_at_import()
        return RUNTIME.rank_launcher(self, arguments_by_rank)

    def _fail_at_import(self) -> NoReturn:
        fail(
            "NK109",
            f"kernel `{self.__name__}` is called at import time",
            hint="a kernel file only defines kernels; call them from a script under"
            " `nki-agent run`",
        )

    def __getitem__(self, lnc: object) -> Kernel:
        """`kernel[2]`: the same kernel on two cores."""
        value = lnc[0] if isinstance(lnc, tuple) and len(lnc) == 1 else lnc
        if value not in LNC_CHOICES or isinstance(value, bool):
            fail(
                "NK116",
                "launch of a kernel",
                got=repr(lnc)[:60],
                limit="1 or 2 (NKI only supports LNC 1 or 2)",
                hint="`kernel[2]` runs on two cores; write loops over tiles inside of the kernel",
            )
        return self if value == self.lnc else Kernel(self.function, lnc=int(str(value)))


def jit(fn: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
    """Decorator `@nki.jit`; `mode=` is accepted for older code, as the vendor accepts it."""
    unknown = kwargs.keys() - {"mode"}
    if unknown:
        hint = "choose the chip with `--target`" if "platform_target" in unknown else ""
        fail(
            "NK105",
            "arguments of `nki.jit`",
            got=", ".join(sorted(unknown)),
            limit="mode",
            hint=hint,
        )
    if fn is None:
        return jit
    if isinstance(fn, Kernel):
        return fn
    if not inspect.isfunction(fn):
        fail("NK102", "`nki.jit`", got=type(fn).__name__, limit="a function written with `def`")
    return Kernel(fn)
