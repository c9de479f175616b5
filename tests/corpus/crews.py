"""What the processes of test crews do."""

import os
import sys
import time
from pathlib import Path

from nki_agent.base.errors import TaskError
from nki_agent.corpus.workers import Answerer


def make_echo() -> Answerer:
    return answer


def answer(order: bytes) -> bytes:
    word, _, rest = order.decode().partition(" ")
    match word:
        case "late":
            time.sleep(float(rest))
        case "die":
            os._exit(3)
        case "die-once":
            mark = Path(rest)
            if not mark.exists():
                mark.touch()
                os._exit(3)
        case "print":
            sys.stdout.write("noise")
            sys.stdout.flush()
        case "refuse":
            raise TaskError("no such shape", hint="another one")
        case "bug":
            raise ValueError("a bug")
        case _:
            pass
    return order
