"""Gives the calls of a conversation their ids.

In: the names of the calls, and the ids that the caller or the model gave them. Out: ids of one form, such as
`functions.f:0` (Kimi K2) or nine letters and digits (Mistral). New ids contain the number of the call, so they depend
only on earlier calls. Cost: constant for each call, on average.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from guided.frontends.structural_tag.markup import Pattern

__all__ = ["SHORT_IDS", "CallIds"]

SHORT_IDS: Final = Pattern("{id}")
"""Nine letters and digits."""


class CallIds:
    """The ids of one conversation.

    Args:
        form: the form of new ids.
        used: the ids of earlier calls.
    """

    def __init__(self, form: Pattern = SHORT_IDS, used: Collection[str] = ()) -> None:
        self._form, self._used = form, set(used)
        self._call_count = self._number = len(used)

    def fits(self, call_id: str, name: str) -> bool:
        """Whether an id has the form, for a call of this tool."""
        values = self._form.read(call_id)
        return values is not None and values.get("name", name) == name

    def keep(self, call_id: str) -> str:
        """Give the next call this id, and return it."""
        self._used.add(call_id)
        self._call_count += 1
        return call_id

    def make(self, name: str) -> str:
        """Give the next call a new id, and return it."""
        self._number = max(self._number, self._call_count)
        while (call_id := self._form.fill(self._number).replace("{name}", name)) in self._used:
            self._number += 1
        return self.keep(call_id)

    def choose(self, call_id: str, name: str) -> str:
        """Give the next call the id that the model wrote, or a new one if there is none, or if an earlier call has it.

        Kimi K2 should number the calls of the whole conversation, but sometimes begins again in a new message. Clients
        find the result of a call by its id, so repeated ids would mix up results.
        """
        return self.keep(call_id) if call_id and call_id not in self._used else self.make(name)
