"""What Inspect finds of this package: `inspect eval nki_agent/nkibench --model …`."""

from nki_agent.evals.inspect_task import nkibench

__all__ = ["nkibench"]
