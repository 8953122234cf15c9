"""Observations in: NDJSON by `POST`, and lines in the frames of a WebSocket."""

import asyncio
from typing import Any

from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from sooner.serve.answers import Refusal, answer, json_bytes
from sooner.serve.limits import read_body, too_large
from sooner.serve.service import Service

PATH = "/v1/observations"
_FRAMES = 32


async def respond(service: Service, scope: Any, receive: Any) -> Response:
    """The answer to `POST /v1/observations`."""
    try:
        service.gatherer.refuse_if_full()
        _refuse_encoded(scope["headers"])
        body = await read_body(scope, receive, service.limits.body)
        return answer(await service.observe(body))
    except Refusal as refusal:
        return refusal.response()


async def websocket(service: Service, socket: WebSocket) -> None:
    """Answer each frame of lines with one JSON object, in order; a client that sends faster is read more slowly."""
    try:
        service.refuse_connection()
    except Refusal as refusal:
        await socket.close(1013, refusal.detail)
        return
    with service.connected():
        await socket.accept()
        await _answer_frames(service, socket)


async def _answer_frames(service: Service, socket: WebSocket) -> None:
    answers: asyncio.Queue[asyncio.Task[dict[str, Any]] | None] = asyncio.Queue(_FRAMES)
    sender = asyncio.create_task(_send_answers(socket, answers))
    ended = asyncio.create_task(service.ended.wait())
    try:
        while not service.ended.is_set() and not sender.done():
            receiving = asyncio.create_task(socket.receive())
            await asyncio.wait({receiving, ended, sender}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                receiving.cancel()
                break
            message = receiving.result()
            if message["type"] != "websocket.receive":
                break
            text = message.get("text")
            body = (message.get("bytes") or b"") if text is None else text.encode("utf-8", "surrogatepass")
            await answers.put(asyncio.create_task(_submit(service, body)))
    finally:
        ended.cancel()
        await answers.put(None)
        await sender
        if socket.client_state is WebSocketState.CONNECTED and socket.application_state is WebSocketState.CONNECTED:
            await socket.close(1001 if service.ended.is_set() else 1000)


async def _submit(service: Service, body: bytes) -> dict[str, Any]:
    """The answer to a frame. It waits while the service is full: the connection itself slows its client down."""
    try:
        if len(body) > service.limits.body:
            raise too_large("frame", service.limits.body)
        while service.gatherer.waiting >= service.limits.waiting:
            await asyncio.sleep(0.01)
        return await service.observe(body)
    except Refusal as refusal:
        return {"detail": refusal.detail, "status": refusal.status}


async def _send_answers(socket: WebSocket, answers: "asyncio.Queue[asyncio.Task[dict[str, Any]] | None]") -> None:
    gone = False
    while (task := await answers.get()) is not None:
        try:
            text = json_bytes(await task).decode()
            if not gone:
                await socket.send_text(text)
        except (WebSocketDisconnect, RuntimeError):
            gone = True  # what was received is still processed


def _refuse_encoded(headers: Any) -> None:
    for name, value in headers:
        if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
            raise Refusal(415, "The body must not be compressed. Leave the header Content-Encoding out.")
