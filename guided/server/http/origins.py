"""Decides which web pages may use the server. In: a request's headers, and the address at which it arrived. Out: a
RequestError, or nothing.

Problem. A browser sends the requests of any page to any address that it can reach, and hides only the answer. With
plain text as the content type, it sends no preflight request. So a page from another site could use a server without
keys.

| how a page sends a request | check |
|---|---|
| from another origin | `Sec-Fetch-Site`, which no page can set, is neither `cross-site` nor `same-site` |
| the same over plain HTTP, where browsers send no `Sec-Fetch-Site` | `Origin` has the host and port of `Host` |
| to its own host name, pointed at this machine (DNS rebinding) | `Host` is an IP address, `localhost`, or allowed |

If the browser marks a request as `same-origin`, `Origin` and `Host` may differ: a reverse proxy may have changed
`Host`. The last two checks are made only without API keys, since no page knows a key; the last one only if the request
arrives on loopback. With `allowed_hosts`, the last check is always made. Programs send neither `Origin` nor
`Sec-Fetch-Site`, so they pass the first two checks.

Sources: the Fetch standard (`Origin`), Fetch Metadata (`Sec-Fetch-Site`), RFC 9110 section 7.2 (`Host`). Cost: a few
comparisons. Not done: protection from other programs on this machine, which needs API keys.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from guided.errors import brief
from guided.server.http.errors import RequestError
from guided.server.settings import Settings

__all__ = ["check_host", "check_origin"]

_PORTS: Final = {"http": 80, "https": 443}


def check_origin(headers: Headers, settings: Settings) -> None:
    """Raise RequestError if a page from another origin, not listed in `allowed_origins`, sent the request."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if "*" in settings.allowed_origins or origin in settings.allowed_origins:
        return
    if site is not None:
        is_foreign = site in ("cross-site", "same-site")
    else:
        is_foreign = origin is not None and not settings.api_keys and not _matches_host(origin, headers.get("host", ""))
    if is_foreign:
        reason = f"requests from pages of {brief(origin or 'another origin')} are not allowed"
        message = f"{reason}: start the server with --allowed-origins to allow them"
        raise RequestError(message, code="origin_not_allowed", status=403)


def check_host(headers: Headers, scope: Scope, settings: Settings) -> None:
    """Raise RequestError if another site may have pointed the request's host name at this machine."""
    name, allowed_hosts = headers.get("host"), settings.allowed_hosts
    if name is None or "*" in allowed_hosts or not (allowed_hosts or (_is_loopback(scope) and not settings.api_keys)):
        return
    host = (_split_host_and_port(name, "http") or ("", None))[0]
    if host != "localhost" and not _is_address(host) and host not in map(str.lower, allowed_hosts):
        message = f"the host name {brief(name)} is not allowed: start the server with --allowed-hosts to allow it"
        raise RequestError(message, code="host_not_allowed", status=403)


def _matches_host(origin: str, host: str) -> bool:
    """Whether an origin and the `Host` header name the same host and port. False for the opaque origin "null"."""
    scheme, separator, netloc = origin.partition("://")
    origin_host = _split_host_and_port(netloc, scheme.lower()) if separator else None
    return origin_host is not None and origin_host == _split_host_and_port(host, scheme.lower())


def _split_host_and_port(netloc: str, scheme: str) -> tuple[str, int | None] | None:
    """Split "localhost:8000" or "[::1]". Without a port, uses the default port of the scheme. None if malformed."""
    if any(sign in netloc for sign in "@/?#\\"):
        return None
    try:
        parts = urlsplit(f"//{netloc}")
        return (parts.hostname or "").removesuffix("."), parts.port or _PORTS.get(scheme)
    except ValueError:
        return None


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(scope: Scope) -> bool:
    """Whether the request arrived at a loopback address."""
    host = (scope.get("server") or ("", None))[0]
    if not _is_address(host):  # the path of a Unix socket
        return False
    address = ip_address(host)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
