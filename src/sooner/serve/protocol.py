"""HTTP/1.1 with a short way for `POST /v1/observations`: tasks and ASGI messages would be a third of the cost of a line.

The way is taken by requests that came in one piece and have nothing unusual in their headers, and whose sender may send them. All
others, and with them nearly all refusals, go through the ASGI application.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from sooner.serve.access import Access
from sooner.serve.answers import JSON, Refusal, json_bytes
from sooner.serve.gather import Answer
from sooner.serve.observations import PATH
from sooner.serve.service import Service

_URL = PATH.encode()
_END = b"\r\n\r\n"
_UNUSUAL = frozenset({b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"})
_TYPE = b"content-type: %b\r\ncontent-length: %%d\r\n" % JSON.encode()


class DirectCycle:
    """A request that waits for its answer; the public attributes are those that uvicorn reads and sets."""

    message_event = asyncio.Event()
    """Wakes up readers of a body, of which there are none."""

    def __init__(self, protocol: "ObservationsProtocol", *, keep_alive: bool) -> None:
        self.keep_alive, self.disconnected, self.response_complete = keep_alive, False, False
        self.body = bytearray()
        self._protocol = protocol

    def answer(self, found: Answer) -> None:
        """Send the answer."""
        self.response_complete = True
        if not self.disconnected:
            self._protocol.send_answer(found, keep_alive=self.keep_alive)


class ObservationsProtocol(HttpToolsProtocol):
    """One connection.

    Args:
        service: takes the observations.
        access: who may send them.
        options: those of uvicorn.
    """

    def __init__(self, service: Service, access: Access, **options: Any) -> None:
        super().__init__(**options)
        self._service, self._access = service, access
        self._data = b""

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._data = data
        super().data_received(data)
        self._data = b""

    def on_headers_complete(self) -> None:
        """Begin with a request, or put it behind the one that is being answered."""
        if self.url == _URL and (self.cycle is None or self.cycle.response_complete) and self._is_direct():
            self.cycle = DirectCycle(self, keep_alive=self.parser.should_keep_alive())  # type: ignore[assignment]
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep the body of a request."""
        if isinstance(self.cycle, DirectCycle):
            self.cycle.body += body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Hand the body of a request over."""
        cycle: Any = self.cycle
        if isinstance(cycle, DirectCycle):
            self._service.hand_over(bytes(cycle.body), cycle.answer)
        else:
            super().on_message_complete()

    def send_answer(self, found: Answer, *, keep_alive: bool) -> None:
        """Send an answer, and go on with the next request."""
        status, value, own = 200, found, {}
        if isinstance(found, Refusal):
            status, value, own = found.status, {"detail": found.detail}, found.headers
        body = json_bytes(value)
        head = [STATUS_LINE[status], *(b"%b: %b\r\n" % header for header in self.server_state.default_headers)]
        head += [f"{name}: {text}\r\n".encode() for name, text in own.items()]
        if not keep_alive:
            head.append(b"connection: close\r\n")
        self.transport.write(b"".join((*head, _TYPE % len(body), b"\r\n", body)))
        if not keep_alive:
            self.transport.close()
        self.on_response_complete()

    def _is_direct(self) -> bool:
        """Whether the request has come as a whole, and may be handed over."""
        length = b""
        for name, value in self.headers:
            if name == b"content-length":
                length = value
            elif name in _UNUSUAL:
                return False
        parser = self.parser
        if parser.get_method() != b"POST" or parser.get_http_version() != "1.1" or not length.isdigit():
            return False
        if self._data.find(_END) + len(_END) + int(length) != len(self._data):
            return False
        try:
            self._service.gatherer.refuse_if_full()
            self._access.check(PATH, self.headers)
        except Refusal:  # said by the application
            return False
        return int(length) <= self._service.limits.body
