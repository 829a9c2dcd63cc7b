"""HTTP/1.1 connections: uvicorn's, plus a time limit for the headers of a request, and JSON errors.

In: bytes. Out: as for uvicorn's `H11Protocol`. uvicorn closes a connection that is idle between two requests, but it
waits forever for the first request and for the rest of its headers. A client could open connections, send little, and
use up all file descriptors of the process. Here the headers have the same time limit as a body
(`Settings.body_timeout`). The time starts with the connection, or with the first byte of headers that follow another
request. When it has passed, the server answers partial headers with 408, and closes a silent connection without an
answer.

Data that is not HTTP gets status 400, as in uvicorn, with the usual error body. If the server closed the connection at
once, data that is still arriving would reset it, and the client could lose the error before reading it (RFC 9112,
section 9.6). So the server closes only its sending side at first. It drops whatever else arrives, until the client
closes its side or `_CLOSING_SECONDS` have passed. A TLS connection cannot close one side, so it is closed at once.

Not done: a limit on the number of connections, since the system sets one for each process.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final

import h11
from h11._connection import DEFAULT_MAX_INCOMPLETE_EVENT_SIZE
from uvicorn.protocols.http.h11_impl import H11Protocol

from guided.server.http.errors import RequestError, make_error_body
from guided.server.settings import Settings

__all__ = ["Connection"]

_CLOSING_SECONDS: Final = 1.0  # time for a client to read an error


class _GentleTransport:
    """The transport of a request. If an answer closes the connection before the body has arrived, the server closes its
    sending side first.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection, self._transport = connection, connection.transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def close(self) -> None:
        """See `asyncio.Transport`."""
        if self._connection.conn.their_state is h11.SEND_BODY and self._transport.can_write_eof():
            self._connection.close_gently()
        else:
            self._transport.close()


class _Messages(h11.Connection):
    """Reads requests. A request with both a length and a coding of its body is invalid: a proxy may believe the length,
    and take the rest of the body for the next request (RFC 9112, section 6.1).
    """

    def next_event(self) -> Any:
        """See `h11.Connection`."""
        event = super().next_event()
        if isinstance(event, h11.Request) and {b"content-length", b"transfer-encoding"} <= dict(event.headers).keys():
            raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding")
        return event


class Connection(H11Protocol):
    """See the module docstring."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        max_size = self.config.h11_max_incomplete_event_size
        self.conn = _Messages(h11.SERVER, DEFAULT_MAX_INCOMPLETE_EVENT_SIZE if max_size is None else max_size)
        settings: Settings = self.config.app.state.server.settings  # type: ignore[union-attr]
        self._seconds = settings.body_timeout
        self._timer: asyncio.TimerHandle | None = None
        self._has_data = False  # whether part of the expected headers has arrived
        self._is_closing = False  # whether an error was sent and further data is dropped

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._is_closing:
            return
        self._has_data = True
        super().data_received(data)
        if self.cycle is not None and self.cycle.transport is self.transport:
            self.cycle.transport = _GentleTransport(self)  # type: ignore[assignment]
        self._update_timer()

    def shutdown(self) -> None:
        """Close the connection, but only after a running request is answered."""
        if self._is_closing:
            self.transport.close()
        else:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Report that the data is not HTTP, and close."""
        self._send_error(RequestError(msg))

    def _update_timer(self) -> None:
        """Start the timer if the current headers are incomplete; otherwise stop it."""
        if self._is_closing:
            return
        if self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete):
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self._seconds, self._time_out)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._has_data = None, False

    def _time_out(self) -> None:
        if self._has_data:
            message = f"the headers of the request did not arrive within {self._seconds:g} s"
            self._send_error(RequestError(message, code="body_timeout", status=408))
        else:
            self.transport.close()

    def _send_error(self, error: RequestError) -> None:
        """Send an error if no answer has begun, and close."""
        self._stop_timer()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps(make_error_body(error)).encode()
            headers = [
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                ("connection", "close"),
            ]
            reason = HTTPStatus(error.status).phrase.encode()
            head = h11.Response(status_code=error.status, headers=headers, reason=reason)
            for event in (head, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
            if self.transport.can_write_eof():
                self.close_gently()
                return
        self.transport.close()

    def close_gently(self) -> None:
        """Close the sending side now, and the receiving side later."""
        self._is_closing = True
        self.transport.write_eof()
        self._timer = self.loop.call_later(_CLOSING_SECONDS, self.transport.close)
        if self.cycle is not None:  # a request whose body is invalid
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.flow.resume_reading()
