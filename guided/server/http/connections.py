"""HTTP/1.1 connections: uvicorn's, with a time limit for the head of a request and with errors as JSON.

In: bytes. Out: as uvicorn's `H11Protocol`. uvicorn closes a connection that is idle between two requests, but it waits
forever for the first request and for the rest of a head. A client could open connections, send little, and use up all
file descriptors of the process. Here a head has the same time limit as a body (`Settings.body_timeout`). The time
starts with the connection, or with the first byte of a head that follows another request. When it ends, the server
answers a partial head with 408, and closes a silent connection without an answer.

Data that is not HTTP gets status 400, as in uvicorn, with the usual error body. Not done: a limit on the number of
connections; the system sets one for each process.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from guided.server.http.errors import RequestError, body_of
from guided.server.settings import Settings

__all__ = ["Connection"]


class Connection(H11Protocol):
    """See the module docstring."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings: Settings = self.config.app.state.server.settings  # type: ignore[union-attr]
        self._seconds = settings.body_timeout
        self._late: asyncio.TimerHandle | None = None
        self._head_has_begun = False  # whether part of the expected head has arrived

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._forget()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._head_has_begun = True
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Report that the data is not HTTP, and close."""
        self._refuse(RequestError(msg))

    def _watch(self) -> None:
        """Start the timer if the current head is incomplete."""
        if self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete):
            self._forget()
        elif self._late is None:
            self._late = self.loop.call_later(self._seconds, self._give_up)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late, self._head_has_begun = None, False

    def _give_up(self) -> None:
        if self._head_has_begun:
            message = f"the head of the request did not arrive within {self._seconds:g} s"
            self._refuse(RequestError(message, code="body_timeout", status=408))
        else:
            self.transport.close()

    def _refuse(self, error: RequestError) -> None:
        """Send an error if no answer has begun, and close."""
        self._forget()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(body_of(error)).encode()
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            reason = HTTPStatus(error.status).phrase.encode()
            begin = h11.Response(status_code=error.status, headers=headers, reason=reason)
            for event in (begin, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
