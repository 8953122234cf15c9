"""Shapes of requests and answers, for the OpenAPI document; answers are written without them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

Name = str | int
Label = str | int | float | bool | None | list[str | int | float | bool]


class Problem(BaseModel):
    """Why a request was refused."""

    detail: str = Field(description="One clear sentence.", examples=["The body is larger than 16 MiB."])


class RejectedLine(BaseModel):
    """A line that was not taken."""

    line: int = Field(ge=1)
    reason: str


class Taken(BaseModel):
    """What became of the lines of a request."""

    accepted: int = Field(ge=0)
    late: int = Field(ge=0, description="Observations after a decision, which are ignored.")
    rejected: list[RejectedLine] = Field(description="At most 1,000 of them.")
    last_id: int = Field(ge=0, description="ID of the newest decision.")


class DecisionRecord(BaseModel):
    """A decision."""

    model_config = ConfigDict(extra="allow")
    id: int = Field(ge=1, description="Ascending, and the same after a restart.")
    series: Name | None
    run: int = Field(ge=1)
    label: Label
    time: int = Field(ge=1, description="Number of observations that were read.")
    crossed: bool = Field(description="False where the end or a deadline forced the decision.")


class DecisionPage(BaseModel):
    """Decisions in the order of their IDs."""

    decisions: list[dict[str, Any]]
    last_id: int = Field(ge=0, description="ID of the newest decision of the service.")


class SeriesRow(BaseModel):
    """An open series."""

    series: Name | None
    run: int
    time: int
    leader: Label
    margin: float | None
    statistic: float | None = Field(description="The number that the rule compares with its threshold, if it has one.")
    opened: float
    seen: float


class SeriesPage(BaseModel):
    """Some of the open series."""

    open: int = Field(ge=0)
    found: int = Field(ge=0)
    series: list[SeriesRow]


class Wanted(BaseModel):
    """A threshold, or one target for it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"minProperties": 1, "maxProperties": 1})
    threshold: float | list[list[float]] | None = None
    max_error: float | None = Field(None, description="Maximum balanced error on the held-out series.")
    max_mean_time: float | None = Field(None, description="Maximum mean number of observations.")
    cost_of_waiting: float | None = Field(None, description="Cost of one observation if an error costs 1.")


class TrueLabel(BaseModel):
    """The true label of a decided series."""

    series: StrictStr | StrictInt | None
    run: StrictInt = 1
    label: StrictStr | StrictInt | StrictFloat | StrictBool


class LabelsTaken(BaseModel):
    """What became of labels."""

    taken: int
    rejected: list[RejectedLine]


class WatchState(BaseModel):
    """Whether the promise about the error still holds."""

    state: Literal["quiet", "alarm", "none"]
    message: str
    labels: int
    errors: int
