"""Which web pages may use the server. In: a request's headers, and the address it came to. Out: a refusal, or nothing.

Problem. A browser sends requests of any page to any address it can reach, and hides only the answer. With plain text as
the content type it sends no preflight request. So a page of another site could use the model of a server without keys.

| a page asks | check |
|---|---|
| from another origin | `Sec-Fetch-Site`, which no page can set, is neither `cross-site` nor `same-site` |
| the same over plain HTTP, where browsers leave that header out | `Origin` names the host and port of `Host` |
| by its own name, made to lead to this machine (DNS rebinding) | `Host` is an IP address, `localhost`, or allowed |

A page that the browser calls `same-origin` passes although `Host` differs: a proxy in front may have changed `Host`.
The last two checks are made only without API keys, since no page knows a key. Hosts are checked on loopback, and at
every address once `allowed_hosts` names some. Programs send neither `Origin` nor `Sec-Fetch-Site`, and just pass.

Sources: the Fetch standard (`Origin`), Fetch Metadata (`Sec-Fetch-Site`), RFC 9110 section 7.2 (`Host`). Cost: a few
comparisons. It does not protect from other programs of this machine: that is what API keys are for.
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
    """Raise RequestError if the request is from a page of another origin that `allowed_origins` does not list."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if "*" in settings.allowed_origins or origin in settings.allowed_origins:
        return
    if site is not None:
        is_foreign = site in ("cross-site", "same-site")
    else:
        is_foreign = origin is not None and not settings.api_keys and not _is_of_host(origin, headers.get("host", ""))
    if is_foreign:
        message = f"pages of {brief(origin or 'another origin')} may not ask: the server allows them with "
        raise RequestError(f"{message}--allowed-origins", code="origin_not_allowed", status=403)


def check_host(headers: Headers, scope: Scope, settings: Settings) -> None:
    """Raise RequestError if a page of another site may have pointed the request's host name at this machine."""
    given, allowed = headers.get("host"), settings.allowed_hosts
    if given is None or "*" in allowed or not (allowed or (_is_loopback(scope) and not settings.api_keys)):
        return
    host = (_host_and_port(given, "http") or ("", None))[0]
    if host != "localhost" and not _is_address(host) and host not in map(str.lower, allowed):
        message = f"the server does not answer as {brief(given)}: the server allows names with --allowed-hosts"
        raise RequestError(message, code="host_not_allowed", status=403)


def _is_of_host(origin: str, host: str) -> bool:
    """Whether an origin and the `Host` header name the same host and port. Never true for "null", an opaque origin."""
    scheme, separator, place = origin.partition("://")
    own = _host_and_port(place, scheme.lower()) if separator else None
    return own is not None and own == _host_and_port(host, scheme.lower())


def _host_and_port(place: str, scheme: str) -> tuple[str, int | None] | None:
    """Of "localhost:8000" or "[::1]"; the default port of the scheme if there is none. None: malformed."""
    if any(sign in place for sign in "@/?#\\"):
        return None
    try:
        parts = urlsplit(f"//{place}")
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
    if not _is_address(host):  # the path of a socket
        return False
    address = ip_address(host)
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
