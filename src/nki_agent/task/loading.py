"""What is known of a task file while it is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from nki_agent.isa.dtype import DType
from nki_agent.task.form import FileForm
from nki_agent.task.task import Form
from nki_agent.task.userfile import UserFile
from nki_agent.task.values import Format, find_format


@dataclass(slots=True, kw_only=True)
class Loading:
    """The parts of the file, and the notes that gather on the way."""

    form: FileForm
    seed: int
    """Comes from the file's text, so that two loads do the same."""
    is_torch: bool
    by_name: bool
    """The inputs function gave a mapping: its keys are the names of the forward arguments."""
    notes: list[str] = field(default_factory=list)

    @property
    def user(self) -> UserFile:
        """The file."""
        return self.form.user

    @property
    def kind(self) -> Form:
        """Which of the three forms it is."""
        if self.form.is_module:
            return Form.MODULE
        return Form.TORCH_FUNCTION if self.is_torch else Form.NUMPY_FUNCTION

    def format_of(self, array: NDArray[Any], *, what: str) -> Format:
        """The stored format of an input or weight; a narrowed one leaves a note."""
        wanted: DType | None = self.form.settings.dtype
        found = find_format(array, what=what, is_torch=self.is_torch, wanted=wanted)
        if found.note:
            self.notes.append(found.note)
        return found
