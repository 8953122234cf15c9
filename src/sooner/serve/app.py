"""The HTTP interface: every path of the service, with its OpenAPI document."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Header, Path, Query, Request, WebSocket
from fastapi.exceptions import RequestValidationError
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response, StreamingResponse

from sooner.errors import SoonerError
from sooner.serve import model as models
from sooner.serve import observations
from sooner.serve.access import Access, Guard
from sooner.serve.answers import Refusal, answer, sentence
from sooner.serve.decisions import Format, event_stream, shaped
from sooner.serve.limits import read_body
from sooner.serve.page import page
from sooner.serve.reference import HEADERS, reference_page
from sooner.serve.service import Service, Source
from sooner.serve.shapes import (
    DecisionPage,
    LabelsTaken,
    Problem,
    SeriesPage,
    Taken,
    TrueLabel,
    Wanted,
    WatchState,
)

LARGEST = 2**63 - 1
_EXAMPLE = '{"series": "pump-7", "x": [0.1, 2.3]}\n{"series": "pump-8", "x": [0.4, 1.9]}\n'
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    400: {"model": Problem, "description": "The request cannot be read."},
    401: {"model": Problem, "description": "The token is missing or wrong."},
    403: {"model": Problem, "description": "The request comes from a foreign page."},
    413: {"model": Problem, "description": "The request is too large."},
    415: {"model": Problem, "description": "The body is compressed."},
    422: {"model": Problem, "description": "The request is not valid."},
    429: {"model": Problem, "description": "Too much at once: retry after the seconds in `Retry-After`."},
    503: {"model": Problem, "description": "The service is stopping."},
    507: {"model": Problem, "description": "The disk of the journal is full."},
}


class _SeriesID(Convertor[str]):
    """Any text, also with slashes and line breaks."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        """The text."""
        return value

    def to_string(self, value: str) -> str:
        """The text."""
        return value


register_url_convertor("id", _SeriesID())
SeriesName = Annotated[str, Path(description="The series ID.", min_length=1)]


class _Reads:
    """Adds the routes that read to an application."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        self._service = service
        app.get("/v1/decisions", responses=_problems(400, 429) | _ok(DecisionPage, "text/event-stream"))(self.decisions)
        app.get("/v1/series", responses=_problems() | _ok(SeriesPage))(self.all_series)
        app.get("/v1/series/{series:id}", responses=_problems() | _missing())(self.one_series)
        app.get("/v1/threshold", responses=_problems())(self.threshold)
        app.get("/v1/threshold/preview", responses=_problems())(self.preview)
        app.get("/v1/watch", responses=_problems() | _ok(WatchState))(self.watch)
        app.get("/v1/model", responses=_problems())(self.model)
        app.get("/v1/stats", responses=_problems())(self.stats)
        app.get("/metrics", responses={200: {"content": {"text/plain": {}}}})(self.metrics)
        app.get("/livez")(self.livez)
        app.get("/readyz", responses={503: {"model": Problem, "description": "Not ready."}})(self.readyz)

    async def decisions(
        self,
        request: Request,
        after: Annotated[int | None, Query(ge=0, le=LARGEST, description="Decisions with a larger ID.")] = None,
        limit: Annotated[int, Query(ge=1, le=10_000, description="At most so many, as JSON.")] = 1000,
        format: Annotated[Format, Query(description="`cloudevents` wraps each decision in an envelope.")] = "plain",  # noqa: A002
        last_event_id: Annotated[str | None, Header(description="Resumes an event stream after this ID.")] = None,
    ) -> Response:
        """Decisions after an ID, as JSON, or with `Accept: text/event-stream` as an endless stream of server-sent events."""
        service = self._service
        if "text/event-stream" in request.headers.get("accept", ""):
            if last_event_id is not None and not (last_event_id.isascii() and last_event_id.isdigit()):
                raise Refusal(400, "The header Last-Event-ID must be the ID of a decision.")
            resumed = None if last_event_id is None else min(int(last_event_id[:19]), LARGEST)
            last = resumed if resumed is not None else after if after is not None else service.published.last_id
            service.refuse_connection()
            events = event_stream(service.published, last, service.source, format)
            headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
            return StreamingResponse(_counted(service, events), media_type="text/event-stream", headers=headers)
        events_after = await service.published.after(after or 0, limit)
        records = [shaped(event, service.source, format) for event in events_after]
        return answer({"decisions": records, "last_id": service.published.last_id})

    async def all_series(
        self,
        state: Annotated[Literal["open"], Query(description="Only open series are listed.")] = "open",
        offset: Annotated[int, Query(ge=0, le=LARGEST)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 50,
        search: Annotated[str, Query(max_length=200, description="Part of a series ID.")] = "",
        sort: Annotated[
            Literal["margin", "age", "opened"], Query(description="Largest margin, or most observations, first.")
        ] = "opened",
    ) -> Response:
        """The open series, with their leading class and its margin."""
        del state
        return answer(await self._service.series.page(offset=offset, limit=limit, search=search, sort=sort))

    async def one_series(
        self,
        series: SeriesName,
        after: Annotated[int, Query(ge=0, le=LARGEST, description="Only the course after so many observations.")] = 0,
    ) -> Response:
        """One series: its scores and, once it has been asked for, their course over time; or its decision."""
        return answer(await self._service.series.one(series, after))

    async def threshold(self) -> Response:
        """The threshold in use, what it means on the held-out series, and the curve to choose another one from."""
        return answer(await self._service.threshold())

    async def preview(self, value: Annotated[float, Query(description="A threshold.")]) -> Response:
        """What a threshold would mean on the held-out series; nothing is changed."""
        return answer(await self._service.preview(value))

    async def watch(self) -> Response:
        """Whether the promise about the error still holds, by the labels that came."""
        return answer(self._service.labels.state())

    async def model(self) -> Response:
        """Classes, channels, rule, promise and version of the model that new series get."""
        return answer(await self._service.call(lambda _: models.description_of(self._service.clf)))

    async def stats(self) -> Response:
        """Counts and rates."""
        return answer(self._service.stats())

    async def metrics(self) -> Response:
        """Metrics in the text format of Prometheus."""
        return Response(self._service.metrics.text(len(self._service.live)), media_type="text/plain; version=0.0.4")

    async def livez(self) -> Response:
        """Whether the process answers."""
        return answer({"status": "ok"})

    async def readyz(self) -> Response:
        """Whether observations are taken."""
        self._service.refuse_unless_ready()
        return answer({"status": "ok"})


class _Writes:
    """Adds the routes that change something."""

    def __init__(self, app: FastAPI, service: Service) -> None:
        self._service = service
        lines = {"schema": {"type": "string"}, "example": _EXAMPLE}
        body = {"content": {"application/x-ndjson": lines, "text/plain": lines}}
        file = {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
        problems = _problems(400, 413, 415, 429, 503, 507)
        app.post(observations.PATH, responses=problems | _ok(Taken), openapi_extra={"requestBody": body})(self.observe)
        app.websocket(observations.PATH)(self.websocket)
        app.post("/v1/series/{series:id}/finish", responses=problems | _missing())(self.finish)
        app.delete("/v1/series/{series:id}", status_code=204, responses=problems | _missing())(self.forget)
        app.put("/v1/threshold", responses=problems | _conflict())(self.set_threshold)
        app.post("/v1/labels", responses=problems | _ok(LabelsTaken))(self.label)
        app.put("/v1/model", responses=problems | _conflict(), openapi_extra={"requestBody": file})(self.swap)

    async def observe(self, request: Request) -> Response:
        """Observations, one JSON object per line, as for `sooner stream`.

        A line is `{"series": "pump-7", "x": [0.1, 2.3]}`, or has one field per channel; `"end": true` ends the series. What is
        accepted is durable, if the service has a journal. A line that is refused costs that line only.
        """
        return await observations.respond(self._service, request.scope, request.receive)

    async def websocket(self, socket: WebSocket) -> None:
        """Observations in text frames, each answered by one JSON object."""
        await observations.websocket(self._service, socket)

    async def finish(self, series: SeriesName) -> Response:
        """End a series: its decision, forced if the rule has not fired."""
        return answer(await self._service.series.finish(series))

    async def forget(self, series: SeriesName) -> Response:
        """Drop a series without a decision; the next observation with its ID opens a new one."""
        await self._service.series.forget(series)
        return Response(status_code=204)

    async def set_threshold(
        self, wanted: Annotated[Wanted, Body(examples=[{"threshold": 2.5}, {"max_error": 0.05}])]
    ) -> Response:
        """Change the threshold, for open and new series, from the next observation on."""
        return answer(await self._service.set_threshold(wanted.model_dump(exclude_none=True)))

    async def label(self, labels: TrueLabel | list[TrueLabel]) -> Response:
        """True labels of decided series, for the watch over the promise; one object or a list."""
        entries = labels if isinstance(labels, list) else [labels]
        return answer(await self._service.label([entry.model_dump() for entry in entries]))

    async def swap(self, request: Request) -> Response:
        """Replace the model: new series take the new one, open series end with theirs. The body is a model file."""
        content = await read_body(request.scope, request.receive, self._service.limits.model, seconds=300.0)
        return answer(await self._service.swap(content))


def application(service: Service, access: Access, sources: Sequence[Source] = ()) -> Any:
    """The ASGI application of a service, which also reads from these sources."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with service.running(sources):
            yield

    about = "Early decisions about live series: observations in, decisions out."
    app = FastAPI(
        title="sooner", description=about, version=version("sooner"), lifespan=lifespan, docs_url=None, redoc_url=None
    )
    app.get("/", include_in_schema=False)(page)
    _Reads(app, service)
    _Writes(app, service)
    reference = reference_page(app.openapi())
    app.get("/docs", include_in_schema=False)(lambda: HTMLResponse(reference, headers=HEADERS))
    app.exception_handler(Refusal)(_refused)
    app.exception_handler(SoonerError)(_not_valid)
    app.exception_handler(RequestValidationError)(_not_valid_parameters)
    app.exception_handler(HTTPException)(_not_found)
    app.router.redirect_slashes = False
    return Guard(_Front(app, service), access)


async def _counted(service: Service, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    with service.connected():
        async for part in parts:
            yield part


class _Front:
    """Hands `POST /v1/observations` over directly; routing, parsing of parameters and the like cost as much as 20 lines."""

    def __init__(self, app: Any, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == observations.PATH:
            response = await observations.respond(self._service, scope, receive)
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _not_valid(_: Request, error: Exception) -> Response:
    return answer({"detail": sentence(error)}, 422)


async def _not_valid_parameters(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "body"
    return answer({"detail": f"`{where}` is not valid: {sentence(ValueError(first['msg']))}."}, 422)


async def _not_found(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    texts = {
        404: "There is no such path; /docs lists them.",
        405: "This path does not have that method; /docs lists them.",
    }
    detail = texts.get(error.status_code, str(error.detail))
    return answer({"detail": detail}, error.status_code, error.headers)


def _ok(model: Any, *others: str) -> dict[int | str, dict[str, Any]]:
    return {200: {"model": model, "content": {other: {} for other in others}}}


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: _PROBLEMS[status] for status in (*statuses, 401, 403, 422)}


def _missing() -> dict[int | str, dict[str, Any]]:
    return {404: {"model": Problem, "description": "There is no such series."}}


def _conflict() -> dict[int | str, dict[str, Any]]:
    return {409: {"model": Problem, "description": "The open series, or the service, cannot go on with it."}}
