"""Answers of the service: JSON of whatever a series ID or a class may be, and refusals in one sentence."""

import json
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.responses import Response

JSON = "application/json"


class Refusal(Exception):
    """A request that is refused: its status, one clear sentence, and seconds after which a retry may succeed."""

    def __init__(self, status: int, detail: str, retry_after: int | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.retry_after = status, detail, retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the answer."""
        headers = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        return {**headers, "www-authenticate": "Bearer"} if self.status == 401 else headers

    def response(self) -> Response:
        """The answer."""
        return answer({"detail": self.detail}, self.status, self.headers)


def json_bytes(value: Any) -> bytes:
    """The value as JSON; numbers that are not finite become null.

    >>> json_bytes({"series": "\\ud800", "run": 2**70, "margin": float("nan")})
    b'{"series": "\\\\ud800", "run": 1180591620717411303424, "margin": null}'
    """
    try:
        return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:  # an integer beyond 64 bits, half of a surrogate pair, or a type of NumPy
        return json.dumps(_plain(value)).encode()


def answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(json_bytes(value), status, dict(headers or {}), media_type=JSON)


def sentence(error: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).encode(errors="backslashreplace").decode().split())


def _plain(value: Any) -> Any:
    """The value in types that the `json` module writes."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return value if value - value == 0 else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return _plain(value.item()) if hasattr(value, "item") else str(value)
