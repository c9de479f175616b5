"""Stands between Inspect and a provider: what comes back is what was said, without our keys.

Law: Inspect and its logs see no key of ours; what is sent is our history and nothing that Inspect
remembers of earlier replies; a reply that was cut off or refused says so. Needs the extra `agent`.
"""

from __future__ import annotations

from typing import Any

from inspect_ai.model._assistant_internal import init_sample_assistant_internal

from nki_agent.llm.keys import hide_in, hide_in_error

STOP = "stop"
CUT, REFUSED = "max_tokens", "content_filter"
CUT_DETAIL = "max_output_tokens"
"""How OpenAI's Responses say that a reply was cut off; Inspect keeps `tool_calls` as the reason."""
REFUSALS = frozenset({"refusal", "content_filter"})


def seal(api: Any) -> None:
    """Put the seal between Inspect and a provider, once."""
    if getattr(api.generate, "is_sealed", False):
        return
    ask = api.generate

    async def generate(*given: Any, **more: Any) -> Any:
        # Calls that Inspect remembers have ids, and OpenAI refuses those without their reasoning.
        init_sample_assistant_internal()
        try:
            found = await ask(*given, **more)
        except Exception as error:
            hide_in_error(error)
            _forget_path(error)
            raise
        output, call = found if isinstance(found, tuple) else (found, None)
        if call is not None:
            # In place: Inspect has it in its log already.
            call.request, call.response = hide_in(call.request), hide_in(call.response)
        if isinstance(output, Exception):
            hide_in_error(output)
            _forget_path(output)
            return output, call
        return _mend(output, {} if call is None else call.response or {}), call

    generate.is_sealed = True  # type: ignore[attr-defined]
    api.generate = generate


def _forget_path(error: BaseException | None) -> None:
    """Drop the tracebacks of a failed request: Inspect paints each of their frames for its log."""
    while error is not None and error.__traceback__ is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


def _mend(output: Any, response: Any) -> Any:
    """The output without keys, and with the reason for its end that the provider gave."""
    plain = output.model_dump()
    hidden = hide_in(plain)
    if hidden != plain:
        output = type(output).model_validate(hidden)
    for choice in output.choices:
        if choice.stop_reason == STOP and getattr(choice.stop_details, "type", "") in REFUSALS:
            choice.stop_reason = REFUSED
    details = response.get("incomplete_details")
    if isinstance(details, dict) and details.get("reason") == CUT_DETAIL and output.choices:
        output.choices[0].stop_reason = CUT
    return output
