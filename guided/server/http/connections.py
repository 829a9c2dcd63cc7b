"""A connection of HTTP/1.1: uvicorn's, with a bound on how long the head of a request may take, and errors as JSON.

In: bytes. Out: as uvicorn's `H11Protocol`. uvicorn closes a connection that is idle between two requests. It waits
without an end for the first request and for the rest of a head, so that whoever opens connections and says little in
them could hold all that the process may open. Here a head has as long as a body (`Settings.body_timeout`): from the
beginning of the connection, or from its own first bytes where it follows another request. Who has said nothing by then
is not answered; a part of a head is told 408.

What is no HTTP is told 400, as uvicorn does, with the body that all errors have. Not done: a bound on the number of
connections, which the system sets for a process.
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
    """See the head."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        settings: Settings = self.config.app.state.server.settings  # type: ignore[union-attr]
        self._seconds = settings.body_timeout
        self._late: asyncio.TimerHandle | None = None
        self._said = False  # something has come of the head that is waited for

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
        self._said = True
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Say that what came is no HTTP, and close."""
        self._refuse(RequestError(msg))

    def _watch(self) -> None:
        """A head has its time while none is complete."""
        if self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete):
            self._forget()
        elif self._late is None:
            self._late = self.loop.call_later(self._seconds, self._give_up)

    def _forget(self) -> None:
        if self._late is not None:
            self._late.cancel()
        self._late, self._said = None, False

    def _give_up(self) -> None:
        if self._said:
            message = f"the head of the request did not arrive within {self._seconds:g} s"
            self._refuse(RequestError(message, code="body_timeout", status=408))
        else:
            self.transport.close()

    def _refuse(self, error: RequestError) -> None:
        """Tell an error, where no answer has begun, and close."""
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
