"""The worst findings as requests, for `python -m benchmarks.server_neighbours --inputs`.

In: findings and constructs. Out: a list of {"name", "route", "body"}, as JSON. A specification is sent to the route
that makes the costly call: /v1/grammars/explain for an explanation, /v1/completions for masks. Python types,
compositions, vocabularies, and bodies that are too long for a server cannot be sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from benchmarks.bad_inputs.construct import Construct
from benchmarks.bad_inputs.search import Finding

__all__ = ["request_of", "worst_requests"]

_MAX_BODY: Final = 4 << 20
_ROUTES: Final = {"explain": "/v1/grammars/explain", "lint": "/v1/grammars/check", "sample": "/v1/grammars/sample"}
_FIELDS: Final = {
    "json_schema": "json_schema",
    "regex": "regex",
    "gbnf": "gbnf",
    "lark": "lark",
    "structural_tag": "structural_tag",
    "choice": "structured_outputs",
}


def request_of(construct: Construct, call: str, n: int) -> dict[str, Any] | None:
    """A request that makes a server call the construct, or None if no request can."""
    specification = construct.build(n)
    if construct.is_request:
        route, body = construct.kind, specification
    elif construct.kind in _FIELDS and not (construct.kind == "regex" and construct.options):
        route = _ROUTES.get(call.split()[0], "/v1/completions")
        body = {_FIELDS[construct.kind]: {"choice": specification} if construct.kind == "choice" else specification}
        if route == "/v1/completions":
            body |= {"prompt": "a", "max_tokens": 1}
    else:
        return None
    if len(json.dumps(body)) > _MAX_BODY:
        return None
    return {"name": f"{construct.name}, n={n}: {call}", "route": route, "body": body}


def worst_requests(findings: Iterable[Finding], by_name: Mapping[str, Construct], most: int) -> list[dict[str, Any]]:
    """The requests of the worst findings, one for each construct."""
    out: dict[str, dict[str, Any]] = {}
    for finding in sorted(findings, key=lambda each: -each.ratio):
        if finding.construct in out or len(out) == most:
            continue
        request = request_of(by_name[finding.construct], finding.call, finding.n)
        if request is not None:
            out[finding.construct] = request
    return list(out.values())
