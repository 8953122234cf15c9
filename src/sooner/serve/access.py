"""Access: a token everywhere but on loopback, and on loopback no foreign Host or Origin.

A page of another site that a browser shows can send requests to 127.0.0.1. It cannot know a token; without one, its requests
are recognised by their `Origin`, or, where its name was made to resolve to 127.0.0.1 (DNS rebinding), by their `Host`.
"""

import hashlib
import hmac
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sooner.errors import InvalidArgument
from sooner.serve.answers import Refusal

TOKEN = "SOONER_TOKEN"
"""Environment variable that holds the token."""
OPEN_PATHS = frozenset({"/", "/livez", "/readyz"})
"""Paths that need no token: health, and the page, which has no data of its own."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_SHORTEST = 16
Headers: TypeAlias = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Access:
    """Decides which requests are let in.

    Args:
        token: that requests must carry as `Authorization: Bearer`; None lets every request in that names no foreign host.
        host: the address that the service listens on.
    """

    token: str | None = None
    host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.host):
            remedy = f"Give --token-file FILE, or the token in {TOKEN}."
            raise InvalidArgument("token_file", f"given to listen on {self.host}", "no token", remedy)
        if self.token is not None and (len(self.token) < _SHORTEST or not self.token.isascii() or " " in self.token):
            remedy = "Make one: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'."
            expected = f"at least {_SHORTEST} ASCII characters without blanks"
            raise InvalidArgument("token", expected, f"{len(self.token)} characters", remedy)

    def check(self, path: str, headers: Headers) -> None:
        """Refuse a request without the token, or without one where a token is not needed, of a foreign page."""
        known: dict[bytes, list[bytes]] = {b"host": [], b"origin": [], b"authorization": []}
        for name, value in headers:
            if name in known:
                known[name].append(value)
        if self.token is None:
            self._refuse_foreign(known[b"host"], known[b"origin"])
        elif path not in OPEN_PATHS and not self._has_token(known[b"authorization"]):
            raise Refusal(401, "This service needs its token: send the header `Authorization: Bearer TOKEN`.")

    def _has_token(self, values: list[bytes]) -> bool:
        """Whether there is one `Authorization` header with the token, compared in constant time."""
        given = values[0] if len(values) == 1 else b""
        scheme, _, credentials = given.partition(b" ")
        expected = hashlib.sha256((self.token or "").encode()).digest()
        equal = hmac.compare_digest(hashlib.sha256(credentials.strip()).digest(), expected)
        return equal and scheme.lower() == b"bearer"

    def _refuse_foreign(self, hosts: list[bytes], origins: list[bytes]) -> None:
        if len(hosts) != 1 or _name_of(hosts[0]) not in _LOOPBACK | {self.host}:
            named = ", ".join(repr(host.decode("latin-1")) for host in hosts) or "none"
            raise Refusal(403, f"The Host header must name this machine, like localhost, got {named}.")
        if origins and origins != [b"http://" + hosts[0]] and origins != [b"https://" + hosts[0]]:
            named = ", ".join(repr(origin.decode("latin-1")) for origin in origins)
            raise Refusal(403, f"Pages of another origin may not use this service, got {named}.")


def is_loopback(host: str) -> bool:
    """Whether an address can only be reached from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(file: Path | None) -> str | None:
    """The token in a file or in the environment; None if there is neither."""
    if file is None:
        return os.environ.get(TOKEN, "").strip() or None
    try:
        text = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        text = ""
    if not text:
        remedy = f"Write the token into {file}, as its only line."
        raise InvalidArgument("token_file", "a text file with a token", "one without", remedy)
    return text


def _name_of(host: bytes) -> str:
    """The name in a `Host` header, without the port."""
    text = host.decode("latin-1").lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


class Guard:
    """The ASGI application behind access control."""

    def __init__(self, app: Any, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Let a request in, or answer it with the refusal."""
        if scope["type"] != "lifespan":
            try:
                self._access.check(scope["path"], scope["headers"])
            except Refusal as refusal:
                if scope["type"] == "websocket":
                    await receive()
                    await send({"type": "websocket.close", "code": 1008, "reason": refusal.detail[:120]})
                else:
                    await refusal.response()(scope, receive, send)
                return
        await self._app(scope, receive, send)
