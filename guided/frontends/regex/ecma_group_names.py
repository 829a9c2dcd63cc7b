"""Checks the names of groups as ECMA-262 does. In: the groups, alternatives and names of a pattern, in order. Out:
whether a name may be defined at the cursor: only if all groups with this name are in other alternatives.

    (?<year>..)-..|..-(?<year>..)      allowed: only one of the two groups can match
    (?<year>..)-(?<year>..)            an error

How: a name is taken while its group is in the current alternative of an open group. The end of an alternative releases
its names, and the end of a group takes the names of all its alternatives. Cost: one step for each name and each group
around it; the smaller of two sets is added to the larger one.
"""

from __future__ import annotations

from guided.meter import spend

__all__ = ["GroupNames"]


class GroupNames:
    """The names of the groups up to the cursor."""

    def __init__(self) -> None:
        self.all_names: set[str] = set()
        """All names so far."""
        self._taken_names: set[str] = set()
        self._open_groups: list[tuple[set[str], set[str]]] = [(set(), set())]
        """For each open group, from the outermost: the names in its finished alternatives and in its current one."""

    def define(self, name: str) -> bool:
        """Define a name. False if it is taken."""
        if name in self._taken_names:
            return False
        for names in (self.all_names, self._taken_names, self._open_groups[-1][1]):
            names.add(name)
        return True

    def open_group(self) -> None:
        """Enter a group."""
        self._open_groups.append((set(), set()))

    def begin_branch(self) -> None:
        """End the current alternative, and begin the next one."""
        finished_names, current_names = self._open_groups[-1]
        spend(1 + len(current_names))
        self._taken_names -= current_names
        self._open_groups[-1] = (_unite(finished_names, current_names), set())

    def close_group(self) -> None:
        """Leave a group."""
        finished_names, current_names = self._open_groups.pop()
        spend(1 + len(finished_names))
        self._taken_names |= finished_names
        outer_finished, outer_current = self._open_groups[-1]
        self._open_groups[-1] = (outer_finished, _unite(outer_current, _unite(finished_names, current_names)))


def _unite(first: set[str], second: set[str]) -> set[str]:
    """The union of two sets. Changes one of them, so the caller must not use them any more."""
    small, large = sorted((first, second), key=len)
    large |= small
    return large
