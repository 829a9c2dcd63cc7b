"""The dynamic scope: which anchor does a dynamic reference mean? In: the resources entered since the root. Out:
`Scope`s.

`$dynamicRef` (2020-12) and `$recursiveRef` (2019-09) first resolve as `$ref` does. If that finds a dynamic anchor,
the outermost resource on the path from the root that has an anchor of the same name wins.

So all that matters of a path is, for each name, the first resource that has it. A `Scope` says exactly that, sorted,
so that equal scopes are equal values. Paths that agree share their rules, and a recursion that enters only resources
that it has entered before ends. The obvious way, to keep the whole path, would give each round of a recursion a scope
of its own. Without dynamic anchors every scope is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["RECURSIVE", "Scope", "entered", "outermost"]

Scope: TypeAlias = tuple[tuple[str, str], ...]
"""(name of a dynamic anchor, URI of the outermost resource that has it), sorted by name."""

RECURSIVE = ""
"""The name under which `$recursiveAnchor` stands: the fragment of the `#` that refers to it."""


def entered(scope: Scope, names: Iterable[str], uri: str) -> Scope:
    """The scope in the resource `uri`, which has dynamic anchors of these names."""
    known = {name for name, _ in scope}
    added = tuple((name, uri) for name in names if name not in known)
    return tuple(sorted(scope + added)) if added else scope


def outermost(scope: Scope, name: str) -> str | None:
    """The URI of the outermost resource with a dynamic anchor of this name."""
    return next((uri for known, uri in scope if known == name), None)
