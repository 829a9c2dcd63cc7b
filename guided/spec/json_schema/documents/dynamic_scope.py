"""The dynamic scope: which anchor a dynamic reference means. In: the resources entered from the root on. Out: `Scope`s.

`$dynamicRef` (2020-12) and `$recursiveRef` (2019-09) resolve first as `$ref` does. Where that finds a dynamic anchor,
the outermost resource entered that has one of the same name wins. So of a path of resources only this matters: for each
name the first of them that has it. A `Scope` says just that, in one order, so that equal scopes are equal values, paths
that agree share their rules, and a recursion that only enters what it has entered before ends. Without dynamic anchors
every scope is empty.
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
