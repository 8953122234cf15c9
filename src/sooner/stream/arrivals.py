"""What arrives: the observations of live series, and the lines that are refused."""

from typing import Any, NamedTuple

from sooner.errors import InvalidArgument
from sooner.stream.fleet import Key
from sooner.types import FloatArray

UNNAMED = ""
"""The key of the series where lines have no series field."""


class Arrival(NamedTuple):
    """An observation of a live series, the end of one, or both.

    Attributes:
        number: of its line, from 1.
        text: the line, for errors.
        key: the series ID; None where lines have none.
        observation: (channels,); None in a line that only ends its series.
        time: for a model that reads gaps: a number or a timestamp. None for other models.
        ended: whether this is the last line of its series.
        at: the time as it was written, for the record of the decision.
    """

    number: int
    text: str
    key: Key | None
    observation: FloatArray | None
    time: Any
    ended: bool
    at: Any = None


class Rejection(NamedTuple):
    """A line that was refused: its number, the reason as a sentence, and in one word.

    The words are "json", "csv", "field", "number", "channels", "text", "id", "late" and "model".
    """

    line: int
    reason: str
    kind: str


class RefusedLine(InvalidArgument):
    """A line that cannot be used."""

    def __init__(
        self,
        number: int,
        expected: str,
        line: str | bytes | None,
        remedy: str,
        kind: str = "field",
        *,
        got: str = "something else",
    ) -> None:
        super().__init__(f"line {number}", expected, got if line is None else _shown(line), remedy)
        self.number, self.kind = number, kind

    @classmethod
    def of(cls, rejection: Rejection) -> "RefusedLine":
        """The error of a rejection."""
        error = cls.__new__(cls)
        error.args = (rejection.reason,)
        error.argument, error.number, error.kind = f"line {rejection.line}", rejection.line, rejection.kind
        return error

    @property
    def rejection(self) -> Rejection:
        """The rejection of this error."""
        return Rejection(self.number, str(self), self.kind)


def _shown(line: str | bytes) -> str:
    text = (line.decode(errors="replace") if isinstance(line, bytes) else line).strip()
    return repr(text if len(text) <= 80 else text[:77] + "...")
