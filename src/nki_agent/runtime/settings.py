"""What the environment says about calls of kernels, by the vendor's names."""

from __future__ import annotations

import os
from dataclasses import dataclass

from nki_agent.base.errors import UsageError
from nki_agent.chip.spec import DEFAULT_TARGET, Target, find_target

TARGET_VARIABLE = "NEURON_PLATFORM_TARGET_OVERRIDE"
PRECISE_VARIABLE = "NKI_PRECISE_FP"
SIMULATOR_VARIABLE = "NKI_SIMULATOR"
"""Set to 1 while a script runs, since scripts ask for it; every kernel is simulated here."""
SWITCH = {"": True, "1": True, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How kernels are simulated."""

    target: Target
    is_precise: bool
    """Whether bfloat16, float16 and 8-bit floats are rounded; else they are kept as float32."""


def read_settings() -> Settings:
    """The settings that hold now.

    Raises:
        UsageError: A variable has a value that means nothing.
    """
    return Settings(target=_read_target(), is_precise=_read_precise())


def _read_target() -> Target:
    name = os.environ.get(TARGET_VARIABLE)
    if not name:
        return DEFAULT_TARGET
    target = find_target(name)
    if target is None:
        known = ", ".join(Target)
        raise UsageError(f"{TARGET_VARIABLE}={name} names no target", hint=f"choose one of {known}")
    return target


def _read_precise() -> bool:
    text = os.environ.get(PRECISE_VARIABLE, "")
    if text not in SWITCH:
        hint = "1 rounds to low-precision formats, 0 keeps float32"
        raise UsageError(f"{PRECISE_VARIABLE}={text} is neither 0 nor 1", hint=hint)
    return SWITCH[text]
