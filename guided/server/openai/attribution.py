"""Which tokens of an answer are its text. In: tokens with their characters, and which characters became text. Out: the
tokens of the text.

Problem. An answer with calls is written as one sequence of tokens: text, marks, names, arguments. The client is told
text and calls apart, so log probabilities and ids that go with the text must not hold those of the marks. What a
character is may be known only some tokens later: `<tool` may go on as text.

    tokens      "It"   " is"   "\\n"   "<tool"   "_call>"   ...      written
    characters  0..2   2..5    5..6   6..11     11..17              become text, or do not
    text        0..5                                                so the first two tokens are shown

A character that several tokens spell belongs to all of them: they are one group. A token that spells text and a mark is
text. Cost: each token and each character is looked at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from guided.engine.result import StreamEvent
from guided.sampling.logprobs import TokenLogprobs

__all__ = ["Attribution", "ShownToken"]


class ShownToken(NamedTuple):
    """A token that a client may be told.

    Attributes:
        id: of the token.
        forced: whether the specification or a tool forced it.
        logprobs: None where they were not asked for.
        is_text: whether it is of the text; else it is of the reasoning.
    """

    id: int
    forced: bool
    logprobs: TokenLogprobs | None
    is_text: bool = True

    @classmethod
    def of(cls, event: StreamEvent, *, is_text: bool) -> list[ShownToken]:
        """Those of an event."""
        scores: Sequence[TokenLogprobs | None] = event.logprobs or (None,) * len(event.tokens)
        return [cls(id, event.forced, score, is_text) for id, score in zip(event.tokens, scores, strict=True)]


@dataclass(slots=True)
class _Group:
    """Tokens that spell the same characters.

    Attributes:
        begin, end: these characters.
        kind: whether they are text (True) or reasoning (False); None: neither, as far as is known.
    """

    begin: int
    end: int
    kind: bool | None = None
    tokens: list[ShownToken] = field(default_factory=list)


class Attribution:
    """See the head.

    Attributes:
        size: how many characters were written.
    """

    def __init__(self) -> None:
        self.size = 0
        self._groups = deque[_Group]()
        self._begun = list[ShownToken]()  # of a character that is not complete

    def write(self, token: ShownToken | None, texts: Sequence[str], *, is_hidden: bool) -> None:
        """A token is written (None: the answer ends), and with it these texts are complete.

        The first of two texts is that of a character which the token has broken off. `is_hidden`: the token has no text
        of its own.
        """
        if token is None or is_hidden or len(texts) > 1:
            self._complete("".join(texts[:1]))
            self._begun, texts = [], texts[1:]
        if token is not None and not is_hidden:
            self._begun.append(token)
            self._complete("".join(texts))

    def _complete(self, text: str) -> None:
        if text:
            self._groups.append(_Group(self.size, self.size + len(text), None, self._begun))
            self.size, self._begun = self.size + len(text), []

    def say(self, places: Iterable[int], *, is_text: bool) -> None:
        """The characters at these places, in order, are text or reasoning."""
        groups = iter(self._groups)
        group = next(groups, None)
        for place in places:
            while group is not None and group.end <= place:
                group = next(groups, None)
            if group is not None and group.begin <= place:
                group.kind = group.kind or is_text

    def settled(self, undecided: int) -> list[ShownToken]:
        """The tokens of text and reasoning that are known now; what begins at character `undecided` is not."""
        out = list[ShownToken]()
        while self._groups and (self._groups[0].end <= undecided or self._groups[0].kind is not None):
            group = self._groups.popleft()
            if group.kind is not None:
                out += [token._replace(is_text=group.kind) for token in group.tokens]
        return out
