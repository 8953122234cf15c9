"""Running a service: the server on its address, and the graceful stop."""

import asyncio
import contextlib
import gc
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvicorn

from sooner.errors import InvalidArgument
from sooner.serve.access import Access
from sooner.serve.app import application
from sooner.serve.protocol import ObservationsProtocol
from sooner.serve.service import Service, Source

Tell = Callable[[str], None]
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 10
_SWITCH = 0.001
_GARBAGE = (50_000, 20, 50)


@dataclass(frozen=True)
class Address:
    """Where a service listens.

    Attributes:
        host: an address of this machine.
        port: 0 takes a free one.
        certificate: file of the TLS certificate; None for plain HTTP.
        key: file of its private key.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            got = "only one of them"
            raise InvalidArgument("tls_certificate", "given together with its key", got, "Give both files, or none.")


class Server(uvicorn.Server):
    """A server that tells the service to stop before it waits for connections, and does not raise the signal again."""

    def __init__(self, config: uvicorn.Config, service: Service, tell: Tell) -> None:
        super().__init__(config)
        self._service, self._tell = service, tell

    async def startup(self, sockets: Any = None) -> None:
        """Listen, and say where."""
        await super().startup(sockets)
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            scheme = "https" if self.config.is_ssl else "http"
            name = f"[{host}]" if ":" in host else host
            self._tell(f"Listening on {scheme}://{name}:{port} (page at /, interface at /docs). Ctrl-C stops.")

    async def shutdown(self, sockets: Any = None) -> None:
        """Let event streams and WebSockets end, then wait for the requests that are being answered."""
        self._tell("Stopping: no new observations are taken.")
        await self._service.drain()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM, and at the second one at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def listening(address: Address) -> socket.socket:
    """A socket that listens on an address."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio switches Nagle's algorithm off, which costs 40 ms a request, only where the protocol is named.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(2048)
        return listener
    except OSError as error:
        remedy = "Give another --host or --port; --port 0 takes a free one."
        text = f"{address.host}:{address.port} ({error.strerror})"
        listener.close()
        raise InvalidArgument("port", "a free port of an address of this machine", text, remedy) from None


def run(
    make: Callable[[], Service], address: Address, access: Access, tell: Tell, sources: Sequence[Source] = ()
) -> None:
    """Serve until SIGTERM or Ctrl-C; then drain, take a snapshot and say so.

    Args:
        make: makes the service, within the event loop.
        address: where it listens.
        access: who may use it.
        tell: prints a message.
        sources: what else observations come from.
    """
    sys.setswitchinterval(_SWITCH)  # the event loop must not wait 5 ms for another thread
    gc.collect()
    gc.freeze()  # what was imported and loaded stays, and need not be searched for garbage again and again
    gc.set_threshold(*_GARBAGE)
    listener = listening(address)

    async def serve() -> None:
        service = make()
        await server_of(service, address, access, tell, sources).serve([listener])
        tell(service.farewell())

    with listener, asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(serve())


def server_of(service: Service, address: Address, access: Access, tell: Tell, sources: Sequence[Source] = ()) -> Server:
    """The server of a service; `server.serve([listening(address)])` runs it until `server.should_exit`."""
    config = uvicorn.Config(
        application(service, access, sources),
        http=partial(ObservationsProtocol, service, access),  # type: ignore[arg-type]
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws_max_size=service.limits.body,
        ws_max_queue=8,
        timeout_graceful_shutdown=_PATIENCE,
        lifespan="on",
    )
    return Server(config, service, tell)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:  # not on Windows
        return asyncio.new_event_loop
    return uvloop.new_event_loop
