"""Sets up the model behind a provider's name, through Inspect.

Law: keys come from the environment only, and what is missing is said before anything is asked.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from nki_agent.base.errors import UsageError

ANTHROPIC, BEDROCK, OPENAI, OPENAI_API = "anthropic", "bedrock", "openai", "openai-api"
PROVIDERS = (ANTHROPIC, BEDROCK, OPENAI, OPENAI_API)
PACKAGES = {ANTHROPIC: "anthropic", BEDROCK: "aiobotocore", OPENAI: "openai", OPENAI_API: "openai"}
EXTRA = {ANTHROPIC: "agent", BEDROCK: "bedrock", OPENAI: "agent", OPENAI_API: "agent"}
KEYS = {ANTHROPIC: ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"), OPENAI: ("OPENAI_API_KEY",)}
NO_KEY = "none"
"""What a server of one's own that wants no key is sent."""
CONNECTIONS_MAX = 128


def require_provider(name: str) -> None:
    """Refuse a provider that cannot be used as things are: no extra, no key, no address.

    Raises:
        UsageError: says what is missing and how to get it.
    """
    kind, _, rest = name.partition("/")
    if not rest or (kind == OPENAI_API and not rest.partition("/")[2]):
        form = f"{kind}/SERVICE/NAME" if kind == OPENAI_API else f"{kind}/NAME"
        raise UsageError(f"`--model {name}` names no model", hint=f"`--model {form}`")
    require_packages(("inspect_ai", PACKAGES[kind]), model=name, extra=EXTRA[kind])
    keys = KEYS.get(kind, ())
    if keys and not any(map(os.environ.get, keys)):
        raise UsageError(
            f"`--model {name}` needs a key, and the environment has no {' or '.join(keys)}",
            hint=f"`export {keys[0]}=…`; it is read from the environment only and never stored",
        )
    if kind == OPENAI_API and not os.environ.get(variable := _variable(rest, "BASE_URL")):
        raise UsageError(
            f"`--model {name}` needs an address, and the environment has no {variable}",
            hint=f"`export {variable}=http://HOST:PORT/v1`, and {_variable(rest, 'API_KEY')} where"
            " the server wants a key",
        )


def require_packages(packages: tuple[str, ...], *, model: str, extra: str) -> None:
    """Refuse a model whose extra is not installed."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if missing:
        raise UsageError(
            f"`--model {model}` needs {' and '.join(missing)}, not installed here",
            hint=f"in the checkout: pip install '.[{extra}]'",
        )


def make_inspect_model(
    name: str, *, base_url: str | None = None, api_key: str | None = None
) -> Any:
    """Inspect's model of this name; it asks once and leaves asking again to us.

    Raises:
        UsageError: the provider cannot be set up.
    """
    inspect_model = importlib.import_module("inspect_ai.model")
    kind, _, rest = name.partition("/")
    given: dict[str, Any] = {} if kind == BEDROCK else {"max_retries": 0}
    if kind == OPENAI_API:
        api_key = api_key or os.environ.get(_variable(rest, "API_KEY")) or NO_KEY
        # Our tools have optional arguments, which strict schemas know nothing of.
        given["strict_tools"] = False
    # Without a word on summaries, a request of Inspect's own would find out, paid and uncounted.
    summary = "none" if kind in (OPENAI, OPENAI_API) else None
    config = inspect_model.GenerateConfig(
        max_retries=0,
        max_connections=CONNECTIONS_MAX,
        cache_prompt=True,
        reasoning_summary=summary,
    )
    prerequisite = importlib.import_module("inspect_ai._util.error").PrerequisiteError
    try:
        return inspect_model.get_model(
            name, config=config, base_url=base_url, api_key=api_key, memoize=False, **given
        )
    except (prerequisite, ValueError, ImportError) as error:
        raise UsageError(f"`--model {name}` cannot be set up: {_say(error)}") from error


def _variable(rest: str, what: str) -> str:
    service = rest.partition("/")[0]
    return f"{service.upper().replace('-', '_')}_{what}"


def _say(error: Exception) -> str:
    return " ".join(str(getattr(error, "message", error)).split())
