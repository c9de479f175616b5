"""The exception tree.

NkiAgentError
├── KernelError       a kernel's fault, carries a Diagnostic; becomes part of a verdict
├── TaskError         a task file's fault (no model, reference raises, ...); exit code 2
├── UsageError        a bad command line, path or option; exit code 2
└── MachineError      our own or the machine's failure (sandbox will not start, ...); exit code 4

Everything else that is raised is a bug of ours and travels up with its traceback.
"""

from __future__ import annotations

from nki_agent.base.diagnostic import Diagnostic


class NkiAgentError(Exception):
    """Base of every error that this package raises on purpose."""


class KernelError(NkiAgentError):
    """A kernel breaks a rule; `diagnostic` says which, where, and what to do."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        """Keep the diagnostic; its text is the message."""
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


class TaskError(NkiAgentError):
    """A task file cannot be used; `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Join message and hint in one readable text."""
        super().__init__(message if not hint else f"{message}\n  hint: {hint}")
        self.message = message
        self.hint = hint


class UnfitTaskError(TaskError):
    """A task file loads, and shows meanwhile that nothing can be judged by it."""

    def __init__(self, message: str, *, check: str, hint: str = "") -> None:
        """`check` is the name of what `task lint` looks at."""
        super().__init__(message, hint=hint)
        self.check = check


class UsageError(NkiAgentError):
    """A command was given something that it cannot use; `hint` says what to do."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Join message and hint in one readable text."""
        super().__init__(message if not hint else f"{message}\n  hint: {hint}")
        self.hint = hint


class MachineError(NkiAgentError):
    """The machine or our own set-up failed; says nothing about a kernel."""
