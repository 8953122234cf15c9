"""`sooner serve`."""

import sys
import time
from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from sooner.cli.options import Deadline, ModelFile, TableOptions, Threshold
from sooner.cli.screen import NO_DEADLINE
from sooner.errors import InvalidArgument
from sooner.estimator import load
from sooner.extras import refuse_missing
from sooner.stream import LiveSeries, LiveSettings, Rearm
from sooner.stream.journal import Journal

_ACCESS, _FIELDS, _LIMITS, _SOURCES = "Access", "Fields of a line", "Limits", "Sources"


def serve(
    model: ModelFile,
    host: Annotated[
        str, Option(help="Address to listen on; any other than loopback needs a token.", rich_help_panel=_ACCESS)
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port; 0 takes a free one.", rich_help_panel=_ACCESS)] = 8000,
    token_file: Annotated[
        Path | None,
        Option(help="File with the token of the service. Default: the variable SOONER_TOKEN.", rich_help_panel=_ACCESS),
    ] = None,
    tls_certificate: Annotated[
        Path | None, Option(help="Certificate file, for HTTPS.", rich_help_panel=_ACCESS)
    ] = None,
    tls_key: Annotated[
        Path | None, Option(help="File with the key of the certificate.", rich_help_panel=_ACCESS)
    ] = None,
    journal: Annotated[
        Path | None,
        Option(help="Folder of the journal: what was acknowledged survives a crash. Default: memory only."),
    ] = None,
    threshold: Threshold = None,
    idle: Annotated[
        str | None, Option(help="End a series after this silence, for example 30s. Default: never.")
    ] = None,
    rearm: Annotated[
        str, Option(help="Whether an ID may begin a new series after its decision: never, next, or gap:10s.")
    ] = "never",
    deadline: Deadline = None,
    deadline_time: Annotated[
        str | None, Option(help="Force a decision this long after the first observation, for example 5m.")
    ] = None,
    at_end: Annotated[
        Literal["force", "abstain", "set"],
        Option(help="If the rule has not fired: name the leading class, abstain, or list the labels left."),
    ] = "force",
    coverage: Annotated[
        float | None,
        Option(help="Probability that the labels left contain the true one, with --at-end set. Default: 0.9."),
    ] = None,
    late: Annotated[Literal["ignore", "refuse"], Option(help="Treatment of observations after a decision.")] = "ignore",
    watch: Annotated[
        float | None,
        Option(help="Error that delayed labels are compared with: 0.05 means 5%. Default: the promised error."),
    ] = None,
    mqtt: Annotated[
        str | None,
        Option(
            help="Broker and topic of observations, as mqtt://host/plant/+/obs; + is the series ID. Decisions go to "
            "plant/ID/decision.",
            rich_help_panel=_SOURCES,
        ),
    ] = None,
    series: Annotated[
        str | None, Option(help="Field with the series ID. Default: as in training.", rich_help_panel=_FIELDS)
    ] = None,
    time_field: Annotated[
        str | None, Option("--time", help="Field with the time. Default: as in training.", rich_help_panel=_FIELDS)
    ] = None,
    end: Annotated[
        str, Option(help="Field that is true in the last line of a series.", rich_help_panel=_FIELDS)
    ] = "end",
    channels: Annotated[
        str | None,
        Option(help="Fields of an observation, separated by commas. Default: as in training.", rich_help_panel=_FIELDS),
    ] = None,
    max_body: Annotated[int, Option(min=1, help="MiB of a request.", rich_help_panel=_LIMITS)] = 16,
    max_open: Annotated[int, Option(min=1, help="Open series.", rich_help_panel=_LIMITS)] = 1_000_000,
    max_new: Annotated[float, Option(help="New series a second.", rich_help_panel=_LIMITS)] = 50_000.0,
) -> None:
    """Decide live series as a service: observations in over HTTP, decisions out as they are made.

    Send lines as for `sooner stream` to `POST /v1/observations`, and read decisions from `GET /v1/decisions`, as JSON or as
    server-sent events. `/` is a page with the open series and the dial, `/docs` describes every path, and `/metrics` is for
    Prometheus.

    Without `--journal` everything is in memory, and is lost with the process. With it, an acknowledged observation survives a
    crash and a power cut, decisions keep their IDs, and a restart continues where the service was.

    Ctrl-C and SIGTERM stop it gracefully. Example: `sooner serve pumps.sooner --journal state --idle 30s`
    """
    refuse_missing("serve", "serve", "done with FastAPI and uvicorn")
    from sooner.serve.access import Access, read_token
    from sooner.serve.limits import MIB, Limits
    from sooner.serve.reading import Bodies
    from sooner.serve.run import Address, run
    from sooner.serve.service import Service, ServiceSettings

    access = Access(read_token(token_file), host)
    address = Address(host, port, tls_certificate, tls_key)
    settings = LiveSettings(
        idle=idle,  # type: ignore[arg-type]  # durations may be text
        rearm=Rearm.parse(rearm),
        deadline=deadline,
        deadline_seconds=deadline_time,  # type: ignore[arg-type]
        at_end=at_end,
        coverage=coverage,
        late=late,
    )
    limits = Limits(body=max_body * MIB, open_series=max_open, new_series=max_new)
    deadlines = deadline is not None or deadline_time is not None or idle is not None
    if coverage is not None and at_end != "set":
        remedy = "Without it, no label sets are written."
        raise InvalidArgument("coverage", "given with --at-end set only", f"{coverage:g} with {at_end}", remedy)
    sources = []
    if mqtt is not None:
        from sooner.serve.mqtt import Broker, Mqtt

        sources.append(Mqtt(Broker.of(mqtt), _tell).run)
    clf = load(model)
    if threshold is not None:
        clf.threshold = threshold
    if (promise := clf.promise_) is not None:
        _tell(NO_DEADLINE if deadlines else str(promise))
    columns = TableOptions(series=series, time=time_field, channels=channels).columns()

    def service() -> Service:
        now = time.time()
        book = None if journal is None else Journal(journal)
        for finding in [] if book is None else book.findings:
            _tell(finding)
        live = LiveSeries(clf, settings, journal=book, now=now)
        if book is not None and live.last_id + len(live):
            _tell(f"Continuing with {len(live):,} open series after {live.last_id:,} decisions from {journal}.")
        bodies = Bodies(clf, columns, end, limits, now)
        return Service(clf, live, bodies, ServiceSettings(limits, watched_error=watch, deadlines=deadlines))

    run(service, address, access, _tell, sources)


def _tell(text: str) -> None:
    """Print a message to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
