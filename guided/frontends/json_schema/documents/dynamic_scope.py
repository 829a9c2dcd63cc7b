"""Computes the dynamic scope, which determines the target of a dynamic reference. In: the resources entered since the
root. Out: `Scope`s.

`$dynamicRef` (2020-12) and `$recursiveRef` (2019-09) first resolve as `$ref` does. If this finds a dynamic anchor, the
outermost resource on the path from the root that has an anchor of the same name wins.

So only one property of a path matters: for each name, the first resource that has an anchor of this name. A `Scope`
contains exactly this, sorted, so that equal scopes are equal values. Paths with equal scopes share their rules, and a
recursion that enters no new resource terminates. With the obvious representation, the whole path, each round of a
recursion would have its own scope. Without dynamic anchors, every scope is empty.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

__all__ = ["RECURSIVE", "Scope", "enter", "outermost_resource"]

Scope: TypeAlias = tuple[tuple[str, str], ...]
"""(name of a dynamic anchor, URI of the outermost resource that has it), sorted by name."""

RECURSIVE = ""
"""The name of a `$recursiveAnchor`: the empty fragment of the reference `#`."""


def enter(scope: Scope, names: Iterable[str], uri: str) -> Scope:
    """The scope in the resource `uri`, which has dynamic anchors of these names."""
    bound_names = {name for name, _ in scope}
    new_entries = tuple((name, uri) for name in names if name not in bound_names)
    return tuple(sorted(scope + new_entries)) if new_entries else scope


def outermost_resource(scope: Scope, name: str) -> str | None:
    """The URI of the outermost resource with a dynamic anchor of this name."""
    return next((uri for anchor, uri in scope if anchor == name), None)
