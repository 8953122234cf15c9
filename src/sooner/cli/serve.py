"""`sooner serve`."""

import sys
import time
from pathlib import Path
from typing import Annotated

from typer import Option

from sooner.cli.options import EndOptions, FieldOptions, ModelFile, Threshold
from sooner.cli.screen import NO_DEADLINE
from sooner.estimator import load
from sooner.extras import refuse_missing
from sooner.stream.journal import Journal

_ACCESS, _LIMITS, _SOURCES = "Access", "Limits", "Sources"


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
    max_body: Annotated[int, Option(min=1, help="MiB of a request.", rich_help_panel=_LIMITS)] = 16,
    max_open: Annotated[int, Option(min=1, help="Open series.", rich_help_panel=_LIMITS)] = 1_000_000,
    max_new: Annotated[float, Option(help="New series a second.", rich_help_panel=_LIMITS)] = 50_000.0,
    *,
    ends: EndOptions,
    names: FieldOptions,
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
    from sooner.serve.limits import MIB, ServiceLimits
    from sooner.serve.model import continued
    from sooner.serve.reading import Bodies
    from sooner.serve.run import Address, run
    from sooner.serve.service import Service, ServiceSettings

    access = Access(read_token(token_file), host)
    address = Address(host, port, tls_certificate, tls_key)
    settings = ends.settings()
    limits = ServiceLimits(body=max_body * MIB, open_series=max_open, new_series=max_new)
    sources = []
    if mqtt is not None:
        from sooner.serve.mqtt import Broker, Mqtt

        sources.append(Mqtt(Broker.of(mqtt), _tell).run)
    clf = load(model)
    columns = names.columns()

    def service() -> Service:
        now = time.time()
        book = None if journal is None else Journal(journal)
        current, live, said = continued(clf, threshold, book, settings, now)
        for text in said:
            _tell(text)
        if (promise := current.promise_) is not None:
            _tell(NO_DEADLINE if ends.has_deadline else str(promise))
        bodies = Bodies(current, columns, names.end, limits, now)
        return Service(current, live, bodies, ServiceSettings(limits, watched_error=watch, deadlines=ends.has_deadline))

    run(service, address, access, _tell, sources)


def _tell(text: str) -> None:
    """Print a message to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
